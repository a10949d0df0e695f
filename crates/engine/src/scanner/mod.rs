//! Background duties over partitions. A scanner finds items through the due index and sends ordinary commands, which
//! decide again inside the commit: it may run twice, late or on two nodes at once, and the result is the same.

mod attempt_timeout;
mod bulk;
mod cancel_reconciler;
mod delayed_promoter;
mod dependency_reconciler;
mod due;
mod execution_deadline;
mod lease_expiry;
mod retention_trimmer;
pub(crate) mod runner;
mod suspension_timeout;
pub(crate) mod watch;
mod worker_reaper;

use crate::config::Filter;
use crate::engine::Shared;
use crate::runtime::BoxFuture;
use std::sync::Arc;
use weft_core::schema::Timer;
use weft_core::{PartitionId, Time};

/// A named duty. Holds no rules.
pub trait Scanner: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    /// The upper bound on how late it is when a wake-up was lost.
    fn interval_ms(&self) -> u64;

    /// Items handled per partition and pass.
    fn batch(&self) -> usize;

    /// The entries of the due index that are its duty.
    fn timers(&self) -> &'static [Timer];

    fn filter(&self) -> &Filter {
        &Filter::NONE
    }

    /// Wakes are grouped to this many milliseconds.
    fn grain_ms(&self) -> u64 {
        1
    }

    /// Handles one partition.
    fn scan(&self, cx: ScanContext, partition: PartitionId) -> BoxFuture<Report>;

    /// How much is left, if this duty has a gauge.
    fn backlog(&self, _cx: ScanContext, _partition: PartitionId) -> BoxFuture<Option<u64>> {
        Box::pin(async { None })
    }
}

/// What a pass over one partition did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub processed: u32,
    /// Entries whose record no longer had the timer: a success that is no work.
    pub stale: u32,
    /// Due items that the filter leaves to others.
    pub filtered: u32,
    /// Entries that named nothing and were removed; among the errors too.
    pub poison: u32,
    pub errors: u32,
    /// When the next item is due.
    pub next_due: Option<Time>,
    /// The batch was full: again at once.
    pub more: bool,
}

/// What a scanner works with.
#[derive(Clone)]
pub struct ScanContext {
    pub(crate) shared: Arc<Shared>,
}

impl ScanContext {
    /// Looked at between items: a scanner stops cleanly.
    pub fn is_stopping(&self) -> bool {
        self.shared.is_closing()
    }
}

/// All scanners of a node.
pub(crate) fn all(filter: &Filter) -> Vec<Arc<dyn Scanner>> {
    vec![
        Arc::new(attempt_timeout::AttemptTimeout { filter: filter.clone() }),
        Arc::new(execution_deadline::ExecutionDeadline { filter: filter.clone() }),
        Arc::new(lease_expiry::LeaseExpiry { filter: filter.clone() }),
        Arc::new(delayed_promoter::DelayedPromoter { filter: filter.clone() }),
        Arc::new(suspension_timeout::SuspensionTimeout { filter: filter.clone() }),
        Arc::new(retention_trimmer::RetentionTrimmer { filter: filter.clone() }),
        Arc::new(dependency_reconciler::DependencyReconciler { filter: filter.clone() }),
        Arc::new(cancel_reconciler::CancelReconciler { filter: filter.clone() }),
        Arc::new(worker_reaper::WorkerReaper { filter: filter.clone() }),
    ]
}

/// A scanner whose whole duty is entries of the due index.
macro_rules! due_scanner {
    ($(#[$doc:meta])* $type:ident, $name:literal, $interval_ms:literal, $batch:literal, [$($timer:ident),+] $(, grain $grain:literal)?) => {
        $(#[$doc])*
        pub struct $type {
            pub filter: crate::config::Filter,
        }

        impl crate::scanner::Scanner for $type {
            fn name(&self) -> &'static str {
                $name
            }

            fn interval_ms(&self) -> u64 {
                $interval_ms
            }

            fn batch(&self) -> usize {
                $batch
            }

            fn timers(&self) -> &'static [weft_core::schema::Timer] {
                &[$(weft_core::schema::Timer::$timer),+]
            }

            fn filter(&self) -> &crate::config::Filter {
                &self.filter
            }

            $(fn grain_ms(&self) -> u64 {
                $grain
            })?

            fn scan(
                &self,
                cx: crate::scanner::ScanContext,
                partition: weft_core::PartitionId,
            ) -> crate::runtime::BoxFuture<crate::scanner::Report> {
                let pass = crate::scanner::due::Pass::of(self);
                Box::pin(async move { pass.run(&cx, partition).await })
            }
        }
    };
}
pub(crate) use due_scanner;
