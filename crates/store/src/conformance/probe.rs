//! A store under test with short ways to ask it, and hand-made records to put into it.

use crate::{Entry, Found, Outcome, Page, Range, Scan, Store, Target};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use uuid::Uuid;
use weft_core::change::{Batch, Body, Change, Head, Write};
use weft_core::record::Key;
use weft_core::record::bulk_job::Role;
use weft_core::record::continuation::Work;
use weft_core::record::register::Subject;
use weft_core::schema::{Due, Kind, PartMask, Timer, Type, Value};
use weft_core::{CommitId, ExecutionId, FlowId, KeyId, PartitionId, Time};

pub(super) const P0: PartitionId = PartitionId(0);
pub(super) const P1: PartitionId = PartitionId(1);
pub(super) const P2: PartitionId = PartitionId(2);

pub(super) struct Probe<S> {
    pub store: S,
    minted: AtomicU64,
    /// The facets of every record as its last write left them.
    facets: Mutex<BTreeMap<Key, Vec<Value>>>,
}

impl<S: Store> Probe<S> {
    pub fn new(store: S) -> Self {
        Self { store, minted: AtomicU64::new(1), facets: Mutex::default() }
    }

    /// A commit id that was not used before.
    pub fn mint(&self) -> CommitId {
        CommitId(Uuid::from_u128(0xc0ff_ee00_u128 << 64 | u128::from(self.minted.fetch_add(1, Ordering::Relaxed))))
    }

    pub async fn head(&self, partition: PartitionId) -> Head {
        self.store.read(partition, Vec::new()).await.expect("a read of a sound store succeeds").head
    }

    /// The record with all its parts.
    pub async fn get(&self, key: Key) -> Option<Found> {
        self.get_parts(key, PartMask::ALL).await
    }

    pub async fn get_parts(&self, key: Key, parts: PartMask) -> Option<Found> {
        let read = self.store.read(key.partition(), vec![(key, parts)]).await;
        let mut found = read.expect("a read of a sound store succeeds").found;
        assert_eq!(found.len(), 1, "a read answers with one slot per key");
        found.remove(0)
    }

    /// A batch that is up to date in every respect and has each written record checked.
    pub async fn batch(&self, partition: PartitionId, mut writes: Vec<Write>) -> Batch {
        self.fill_in_old(&mut writes);
        let keys: Vec<_> = writes.iter().map(|write| (write.key, PartMask::NONE)).collect();
        let read = self.store.read(partition, keys).await.expect("a read of a sound store succeeds");
        let revisions = read.found.iter().map(|found| found.as_ref().map(|found| found.revision));
        Batch {
            id: self.mint(),
            expect: read.head,
            fast: false,
            strict: false,
            now: read.head.now,
            raise: None,
            reads: writes.iter().map(|write| write.key).zip(revisions).collect(),
            writes,
            due_drops: Vec::new(),
            feed: Bytes::new(),
            lanes: Vec::new(),
        }
    }

    /// Commits, and remembers the facets that an applied batch leaves.
    pub async fn commit(&self, partition: PartitionId, batch: Batch) -> Outcome {
        let writes = batch.writes.clone();
        let outcome = self.store.commit(partition, batch).await;
        if let Outcome::Applied { .. } = outcome {
            let mut facets = self.facets();
            for write in writes {
                match write.what {
                    Change::Insert(body) | Change::Update { body, .. } => facets.insert(write.key, body.facets),
                    Change::Delete { .. } => facets.remove(&write.key),
                };
            }
        }
        outcome
    }

    /// The cases name what a record becomes; what it was is known here.
    fn fill_in_old(&self, writes: &mut [Write]) {
        let facets = self.facets();
        for write in writes {
            let known = facets.get(&write.key).cloned();
            match &mut write.what {
                Change::Insert(_) => {}
                Change::Update { old, .. } => *old = known.unwrap_or_else(|| plain_facets(write.key.kind())),
                Change::Delete { old } => *old = known,
            }
        }
    }

