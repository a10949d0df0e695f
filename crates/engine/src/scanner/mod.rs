//! Background duties over partitions. A scanner finds items through the due index and sends ordinary commands, which
//! decide again inside the commit: it may run twice, late or on two nodes at once, and the result is the same.

mod attempt_timeout;
mod bulk;
mod cancel_reconciler;
mod delayed_promoter;
mod dependency_audit;
mod dependency_reconciler;
mod due;
mod edge_cancel_dispatcher;
mod edge_cancel_reconciler;
mod execution_deadline;
mod flow_projector;
mod lease_expiry;
mod retention_trimmer;
pub(crate) mod runner;
mod selection;
mod suspension_timeout;
pub(crate) mod watch;
mod worker_reaper;

pub(crate) use due::Cursors;

use crate::config::{Filter, ScannerConfig};
use crate::engine::Shared;
use crate::runtime::BoxFuture;
use std::sync::Arc;
use weft_core::schema::Timer;
use weft_core::{PartitionId, Time};

/// A named duty. Holds no rules.
pub trait Scanner: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    /// How long an item waits that could not be handled. The shortest of all also bounds how late anything is whose
    /// wake-up was lost, on a store that others write to.
    fn interval_ms(&self) -> u64;

    /// Items handled per partition and pass.
    fn batch(&self) -> usize;

    /// The entries of the due index that are its duty.
    fn timers(&self) -> &'static [Timer];

    fn filter(&self) -> &Filter {
        &Filter::NONE
    }

    /// How old an entry is before it is this one's duty: 0 unless it stands behind another scanner.
    fn age_ms(&self) -> u64 {
        0
    }

    /// Wakes are grouped to this many milliseconds.
    fn grain_ms(&self) -> u64 {
        1
    }

    /// Handles one partition.
    fn scan(&self, cx: ScanContext, partition: PartitionId) -> BoxFuture<Report>;
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
pub(crate) fn all(config: &ScannerConfig) -> Vec<Arc<dyn Scanner>> {
    vec![
        Arc::new(attempt_timeout::AttemptTimeout::of(config)),
        Arc::new(execution_deadline::ExecutionDeadline::of(config)),
        Arc::new(lease_expiry::LeaseExpiry::of(config)),
        Arc::new(delayed_promoter::DelayedPromoter::of(config)),
        Arc::new(suspension_timeout::SuspensionTimeout::of(config)),
        Arc::new(retention_trimmer::RetentionTrimmer::of(config)),
        Arc::new(dependency_reconciler::DependencyReconciler::of(config)),
        Arc::new(cancel_reconciler::CancelReconciler::of(config)),
        Arc::new(edge_cancel_dispatcher::EdgeCancelDispatcher::of(config)),
        Arc::new(edge_cancel_reconciler::EdgeCancelReconciler::of(config)),
        Arc::new(flow_projector::FlowProjector::of(config)),
        Arc::new(worker_reaper::WorkerReaper::of(config)),
    ]
}

/// Every scanner by its name, with the interval that it has unless the configuration says otherwise.
pub fn intervals() -> impl Iterator<Item = (&'static str, u64)> {
    all(&ScannerConfig::default()).into_iter().map(|scanner| (scanner.name(), scanner.interval_ms()))
}

/// A scanner whose whole duty is entries of the due index.
macro_rules! due_scanner {
    ($(#[$doc:meta])* $type:ident, $name:literal, $interval_ms:literal, $batch:literal, [$($timer:ident),+] $(, grain $grain:literal)?) => {
        $(#[$doc])*
        pub struct $type {
            filter: crate::config::Filter,
            interval_ms: u64,
        }

        impl $type {
            pub fn of(config: &crate::config::ScannerConfig) -> Self {
                Self { filter: config.filter.clone(), interval_ms: config.interval_ms($name, $interval_ms) }
            }
        }

        impl crate::scanner::Scanner for $type {
            fn name(&self) -> &'static str {
                $name
            }

            fn interval_ms(&self) -> u64 {
                self.interval_ms
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sr_2_an_interval_is_that_of_the_configuration_or_its_own() {
        let config = ScannerConfig { intervals: [("lease_expiry", 250)].into(), ..ScannerConfig::default() };
        let configured: Vec<(&str, u64)> = all(&config).iter().map(|one| (one.name(), one.interval_ms())).collect();
        for ((name, configured), (_, usual)) in configured.into_iter().zip(intervals()) {
            assert_eq!(configured, if name == "lease_expiry" { 250 } else { usual }, "{name}");
        }
    }
}
