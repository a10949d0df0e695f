//! A partition in memory for tests: records as bytes, a due index, and nothing cached. Every command starts cold and
//! loads what it misses, so each test also exercises the codec, lazy parts and misses.
#![allow(dead_code)]

pub mod calls;
pub mod flows;

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;
use weft_core::apply::apply;
use weft_core::change::{Batch, Change, DueEntry, Head};
use weft_core::codec::DecodeError;
use weft_core::command::{Call, Command, Expire, Principal};
use weft_core::error::Rejection;
use weft_core::event::{self, Event};
use weft_core::id::{CommitId, ExecutionId, LeaseId, PartitionId};
use weft_core::invariant;
use weft_core::limits::Limits;
use weft_core::record::audit::{Audit, End};
use weft_core::record::{Attempt, Execution, Key, Record};
use weft_core::reply::{Claimed, Expired, Reply};
use weft_core::schema::{Kind, PartMask, Timer, Value};
use weft_core::time::Time;
use weft_core::tx::{Base, LIST_SCAN_MAX, List, Lookup, Miss, Overlay, Stop, Tx};

pub const PARTITION: PartitionId = PartitionId(3);

/// One stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub revision: CommitId,
    pub facets: Vec<Value>,
    pub parts: BTreeMap<u8, Bytes>,
}

/// What is stored, and what tests look at.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct World {
    pub records: BTreeMap<Key, Stored>,
    pub due: BTreeSet<DueEntry>,
    pub events: Vec<Event>,
    pub now: Time,
    pub commits: u64,
    fresh: u64,
    /// Rounds of loading that the last command needed.
    pub loads: u32,
    /// Bytes that were loaded for it.
    pub loaded: usize,
    /// How many more loads than usual a command may need before it is said to keep missing.
    pub loads_more: u32,
    /// Something wrong was put there on purpose: flows and executions are not checked.
    pub planted: bool,
    /// The keys that the last command changed.
    pub touched: Vec<Key>,
    /// Records that one commit wrote at most.
    pub largest: usize,
    /// At how many records the store wants a batch to be closed.
    pub batch_records: usize,
    /// What the deployment allows.
    pub limits: Limits,
}

/// A record as it was loaded: absent, damaged, or there at a revision.
type Found = Option<(Result<Record, DecodeError>, CommitId)>;

/// What one command has loaded.
#[derive(Default)]
struct Loaded {
    records: BTreeMap<Key, Found>,
    lists: BTreeMap<(List, Option<ExecutionId>), Vec<ExecutionId>>,
}

impl Base for Loaded {
    fn get(&self, key: &Key) -> Lookup<'_> {
        match self.records.get(key) {
            None => Lookup::Unknown,
            Some(None) => Lookup::Absent,
            Some(Some((Ok(record), revision))) => Lookup::Present { record, revision: *revision },
            Some(Some((Err(error), revision))) => Lookup::Damaged(error, *revision),
        }
    }

    fn list(&self, list: List, after: Option<ExecutionId>) -> Option<Vec<ExecutionId>> {
        self.lists.get(&(list, after)).cloned()
    }
}

impl World {
    pub fn new() -> Self {
        Self { batch_records: weft_core::limits::RECORDS_PER_COMMIT_MAX, ..Self::default() }
    }

    /// Moves the clock, never back.
    pub fn at(&mut self, ms: u64) -> &mut Self {
        self.now = self.now.max(Time::from_ms(ms));
        self
    }

    /// A number that was not used before.
    pub fn fresh(&mut self) -> Uuid {
        self.fresh += 1;
        Uuid::from_u128(u128::from(self.fresh))
    }

    pub fn fresh_id(&mut self) -> ExecutionId {
        let uuid = self.fresh();
        ExecutionId::new(PARTITION, uuid)
    }

    pub fn fresh_lease(&mut self) -> LeaseId {
        let uuid = self.fresh();
        LeaseId::new(PARTITION, uuid)
    }

