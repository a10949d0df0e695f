//! The random calls, and what has to be remembered to keep them legal.

use super::draw::Draw;
use crate::{Place, Range, Scan, Store, Target};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use weft_core::change::{Batch, Body, Change, DueEntry, Head, Position, Write};
use weft_core::record::Key;
use weft_core::schema::{Due, IndexId, Kind, PartMask, Timer, Type, Value};
use weft_core::{CommitId, PartitionId, Time};

pub(super) enum Call {
    Commit(PartitionId, Batch),
    Resolve(PartitionId, CommitId),
    Read(PartitionId, Vec<(Key, PartMask)>),
    Scan(Option<PartitionId>, Scan),
}

pub(super) struct Stream {
    draw: Draw,
    memory: Vec<Memory>,
}

/// What is known of one partition.
#[derive(Default)]
struct Memory {
    facets: BTreeMap<Key, Vec<Value>>,
    due: BTreeSet<DueEntry>,
    applied: Vec<Batch>,
    ids: BTreeSet<CommitId>,
    barred: Vec<CommitId>,
}

impl Memory {
    fn timers(&self, key: Key) -> Vec<Due> {
        let bytes = key.to_bytes();
        let own = |entry: &&DueEntry| entry.kind == key.kind() as u8 && entry.key == bytes.as_slice();
        let due = |entry: &DueEntry| entry.timer().map(|timer| Due { timer, at: entry.at });
        self.due.iter().filter(own).filter_map(due).collect()
    }
}

impl Stream {
    pub fn new(seed: u64, partitions: u16) -> Self {
        Self { draw: Draw::new(seed), memory: (0..partitions).map(|_| Memory::default()).collect() }
    }

    pub async fn next<S: Store>(&mut self, reference: &S) -> Call {
        let partition = PartitionId(self.draw.below(self.memory.len()) as u16);
        match self.draw.below(100) {
            0..50 => self.commit(reference, partition).await,
            50..55 => self.repeat(partition),
            55..60 => self.resolve(partition),
            60..70 => self.read(partition),
            _ => self.scan(partition),
        }
    }

    pub fn was_applied(&self, partition: PartitionId, id: CommitId) -> bool {
        self.memory[usize::from(partition.0)].ids.contains(&id)
    }

    pub fn applied(&mut self, partition: PartitionId, batch: Batch) {
        let memory = &mut self.memory[usize::from(partition.0)];
        for entry in &batch.due_drops {
            memory.due.remove(entry);
        }
        for write in &batch.writes {
            for due in &write.due_remove {
                memory.due.remove(&DueEntry::new(*due, write.key));
            }
            memory.due.extend(write.due_add.iter().map(|due| DueEntry::new(*due, write.key)));
            match &write.what {
                Change::Insert(body) | Change::Update { body, .. } => {
                    memory.facets.insert(write.key, body.facets.clone())
                }
                Change::Delete { .. } => memory.facets.remove(&write.key),
            };
        }
        memory.ids.insert(batch.id);
        memory.applied.push(batch);
    }

    pub fn barred(&mut self, partition: PartitionId, id: CommitId) {
        self.memory[usize::from(partition.0)].barred.push(id);
    }

    fn memory(&self, partition: PartitionId) -> &Memory {
        &self.memory[usize::from(partition.0)]
    }

    async fn commit<S: Store>(&mut self, reference: &S, partition: PartitionId) -> Call {
        let keys: BTreeSet<Key> = (0..self.draw.below(6)).map(|_| self.draw.key(partition)).collect();
        let asked = keys.iter().map(|key| (*key, PartMask::NONE)).collect();
        let read = reference.read(partition, asked).await.expect("the reference reads");
        let revisions = read.found.iter().map(|found| found.as_ref().map(|found| found.revision));
        let mut reads: Vec<(Key, Option<CommitId>)> = keys.iter().copied().zip(revisions).collect();
        let writes = reads.iter().filter_map(|(key, seen)| self.write(*key, seen.is_some())).collect();
        if self.draw.chance(15) {
            self.spoil(partition, &mut reads);
        }
        let batch = Batch {
            id: self.commit_id(partition),
            expect: self.expect(partition, read.head),
            fast: self.draw.chance(50),
            strict: self.draw.chance(15),
            now: self.now(read.head.now),
            raise: self.raise(read.head.position),
            reads,
            writes,
            due_drops: self.drops(partition),
            feed: if self.draw.chance(50) { Bytes::new() } else { self.draw.blob() },
            lanes: Vec::new(),
        };
        Call::Commit(partition, batch)
    }

