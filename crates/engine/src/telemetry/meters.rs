//! What is counted where it happens, on atomics: claims, renewals, commits, calls to the store, scanners.

use super::histogram::{Shared, Sizes};
use crate::request::ClaimReply;
use crate::scanner::Report;
use crate::stats::Counter;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weft_core::error::Rejection;
use weft_core::record::execution::PublicState;
use weft_core::text::Text;
use weft_core::{PartitionId, Time};
use weft_store::Outcome;

#[derive(Default)]
pub struct Claims {
    pub work: Shared,
    pub empty: Shared,
    pub draining: Shared,
    pub refused: Shared,
    /// By the code of the refusal, of which there are few.
    refusals: Mutex<BTreeMap<&'static str, u64>>,
    waiting: AtomicU64,
}

impl Claims {
    pub fn answered(&self, answer: &Result<ClaimReply, Rejection>, us: u64) {
        let meter = match answer {
            Ok(reply) if !reply.executions.is_empty() => &self.work,
            Ok(reply) if reply.draining => &self.draining,
            Ok(_) => &self.empty,
            Err(rejection) => {
                *self.refusals().entry(rejection.code()).or_default() += 1;
                &self.refused
            }
        };
        meter.add_us(us);
    }

    pub fn refusals(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        // A panic between two counts leaves good counts behind.
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn by_result(&self) -> [(&'static str, &Shared); 4] {
        [("work", &self.work), ("empty", &self.empty), ("draining", &self.draining), ("refused", &self.refused)]
    }

    /// Counts a call as waiting until it is answered or its caller goes away.
    pub fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(&self.waiting)
    }

    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }
}

pub struct Waiting<'a>(&'a AtomicU64);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
pub struct Renewals {
    pub renewed: Counter,
    /// The lease was gone, or the call was wrong.
    pub refused: Counter,
    /// The node or the store could not take it.
    pub failed: Counter,
}

impl Renewals {
    pub fn answered<T>(&self, answer: &Result<T, Rejection>) {
        let counter = match answer {
            Ok(_) => &self.renewed,
            Err(Rejection::Busy { .. } | Rejection::Unavailable { .. }) => &self.failed,
            Err(_) => &self.refused,
        };
        counter.add(1);
    }
}

#[derive(Default)]
pub struct Commits {
    pub applied: Counter,
    pub conflict: Counter,
    pub lost: Counter,
    pub not_applied: Counter,
    pub unknown: Counter,
    pub seconds: Shared,
    pub commands: Sizes,
}

impl Commits {
    pub fn answered(&self, outcome: &Outcome) {
        let counter = match outcome {
            Outcome::Applied { .. } => &self.applied,
            Outcome::Conflict { .. } => &self.conflict,
            Outcome::Lost { .. } => &self.lost,
            Outcome::NotApplied { .. } => &self.not_applied,
            Outcome::Unknown { .. } => &self.unknown,
        };
        counter.add(1);
    }

    pub fn by_result(&self) -> [(&'static str, &Counter); 5] {
        [
            ("applied", &self.applied),
            ("conflict", &self.conflict),
            ("lost", &self.lost),
            ("not_applied", &self.not_applied),
            ("unknown", &self.unknown),
        ]
    }
}

/// One verb of the store.
#[derive(Default)]
pub struct StoreMeter {
    pub ok: Counter,
    pub error: Counter,
    pub seconds: Shared,
}

impl StoreMeter {
    pub fn answered(&self, ok: bool, us: u64) {
        if ok {
            self.ok.add(1)
        } else {
            self.error.add(1)
        }
        self.seconds.add_us(us);
    }
}

#[derive(Default)]
pub struct StoreMeters {
    pub read: StoreMeter,
    pub scan: StoreMeter,
    pub commit: StoreMeter,
    pub resolve: StoreMeter,
    pub now: StoreMeter,
    pub bytes_read: Counter,
    pub resolved_applied: Counter,
    pub resolved_not_applied: Counter,
    full: Mutex<Option<Shortage>>,
}

/// The smallest commit that the store had no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    pub partition: PartitionId,
    /// Its weight.
    pub bytes: usize,
}

impl StoreMeters {
    /// Notes a commit that the store had no room for.
    pub fn refused_as_full(&self, partition: PartitionId, bytes: usize) {
        let mut full = self.lock_full();
        *full = Some(full.filter(|known| known.bytes <= bytes).unwrap_or(Shortage { partition, bytes }));
    }