    /// Runs one call in a commit of its own.
    pub fn call(&mut self, call: &Call) -> Result<Reply, Rejection> {
        let limits = self.limits;
        let mut loaded = Loaded::default();
        (self.loads, self.loaded) = (0, 0);
        self.touched.clear();
        loop {
            let overlay = Overlay::default();
            let mut tx =
                Tx::new(&loaded, &overlay, self.now, &limits).after_rounds(self.loads).closed_at(self.batch_records);
            match apply(&mut tx, call) {
                Ok(applied) => {
                    let effects = tx.finish().unwrap_or_else(|broken| panic!("{call:?}: {broken}"));
                    let mut overlay = Overlay::default();
                    effects.merge(&mut overlay, &loaded);
                    self.commit(overlay);
                    return Ok(applied.reply);
                }
                Err(Stop::Rejected(rejection)) => {
                    self.note_refusal(call, &rejection);
                    return Err(rejection);
                }
                Err(Stop::Miss) => {
                    let misses: Vec<Miss> = tx.misses().collect();
                    assert!(!misses.is_empty(), "a miss names what is missing");
                    self.load(&mut loaded, misses);
                    self.loads += 1;
                    assert!(self.loads < 30 + self.loads_more, "{call:?} keeps missing");
                }
            }
        }
    }

    /// Runs several calls in one commit.
    pub fn together(&mut self, calls: &[Call]) -> Vec<Result<Reply, Rejection>> {
        let (limits, mut loaded, mut overlay) = (self.limits, Loaded::default(), Overlay::default());
        let mut answers = Vec::with_capacity(calls.len());
        while let Some(call) = calls.get(answers.len()) {
            let mut tx = Tx::new(&loaded, &overlay, self.now, &limits);
            match apply(&mut tx, call) {
                Ok(applied) => {
                    tx.finish().expect("no invariant is broken").merge(&mut overlay, &loaded);
                    answers.push(Ok(applied.reply));
                }
                Err(Stop::Rejected(rejection)) => answers.push(Err(rejection)),
                Err(Stop::Miss) => {
                    let misses = tx.misses().collect();
                    self.load(&mut loaded, misses);
                }
            }
        }
        self.commit(overlay);
        answers
    }

    /// As the engine does after a refusal: what the audit log says of it.
    fn note_refusal(&mut self, call: &Call, rejection: &Rejection) {
        let (limits, mut loaded) = (Limits::default(), Loaded::default());
        loop {
            let overlay = Overlay::default();
            let mut tx = Tx::new(&loaded, &overlay, self.now, &limits);
            match weft_core::audit::refused(&mut tx, call, rejection) {
                Ok(()) => {
                    let mut overlay = Overlay::default();
                    tx.finish().expect("entries break no invariant").merge(&mut overlay, &loaded);
                    return self.commit(overlay);
                }
                Err(Stop::Miss) => {
                    let misses = tx.misses().collect();
                    self.load(&mut loaded, misses);
                }
                Err(Stop::Rejected(rejection)) => panic!("{rejection}"),
            }
        }
    }

    /// The audit log of a partition, oldest first; each entry follows the one before.
    pub fn audit(&self, partition: PartitionId) -> Vec<Audit> {
        let log = self.records.range(Key::Audit(partition, 0)..=Key::Audit(partition, u64::MAX));
        let mut end = End::default();
        let entry = |(key, _): (&Key, &Stored)| match self.record(*key) {
            Some(Record::Audit(entry)) => {
                assert!(
                    entry.follows(&end) || entry.may_be_first(self.now, entry.body.kept_ms),
                    "SEC-12 {entry:?} follows {end:?}"
                );
                end = entry.end();
                *entry
            }
            other => panic!("{key:?} is {other:?}"),
        };
        log.map(entry).collect()
    }

