//! Entries of the due index that make no sense, records that do not decode, items of somebody else.

use crate::kit::bench::Bench;
use crate::kit::flows::{P0, work};
use crate::kit::kinds::Kind;
use crate::kit::log::Log;
use crate::kit::probe::Asked;
use crate::kit::{plant, worker};
use std::sync::atomic::{AtomicUsize, Ordering};
use tracing::Level;
use weft_core::change::DueEntry;
use weft_core::command::WorkerEnd;
use weft_core::flow::member_id;
use weft_core::record::worker::{Owed, State};
use weft_core::record::{Key, Record};
use weft_core::schema::{Due, Kind as Table, PartMask, Timer, execution as schema, flow as flow_schema};
use weft_core::{ExecutionId, Time};
use weft_engine::config::Filter;
use weft_engine::flow::FlowSubmission;
use weft_engine::worker::Registration;
use weft_engine::{ParkedFilter, Submission};
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
    let bad = [
        (Timer::Lease, 99, &b"whatever"[..]),
        (Timer::Lease, Table::Execution as u8, b"too short"),
        (Timer::WorkerLeases, Table::Execution as u8, b"of a wrong kind."),
    ];
    for (timer, of, key) in bad {
        let entry = DueEntry { at: Time::from_ms(5), timer: timer as u8, kind: of, key: key.into() };
        kind.insert_due(&bench.store, P0, &entry).await;
    }
    let bench = bench.again().await;
    until_letters(&bench, bad.len()).await;
    let letters = bench.dead_letters().await;
    assert!(bad.iter().all(|(.., key)| letters.iter().any(|letter| letter.key == *key)), "{letters:?}");
    let left = plant::due(&*bench.store, P0).await;
    let goes = |entry: &Entry| plant::timer_of(entry).timer == Timer::Retention;
    assert!(left.iter().all(goes), "only the letters wait to go: {left:?}");
}

pub async fn sr_25_entries_that_cannot_be_read_are_removed_and_hide_nothing(kind: impl Kind) {
    let bench = Bench::running(&kind, 2).await;
    let healthy = bench.client.submit(Submission::new("mail").delay_ms(20_000)).await.unwrap().id;
    // More than a page of unreadable entries, short and long, before and after the readable one.
    let bad: Vec<DueEntry> = (0u16..300)
        .map(|n| {
            let end = [if n % 2 == 0 { 0 } else { 0xff }; 20];
            let bytes = [&end[..if n % 3 == 0 { 1 } else { 20 }], &n.to_be_bytes()].concat();
            kind.unreadable(Timer::Until, bytes)
        })
        .collect();
    for entry in &bad {
        kind.insert_due(&bench.store, healthy.partition(), entry).await;
    }
    let (log, _guard) = Log::listen();
    let bench = bench.again().await;
    let work = bench.meanwhile(bench.client.claim(worker().wait_ms(60_000))).await.unwrap().executions.remove(0);
    assert_eq!(work.id, healthy);
    let letters = plant::dead_letters(&*bench.store, healthy.partition()).await;
    assert_eq!(letters.len(), bad.len());
    assert!(bad.iter().all(|entry| letters.iter().any(|letter| letter.key == entry.key)), "with its bytes");
    let left = plant::due(&*bench.store, healthy.partition()).await;
    assert!(left.iter().all(|entry| entry.key().is_some()), "{left:?}");
    let warnings = log.take("poison entry removed");
    assert!(warnings.len() == bad.len() && warnings.iter().all(|(level, _)| *level == Level::WARN));
    assert_eq!(bench.count("weft_scanner_items_total", &["delayed_promoter", "poison"]), bad.len() as u64);
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
    let (log, _guard) = Log::listen();
    let bench = bench.another().await;
    let work = bench.meanwhile(bench.client.claim(worker().wait_ms(10_000))).await.unwrap().executions.remove(0);
    assert_eq!(work.id, healthy);
    until_letters(&bench, 1).await;
    let letter = bench.dead_letters().await.remove(0);
    assert_eq!(letter.key, damaged.uuid().as_bytes()[..]);
    assert!(letter.error.contains("hot"), "the letter names the part: {}", letter.error);
    let lines = log.take("an item is parked");
    let id = bench.client.parked(&ParkedFilter::default()).await.unwrap().items[0].id;
    assert!(lines.len() == 1 && lines[0].0 == Level::ERROR, "SR-43 {lines:?}");
    let fields =
        ["scanner=\"delayed_promoter\"".to_string(), format!("{damaged:?}"), id.to_string(), "part `hot`".into()];
    assert!(fields.iter().all(|field| lines[0].1.contains(field)), "{fields:?}: {lines:?}");
    assert_eq!(bench.client.get(damaged).await.unwrap_err().code(), "internal");
    let stored = plant::raw(&*bench.store, Key::Execution(damaged)).await.expect("it stays");
    let hot = stored.parts.iter().find(|(part, _)| *part == schema::HOT).expect("it has one");
    assert_eq!(hot.1, b"\x01garbage"[..], "its bytes stay untouched");
}

