//! Drives all scanners of a node. It sleeps until the earliest due time it knows of; the look at the heads of the due
//! index, one store call for all scanners and partitions, is the catch-up for what it does not know of.

use super::{Report, ScanContext, Scanner};
use crate::engine::Shared;
use crate::pulse::Held;
use crate::runtime::{self, BoxFuture};
use crate::telemetry::meters::ScannerMeter;
use futures_util::future::{self, Either};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use weft_core::planted::{self, Defect};
use weft_core::schema::{Timer, Value};
use weft_core::{PartitionId, Time};
use weft_store::{Error, Page, Range, Scan, Target};

pub const INTERVAL_MIN_MS: u64 = 100;
const RESTART_PANIC_MS: u64 = 5_000;
/// How late the next try is when the store could not be asked.
const RETRY_MS: u64 = 1_000;
const HEADS_PER_TIMER: usize = 256;
/// The catch-up on a store that others write to. Nodes ring for the timers they arm, so this bounds only what got lost.
const SHARED_LOOK_MS: u64 = 1_000;
/// Other nodes ring for every timer they arm; looking more often than this would not make timers more exact.
const LOOK_PAUSE_MS: u64 = 100;

/// A scan of one partition, by the place of its scanner.
type Duty = (usize, PartitionId);

/// A store call that has ended.
enum Ended {
    Scan { duty: Duty, began_us: u64, report: Option<Report> },
    Look(Vec<Timer>, Result<Vec<Page>, Error>),
}

struct Runner {
    shared: Arc<Shared>,
    scanners: Vec<Arc<dyn Scanner>>,
    /// When each known duty is due, in store time.
    due: BTreeMap<Duty, Time>,
    running: BTreeSet<Duty>,
    /// Everything that waits for the store is in here and nothing is awaited beside it: a call that nobody polls may hold
    /// what another one waits for.
    calls: FuturesUnordered<BoxFuture<Ended>>,
    /// A look is among them.
    looking: bool,
    /// When the heads are looked at next, on the node's clock.
    look_at: Time,
    /// When they were last looked at.
    looked_at: Time,
    look_ms: u64,
}

/// Runs until the engine closes. However it ends, `pulse` says so.
pub async fn run(shared: Arc<Shared>, pulse: Held) {
    let scanners = super::all(&shared.config.scanners);
    let smallest = scanners.iter().map(|scanner| scanner.interval_ms()).min().unwrap_or(1_000);
    let look_ms = match shared.description.exclusive {
        true => shared.config.scanners.look_ms,
        false => smallest.max(SHARED_LOOK_MS),
    };
    let partitions = shared.partitions.len();
    for scanner in &scanners {
        tracing::debug!(scanner = scanner.name(), interval_ms = scanner.interval_ms(), partitions, "scanner started");
    }
    let mut runner = Runner {
        look_at: shared.runtime.clock(),
        looked_at: Time::ZERO,
        look_ms: look_ms.max(INTERVAL_MIN_MS),
        shared,
        scanners,
        due: BTreeMap::new(),
        running: BTreeSet::new(),
        calls: FuturesUnordered::new(),
        looking: false,
    };
    while !runner.shared.is_closing() {
        runner.turn(&pulse).await;
    }
    // A pass in flight is awaited: its items are whole inside their commits.
    while runner.calls.next().await.is_some() {}
}

impl Runner {
    async fn turn(&mut self, pulse: &Held) {
        if let Some(by) = self.shared.hub.take_look_by() {
            self.look_at = self.look_at.min(by.max(self.looked_at + LOOK_PAUSE_MS));
        }
        if !self.looking && self.look_at <= self.shared.runtime.clock() {
            self.look();
        }
        self.take_hints();
        self.start_due();
        self.tell_due();
        let sleep_ms = self.sleep_ms();
        let shared = self.shared.clone();
        let woken = async {
            match self.calls.is_empty() {
                true => future::pending().await,
                false => self.calls.next().await,
            }
        };
        let rung = shared.hub.due.notified();
        futures_util::pin_mut!(woken, rung);
        let either = future::select(woken, rung);
        pulse.waits();
        let ended = runtime::timeout(&*shared.runtime, sleep_ms, either).await;
        pulse.works(shared.runtime.clock());
        let Some(Either::Left((Some(ended), _))) = ended else { return };
        match ended {
            Ended::Scan { duty, began_us, report } => self.scanned(duty, began_us, report),
            Ended::Look(timers, found) => self.looked(&timers, found),
        }
    }

    /// One store call: the earliest entries of every timer in every partition.
    fn look(&mut self) {
        self.looked_at = self.shared.runtime.clock();
        self.look_at = self.looked_at + self.look_ms;
        if planted::on(Defect::ProgressNeedsWake) {
            return;
        }
        let first = self.scanners.iter().filter(|scanner| scanner.age_ms() == 0);
        let timers: Vec<Timer> = first.flat_map(|scanner| scanner.timers()).copied().collect();
        let ranges = timers.iter().map(|timer| Range { prefix: vec![Value::Int(*timer as i64)], ..Range::default() });
        let scan = Scan {
            target: Target::Due,
            ranges: ranges.collect(),
            limit: if self.shared.partitions.len() == 1 { 1 } else { HEADS_PER_TIMER },
            descending: false,
            parts: None,
        };
        self.shared.counters.scanner_cycles.add(self.scanners.len() as u64);
        for scanner in &self.scanners {
            self.meter(scanner.name(), |meter| meter.cycles.add(1));
        }
        let found = self.shared.store.scan(None, scan);
        self.looking = true;
        self.calls.push(Box::pin(async move { Ended::Look(timers, found.await) }));
    }