    /// Nothing is left but what the audit log says.
    pub fn is_swept(&self) -> bool {
        let log = [Kind::Audit as u8, Kind::Register as u8];
        let records = self.records.keys().all(|key| log.contains(&(key.kind() as u8)));
        records && self.due.iter().all(|entry| log.contains(&entry.kind))
    }

    /// What a repeated claim call is given.
    pub fn claim_again(&mut self, id: ExecutionId, reference: &[u8; 32]) -> Option<Claimed> {
        let (limits, overlay, mut loaded) = (Limits::default(), Overlay::default(), Loaded::default());
        loop {
            let mut tx = Tx::new(&loaded, &overlay, self.now, &limits);
            match weft_core::execution::claim::again(&mut tx, id, reference) {
                Ok(claimed) => return claimed,
                Err(Stop::Miss) => {
                    let misses = tx.misses().collect();
                    self.load(&mut loaded, misses);
                }
                Err(Stop::Rejected(rejection)) => panic!("{rejection}"),
            }
        }
    }

    fn load(&mut self, loaded: &mut Loaded, misses: Vec<Miss>) {
        for miss in misses {
            match miss {
                Miss::Record(key, parts) => {
                    let asked = parts.with(key.kind().table().light);
                    let there = self.records.get(&key).into_iter().flat_map(|stored| &stored.parts);
                    self.loaded += there.filter(|(part, _)| asked.has(**part)).map(|(_, it)| it.len()).sum::<usize>();
                    let fresh = self.records.get(&key).map(|stored| (self.decode(key, stored, parts), stored.revision));
                    match (loaded.records.get_mut(&key), fresh) {
                        (Some(Some((Ok(old), _))), Some((Ok(new), _))) => old.absorb(&new),
                        (_, fresh) => drop(loaded.records.insert(key, fresh)),
                    }
                }
                Miss::List(list, after) => drop(loaded.lists.insert((list, after), self.list(list, after))),
            }
        }
    }

    fn decode(&self, key: Key, stored: &Stored, parts: PartMask) -> Result<Record, DecodeError> {
        let asked = parts.with(key.kind().table().light);
        let parts: Vec<(u8, Bytes)> = stored
            .parts
            .iter()
            .filter(|(part, _)| asked.has(**part))
            .map(|(part, bytes)| (*part, bytes.clone()))
            .collect();
        Record::decode(key, &parts, asked)
    }

    /// What a store finds through the index of the list.
    fn list(&self, list: List, after: Option<ExecutionId>) -> Vec<ExecutionId> {
        let (index, prefix) = list.index();
        let index = index.get();
        let of_kind = self.records.iter().filter(|(key, _)| key.kind() == index.kind);
        let mut found: Vec<(Vec<Value>, ExecutionId)> = of_kind
            .filter(|(_, stored)| index.when.is_none_or(|at| !stored.facets[at].is_null()))
            .filter_map(|(key, stored)| {
                let columns: Vec<Value> = index.facets.iter().map(|at| stored.facets[*at].clone()).collect();
                match key {
                    Key::Execution(id) | Key::Tombstone(id) if columns.starts_with(&prefix) => Some((columns, *id)),
                    _ => None,
                }
            })
            .collect();
        found.sort();
        let beyond = list.beyond(after);
        let is_beyond = |(columns, id): &(Vec<Value>, ExecutionId)| match &beyond {
            Some((from, key)) => (&columns[..from.len()], id.uuid().as_bytes()) > (from, key),
            None => true,
        };
        found.into_iter().filter(is_beyond).map(|(_, id)| id).take(LIST_SCAN_MAX + 1).collect()
    }

