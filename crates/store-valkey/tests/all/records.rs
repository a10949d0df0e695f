//! Hand-made batches, and short ways to commit them.

use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;
use weft_core::change::{Batch, Body, Change, Head, Write};
use weft_core::record::Key;
use weft_core::schema::{PartMask, Type, Value};
use weft_core::{CommitId, ExecutionId, PartitionId};
use weft_store::{Found, Outcome, Store};

pub const P0: PartitionId = PartitionId(0);

pub fn key(partition: PartitionId, number: u128) -> Key {
    Key::Execution(ExecutionId::new(partition, Uuid::from_u128(number)))
}

/// A commit id that no other call of this process was given.
pub fn mint() -> CommitId {
    static MINTED: AtomicU64 = AtomicU64::new(1);
    let process = u64::from(std::process::id());
    CommitId(Uuid::from_u64_pair(0xbead_0000_0000 + process, MINTED.fetch_add(1, Ordering::Relaxed)))
}

pub fn facets(key: Key) -> Vec<Value> {
    let plain = |ty: Type| match ty {
        Type::Int => Value::Int(0),
        Type::Text => Value::Text("t".into()),
        Type::Bytes => Value::bytes(b"b"),
    };
    let declared = key.kind().table().facets.iter();
    declared.map(|facet| if facet.nullable { Value::Null } else { plain(facet.ty) }).collect()
}

fn body(key: Key, parts: &[(u8, &[u8])]) -> Body {
    Body {
        facets: facets(key),
        parts: parts.iter().map(|(part, bytes)| (*part, Some(Bytes::copy_from_slice(bytes)))).collect(),
    }
}

fn change(key: Key, what: Change) -> Write {
    Write { key, what, due_add: Vec::new(), due_remove: Vec::new() }
}

pub fn insert(key: Key, parts: &[(u8, &[u8])]) -> Write {
    change(key, Change::Insert(body(key, parts)))
}

pub fn update(key: Key, parts: &[(u8, &[u8])]) -> Write {
    change(key, Change::Update { old: facets(key), body: body(key, parts) })
}

pub fn delete(key: Key) -> Write {
    change(key, Change::Delete { old: Some(facets(key)) })
}

/// A batch that is up to date in every respect.
pub async fn batch<S: Store>(store: &S, partition: PartitionId, writes: Vec<Write>) -> Batch {
    let keys: Vec<_> = writes.iter().map(|write| (write.key, PartMask::NONE)).collect();
    let read = store.read(partition, keys).await.unwrap();
    let revisions = read.found.iter().map(|found| found.as_ref().map(|found| found.revision));
    Batch {
        id: mint(),
        expect: read.head,
        fast: true,
        strict: false,
        now: read.head.now,
        raise: None,
        reads: writes.iter().map(|write| write.key).zip(revisions).collect(),
        writes,
        due_drops: Vec::new(),
        feed: Bytes::from_static(b"events"),
        lanes: Vec::new(),
    }
}

/// Commits writes that nothing speaks against.
pub async fn apply<S: Store>(store: &S, partition: PartitionId, writes: Vec<Write>) -> Head {
    let batch = batch(store, partition, writes).await;
    match store.commit(partition, batch).await {
        Outcome::Applied { head } => head,
        other => panic!("a commit that nothing speaks against was answered with {other:?}"),
    }
}

pub async fn get<S: Store>(store: &S, key: Key) -> Option<Found> {
    store.read(key.partition(), vec![(key, PartMask::ALL)]).await.unwrap().found.remove(0)
}

/// What part 0 of a record holds.
pub async fn part<S: Store>(store: &S, key: Key) -> Option<Bytes> {
    get(store, key).await.map(|found| found.parts[0].1.clone())
}
