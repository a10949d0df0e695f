//! Times as people read them: `4m 12s`, `3h`, `20:15:00`. Clock times are UTC.

use std::time::{SystemTime, UNIX_EPOCH};

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The time of this machine. Ages that it gives are as good as its clock.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// A span of time in the two largest units that tell something.
pub fn span(ms: u64) -> String {
    let two = |large: u64, unit: char, rest: u64, lesser: char| match rest {
        0 => format!("{large}{unit}"),
        rest => format!("{large}{unit} {rest}{lesser}"),
    };
    match ms {
        0..SECOND => format!("{ms}ms"),
        // Cut, not rounded: 9.96 s would read as 10.0s.
        SECOND..10_000 => format!("{}.{}s", ms / SECOND, ms % SECOND / 100),
        10_000..MINUTE => format!("{}s", ms / SECOND),
        MINUTE..HOUR => two(ms / MINUTE, 'm', ms % MINUTE / SECOND, 's'),
        HOUR..DAY => two(ms / HOUR, 'h', ms % HOUR / MINUTE, 'm'),
        _ => two(ms / DAY, 'd', ms % DAY / HOUR, 'h'),
    }
}

/// A span in its largest unit, for columns.
pub fn age(ms: u64) -> String {
    match ms {
        0..MINUTE => format!("{}s", ms / SECOND),
        MINUTE..HOUR => format!("{}m", ms / MINUTE),
        HOUR..DAY => format!("{}h", ms / HOUR),
        _ => format!("{}d", ms / DAY),
    }
}

/// `12s ago`.
pub fn ago(at: u64, now: u64) -> String {
    format!("{} ago", coarse(now.saturating_sub(at)))
}

/// `in 41s`, or `now` if it is past.
pub fn ahead(at: u64, now: u64) -> String {
    match at.saturating_sub(now) {
        0 => "now".to_owned(),
        left => format!("in {}", coarse(left)),
    }
}

/// Whole seconds below a minute: nobody waits for the tenths of what is still going on.
fn coarse(ms: u64) -> String {
    if ms < MINUTE { age(ms) } else { span(ms) }
}

/// `2026-11-16 20:15:00`, UTC.
pub fn utc(ms: u64) -> String {
    let (year, month, day) = date(ms / DAY);
    format!("{year:04}-{month:02}-{day:02} {}", clock(ms))
}

/// `20:15:00`, UTC.
pub fn clock(ms: u64) -> String {
    let of_day = ms % DAY;
    format!("{:02}:{:02}:{:02}", of_day / HOUR, of_day % HOUR / MINUTE, of_day % MINUTE / SECOND)
}

/// The date of a day since 1970. Years are counted from March, so that a leap day ends one.
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_well() {
        for (ms, text) in [
            (0, "0ms"),
            (340, "340ms"),
            (1_250, "1.2s"),
            (9_999, "9.9s"),
            (41_700, "41s"),
            (252_000, "4m 12s"),
            (300_000, "5m"),
            (3 * HOUR + 5 * MINUTE, "3h 5m"),
            (2 * DAY + 4 * HOUR, "2d 4h"),
        ] {
            assert_eq!(span(ms), text);
        }
        assert_eq!([400, 12_345, 252_000, 3 * HOUR, 50 * HOUR].map(age), ["0s", "12s", "4m", "3h", "2d"]);
        assert_eq!((ago(1_000, 13_400), ahead(54_000, 13_000)), ("12s ago".into(), "in 41s".into()));
        assert_eq!((ago(5, 0), ahead(0, 5)), ("0s ago".into(), "now".into()), "clocks may differ");
    }

    #[test]
    fn a_time_is_written_as_it_is_read() {
        for text in ["1970-01-01T00:00:00Z", "2000-02-29T12:00:59Z", "2026-11-16T20:15:00Z", "2100-03-01T23:59:59Z"] {
            let ms = weft_api::Moment::parse(text).unwrap().0;
            assert_eq!(utc(ms), text.replace('T', " ").trim_end_matches('Z'));
        }
    }
}
