//! What one node has of the world: a clock that may be wrong, sleep on virtual time, tasks that die with it, entropy
//! that the seed decides.

use crate::dice::Dice;
use crate::executor::{Group, World};
use std::sync::{Mutex, PoisonError};
use weft_core::Time;
use weft_engine::Runtime;
use weft_engine::runtime::BoxFuture;
use weft_store::faulty::Sleeper;

/// Calls and commits that are under way between processes live here: no crash takes them back.
pub const NETWORK: Group = Group(0);

/// How a node's clock differs from the store's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Skew {
    pub offset_ms: i64,
    /// Thousandths that it runs fast, or slow if negative, from `since_ms` on.
    pub drift_permille: i64,
    pub since_ms: u64,
}

impl Skew {
    pub fn draw(dice: &mut Dice, skew_ms: u64, drift_permille: u64, now_ms: u64) -> Self {
        let mut around = |most: u64| dice.between(0, 2 * most) as i64 - most as i64;
        Self { offset_ms: around(skew_ms), drift_permille: around(drift_permille), since_ms: now_ms }
    }

    pub fn reading(self, now_ms: u64) -> u64 {
        let drifted = (now_ms - self.since_ms) as i64 * self.drift_permille / 1000;
        now_ms.saturating_add_signed(self.offset_ms + drifted)
    }
}

/// The runtime of one life of a node.
pub struct SimRuntime {
    world: World,
    group: Group,
    skew: Skew,
    dice: Mutex<Dice>,
}

impl SimRuntime {
    pub fn new(world: World, group: Group, skew: Skew, dice: Dice) -> Self {
        Self { world, group, skew, dice: Mutex::new(dice) }
    }
}

impl Runtime for SimRuntime {
    fn clock(&self) -> Time {
        Time::from_ms(self.skew.reading(self.world.now_ms()))
    }

    fn sleep(&self, ms: u64) -> BoxFuture<()> {
        Box::pin(self.world.sleep(ms))
    }

    fn spawn(&self, task: BoxFuture<()>) {
        self.world.spawn(self.group, task);
    }

    fn random(&self) -> u64 {
        self.dice.lock().unwrap_or_else(PoisonError::into_inner).number()
    }
}

/// Time and tasks of the network, for the fault wrapper.
pub struct NetworkSleeper(pub World);

impl Sleeper for NetworkSleeper {
    fn sleep(&self, ms: u64) -> BoxFuture<()> {
        Box::pin(self.0.sleep(ms))
    }

    fn spawn(&self, task: BoxFuture<()>) {
        self.0.spawn(NETWORK, task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_off_and_drifts() {
        let skew = Skew { offset_ms: -500, drift_permille: 50, since_ms: 1_000 };
        assert_eq!(skew.reading(1_000), 500);
        assert_eq!(skew.reading(11_000), 11_000 - 500 + 500);
    }
}
