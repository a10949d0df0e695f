//! The ranges of a policy. Nothing is clamped: what is out of range is refused.

use crate::error::Rejection;
use crate::limits::*;
use crate::record::execution::{Backoff, Policy, Retry};
use crate::text::{Text, check_range, check_token};

pub fn validate(policy: &Policy) -> Result<(), Rejection> {
    let Policy { retry, attempt_timeout_ms, max_reclaims, max_replays, retention_ms, idempotency_ttl_ms } = policy;
    validate_retry(retry)?;
    if let Some(ms) = attempt_timeout_ms {
        check_range("attempt_timeout_ms", *ms, ATTEMPT_TIMEOUT_MS_MIN, ATTEMPT_TIMEOUT_MS_MAX)?;
    }
    check_range("max_reclaims", (*max_reclaims).into(), 0, RECLAIMS_MAX.into())?;
    check_range("max_replays", (*max_replays).into(), 0, REPLAYS_MAX.into())?;
    if let Some(ms) = retention_ms {
        check_range("retention_ms", *ms, 0, RETENTION_MS_MAX)?;
    }
    check_range("idempotency_ttl_ms", *idempotency_ttl_ms, IDEMPOTENCY_TTL_MS_MIN, IDEMPOTENCY_TTL_MS_MAX)
}

fn validate_retry(retry: &Retry) -> Result<(), Rejection> {
    check_range("retry.max_retries", retry.max_retries.into(), 0, RETRIES_MAX.into())?;
    match retry.backoff {
        Backoff::Fixed { delay_ms } => check_range("retry.backoff", delay_ms, 0, BACKOFF_MS_MAX)?,
        Backoff::Exponential { initial_ms, max_ms, multiplier_thousandths } => {
            check_range("retry.backoff", initial_ms, 0, BACKOFF_MS_MAX)?;
            check_range("retry.backoff", max_ms, 0, BACKOFF_MS_MAX)?;
            let multiplier = u64::from(multiplier_thousandths);
            let (min, max) = (u64::from(MULTIPLIER_THOUSANDTHS_MIN), u64::from(MULTIPLIER_THOUSANDTHS_MAX));
            check_range("retry.backoff", multiplier, min, max)?;
        }
    }
    validate_categories("retry.retry_on", &retry.retry_on)?;
    validate_categories("retry.never_on", &retry.never_on)
}

fn validate_categories(field: &'static str, categories: &[Text]) -> Result<(), Rejection> {
    if categories.len() > CATEGORIES_MAX {
        return Err(Rejection::invalid(field, "has more than 32 categories"));
    }
    categories.iter().try_for_each(|category| check_token(field, category, CATEGORY_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Policy)) -> bool {
        let mut policy = Policy::default();
        change(&mut policy);
        validate(&policy).is_err()
    }

    #[test]
    fn ex_7_each_range_holds_at_both_ends() {
        assert!(!refused(|_| {}));
        assert!(!refused(|p| p.retry.max_retries = 1000));
        assert!(refused(|p| p.retry.max_retries = 1001));
        assert!(!refused(|p| p.attempt_timeout_ms = Some(100)));
        assert!(refused(|p| p.attempt_timeout_ms = Some(99)));
        assert!(refused(|p| p.attempt_timeout_ms = Some(30 * DAY_MS + 1)));
        assert!(refused(|p| p.max_reclaims = 100_001));
        assert!(refused(|p| p.max_replays = 1001));
        assert!(!refused(|p| p.retention_ms = None));
        assert!(refused(|p| p.retention_ms = Some(RETENTION_MS_MAX + 1)));
        assert!(refused(|p| p.idempotency_ttl_ms = 59_999));
        assert!(refused(|p| p.idempotency_ttl_ms = 30 * DAY_MS + 1));
        assert!(refused(|p| p.retry.backoff = Backoff::Fixed { delay_ms: DAY_MS + 1 }));
        let exponential = |initial_ms, max_ms, multiplier_thousandths| Backoff::Exponential {
            initial_ms,
            max_ms,
            multiplier_thousandths,
        };
        assert!(!refused(|p| p.retry.backoff = exponential(DAY_MS, DAY_MS, 10_000)));
        assert!(refused(|p| p.retry.backoff = exponential(DAY_MS + 1, DAY_MS, 1_000)));
        assert!(refused(|p| p.retry.backoff = exponential(0, DAY_MS + 1, 1_000)));
        assert!(refused(|p| p.retry.backoff = exponential(0, 0, 999)));
        assert!(refused(|p| p.retry.backoff = exponential(0, 0, 10_001)));
        assert!(refused(|p| p.retry.retry_on = vec!["a,b".into()]));
        assert!(refused(|p| p.retry.never_on = vec!["a".into(); 33]));
    }
}
