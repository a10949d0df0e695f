//! Drives all scanners of a node: decides which passes begin and when. Each pass and each look at the due index is a task of
//! its own, so that one that is slow, hangs or panics stops nothing else. The runner sleeps until the earliest due time that
//! commits hinted; looks catch what was not hinted.

use super::aside::Aside;
use super::backlog::{BACKLOGS, Backlog, Partial};
use super::cycle::Cycles;
use super::due::due_at;
use super::look::{Begin, Looks};
use super::{Passed, Report, Scanner};
use crate::config::INTERVAL_MIN_MS;
use crate::engine::{SHUTDOWN_WAIT_MS, Shared};
use crate::pulse::Held;
use crate::runtime;
use crate::telemetry::meters::ScannerMeter;
use futures_util::FutureExt;
use futures_util::future::{self, Either};
use std::any::Any;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::sync::mpsc;
use weft_core::planted::{self, Defect};
use weft_core::schema::{Timer, Value};
use weft_core::{PartitionId, Time};
use weft_store::{Error, Page, Range, Scan, Target};

const RESTART_PANIC_MS: u64 = 5_000;
/// A pass that has run for this time goes on and no longer counts against `scanners.at_once`: it gives its place up.
const PLACE_MS: u64 = 1_000;
/// How long a pass keeps its place if its partition is likely to give no answer: when many partitions are silent, each must
/// not cost the others a second. A partition is likely to give none if no look is answered there, or if one pass of the scanner
/// has run for a second while a later one ended within this time: in a store that is slow everywhere none does, and each pass
/// keeps its place for a second.
const PLACE_SHORT_MS: u64 = 50;
/// How long shutdown lets a pass of the embedding program's scanner go on, which may not look whether the node stops.
const OWN_GRACE_MS: u64 = 5_000;
const _: () = assert!(OWN_GRACE_MS < SHUTDOWN_WAIT_MS);
/// A look that has no answer by then is given up.
const LOOK_WAIT_MS: u64 = 10_000;
const HEADS_PER_TIMER: usize = 256;
/// Time between two counts of a backlog.
const COUNT_EVERY_MS: u64 = 10_000;
/// The catch-up on a store that others write to. Nodes ring for the timers they arm, so this bounds only what got lost.
const SHARED_LOOK_MS: u64 = 1_000;

/// A scanner, by its index in `Runner::scanners`, on one partition.
type Duty = (usize, PartitionId);

