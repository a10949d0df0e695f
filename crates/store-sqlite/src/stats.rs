//! Counts of what a store has done since it was opened.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Batches that were applied.
    pub commits: u64,
    /// Transactions that held them; fewer than commits if batches of several partitions went together.
    pub transactions: u64,
    /// Records inserted, updated or deleted.
    pub records_written: u64,
    /// The size of the write-ahead log after the last transaction.
    pub wal_bytes: u64,
    pub checkpoints: u64,
    pub reads: u64,
    pub scans: u64,
}

#[derive(Default)]
pub struct Counters {
    pub commits: AtomicU64,
    pub transactions: AtomicU64,
    pub records_written: AtomicU64,
    pub wal_bytes: AtomicU64,
    pub checkpoints: AtomicU64,
    pub reads: AtomicU64,
    pub scans: AtomicU64,
}

pub fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

impl Counters {
    pub fn snapshot(&self) -> Stats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            commits: get(&self.commits),
            transactions: get(&self.transactions),
            records_written: get(&self.records_written),
            wal_bytes: get(&self.wal_bytes),
            checkpoints: get(&self.checkpoints),
            reads: get(&self.reads),
            scans: get(&self.scans),
        }
    }
}
