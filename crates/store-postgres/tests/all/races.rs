//! Two stores on one partition, each of which thinks it knows the head.

use crate::records::{P0, applied, batch, body, get, head, insert, key, update};
use crate::server::pair;
use weft_core::change::Batch;
use weft_core::record::Key;
use weft_store::{Outcome, Store};
use weft_store_postgres::PostgresStore;

/// Raises the number in the record `times` times; answers how often somebody else was faster.
async fn count_up(store: &PostgresStore, counter: Key, times: usize) -> usize {
    let (mut done, mut conflicts) = (0, 0);
    while done < times {
        let before = head(store, P0).await;
        let found = get(store, counter).await.unwrap();
        let number = u64::from_be_bytes(found.parts[0].1.as_ref().try_into().unwrap());
        let write = update(counter, &(number + 1).to_be_bytes());
        let reads = vec![(counter, Some(found.revision))];
        match store.commit(P0, Batch { reads, ..batch(before, vec![write]) }).await {
            Outcome::Applied { .. } => done += 1,
            Outcome::Conflict { keys, head } => {
                assert!(keys.is_empty() || keys == [counter], "{keys:?}");
                assert!(head.position > before.position, "a conflict tells a head that has moved");
                conflicts += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    conflicts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_that_count_on_one_record_lose_no_step() {
    let (one, two) = pair().await;
    let counter = key(P0, 1);
    let first = crate::records::apply(&one, P0, vec![insert(counter, &0u64.to_be_bytes())]).await;
    let conflicts = tokio::join!(count_up(&one, counter, 60), count_up(&two, counter, 60));
    let found = get(&one, counter).await.unwrap();
    assert_eq!(found.parts[0].1, 120u64.to_be_bytes().to_vec());
    assert_eq!(head(&two, P0).await.position.seq, first.position.seq + 120, "conflicts do not move `seq`");
    let told = one.stats().conflicts + two.stats().conflicts;
    assert_eq!(told, (conflicts.0 + conflicts.1) as u64);
    assert!(told > 0, "the nodes never met");
}

/// A batch that was sent without checks meets a partition that has moved on, and its records have not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_write_apart_are_both_applied_though_the_head_moves() {
    let (one, two) = pair().await;
    let write_all = async |store: &PostgresStore, from: u64| {
        let mut seen = head(store, P0).await;
        for number in from..from + 60 {
            let own = key(P0, number);
            let fresh = Batch { reads: vec![(own, None)], ..batch(seen, vec![insert(own, b"x")]) };
            seen = applied(store.commit(P0, fresh).await);
        }
    };
    tokio::join!(write_all(&one, 1000), write_all(&two, 2000));
    assert_eq!(head(&one, P0).await.position.seq, 120);
    let (one, two) = (one.stats(), two.stats());
    assert_eq!(one.applied + two.applied, 120);
    assert!(one.checked + two.checked > 0, "the nodes never met");
}

#[tokio::test]
async fn a_record_that_should_be_new_and_is_there_refuses_the_commit_whole() {
    let (store, _) = pair().await;
    let there = key(P0, 1);
    let before = crate::records::apply(&store, P0, vec![insert(there, b"first")]).await;
    let lying = batch(before, vec![insert(key(P0, 2), b"x"), insert(there, b"second")]);
    let outcome = store.commit(P0, lying).await;
    assert!(matches!(outcome, Outcome::NotApplied { .. }), "{outcome:?}");
    assert_eq!(get(&store, key(P0, 2)).await, None);
    assert_eq!(get(&store, there).await.unwrap().parts[0].1, body(b"first").parts[0].1.clone().unwrap());
    assert_eq!(head(&store, P0).await, before);
}
