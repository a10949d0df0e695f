//! Counts of what a store has done since it was opened.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Commits that were applied.
    pub applied: u64,
    /// Those of them that had their records checked one by one.
    pub checked: u64,
    pub conflicts: u64,
    pub not_applied: u64,
    pub unknown: u64,
    /// Connections that were opened.
    pub connections: u64,
    /// Doorbell messages that were sent.
    pub rings: u64,
}

#[derive(Debug, Default)]
pub struct Counters {
    pub applied: AtomicU64,
    pub checked: AtomicU64,
    pub conflicts: AtomicU64,
    pub not_applied: AtomicU64,
    pub unknown: AtomicU64,
    pub connections: AtomicU64,
    pub rings: AtomicU64,
}

pub fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    pub fn snapshot(&self) -> Stats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            applied: get(&self.applied),
            checked: get(&self.checked),
            conflicts: get(&self.conflicts),
            not_applied: get(&self.not_applied),
            unknown: get(&self.unknown),
            connections: get(&self.connections),
            rings: get(&self.rings),
        }
    }
}
