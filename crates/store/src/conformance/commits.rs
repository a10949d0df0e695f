//! When a commit is applied, when it is a conflict, and what it leaves.

use super::probe::{P0, P1, Probe, delete, execution, some, update};
use crate::{Outcome, Range, Store, Target};
use bytes::Bytes;
use weft_core::CommitId;
use weft_core::change::{Batch, Head, Position};
use weft_core::record::Key;
use weft_core::schema::Value;

/// Commits a batch that must be a conflict; the answer is the keys, sorted.
async fn conflict<S: Store>(probe: &Probe<S>, batch: Batch, why: &str) -> Vec<Key> {
    let before = probe.dump(P0).await;
    let outcome = probe.store.commit(P0, batch).await;
    let Outcome::Conflict { mut keys, head } = outcome else { panic!("{why} is a conflict, not {outcome:?}") };
    assert_eq!(head, before.0, "a conflict tells the head");
    assert_eq!(probe.dump(P0).await, before, "{why} leaves no trace");
    keys.sort_unstable();
    keys
}

pub(super) async fn each_commit_moves_the_head_by_one<S: Store>(probe: &Probe<S>) {
    let mut last = Head::default();
    for n in 1..=5 {
        let mut batch = probe.batch(P0, if n % 2 == 0 { Vec::new() } else { vec![some(execution(P0, n))] }).await;
        batch.now = batch.now + if n == 3 { 0 } else { 10 };
        let expected = Head { position: last.position.next(), last: batch.id, now: batch.now };
        last = probe.apply(P0, batch).await;
        assert_eq!(last, expected, "a commit moves `seq` by one, keeps the generation, sets `now` and is the last");
        assert_eq!(probe.head(P0).await, last, "what the commit answers is what a read tells");
    }
}

pub(super) async fn a_changed_record_is_a_conflict<S: Store>(probe: &Probe<S>) {
    let key = execution(P0, 1);
    probe.write(P0, vec![some(key)]).await;
    let stale = probe.batch(P0, vec![update(key, &[], &[(0, Some(b"stale"))])]).await;
    let stale_delete = probe.batch(P0, vec![delete(key)]).await;
    probe.write(P0, vec![update(key, &[], &[(0, Some(b"other"))])]).await;
    assert_eq!(conflict(probe, stale.clone(), "a write on a changed record").await, [key]);
    assert_eq!(conflict(probe, stale_delete, "a delete of a changed record").await, [key]);
    probe.write(P0, vec![delete(key)]).await;
    assert_eq!(conflict(probe, stale, "a write on a deleted record").await, [key]);
}

pub(super) async fn only_the_differing_keys_are_named<S: Store>(probe: &Probe<S>) {
    let keys = [1, 2, 3, 4, 5].map(|n| execution(P0, n));
    probe.write(P0, keys[..4].iter().map(|key| some(*key)).collect()).await;
    let all = keys[..4].iter().map(|key| update(*key, &[], &[(0, Some(b"late"))]));
    let late = probe.batch(P0, all.chain([some(keys[4])]).collect()).await;
    probe.write(P0, vec![update(keys[1], &[], &[]), delete(keys[3]), some(keys[4])]).await;
    let named = conflict(probe, late, "a batch with three changed records").await;
    assert_eq!(named, [keys[1], keys[3], keys[4]], "changed, deleted and created records are named, no others");
}

pub(super) async fn a_record_that_should_be_absent_is_a_conflict<S: Store>(probe: &Probe<S>) {
    let key = execution(P0, 1);
    let late = probe.batch(P0, vec![some(key)]).await;
    probe.write(P0, vec![some(key)]).await;
    assert_eq!(conflict(probe, late, "an insert over a record").await, [key]);

    let mut wrong = probe.batch(P0, vec![some(execution(P0, 2))]).await;
    wrong.reads = vec![(execution(P0, 2), Some(CommitId(uuid::Uuid::from_u128(9))))];
    let named = conflict(probe, wrong, "a write on a record that should be there").await;
    assert_eq!(named, [execution(P0, 2)]);
}

pub(super) async fn a_record_that_was_only_read_is_checked<S: Store>(probe: &Probe<S>) {
    let (read, written) = (execution(P0, 1), execution(P0, 2));
    probe.write(P0, vec![some(read)]).await;
    let mut batch = probe.batch(P0, vec![some(written)]).await;
    batch.reads.push((read, probe.get(read).await.map(|found| found.revision)));
    batch.reads.push((execution(P0, 3), None));
    let late = Batch { id: probe.mint(), ..batch.clone() };
    // The position has moved, the records have not: no conflict.
    probe.write(P0, vec![some(execution(P0, 9))]).await;
    probe.apply(P0, batch).await;

    let mut late = Batch { writes: vec![some(execution(P0, 4))], ..late };
    late.reads.retain(|(key, _)| *key != written);
    probe.write(P0, vec![update(read, &[], &[])]).await;
    assert_eq!(conflict(probe, late, "a batch that relied on a changed record").await, [read]);
}