    /// Applies a commit as a store does: revisions checked, bytes kept, index entries added and removed.
    fn commit(&mut self, overlay: Overlay) {
        if overlay.is_empty() {
            return;
        }
        self.commits += 1;
        let id = CommitId(Uuid::from_u128(u128::from(self.commits) << 64));
        let (batch, after) = overlay.seal(id, Head::default(), false, self.now);
        self.apply(&batch);
        for (key, record) in after {
            let stored = self.record(key);
            match (&record, &stored) {
                (Some(record), Some(stored)) => {
                    assert_eq!(record.due(), stored.due(), "{key:?}");
                    assert_eq!(record.encode(key.kind().table().light), stored.encode(key.kind().table().light));
                }
                (None, None) => {}
                _ => panic!("{key:?} is {record:?} in memory and {stored:?} in the store"),
            }
            self.check(key);
        }
        self.check_flows(&batch);
    }

    fn apply(&mut self, batch: &Batch) {
        for (key, seen) in &batch.reads {
            assert_eq!(self.records.get(key).map(|stored| stored.revision), *seen, "{key:?} was read at this revision");
        }
        self.largest = self.largest.max(batch.writes.len());
        for write in &batch.writes {
            self.touched.push(write.key);
            match &write.what {
                Change::Insert(body) => {
                    let parts = body.parts.iter().filter_map(|(part, bytes)| Some((*part, bytes.clone()?))).collect();
                    let stored = Stored { revision: batch.id, facets: body.facets.clone(), parts };
                    assert!(self.records.insert(write.key, stored).is_none(), "{:?} was absent", write.key);
                }
                Change::Update { body, .. } => {
                    let stored = self.records.get_mut(&write.key).expect("an updated record is there");
                    stored.revision = batch.id;
                    stored.facets = body.facets.clone();
                    for (part, bytes) in &body.parts {
                        match bytes {
                            Some(bytes) => drop(stored.parts.insert(*part, bytes.clone())),
                            None => drop(stored.parts.remove(part)),
                        }
                    }
                }
                Change::Delete { .. } => drop(self.records.remove(&write.key)),
            }
            for due in &write.due_remove {
                self.due.remove(&DueEntry::new(*due, write.key));
            }
            for due in &write.due_add {
                assert!(self.due.insert(DueEntry::new(*due, write.key)), "{:?} {due:?} was not armed", write.key);
            }
        }
        for entry in &batch.due_drops {
            self.due.remove(entry);
        }
        self.events.extend(event::decode(&batch.feed).expect("the feed reads back"));
    }

    /// E11, E12, E15: the indexes are what the record says.
    fn check(&self, key: Key) {
        let record = self.record(key);
        let bytes = key.to_bytes();
        let armed: BTreeSet<DueEntry> = self
            .due
            .iter()
            .filter(|entry| entry.kind == key.kind() as u8 && entry.key == bytes.as_slice())
            .cloned()
            .collect();
        let said: BTreeSet<DueEntry> = record.iter().flat_map(Record::due).map(|due| DueEntry::new(due, key)).collect();
        assert_eq!(armed, said, "E11 {key:?}");
        if let Some(record) = &record {
            assert_eq!(self.records[&key].facets, record.facets(), "E12 {key:?}");
        }
        if let Some(Record::Execution(execution)) = &record
            && !self.planted
        {
            invariant::check(execution, self.now).expect("the invariants hold");
            self.check_attempts(execution);
            self.check_steps(execution);
        }
    }

    /// E3, E4: attempts without gaps, and as many episodes as epochs.
    fn check_attempts(&self, execution: &Execution) {
        let ended = execution.hot.attempts - u32::from(execution.hot.open.is_some());
        let mut episodes = execution.hot.open.as_ref().map_or(0, Attempt::episodes);
        for index in 0..ended {
            let attempt = self.attempt(execution.id, index);
            assert!(attempt.state.is_final(), "E4 an attempt record is final");
            episodes += attempt.episodes();
        }
        assert!(!self.records.contains_key(&Key::Attempt(execution.id, ended)), "E4 no attempt beyond the last");
        assert_eq!(episodes, execution.hot.epoch, "E3 episodes are epochs");
    }

