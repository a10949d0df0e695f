//! Hand-made records and batches.

use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;
use weft_core::change::{Batch, Body, Change, Head, Write};
use weft_core::record::Key;
use weft_core::schema::{Kind, PartMask, Type, Value};
use weft_core::{CommitId, ExecutionId, PartitionId};
use weft_store::{Found, Outcome, Store};

pub const P0: PartitionId = PartitionId(0);
pub const P1: PartitionId = PartitionId(1);

pub fn key(partition: PartitionId, number: u64) -> Key {
    Key::Execution(ExecutionId::new(partition, Uuid::from_u128(number.into())))
}

pub fn body(part: &[u8]) -> Body {
    let facets = Kind::Execution.table().facets.iter().map(|facet| match (facet.nullable, facet.ty) {
        (true, _) => Value::Null,
        (false, Type::Int) => Value::Int(7),
        (false, Type::Text) => Value::Text("some".into()),
        (false, Type::Bytes) => Value::bytes(b"key"),
    });
    Body { facets: facets.collect(), parts: vec![(0, Some(Bytes::copy_from_slice(part)))] }
}

pub fn insert(key: Key, part: &[u8]) -> Write {
    Write { key, what: Change::Insert(body(part)), due_add: Vec::new(), due_remove: Vec::new() }
}

pub fn update(key: Key, part: &[u8]) -> Write {
    let what = Change::Update { old: body(b"").facets, body: body(part) };
    Write { key, what, due_add: Vec::new(), due_remove: Vec::new() }
}

/// An id that no other test of this process has.
pub fn mint() -> CommitId {
    static MINTED: AtomicU64 = AtomicU64::new(1);
    CommitId(Uuid::from_u64_pair(0xc0ff_ee00, MINTED.fetch_add(1, Ordering::Relaxed)))
}

/// A batch on top of `head` whose records are not checked.
pub fn batch(head: Head, writes: Vec<Write>) -> Batch {
    Batch {
        id: mint(),
        expect: head,
        fast: true,
        strict: false,
        now: head.now,
        raise: None,
        reads: Vec::new(),
        writes,
        due_drops: Vec::new(),
        feed: Bytes::from_static(b"events"),
        lanes: Vec::new(),
    }
}

pub async fn head<S: Store>(store: &S, partition: PartitionId) -> Head {
    store.read(partition, Vec::new()).await.unwrap().head
}

/// Commits on top of whatever is there.
pub async fn apply<S: Store>(store: &S, partition: PartitionId, writes: Vec<Write>) -> Head {
    let head = head(store, partition).await;
    applied(store.commit(partition, batch(head, writes)).await)
}

pub fn applied(outcome: Outcome) -> Head {
    match outcome {
        Outcome::Applied { head } => head,
        other => panic!("not applied: {other:?}"),
    }
}

pub async fn get<S: Store>(store: &S, key: Key) -> Option<Found> {
    store.read(key.partition(), vec![(key, PartMask::ALL)]).await.unwrap().found.remove(0)
}
