//! Moving a store through a file.

#![allow(clippy::unwrap_used)]

use crate::kit::calls::{cancel, complete, fail, fence};
use crate::kit::{PARTITION, World};
use crate::{commit_id, memory};
use bytes::Bytes;
use futures_util::FutureExt;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Cursor, Write as _};
use weft_core::change::{Batch, Body, Change, Position, Write};
use weft_core::command::{Command, Purge, When};
use weft_core::flow::member_id;
use weft_core::record::dedup::{self, What};
use weft_core::record::execution::Checkpoint;
use weft_core::record::{Dedup, Key, Record};
use weft_core::schema::{Due, Kind, PartMask};
use weft_core::{ExecutionId, PartitionId, Time};
use weft_store::memory::Dump;
use weft_store::transfer::{self, Error, Step, Summary};
use weft_store::{MemoryStore, Outcome, Store};

const NOW: Time = Time::from_ms(1_700_000_000_000);

/// Executions in many states, with everything that belongs to them.
fn world() -> World {
    let mut world = World::new();
    world.at(NOW.ms());
    // The engine would place these in the partition of the world.
    let here = |key: &String| weft_core::digest::place("shop", key.as_bytes()) % 4 == u64::from(PARTITION.0);
    let keys = (0..).map(|number: u32| format!("key-{number}")).filter(here);
    for (number, key) in (0..40u8).zip(keys) {
        let id = world.submit(|cmd| {
            cmd.input = Some(vec![number; usize::from(number)].into());
            cmd.deadline = Some(When::InMs(3_600_000));
            cmd.idempotency_key = Some(key.clone().into());
            cmd.tags.insert("number".into(), number.to_string().into());
            cmd.start = (number % 5 == 4).then_some(When::InMs(60_000));
        });
        if number % 5 < 3 {
            let fence = fence(&world.claim(id));
            match number % 5 {
                0 => drop(world.run(complete(id, fence, Some(b"done"))).unwrap()),
                1 => drop(world.run(fail(id, fence)).unwrap()),
                _ => {}
            }
        } else if number % 5 == 3 {
            world.run(Command::Cancel(cancel(id))).unwrap();
        }
    }
    // One that has ended, and one that runs. A purged member is left of the first.
    let mut keys = (0..).map(|number: u32| format!("flow-{number}")).filter(here);
    for ends in [true, false] {
        let key = keys.next().unwrap();
        let flow = world.flow_of("a b join a>join=left b*>join@extra", |flow| {
            flow.idempotency_key = Some(key.into());
            flow.tags.insert("ends".into(), ends.to_string().into());
        });
        world.complete_member(flow, "a");
        if ends {
            world.fail_member(flow, "b");
            world.complete_member(flow, "join");
            world.run(Command::Purge(Purge { id: member_id(flow, "a"), reason: "".into() })).unwrap();
        }
    }
    world
}

/// A commit as the engine would make it, without a look at what is there.
fn batch(store: &MemoryStore, partition: PartitionId, writes: Vec<Write>) -> Batch {
    Batch {
        id: commit_id(1_000 + store.commits()),
        expect: store.dump(partition).head,
        fast: true,
        strict: false,
        now: NOW,
        raise: None,
        reads: Vec::new(),
        writes,
        due_drops: Vec::new(),
        feed: Bytes::new(),
        lanes: Vec::new(),
    }
}

async fn put(store: &MemoryStore, partition: PartitionId, writes: Vec<Write>) {
    let outcome = store.commit(partition, batch(store, partition, writes)).await;
    assert!(matches!(outcome, Outcome::Applied { .. }), "{outcome:?}");
}

fn insert(record: &Record) -> Write {
    let body = Body { facets: record.facets(), parts: record.encode(PartMask::ALL) };
    Write { key: record.key(), what: Change::Insert(body), due_add: record.due(), due_remove: Vec::new() }
}

/// A store whose last partition holds the world as the core left it.
async fn filled() -> MemoryStore {
    let (world, store) = (world(), memory(PARTITION.0 + 1));
    for (key, stored) in &world.records {
        let bytes = key.to_bytes();
        let armed = world.due.iter().filter(|due| due.kind == key.kind() as u8 && due.key == bytes.as_slice());
        let due_add = armed.map(|due| Due { timer: due.timer().unwrap(), at: due.at }).collect();
        let parts = stored.parts.iter().map(|(part, bytes)| (*part, Some(bytes.clone()))).collect();
        let what = Change::Insert(Body { facets: stored.facets.clone(), parts });
        put(&store, PARTITION, vec![Write { key: *key, what, due_add, due_remove: Vec::new() }]).await;
    }
    store
}

async fn exported(store: &MemoryStore) -> (Vec<u8>, Summary) {
    let mut file = Vec::new();
    let summary = transfer::export(store, &mut file, None, &mut |_, _, _| {}).await.unwrap();
    (file, summary)
}

