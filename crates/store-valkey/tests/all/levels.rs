//! The levels of durability that wait for replicas.

use crate::records::{P0, apply, batch, insert, key, part, update};
use crate::servers;
use std::time::Duration;
use weft_core::change::Batch;
use weft_servers::Valkey;
use weft_store::{Level, Outcome, Resolution, Store};
use weft_store_valkey::{OpenError, Options, ValkeyStore};

/// A primary and a replica that is in step with it.
fn pair() -> (Valkey, Valkey) {
    let (primary, replica) = (Valkey::start(&[]).unwrap(), Valkey::start(&[]).unwrap());
    replica.command(&["REPLICAOF", "127.0.0.1", &primary.addr().port().to_string()]).unwrap();
    let started = std::time::Instant::now();
    loop {
        primary.command(&["SET", "probe", "x"]).unwrap();
        let mut connection = primary.connect().unwrap();
        connection.command(&["SET", "probe", "y"]).unwrap();
        if connection.command(&["WAIT", "1", "200"]).unwrap() == weft_servers::Reply::Integer(1) {
            return (primary, replica);
        }
        assert!(started.elapsed() < Duration::from_secs(30), "the replica never got in step");
    }
}

async fn reaches_the_replica(level: Level) {
    let (primary, replica) = pair();
    let options = Options { partitions: 2, durability: level, ..servers::on(&primary) };
    let store = ValkeyStore::open(options).await.unwrap();
    let durability = store.describe().durability;
    assert_eq!((durability.level, durability.verified), (level, true));
    assert!(durability.acknowledged.contains("all replicas"), "{durability}");
    let before = apply(&store, P0, vec![insert(key(P0, 1), &[(0, b"a")])]).await;
    for fast in [true, false] {
        let commit = Batch { fast, ..batch(&store, P0, vec![update(key(P0, 1), &[(0, b"b")])]).await };
        assert!(matches!(store.commit(P0, commit).await, Outcome::Applied { .. }));
        let head = replica.command(&["GET", "test_own:{p0}head"]).unwrap().text();
        let head = head.and_then(|text| text.split(' ').nth(1).and_then(|seq| seq.parse::<u64>().ok()));
        let expected = store.read(P0, Vec::new()).await.unwrap().head.position.seq;
        assert_eq!(head, Some(expected), "the replica has it before the answer; it was at {before:?}");
    }
}

#[tokio::test]
async fn rl_1_replicated_means_received_by_the_replica() {
    reaches_the_replica(Level::Replicated).await;
}

#[tokio::test]
async fn rl_1_strict_means_fsynced_by_the_replica() {
    reaches_the_replica(Level::Strict).await;
}

async fn falls_short(level: Level) {
    let (primary, replica) = pair();
    let call_timeout = Duration::from_millis(1200);
    let options = Options { partitions: 1, durability: level, call_timeout, ..servers::on(&primary) };
    let store = ValkeyStore::open(options.clone()).await.unwrap();
    let other = ValkeyStore::open(options).await.unwrap();
    apply(&store, P0, vec![insert(key(P0, 1), &[(0, b"a")])]).await;
    replica.pause().unwrap();
    for fast in [true, false] {
        let commit = Batch { fast, ..batch(&store, P0, vec![update(key(P0, 1), &[(0, b"b")])]).await };
        let id = commit.id;
        let position = commit.expect.position.next();
        let outcome = store.commit(P0, commit).await;
        assert!(matches!(outcome, Outcome::Unknown { .. }), "{outcome:?}");
        // It writes again and waits like a commit, so a stopped replica is not taken for one that is up to date, not even
        // on a connection that has nothing else to wait for.
        for store in [&store, &other] {
            assert!(store.resolve(P0, id).await.is_err(), "a stopped replica has not received it");
        }
        replica.resume().unwrap();
        let mut resolved = store.resolve(P0, id).await;
        for _ in 0..20 {
            if resolved.is_ok() {
                break;
            }
            resolved = store.resolve(P0, id).await;
        }
        assert_eq!(resolved.unwrap(), Resolution::Applied { position });
        replica.pause().unwrap();
    }
    replica.resume().unwrap();
    assert_eq!(part(&store, key(P0, 1)).await.as_deref(), Some(&b"b"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rl_39_a_replica_that_stopped_makes_commits_unknown() {
    falls_short(Level::Replicated).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rl_13_a_replica_that_stopped_makes_strict_commits_unknown() {
    falls_short(Level::Strict).await;
}

#[tokio::test]
async fn rl_3_a_level_that_needs_replicas_is_refused_without_them() {
    let server = Valkey::start(&[]).unwrap();
    for durability in [Level::Replicated, Level::Strict] {
        let options = Options { durability, ..servers::on(&server) };
        match ValkeyStore::open(options.clone()).await {
            Err(OpenError::Replicas { found: 0, needed: 1, .. }) => {}
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it was opened"),
        }
        let store = ValkeyStore::open(Options { accept_data_loss: true, ..options }).await.unwrap();
        assert_eq!(store.describe().durability.level, Level::Memory);
    }
}

#[tokio::test]
async fn a_cluster_waits_for_the_replicas_of_each_shard() {
    let options = Options { durability: Level::Replicated, partitions: 9, ..servers::cluster("waits") };
    weft_store_valkey::wipe(&options).await.unwrap();
    let store = ValkeyStore::open(options.clone()).await.unwrap();
    for partition in (0..9).map(weft_core::PartitionId) {
        for number in 0..3 {
            apply(&store, partition, vec![insert(key(partition, number), &[(0, b"x")])]).await;
        }
    }
    weft_store_valkey::wipe(&options).await.unwrap();
}
