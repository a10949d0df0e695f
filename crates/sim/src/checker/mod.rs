//! The judge: watches every commit as it is applied and every answer as it arrives, and says what must not be.
//!
//! It keeps its own copy of every record, made from the commits alone, and never looks at a cache of the engine.

mod due;
mod facts;
mod flows;
mod ledger;
mod losses;
mod versions;
mod whole;

pub use facts::{LeaseFact, Offer, Waiter};
pub use ledger::{Ack, Note};
pub use losses::Memory;

use crate::log::Log;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_core::change::Head;
use weft_core::event::{self, Event};
use weft_core::record::{Execution, Key, Record};
use weft_core::schema::{Due, PartMask, Timer};
use weft_core::{CommitId, ExecutionId, PartitionId, Time};
use weft_store::memory::Committed;
use weft_store::{Outcome, Resolution};

/// Violations after which a seed has said enough.
const VIOLATIONS_MAX: usize = 12;

/// Commits between two looks at everything.
const WHOLE_EVERY: u64 = 256;

/// How far the time of a commit may be ahead of the store's clock: what a node's clock can gain between two readings.
const AHEAD_MS_MAX: u64 = 2_000;

/// How late a timer may fire while another partition gives no answer: four failed store calls in a row about its own
/// partition put that aside for 15 s.
const LATE_MS_MAX: u64 = 30_000;

/// A judge that the store, the nodes and the outside share.
#[derive(Clone)]
pub struct SharedJudge(Arc<Mutex<Judge>>);

impl SharedJudge {
    pub fn new(judge: Judge) -> Self {
        Self(Arc::new(Mutex::new(judge)))
    }

    pub fn lock(&self) -> MutexGuard<'_, Judge> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A record as the commits left it.
#[derive(Clone)]
pub struct Seen {
    pub revision: CommitId,
    pub record: Record,
    pub due: BTreeSet<Due>,
}

#[derive(Default)]
pub struct Judge {
    pub log: Log,
    violations: Vec<String>,
    sometimes: BTreeMap<&'static str, u64>,
    records: BTreeMap<Key, Seen>,
    heads: BTreeMap<PartitionId, Head>,
    applied: BTreeMap<CommitId, (PartitionId, Head)>,
    barred: BTreeMap<CommitId, PartitionId>,
    facts: facts::Facts,
    ledger: ledger::Ledger,
    losses: losses::Losses,
    pub commits: u64,
    pub transitions: u64,
    /// From here on every commit must have a timer for a reason.
    idle: bool,
    /// Store time right now.
    now_ms: u64,
    /// Generation of the partition whose commit was seen last.
    generation: u64,
}

/// What a commit did to one execution, for the checks of `versions`.
pub(crate) struct Step<'a> {
    pub id: ExecutionId,
    /// The time of the last command on it. The commands of one commit have times of their own, the commit has the latest.
    pub now: Time,
    pub old: Option<&'a Execution>,
    pub new: Option<&'a Execution>,
    pub events: &'a [&'a Event],
}

impl Judge {
    pub fn new(log: Log) -> Self {
        Self { log, ..Self::default() }
    }

    pub fn violation(&mut self, rule: &str, what: impl AsRef<str>) {
        let line = format!("{rule} at {}: {}", self.now_ms, what.as_ref());
        self.log.remark(|| format!("VIOLATION {line}"));
        if self.violations.len() < VIOLATIONS_MAX && !self.violations.contains(&line) {
            self.violations.push(line);
        }
    }

    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Counts a rare state that was reached.
    pub fn sometimes(&mut self, state: &'static str) {
        *self.sometimes.entry(state).or_default() += 1;
    }