async fn imported(file: &[u8], store: &MemoryStore) -> Result<Summary, Error> {
    transfer::import(Cursor::new(file), store, &mut |_, _, _| {}).await.map(|(_, summary)| summary)
}

/// Records without their revisions, which every store has its own of.
fn contents(dump: &Dump) -> BTreeMap<Key, (Vec<weft_core::schema::Value>, BTreeMap<u8, Bytes>)> {
    dump.records.iter().map(|(key, stored)| (*key, (stored.facets.clone(), stored.parts.clone()))).collect()
}

#[tokio::test]
async fn ops_22_records_indexes_and_timers_arrive_as_they_were() {
    let source = filled().await;
    let (file, summary) = exported(&source).await;
    let target = memory(PARTITION.0 + 1);
    assert_eq!(imported(&file, &target).await.unwrap(), summary);
    let count = |kind| summary.kinds[&kind].count;
    assert_eq!((count(Kind::Execution), count(Kind::Dedup)), (45, 42));
    assert!(count(Kind::Attempt) >= 16, "{summary:?}");
    assert_eq!((count(Kind::Flow), count(Kind::Edge), count(Kind::Tombstone)), (2, 4, 1));
    for partition in (0..=PARTITION.0).map(PartitionId) {
        let (before, after) = (source.dump(partition), target.dump(partition));
        assert_eq!(contents(&before), contents(&after));
        assert_eq!(before.indexes, after.indexes);
        assert_eq!(before.due, after.due);
        assert_eq!(after.head.now, before.head.now, "the clock of a partition never goes back");
        let (old, new) = (before.head.position, after.head.position);
        assert!(new.generation == old.generation + 1 && new.seq > old.seq, "{old:?} {new:?}");
        assert!(after.feed.iter().all(|entry| entry.events.is_empty()), "the feed stays behind");
    }
    assert!(!target.dump(PARTITION).due.is_empty());
}

#[tokio::test]
async fn ops_22_a_store_of_more_partitions_finds_the_keys_again() {
    let source = filled().await;
    let (file, summary) = exported(&source).await;
    let target = memory(11);
    imported(&file, &target).await.unwrap();
    assert_eq!(transfer::verify(&target, &mut |_, _, _| {}).await.unwrap(), summary, "copies are not counted");
    let mut found = BTreeSet::new();
    for partition in (0..11).map(PartitionId) {
        for (key, stored) in target.dump(partition).records {
            let parts: Vec<_> = stored.parts.into_iter().collect();
            let record = Record::decode(key, &parts, PartMask::ALL).unwrap();
            let Record::Dedup(dedup) = record else { continue };
            if dedup.body.home.unwrap() % 11 == u64::from(partition.0) {
                found.insert(dedup.digest);
            }
        }
    }
    assert_eq!(found.len(), 42, "each key is bound where a repeat of its submission looks");
    let extra: usize = (0..11).map(|partition| target.dump(PartitionId(partition)).records.len()).sum();
    assert!(
        extra as u64 > summary.records(),
        "most keys are looked for elsewhere than in the partition they came from"
    );

    let (again, second) = exported(&target).await;
    assert_eq!(second, summary, "copies are not exported");
    let third = memory(16);
    assert_eq!(imported(&again, &third).await.unwrap(), summary);
    let heads = (0..16).map(|partition| third.dump(PartitionId(partition)).head);
    assert!(heads.clone().all(|head| head.position.generation == 2));
    assert!(heads.clone().all(|head| head.position > target.dump(PARTITION).head.position));
}

#[tokio::test]
async fn ops_22_a_file_that_is_cut_off_is_refused_before_anything_is_written() {
    let (file, _) = exported(&filled().await).await;
    let target = memory(4);
    for length in (0..file.len()).step_by(97).chain(file.len() - 100..file.len()) {
        let error = imported(&file[..length], &target).await.unwrap_err();
        assert!(error.to_string().contains("ends in the middle"), "{length}: {error}");
    }
    assert_eq!(target.commits(), 0);
}

#[tokio::test]
async fn ops_22_a_file_that_is_damaged_is_refused_before_anything_is_written() {
    let (file, _) = exported(&filled().await).await;
    let target = memory(4);
    for at in (0..300).chain((300..file.len()).step_by(61)).chain(file.len() - 150..file.len()) {
        let mut damaged = file.clone();
        damaged[at] ^= 0x10;
        let error = imported(&damaged, &target).await.expect_err("a changed bit is found");
        assert!(matches!(error, Error::Damaged(_) | Error::Newer { .. } | Error::Unreadable { .. }), "{at}: {error}");
    }
    let longer = [&file[..], b"\n"].concat();
    assert!(imported(&longer, &target).await.unwrap_err().to_string().contains("behind its end"));
    assert_eq!(target.commits(), 0);
}