    /// A legal change of a record, or none if it is only read.
    fn write(&mut self, key: Key, exists: bool) -> Option<Write> {
        let armed = self.memory(key.partition()).timers(key);
        let what = match self.draw.below(10) {
            0 => return None,
            1..3 => Change::Delete { old: self.memory(key.partition()).facets.get(&key).cloned() },
            _ if exists => Change::Update {
                old: self.memory(key.partition()).facets[&key].clone(),
                body: Body { facets: self.changed(key), parts: self.draw.parts(key.kind()) },
            },
            _ => Change::Insert(Body { facets: self.draw.facets(key.kind()), parts: self.draw.parts(key.kind()) }),
        };
        if matches!(what, Change::Delete { .. }) {
            // Mostly a record takes its timers along; some are left to name nothing.
            let due_remove = if self.draw.chance(80) { armed } else { Vec::new() };
            return Some(Write { key, what, due_add: Vec::new(), due_remove });
        }
        let timer = Timer::ALL[self.draw.below(4)];
        let due_remove: Vec<Due> = armed.into_iter().filter(|due| due.timer == timer).collect();
        let due_add = match self.draw.chance(60) {
            true => vec![Due { timer, at: Time::from_ms(self.draw.below(50) as u64) }],
            false => Vec::new(),
        };
        Some(Write { key, what, due_add, due_remove })
    }

    /// The facets of a record as an update may leave them.
    fn changed(&mut self, key: Key) -> Vec<Value> {
        let mut facets = self.draw.facets(key.kind());
        let old = &self.memory(key.partition()).facets[&key];
        for ((declared, new), old) in key.kind().table().facets.iter().zip(&mut facets).zip(old) {
            if declared.fixed {
                *new = old.clone();
            }
        }
        facets
    }

    /// Makes one of the revisions wrong: none, or that of some other commit.
    fn spoil(&mut self, partition: PartitionId, reads: &mut [(Key, Option<CommitId>)]) {
        if reads.is_empty() {
            return;
        }
        let at = self.draw.below(reads.len());
        let other = self.old_commit(partition).map(|batch| batch.id);
        reads[at].1 = if reads[at].1.is_some() && self.draw.chance(30) { None } else { other };
    }

    fn old_commit(&mut self, partition: PartitionId) -> Option<Batch> {
        let count = self.memory(partition).applied.len();
        (count > 0).then(|| self.draw.below(count)).map(|at| self.memory(partition).applied[at].clone())
    }

    fn commit_id(&mut self, partition: PartitionId) -> CommitId {
        let barred = &self.memory[usize::from(partition.0)].barred;
        if !barred.is_empty() && self.draw.chance(5) {
            return barred[self.draw.below(barred.len())];
        }
        self.draw.commit_id()
    }

    fn expect(&mut self, partition: PartitionId, now: Head) -> Head {
        let Position { generation, seq } = now.position;
        match self.draw.below(24) {
            0 => Head { position: Position { generation: generation + 1, seq }, ..now },
            4 => Head { position: Position { generation, seq: seq + 1 + self.draw.below(3) as u64 }, ..now },
            5 => Head { last: self.draw.commit_id(), ..now },
            6 => Head { last: self.draw.commit_id(), ..self.old_commit(partition).map_or(now, |batch| batch.expect) },
            1..4 => self.old_commit(partition).map_or(now, |batch| batch.expect),
            _ => now,
        }
    }

    /// Seldom a further generation, as after a loss; sometimes one that the partition has already.
    fn raise(&mut self, now: Position) -> Option<Position> {
        match self.draw.below(60) {
            0 => Some(Position { generation: now.generation + 1, seq: now.seq + 100 }),
            1 => Some(now),
            _ => None,
        }
    }

    fn now(&mut self, now: Time) -> Time {
        if self.draw.chance(5) { now - self.draw.below(9) as u64 } else { now + self.draw.below(9) as u64 }
    }