    pub fn take_sometimes(&mut self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut self.sometimes)
    }

    pub fn begin_idle(&mut self) {
        self.idle = true;
    }

    pub fn executions(&self) -> impl Iterator<Item = &Execution> {
        self.records.values().filter_map(|seen| match &seen.record {
            Record::Execution(execution) => Some(&**execution),
            _ => None,
        })
    }

    pub fn record(&self, key: &Key) -> Option<&Record> {
        self.records.get(key).map(|seen| &seen.record)
    }

    pub fn execution(&self, id: ExecutionId) -> Option<&Execution> {
        match &self.records.get(&Key::Execution(id))?.record {
            Record::Execution(execution) => Some(execution),
            _ => None,
        }
    }

    /// A commit was applied at `now_ms` of the store's clock. Called under the store's lock.
    pub fn observe(&mut self, commit: &Committed<'_>, now_ms: u64) {
        self.now_ms = now_ms;
        self.generation = commit.head.position.generation;
        self.commits += 1;
        self.log.commit(commit.partition, commit.head, commit.batch);
        self.check_head(commit);
        self.check_reads(commit);
        let events = match event::decode(&commit.batch.feed) {
            Ok(events) => events,
            Err(error) => {
                self.violation("RI-19", format!("the feed entry of {} does not decode: {error}", commit.batch.id));
                Vec::new()
            }
        };
        let mut by_execution: BTreeMap<ExecutionId, Vec<&Event>> = BTreeMap::new();
        for event in &events {
            self.log.remark(|| format!("  event {:?} {:?}", event.execution, event.fact));
            if event.at > commit.batch.now {
                self.violation("RI-19", format!("an event of {} is later than its commit", commit.batch.id));
            }
            if let Some(execution) = event.execution {
                by_execution.entry(execution).or_default().push(event);
            }
        }
        self.check_raise(commit, &events);
        let highest = self.losses.highest.entry(commit.partition).or_default();
        *highest = commit.head.position.seq.max(*highest);
        self.check_batch_events(&events);
        self.check_idle(commit);
        self.drop_due(commit);
        for write in &commit.batch.writes {
            self.observe_write(commit, write.key, &by_execution);
        }
        self.check_flows(commit, &events);
        if self.commits.is_multiple_of(WHOLE_EVERY) {
            let dump = commit.dump();
            self.check_whole(commit.partition, &dump);
        }
    }

    fn check_head(&mut self, commit: &Committed<'_>) {
        let (before, head, batch) = (commit.before, commit.head, commit.batch);
        let partition = commit.partition;
        let last = self.heads.insert(partition, head).unwrap_or_default();
        let follows = batch.raise.unwrap_or(before.position.next());
        if head.position != follows || before.position < last.position {
            let what = format!("partition {partition}: seq went from {:?} to {:?}", last.position, head.position);
            self.violation("RI-4", what);
        }
        if head.now < last.now || head.now != batch.now {
            self.violation("E24", format!("partition {partition}: now went from {:?} to {:?}", last.now, head.now));
        }
        if batch.now.ms() > self.now_ms + AHEAD_MS_MAX {
            let ahead = batch.now.ms() - self.now_ms;
            self.violation(
                "RI-10",
                format!("partition {partition}: its time is {ahead} ms ahead of the store's clock"),
            );
        }
        *self.losses.commits.entry(partition).or_default() += 1;
        if self.applied.insert(batch.id, (partition, head)).is_some() {
            self.violation("RI-3", format!("commit {} was applied twice", batch.id));
        }
        if self.barred.contains_key(&batch.id) {
            self.violation(
                "RI-3",
                format!("commit {} was applied after `resolve` said that it never will be", batch.id),
            );
        }
    }

    /// Whatever path the store took, a commit rests on what was committed last.
    fn check_reads(&mut self, commit: &Committed<'_>) {
        for (key, seen) in &commit.batch.reads {
            let current = self.records.get(key).map(|record| record.revision);
            if current != *seen {
                let what = format!("commit {} rests on a stale {key:?}: saw {seen:?}, is {current:?}", commit.batch.id);
                self.violation("RI-5", what);
            }
        }
    }

    fn drop_due(&mut self, commit: &Committed<'_>) {
        for drop in &commit.batch.due_drops {
            let key = weft_core::schema::Kind::from_u8(drop.kind)
                .and_then(|kind| Key::from_bytes(commit.partition, kind, &drop.key));
            let (Some(key), Some(timer)) = (key, Timer::from_u8(drop.timer)) else { continue };
            if let Some(seen) = self.records.get_mut(&key) {
                seen.due.remove(&Due { timer, at: drop.at });
            }
        }
        let dropped: Vec<Key> = commit
            .batch
            .due_drops
            .iter()
            .filter_map(|drop| {
                let kind = weft_core::schema::Kind::from_u8(drop.kind)?;
                Key::from_bytes(commit.partition, kind, &drop.key)
            })
            .collect();
        for key in dropped {
            let written = commit.batch.writes.iter().any(|write| write.key == key);
            let lost = |seen: &Seen| seen.due != due::armed(&seen.record);
            if !written && self.records.get(&key).is_some_and(lost) {
                self.violation("E11", format!("an armed timer of {key:?} was dropped"));
            }
        }
    }

    fn observe_write(&mut self, commit: &Committed<'_>, key: Key, events: &BTreeMap<ExecutionId, Vec<&Event>>) {
        let Some(write) = commit.batch.writes.iter().find(|write| write.key == key) else { return };
        let old = self.records.remove(&key);
        let new = commit.record(&key).and_then(|stored| {
            let parts: Vec<_> = stored.parts.iter().map(|(part, bytes)| (*part, bytes.clone())).collect();
            match Record::decode(key, &parts, PartMask::ALL) {
                Ok(record) => Some(record),
                Err(error) => {
                    self.violation("E22", format!("{key:?} does not decode: {error}"));
                    None
                }
            }
        });
        let mut entries = old.as_ref().map(|old| old.due.clone()).unwrap_or_default();
        for gone in &write.due_remove {
            entries.remove(gone);
        }
        entries.extend(write.due_add.iter().copied());
        let armed: BTreeSet<Due> = new.as_ref().map(due::armed).unwrap_or_default();
        if entries != armed {
            let what = format!("{key:?}: the due index has {entries:?}, the record {armed:?}");
            self.violation(due::rule(new.as_ref()), what);
        }
        self.compare(commit, key, old.as_ref().map(|old| &old.record), new.as_ref(), events);
        if let Some(record) = new {
            self.records.insert(key, Seen { revision: commit.batch.id, record, due: armed });
        }
    }

    fn compare(
        &mut self,
        commit: &Committed<'_>,
        key: Key,
        old: Option<&Record>,
        new: Option<&Record>,
        events: &BTreeMap<ExecutionId, Vec<&Event>>,
    ) {
        let now = commit.batch.now;
        match key {
            Key::Execution(id) => {
                self.transitions += 1;
                let as_execution = |record: Option<&'_ Record>| match record {
                    Some(Record::Execution(execution)) => Some((**execution).clone()),
                    _ => None,
                };
                let (old, new) = (as_execution(old), as_execution(new));
                let events = events.get(&id).map(Vec::as_slice).unwrap_or_default();
                let at = new.as_ref().map_or(now, |new| new.hot.updated_at);
                let before = old.as_ref().map_or(Time::ZERO, |old| old.hot.updated_at);
                if at > now || at < before {
                    self.violation(
                        "E24",
                        format!("{id}: updated_at went from {before:?} to {at:?} in a commit at {now:?}"),
                    );
                }
                self.check_step(&Step { id, now: at, old: old.as_ref(), new: new.as_ref(), events });
            }
            Key::Attempt(id, index) => {
                let purges = commit.batch.writes.iter().any(|write| write.key == Key::Execution(id));
                self.check_attempt(id, index, old, new, purges);
            }
            Key::Dedup(..) => self.check_dedup(key, old, new, now),
            // A node's own word about itself; and what a bulk job does, it does by the ordinary rules.
            Key::Node(..) | Key::BulkJob(..) => {}
            Key::Step(id, number) => self.check_recorded(id, number, old, new),
            Key::Worker(..) => {
                if let Some(Record::Worker(worker)) = new
                    && let Err(broken) = weft_core::invariant::check_worker(worker, now)
                {
                    self.violation(broken.id, format!("{}: {}", worker.body.instance, broken.what));
                }
            }
            Key::Audit(partition, number) => self.check_entry(partition, number, old, new),
            Key::ApiKey(..) | Key::Register(..) | Key::Edge(..) | Key::Tombstone(_) => {}
            Key::Flow(id) => {
                if new.is_some() {
                    self.facts.flows.insert(id);
                }
                if let Some(Record::Flow(flow)) = new
                    && let Err(broken) = weft_core::invariant::check_flow(flow)
                {
                    self.violation(broken.id, format!("{}: {}", flow.id, broken.what));
                }
            }
            Key::Continuation(..) | Key::DeadLetter(..) => {
                if let Some(Record::DeadLetter(letter)) = new {
                    self.violation("SR-26", format!("an item was parked: {}", letter.body.error));
                }
            }
        }
    }

    /// SEC-12: an entry of the audit log is written once and follows the one before it.
    fn check_entry(&mut self, partition: PartitionId, number: u64, old: Option<&Record>, new: Option<&Record>) {
        let Some(Record::Audit(entry)) = new else { return };
        if old.is_some() {
            self.violation("SEC-12", format!("entry {number} of {partition:?} was written again"));
        }
        let before = number.checked_sub(1).and_then(|before| self.records.get(&Key::Audit(partition, before)));
        if let Some(Record::Audit(before)) = before.map(|seen| &seen.record)
            && !entry.follows(&before.end())
        {
            self.violation("SEC-12", format!("entry {number} of {partition:?} does not follow the one before"));
        }
    }

    /// In an idle engine nothing is committed but what a due timer asks for.
    fn check_idle(&mut self, commit: &Committed<'_>) {
        let now = commit.batch.now;
        let timed = |key: &Key| self.records.get(key).is_some_and(|seen| seen.due.iter().any(|due| due.at <= now));
        let batch = commit.batch;
        let heartbeat = batch.writes.iter().all(|write| matches!(write.key, Key::Node(..)));
        if self.idle && !heartbeat && !batch.writes.iter().any(|write| timed(&write.key)) && batch.due_drops.is_empty()
        {
            let keys: Vec<Key> = batch.writes.iter().map(|write| write.key).collect();
            self.violation("liveness", format!("an idle engine committed {keys:?}"));
        }
    }

    /// SR-10: timers of every other partition fire although `silent` has given no answer since `since_ms`.
    pub fn check_beside(&mut self, silent: PartitionId, since_ms: u64, now_ms: u64) {
        self.now_ms = now_ms;
        let exact = [Timer::Lease, Timer::AttemptTimeout, Timer::Deadline, Timer::Until];
        let is_late = |due: &Due| exact.contains(&due.timer) && due.at.ms().max(since_ms) + LATE_MS_MAX < now_ms;
        let mut beside = self.records.iter().filter(|(key, _)| key.partition() != silent);
        let late = beside.find_map(|(key, seen)| Some((*key, *seen.due.iter().find(|due| is_late(due))?)));
        if let Some((key, due)) = late {
            self.violation("SR-10", format!("{key:?} still has {due:?} while partition {silent} gives no answer"));
        }
    }

    /// Checks a commit built on `expect` that reached the store, whatever reply its sender gets.
    pub fn arrived(&mut self, partition: PartitionId, id: CommitId, expect: Head, outcome: &Outcome) {
        if let Outcome::Lost { head } = outcome {
            self.check_lost(partition, id, expect, *head);
        }
        let refused = matches!(outcome, Outcome::NotApplied { .. });
        if refused && self.barred.contains_key(&id) {
            self.sometimes("late arrival hits the bar");
        }
    }

    pub fn resolved(&mut self, partition: PartitionId, id: CommitId, resolution: Resolution) {
        match resolution {
            Resolution::NotApplied => {
                if self.applied.contains_key(&id) {
                    self.violation("RI-3", format!("`resolve` said that {id} was not applied, but it was"));
                }
                if self.barred.insert(id, partition).is_none() {
                    // The bar takes a position of its own.
                    *self.losses.highest.entry(partition).or_default() += 1;
                }
            }
            Resolution::Applied { position } => {
                if self.applied.get(&id).map(|(_, head)| head.position) != Some(position) {
                    self.violation("RI-3", format!("`resolve` said that {id} was applied at {position:?}"));
                }
            }
        }
    }
}