/// A task that has ended.
enum Ended {
    /// A pass, or the message of its panic.
    Pass(Duty, Result<Passed, String>),
    /// A look at one partition, or at all.
    Look(Option<PartitionId>, Result<Vec<Page>, Error>),
    /// The count of a backlog, with its number among the counts of that backlog.
    Backlog(&'static Backlog, u64, Result<u64, Partial>),
}

/// When a duty is due, in store time, and its turn among those that are due at that time.
type Due = (Time, u64);

struct Running {
    /// On the node's clock.
    began_at: Time,
    due: Due,
    /// The pass probes a partition that was put aside.
    is_probe: bool,
}

/// Passes of a scanner that have a place.
#[derive(Clone, Copy, Default)]
struct Places {
    taken: usize,
    /// When the first of them gives its place up, on the node's clock.
    free_at: Option<Time>,
}

struct Runner {
    shared: Arc<Shared>,
    scanners: Vec<Arc<dyn Scanner>>,
    /// The timers whose heads are looked at.
    timers: Vec<Timer>,
    due: BTreeMap<Duty, Due>,
    turn: u64,
    running: BTreeMap<Duty, Running>,
    /// When the last pass of each scanner that the store answered began, if it took less than `PLACE_SHORT_MS`. On the node's
    /// clock.
    quick: Vec<Option<Time>>,
    /// Duties that panicked, and when they begin again.
    panicked: BTreeMap<Duty, Time>,
    /// Duties whose last pass left items that were due then, by the time of that pass.
    left: BTreeMap<Duty, Time>,
    /// When the oldest of the items was due that passes of a duty should have handled and left, and whether those passes go on.
    overdue: BTreeMap<Duty, (Time, bool)>,
    aside: BTreeMap<PartitionId, Aside>,
    looks: Looks,
    cycles: Vec<Cycles>,
    /// In the order of `BACKLOGS`.
    counts: [Count; BACKLOGS.len()],
    tasks: (mpsc::UnboundedSender<Ended>, mpsc::UnboundedReceiver<Ended>),
}

/// The counting of a backlog.
#[derive(Clone, Copy, Default)]
struct Count {
    /// When the last one began, on the node's clock.
    began_at: Option<Time>,
    number: u64,
}

/// Runs until the engine closes. However it ends, `pulse` says so.
pub async fn run(shared: Arc<Shared>, pulse: Held) {
    let scanners = shared.scanners.clone();
    let look_ms = match shared.description.exclusive {
        true => shared.config.scanners.look_ms,
        false => SHARED_LOOK_MS,
    };
    let partitions = shared.partitions.len();
    for scanner in &scanners {
        tracing::info!(scanner = scanner.name(), interval_ms = scanner.interval_ms(), partitions, "scanner started");
    }
    let first = scanners.iter().filter(|scanner| scanner.age_ms() == 0);
    let mut runner = Runner {
        timers: first.flat_map(|scanner| scanner.timers()).copied().collect(),
        looks: Looks::new(look_ms.max(INTERVAL_MIN_MS), shared.runtime.clock()),
        cycles: scanners.iter().map(|_| Cycles::default()).collect(),
        quick: vec![None; scanners.len()],
        shared,
        scanners,
        due: BTreeMap::new(),
        turn: 0,
        running: BTreeMap::new(),
        panicked: BTreeMap::new(),
        left: BTreeMap::new(),
        overdue: BTreeMap::new(),
        aside: BTreeMap::new(),
        counts: Default::default(),
        tasks: mpsc::unbounded_channel(),
    };
    while !runner.shared.is_closing() {
        runner.turn(&pulse).await;
    }
    // Passes that are under way end by themselves, and shutdown waits for them.
    for scanner in &runner.scanners {
        tracing::info!(scanner = scanner.name(), "scanner stopped");
    }
}

impl Runner {
    async fn turn(&mut self, pulse: &Held) {
        let shared = self.shared.clone();
        let clock = shared.runtime.clock();
        if let Some(by) = shared.hub.take_look_by() {
            self.looks.by(by);
        }
        self.look(clock);
        for ((timer, partition), at) in shared.hub.take_hints() {
            self.expect_timer(timer, partition, at, false);
        }
        self.expect_passes();
        self.start_due(clock);
        self.end_cycles(clock);
        self.tell_due();
        let mut next = self.rest(clock, pulse).await;
        while let Some(ended) = next {
            match ended {
                Ended::Pass(duty, passed) => self.passed(duty, passed),
                Ended::Look(None, found) => self.looked(found),
                Ended::Look(Some(partition), found) => self.looked_at(partition, found),
                Ended::Backlog(backlog, number, counted) => self.counted(backlog, number, counted),
            }
            next = self.tasks.1.try_recv().ok();
        }
    }

    /// Sleeps until something is to begin, has ended, or is rung for.
    async fn rest(&mut self, clock: Time, pulse: &Held) -> Option<Ended> {
        let shared = &self.shared;
        let sleep_ms = self.wakes_at(clock).since(shared.runtime.clock()).max(1);
        shared.hub.rest(shared.now() + sleep_ms);
        let rung = shared.hub.due.notified();
        let ended = self.tasks.1.recv();
        futures_util::pin_mut!(ended, rung);
        let either = future::select(ended, rung);
        pulse.waits();
        let woken = runtime::timeout(&*shared.runtime, sleep_ms, either).await;
        pulse.works(shared.runtime.clock());
        match woken {
            Some(Either::Left((ended, _))) => ended,
            _ => None,
        }
    }