    /// E25: steps without gaps, and as many bytes as counted.
    fn check_steps(&self, execution: &Execution) {
        let steps = execution.hot.steps;
        let all = self.records.range(Key::Step(execution.id, 0)..=Key::Step(execution.id, u32::MAX));
        assert_eq!(all.clone().count() as u32, steps.next, "E25 a record for each number");
        let current = all.filter(|(key, _)| **key >= Key::Step(execution.id, steps.from));
        let bytes: usize = current.map(|(_, stored)| stored.parts[&1].len()).sum();
        assert_eq!(bytes as u64, steps.bytes, "E25 bytes are counted");
    }

    pub fn record(&self, key: Key) -> Option<Record> {
        let stored = self.records.get(&key)?;
        let whole = self.decode(key, stored, PartMask::ALL);
        // Of one that a test has damaged in a part that few commands load, the others are told.
        let found = if self.planted { whole.or_else(|_| self.decode(key, stored, PartMask::NONE)) } else { whole };
        Some(found.expect("a stored record decodes"))
    }

    pub fn execution(&self, id: ExecutionId) -> Execution {
        match self.record(Key::Execution(id)) {
            Some(Record::Execution(execution)) => *execution,
            _ => panic!("{id} is there"),
        }
    }

    pub fn attempt(&self, id: ExecutionId, index: u32) -> Attempt {
        match self.record(Key::Attempt(id, index)) {
            Some(Record::Attempt(attempt)) => *attempt,
            _ => panic!("{id}#{index} is there"),
        }
    }

    pub fn worker(&self, instance: &str) -> Option<weft_core::record::worker::Body> {
        match self.record(calls::worker_key(instance))? {
            Record::Worker(worker) => Some(worker.body),
            other => panic!("{other:?} is no worker"),
        }
    }

    pub fn executions(&self) -> impl Iterator<Item = Execution> {
        self.records.keys().filter_map(|key| match key {
            // One that a test has damaged is on no list.
            Key::Execution(_) => match self.decode(*key, &self.records[key], PartMask::ALL) {
                Ok(Record::Execution(execution)) => Some(*execution),
                Err(_) if self.planted => None,
                other => panic!("{key:?}: {other:?}"),
            },
            _ => None,
        })
    }

    /// Fires every due entry, oldest first, until none is due. What each did, in order.
    pub fn scan(&mut self) -> Vec<(Timer, Key, Expired)> {
        let mut fired = Vec::new();
        while let Some(entry) = self.due.first().filter(|entry| entry.at <= self.now).cloned() {
            let timer = entry.timer().expect("a known timer");
            let kind = Kind::from_u8(entry.kind).expect("a known kind");
            let key = Key::from_bytes(PARTITION, kind, &entry.key).expect("a known key");
            match self.fire(key, timer, entry.at) {
                Ok(Reply::Expired(expired)) => fired.push((timer, key, expired)),
                other => panic!("{timer:?} of {key:?}: {other:?}"),
            }
            assert!(fired.len() < 100_000, "scanning comes to an end");
        }
        fired
    }

    /// As the scanner whose duty it is.
    fn fire(&mut self, key: Key, timer: Timer, due: Time) -> Result<Reply, Rejection> {
        match (key, timer) {
            (Key::Flow(flow), Timer::FlowVerify) => self.verify_flow(flow, due).map(|_| Reply::Expired(Expired::Fired)),
            (Key::Flow(flow), Timer::DependencyAudit) => self.audit_flow(flow, due),
            _ => self.expire(key, timer, due),
        }
    }

    pub fn expire(&mut self, key: Key, timer: Timer, due: Time) -> Result<Reply, Rejection> {
        let command = Command::Expire(Expire { key: Some(key), timer, due, entropy: 0 });
        self.call(&Call { principal: Principal::engine(), ..calls::call(command) })
    }

    /// Names of the events so far, without their common prefix.
    pub fn facts(&self) -> Vec<&'static str> {
        self.events.iter().map(|event| event.fact.name().trim_start_matches("execution.")).collect()
    }
}