    fn looked(&mut self, timers: &[Timer], found: Result<Vec<Page>, Error>) {
        self.looking = false;
        match found {
            Ok(pages) => {
                for (timer, page) in timers.iter().zip(pages) {
                    for entry in page.entries {
                        if let Some(Value::Int(at)) = entry.place.columns.get(1) {
                            self.shared.hub.hint(*timer, entry.partition, Time::from_ms((*at).max(0) as u64));
                        }
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "could not look at the due index");
                self.shared.counters.scanner_errors.add(1);
                self.look_at = self.shared.runtime.clock() + RETRY_MS.min(self.look_ms);
            }
        }
    }

    fn take_hints(&mut self) {
        for ((timer, partition), at) in self.shared.hub.hints() {
            if !self.shared.membership.is_mine(partition) {
                self.shared.hub.take_hint(timer, partition);
                continue;
            }
            for (place, scanner) in self.scanners.iter().enumerate() {
                if !scanner.timers().contains(&timer) {
                    continue;
                }
                let grain = scanner.grain_ms();
                let at = Time::from_ms((at.ms() + scanner.age_ms()).div_ceil(grain) * grain);
                let due = self.due.entry((place, partition)).or_insert(at);
                *due = (*due).min(at);
            }
        }
    }

    fn start_due(&mut self) {
        let now = self.shared.now();
        self.due.retain(|(_, partition), _| self.shared.membership.is_mine(*partition));
        let mut due: Vec<(Time, Duty)> =
            self.due.iter().filter(|(_, at)| **at <= now).map(|(duty, at)| (*at, *duty)).collect();
        due.sort();
        for (_, duty) in due {
            if self.running.len() >= self.shared.config.scanners.at_once || !self.running.insert(duty) {
                continue;
            }
            self.due.remove(&duty);
            let scanner = self.scanners[duty.0].clone();
            // What is committed from here on hints again, so nothing is missed between the hint and the scan.
            for timer in scanner.timers().iter().filter(|_| scanner.age_ms() == 0) {
                self.shared.hub.take_hint(*timer, duty.1);
            }
            self.shared.counters.scanner_wakes.add(1);
            self.meter(scanner.name(), |meter| meter.wakes.add(1));
            let began_us = self.shared.runtime.clock_us();
            let cx = ScanContext { shared: self.shared.clone() };
            self.calls.push(Box::pin(async move {
                let scan = AssertUnwindSafe(async move { scanner.scan(cx, duty.1).await }).catch_unwind();
                Ended::Scan { duty, began_us, report: scan.await.ok() }
            }));
        }
    }

    fn meter(&self, scanner: &str, tell: impl FnOnce(&ScannerMeter)) {
        if let Some(meter) = self.shared.telemetry.scanner(scanner) {
            tell(meter);
        }
    }

    /// Tells each scanner's meter the earliest due time that is known.
    fn tell_due(&self) {
        let mut earliest = vec![None; self.scanners.len()];
        for ((scanner, _), at) in &self.due {
            let known: &mut Option<Time> = &mut earliest[*scanner];
            *known = Some(known.map_or(*at, |known| known.min(*at)));
        }
        for (scanner, due) in self.scanners.iter().zip(earliest) {
            self.meter(scanner.name(), |meter| meter.expects(due));
        }
    }

    fn scanned(&mut self, duty: Duty, began_us: u64, report: Option<Report>) {
        self.running.remove(&duty);
        let took_us = self.shared.runtime.clock_us().saturating_sub(began_us);
        let now = self.shared.now();
        let counters = &self.shared.counters;
        let name = self.scanners[duty.0].name();
        let next = match report {
            None => {
                counters.scanner_restarts.add(1);
                self.meter(name, |meter| meter.restarts.add(1));
                tracing::error!(scanner = name, partition = %duty.1, "a scanner panicked; it starts again in 5 s");
                Some(now + RESTART_PANIC_MS)
            }
            Some(report) => {
                counters.scanner_processed.add(u64::from(report.processed));
                counters.scanner_stale.add(u64::from(report.stale));
                counters.scanner_errors.add(u64::from(report.errors));
                self.meter(name, |meter| meter.passed(&report, took_us));
                if report.processed > 0 || report.errors > 0 {
                    tracing::debug!(scanner = name, partition = %duty.1, ?report, "scanned");
                }
                match report.more {
                    true => Some(now),
                    false if report.errors > 0 && report.next_due.is_none() => Some(now + RETRY_MS),
                    false => report.next_due,
                }
            }
        };
        if let Some(next) = next {
            let grain = self.scanners[duty.0].grain_ms();
            let next = Time::from_ms(next.ms().div_ceil(grain) * grain);
            let due = self.due.entry(duty).or_insert(next);
            *due = (*due).min(next);
        }
    }

    /// Until the earliest known duty or the next look.
    fn sleep_ms(&self) -> u64 {
        // A look that is under way ends the sleep by itself.
        let look = if self.looking { self.look_ms } else { self.look_at.since(self.shared.runtime.clock()) };
        let now = self.shared.now();
        let startable = self.running.len() < self.shared.config.scanners.at_once;
        let due = self.due.iter().filter(|(duty, _)| startable && !self.running.contains(duty));
        due.map(|(_, at)| at.since(now)).min().unwrap_or(look).min(look).max(1)
    }
}