pub async fn sr_26_a_record_that_cannot_be_read_again_is_left_and_not_counted_as_healthy(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let id = bench.client.submit(Submission::new("mail").delay_ms(1_000)).await.unwrap().id;
    let key = Key::Execution(id);
    plant::damage(&*bench.store, key, schema::HOT).await;
    let bench = bench.again().await;
    bench.pass(1_000).await;
    let before = plant::records(&*bench.store, P0).await;
    let reads = AtomicUsize::new(0);
    // The first read is that of the command, the second looks for damage.
    bench.probe.refuse(move |asked| {
        matches!(asked, Asked::Read(_, keys) if keys.contains(&key)) && reads.fetch_add(1, Ordering::SeqCst) > 0
    });
    let report = bench.scan("delayed_promoter").await;
    assert_eq!((report.errors, report.processed), (1, 0), "{report:?}");
    assert!(plant::records(&*bench.store, P0).await == before, "no letter and no account");
    assert_eq!(bench.entries(Timer::Until).await, 1);
    bench.probe.obey();
    let bench = bench.again().await;
    assert_eq!(bench.counts("delayed_promoter").await, (0, 1));
    assert_eq!((bench.entries(Timer::Until).await, bench.dead_letters().await.len()), (0, 1));
}

pub async fn sr_29_a_policy_of_a_later_version_leaves_entry_and_bytes_and_makes_no_letter(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let line = || FlowSubmission::new("line").member("a", work()).member("b", work()).edge("a", "b");
    let flow = bench.submit(line().deadline_in_ms(20_000)).await;
    let other = bench.submit(line()).await;
    plant::later_policy(&*bench.store, Key::Flow(flow), flow_schema::DEFINITION).await;
    plant::later_policy(&*bench.store, Key::Execution(member_id(other, "b")), schema::MEMBER).await;
    let bench = bench.again().await;
    bench.pass(20_000).await;
    let before = plant::records(&*bench.store, P0).await;
    let entries = plant::due(&*bench.store, P0).await;
    for (scanner, newer) in [("execution_deadline", 1), ("flow_projector", 2)] {
        let report = bench.scan(scanner).await;
        assert_eq!((report.newer, report.processed, report.errors), (newer, 0, 0), "FL-4 {scanner}: {report:?}");
    }
    assert!(plant::records(&*bench.store, P0).await == before, "no letter, no account, and the bytes as they were");
    assert_eq!(plant::due(&*bench.store, P0).await, entries);
}

pub async fn sr_29_items_of_a_newer_format_are_warned_about_once_a_minute(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    for _ in 0..3 {
        let id = bench.client.submit(Submission::new("mail").delay_ms(1_000)).await.unwrap().id;
        plant::overwrite(&*bench.store, Key::Execution(id), schema::HOT, b"\x7flater").await;
    }
    let bench = bench.again().await;
    bench.pass(1_000).await;
    let before = plant::records(&*bench.store, P0).await;
    let (log, _guard) = Log::listen();
    for (ms, lines) in [(0, 1), (59_999, 0), (1, 1)] {
        bench.pass(ms).await;
        let report = bench.scan("delayed_promoter").await;
        assert_eq!((report.newer, report.processed, report.errors), (3, 0, 0), "{report:?}");
        let warnings = log.take("left to a newer version");
        assert!(warnings.len() == lines && warnings.iter().all(|(level, _)| *level == Level::WARN), "{warnings:?}");
    }
    assert!(plant::records(&*bench.store, P0).await == before, "no letter, and its bytes as they were");
    assert_eq!(bench.entries(Timer::Until).await, 3);
}

pub async fn sr_29_a_worker_of_a_newer_format_is_no_error(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    bench.client.register(Registration::new("mailer", "mailer-1", "boot").lane("default")).await.unwrap();
    let key = *plant::records_of(&*bench.store, P0, Table::Worker).await.first_key_value().expect("it is listed").0;
    plant::entries_past(&*bench.store, key, Timer::WorkerLeases, 1).await;
    plant::overwrite(&*bench.store, key, 0, b"\x7flater").await;
    let bench = bench.again().await;
    let report = bench.scan("worker_reaper").await;
    assert_eq!((report.newer, report.processed, report.errors), (1, 0, 0), "{report:?}");
    assert_eq!(bench.entries(Timer::WorkerLeases).await, 1, "left as it was");
}

