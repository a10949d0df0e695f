//! Store time on this node: the node's own steady clock plus the measured offset.

use crate::runtime::Runtime;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use weft_core::Time;
use weft_core::planted::{self, Defect};

pub struct Clock {
    runtime: Arc<dyn Runtime>,
    offset_ms: AtomicI64,
}

impl Clock {
    pub fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self { runtime, offset_ms: AtomicI64::new(0) }
    }

    /// Takes a reading of the store's clock that has just arrived. It was made before now, so the result is never ahead
    /// of the store by more than this node's clock runs fast until the next reading.
    pub fn measured(&self, store: Time) {
        let offset = store.as_i64() - self.runtime.clock().as_i64();
        self.offset_ms.store(offset, Ordering::Relaxed);
    }

    /// How far the store's clock is ahead of the node's.
    pub fn offset_ms(&self) -> i64 {
        self.offset_ms.load(Ordering::Relaxed)
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
    use std::sync::atomic::AtomicU64;

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
            clock.measured(Time::from_ms(read));
            hand.0.store(later, Ordering::Relaxed);
            assert_eq!(clock.now(), Time::from_ms(expected), "read {read} at {local}");
        }
    }
}
