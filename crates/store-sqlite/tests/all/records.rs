//! Stores in folders of their own, and hand-made records to put into them.

use bytes::Bytes;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use uuid::Uuid;
use weft_core::change::{Batch, Body, Change, Head, Write};
use weft_core::record::Key;
use weft_core::schema::{Kind, PartMask, Type, Value};
use weft_core::{CommitId, ExecutionId, PartitionId};
use weft_store::{Found, Outcome, Store};
use weft_store_sqlite::{OpenError, Options, SqliteStore};

pub const P0: PartitionId = PartitionId(0);

pub fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

pub fn open(folder: &TempDir) -> SqliteStore {
    try_open(folder.path().join("weft.db")).unwrap()
}

/// Opens a store that nobody has open. A process that another test is about to start has every open file of this process for
/// a moment, with the locks of stores that were just closed.
pub fn try_open(path: PathBuf) -> Result<SqliteStore, OpenError> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match SqliteStore::open(Options::new(path.clone())) {
            Err(OpenError::Locked { .. }) if Instant::now() < deadline => std::thread::yield_now(),
            opened => return opened,
        }
    }
}

pub fn key(partition: PartitionId, number: u64) -> Key {
    Key::Execution(ExecutionId::new(partition, Uuid::from_u128(number.into())))
}

fn body(parts: &[(u8, Option<Bytes>)]) -> Body {
    let facets = Kind::Execution.table().facets.iter().map(|facet| match (facet.nullable, facet.ty) {
        (true, _) => Value::Null,
        (false, Type::Int) => Value::Int(7),
        (false, Type::Text) => Value::Text("some".into()),
        (false, Type::Bytes) => Value::bytes(b"key"),
    });
    Body { facets: facets.collect(), parts: parts.to_vec() }
}

pub fn insert(key: Key, parts: &[(u8, Option<Bytes>)]) -> Write {
    Write { key, what: Change::Insert(body(parts)), due_add: Vec::new(), due_remove: Vec::new() }
}

pub fn update(key: Key, parts: &[(u8, Option<Bytes>)]) -> Write {
    Write {
        key,
        what: Change::Update { old: body(&[]).facets, body: body(parts) },
        due_add: Vec::new(),
        due_remove: Vec::new(),
    }
}

pub fn delete(key: Key) -> Write {
    Write { key, what: Change::Delete { old: Some(body(&[]).facets) }, due_add: Vec::new(), due_remove: Vec::new() }
}

/// A batch on top of `head` whose records are not checked.
pub fn batch(head: Head, id: u128, writes: Vec<Write>) -> Batch {
    Batch {
        id: CommitId(Uuid::from_u128(id)),
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

pub async fn head(store: &SqliteStore, partition: PartitionId) -> Head {
    store.read(partition, Vec::new()).await.unwrap().head
}

/// Commits on top of whatever is there.
pub async fn commit(store: &SqliteStore, partition: PartitionId, writes: Vec<Write>) -> Outcome {
    let head = head(store, partition).await;
    let id = (u128::from(partition.0) << 64) + u128::from(head.position.seq) + 1;
    store.commit(partition, batch(head, id, writes)).await
}

pub async fn apply(store: &SqliteStore, writes: Vec<Write>) -> Head {
    match commit(store, P0, writes).await {
        Outcome::Applied { head } => head,
        other => panic!("not applied: {other:?}"),
    }
}

pub async fn get(store: &SqliteStore, key: Key) -> Option<Found> {
    store.read(key.partition(), vec![(key, PartMask::ALL)]).await.unwrap().found.remove(0)
}
