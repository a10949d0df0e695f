//! Wake-ups between nodes.

use crate::records::{P0, P1, batch, head, insert, key};
use crate::server::{DEADLINE, open_fresh, pair, soon, sql, until, with};
use std::sync::Arc;
use std::time::Instant;
use weft_core::change::Batch;
use weft_core::schema::{Due, Timer};
use weft_core::{PartitionId, Time};
use weft_store::{Store, Wake};
use weft_store_postgres::PostgresStore;

fn lane(name: &str) -> (Arc<str>, Arc<str>) {
    ("default".into(), name.into())
}

async fn listening_pair() -> (PostgresStore, PostgresStore) {
    let (one, two) = pair().await;
    soon("both nodes listening", async { tokio::join!(one.listening(), two.listening()) }).await;
    (one, two)
}

/// A commit that has something to tell.
pub async fn tell(store: &PostgresStore, partition: PartitionId, number: u64, lanes: &[&str], due_ms: Option<u64>) {
    let mut write = insert(key(partition, number), b"");
    write.due_add = due_ms.map(|ms| Due { timer: Timer::Until, at: Time::from_ms(ms) }).into_iter().collect();
    let lanes = lanes.iter().map(|name| lane(name)).collect();
    let told = Batch { lanes, ..batch(head(store, partition).await, vec![write]) };
    crate::records::applied(store.commit(partition, told).await);
}

#[tokio::test]
async fn rl_56_a_commit_wakes_every_node_but_its_own() {
    let (one, two) = listening_pair().await;
    let (mut at_one, mut at_two, mut again_at_two) = (one.watch(), two.watch(), two.watch());

    tell(&one, P1, 1, &["mail", "print"], Some(70)).await;
    let expected = Wake { partition: P1, lanes: vec![lane("mail"), lane("print")], due: Some(Time::from_ms(70)) };
    assert_eq!(soon("a wake", at_two.recv()).await, Some(expected.clone()));
    assert_eq!(soon("a wake", again_at_two.recv()).await, Some(expected));

    tell(&two, P0, 1, &[], Some(5)).await;
    let expected = Wake { partition: P0, lanes: Vec::new(), due: Some(Time::from_ms(5)) };
    assert_eq!(soon("a wake", at_one.recv()).await, Some(expected), "the first that a node hears is not its own");
}

#[tokio::test]
async fn rl_56_many_commits_ring_the_bell_only_now_and_then() {
    let (one, two) = listening_pair().await;
    let mut wakes = two.watch();
    let started = Instant::now();
    // As many as one message names, so that all may come with one ring.
    for number in 0..60 {
        tell(&one, P0, number, &[&format!("lane-{number}")], None).await;
    }
    let mut lanes = Vec::new();
    while lanes.len() < 60 {
        lanes.extend(soon("the rest of the lanes", wakes.recv()).await.unwrap().lanes);
    }
    let rings = one.stats().rings;
    let most = started.elapsed().as_millis() as u64 / 50 + 2;
    assert!((1..=most).contains(&rings), "{rings} rings, {most} are allowed");
    lanes.sort();
    lanes.dedup();
    assert_eq!(lanes.len(), 60, "joined, not lost");
}

#[tokio::test]
async fn rl_56_timers_of_later_leave_the_bell_to_what_is_urgent() {
    let (one, two) = listening_pair().await;
    let mut wakes = two.watch();
    let (started, later) = (Instant::now(), head(&one, P0).await.now + 30_000);
    for number in 0..100 {
        tell(&one, P0, number, &[], Some(later.ms() + 100 - number)).await;
    }
    let expected = Some(Time::from_ms(later.ms() + 1));
    while soon("the earliest timer", wakes.recv()).await.unwrap().due != expected {}
    let rings = one.stats().rings;
    let most = started.elapsed().as_millis() as u64 / 500 + 1;
    assert!(rings <= most, "{rings} rings, {most} are allowed");
}

#[tokio::test]
async fn a_commit_without_work_wakes_nobody() {
    let store = open_fresh(2).await;
    soon("the node listening", store.listening()).await;
    tell(&store, P0, 1, &[], None).await;
    assert_eq!(store.stats().rings, 0);
}

#[tokio::test]
async fn the_doorbell_comes_back_after_its_connection_was_cut() {
    let program = crate::server::name();
    let options = with(&program, &format!("application_name={program}")).partitions(2);
    let one = PostgresStore::open(fresh_named(&program)).await.unwrap();
    let two = PostgresStore::open(options).await.unwrap();
    soon("both nodes listening", async { tokio::join!(one.listening(), two.listening()) }).await;
    let mut wakes = two.watch();
    let connections = two.stats().connections;
    let cut = sql().await;
    let ended =
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1 and query like 'listen%'";
    assert_eq!(cut.query(ended, &[&program]).await.unwrap().len(), 1);
    until("another connection of the doorbell", async || (two.stats().connections > connections).then_some(())).await;
    soon("the node listening again", two.listening()).await;
    let started = Instant::now();
    let mut number = 0;
    // It may still call itself listening on the connection that was cut, so one wake may be lost.
    loop {
        number += 1;
        tell(&one, P0, number, &["mail"], None).await;
        match tokio::time::timeout(std::time::Duration::from_millis(200), wakes.recv()).await {
            Ok(wake) => break assert_eq!(wake.unwrap().lanes, [lane("mail")]),
            Err(_) => assert!(started.elapsed() < DEADLINE, "no wake after the doorbell was cut"),
        }
    }
}

fn fresh_named(schema: &str) -> weft_store_postgres::Options {
    crate::server::options(schema).partitions(2)
}
