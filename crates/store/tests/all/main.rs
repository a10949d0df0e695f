//! The store seam: the yardstick passes its own suite, faults do what they say, planted defects are found.

mod differential;
mod faulty;
#[path = "../../../core/tests/kit/mod.rs"]
mod kit;
mod memory;
#[cfg(feature = "planted")]
mod planted;
mod transfer;

use bytes::Bytes;
use std::sync::Arc;
use uuid::Uuid;
use weft_core::change::{Batch, Body, Change, Head, Write};
use weft_core::record::Key;
use weft_core::schema::Value;
use weft_core::{CommitId, PartitionId, Time};
use weft_store::MemoryStore;

const P0: PartitionId = PartitionId(0);

/// A store in memory whose clock stands still.
fn memory(partitions: u16) -> MemoryStore {
    MemoryStore::new(partitions, Arc::new(|| Time::from_ms(1_000)))
}

fn commit_id(number: u64) -> CommitId {
    CommitId(Uuid::from_u128(number.into()))
}

fn key(number: u8) -> Key {
    Key::Dedup(P0, [number; 32])
}

/// Inserts one small record into an empty place. Its record is checked, its position is not.
fn insert(number: u8) -> Batch {
    let parts = vec![(0, Some(Bytes::copy_from_slice(&[number])))];
    let body = Body { facets: vec![Value::Text("space".into()), Value::Null], parts };
    let write = Write { key: key(number), what: Change::Insert(body), due_add: Vec::new(), due_remove: Vec::new() };
    Batch {
        id: commit_id(number.into()),
        expect: Head::default(),
        fast: false,
        strict: false,
        now: Time::ZERO,
        raise: None,
        reads: vec![(key(number), None)],
        writes: vec![write],
        due_drops: Vec::new(),
        feed: Bytes::new(),
        lanes: Vec::new(),
    }
}