    fn facets(&self) -> MutexGuard<'_, BTreeMap<Key, Vec<Value>>> {
        self.facets.lock().expect("no case panics while it holds the facets")
    }

    /// Commits a batch that nothing speaks against.
    pub async fn apply(&self, partition: PartitionId, batch: Batch) -> Head {
        match self.commit(partition, batch).await {
            Outcome::Applied { head } => head,
            other => panic!("a commit that nothing speaks against was answered with {other:?}"),
        }
    }

    /// Commits writes that nothing speaks against; the answer is their revision.
    pub async fn write(&self, partition: PartitionId, writes: Vec<Write>) -> CommitId {
        let batch = self.batch(partition, writes).await;
        let id = batch.id;
        self.apply(partition, batch).await;
        id
    }

    pub async fn page(&self, partition: PartitionId, target: Target, range: Range, limit: usize) -> Page {
        let scan = Scan { target, ranges: vec![range], limit, descending: false, parts: None };
        let mut pages = self.store.scan(Some(partition), scan).await.expect("a scan of a sound store succeeds");
        assert_eq!(pages.len(), 1, "a scan answers with one page per range");
        pages.remove(0)
    }

    /// All entries of a target, in order.
    pub async fn list(&self, partition: PartitionId, target: Target) -> Vec<Entry> {
        super::walk(&self.store, Some(partition), target, Range::default(), 1000, false).await
    }

    pub async fn dump(&self, partition: PartitionId) -> (Head, Vec<(Target, Entry)>) {
        (self.head(partition).await, super::dump(&self.store, partition).await)
    }
}

pub(super) fn execution(partition: PartitionId, number: u128) -> Key {
    Key::Execution(ExecutionId::new(partition, Uuid::from_u128(number)))
}

/// A key of any kind, another one for each number.
pub(super) fn key_of(kind: Kind, number: u128) -> Key {
    let id = ExecutionId::new(P0, Uuid::from_u128(number));
    match kind {
        Kind::Execution => Key::Execution(id),
        Kind::Attempt => Key::Attempt(id, 7),
        Kind::Dedup => Key::Dedup(P0, [number as u8; 32]),
        Kind::Continuation => Key::Continuation(id, Work::Purge),
        Kind::DeadLetter => Key::DeadLetter(P0, Uuid::from_u128(number)),
        Kind::Node => Key::Node(P0, Uuid::from_u128(number)),
        Kind::Step => Key::Step(id, 7),
        Kind::Worker => Key::Worker(P0, [number as u8; 32]),
        Kind::BulkJob => Key::BulkJob(P0, Uuid::from_u128(number), Role::Share),
        Kind::ApiKey => Key::ApiKey(P0, KeyId::from_bytes(format!("{number:08}").as_bytes()).expect("eight digits")),
        Kind::Audit => Key::Audit(P0, number as u64),
        Kind::Register => Key::Register(P0, Subject::AuditEnd),
        Kind::Flow => Key::Flow(FlowId::new(P0, Uuid::from_u128(number))),
        Kind::Edge => Key::Edge(id, 7),
        Kind::Tombstone => Key::Tombstone(id),
    }
}

/// A legal value for each facet of a kind; null wherever that is allowed.
pub(super) fn plain_facets(kind: Kind) -> Vec<Value> {
    let plain = |ty: Type| match ty {
        Type::Int => Value::Int(0),
        Type::Text => text("t"),
        Type::Bytes => Value::bytes(b"b"),
    };
    let facets = kind.table().facets.iter();
    facets.map(|facet| if facet.nullable { Value::Null } else { plain(facet.ty) }).collect()
}

pub(super) fn text(value: &str) -> Value {
    Value::Text(value.into())
}

fn body(kind: Kind, changes: &[(usize, Value)], parts: &[(u8, Option<&[u8]>)]) -> Body {
    let mut facets = plain_facets(kind);
    for (at, value) in changes {
        facets[*at] = value.clone();
    }
    Body { facets, parts: parts.iter().map(|(part, bytes)| (*part, bytes.map(Bytes::copy_from_slice))).collect() }
}

/// A new record with these facets beside the plain ones.
pub(super) fn insert(key: Key, facets: &[(usize, Value)], parts: &[(u8, Option<&[u8]>)]) -> Write {
    change(key, Change::Insert(body(key.kind(), facets, parts)))
}

pub(super) fn update(key: Key, facets: &[(usize, Value)], parts: &[(u8, Option<&[u8]>)]) -> Write {
    change(key, Change::Update { old: Vec::new(), body: body(key.kind(), facets, parts) })
}

pub(super) fn delete(key: Key) -> Write {
    change(key, Change::Delete { old: None })
}

fn change(key: Key, what: Change) -> Write {
    Write { key, what, due_add: Vec::new(), due_remove: Vec::new() }
}

/// A new record with one part, for cases in which its content does not matter.
pub(super) fn some(key: Key) -> Write {
    insert(key, &[], &[(0, Some(b"some"))])
}

pub(super) fn due(timer: Timer, at_ms: u64) -> Due {
    Due { timer, at: Time::from_ms(at_ms) }
}
