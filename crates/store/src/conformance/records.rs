//! Reading and writing records: parts, kinds, partitions, bytes.

use super::probe::{P0, P1, P2, Probe, delete, execution, insert, key_of, some, update};
use crate::{Found, Store};
use bytes::Bytes;
use weft_core::change::Head;
use weft_core::record::Key;
use weft_core::schema::{Kind, PartMask};

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

pub(super) async fn every_part_of_every_kind_is_kept<S: Store>(probe: &Probe<S>) {
    let text = |kind: Kind, part: u8| format!("{} {part}", kind.table().name).into_bytes();
    for (kind, key) in Kind::ALL.map(|kind| (kind, key_of(kind, 5))) {
        let numbers = 0..kind.table().parts.len() as u8;
        let written: Vec<(u8, Vec<u8>)> = numbers.map(|part| (part, text(kind, part))).collect();
        let body: Vec<(u8, Option<&[u8]>)> = written.iter().map(|(part, bytes)| (*part, Some(&bytes[..]))).collect();
        let revision = probe.write(P0, vec![insert(key, &[], &body)]).await;
        let all: Vec<(u8, &[u8])> = written.iter().map(|(part, bytes)| (*part, &bytes[..])).collect();
        assert_eq!(probe.get(key).await, Some(Found { revision, parts: parts(&all) }), "all parts of {key:?}");
        for one in &all {
            let found = probe.get_parts(key, PartMask::of(one.0)).await;
            assert_eq!(found, Some(Found { revision, parts: parts(&[*one]) }), "part {} of {key:?}", one.0);
        }
        let last = all.len() as u8 - 1;
        let revision = probe.write(P0, vec![update(key, &[], &[(last, None)])]).await;
        let rest = parts(&all[..all.len() - 1]);
        assert_eq!(probe.get(key).await, Some(Found { revision, parts: rest }), "{key:?} without part {last}");
    }
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
    // These have the same bytes as their keys: the id of an execution is that of what is left of it, and an edge is
    // numbered like an attempt.
    let alike: [&[Kind]; 2] = [
        &[Kind::Execution, Kind::DeadLetter, Kind::Node, Kind::Flow, Kind::Tombstone],
        &[Kind::Attempt, Kind::Step, Kind::Edge],
    ];
    for kinds in alike {
        let keys: Vec<Key> = kinds.iter().map(|kind| key_of(*kind, 77)).collect();
        let bytes = |key: &Key| key.to_bytes().as_slice().to_vec();
        assert!(keys.iter().all(|key| bytes(key) == bytes(&keys[0])), "the case is about keys of the same bytes");
        let mut expected = Vec::new();
        for key in &keys {
            assert_eq!(probe.get(*key).await, None, "a record of one kind does not answer for another kind");
            let name = key.kind().table().name.as_bytes();
            let revision = probe.write(P0, vec![insert(*key, &[], &[(0, Some(name))])]).await;
            expected.push(Found { revision, parts: parts(&[(0, name)]) });
        }
        for (at, key) in keys.iter().enumerate() {
            let found = probe.get(*key).await;
            assert_eq!(found.as_ref(), Some(&expected[at]), "the same bytes under two kinds are two records");
            probe.write(P0, vec![delete(*key)]).await;
            assert_eq!(probe.get(*key).await, None, "{key:?} is gone, whatever there is of other kinds");
        }
    }
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
