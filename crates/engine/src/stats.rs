//! Numbers about what a node does. Cheap to bump, read at any time.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        #[derive(Default)]
        pub struct Counters { $($(#[$doc])* pub $name: Counter,)* }

        /// The counters at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stats { $($(#[$doc])* pub $name: u64,)* }

        impl Counters {
            pub fn snapshot(&self) -> Stats {
                Stats { $($name: self.$name.get(),)* }
            }
        }

        impl Stats {
            /// What was counted since `earlier`.
            pub fn since(self, earlier: Stats) -> Stats {
                Stats { $($name: self.$name - earlier.$name,)* }
            }
        }
    };
}

counters! {
    /// Commits sent to the store.
    commits,
    conflicts,
    /// Commits that did not happen, for a reason of the store.
    not_applied,
    /// Commits whose outcome had to be asked for.
    unknown,
    resolves,
    /// Losses of the store that were acted on.
    data_lost,
    reads,
    scans,
    clock_reads,
    /// Commands that went through in a commit.
    commands,
    records_written,
    bytes_written,
    /// Calls that were told `busy`.
    busy,
    scanner_cycles,
    scanner_wakes,
    scanner_processed,
    scanner_stale,
    scanner_errors,
    scanner_parked,
    scanner_restarts,
}

impl Stats {
    /// Every call to the store, of whatever kind.
    pub fn store_calls(&self) -> u64 {
        self.commits + self.resolves + self.reads + self.scans + self.clock_reads
    }
}
