//! Background duties over partitions. A scanner finds items through the due index and sends ordinary commands, which
//! decide again inside the commit: it may run twice, late or on two nodes at once, and the result is the same.

mod aside;
mod attempt_timeout;
mod backlog;
mod bulk;
mod cancel_reconciler;
mod cycle;
mod delayed_promoter;
mod dependency_audit;
mod dependency_reconciler;
mod due;
mod edge_cancel_dispatcher;
mod edge_cancel_reconciler;
mod execution_deadline;
pub mod failures;
mod flow_projector;
mod lease_expiry;
mod look;
pub mod own;
mod retention_trimmer;
pub(crate) mod runner;
mod selection;
mod status;
mod suspension_timeout;
pub(crate) mod watch;
mod worker_reaper;

pub(crate) use due::Cursors;
pub use status::{Condition, ScannerStatus};

use crate::config::{Filter, Filters, ScannerConfig};
use crate::engine::Shared;
use crate::runtime::BoxFuture;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use weft_core::record::Key;
use weft_core::schema::Timer;
use weft_core::{PartitionId, Time};

/// How often a warning is logged whose cause lasts: a store that does not answer, items of a newer format.
const WARN_EVERY_MS: u64 = 60_000;

/// A named duty over partitions. Holds no rules: it finds items and sends ordinary commands.
pub trait Scanner: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    /// For a scanner with timers, how long an item that was left or failed waits; for one without, the time between two
    /// passes over a partition. Less than 100 ms counts as 100 ms.
    fn interval_ms(&self) -> u64;

    /// The entries of the due index that are its duty; none means a pass per partition and interval.
    fn timers(&self) -> &'static [Timer] {
        &[]
    }

    /// Items handled per partition and pass.
    fn batch(&self) -> usize {
        50
    }

    /// Age at which an entry becomes the duty of this scanner: 0 unless it is the safety net of another one.
    fn age_ms(&self) -> u64 {
        0
    }

    /// Wakes are grouped to this many milliseconds.
    fn grain_ms(&self) -> u64 {
        1
    }

    fn filter(&self) -> &Filter {
        &Filter::NONE
    }

    /// Handles one partition. A pass of the embedding program's scanner that goes on for 5 s after the engine began to close is
    /// dropped where it waits; commands that it has sent are carried out.
    fn scan(&self, cx: ScanContext, partition: PartitionId) -> BoxFuture<Report>;

    /// How many items wait in the partition, if known. Called after each pass of a scanner without timers.
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
    /// Items of a format that this build does not know, left as they are.
    pub newer: u32,
    /// Entries that named nothing and were removed; among the errors too.
    pub poison: u32,
    pub errors: u32,
    /// When the next item is due.
    pub next_due: Option<Time>,
    /// There is more to do at once.
    pub more: bool,
}

/// What a pass works with.
#[derive(Clone)]
pub struct ScanContext {
    pub(crate) shared: Arc<Shared>,
    /// The scanner whose pass it is.
    pub(crate) scanner: &'static str,
    now: Time,
    /// The store did not answer a call of the pass, or did not take a commit.
    unanswered: Arc<AtomicBool>,
    /// The pass left due items where they were.
    left: Arc<AtomicBool>,
    /// When the oldest of the items was due, in milliseconds, that the pass should have handled and left; `u64::MAX` if none.
    overdue_ms: Arc<AtomicU64>,
}

impl ScanContext {
    /// Begins a pass: its time is read once.
    ///
    /// # Errors
    /// If the store's clock could not be read. Nothing is due by a time that nobody knows.
    pub(crate) async fn begin(shared: &Arc<Shared>, scanner: &'static str) -> Result<Self, weft_store::Error> {
        if !shared.clock.is_known() {
            shared.measure().await?;
        }
        let (unanswered, left, overdue_ms) = (Arc::default(), Arc::default(), Arc::new(AtomicU64::new(u64::MAX)));
        Ok(Self { shared: shared.clone(), scanner, now: shared.now(), unanswered, left, overdue_ms })
    }

    /// The time of this pass, in store time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Looked at between items: a scanner stops cleanly.
    pub fn is_stopping(&self) -> bool {
        self.shared.is_closing()
    }

    /// Notes that the store did not answer a call about the partition, or did not take a commit. The runner then only
    /// probes the partition until it answers.
    pub(crate) fn unanswered(&self, partition: PartitionId, error: &dyn Display) {
        self.unanswered.store(true, Ordering::Relaxed);
        self.shared.silences.warn(self.shared.runtime.clock(), self.scanner, Some(partition), error);
    }

    /// Whether some call of this pass had no answer, or some commit was not taken.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Notes that an item stays where it is that was due at this time and is the duty of this scanner.
    pub(crate) fn leaves_overdue(&self, due: Time) {
        self.overdue_ms.fetch_min(due.ms(), Ordering::Relaxed);
    }