pub(super) async fn the_fast_path_needs_the_position<S: Store>(probe: &Probe<S>) {
    let key = execution(P0, 1);
    probe.write(P0, vec![some(key)]).await;
    let wrong = || vec![(key, Some(CommitId(uuid::Uuid::from_u128(9))))];

    let stale = Batch { fast: true, ..probe.batch(P0, vec![update(key, &[], &[(0, Some(b"stale"))])]).await };
    probe.write(P0, vec![update(key, &[], &[(0, Some(b"other"))])]).await;
    assert_eq!(conflict(probe, stale, "a fast batch on a changed record after the position moved").await, [key]);

    let slow = Batch { reads: wrong(), ..probe.batch(P0, vec![update(key, &[], &[(0, Some(b"slow"))])]).await };
    assert_eq!(conflict(probe, slow, "a wrong revision without the fast path").await, [key]);

    let unmoved = Batch { fast: true, ..probe.batch(P0, vec![update(key, &[], &[(0, Some(b"fast"))])]).await };
    probe.write(P0, vec![some(execution(P0, 2))]).await;
    probe.apply(P0, unmoved).await;

    let fast = probe.batch(P0, vec![update(key, &[], &[(0, Some(b"fast"))])]).await;
    probe.apply(P0, Batch { fast: true, ..fast }).await;
}

pub(super) async fn a_strict_commit_needs_the_position<S: Store>(probe: &Probe<S>) {
    let strict = Batch { strict: true, ..probe.batch(P0, vec![some(execution(P0, 1))]).await };
    let late = Batch { id: probe.mint(), ..strict.clone() };
    let late_and_fast = Batch { id: probe.mint(), fast: true, ..strict.clone() };
    probe.apply(P0, strict).await;
    probe.write(P0, vec![delete(execution(P0, 1))]).await;
    conflict(probe, late, "a strict batch after the position moved").await;
    conflict(probe, late_and_fast, "a strict and fast batch after the position moved").await;
    let again = Batch { strict: true, fast: true, ..probe.batch(P0, vec![some(execution(P0, 1))]).await };
    probe.apply(P0, again).await;
}

pub(super) async fn time_does_not_go_back<S: Store>(probe: &Probe<S>) {
    let mut batch = probe.batch(P0, vec![some(execution(P0, 1))]).await;
    batch.now = batch.now + 1_000_000;
    let ahead = probe.apply(P0, batch).await.now;
    for fast in [false, true] {
        let batch = probe.batch(P0, vec![some(execution(P0, 2))]).await;
        let back = Batch { now: ahead - 1, fast, ..batch };
        let named = conflict(probe, back, "a batch from before the partition's time").await;
        assert_eq!(named, [], "no record is to blame for the time");
    }
    let same = probe.batch(P0, vec![some(execution(P0, 2))]).await;
    assert_eq!(same.now, ahead, "the time of a commit stays with the partition");
    probe.apply(P0, same).await;
    let other = probe.batch(P1, vec![some(execution(P1, 2))]).await;
    assert!(other.now < ahead, "each partition has its own time");
}

pub(super) async fn what_the_store_does_not_have_is_lost<S: Store>(probe: &Probe<S>) {
    probe.write(P0, vec![some(execution(P0, 1))]).await;
    let early = probe.head(P0).await;
    probe.write(P0, vec![some(execution(P0, 2))]).await;
    let barred = probe.mint();
    probe.store.resolve(P0, barred).await.expect("resolve succeeds");
    let head = probe.head(P0).await;
    let Position { generation, seq } = head.position;
    for (expect, why) in [
        (Head { position: head.position.next(), ..head }, "a batch from beyond the head"),
        (Head { position: Position { generation: generation + 1, seq }, ..head }, "a batch of a later generation"),
        (Head { last: probe.mint(), ..head }, "a batch on another history of the same length"),
        (Head { last: barred, ..head }, "a batch on a commit that was barred"),
        (Head { last: probe.mint(), ..early }, "a batch on a commit that is not in the history"),
    ] {
        for (fast, strict) in [(false, false), (true, false), (false, true), (true, true)] {
            let before = probe.dump(P0).await;
            let batch = Batch { expect, fast, strict, ..probe.batch(P0, vec![some(execution(P0, 3))]).await };
            let outcome = probe.store.commit(P0, batch).await;
            let Outcome::Lost { head: told } = outcome else { panic!("{why} shows a loss, not {outcome:?}") };
            assert_eq!(told, head, "whoever learns of a loss is told the head");
            assert_eq!(probe.dump(P0).await, before, "{why} leaves no trace");
        }
    }
    let behind = Batch { expect: early, ..probe.batch(P0, vec![some(execution(P0, 3))]).await };
    probe.apply(P0, behind).await;
}