    /// Begins the looks that it is time for.
    fn look(&mut self, clock: Time) {
        match self.looks.begin(clock) {
            // The engine depends on hints alone.
            Some(_) if planted::on(Defect::ProgressNeedsWake) => return,
            Some(Begin::Joint) => self.start_look(None),
            Some(Begin::Both) => {
                self.start_look(None);
                self.joint_over(false);
            }
            Some(Begin::Round) => self.joint_over(false),
            None => {}
        }
        if self.looks.is_late(clock) {
            self.joint_over(false);
        }
        for partition in self.looks.begin_single(clock) {
            self.start_look(Some(partition));
        }
        if self.looks.round_over(clock) {
            self.begin_cycles();
        }
    }

    /// The earliest entries of every timer, in one store call.
    fn start_look(&self, partition: Option<PartitionId>) {
        let range = |timer: &Timer| Range { prefix: vec![Value::Int(*timer as i64)], ..Range::default() };
        let alone = partition.is_some() || self.shared.partitions.len() == 1;
        let scan = Scan {
            target: Target::Due,
            ranges: self.timers.iter().map(range).collect(),
            limit: if alone { 1 } else { HEADS_PER_TIMER },
            descending: false,
            parts: None,
        };
        let (shared, tell) = (self.shared.clone(), self.tasks.0.clone());
        self.shared.start(async move {
            let found = shared.store.scan(partition, scan);
            let found = AssertUnwindSafe(runtime::timeout(&*shared.runtime, LOOK_WAIT_MS, found)).catch_unwind();
            let found = match found.await {
                Ok(Some(found)) => found,
                Ok(None) => Err(Error::unavailable("no answer in 10 s")),
                Err(panic) => Err(Error::unavailable(message(&*panic))),
            };
            // The runner may have stopped.
            let _ = tell.send(Ended::Look(partition, found));
        });
    }

    /// The look at all partitions has ended.
    fn looked(&mut self, found: Result<Vec<Page>, Error>) {
        self.looks.joint_ended();
        let now = self.shared.now();
        let showed_all = match found {
            Ok(pages) => {
                // A page may end before its limit: entries of several partitions at one place are not separated.
                let is_joint = self.shared.partitions.len() > 1;
                let is_full =
                    |page: &Page| is_joint && page.more && page.entries.last().is_none_or(|entry| due_at(entry) <= now);
                let full = pages.iter().any(is_full);
                self.count_backlogs(&pages, now);
                self.expect_heads(pages);
                !full
            }
            Err(error) => {
                self.unanswered(None, &error);
                self.looks.retry(self.shared.runtime.clock());
                false
            }
        };
        if self.looks.awaits_joint() {
            self.joint_over(showed_all);
        }
    }

    fn joint_over(&mut self, showed_all: bool) {
        let aside = |partition| self.aside.contains_key(&partition);
        // With the defect no partition is ever looked at by itself.
        let showed_all = showed_all || planted::on(Defect::DeadPartitionHidesOthers);
        if self.looks.joint_over(showed_all, self.shared.membership.mine(), aside) {
            self.begin_cycles();
        }
    }

    /// The look at one partition has ended.
    fn looked_at(&mut self, partition: PartitionId, found: Result<Vec<Page>, Error>) {
        self.looks.single_ended(partition, found.is_ok());
        match found {
            Ok(pages) => {
                self.expect_heads(pages);
                // A partition that was put aside answers again.
                self.aside.remove(&partition);
            }
            Err(error) => {
                self.unanswered(Some(partition), &error);
                self.put_aside(partition, true, None);
            }
        }
    }

    fn unanswered(&self, partition: Option<PartitionId>, error: &Error) {
        self.shared.counters.scanner_errors.add(1);
        self.shared.silences.warn(self.shared.runtime.clock(), "all", partition, error);
    }

    fn expect_heads(&mut self, pages: Vec<Page>) {
        for (timer, page) in self.timers.clone().into_iter().zip(pages) {
            for entry in page.entries {
                self.expect_timer(timer, entry.partition, due_at(&entry), true);
            }
        }
    }