    /// Notes that due items stay where they are.
    pub(crate) fn leaves(&self) {
        self.left.store(true, Ordering::Relaxed);
    }
}

/// Subject of a warning that is logged at most once a minute.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    /// The store did not answer a call about this partition; `None`: calls about all partitions.
    Store(Option<PartitionId>),
    /// Items of a format that this build does not know.
    NewerFormat,
}

/// When each subject was last warned about, on the node's clock.
#[derive(Default)]
pub(crate) struct Silences(Mutex<BTreeMap<Subject, Time>>);

impl Silences {
    /// Warns that the store did not answer, once a minute for each partition.
    pub fn warn(&self, clock: Time, scanner: &str, partition: Option<PartitionId>, error: &dyn Display) {
        if self.is_over(clock, Subject::Store(partition)) {
            match partition {
                Some(partition) => tracing::warn!(scanner, %partition, %error, "the store did not answer a scanner"),
                None => tracing::warn!(scanner, %error, "the store did not answer a scan of all partitions"),
            }
        }
    }

    /// Warns that an item is of a format which only a newer build knows, once a minute for all items.
    pub fn warn_newer(&self, clock: Time, scanner: &str, item: Option<Key>, rejection: &dyn Display) {
        if self.is_over(clock, Subject::NewerFormat) {
            tracing::warn!(scanner, ?item, %rejection, "an item is left to a newer version");
        }
    }

    /// Whether the last warning about the subject is a minute ago; if so, the next minute begins.
    fn is_over(&self, clock: Time, subject: Subject) -> bool {
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.get(&subject).is_some_and(|at| clock.since(*at) < WARN_EVERY_MS) {
            return false;
        }
        warned.insert(subject, clock);
        true
    }
}

/// Result of a pass.
pub(crate) struct Passed {
    pub report: Report,
    /// The time of the pass if it left due items where they were.
    pub left_at: Option<Time>,
    /// When the oldest of the items was due that the pass should have handled and left.
    pub overdue: Option<Time>,
    /// The store did not answer a call, or did not take a commit.
    pub unanswered: bool,
    /// Items that wait in the partition, as a scanner without timers counts them.
    pub backlog: Option<u64>,
}

/// One pass over a partition, and the scanner's own count of what waits there.
pub(crate) async fn pass(shared: &Arc<Shared>, scanner: &dyn Scanner, partition: PartitionId) -> Passed {
    let cx = match ScanContext::begin(shared, scanner.name()).await {
        Ok(cx) => cx,
        Err(error) => {
            shared.silences.warn(shared.runtime.clock(), scanner.name(), Some(partition), &error);
            let report = Report { errors: 1, ..Report::default() };
            return Passed { report, left_at: None, overdue: None, unanswered: true, backlog: None };
        }
    };
    let report = scanner.scan(cx.clone(), partition).await;
    let backlog = match scanner.timers() {
        [] => scanner.backlog(cx.clone(), partition).await,
        _ => None,
    };
    let left_at = cx.left.load(Ordering::Relaxed).then_some(cx.now);
    let overdue = Some(cx.overdue_ms.load(Ordering::Relaxed)).filter(|ms| *ms < u64::MAX).map(Time::from_ms);
    Passed { report, left_at, overdue, unanswered: cx.is_unanswered(), backlog }
}

/// All scanners of a node: the built-in ones, and then those of the embedding program.
pub(crate) fn all(config: &ScannerConfig) -> Vec<Arc<dyn Scanner>> {
    let mut scanners: Vec<Arc<dyn Scanner>> = vec![
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
    ];
    scanners.extend(config.own.iter().map(|own| Arc::new(own::Own::of(own, config)) as Arc<dyn Scanner>));
    scanners
}

/// Every scanner by its name, with the interval that it has unless the configuration says otherwise.
pub fn intervals() -> impl Iterator<Item = (&'static str, u64)> {
    all(&ScannerConfig::default()).into_iter().map(|scanner| (scanner.name(), scanner.interval_ms()))
}

/// The filters of all scanners of a node, as its record in the registry shows them.
pub(crate) fn filters(config: &ScannerConfig) -> Filters {
    let is_own = |name: &str| config.own.iter().any(|own| own.name() == name);
    let named = all(config).into_iter().filter_map(|scanner| {
        let (name, filter) = (scanner.name(), scanner.filter());
        (is_own(name) || *filter != config.filter).then(|| (name.into(), filter.clone()))
    });
    Filters { general: config.filter.clone(), scanners: named.collect() }
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
                Self { filter: config.filter_of($name), interval_ms: config.interval_ms($name, $interval_ms) }
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
