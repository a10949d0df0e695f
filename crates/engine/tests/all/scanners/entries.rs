//! Entries of the due index that make no sense, records that do not decode, items of somebody else.

use crate::kit::bench::Bench;
use crate::kit::flows::P0;
use crate::kit::kinds::Kind;
use crate::kit::{plant, worker};
use weft_core::change::DueEntry;
use weft_core::record::Key;
use weft_core::schema::{Due, Timer, execution as schema};
use weft_core::{ExecutionId, Time};
use weft_engine::Submission;
use weft_engine::config::Filter;
use weft_store::{Entry, Store};

/// Lets time go on until there are so many dead letters.
async fn until_letters(bench: &Bench<impl Store>, count: usize) {
    for _ in 0..1_000 {
        if bench.dead_letters().await.len() == count {
            return;
        }
        bench.pass(50).await;
    }
    panic!("{} dead letters, not {count}", bench.dead_letters().await.len());
}

pub async fn sr_25_a_poison_entry_is_removed_and_leaves_a_dead_letter(kind: impl Kind) {
    let bench = Bench::running(&kind, 1).await;
    for (of, key) in [(99, &b"whatever"[..]), (1, &b"too short"[..])] {
        let entry = DueEntry { at: Time::from_ms(5), timer: Timer::Lease as u8, kind: of, key: key.into() };
        kind.insert_due(&bench.store, P0, &entry).await;
    }
    let bench = bench.again().await;
    until_letters(&bench, 2).await;
    let letters = bench.dead_letters().await;
    assert_eq!(letters.len(), 2);
    assert!(letters.iter().any(|letter| letter.key == b"whatever"[..]));
    let left = plant::due(&*bench.store, P0).await;
    let goes = |entry: &Entry| plant::timer_of(entry).timer == Timer::Retention;
    assert!(left.iter().all(goes), "only the letters wait to go: {left:?}");
}

pub async fn sr_27_an_entry_whose_record_is_gone_is_stale_and_leaves_nothing(kind: impl Kind) {
    let bench = Bench::running(&kind, 1).await;
    let key = Key::Execution(ExecutionId::new(P0, uuid::Uuid::from_u128(5)));
    let entry = DueEntry::new(Due { timer: Timer::Until, at: Time::from_ms(5) }, key);
    kind.insert_due(&bench.store, P0, &entry).await;
    let bench = bench.again().await;
    for _ in 0..1_000 {
        if plant::due(&*bench.store, P0).await.is_empty() {
            break;
        }
        bench.pass(50).await;
    }
    assert_eq!(plant::due(&*bench.store, P0).await, []);
    assert!(plant::records(&*bench.store, P0).await.is_empty());
    assert_eq!(bench.engine.stats().scanner_stale, 1);
}

pub async fn sr_26_a_damaged_record_is_parked_and_its_neighbours_are_served(kind: impl Kind) {
    let bench = Bench::running(&kind, 1).await;
    let healthy = bench.client.submit(Submission::new("mail").delay_ms(1_000)).await.unwrap().id;
    let damaged = bench.client.submit(Submission::new("mail").delay_ms(900)).await.unwrap().id;
    bench.engine.shutdown().await;
    plant::damage(&*bench.store, Key::Execution(damaged), schema::HOT).await;
    let bench = bench.another().await;
    let work = bench.meanwhile(bench.client.claim(worker().wait_ms(10_000))).await.unwrap().executions.remove(0);
    assert_eq!(work.id, healthy);
    until_letters(&bench, 1).await;
    let letter = bench.dead_letters().await.remove(0);
    assert_eq!(letter.key, damaged.uuid().as_bytes()[..]);
    assert!(letter.error.contains("hot"), "the letter names the part: {}", letter.error);
    assert_eq!(bench.client.get(damaged).await.unwrap_err().code(), "internal");
    let stored = plant::raw(&*bench.store, Key::Execution(damaged)).await.expect("it stays");
    let hot = stored.parts.iter().find(|(part, _)| *part == schema::HOT).expect("it has one");
    assert_eq!(hot.1, b"\x01garbage"[..], "its bytes stay untouched");
}

pub async fn sr_12_nothing_waits_behind_items_of_another_filter(kind: impl Kind) {
    let filter = Filter { namespace: Some("mine".into()), tag: None };
    let bench = Bench::running_for(&kind, filter).await;
    let foreign = bench.engine.client("foreign").unwrap();
    let items = (0..900).map(|_| Submission::new("mail").delay_ms(500)).collect();
    assert!(foreign.submit_batch(items).await.iter().all(Result::is_ok));
    let mine = bench.engine.client("mine").unwrap();
    mine.submit(Submission::new("mail").delay_ms(1_000)).await.unwrap();
    let reply = bench.meanwhile(mine.claim(worker().wait_ms(10_000))).await.unwrap();
    assert_eq!(reply.executions.len(), 1);
    let reply = bench.meanwhile(foreign.claim(worker().wait_ms(2_000))).await.unwrap();
    assert!(reply.executions.is_empty(), "SR-36: left as they were");
}

pub async fn sr_12_the_next_pass_goes_on_behind_more_foreign_items_than_one_may_look_at(kind: impl Kind) {
    let filter = Filter { namespace: Some("mine".into()), tag: None };
    let bench = Bench::with(&kind, 1, filter).await;
    let foreign = bench.engine.client("foreign").unwrap();
    for _ in 0..3 {
        let items = (0..1_000).map(|_| Submission::new("mail").delay_ms(500)).collect();
        assert!(foreign.submit_batch(items).await.iter().all(Result::is_ok));
    }
    let mine = bench.engine.client("mine").unwrap();
    mine.submit(Submission::new("mail").delay_ms(1_000)).await.unwrap();
    bench.pass(1_000).await;
    let first = bench.scan("delayed_promoter").await;
    assert_eq!((first.processed, first.filtered, first.more), (0, 2_000, true), "ten times its batch");
    let second = bench.scan("delayed_promoter").await;
    assert_eq!((second.processed, second.filtered, second.more), (1, 1_000, false));
    assert_eq!(mine.claim(worker()).await.unwrap().executions.len(), 1);
}
