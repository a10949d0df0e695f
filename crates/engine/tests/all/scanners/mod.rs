//! Background duties: what they find, what they leave alone, and what becomes of entries that make no sense.

mod bench;
mod dependency;
mod edge_cancel;
mod flow_projector;
mod flows;

use crate::kit::*;
use bytes::Bytes;
use weft_core::change::{Batch, Body, Change, DueEntry, Write};
use weft_core::record::flow::Summary;
use weft_core::record::{Key, Record};
use weft_core::schema::{Due, Kind, PartMask, Timer};
use weft_core::{CommitId, ExecutionId, FlowId, PartitionId, Time};
use weft_engine::config::{Filter, ScannerConfig};
use weft_engine::{Config, Engine, Submission};
use weft_store::{MemoryStore, Outcome, Store};

const P0: PartitionId = PartitionId(0);

/// Each flow that is whole, with its totals and a recount of its members.
fn recounts(dump: &weft_store::memory::Dump) -> Vec<(FlowId, Summary, Summary)> {
    let records = dump.records.iter().filter_map(|(key, stored)| {
        let parts: Vec<(u8, Bytes)> = stored.parts.iter().map(|(part, bytes)| (*part, bytes.clone())).collect();
        Record::decode(*key, &parts, PartMask::ALL).ok()
    });
    let records: Vec<Record> = records.collect();
    let flows = records.iter().filter_map(|record| match record {
        Record::Flow(flow) if flow.is_visible() => Some(flow),
        _ => None,
    });
    let counted = flows.map(|flow| {
        let mut counted = Summary::default();
        for record in &records {
            match record {
                Record::Execution(member) if member.member().is_some_and(|it| it.flow == flow.id) => {
                    weft_core::flow::recount(member, &mut counted);
                }
                _ => {}
            }
        }
        (flow.id, flow.summary.clone(), counted)
    });
    counted.collect()
}

/// Waits until the due index is empty; each look lets virtual time go on.
async fn until_handled(store: &MemoryStore) {
    for _ in 0..1000 {
        if store.dump(P0).due.is_empty() {
            return;
        }
        pass(50).await;
    }
    panic!("due entries are left: {:?}", store.dump(P0).due);
}