pub(super) async fn a_raise_takes_the_position_it_names<S: Store>(probe: &Probe<S>) {
    probe.write(P0, vec![some(execution(P0, 1))]).await;
    let late = probe.batch(P0, vec![some(execution(P0, 3))]).await;
    let raised = Position { generation: 1, seq: 1 << 20 };
    let mut batch = probe.batch(P0, vec![some(execution(P0, 2))]).await;
    (batch.raise, batch.strict) = (Some(raised), true);
    let id = batch.id;
    assert_eq!(probe.apply(P0, batch).await.position, raised, "the commit is where it was raised to");
    assert_eq!(probe.head(P0).await.position, raised);
    let found = probe.store.resolve(P0, id).await.expect("resolve succeeds");
    assert_eq!(found, crate::Resolution::Applied { position: raised }, "and is found there");
    assert_eq!(conflict(probe, late, "a batch of the generation before").await, []);

    for standing in [raised, Position { generation: 0, seq: 2 << 20 }] {
        let mut batch = probe.batch(P0, vec![some(execution(P0, 4))]).await;
        batch.raise = Some(standing);
        let outcome = probe.store.commit(P0, batch).await;
        assert!(matches!(outcome, Outcome::NotApplied { .. }), "a raise leads further, so {standing:?} is refused");
    }
    let next = probe.batch(P0, vec![some(execution(P0, 5))]).await;
    assert_eq!(probe.apply(P0, next).await.position, raised.next(), "commits go on from there");
    let feed = probe.list(P0, Target::Feed).await;
    let seqs: Vec<_> = feed.iter().map(|entry| entry.place.columns[0].clone()).collect();
    assert_eq!(seqs, [1, 1 << 20, (1 << 20) + 1].map(Value::Int), "and so does the feed");
}

pub(super) async fn a_refused_commit_leaves_no_trace<S: Store>(probe: &Probe<S>) {
    let (key, other) = (execution(P0, 1), execution(P0, 2));
    probe.write(P0, vec![some(key), some(other)]).await;
    let mut late = probe.batch(P0, vec![update(key, &[], &[(0, None)]), delete(other), some(execution(P0, 3))]).await;
    late.feed = Bytes::from_static(b"events");
    late.now = late.now + 5;
    late.due_drops = vec![weft_core::change::DueEntry::new(super::probe::due(weft_core::schema::Timer::Lease, 1), key)];
    probe.write(P0, vec![update(other, &[], &[])]).await;
    let id = late.id;
    assert_eq!(conflict(probe, late, "a batch of which one record differs").await, [other]);
    let resolution = probe.store.resolve(P0, id).await.expect("resolve succeeds");
    assert_eq!(resolution, crate::Resolution::NotApplied, "a conflict is not an applied commit");
}

pub(super) async fn every_commit_is_in_the_feed<S: Store>(probe: &Probe<S>) {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let events: [&[u8]; 5] = [b"one", b"", &all_bytes, b"", b"last"];
    let mut expected = Vec::new();
    for (n, events) in events.iter().enumerate() {
        let mut batch = probe.batch(P0, vec![some(execution(P0, n as u128))]).await;
        batch.feed = Bytes::copy_from_slice(events);
        let id = batch.id;
        let head = probe.apply(P0, batch).await;
        expected.push((head.position.seq, id, events.to_vec()));
    }
    let entries = probe.list(P0, Target::Feed).await;
    let found: Vec<_> = entries.iter().map(feed_entry).collect();
    assert_eq!(found, expected, "the feed has one entry per commit, in order, with or without events");

    let seq = |at: usize| Value::Int(expected[at].0 as i64);
    let range = Range { after: Some(entries[1].place.clone()), until: Some(seq(3)), prefix: Vec::new() };
    let page = probe.page(P0, Target::Feed, range, 10).await;
    let places: Vec<_> = page.entries.iter().map(|entry| entry.place.clone()).collect();
    assert_eq!(places, [entries[2].place.clone(), entries[3].place.clone()], "the feed goes on from a position");
    assert!(page.entries.iter().all(|entry| entry.found.is_none()), "without events unless asked for");
    assert!(probe.list(P1, Target::Feed).await.is_empty(), "each partition has a feed of its own");
}

fn feed_entry(entry: &crate::Entry) -> (u64, CommitId, Vec<u8>) {
    let [Value::Int(seq)] = entry.place.columns[..] else { panic!("the column of the feed is `seq`") };
    let id = uuid::Uuid::from_slice(&entry.place.key).expect("the key of the feed is the commit id");
    let found = entry.found.as_ref().expect("parts were asked for");
    assert_eq!(found.revision, CommitId(id), "the revision of a feed entry is its commit");
    let events = match &found.parts[..] {
        [] => Vec::new(),
        [(0, events)] if !events.is_empty() => events.to_vec(),
        other => panic!("a feed entry has its events in part 0 or no part at all, not {other:?}"),
    };
    (seq as u64, CommitId(id), events)
}
