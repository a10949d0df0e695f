//! Whether the loops of a node still turn. A loop says when it begins to work and when it waits again; one that has ended,
//! or works on one thing for far too long, is told from one that has nothing to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_core::Time;

/// A loop that works on without waiting for so long is stuck.
pub(crate) const STUCK_MS: u64 = 10_000;

const WAITING: u64 = 0;
const ENDED: u64 = u64::MAX;

/// One loop: since when it works, on the node's clock, or that it waits, or that it has ended.
#[derive(Debug, Default)]
pub(crate) struct Pulse(AtomicU64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    Turns,
    Stuck,
    Ended,
}

impl Pulse {
    pub fn works(&self, now: Time) {
        self.0.store(now.ms().clamp(WAITING + 1, ENDED - 1), Ordering::Relaxed);
    }

    pub fn waits(&self) {
        self.0.store(WAITING, Ordering::Relaxed);
    }

    pub fn look(&self, now: Time) -> Finding {
        match self.0.load(Ordering::Relaxed) {
            WAITING => Finding::Turns,
            ENDED => Finding::Ended,
            since if now.since(Time::from_ms(since)) > STUCK_MS => Finding::Stuck,
            _ => Finding::Turns,
        }
    }
}

/// Held by the loop. However it ends, also by a panic, its pulse says so.
pub(crate) struct Held(Arc<Pulse>);

impl Held {
    pub fn new(pulse: Arc<Pulse>) -> Self {
        Self(pulse)
    }
}

impl std::ops::Deref for Held {
    type Target = Pulse;

    fn deref(&self) -> &Pulse {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.store(ENDED, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_15_a_loop_that_works_on_one_thing_for_too_long_or_has_ended_is_told() {
        let pulse = Arc::new(Pulse::default());
        let at = Time::from_ms;
        assert_eq!(pulse.look(at(1_000_000)), Finding::Turns, "it has nothing to do");
        let held = Held::new(pulse.clone());
        held.works(at(5_000));
        assert_eq!(pulse.look(at(5_000 + STUCK_MS)), Finding::Turns);
        assert_eq!(pulse.look(at(5_001 + STUCK_MS)), Finding::Stuck);
        held.waits();
        assert_eq!(pulse.look(at(5_001 + STUCK_MS)), Finding::Turns);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = held;
            panic!("a rule is wrong");
        }));
        assert!(panicked.is_err());
        assert_eq!(pulse.look(at(0)), Finding::Ended);
    }
}