fn dead_letters(store: &MemoryStore) -> Vec<weft_core::record::dead_letter::Body> {
    let dump = store.dump(P0);
    let letters = dump.records.iter().filter(|(key, _)| key.kind() == Kind::DeadLetter);
    letters
        .map(|(key, stored)| {
            let parts: Vec<(u8, Bytes)> = stored.parts.iter().map(|(part, bytes)| (*part, bytes.clone())).collect();
            match Record::decode(*key, &parts, Kind::DeadLetter.table().light) {
                Ok(Record::DeadLetter(letter)) => letter.body,
                other => panic!("{other:?}"),
            }
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn sr_25_a_poison_entry_is_removed_and_leaves_a_dead_letter() {
    let store = memory(1);
    for (kind, key) in [(99, &b"whatever"[..]), (1, &b"too short"[..])] {
        let entry = DueEntry { at: Time::from_ms(5), timer: Timer::Lease as u8, kind, key: key.into() };
        store.insert_due(P0, &entry);
    }
    let engine = Engine::open(store.clone(), Config::default()).await.unwrap();
    until_letters(&store, 2).await;
    let letters = dead_letters(&store);
    assert_eq!(letters.len(), 2);
    assert!(letters.iter().any(|letter| letter.key == b"whatever"[..]));
    let left = store.dump(P0).due;
    assert!(left.iter().all(|entry| entry.timer() == Some(Timer::Retention)), "only the letters wait to go: {left:?}");
    engine.shutdown().await;
}

async fn until_letters(store: &MemoryStore, count: usize) {
    for _ in 0..1000 {
        if dead_letters(store).len() == count {
            return;
        }
        pass(50).await;
    }
    panic!("{} dead letters, not {count}", dead_letters(store).len());
}

#[tokio::test(start_paused = true)]
async fn sr_27_an_entry_whose_record_is_gone_is_stale_and_leaves_nothing() {
    let store = memory(1);
    let key = Key::Execution(ExecutionId::new(P0, uuid::Uuid::from_u128(5)));
    store.insert_due(P0, &DueEntry::new(Due { timer: Timer::Until, at: Time::from_ms(5) }, key));
    let engine = Engine::open(store.clone(), Config::default()).await.unwrap();
    until_handled(&store).await;
    assert!(store.dump(P0).records.is_empty());
    assert_eq!(engine.stats().scanner_stale, 1);
}

#[tokio::test(start_paused = true)]
async fn sr_26_a_damaged_record_is_parked_and_its_neighbours_are_served() {
    let store = memory(1);
    let engine = Engine::open(store.clone(), Config::default()).await.unwrap();
    let client = engine.client("shop").unwrap();
    let healthy = client.submit(Submission::new("mail").delay_ms(1_000)).await.unwrap().id;
    let damaged = client.submit(Submission::new("mail").delay_ms(900)).await.unwrap().id;
    engine.shutdown().await;
    damage(&store, damaged).await;
    let engine = Engine::open(store.clone(), Config::default()).await.unwrap();
    let client = engine.client("shop").unwrap();
    let work = client.claim(worker().wait_ms(10_000)).await.unwrap().executions.remove(0);
    assert_eq!(work.id, healthy);
    until_letters(&store, 1).await;
    let letter = dead_letters(&store).remove(0);
    assert_eq!(letter.key, damaged.uuid().as_bytes()[..]);
    assert!(letter.error.contains("hot"), "the letter names the part: {}", letter.error);
    assert_eq!(client.get(damaged).await.unwrap_err().code(), "internal");
    let stored = &store.dump(P0).records[&Key::Execution(damaged)];
    assert_eq!(stored.parts[&0], b"\x01garbage"[..], "its bytes stay untouched");
}

/// Overwrites the hot part of a record with bytes that do not decode.
async fn damage(store: &MemoryStore, id: ExecutionId) {
    let dump = store.dump(P0);
    let key = Key::Execution(id);
    let stored = &dump.records[&key];
    let batch = Batch {
        id: CommitId(uuid::Uuid::from_u128(99)),
        expect: dump.head,
        fast: true,
        strict: false,
        now: dump.head.now,
        raise: None,
        reads: vec![(key, Some(stored.revision))],
        writes: vec![Write {
            key,
            what: Change::Update {
                old: stored.facets.clone(),
                body: Body {
                    facets: stored.facets.clone(),
                    parts: vec![(0, Some(Bytes::from_static(b"\x01garbage")))],
                },
            },
            due_add: Vec::new(),
            due_remove: Vec::new(),
        }],
        due_drops: Vec::new(),
        feed: Bytes::new(),
        lanes: Vec::new(),
    };
    assert!(matches!(store.commit(P0, batch).await, Outcome::Applied { .. }));
}

#[tokio::test(start_paused = true)]
async fn sr_12_nothing_waits_behind_items_of_another_filter() {
    let store = memory(1);
    let filter = Filter { namespace: Some("mine".into()), tag: None };
    let scanners = ScannerConfig { filter, ..ScannerConfig::default() };
    let engine = Engine::open(store.clone(), Config { scanners, ..Config::default() }).await.unwrap();
    let foreign = engine.client("foreign").unwrap();
    let items = (0..900).map(|_| Submission::new("mail").delay_ms(500)).collect();
    assert!(foreign.submit_batch(items).await.iter().all(Result::is_ok));
    let mine = engine.client("mine").unwrap();
    mine.submit(Submission::new("mail").delay_ms(1_000)).await.unwrap();
    let reply = mine.claim(worker().wait_ms(10_000)).await.unwrap();
    assert_eq!(reply.executions.len(), 1);
    assert!(foreign.claim(worker().wait_ms(2_000)).await.unwrap().executions.is_empty(), "SR-36: left as they were");
}

#[tokio::test(start_paused = true)]
async fn sr_12_the_next_pass_goes_on_behind_more_foreign_items_than_one_may_look_at() {
    let filter = Filter { namespace: Some("mine".into()), tag: None };
    let bench = bench::Bench::with(1, filter).await;
    let foreign = bench.engine.client("foreign").unwrap();
    for _ in 0..3 {
        let items = (0..1_000).map(|_| Submission::new("mail").delay_ms(500)).collect();
        assert!(foreign.submit_batch(items).await.iter().all(Result::is_ok));
    }
    let mine = bench.engine.client("mine").unwrap();
    mine.submit(Submission::new("mail").delay_ms(1_000)).await.unwrap();
    pass(1_000).await;
    let first = bench.scan("delayed_promoter").await;
    assert_eq!((first.processed, first.filtered, first.more), (0, 2_000, true), "ten times its batch");
    let second = bench.scan("delayed_promoter").await;
    assert_eq!((second.processed, second.filtered, second.more), (1, 1_000, false));
    assert_eq!(mine.claim(worker()).await.unwrap().executions.len(), 1);
}
