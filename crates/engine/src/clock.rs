//! Store time on this node: the node's own steady clock plus the measured offset. Also how far the machine's time of day is
//! from the store's, by which nothing is decided but whether the node should take work.

use crate::runtime::Runtime;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use weft_core::Time;
use weft_core::planted::{self, Defect};

pub struct Clock {
    runtime: Arc<dyn Runtime>,
    offset_ms: AtomicI64,
    skew_ms: AtomicI64,
    /// Half the time that the last reading took: it was made somewhere in it.
    unsure_ms: AtomicU64,
    /// The last try to read the store's clock failed.
    unread: AtomicBool,
}

impl Clock {
    pub fn new(runtime: Arc<dyn Runtime>) -> Self {
        let (offset_ms, skew_ms) = (AtomicI64::new(0), AtomicI64::new(0));
        Self { runtime, offset_ms, skew_ms, unsure_ms: AtomicU64::new(0), unread: AtomicBool::new(false) }
    }

    /// Takes a reading of the store's clock that has just arrived. It was made before now, so the result is never ahead
    /// of the store by more than this node's clock runs fast until the next reading. `took_ms` passed until it arrived.
    pub fn measured(&self, store: Time, took_ms: u64) {
        let offset = store.as_i64() - self.runtime.clock().as_i64();
        self.offset_ms.store(offset, Ordering::Relaxed);
        let unsure_ms = took_ms / 2;
        let skew = store.as_i64() + unsure_ms as i64 - self.runtime.wall().as_i64();
        self.skew_ms.store(skew, Ordering::Relaxed);
        self.unsure_ms.store(unsure_ms, Ordering::Relaxed);
        self.unread.store(false, Ordering::Relaxed);
    }

    /// The store's clock could not be read.
    pub fn failed(&self) {
        self.unread.store(true, Ordering::Relaxed);
    }

    /// Whether the last try to read the store's clock was a success.
    pub fn is_known(&self) -> bool {
        !self.unread.load(Ordering::Relaxed)
    }

    /// How far the store's clock was ahead of this machine's time of day.
    pub fn skew_ms(&self) -> i64 {
        self.skew_ms.load(Ordering::Relaxed)
    }

    /// Why the last reading is not good enough; none if it is.
    pub fn doubt(&self, skew_max_ms: u64) -> Option<&'static str> {
        match (self.skew_ms().unsigned_abs(), self.unsure_ms.load(Ordering::Relaxed)) {
            (_, unsure) if unsure > skew_max_ms => Some("clock_unsure"),
            (skew, _) if skew > skew_max_ms => Some("clock_skewed"),
            _ => None,
        }
    }

    pub fn now(&self) -> Time {
        let local = self.runtime.clock().as_i64();
        if planted::on(Defect::TimerEarlyBySkew) {
            return Time::from_ms(local.max(0) as u64);
        }
        Time::from_ms(local.saturating_add(self.offset_ms.load(Ordering::Relaxed)).max(0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::BoxFuture;

    /// A clock that stands still until it is set.
    struct Hand(AtomicU64);

    impl Runtime for Hand {
        fn clock(&self) -> Time {
            Time::from_ms(self.0.load(Ordering::Relaxed))
        }

        fn sleep(&self, _: u64) -> BoxFuture<()> {
            Box::pin(std::future::pending())
        }

        fn spawn(&self, _: BoxFuture<()>) {}

        fn random(&self) -> u64 {
            7
        }
    }

    #[test]
    fn store_time_is_the_last_reading_carried_on_by_the_steady_clock() {
        let hand = Arc::new(Hand(AtomicU64::new(5_000)));
        let clock = Clock::new(hand.clone());
        for (local, read, later, expected) in [
            // The store's clock is ahead, then behind; the node's runs on in between.
            (5_000, 3_605_000, 5_250, 3_605_250),
            (9_000, 1_000, 9_010, 1_010),
            (9_020, 9_020, 9_020, 9_020),
        ] {
            hand.0.store(local, Ordering::Relaxed);
            clock.measured(Time::from_ms(read), 0);
            hand.0.store(later, Ordering::Relaxed);
            assert_eq!(clock.now(), Time::from_ms(expected), "read {read} at {local}");
        }
    }

    #[test]
    fn ops_15_a_clock_that_is_off_or_could_not_be_read_in_time_is_doubted() {
        let hand = Arc::new(Hand(AtomicU64::new(100_000)));
        let clock = Clock::new(hand);
        for (read, took_ms, doubt) in [
            (102_000, 0, None),
            (102_001, 0, Some("clock_skewed")),
            (97_999, 0, Some("clock_skewed")),
            // Half of the time it took is taken for the way back.
            (97_999, 4_000, None),
            (100_000, 4_002, Some("clock_unsure")),
        ] {
            clock.measured(Time::from_ms(read), took_ms);
            assert_eq!(clock.doubt(2_000), doubt, "read {read} after {took_ms} ms");
        }
    }
}
