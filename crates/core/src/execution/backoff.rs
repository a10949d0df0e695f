//! How long a retry, a reclaim or a failing timer waits. Whole numbers only; randomness comes with the command.

use crate::limits::{RECLAIM_BACKOFF_MAX_MS, RECLAIM_BACKOFF_MS, RECLAIM_FREE};
use crate::record::execution::{Backoff, Jitter, Retry};

/// The wait before the retry that follows `retries_used` earlier ones.
pub fn retry_ms(retry: &Retry, retries_used: u32, entropy: u64) -> u64 {
    jittered(base_ms(retry.backoff, retries_used), retry.jitter, entropy)
}

fn base_ms(backoff: Backoff, retries_used: u32) -> u64 {
    match backoff {
        Backoff::Fixed { delay_ms } => delay_ms,
        Backoff::Exponential { initial_ms, max_ms, multiplier_thousandths } => {
            let mut base = initial_ms;
            for _ in 0..retries_used {
                let next = (base.saturating_mul(u64::from(multiplier_thousandths)) / 1000).min(max_ms);
                if next == base {
                    break;
                }
                base = next;
            }
            base
        }
    }
}

fn jittered(base: u64, jitter: Jitter, entropy: u64) -> u64 {
    match jitter {
        Jitter::None => base,
        Jitter::Full => entropy % (base + 1),
        Jitter::Equal => base / 2 + entropy % (base / 2 + 1),
    }
}

/// The wait after the `in_row`-th lost lease in a row; the first few requeue at once.
pub fn reclaim_ms(in_row: u32) -> u64 {
    if in_row <= RECLAIM_FREE {
        return 0;
    }
    let doublings = (in_row - RECLAIM_FREE - 1).min(32);
    (RECLAIM_BACKOFF_MS << doublings).min(RECLAIM_BACKOFF_MAX_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults(jitter: Jitter) -> Retry {
        Retry { jitter, ..Retry::default() }
    }

    #[test]
    fn ex_50_the_defaults_double_up_to_their_maximum() {
        let waits: Vec<u64> = (0..9).map(|used| retry_ms(&defaults(Jitter::None), used, 7)).collect();
        assert_eq!(waits, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
    }

    #[test]
    fn ex_50_thousandths_saturate_and_fixed_stays() {
        let slow = Backoff::Exponential { initial_ms: 100, max_ms: u64::MAX, multiplier_thousandths: 1_500 };
        assert_eq!((0..4).map(|used| base_ms(slow, used)).collect::<Vec<_>>(), [100, 150, 225, 337]);
        assert_eq!(base_ms(slow, 1000), u64::MAX / 1000);
        let constant = Backoff::Exponential { initial_ms: 5, max_ms: 9, multiplier_thousandths: 1_000 };
        assert_eq!(base_ms(constant, 1000), 5);
        assert_eq!(base_ms(Backoff::Fixed { delay_ms: 42 }, 1000), 42);
        let above = Backoff::Exponential { initial_ms: 90, max_ms: 50, multiplier_thousandths: 2_000 };
        assert_eq!((base_ms(above, 0), base_ms(above, 1)), (90, 50));
    }

    #[test]
    fn ex_51_jitter_stays_in_its_range() {
        for entropy in [0, 1, 499, 500, 999, 1000, 1001, u64::MAX] {
            assert_eq!(retry_ms(&defaults(Jitter::None), 0, entropy), 1_000);
            assert_eq!(retry_ms(&defaults(Jitter::Full), 0, entropy), entropy % 1_001);
            assert_eq!(retry_ms(&defaults(Jitter::Equal), 0, entropy), 500 + entropy % 501);
        }
        let none = Retry { backoff: Backoff::Fixed { delay_ms: 0 }, ..Retry::default() };
        assert_eq!(retry_ms(&none, 0, u64::MAX), 0);
    }

    #[test]
    fn ex_54_three_losses_are_free_and_later_ones_double() {
        let waits: Vec<u64> = (1..=11).map(reclaim_ms).collect();
        assert_eq!(waits, [0, 0, 0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!(reclaim_ms(u32::MAX), 60_000);
    }
}
