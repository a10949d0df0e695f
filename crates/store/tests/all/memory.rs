//! The store in memory.

use crate::{P0, commit_id, insert, key, memory};
use bytes::Bytes;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc::error::TryRecvError;
use weft_core::change::{Batch, DueEntry};
use weft_core::record::Key;
use weft_core::schema::{Due, Timer};
use weft_core::{PartitionId, Time};
use weft_store::{MemoryStore, Outcome, PATIENCE_MS, Store, Wake, conformance};

#[tokio::test]
async fn memory_passes_conformance() {
    conformance::all(|partitions| async move { memory(partitions) }).await;
}

#[tokio::test]
async fn a_shared_store_passes_conformance() {
    conformance::all(|partitions| async move { memory(partitions).shared().node_handle() }).await;
}

fn ready_work(number: u8) -> Batch {
    let mut batch = insert(number);
    batch.writes[0].due_add =
        vec![Due { timer: Timer::Lease, at: Time::from_ms(9) }, Due { timer: Timer::Deadline, at: Time::from_ms(4) }];
    batch.lanes = vec![("space".into(), "mail".into())];
    batch
}

#[tokio::test]
async fn a_commit_wakes_the_other_nodes() {
    let one = memory(2).shared();
    let two = one.node_handle();
    let (mut at_one, mut at_two) = (one.watch(), two.watch());
    assert!(!two.describe().exclusive, "several nodes share it");

    two.commit(P0, ready_work(1)).await;
    let wake = Wake { partition: P0, lanes: vec![("space".into(), "mail".into())], due: Some(Time::from_ms(4)) };
    assert_eq!(at_one.try_recv(), Ok(wake), "the other node is told what is ready and when the first timer is due");
    assert_eq!(at_two.try_recv(), Err(TryRecvError::Empty), "a node does not wake itself");

    two.commit(P0, insert(2)).await;
    two.commit(P0, insert(2)).await;
    assert_eq!(at_one.try_recv(), Err(TryRecvError::Empty), "a commit that makes nothing ready wakes nobody");
}

#[test]
fn work_that_is_ready_and_timers_of_soon_are_urgent() {
    let now = Time::from_ms(10_000);
    let wake = |due: Option<u64>| Wake { partition: P0, lanes: Vec::new(), due: due.map(Time::from_ms) };
    assert!(wake(Some(9_000)).is_urgent(now), "late already");
    assert!(wake(Some(10_000 + 2 * PATIENCE_MS)).is_urgent(now), "it would be told with little time left");
    assert!(!wake(Some(10_001 + 2 * PATIENCE_MS)).is_urgent(now));
    assert!(!wake(None).is_urgent(now));
    assert!(Wake { lanes: vec![("space".into(), "mail".into())], ..wake(None) }.is_urgent(now));
}

#[tokio::test]
async fn an_exclusive_store_wakes_nobody() {
    let store = memory(1);
    let mut wakes = store.node_handle().watch();
    store.commit(P0, ready_work(1)).await;
    assert!(store.describe().exclusive);
    assert_eq!(wakes.try_recv(), Err(TryRecvError::Empty));
}

#[tokio::test]
async fn an_observer_sees_each_applied_commit_once() {
    let store = memory(1);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    store.set_observer(Box::new(move |committed| {
        let written = committed.record(&key(2)).map(|stored| stored.revision);
        let heads = (committed.before.position.seq, committed.head.position.seq);
        assert_eq!(committed.dump().head, committed.head);
        log.lock().unwrap().push((committed.batch.id, heads, written));
    }));
    store.commit(P0, insert(1)).await;
    store.commit(P0, insert(1)).await;
    store.commit(P0, Batch { id: commit_id(99), ..insert(1) }).await;
    store.resolve(P0, commit_id(77)).await.unwrap();
    store.commit(P0, insert(2)).await;
    let expected = [(commit_id(1), (0, 1), None), (commit_id(2), (2, 3), Some(commit_id(2)))];
    assert_eq!(*seen.lock().unwrap(), expected, "neither repeats nor conflicts; a bar moves the head in between");
    assert_eq!(store.commits(), 2);
}

#[tokio::test]
async fn dumps_of_equal_histories_are_equal() {
    let (one, two) = (memory(1), memory(1));
    for store in [&one, &two] {
        store.commit(P0, ready_work(1)).await;
        store.resolve(P0, commit_id(50)).await.unwrap();
    }
    assert_eq!(one.dump(P0), two.dump(P0));
    assert_eq!(one.dump(P0).records.keys().collect::<Vec<_>>(), [&key(1)]);
    assert_eq!((one.dump(P0).due.len(), one.dump(P0).feed.len(), one.dump(P0).barred.len()), (2, 1, 1));
    two.commit(P0, insert(2)).await;
    assert_ne!(one.dump(P0), two.dump(P0));
}

#[tokio::test]
async fn a_damaged_timer_can_be_put_there_and_dropped() {
    let store = memory(1);
    let entry = DueEntry { at: Time::from_ms(3), timer: 1, kind: 200, key: Bytes::from_static(b"no such thing") };
    store.insert_due(P0, &entry);
    assert!(store.dump(P0).due.contains(&entry));
    store.commit(P0, Batch { due_drops: vec![entry.clone()], ..insert(1) }).await;
    assert!(store.dump(P0).due.is_empty());
}

#[tokio::test]
async fn what_belongs_elsewhere_is_refused() {
    let store = memory(1);
    let nowhere = PartitionId(7);
    assert!(store.read(nowhere, Vec::new()).await.is_err());
    assert!(store.resolve(nowhere, commit_id(1)).await.is_err());
    assert!(matches!(store.commit(nowhere, insert(1)).await, Outcome::NotApplied { .. }));
    let mut batch = insert(1);
    batch.writes[0].key = Key::Dedup(nowhere, [1; 32]);
    assert!(matches!(store.commit(P0, batch).await, Outcome::NotApplied { .. }), "a commit touches one partition");
    assert_eq!(store.dump(P0), memory(1).dump(P0));
}

#[tokio::test]
async fn the_clock_is_the_one_it_was_given() {
    let store = MemoryStore::new(1, Arc::new(|| Time::from_ms(42)));
    assert_eq!(store.now().await.unwrap(), Time::from_ms(42));
}
