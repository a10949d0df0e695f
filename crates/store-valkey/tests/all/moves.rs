//! Slots that move to another node under load, and a primary that is replaced.

use crate::records::{apply, batch, insert, key, part, update};
use crate::servers;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_core::PartitionId;
use weft_core::change::{Batch, Write};
use weft_core::record::Key;
use weft_core::schema::PartMask;
use weft_servers::{Cluster, Failover, Reply, Valkey};
use weft_store::{Outcome, Resolution, Store};
use weft_store_valkey::{Options, ValkeyStore};

const PARTITION: PartitionId = PartitionId(3);

/// Commits one record after the other until it is told to stop; the answer is the records that were acknowledged.
async fn load(store: Arc<ValkeyStore>, stop: Arc<AtomicBool>, first: u128) -> Vec<u128> {
    let (mut acknowledged, mut number) = (Vec::new(), first);
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let write = insert(key(PARTITION, number), &[(0, &number.to_be_bytes()), (4, &[7; 500])]);
        // A partition on its way may not answer for a while.
        let Ok(read) = store.read(PARTITION, Vec::new()).await else { continue };
        let mut commit = Batch {
            expect: read.head,
            now: read.head.now,
            reads: vec![(write.key, None)],
            writes: vec![write],
            ..empty()
        };
        commit.fast = number % 2 == 0;
        let id = commit.id;
        match store.commit(PARTITION, commit).await {
            Outcome::Applied { .. } => acknowledged.push(number),
            Outcome::NotApplied { .. } => {}
            Outcome::Unknown { .. } => {
                let deadline = Instant::now() + Duration::from_secs(30);
                let resolution = loop {
                    match store.resolve(PARTITION, id).await {
                        Ok(resolution) => break resolution,
                        Err(error) => assert!(Instant::now() < deadline, "it was never resolved: {error}"),
                    }
                };
                if let Resolution::Applied { .. } = resolution {
                    acknowledged.push(number);
                }
            }
            Outcome::Conflict { .. } | Outcome::Lost { .. } => panic!("nobody else writes here"),
        }
    }
    acknowledged
}

fn empty() -> Batch {
    Batch {
        id: crate::records::mint(),
        expect: Default::default(),
        fast: false,
        strict: false,
        now: Default::default(),
        raise: None,
        reads: Vec::new(),
        writes: Vec::new(),
        due_drops: Vec::new(),
        feed: bytes::Bytes::from_static(b"events"),
        lanes: Vec::new(),
    }
}

/// A slot on its way the old way: key by key, while both nodes serve a part of it.
struct Move<'a> {
    slot: String,
    source: &'a Valkey,
    target: &'a Valkey,
    target_id: String,
}

impl<'a> Move<'a> {
    fn begin(cluster: &'a Cluster, slot: u16, from: usize, to: usize) -> Self {
        let (source, target) = (cluster.node(from), cluster.node(to));
        let id = |node: &Valkey| node.command(&["CLUSTER", "MYID"]).unwrap().text().unwrap();
        let begun = Self { slot: slot.to_string(), source, target, target_id: id(target) };
        target.command(&["CLUSTER", "SETSLOT", &begun.slot, "IMPORTING", &id(source)]).unwrap();
        source.command(&["CLUSTER", "SETSLOT", &begun.slot, "MIGRATING", &begun.target_id]).unwrap();
        begun
    }

    fn move_keys(&self) {
        let port = self.target.addr().port().to_string();
        let mut connection = self.source.connect().unwrap();
        loop {
            let Reply::Array(keys) = connection.command(&["CLUSTER", "GETKEYSINSLOT", &self.slot, "10"]).unwrap()
            else {
                panic!("keys are a list")
            };
            if keys.is_empty() {
                return;
            }
            for name in keys {
                let Reply::Bytes(name) = name else { panic!("a key is bytes") };
                let words = ["MIGRATE", "127.0.0.1", &port].map(|word| word.as_bytes().to_vec());
                let words = [&words[..], &[name, b"0".to_vec(), b"5000".to_vec()]].concat();
                connection.command(&words).unwrap();
            }
        }
    }