pub async fn sr_12_nothing_waits_behind_items_of_another_filter(kind: impl Kind) {
    let filter = Filter { namespace: Some("mine".into()), tag: None };
    let bench = Bench::running_for(&kind, filter).await;
    let foreign = bench.engine.client("foreign").unwrap();
    let due = bench.engine.now() + 3_600_000;
    for _ in 0..10 {
        let items = (0..1_000).map(|at| Submission::new("mail").start_at(due + at / 500)).collect();
        assert!(foreign.submit_batch(items).await.iter().all(Result::is_ok));
    }
    let mine = bench.engine.client("mine").unwrap();
    mine.submit(Submission::new("mail").start_at(due + 10)).await.unwrap();
    // Nobody has seen any of them when all are due.
    bench.engine.shutdown().await;
    bench.pass(3_600_010).await;
    let bench = bench.another().await;
    let (mine, foreign) = (bench.engine.client("mine").unwrap(), bench.engine.client("foreign").unwrap());
    let reply = bench.meanwhile(mine.claim(worker().wait_ms(10_000))).await.unwrap();
    assert_eq!(reply.executions.len(), 1);
    assert!(bench.engine.now() < due + 10 + 750, "within one cycle, and no interval is waited for");
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

pub async fn sr_12_a_pass_looks_at_ten_batches_over_all_its_timers(kind: impl Kind) {
    let filter = Filter { namespace: Some("mine".into()), tag: None };
    let bench = Bench::with(&kind, 1, filter).await;
    let foreign = bench.engine.client("foreign").unwrap();
    let id = foreign.submit(Submission::new("mail")).await.unwrap().id;
    let flow = foreign.submit_flow(FlowSubmission::new("line").member("a", work())).await.unwrap().value.id;
    let bound = 500;
    plant::entries_past(&*bench.store, Key::Execution(id), Timer::CancelGrace, bound * 3 / 2).await;
    plant::entries_past(&*bench.store, Key::Flow(flow), Timer::FlowEnding, bound * 5 / 2).await;
    let bench = bench.again().await;
    for more in [true, true, true, false] {
        let report = bench.scan("cancel_reconciler").await;
        assert_eq!((u64::from(report.filtered), report.more), (bound, more), "each entry is met once: {report:?}");
        let again = bench.engine.now() + 15_000;
        assert_eq!((report.processed, report.errors, report.next_due), (0, 0, Some(again)), "SR-14");
    }
    let report = bench.scan("cancel_reconciler").await;
    assert_eq!((u64::from(report.filtered), report.more), (bound, true), "from the start");
}

pub async fn sr_16_a_pass_that_goes_on_among_foreign_entries_knows_what_is_due_before_them(kind: impl Kind) {
    let filter = Filter { namespace: Some("mine".into()), tag: None };
    let bench = Bench::with(&kind, 1, filter).await;
    let own = bench.engine.client("mine").unwrap().submit(Submission::new("mail")).await.unwrap().id;
    let foreign = bench.engine.client("foreign").unwrap();
    let flow = foreign.submit_flow(FlowSubmission::new("line").member("a", work())).await.unwrap().value.id;
    let at = bench.engine.now() + 5_000;
    plant::entry(&*bench.store, Key::Execution(own), Due { timer: Timer::CancelGrace, at }).await;
    plant::entries_past(&*bench.store, Key::Flow(flow), Timer::FlowEnding, 600).await;
    let bench = bench.again().await;
    for (filtered, more) in [(500, true), (100, false)] {
        let report = bench.scan("cancel_reconciler").await;
        assert_eq!((report.filtered, report.more, report.next_due), (filtered, more, Some(at)), "{report:?}");
    }
}

pub async fn sr_12_a_worker_is_looked_at_behind_more_foreign_ones_than_a_pass_may_look_at(kind: impl Kind) {
    let filter = Filter { namespace: Some("mine".into()), tag: None };
    let bench = Bench::with(&kind, 1, filter).await;
    let (foreign, mine) = (bench.engine.client("foreign").unwrap(), bench.engine.client("mine").unwrap());
    let registration = || Registration::new("mailer", "mailer-1", "boot").lane("default");
    foreign.register(registration()).await.unwrap();
    let session = mine.register(registration()).await.unwrap().worker.session;
    mine.submit(Submission::new("mail")).await.unwrap();
    assert_eq!(mine.claim(worker().session(session)).await.unwrap().executions.len(), 1);
    let now = bench.engine.now();
    for (key, found) in plant::records_of(&*bench.store, P0, Table::Worker).await {
        let Ok(Record::Worker(mut process)) = Record::decode(key, &found.parts, PartMask::ALL) else {
            panic!("{key:?}")
        };
        if &*process.body.namespace == "foreign" {
            plant::entries_past(&*bench.store, key, Timer::WorkerLeases, 1_100).await;
        } else {
            // As the node left it that marked it dead and then died itself.
            process.body.state = State::Dead { at: now, marked: Some("ops".into()), drain: None };
            process.body.owed = Some(Owed { end: WorkerEnd::Lost, before: session + 1, since: now });
            process.body.look_at = Some(now);
            plant::put(&*bench.store, Record::Worker(process)).await;
        }
    }
    let bench = bench.again().await;
    let mine = bench.engine.client("mine").unwrap();
    let first = bench.scan("worker_reaper").await;
    assert_eq!((first.processed, first.filtered, first.more), (0, 1_000, true), "ten times its batch: {first:?}");
    assert_eq!(mine.leases("mailer-1", None, 10).await.unwrap().leases.len(), 1);
    let second = bench.scan("worker_reaper").await;
    assert_eq!((second.processed, second.filtered, second.more), (1, 100, false), "{second:?}");
    assert!(mine.leases("mailer-1", None, 10).await.unwrap().leases.is_empty(), "its lease has ended");
}
