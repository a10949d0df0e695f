//! The due index: timers come and go with their record, and can be dropped without it.

use super::probe::{P0, P1, Probe, delete, due, execution, some, update};
use crate::{Entry, Range, Scan, Store, Target};
use bytes::Bytes;
use weft_core::Time;
use weft_core::change::{DueEntry, Write};
use weft_core::record::Key;
use weft_core::schema::{Due, Kind, Timer, Value};

fn armed(key: Key, add: &[Due], remove: &[Due]) -> Write {
    Write { due_add: add.to_vec(), due_remove: remove.to_vec(), ..update(key, &[], &[]) }
}

fn born(key: Key, add: &[Due]) -> Write {
    Write { due_add: add.to_vec(), ..some(key) }
}

async fn timers<S: Store>(probe: &Probe<S>) -> Vec<(i64, i64, Option<Key>)> {
    probe.list(P0, Target::Due).await.iter().map(timer).collect()
}

/// (timer, time, record)
fn timer(entry: &Entry) -> (i64, i64, Option<Key>) {
    let [Value::Int(timer), Value::Int(at), Value::Int(kind)] = entry.place.columns[..] else {
        panic!("an entry of the due index has three integers, not {:?}", entry.place.columns);
    };
    assert_eq!(kind, i64::from(entry.kind), "the last column is the kind");
    (timer, at, entry.key())
}

fn expected(timers: &[(Timer, i64, Key)]) -> Vec<(i64, i64, Option<Key>)> {
    timers.iter().map(|(timer, at, key)| (*timer as i64, *at, Some(*key))).collect()
}

pub(super) async fn timers_are_added_moved_and_removed<S: Store>(probe: &Probe<S>) {
    let (a, b) = (execution(P0, 1), execution(P0, 2));
    let (lease, deadline) = (due(Timer::Lease, 50), due(Timer::Deadline, 20));
    probe.write(P0, vec![born(b, &[lease]), born(a, &[lease, deadline])]).await;
    let all = expected(&[(Timer::Lease, 50, a), (Timer::Lease, 50, b), (Timer::Deadline, 20, a)]);
    assert_eq!(timers(probe).await, all, "timers are in order of timer, time, kind, key");

    probe.write(P0, vec![armed(a, &[due(Timer::Lease, 70)], &[lease])]).await;
    let all = expected(&[(Timer::Lease, 50, b), (Timer::Lease, 70, a), (Timer::Deadline, 20, a)]);
    assert_eq!(timers(probe).await, all, "a renewed lease has moved, its record's other timer has not");

    probe.write(P0, vec![armed(a, &[], &[])]).await;
    assert_eq!(timers(probe).await, all, "an update without timers leaves them");

    probe.write(P0, vec![armed(a, &[], &[deadline]), armed(b, &[], &[due(Timer::Lease, 51)])]).await;
    let all = expected(&[(Timer::Lease, 50, b), (Timer::Lease, 70, a)]);
    assert_eq!(timers(probe).await, all, "one timer is gone; removing one that is not there does nothing");

    let gone = Write { due_remove: vec![due(Timer::Lease, 70)], ..delete(a) };
    probe.write(P0, vec![gone]).await;
    assert_eq!(timers(probe).await, expected(&[(Timer::Lease, 50, b)]), "a deleted record takes its timers along");
    assert!(probe.list(P1, Target::Due).await.is_empty(), "other partitions have no part in this");
}