    /// Schedules the scanners of a timer due at `at`. A look (`is_seen`) does not reschedule what the last pass left.
    fn expect_timer(&mut self, timer: Timer, partition: PartitionId, at: Time, is_seen: bool) {
        if !self.shared.membership.is_mine(partition) {
            return;
        }
        for place in 0..self.scanners.len() {
            let scanner = &self.scanners[place];
            let at = at + scanner.age_ms();
            let is_left = is_seen && self.left.get(&(place, partition)).is_some_and(|left_at| at <= *left_at);
            if scanner.timers().contains(&timer) && !is_left {
                self.expect((place, partition), at);
            }
        }
    }

    /// Passes of scanners without timers, over partitions that have had none.
    fn expect_passes(&mut self) {
        let now = self.shared.now();
        for place in 0..self.scanners.len() {
            if !self.scanners[place].timers().is_empty() {
                continue;
            }
            for partition in self.shared.membership.mine() {
                let duty = (place, partition);
                if !self.due.contains_key(&duty) && !self.running.contains_key(&duty) {
                    self.expect(duty, now);
                }
            }
        }
    }

    /// The duty begins at `at` or earlier.
    fn expect(&mut self, duty: Duty, at: Time) {
        let grain = self.scanners[duty.0].grain_ms();
        let at = Time::from_ms(at.ms().div_ceil(grain) * grain);
        self.turn += 1;
        let due = (at, self.turn);
        let known = self.due.entry(duty).or_insert(due);
        if at < known.0 {
            *known = due;
        }
    }

    /// Begins the passes that are due, in due order, as far as there are places.
    fn start_due(&mut self, clock: Time) {
        let (shared, now) = (self.shared.clone(), self.shared.now());
        let is_mine = |partition| shared.membership.is_mine(partition);
        self.due.retain(|duty, _| is_mine(duty.1));
        self.aside.retain(|partition, _| is_mine(*partition));
        self.left.retain(|duty, _| is_mine(duty.1));
        self.overdue.retain(|duty, _| is_mine(duty.1));
        self.panicked.retain(|_, at| *at > now);
        for cycles in &mut self.cycles {
            cycles.retain(is_mine);
        }
        let mut taken: Vec<usize> = self.places(clock).iter().map(|places| places.taken).collect();
        let is_due = |(duty, due): &(&Duty, &Due)| {
            due.0 <= now && !self.running.contains_key(*duty) && !self.panicked.contains_key(*duty)
        };
        // Partitions that answer come first: one that does not must not take their places. In one that was put aside the
        // scanners probe in turn: if the calls of one fail and the others' would not, they must not wait for it.
        let silent = self.silent(clock);
        let turn = |duty: &Duty| self.aside.get(&duty.1).map_or(0, |aside| aside.turn(duty.0));
        let order = |(duty, due): (&Duty, &Due)| (silent.contains(&duty.1), turn(duty), *due, *duty);
        let mut due: Vec<(bool, u32, Due, Duty)> = self.due.iter().filter(is_due).map(order).collect();
        due.sort();
        let may_probe = |duty: &Duty| shared.config.scanners.at_once > 0 && !self.scanners[duty.0].timers().is_empty();
        let waiting: BTreeSet<PartitionId> =
            due.iter().map(|(_, _, _, duty)| duty).filter(|duty| may_probe(duty)).map(|duty| duty.1).collect();
        for (_, _, due, duty) in due {
            if taken[duty.0] >= shared.config.scanners.at_once || shared.is_closing() {
                continue;
            }
            let is_own = self.scanners[duty.0].timers().is_empty();
            let is_probe = match self.aside.get_mut(&duty.1) {
                // A pass of the embedding program may succeed without any call to the store.
                Some(_) if is_own => continue,
                Some(aside) if aside.probe_at() > clock && planted::on(Defect::DeadPartitionHidesOthers) => break,
                Some(aside) if aside.probe_at() > clock => continue,
                Some(aside) => {
                    aside.begin_probe(clock);
                    true
                }
                None => false,
            };
            taken[duty.0] += 1;
            self.due.remove(&duty);
            self.running.insert(duty, Running { began_at: clock, due, is_probe });
            self.start(duty);
        }
        // A partition in which nothing is known to be due is probed by a look. Where something is, a pass probes as soon as it
        // has a place: a look succeeds although the store takes no commits.
        let mut probed = Vec::new();
        for (partition, aside) in &mut self.aside {
            if aside.probe_at() <= clock && !waiting.contains(partition) {
                aside.begin_probe(clock);
                if self.looks.begin_probe(*partition) {
                    probed.push(*partition);
                }
            }
        }
        for partition in probed {
            self.start_look(Some(partition));
        }
    }

