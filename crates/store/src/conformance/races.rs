//! Writers that get in each other's way, the clock, and what a store says of itself.

use super::probe::{P0, Probe, execution, insert, update};
use crate::{Description, Outcome, Store};
use bytes::Bytes;
use futures_util::future::join_all;
use std::pin::Pin;
use std::task::{Context, Poll};
use weft_core::record::Key;

const WRITERS: u64 = 8;
const INCREMENTS: u64 = 10;

/// Lets the other writers run, also on a store that answers at once.
struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

fn number(bytes: &Bytes) -> u64 {
    u64::from_be_bytes(bytes.as_ref().try_into().expect("the counter has eight bytes"))
}

/// Reads the counter and writes it back one higher, again and again until it was not in conflict.
async fn increment<S: Store>(probe: &Probe<S>, key: Key) -> u64 {
    let mut conflicts = 0;
    loop {
        let found = probe.get(key).await.expect("the counter is there");
        let head = probe.head(P0).await;
        Yield(false).await;
        let next = (number(&found.parts[0].1) + 1).to_be_bytes();
        let mut batch = probe.batch(P0, vec![update(key, &[], &[(0, Some(&next))])]).await;
        // What was seen before the others had their turn; `head` is from after the record, so `fast` would be a lie.
        batch.reads = vec![(key, Some(found.revision))];
        batch.expect = head;
        Yield(false).await;
        match probe.store.commit(P0, batch).await {
            Outcome::Applied { .. } => return conflicts,
            Outcome::Conflict { keys, .. } => {
                assert_eq!(keys, [key], "the counter is what they are fighting for");
                conflicts += 1;
            }
            other => panic!("a race is decided as applied or conflict, not {other:?}"),
        }
    }
}

pub(super) async fn no_increment_is_lost<S: Store>(probe: &Probe<S>) {
    let key = execution(P0, 1);
    probe.write(P0, vec![insert(key, &[], &[(0, Some(&0u64.to_be_bytes()))])]).await;
    let before = probe.head(P0).await.position.seq;
    let writers = (0..WRITERS).map(|_| async {
        let mut conflicts = 0;
        for _ in 0..INCREMENTS {
            conflicts += increment(probe, key).await;
        }
        conflicts
    });
    let conflicts: u64 = join_all(writers).await.into_iter().sum();
    let found = probe.get(key).await.expect("the counter is there");
    assert_eq!(number(&found.parts[0].1), WRITERS * INCREMENTS, "every increment that was applied counts");
    assert!(conflicts > 0, "writers that read together cannot all be first");
    let commits = probe.head(P0).await.position.seq - before;
    assert_eq!(commits, WRITERS * INCREMENTS, "conflicts do not move `seq`");
}

pub(super) async fn the_clock_does_not_go_back<S: Store>(probe: &Probe<S>) {
    let mut last = probe.store.now().await.expect("the clock of a sound store answers");
    for _ in 0..20 {
        let now = probe.store.now().await.expect("the clock of a sound store answers");
        assert!(now >= last, "the clock went back from {last:?} to {now:?}");
        last = now;
    }
}

pub(super) async fn the_description_makes_sense<S: Store>(probe: &Probe<S>) {
    let description = probe.store.describe();
    assert_eq!(description.partitions, super::PARTITIONS, "the store has the partitions it was made with");
    assert!(!description.name.is_empty() && !description.durability.acknowledged.is_empty(), "a store says what it is");
    let records = 1..=weft_core::limits::RECORDS_PER_COMMIT_MAX;
    let bytes = 1..=weft_core::limits::BYTES_PER_COMMIT_MAX;
    assert!(records.contains(&description.batch_records), "a batch is closed before it has too many records");
    assert!(bytes.contains(&description.batch_bytes), "a batch is closed before it is too heavy");
    let again = Description { vitals: description.vitals, ..probe.store.describe() };
    assert_eq!(description, again, "what a store promises does not change");
}