pub(super) async fn timers_are_found_by_kind_and_time<S: Store>(probe: &Probe<S>) {
    let writes = (1..=6).map(|n| {
        let key = execution(P0, n);
        born(key, &[due(Timer::Lease, n as u64 * 10), due(Timer::Retention, 100 - n as u64)])
    });
    probe.write(P0, writes.collect()).await;
    let of = |timer: Timer, until: i64| Range {
        prefix: vec![Value::Int(timer as i64)],
        until: Some(Value::Int(until)),
        after: None,
    };
    let page = probe.page(P0, Target::Due, of(Timer::Lease, 30), 10).await;
    let at: Vec<i64> = page.entries.iter().map(|entry| timer(entry).1).collect();
    assert_eq!((at, page.more), (vec![10, 20, 30], false), "due at 30 is everything up to and with 30");

    // One look for the earliest timer of each kind.
    let ranges = Timer::ALL.map(|timer| of(timer, i64::MAX)).to_vec();
    let scan = Scan { target: Target::Due, ranges, limit: 1, descending: false, parts: None };
    let pages = probe.store.scan(Some(P0), scan).await.expect("a scan of the due index succeeds");
    let heads: Vec<_> = pages.iter().map(|page| page.entries.first().map(|entry| timer(entry).1)).collect();
    let wanted = Timer::ALL.map(|timer| match timer {
        Timer::Lease => Some(10),
        Timer::Retention => Some(94),
        _ => None,
    });
    assert_eq!(heads, wanted, "the first timer of each kind");
    assert!(pages.iter().all(|page| page.more != page.entries.is_empty()), "each kind has its own end");

    let last = Scan {
        target: Target::Due,
        ranges: vec![Range { prefix: vec![Value::Int(Timer::Lease as i64)], ..Range::default() }],
        limit: 2,
        descending: true,
        parts: None,
    };
    let pages = probe.store.scan(Some(P0), last).await.expect("a scan of the due index succeeds");
    let at: Vec<i64> = pages[0].entries.iter().map(|entry| timer(entry).1).collect();
    assert_eq!(at, [60, 50], "the latest leases come first when asked that way");
}

pub(super) async fn drops_need_no_record<S: Store>(probe: &Probe<S>) {
    let (a, b) = (execution(P0, 1), execution(P0, 2));
    let lease = due(Timer::Lease, 50);
    probe.write(P0, vec![born(a, &[lease]), born(b, &[lease])]).await;
    // The record goes and its timer is forgotten: an entry that names nothing.
    probe.write(P0, vec![delete(a)]).await;
    assert_eq!(timers(probe).await.len(), 2, "timers go when told, not with their record");

    let raw = |timer: u8, kind: u8, key: &[u8]| DueEntry {
        at: Time::from_ms(50),
        timer,
        kind,
        key: Bytes::copy_from_slice(key),
    };
    let mut batch = probe.batch(P0, Vec::new()).await;
    batch.due_drops = vec![
        DueEntry::new(lease, a),
        DueEntry::new(due(Timer::Lease, 51), b),
        DueEntry::new(due(Timer::Until, 50), b),
        raw(Timer::Lease as u8, Kind::Execution as u8, b"\0\xff no key"),
        raw(Timer::Lease as u8, Kind::Execution as u8, b""),
        raw(0, 0, b"?"),
        raw(255, 255, &[7; 40]),
    ];
    probe.apply(P0, batch).await;
    let left = expected(&[(Timer::Lease, 50, b)]);
    assert_eq!(timers(probe).await, left, "exactly the named entry is dropped; what names nothing does nothing");
    assert!(probe.get(b).await.is_some(), "a drop touches no record");

    let revision = probe.get(b).await.map(|found| found.revision);
    let mut batch = probe.batch(P0, Vec::new()).await;
    batch.due_drops = vec![DueEntry::new(lease, b)];
    probe.apply(P0, batch).await;
    assert_eq!(timers(probe).await, [], "the entry of a living record can be dropped");
    assert_eq!(probe.get(b).await.map(|found| found.revision), revision, "its record keeps its revision");
}

pub(super) async fn a_timer_dropped_and_armed_in_one_commit_stays<S: Store>(probe: &Probe<S>) {
    let key = execution(P0, 1);
    let lease = due(Timer::Lease, 50);
    probe.write(P0, vec![born(key, &[lease])]).await;
    let mut batch = probe.batch(P0, vec![armed(key, &[lease], &[])]).await;
    batch.due_drops = vec![DueEntry::new(lease, key)];
    probe.apply(P0, batch).await;
    let stays = expected(&[(Timer::Lease, 50, key)]);
    assert_eq!(timers(probe).await, stays, "drops come before the timers that a commit arms");
    probe.write(P0, vec![armed(key, &[lease], &[lease])]).await;
    assert_eq!(timers(probe).await, stays, "removals come before the timers that a record arms");
}