    /// Notes a commit that was applied. Only one to the same partition that needs as much room as the refused one shows
    /// that there is room again: smaller ones may have fitted all along.
    pub fn applied(&self, partition: PartitionId, bytes: usize) {
        let mut full = self.lock_full();
        *full = full.filter(|known| known.partition != partition || known.bytes > bytes);
    }

    /// The commit that the store had no room for, until one of its size is applied to its partition.
    pub fn full(&self) -> Option<Shortage> {
        *self.lock_full()
    }

    fn lock_full(&self) -> MutexGuard<'_, Option<Shortage>> {
        self.full.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn by_call(&self) -> [(&'static str, &StoreMeter); 5] {
        [
            ("commit", &self.commit),
            ("now", &self.now),
            ("read", &self.read),
            ("resolve", &self.resolve),
            ("scan", &self.scan),
        ]
    }
}

#[derive(Default)]
pub struct ScannerMeter {
    pub cycles: Counter,
    pub wakes: Counter,
    pub restarts: Counter,
    pub processed: Counter,
    pub stale: Counter,
    pub filtered: Counter,
    pub newer: Counter,
    pub error: Counter,
    pub poison: Counter,
    pub seconds: Shared,
    pub lateness: Shared,
    /// The earliest due time that is known and not handled, in store time; zero if none is.
    oldest_due: AtomicU64,
    told: Mutex<Told>,
}

/// Figures that the runner reports about a scanner.
#[derive(Default)]
struct Told {
    last: Option<Cycle>,
    open_since: Option<Time>,
    backlog: Option<u64>,
}

/// A cycle that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// In store time.
    pub ended_at: Time,
    pub took_ms: u64,
    pub processed: u64,
    pub errors: u64,
}

impl ScannerMeter {
    /// A pass over one partition has ended.
    pub fn passed(&self, report: &Report) {
        for (counter, by) in [
            (&self.processed, report.processed),
            (&self.stale, report.stale),
            (&self.filtered, report.filtered),
            (&self.newer, report.newer),
            (&self.error, report.errors.saturating_sub(report.poison)),
            (&self.poison, report.poison),
        ] {
            counter.add(u64::from(by));
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        // Whole values are put in, so a panic elsewhere leaves good ones.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last cycle that has ended.
    pub fn last_cycle(&self) -> Option<Cycle> {
        self.told().last
    }

    /// Since when, in store time, the cycle is open that has not ended.
    pub fn open_since(&self) -> Option<Time> {
        self.told().open_since
    }

    /// How many items waited when they were last counted whole.
    pub fn backlog(&self) -> Option<u64> {
        self.told().backlog
    }

    pub(crate) fn cycle_began(&self, at: Time) {
        self.told().open_since = Some(at);
    }

    /// A cycle is counted and timed when it ends.
    pub(crate) fn cycle_ended(&self, cycle: Cycle) {
        self.cycles.add(1);
        self.seconds.add_us(cycle.took_ms.saturating_mul(1_000));
        let mut told = self.told();
        (told.last, told.open_since) = (Some(cycle), None);
    }

    pub(crate) fn counted_backlog(&self, count: u64) {
        self.told().backlog = Some(count);
    }

    pub fn expects(&self, due: Option<Time>) {
        self.oldest_due.store(due.map_or(0, Time::ms), Ordering::Relaxed);
    }

    /// The earliest due time that is known and not handled.
    pub fn due_at(&self) -> Option<Time> {
        Some(self.oldest_due.load(Ordering::Relaxed)).filter(|due| *due > 0).map(Time::from_ms)
    }

    pub fn lag_ms(&self, now: Time) -> u64 {
        match self.oldest_due.load(Ordering::Relaxed) {
            0 => 0,
            due => now.since(Time::from_ms(due)),
        }
    }

    pub fn by_result(&self) -> [(&'static str, &Counter); 6] {
        [
            ("processed", &self.processed),
            ("stale", &self.stale),
            ("filtered", &self.filtered),
            ("newer", &self.newer),
            ("error", &self.error),
            ("poison", &self.poison),
        ]
    }
}

/// What a survey of the store found, kept until the next.
#[derive(Default)]
pub struct Gauges {
    /// When the last survey began, on the node's clock.
    pub asked_at: Option<Time>,
    pub executions: BTreeMap<(Text, PublicState), u64>,
    pub oldest_ms: BTreeMap<Text, u64>,
    pub capability_sets: BTreeMap<Text, u64>,
    /// By scanner; nothing until it was counted once.
    pub parked: Option<BTreeMap<Text, u64>>,
    pub workers: BTreeMap<&'static str, u64>,
}