    /// Partitions that were put aside, and those of which a look has been without an answer for a second. A pass shows nothing
    /// of its partition: it may be the scanner that is slow.
    fn silent(&self, clock: Time) -> BTreeSet<PartitionId> {
        self.aside.keys().copied().chain(self.looks.silent(clock)).collect()
    }

    /// The places of each scanner.
    fn places(&self, clock: Time) -> Vec<Places> {
        let (silent, mut place_ms) = (self.silent(clock), vec![PLACE_MS; self.scanners.len()]);
        for (duty, running) in &self.running {
            let is_slow = clock.since(running.began_at) >= PLACE_MS;
            if is_slow && self.quick[duty.0].is_some_and(|began_at| began_at >= running.began_at) {
                place_ms[duty.0] = PLACE_SHORT_MS;
            }
        }
        let mut places = vec![Places::default(); self.scanners.len()];
        for (duty, running) in &self.running {
            let place_ms = if silent.contains(&duty.1) { PLACE_SHORT_MS } else { place_ms[duty.0] };
            let (places, free_at) = (&mut places[duty.0], running.began_at + place_ms);
            if free_at > clock {
                places.taken += 1;
                places.free_at = Some(places.free_at.map_or(free_at, |known| known.min(free_at)));
            }
        }
        places
    }

    fn start(&mut self, duty: Duty) {
        let (scanner, shared, tell) = (self.scanners[duty.0].clone(), self.shared.clone(), self.tasks.0.clone());
        shared.counters.scanner_wakes.add(1);
        self.meter(duty.0).wakes.add(1);
        self.shared.start(async move {
            let pass = AssertUnwindSafe(async { super::pass(&shared, &*scanner, duty.1).await }).catch_unwind();
            let passed = if scanner.timers().is_empty() {
                futures_util::pin_mut!(pass);
                match future::select(pass, Box::pin(end_of_grace(&shared))).await {
                    Either::Left((passed, _)) => passed,
                    Either::Right(_) => {
                        let (scanner, partition) = (scanner.name(), duty.1);
                        return tracing::warn!(scanner, %partition, "a pass did not end when the node stopped");
                    }
                }
            } else {
                pass.await
            };
            let passed = passed.map_err(|panic| message(&*panic));
            // The runner may have stopped.
            let _ = tell.send(Ended::Pass(duty, passed));
        });
    }

    /// A pass has ended.
    fn passed(&mut self, duty: Duty, passed: Result<Passed, String>) {
        let Some(Running { began_at, due, is_probe }) = self.running.remove(&duty) else { return };
        let (place, partition) = duty;
        let (scanner, now) = (self.scanners[place].clone(), self.shared.now());
        let passed = match passed {
            Ok(passed) => passed,
            Err(error) => {
                self.shared.counters.scanner_restarts.add(1);
                self.meter(place).restarts.add(1);
                let (scanner, pause_ms) = (scanner.name(), RESTART_PANIC_MS);
                tracing::error!(scanner, %partition, pause_ms, %error, "a scanner panicked");
                self.panicked.insert(duty, now + RESTART_PANIC_MS);
                self.keep(duty, due);
                if is_probe {
                    self.put_aside(partition, true, Some(place));
                }
                let report = Report { errors: 1, ..Report::default() };
                return self.cycles[place].passed(partition, &report, None);
            }
        };
        let Passed { report, left_at, overdue, unanswered, backlog } = passed;
        let counters = &self.shared.counters;
        counters.scanner_processed.add(u64::from(report.processed));
        counters.scanner_stale.add(u64::from(report.stale));
        counters.scanner_errors.add(u64::from(report.errors));
        self.meter(place).passed(&report);
        self.cycles[place].passed(partition, &report, backlog);
        if unanswered {
            self.keep(duty, due);
            return self.put_aside(partition, is_probe, Some(place));
        }
        if is_probe {
            self.aside.remove(&partition);
        }
        let took_ms = self.shared.runtime.clock().since(began_at);
        self.quick[place] = Some(began_at).filter(|_| took_ms < PLACE_SHORT_MS);
        // Set only now: entries that a look showed during the pass are judged by what the previous pass left.
        match left_at {
            Some(left_at) => self.left.insert(duty, left_at),
            None => self.left.remove(&duty),
        };
        let so_far = self.overdue.remove(&duty).filter(|(_, goes_on)| *goes_on).map(|(at, _)| at);
        if let Some(at) = so_far.into_iter().chain(overdue).min() {
            self.overdue.insert(duty, (at, report.more));
        }
        if report.more {
            // A backlog does not wait for the scanner's grain, which is for wakes.
            self.turn += 1;
            return self.keep(duty, (now, self.turn));
        }
        let later = now + scanner.interval_ms();
        let next = match report.errors > 0 {
            _ if scanner.timers().is_empty() => Some(now.max(due.0 + scanner.interval_ms())),
            true => Some(report.next_due.map_or(later, |next| next.min(later))),
            false => report.next_due,
        };
        if let Some(next) = next {
            self.expect(duty, next);
        }
    }

