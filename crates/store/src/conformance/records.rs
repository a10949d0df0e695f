//! Reading and writing records: parts, kinds, partitions, bytes.

use super::probe::{P0, P1, P2, Probe, delete, execution, insert, some, update};
use crate::{Found, Store};
use bytes::Bytes;
use uuid::Uuid;
use weft_core::change::Head;
use weft_core::record::Key;
use weft_core::schema::PartMask;

fn parts(found: &[(u8, &[u8])]) -> Vec<(u8, Bytes)> {
    found.iter().map(|(part, bytes)| (*part, Bytes::copy_from_slice(bytes))).collect()
}

pub(super) async fn what_is_absent_reads_as_none<S: Store>(probe: &Probe<S>) {
    let read = probe.store.read(P0, Vec::new()).await.expect("a read without keys succeeds");
    assert_eq!(read.head, Head::default(), "an empty partition stands at the very beginning");
    assert!(read.found.is_empty(), "no keys, nothing found");

    let (here, gone) = (execution(P0, 1), execution(P0, 2));
    let revision = probe.write(P0, vec![some(here)]).await;
    let keys = [gone, here, gone, here].map(|key| (key, PartMask::ALL)).to_vec();
    let read = probe.store.read(P0, keys).await.expect("a read of absent and present records succeeds");
    let present = Some(Found { revision, parts: parts(&[(0, b"some")]) });
    assert_eq!(read.found, [None, present.clone(), None, present], "slots are in the order of the keys");
    assert_eq!(read.head, probe.head(P0).await, "a read tells the head");
}

pub(super) async fn only_the_parts_asked_for_are_read<S: Store>(probe: &Probe<S>) {
    let key = execution(P0, 1);
    let revision = probe.write(P0, vec![insert(key, &[], &[(0, Some(b"a")), (2, Some(b"c")), (7, Some(b"h"))])]).await;
    let cases = [
        (PartMask::NONE, parts(&[])),
        (PartMask::of(0), parts(&[(0, b"a")])),
        (PartMask::of(2).with(PartMask::of(7)), parts(&[(2, b"c"), (7, b"h")])),
        (PartMask::of(1), parts(&[])),
        (PartMask::ALL, parts(&[(0, b"a"), (2, b"c"), (7, b"h")])),
    ];
    for (mask, expected) in cases {
        let found = probe.get_parts(key, mask).await;
        assert_eq!(found, Some(Found { revision, parts: expected }), "parts {mask:?} in order of their number");
    }
}

pub(super) async fn parts_change_one_by_one<S: Store>(probe: &Probe<S>) {
    let key = execution(P0, 1);
    probe.write(P0, vec![insert(key, &[], &[(0, Some(b"a")), (1, Some(b"b")), (2, None)])]).await;
    let revision = probe.write(P0, vec![update(key, &[], &[(1, Some(b"B")), (4, Some(b"e"))])]).await;
    let expected = parts(&[(0, b"a"), (1, b"B"), (4, b"e")]);
    let found = probe.get(key).await;
    assert_eq!(found, Some(Found { revision, parts: expected }), "an update leaves the parts it does not name");

    let revision = probe.write(P0, vec![update(key, &[], &[(0, None), (5, None)])]).await;
    let expected = parts(&[(1, b"B"), (4, b"e")]);
    assert_eq!(probe.get(key).await, Some(Found { revision, parts: expected }), "a part that is none is removed");

    let revision = probe.write(P0, vec![update(key, &[], &[])]).await;
    let expected = parts(&[(1, b"B"), (4, b"e")]);
    assert_eq!(probe.get(key).await, Some(Found { revision, parts: expected }), "the revision changes with any write");
}

