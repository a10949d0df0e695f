//! Times as callers give them: an absolute time or a duration, both within the horizon.

use crate::command::When;
use crate::error::Rejection;
use crate::limits::HORIZON_MS;
use crate::record::execution::Deadline;
use crate::text::check_range;
use crate::time::Time;

/// The moment a start or a delay means. One in the past means now.
pub fn moment(when: When, now: Time) -> Time {
    match when {
        When::At(at) => at.max(now),
        When::InMs(ms) => now + ms,
    }
}

pub fn validate(field: &'static str, when: When, now: Time) -> Result<(), Rejection> {
    match when {
        When::At(at) => validate_at(field, at, now),
        When::InMs(ms) => check_range(field, ms, 0, HORIZON_MS),
    }
}

/// The moment a deadline means; it must be ahead of now and of the start.
pub fn deadline(deadline: Deadline, start: Time, now: Time) -> Result<Time, Rejection> {
    let at = match deadline {
        Deadline::At(at) => {
            validate_at("deadline", at, now)?;
            at
        }
        Deadline::InMs(ms) => {
            check_range("deadline", ms, 0, HORIZON_MS)?;
            now + ms
        }
    };
    if at <= now {
        return Err(Rejection::DeadlineInPast);
    }
    if at <= start {
        return Err(Rejection::invalid("deadline", "is not after the start"));
    }
    Ok(at)
}

fn validate_at(field: &'static str, at: Time, now: Time) -> Result<(), Rejection> {
    let max = (now + HORIZON_MS).ms();
    if at.ms() > max {
        return Err(Rejection::OutOfRange { field, min: 0, max, got: at.ms() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_ms(1_000);

    #[test]
    fn ex_2_a_start_in_the_past_means_now() {
        assert_eq!(moment(When::At(Time::ZERO), NOW), NOW);
        assert_eq!(moment(When::InMs(0), NOW), NOW);
        assert_eq!(moment(When::InMs(5), NOW), NOW + 5);
    }

    #[test]
    fn ex_2_a_deadline_in_the_past_is_refused() {
        assert_eq!(deadline(Deadline::At(NOW), NOW, NOW), Err(Rejection::DeadlineInPast));
        assert_eq!(deadline(Deadline::InMs(0), NOW, NOW), Err(Rejection::DeadlineInPast));
        assert_eq!(deadline(Deadline::InMs(1), NOW, NOW), Ok(NOW + 1));
        assert_eq!(deadline(Deadline::InMs(5), NOW + 5, NOW).unwrap_err().code(), "invalid_argument");
    }

    #[test]
    fn ex_2_times_beyond_the_horizon_are_refused() {
        assert!(validate("start", When::InMs(HORIZON_MS), NOW).is_ok());
        assert!(validate("start", When::InMs(HORIZON_MS + 1), NOW).is_err());
        assert!(validate("start", When::At(NOW + HORIZON_MS), NOW).is_ok());
        assert!(validate("start", When::At(NOW + HORIZON_MS + 1), NOW).is_err());
        assert!(deadline(Deadline::InMs(u64::MAX), NOW, NOW).is_err());
    }
}