    /// Puts the duty back with its due time and its turn, unless an earlier time is known by now.
    fn keep(&mut self, duty: Duty, due: Due) {
        let known = self.due.entry(duty).or_insert(due);
        *known = due.min(*known);
    }

    /// Stops passes over a partition in which a store call of this scanner, or a look, has failed, until a probe succeeds.
    /// Failed probes lengthen the pause.
    fn put_aside(&mut self, partition: PartitionId, is_probe: bool, scanner: Option<usize>) {
        let clock = self.shared.runtime.clock();
        let aside = match self.aside.entry(partition) {
            Entry::Vacant(entry) => entry.insert(Aside::new(clock)),
            Entry::Occupied(entry) => {
                let aside = entry.into_mut();
                if is_probe {
                    aside.probe_failed(clock);
                }
                aside
            }
        };
        if let Some(scanner) = scanner {
            aside.failed(scanner);
        }
        for cycles in &mut self.cycles {
            cycles.leave_out(partition);
        }
    }

    /// A look has ended: scanners without an open cycle begin one with what is due now.
    fn begin_cycles(&mut self) {
        let (now, began_at) = (self.shared.now(), self.looks.began_at());
        for place in 0..self.scanners.len() {
            if self.cycles[place].is_open() {
                continue;
            }
            let waits_for = match self.scanners[place].timers() {
                [] => self.shared.membership.mine().into_iter().collect(),
                _ => {
                    let due = self.due.iter().filter(|(_, due)| due.0 <= now).map(|(duty, _)| duty);
                    let open = due.chain(self.running.keys()).filter(|duty| duty.0 == place);
                    open.map(|duty| duty.1).collect()
                }
            };
            let meter = self.shared.telemetry.scanner(self.scanners[place].name());
            self.cycles[place].begin(began_at, waits_for, now, meter.expect(METERED));
            for partition in self.aside.keys() {
                self.cycles[place].leave_out(*partition);
            }
        }
    }

    fn end_cycles(&mut self, clock: Time) {
        let now = self.shared.now();
        for (scanner, cycles) in self.scanners.iter().zip(&mut self.cycles) {
            let meter = self.shared.telemetry.scanner(scanner.name()).expect(METERED);
            if cycles.end(scanner.name(), clock, now, meter) {
                self.shared.counters.scanner_cycles.add(1);
            }
        }
    }