    fn finish(self) {
        for node in [self.target, self.source] {
            node.command(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &self.target_id]).unwrap();
        }
    }
}

fn migrate_slot(cluster: &Cluster, slot: u16, from: usize, to: usize) {
    let begun = Move::begin(cluster, slot, from, to);
    begun.move_keys();
    begun.finish();
}

fn slot_of(node: &Valkey, name: &str) -> u16 {
    match node.command(&["CLUSTER", "KEYSLOT", name]).unwrap() {
        Reply::Integer(slot) => slot as u16,
        other => panic!("{other:?}"),
    }
}

/// Waits until the load has got somewhere.
async fn until_seq_is_beyond(store: &ValkeyStore, seq: u64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match store.read(PARTITION, Vec::new()).await {
            Ok(read) if read.head.position.seq > seq => return,
            _ => assert!(Instant::now() < deadline, "the load does not get on"),
        }
        tokio::task::yield_now().await;
    }
}

async fn seq(store: &ValkeyStore) -> u64 {
    store.read(PARTITION, Vec::new()).await.unwrap().head.position.seq
}

async fn check(store: &ValkeyStore, acknowledged: &[u128]) {
    for number in acknowledged {
        let found = part(store, key(PARTITION, *number)).await;
        assert_eq!(found.as_deref(), Some(&number.to_be_bytes()[..]), "{number} was acknowledged");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v18_a_slot_that_moves_under_load_loses_nothing() {
    let cluster = Cluster::start(3, 0).unwrap();
    let options = Options { partitions: 4, ..servers::on_cluster(&cluster) };
    let store = Arc::new(ValkeyStore::open(options).await.unwrap());
    let slot = slot_of(cluster.node(0), "{p3}");
    let from = cluster.primary_of_slot(slot).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let loading = tokio::spawn(load(store.clone(), stop.clone(), 0));
    until_seq_is_beyond(&store, 50).await;

    let to = (from + 1) % 3;
    let cluster = Arc::new(cluster);
    let moving = cluster.clone();
    tokio::task::spawn_blocking(move || migrate_slot(&moving, slot, from, to)).await.unwrap();
    // A node that is fresh to the partition has no library until somebody calls it there.
    until_seq_is_beyond(&store, seq(&store).await + 20).await;
    let back = cluster.clone();
    tokio::task::spawn_blocking(move || migrate_slot(&back, slot, to, from)).await.unwrap();
    until_seq_is_beyond(&store, seq(&store).await + 20).await;

    stop.store(true, Ordering::Relaxed);
    let acknowledged = loading.await.unwrap();
    assert!(acknowledged.len() >= 90, "{} commits", acknowledged.len());
    check(&store, &acknowledged).await;
    let feed = cluster.node(from).command(&["XLEN", "test_own:{p3}feed"]).unwrap();
    assert_eq!(feed, Reply::Integer(acknowledged.len() as i64), "one entry per acknowledged commit, none twice");
}

#[tokio::test]
async fn a_slot_that_is_half_way_is_served_where_its_keys_are() {
    let cluster = Cluster::start(2, 0).unwrap();
    let call_timeout = Duration::from_millis(500);
    let options = Options { partitions: 4, call_timeout, ..servers::on_cluster(&cluster) };
    let store = ValkeyStore::open(options).await.unwrap();
    let record = key(PARTITION, 1);
    apply(&store, PARTITION, vec![insert(record, &[(0, b"before")])]).await;
    let slot = slot_of(cluster.node(0), "{p3}");
    let from = cluster.primary_of_slot(slot).unwrap();

    let begun = Move::begin(&cluster, slot, from, 1 - from);
    begun.move_keys();
    // The source still owns the slot and sends everybody on, one by one.
    for value in [b"first", b"again"] {
        apply(&store, PARTITION, vec![update(record, &[(0, value)])]).await;
        let read = store.read(PARTITION, vec![(record, PartMask::of(0))]).await.unwrap();
        assert_eq!(read.found[0].as_ref().unwrap().parts[0].1, value[..]);
    }
    // A record that is nowhere yet could be on either side, so it has to wait.
    let fresh = insert(key(PARTITION, 2), &[(0, b"new")]);
    let outcome = store.commit(PARTITION, batch_over(&store, record, fresh.clone()).await).await;
    assert!(matches!(outcome, Outcome::NotApplied { .. }), "{outcome:?}");
    begun.finish();
    apply(&store, PARTITION, vec![fresh]).await;
    assert_eq!(part(&store, key(PARTITION, 2)).await.as_deref(), Some(&b"new"[..]));
}

#[tokio::test]
async fn sr_10_a_cluster_without_one_of_its_primaries_has_a_time() {
    let cluster = Cluster::start(2, 0).unwrap();
    let options = Options { partitions: 4, ..servers::on_cluster(&cluster) };
    let store = ValkeyStore::open(options).await.unwrap();
    let before = store.now().await.unwrap();
    for stopped in 0..2 {
        cluster.node(stopped).pause().unwrap();
        // Less than the time that a call to the stopped one may take.
        let in_time = async {
            loop {
                // One that answers late on a busy machine is asked again.
                if let Ok(now) = tokio::time::timeout(Duration::from_secs(5), store.now()).await {
                    return now;
                }
            }
        };
        let now = tokio::time::timeout(Duration::from_secs(60), in_time).await;
        cluster.node(stopped).resume().unwrap();
        let now = now.expect("the other primary is asked").unwrap();
        assert!(now >= before && now.since(before) < 60_000, "{now:?} after {before:?}");
    }
}

/// A batch for a record that cannot be read at the moment: position and time come with another one.
async fn batch_over(store: &ValkeyStore, readable: Key, write: Write) -> Batch {
    let read = store.read(PARTITION, vec![(readable, PartMask::NONE)]).await.unwrap();
    let (expect, now) = (read.head, read.head.now);
    Batch { expect, now, fast: true, reads: vec![(write.key, None)], writes: vec![write], ..empty() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v7_a_primary_that_is_replaced_loses_nothing_that_was_replicated() {
    let cluster = Arc::new(Cluster::start(3, 1).unwrap());
    let mut options = Options { partitions: 4, ..servers::on_cluster(&cluster) };
    options.durability = weft_store::Level::Replicated;
    options.call_timeout = Duration::from_secs(2);
    let store = Arc::new(ValkeyStore::open(options).await.unwrap());
    let slot = slot_of(cluster.node(0), "{p3}");
    let primary = cluster.primary_of_slot(slot).unwrap();
    let replica = cluster.replicas_of(primary).unwrap()[0];
    let stop = Arc::new(AtomicBool::new(false));
    let loading = tokio::spawn(load(store.clone(), stop.clone(), 0));
    until_seq_is_beyond(&store, 30).await;
    cluster.kill(primary).unwrap();
    let failing = cluster.clone();
    tokio::task::spawn_blocking(move || {
        failing.promote(replica, Failover::Takeover).unwrap();
        // Its only replica is the old primary; until that is back nothing can be replicated.
        failing.restart(primary).unwrap();
        failing.wait_ok(Duration::from_secs(60)).unwrap();
    })
    .await
    .unwrap();
    until_seq_is_beyond(&store, seq(&store).await + 20).await;
    stop.store(true, Ordering::Relaxed);
    let acknowledged = loading.await.unwrap();
    check(&store, &acknowledged).await;
    // A batch made by hand goes through as well.
    let write = insert(key(PARTITION, u128::MAX), &[(0, b"x")]);
    let fresh = batch(&*store, PARTITION, vec![write]).await;
    assert!(matches!(store.commit(PARTITION, fresh).await, Outcome::Applied { .. }));
}