pub(super) async fn an_empty_part_is_not_an_absent_one<S: Store>(probe: &Probe<S>) {
    let key = execution(P0, 1);
    let revision = probe.write(P0, vec![insert(key, &[], &[(0, Some(b"")), (1, None), (4, Some(b"x"))])]).await;
    let expected = parts(&[(0, b""), (4, b"x")]);
    assert_eq!(probe.get(key).await, Some(Found { revision, parts: expected }), "an empty part is there");
    let revision = probe.write(P0, vec![update(key, &[], &[(4, Some(b"")), (0, None)])]).await;
    let expected = parts(&[(4, b"")]);
    assert_eq!(probe.get(key).await, Some(Found { revision, parts: expected }), "emptied is not removed");
}

pub(super) async fn a_deleted_record_leaves_nothing_behind<S: Store>(probe: &Probe<S>) {
    let (key, other) = (execution(P0, 1), execution(P0, 2));
    probe.write(P0, vec![insert(key, &[], &[(0, Some(b"a")), (4, Some(b"input"))]), some(other)]).await;
    probe.write(P0, vec![delete(key), delete(execution(P0, 3))]).await;
    assert_eq!(probe.get(key).await, None, "a deleted record is absent, and so is one that never was");
    assert!(probe.get(other).await.is_some(), "its neighbour stays");

    let revision = probe.write(P0, vec![insert(key, &[], &[(1, Some(b"b"))])]).await;
    let expected = parts(&[(1, b"b")]);
    assert_eq!(probe.get(key).await, Some(Found { revision, parts: expected }), "a new record has no old parts");
}

pub(super) async fn kinds_do_not_mix<S: Store>(probe: &Probe<S>) {
    // An execution and a dead letter may have the same bytes as their key.
    let uuid = Uuid::from_u128(77);
    let (run, letter) = (execution(P0, 77), Key::DeadLetter(P0, uuid));
    let first = probe.write(P0, vec![insert(run, &[], &[(0, Some(b"run"))])]).await;
    assert_eq!(probe.get(letter).await, None, "a record of one kind does not answer for another kind");
    let second = probe.write(P0, vec![insert(letter, &[], &[(0, Some(b"letter"))])]).await;
    let expected = Found { revision: first, parts: parts(&[(0, b"run")]) };
    assert_eq!(probe.get(run).await, Some(expected), "the same bytes under two kinds are two records");
    probe.write(P0, vec![delete(run)]).await;
    let expected = Found { revision: second, parts: parts(&[(0, b"letter")]) };
    assert_eq!(probe.get(letter).await, Some(expected), "deleting one kind leaves the other");
}

pub(super) async fn partitions_do_not_mix<S: Store>(probe: &Probe<S>) {
    let write = |partition| insert(execution(partition, 1), &[], &[(0, Some(b"x"))]);
    probe.write(P0, vec![write(P0)]).await;
    assert_eq!(probe.get(execution(P1, 1)).await, None, "the same bytes in another partition name another record");
    assert_eq!(probe.head(P1).await, Head::default(), "a commit moves the head of its own partition only");
    assert!(super::dump(&probe.store, P1).await.is_empty(), "a commit shows in its own partition only");

    probe.write(P2, vec![write(P2)]).await;
    probe.write(P0, vec![delete(execution(P0, 1))]).await;
    assert!(probe.get(execution(P2, 1)).await.is_some(), "a delete reaches its own partition only");
}

pub(super) async fn every_byte_survives<S: Store>(probe: &Probe<S>) {
    let bytes: Vec<u8> = (0..=255).collect();
    let digests = bytes.iter().map(|byte| [*byte; 32]);
    let mixed: [u8; 32] = std::array::from_fn(|at| [0, 0xff, b'{', b'}', b':', b'\'', b'%', b'\\'][at % 8]);
    let keys: Vec<Key> = digests.chain([mixed]).map(|digest| Key::Dedup(P0, digest)).collect();
    let writes = keys.iter().map(|key| insert(*key, &[], &[(0, Some(&bytes))]));
    let revision = probe.write(P0, writes.collect()).await;
    for key in keys {
        let expected = Found { revision, parts: parts(&[(0, &bytes)]) };
        assert_eq!(probe.get(key).await, Some(expected), "{key:?} holds every byte");
    }
}