    /// Starts a count of each backlog of which a look at all partitions showed entries, and sets the others to zero.
    fn count_backlogs(&mut self, pages: &[Page], now: Time) {
        let clock = self.shared.runtime.clock();
        for (backlog, count) in BACKLOGS.iter().zip(&mut self.counts) {
            let of_it = self.timers.iter().zip(pages).filter(|(timer, _)| backlog.timers.contains(timer));
            let waits = |(timer, page): (&Timer, &Page)| {
                page.entries.iter().any(|entry| Backlog::counts(*timer, due_at(entry), now))
            };
            if !of_it.into_iter().any(waits) {
                count.number += 1;
                self.shared.telemetry.scanner(backlog.scanner).expect(METERED).counted_backlog(0);
            } else if count.began_at.is_none_or(|at| clock.since(at) >= COUNT_EVERY_MS) {
                *count = Count { began_at: Some(clock), number: count.number + 1 };
                let (number, shared, tell) = (count.number, self.shared.clone(), self.tasks.0.clone());
                self.shared.start(async move {
                    let counted = backlog.count(&shared, now).await;
                    // The runner may have stopped.
                    let _ = tell.send(Ended::Backlog(backlog, number, counted));
                });
            }
        }
    }

    /// A count that another one overtook is not written.
    fn counted(&mut self, backlog: &'static Backlog, number: u64, counted: Result<u64, Partial>) {
        let scanner = backlog.scanner;
        match counted {
            Ok(count) => {
                let is_last = BACKLOGS
                    .iter()
                    .zip(&self.counts)
                    .any(|(one, count)| one.scanner == scanner && count.number == number);
                if is_last {
                    self.shared.telemetry.scanner(scanner).expect(METERED).counted_backlog(count);
                }
            }
            Err(error) => {
                tracing::debug!(scanner, %error, "the backlog was not counted in every partition");
                if let Partial::Store(error) = &error {
                    self.shared.silences.warn(self.shared.runtime.clock(), scanner, None, error);
                }
            }
        }
    }

    /// Sets each scanner's meter to the earliest due time that is known and not handled, that of items left among them.
    fn tell_due(&self) {
        let mut earliest: Vec<Option<Time>> = vec![None; self.scanners.len()];
        let running = self.running.iter().map(|(duty, running)| (duty, running.due.0));
        let known = self.due.iter().map(|(duty, due)| (duty, due.0)).chain(running);
        for ((place, _), at) in known.chain(self.overdue.iter().map(|(duty, (at, _))| (duty, *at))) {
            earliest[*place] = Some(earliest[*place].map_or(at, |known| known.min(at)));
        }
        for (place, due) in earliest.into_iter().enumerate() {
            self.meter(place).expects(due);
        }
    }

    /// When something is to begin, on the node's clock.
    fn wakes_at(&self, clock: Time) -> Time {
        let (now, at_once) = (self.shared.now(), self.shared.config.scanners.at_once);
        let mut wakes_at = self.looks.wakes_at(clock);
        for aside in self.aside.values().filter(|aside| aside.probe_at() > clock) {
            wakes_at = wakes_at.min(aside.probe_at());
        }
        if at_once == 0 {
            return wakes_at;
        }
        let places = self.places(clock);
        for (duty, (at, _)) in self.due.iter().filter(|(duty, _)| !self.running.contains_key(duty)) {
            // A partition that was put aside waits for its probe, and a probe whose time has come for a place.
            let is_own = self.scanners[duty.0].timers().is_empty();
            if self.aside.get(&duty.1).is_some_and(|aside| is_own || aside.probe_at() > clock) {
                continue;
            }
            let at = self.panicked.get(duty).map_or(*at, |again_at| *again_at.max(at));
            let begins_at = clock + at.since(now);
            let place_at = places[duty.0].free_at.filter(|_| places[duty.0].taken >= at_once).unwrap_or(clock);
            wakes_at = wakes_at.min(begins_at.max(place_at));
        }
        wakes_at
    }

    fn meter(&self, place: usize) -> &ScannerMeter {
        self.shared.telemetry.scanner(self.scanners[place].name()).expect(METERED)
    }
}

const METERED: &str = "runner: every scanner of the node has a meter";

/// Resolves when the engine has been closing for so long that passes of the embedding program are given up.
async fn end_of_grace(shared: &Shared) {
    let closed = shared.closed.notified();
    if !shared.is_closing() {
        closed.await;
    }
    shared.runtime.sleep(OWN_GRACE_MS).await;
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}
