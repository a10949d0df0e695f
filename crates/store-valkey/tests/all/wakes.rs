//! Wake-ups between nodes.

use crate::records::{P0, batch, insert, key};
use crate::servers;
use std::sync::Arc;
use std::time::Duration;
use weft_core::schema::{Due, Timer};
use weft_core::{PartitionId, Time};
use weft_store::{Outcome, PATIENCE_MS, Store, Wake, Wakes};
use weft_store_valkey::{Options, ValkeyStore, wipe};

const SOON: Duration = Duration::from_secs(10);

async fn next(wakes: &mut Wakes) -> Wake {
    tokio::time::timeout(SOON, wakes.recv()).await.expect("a wake-up comes").expect("the store is open")
}

async fn ring(
    store: &ValkeyStore,
    partition: PartitionId,
    number: u128,
    lane: impl Into<Option<&str>>,
    due: Option<u64>,
) {
    let mut write = insert(key(partition, number), &[(0, b"x")]);
    write.due_add.extend(due.map(|at| Due { timer: Timer::Lease, at: Time::from_ms(at) }));
    let mut batch = batch(store, partition, vec![write]).await;
    batch.lanes = lane.into().into_iter().map(|lane| (Arc::from("default"), Arc::from(lane))).collect();
    assert!(matches!(store.commit(partition, batch).await, Outcome::Applied { .. }));
}

async fn nodes_wake_each_other(options: Options) {
    wipe(&options).await.unwrap();
    let options = Options { partitions: 8, ..options };
    let ann = ValkeyStore::open(options.clone()).await.unwrap();
    let bob = ValkeyStore::open(options.clone()).await.unwrap();
    let (mut to_ann, mut to_bob) = (ann.watch(), bob.watch());
    // A node may still be connecting, and a hint that nobody hears is lost: ring until one is heard.
    let mut number = 0;
    let heard = loop {
        number += 1;
        ring(&ann, P0, number, "mail", Some(1000 + number as u64)).await;
        if let Ok(wake) = tokio::time::timeout(Duration::from_millis(200), to_bob.recv()).await {
            break wake.unwrap();
        }
        assert!(number < 50, "no wake-up came through");
    };
    assert_eq!(heard.partition, P0);
    assert_eq!(heard.lanes, [(Arc::from("default"), Arc::from("mail"))]);
    assert!(heard.due.is_some_and(|due| due <= Time::from_ms(1000 + number as u64)));

    // Both listen by now; each hears the other and never itself.
    let seven = PartitionId(7);
    let answered = loop {
        number += 1;
        ring(&bob, seven, number, "post", None).await;
        if let Ok(wake) = tokio::time::timeout(Duration::from_millis(200), to_ann.recv()).await {
            break wake.unwrap();
        }
        assert!(number < 100, "no wake-up came back");
    };
    assert_eq!((answered.partition, answered.due), (seven, None));
    while let Ok(wake) = to_bob.try_recv() {
        assert_eq!(wake.partition, P0, "a node does not wake itself");
    }

    // Many commits at once ring a few times, and the last one is heard.
    for number in 1000..1100 {
        ring(&ann, PartitionId(1), number, "many", None).await;
    }
    ring(&ann, PartitionId(2), 1, "last", None).await;
    let mut rings = 0;
    while next(&mut to_bob).await.partition != PartitionId(2) {
        rings += 1;
    }
    assert!(rings < 100, "{rings} wake-ups for 100 commits");

    // A timer that is due much later is told as well.
    let later = 10_000_000_000_000;
    ring(&ann, PartitionId(3), 1, None, Some(later)).await;
    let told = std::time::Instant::now();
    assert_eq!(next(&mut to_bob).await.due, Some(Time::from_ms(later)));
    assert!(told.elapsed() < 4 * Duration::from_millis(PATIENCE_MS));
    wipe(&options).await.unwrap();
}

#[tokio::test]
async fn nodes_on_one_server_wake_each_other() {
    nodes_wake_each_other(servers::standalone("wakes")).await;
}

#[tokio::test]
async fn nodes_on_a_cluster_wake_each_other() {
    nodes_wake_each_other(servers::cluster("wakes")).await;
}