    fn drops(&mut self, partition: PartitionId) -> Vec<DueEntry> {
        let due: Vec<DueEntry> = self.memory(partition).due.iter().cloned().collect();
        match self.draw.below(20) {
            0 if !due.is_empty() => vec![due[self.draw.below(due.len())].clone()],
            1 => {
                let [timer, kind] = [0, 1].map(|_| self.draw.below(256) as u8);
                vec![DueEntry { at: Time::from_ms(5), timer, kind, key: self.draw.blob() }]
            }
            _ => Vec::new(),
        }
    }

    /// Sends a commit again that was applied before, as it was or brought up to date.
    fn repeat(&mut self, partition: PartitionId) -> Call {
        match self.old_commit(partition) {
            Some(batch) => Call::Commit(partition, Batch { fast: self.draw.chance(50), ..batch }),
            None => self.resolve(partition),
        }
    }

    fn resolve(&mut self, partition: PartitionId) -> Call {
        let known = if self.draw.chance(50) { self.old_commit(partition).map(|batch| batch.id) } else { None };
        let id = known.unwrap_or_else(|| self.commit_id(partition));
        Call::Resolve(partition, id)
    }

    fn read(&mut self, partition: PartitionId) -> Call {
        let keys = (0..self.draw.below(8)).map(|_| (self.draw.key(partition), self.draw.mask()));
        Call::Read(partition, keys.collect())
    }

    fn scan(&mut self, partition: PartitionId) -> Call {
        let target = match self.draw.below(10) {
            0..5 => Target::Index(IndexId::ALL[self.draw.below(IndexId::ALL.len())]),
            5..7 => Target::Records(Kind::ALL[self.draw.below(Kind::ALL.len())]),
            7..9 => Target::Due,
            _ => Target::Feed,
        };
        let ranges = (0..=self.draw.below(3)).map(|_| self.range(target, partition)).collect();
        let limit = if self.draw.chance(20) { 1000 } else { 1 + self.draw.below(6) };
        let parts = (target != Target::Due && self.draw.chance(50)).then(|| self.draw.mask());
        let scan = Scan { target, ranges, limit, descending: self.draw.chance(50), parts };
        Call::Scan((!self.draw.chance(20)).then_some(partition), scan)
    }

    /// A range near something that exists.
    fn range(&mut self, target: Target, partition: PartitionId) -> Range {
        let columns = self.columns(target, partition);
        let depth = self.draw.below(columns.len() + 1);
        let prefix = columns[..depth].to_vec();
        let after = self.draw.chance(40).then(|| {
            let rest = self.columns(target, partition).split_off(depth);
            let key = Bytes::copy_from_slice(self.draw.key(partition).to_bytes().as_slice());
            Place { columns: prefix.iter().cloned().chain(rest).collect(), key }
        });
        let column = self.columns(target, partition).get(depth).cloned();
        Range { prefix, after, until: column.filter(|_| self.draw.chance(40)) }
    }

    /// Columns of an entry, or of one that might be.
    fn columns(&mut self, target: Target, partition: PartitionId) -> Vec<Value> {
        match target {
            Target::Records(_) => Vec::new(),
            Target::Feed => vec![Value::Int(self.draw.below(self.memory(partition).applied.len() + 2) as i64)],
            Target::Due => {
                let [timer, at, kind] = [5, 50, 6].map(|bound| Value::Int(self.draw.below(bound) as i64));
                vec![timer, at, kind]
            }
            Target::Index(index) => {
                let index = index.get();
                let memory = &self.memory[usize::from(partition.0)];
                let known: Vec<_> = memory.facets.iter().filter(|(key, _)| key.kind() == index.kind).collect();
                let facets = match known.is_empty() {
                    true => self.draw.facets(index.kind),
                    false => known[self.draw.below(known.len())].1.clone(),
                };
                let columns = index.facets.iter().map(|at| (facets[*at].clone(), index.kind.table().facets[*at].ty));
                let columns: Vec<(Value, Type)> = columns.collect();
                columns
                    .into_iter()
                    .map(|(value, ty)| if value.is_null() { self.draw.value(ty) } else { value })
                    .collect()
            }
        }
    }
}
