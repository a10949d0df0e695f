//! Walking in pages: limits, places to go on from, ends, several ranges, several partitions.

use super::probe::{P0, P1, P2, Probe, execution, insert, some, text};
use crate::{Entry, Place, Range, Scan, Store, Target};
use bytes::Bytes;
use uuid::Uuid;
use weft_core::change::Write;
use weft_core::record::Key;
use weft_core::schema::{IndexId, Kind, PartMask, Value, execution as facet};
use weft_core::{ExecutionId, PartitionId};

const BY_STATE: Target = Target::Index(IndexId::ByState);

fn made_at(partition: PartitionId, number: u128, state: &str, created_at: i64) -> Write {
    let facets = [(facet::LISTED, text(state)), (facet::CREATED_AT, Value::Int(created_at))];
    insert(execution(partition, number), &facets, &[(0, Some(&number.to_be_bytes()))])
}

/// Eleven executions in two states; several share a time, so that the key has to order them.
async fn fill<S: Store>(probe: &Probe<S>) {
    let writes = (0..11).map(|n| made_at(P0, 50 - n, if n % 3 == 0 { "done" } else { "ready" }, (n as i64 / 4) - 1));
    probe.write(P0, writes.collect()).await;
}

fn numbers(entries: &[Entry]) -> Vec<u128> {
    entries.iter().map(|entry| number(&entry.place.key)).collect()
}

fn number(key: &[u8]) -> u128 {
    u128::from_be_bytes(key.try_into().expect("the key of an execution has 16 bytes"))
}

fn within(prefix: &[Value]) -> Range {
    Range { prefix: prefix.to_vec(), ..Range::default() }
}

pub(super) async fn pages_neither_skip_nor_repeat<S: Store>(probe: &Probe<S>) {
    fill(probe).await;
    let prefixes: [&[Value]; 4] =
        [&[], &[text("t")], &[text("t"), text("ready")], &[text("t"), text("ready"), Value::Int(0)]];
    for (prefix, count) in prefixes.into_iter().zip([11, 11, 7, 3]) {
        for target in [BY_STATE, Target::Records(Kind::Execution)] {
            if matches!(target, Target::Records(_)) && !prefix.is_empty() {
                continue;
            }
            let whole = super::walk(&probe.store, Some(P0), target, within(prefix), 1000, false).await;
            assert_eq!(whole.len(), count, "{target:?} under {prefix:?}");
            assert!(whole.is_sorted_by(|a, b| a.place < b.place), "{target:?} is in order, no entry twice");
            let backwards: Vec<Entry> = whole.iter().rev().cloned().collect();
            for limit in 1..=count + 1 {
                let paged = super::walk(&probe.store, Some(P0), target, within(prefix), limit, false).await;
                assert_eq!(paged, whole, "{target:?} under {prefix:?} in pages of {limit}");
                let paged = super::walk(&probe.store, Some(P0), target, within(prefix), limit, true).await;
                assert_eq!(paged, backwards, "{target:?} under {prefix:?} downwards in pages of {limit}");
            }
        }
    }
}

pub(super) async fn pages_end_where_they_should<S: Store>(probe: &Probe<S>) {
    let page = probe.page(P0, BY_STATE, Range::default(), 5).await;
    assert!(page.entries.is_empty() && !page.more, "an empty index has an empty page and no more");
    fill(probe).await;
    for (limit, more) in [(1, true), (10, true), (11, false), (12, false)] {
        let page = probe.page(P0, BY_STATE, Range::default(), limit).await;
        assert_eq!(page.entries.len(), limit.min(11), "a page of {limit} is filled");
        assert_eq!(page.more, more, "a page of {limit} out of 11 knows whether there is more");
    }
    let all = probe.list(P0, BY_STATE).await;
    let range = Range { after: all.last().map(|entry| entry.place.clone()), ..Range::default() };
    let page = probe.page(P0, BY_STATE, range, 5).await;
    assert!(page.entries.is_empty() && !page.more, "beyond the last entry is nothing");

    // `after` need not name an entry, and it works together with `until`.
    let place = Place { columns: vec![text("t"), text("ready"), Value::Int(-1)], key: Bytes::from_static(&[0xff; 16]) };
    let range = Range { prefix: vec![text("t"), text("ready")], after: Some(place), until: Some(Value::Int(0)) };
    let page = probe.page(P0, BY_STATE, range.clone(), 2).await;
    assert_eq!((numbers(&page.entries), page.more), (vec![43, 45], true), "from a gap up to a value, cut");
    let page = probe.page(P0, BY_STATE, range, 3).await;
    assert_eq!((numbers(&page.entries), page.more), (vec![43, 45, 46], false), "entries above `until` are not more");
}

pub(super) async fn a_prefix_is_whole_columns<S: Store>(probe: &Probe<S>) {
    let states = ["a", "a\u{1}", "aa", "ab", "b"];
    let writes = states.iter().zip(1..).map(|(state, n)| made_at(P0, n, state, 0));
    probe.write(P0, writes.collect()).await;
    for descending in [false, true] {
        let range = within(&[text("t"), text("a")]);
        let found = super::walk(&probe.store, Some(P0), BY_STATE, range, 10, descending).await;
        assert_eq!(numbers(&found), [1], "`a` does not stand for what begins with it, descending: {descending}");
    }
    let range = within(&[text("t"), text("")]);
    assert!(probe.page(P0, BY_STATE, range, 10).await.entries.is_empty(), "an empty text is a value, not a wildcard");
}