#[tokio::test]
async fn ops_22_a_store_that_is_not_empty_is_refused() {
    let source = filled().await;
    let (file, _) = exported(&source).await;
    let target = memory(4);
    put(&target, PartitionId(1), Vec::new()).await;
    let error = imported(&file, &target).await.unwrap_err().to_string();
    let told = "cannot import: partition 1 of the store has been written to, and an import goes into an empty store; if an \
                earlier import was broken off, remove what it left and import again";
    assert_eq!(error, told);
    assert_eq!(target.commits(), 1);
}

#[tokio::test]
async fn ops_22_a_store_of_fewer_partitions_is_refused() {
    let (file, _) = exported(&filled().await).await;
    let target = memory(3);
    let error = imported(&file, &target).await.unwrap_err().to_string();
    assert!(error.contains("the file has 4 partitions and the store 3"), "{error}");
    assert_eq!(target.commits(), 0);
}

#[tokio::test]
async fn ops_22_a_record_that_cannot_be_read_is_named() {
    let store = filled().await;
    let mut write = insert(&Record::Dedup(Box::new(binding(1, 7))));
    let Change::Insert(body) = &mut write.what else { unreachable!() };
    body.parts = vec![(0, Some(Bytes::from_static(&[1, 2, 3])))];
    put(&store, PartitionId(1), vec![write]).await;
    let error = transfer::export(&store, io::sink(), None, &mut |_, _, _| {}).await.unwrap_err().to_string();
    let key = "07".repeat(32);
    let named = format!("cannot move a record of `dedups` in partition 1, key `{key}`: part `body` does not decode");
    assert!(error.starts_with(&named), "{error}");
}

fn binding(partition: u16, number: u8) -> Dedup {
    let partition = PartitionId(partition);
    let execution = ExecutionId::new(partition, uuid::Uuid::from_u128(number.into()));
    let what = What::Key { execution, purged: None };
    let fingerprint = [0; 32];
    let body = dedup::Body { namespace: "shop".into(), fingerprint, what, expires_at: None, home: Some(1) };
    Dedup { partition, digest: [number; 32], body }
}

/// Commits to the store it is exported from as soon as it has got some bytes.
struct Meddler<'s>(&'s MemoryStore);

impl io::Write for Meddler<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.dump(PartitionId(2)).head.position == Position::default() {
            put(self.0, PartitionId(2), Vec::new()).now_or_never().unwrap();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn ops_22_a_store_that_is_written_to_meanwhile_is_not_exported() {
    let store = filled().await;
    let mut sink = Meddler(&store);
    sink.flush().unwrap();
    let error = transfer::export(&store, sink, None, &mut |_, _, _| {}).await.unwrap_err().to_string();
    assert_eq!(error, "cannot export: partition 2 was written to meanwhile; stop every node and export again");
}

#[tokio::test]
async fn rl_20_a_record_larger_than_a_commit_arrives_in_pieces() {
    let mut world = World::new();
    let id = world.submit(|_| {});
    let mut execution = world.execution(id);
    execution.set_checkpoint(Some(Checkpoint {
        bytes: vec![7; 12 << 20].into(),
        attempt: 0,
        at: NOW,
        content_type: None,
    }));
    let mut record = Record::Execution(Box::new(execution));
    let Change::Insert(mut body) = insert(&record).what else { unreachable!() };
    let store = memory(4);
    let input = weft_core::schema::execution::INPUT;
    body.parts.retain(|(part, _)| *part != input);
    let first = Write { what: Change::Insert(body.clone()), ..insert(&record) };
    put(&store, PARTITION, vec![first]).await;
    body.parts = vec![(input, Some(vec![8; 12 << 20].into()))];
    let what = Change::Update { old: record.facets(), body };
    put(&store, PARTITION, vec![Write { key: record.key(), what, due_add: Vec::new(), due_remove: Vec::new() }]).await;
    record.mark_clean();

    let (file, summary) = exported(&store).await;
    let target = memory(4);
    assert_eq!(imported(&file, &target).await.unwrap(), summary);
    assert_eq!(contents(&store.dump(PARTITION)), contents(&target.dump(PARTITION)));
}

#[tokio::test]
async fn progress_is_told_step_by_step() {
    let (file, summary) = exported(&filled().await).await;
    let mut steps: Vec<Step> = Vec::new();
    let target = memory(4);
    let mut note = |step, done: u64, total: Option<u64>| {
        assert!(done <= summary.records() && total.is_none_or(|total| total == summary.records()));
        steps.push(step);
    };
    transfer::import(Cursor::new(file), &target, &mut note).await.unwrap();
    steps.dedup();
    assert_eq!(steps.last(), Some(&Step::Verifying), "{steps:?}");
}