pub(super) async fn ranges_of_one_call_are_independent<S: Store>(probe: &Probe<S>) {
    fill(probe).await;
    let range = |state: &str| within(&[text("t"), text(state)]);
    for descending in [false, true] {
        let ranges = vec![range("ready"), range("none"), range("done"), range("ready")];
        let scan = Scan { target: BY_STATE, ranges, limit: 4, descending, parts: None };
        let pages = probe.store.scan(Some(P0), scan).await.expect("a scan of several ranges succeeds");
        let shape: Vec<_> = pages.iter().map(|page| (page.entries.len(), page.more)).collect();
        assert_eq!(shape, [(4, true), (0, false), (4, false), (4, true)], "each range has its own limit and end");
        assert_eq!(pages[0], pages[3], "the same range twice gives the same page twice");
    }
    let scan = Scan { target: BY_STATE, ranges: Vec::new(), limit: 4, descending: false, parts: None };
    assert!(probe.store.scan(Some(P0), scan).await.expect("a scan succeeds").is_empty(), "no range, no page");
}

pub(super) async fn parts_come_with_a_scan_if_asked_for<S: Store>(probe: &Probe<S>) {
    let key = execution(P0, 1);
    let write = insert(key, &[], &[(0, Some(b"hot")), (4, Some(b"input"))]);
    let revision = probe.write(P0, vec![write]).await;
    for target in [Target::Index(IndexId::ByCreated), Target::Records(Kind::Execution)] {
        for parts in [None, Some(PartMask::NONE), Some(PartMask::of(4)), Some(PartMask::ALL)] {
            let scan = Scan { target, ranges: vec![Range::default()], limit: 5, descending: false, parts };
            let pages = probe.store.scan(Some(P0), scan).await.expect("a scan with parts succeeds");
            let entry = &pages[0].entries[0];
            assert_eq!(entry.key(), Some(key), "an entry of {target:?} names its record");
            let expected = match parts {
                Some(mask) => probe.get_parts(key, mask).await,
                None => None,
            };
            assert_eq!(entry.found, expected, "{target:?} brings the parts {parts:?}, as a read would");
            assert!(entry.found.as_ref().is_none_or(|found| found.revision == revision), "with the revision");
        }
    }
}

pub(super) async fn records_are_listed_by_key<S: Store>(probe: &Probe<S>) {
    let owner = |n| ExecutionId::new(P0, Uuid::from_u128(n));
    let order = [(1, 0), (1, 1), (1, 255), (1, 256), (1, u32::MAX), (2, 0), (2, 3)];
    let writes = order.iter().rev().map(|(id, index)| some(Key::Attempt(owner(*id), *index)));
    probe.write(P0, writes.chain([some(execution(P0, 1))]).collect()).await;
    let expected: Vec<_> = order.iter().map(|(id, index)| Some(Key::Attempt(owner(*id), *index))).collect();
    for target in [Target::Records(Kind::Attempt), Target::Index(IndexId::Attempts)] {
        let found: Vec<_> = probe.list(P0, target).await.iter().map(Entry::key).collect();
        assert_eq!(found, expected, "{target:?} is in order of the key's bytes");

        // The id of an execution alone stands right before its first attempt.
        let before = Place { columns: Vec::new(), key: Bytes::copy_from_slice(owner(2).uuid().as_bytes()) };
        let range = Range { after: Some(before), ..Range::default() };
        let found: Vec<_> = probe.page(P0, target, range, 1).await.entries.iter().map(Entry::key).collect();
        assert_eq!(found, [Some(Key::Attempt(owner(2), 0))], "{target:?} goes on from a place that is no record");
    }
    assert_eq!(probe.list(P0, Target::Records(Kind::Execution)).await.len(), 1, "each kind has a list of its own");
    assert!(probe.list(P0, Target::Records(Kind::Dedup)).await.is_empty(), "a kind without records is empty");
}

pub(super) async fn all_partitions_are_merged<S: Store>(probe: &Probe<S>) {
    for (partition, numbers) in [(P0, [1, 6, 8]), (P1, [2, 3, 9]), (P2, [4, 5, 7])] {
        let writes = numbers.iter().map(|n| made_at(partition, *n, "s", *n as i64 / 2));
        probe.write(partition, writes.collect()).await;
    }
    for limit in 1..=10 {
        let found = super::walk(&probe.store, None, BY_STATE, Range::default(), limit, false).await;
        assert_eq!(numbers(&found), [1, 2, 3, 4, 5, 6, 7, 8, 9], "all partitions in one order, in pages of {limit}");
        let found = super::walk(&probe.store, None, BY_STATE, Range::default(), limit, true).await;
        assert_eq!(numbers(&found), [9, 8, 7, 6, 5, 4, 3, 2, 1], "all partitions downwards, in pages of {limit}");
    }
    let found = super::walk(&probe.store, None, BY_STATE, Range::default(), 20, false).await;
    let homes: Vec<u16> = found.iter().map(|entry| entry.partition.0).collect();
    assert_eq!(homes, [0, 1, 1, 2, 2, 0, 2, 0, 1], "each entry says where it is");
    assert!(found.iter().all(|entry| entry.found.is_some()), "parts are found in the entry's own partition");

    let state = |name: &str| within(&[text("t"), text(name)]);
    let ranges = vec![state("none"), state("s")];
    let scan = Scan { target: BY_STATE, ranges, limit: 4, descending: false, parts: None };
    let pages = probe.store.scan(None, scan).await.expect("a scan of all partitions succeeds");
    let shape: Vec<_> = pages.iter().map(|page| (numbers(&page.entries), page.more)).collect();
    assert_eq!(shape, [(vec![], false), (vec![1, 2, 3, 4], true)], "several ranges over all partitions");
}
