//! Siblings that are owed a cancel: the dispatcher that cancels them, and the safety net that cancels nobody.

use crate::kit::bench::Bench;
use crate::kit::flows::*;
use crate::kit::kinds::Kind;
use crate::kit::log::Log;
use crate::kit::plant;
use crate::kit::probe::Asked;
use tracing::Level;
use weft_core::change::DueEntry;
use weft_core::event::Fact;
use weft_core::flow::member_id;
use weft_core::record::Key;
use weft_core::record::execution::{PublicState, Reason};
use weft_core::record::member::{GroupPolicy, Then};
use weft_core::reply::Reconciled;
use weft_core::schema::{Due, Kind as RecordKind, Timer, execution as schema};
use weft_core::{ExecutionId, FlowId, Time};
use weft_engine::config::{Filter, ScannerConfig};
use weft_engine::flow::{FlowSubmission, Member};
use weft_engine::{Completion, Submission};
use weft_store::Store;

const NAME: &str = "edge_cancel_reconciler";
const DISPATCHER: &str = "edge_cancel_dispatcher";
const ACTIONS: &str = "weft_sibling_cancel_reconcile_total";

/// A race that somebody has won, with so many siblings that still wait.
async fn race(bench: &Bench<impl Store>, siblings: usize, tag: Option<&str>) -> FlowId {
    let mut flow = FlowSubmission::new("race").with(Member::new("j", work()).join(GroupPolicy::AnyOf, Then::LetRun));
    if let Some(team) = tag {
        flow = flow.tag("team", team.to_owned());
    }
    flow = flow.member("w", work().priority(9)).edge("w", "j");
    for at in 0..siblings {
        flow = flow.member(format!("s{at:05}"), work()).edge(format!("s{at:05}"), "j");
    }
    let flow = bench.submit(flow).await;
    bench.until_sealed(flow).await;
    let winner = claim_all(&bench.client, 1).await.remove(0);
    assert_eq!(key_of(&winner), "w", "it has the higher priority");
    bench.client.complete(Completion::of(&winner)).await.unwrap();
    flow
}

/// Completes the siblings of a race, in as many claims as that takes.
async fn end_siblings(bench: &Bench<impl Store>, mut siblings: usize) {
    for _ in 0..1_000 {
        if siblings == 0 {
            return;
        }
        for work in claim_all(&bench.client, 3).await.iter().filter(|work| key_of(work) != "j") {
            bench.client.complete(Completion::of(work)).await.unwrap();
            siblings -= 1;
        }
    }
    panic!("{siblings} siblings cannot be claimed");
}

/// Starts a race whose siblings are owed a cancel from now on.
async fn owing(bench: &Bench<impl Store>, siblings: usize, tag: Option<&str>) -> FlowId {
    let flow = race(bench, siblings, tag).await;
    plant::owe(&*bench.store, member_id(flow, "j"), bench.engine.now()).await;
    flow
}

async fn cancelled(bench: &Bench<impl Store>, flow: FlowId) -> u32 {
    bench.record(flow).await.summary.of(PublicState::Cancelled)
}

fn action(bench: &Bench<impl Store>, action: Reconciled) -> u64 {
    bench.count(ACTIONS, &[action.name()])
}

fn orphan(id: u128) -> DueEntry {
    let key = Key::Execution(ExecutionId::new(P0, uuid::Uuid::from_u128(id)));
    DueEntry::new(Due { timer: Timer::GroupCancel, at: Time::from_ms(5) }, key)
}

pub async fn sc_37_the_runner_begins_the_safety_net_for_entries_of_its_age(kind: impl Kind) {
    let interval = |name| weft_engine::scanner::intervals().find(|(known, _)| *known == name).map(|(_, ms)| ms);
    assert_eq!((interval(NAME), interval(DISPATCHER)), (Some(10_000), Some(1_000)));
    let bench = Bench::new(&kind).await;
    owing(&bench, 2, None).await;
    let bench = bench.run().await;
    bench.pass(0).await;
    let wakes = |name| bench.count("weft_scanner_wakes_total", &[name]);
    assert_eq!((wakes(DISPATCHER), wakes(NAME)), (1, 0));
    bench.pass(9_900).await;
    assert_eq!(wakes(NAME), 0, "too young for it");
    bench.pass(200).await;
    assert_eq!(wakes(NAME), 1);
    for _ in 0..60 {
        bench.pass(1_000).await;
    }
    assert_eq!(wakes(NAME), 1, "once for what was hinted once");

    // The dispatcher of this node leaves it to others, who never come.
    let (bench, flow) = owing_ended(&kind).await;
    let bench = bench.again().await;
    bench.pass(9_999).await;
    assert_eq!((bench.entries(Timer::GroupCancel).await, action(&bench, Reconciled::DrainCompleted)), (1, 0));
    bench.pass(1).await;
    bench.at_once("the safety net", async || bench.entries(Timer::GroupCancel).await == 0).await;
    assert_eq!(action(&bench, Reconciled::DrainCompleted), 1);
    assert_eq!(bench.record(flow).await.hot.works, 0);
}

pub async fn sc_38_what_a_crash_left_owed_is_gone_on_with(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let flow = owing(&bench, 300, None).await;
    let bench = bench.again().await;
    assert_eq!((bench.entries(Timer::GroupCancel).await, cancelled(&bench, flow).await), (1, 0));
    let report = bench.scan(DISPATCHER).await;
    assert_eq!(report.errors, 0);
    bench.until_quiet().await;
    assert_eq!((bench.entries(Timer::GroupCancel).await, cancelled(&bench, flow).await), (0, 300));
    assert_eq!(bench.count("weft_sibling_cancel_results_total", &["cancelled"]), 300);
    assert_eq!(bench.count("weft_sibling_cancel_results_total", &["already_terminal"]), 1, "the winner");
    assert_eq!(bench.count("weft_sibling_cancels_total", &["satisfied"]), 300);
}

pub async fn sc_39_only_the_index_of_what_is_owed_is_walked(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    race(&bench, 5, None).await;
    owing(&bench, 5, None).await;
    let bench = bench.again().await;
    bench.pass(10_000).await;
    bench.asked().await;
    bench.scan(NAME).await;
    let scans: Vec<Asked> =
        bench.asked().await.into_iter().filter(|asked| matches!(asked, Asked::Scan(Some(_), _))).collect();
    assert!(!scans.is_empty());
    assert!(scans.iter().all(|asked| asked.due() == Some(Timer::GroupCancel as i64)), "{scans:?}");
}

pub async fn sc_40_fifty_a_pass_and_nothing_starves_behind_what_is_left_alone(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let mut flows = Vec::new();
    for _ in 0..60 {
        flows.push(owing(&bench, 1, None).await);
        bench.pass(1).await;
    }
    // Behind all of them: nothing is owed any more.
    let idle = race(&bench, 1, None).await;
    let key = Key::Execution(member_id(idle, "j"));
    plant::entry(&*bench.store, key, Due { timer: Timer::GroupCancel, at: bench.engine.now() }).await;
    let bench = bench.again().await;
    bench.pass(10_000).await;
    bench.asked().await;
    let first = bench.scan(NAME).await;
    assert_eq!((first.processed, first.more, action(&bench, Reconciled::LeftAlone)), (1, false, 60), "page by page");
    for asked in bench.asked().await.iter().filter(|asked| asked.due().is_some()) {
        assert!(matches!(asked, Asked::Scan(_, scan) if scan.limit <= 50), "{asked:?}");
    }
    let again = bench.engine.now() + 10_000;
    assert_eq!(first.next_due, Some(again), "SR-14 those that were left are looked at again, and not at once");
    let second = bench.scan(NAME).await;
    assert_eq!((second.more, action(&bench, Reconciled::LeftAlone)), (false, 120), "from the oldest on");

    // What is handled counts: fifty of these a pass, and the oldest first.
    plant::entries_past(&*bench.store, key, Timer::GroupCancel, 120).await;
    let bench = bench.again().await;
    for left in [70, 20, 0] {
        let report = bench.scan(NAME).await;
        assert_eq!((report.processed, report.more), (if left > 0 { 50 } else { 20 }, left > 0), "{report:?}");
        let entries = plant::entries(&*bench.store, P0, Timer::GroupCancel).await;
        let past: Vec<u64> =
            entries.iter().map(|entry| plant::timer_of(entry).at.ms()).filter(|at| *at <= 120).collect();
        assert_eq!(past, (121 - left..=120).collect::<Vec<_>>());
    }
}

pub async fn sc_41_an_index_that_cannot_be_read_is_one_error_and_an_empty_one_is_none(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    assert_eq!(bench.counts(NAME).await, (0, 0));
    bench.probe.refuse(|asked| asked.due().is_some());
    let (log, _guard) = Log::listen();
    assert_eq!(bench.counts(NAME).await, (0, 1));
    let warnings = log.take("did not answer a scanner");
    assert_eq!(warnings.len(), 1);
    let (level, line) = &warnings[0];
    assert!(*level == Level::WARN && line.contains(NAME) && line.contains("refused by the test"), "{line}");
}

/// A node whose dispatcher handles items of others only, so that the safety net alone meets those of this test.
fn without_dispatcher() -> ScannerConfig {
    let elsewhere = Filter { namespace: Some("elsewhere".into()), tag: None };
    ScannerConfig { filters: [(DISPATCHER, elsewhere)].into(), ..ScannerConfig::default() }
}

fn items(bench: &Bench<impl Store>, scanner: &str, result: &str) -> u64 {
    bench.count("weft_scanner_items_total", &[scanner, result])
}

/// A group that still owes cancels to siblings which have ended, and no scanner but the reconciler to find that.
async fn owing_ended<K: Kind>(kind: &K) -> (Bench<K::Store>, FlowId) {
    let bench = Bench::configured(kind, without_dispatcher()).await;
    let flow = race(&bench, 2, None).await;
    end_siblings(&bench, 2).await;
    plant::owe(&*bench.store, member_id(flow, "j"), bench.engine.now()).await;
    (bench, flow)
}

pub async fn sc_41_the_runner_counts_an_index_that_cannot_be_read_as_an_error_and_comes_back(kind: impl Kind) {
    let (bench, _) = owing_ended(&kind).await;
    let bench = bench.again().await;
    bench.probe.refuse(|asked| asked.due() == Some(Timer::GroupCancel as i64));
    let (log, _guard) = Log::listen();
    for _ in 0..11 {
        bench.pass(1_000).await;
    }
    // The first pass that is not answered puts the partition aside, whichever of the two scanners of the timer it is.
    let errors = || bench.engine.stats().scanner_errors;
    assert!(errors() > 0 && items(&bench, NAME, "processed") == 0, "{}", errors());
    assert_eq!(Reconciled::ALL.map(|one| action(&bench, one)), [0; 3]);
    let warnings = log.take("did not answer a scanner");
    let (level, line) = warnings.first().expect("a warning");
    assert!(*level == Level::WARN && line.contains("refused by the test"), "{warnings:?}");
    bench.probe.obey();
    for _ in 0..20 {
        bench.pass(1_000).await;
    }
    assert_eq!((items(&bench, NAME, "processed"), action(&bench, Reconciled::DrainCompleted)), (1, 1));
    assert_eq!(bench.entries(Timer::GroupCancel).await, 0);
    log.take("");
    for _ in 0..30 {
        bench.pass(1_000).await;
    }
    assert_eq!(items(&bench, NAME, "processed"), 1);
    assert!(log.take("refused by the test").is_empty(), "an empty one is none");
}

pub async fn sr_1_a_scanner_whose_page_cannot_be_read_keeps_no_other_from_its_partition(kind: impl Kind) {
    let (bench, _) = owing_ended(&kind).await;
    let bench = bench.again().await;
    bench.probe.refuse(|asked| asked.due() == Some(Timer::GroupCancel as i64));
    for _ in 0..15 {
        bench.pass(1_000).await;
    }
    assert!(bench.engine.stats().scanner_errors > 0, "the partition was put aside");
    for round in 1..=3 {
        bench.client.submit(Submission::new("mail").delay_ms(1_000)).await.unwrap();
        for _ in 0..25 {
            bench.pass(1_000).await;
        }
        assert_eq!(items(&bench, "delayed_promoter", "processed"), round, "within a probe or two");
    }
    assert_eq!(items(&bench, NAME, "processed"), 0, "its page is still refused");
}

pub async fn sc_42_the_runner_removes_poison_once_and_serves_its_neighbour(kind: impl Kind) {
    let (bench, flow) = owing_ended(&kind).await;
    bench.engine.shutdown().await;
    for entry in &poison(&kind) {
        kind.insert_due(&bench.store, P0, entry).await;
    }
    let (log, _guard) = Log::listen();
    let bench = bench.another().await;
    for _ in 0..11 {
        bench.pass(1_000).await;
    }
    assert_eq!(bench.entries(Timer::GroupCancel).await, 0, "within its interval");
    let letters = bench.dead_letters().await;
    assert_eq!(letters.len(), 5, "one each: {letters:?}");
    for entry in &poison(&kind) {
        assert!(letters.iter().any(|letter| letter.key == entry.key), "{entry:?} is in sight");
    }
    // Poison is everybody's, so the dispatcher may be the one that meets it.
    let warnings = log.take("poison entry removed");
    assert!(warnings.len() >= 5 && warnings.iter().all(|(level, _)| *level == Level::WARN), "{warnings:?}");
    let removed = items(&bench, NAME, "poison") + items(&bench, DISPATCHER, "poison");
    assert_eq!(removed, warnings.len() as u64);
    assert_eq!(action(&bench, Reconciled::DrainCompleted), 1, "its neighbour is handled");
    assert_eq!(bench.record(flow).await.hot.works, 0);
}

/// Entries that name no member: empty, short, of another kind, of no kind, no entry at all.
fn poison(kind: &impl Kind) -> [DueEntry; 5] {
    let entry = |kind: u8, key: &'static [u8]| DueEntry {
        at: Time::from_ms(5),
        timer: Timer::GroupCancel as u8,
        kind,
        key: key.into(),
    };
    [
        entry(RecordKind::Execution as u8, b""),
        entry(RecordKind::Execution as u8, b"too short"),
        entry(RecordKind::Flow as u8, b"0123456789abcdef"),
        entry(99, b"0123456789abcdef"),
        kind.unreadable(Timer::GroupCancel, b"?".to_vec()),
    ]
}

pub async fn sc_42_an_entry_that_names_no_member_is_poison(kind: impl Kind) {
    // SC-43, SC-44, SC-45, SC-46: empty, short, of another kind, of no kind, no entry at all; a removal that fails is met again.
    let bench = Bench::new(&kind).await;
    let bad = poison(&kind);
    for entry in &bad {
        kind.insert_due(&bench.store, P0, entry).await;
    }
    bench.pass(10_000).await;
    bench.probe.refuse(|asked| matches!(asked, Asked::Commit(..)));
    assert_eq!(bench.counts(NAME).await, (0, 5), "SC-46");
    assert_eq!((bench.entries(Timer::GroupCancel).await, bench.dead_letters().await.len()), (5, 0));
    bench.probe.obey();
    let (log, _guard) = Log::listen();
    let report = bench.scan(NAME).await;
    assert_eq!((report.processed, report.errors, report.poison), (0, 5, 5));
    assert_eq!(bench.entries(Timer::GroupCancel).await, 0);
    let warnings = log.take("poison entry removed");
    assert!(warnings.len() == 5 && warnings.iter().all(|(level, _)| *level == Level::WARN), "{warnings:?}");
    let letters = bench.dead_letters().await;
    for entry in &bad {
        assert!(letters.iter().any(|letter| letter.key == entry.key), "{entry:?} is in sight");
    }
}

pub async fn sc_53_what_changed_is_processed_and_what_is_left_alone_is_nothing(kind: impl Kind) {
    // SC-47, SC-48, SC-49, SC-50, SC-52, SC-56, SC-57: one decision each, by the table, and counted under its name.
    let bench = Bench::new(&kind).await;
    let ended = race(&bench, 2, None).await;
    end_siblings(&bench, 2).await;
    plant::owe(&*bench.store, member_id(ended, "j"), bench.engine.now()).await;
    let alive = owing(&bench, 2, None).await;
    kind.insert_due(&bench.store, P0, &orphan(7)).await;
    let bench = bench.again().await;
    bench.pass(11_000).await;
    let left_alone = Key::Execution(member_id(alive, "j"));
    let before = plant::raw(&*bench.store, left_alone).await;
    let report = bench.scan(NAME).await;
    assert_eq!((report.processed, report.errors, report.stale), (2, 0, 0));
    assert!(before.is_some());
    assert_eq!(plant::raw(&*bench.store, left_alone).await, before, "SC-50 byte for byte");
    assert_eq!(bench.entries(Timer::GroupCancel).await, 1, "that of the group with siblings that live");
    assert_eq!((cancelled(&bench, alive).await, cancelled(&bench, ended).await), (0, 0), "SC-52");
    assert_eq!(bench.record(ended).await.hot.works, 0);
    for one in Reconciled::ALL {
        assert_eq!(action(&bench, one), 1, "{}", one.name());
    }
    let readings = bench.engine.metrics();
    let family = readings.iter().find(|readings| readings.family.name == ACTIONS).unwrap();
    assert_eq!(family.samples.len(), 3, "SC-57 no other label exists");
}

pub async fn sc_54_a_commit_that_fails_leaves_the_entry(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    kind.insert_due(&bench.store, P0, &orphan(7)).await;
    bench.pass(10_000).await;
    bench.probe.refuse(|asked| matches!(asked, Asked::Commit(..)));
    let (log, _guard) = Log::listen();
    let report = bench.scan(NAME).await;
    assert_eq!((report.processed, report.errors, bench.entries(Timer::GroupCancel).await), (0, 1, 1));
    assert_eq!(log.take("items were left for later").len(), 1);
    assert!(report.next_due >= Some(bench.engine.now() + 10_000), "SR-14");
    bench.probe.obey();
    assert_eq!(bench.counts(NAME).await, (1, 0));
}

pub async fn sc_55_a_group_that_does_not_decode_is_parked_and_not_counted(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let flow = owing(&bench, 2, None).await;
    let key = Key::Execution(member_id(flow, "j"));
    plant::damage(&*bench.store, key, schema::HOT).await;
    let bench = bench.again().await;
    bench.pass(10_000).await;
    let before = plant::raw(&*bench.store, key).await;
    assert_eq!(bench.counts(NAME).await, (0, 1));
    assert_eq!(Reconciled::ALL.map(|one| action(&bench, one)), [0; 3], "no metric");
    assert!(before.is_some());
    assert_eq!(plant::raw(&*bench.store, key).await, before, "untouched");
    assert_eq!((bench.entries(Timer::GroupCancel).await, bench.dead_letters().await.len()), (0, 1), "and parked");
}

pub async fn sr_26_damage_in_a_part_that_few_commands_load_is_parked_at_once(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let flow = owing(&bench, 2, None).await;
    let key = Key::Execution(member_id(flow, "j"));
    plant::damage(&*bench.store, key, schema::INLETS).await;
    let bench = bench.again().await;
    let before = plant::raw(&*bench.store, key).await;
    let (log, _guard) = Log::listen();
    assert_eq!(bench.counts(DISPATCHER).await, (0, 1));
    let letters = bench.dead_letters().await;
    assert!(letters.len() == 1 && letters[0].error.contains("inlets"), "{letters:?}");
    assert_eq!(bench.entries(Timer::GroupCancel).await, 0, "nobody tries it eighteen times");
    assert_eq!(plant::raw(&*bench.store, key).await, before, "untouched");
    let lines = log.take("an item is parked");
    assert!(lines.len() == 1 && lines[0].0 == Level::ERROR && lines[0].1.contains(DISPATCHER), "SR-43 {lines:?}");
}

pub async fn sc_58_what_changed_something_is_logged_with_flow_and_downstream(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let flow = race(&bench, 1, None).await;
    let downstream = member_id(flow, "j");
    plant::entry(&*bench.store, Key::Execution(downstream), Due { timer: Timer::GroupCancel, at: bench.engine.now() })
        .await;
    owing(&bench, 1, None).await;
    let bench = bench.again().await;
    bench.pass(10_000).await;
    let (log, _guard) = Log::listen();
    bench.scan(NAME).await;
    let lines = log.take("was settled");
    assert_eq!(lines.len(), 1, "nothing about the one that was left alone: {lines:?}");
    let (level, line) = &lines[0];
    let named = line.contains(&format!("{flow:?}")) && line.contains(&format!("{downstream:?}"));
    assert!(*level == Level::DEBUG && line.contains("stale_removed") && named, "{line}");
}

pub async fn sc_59_a_filter_applies_through_the_flow(kind: impl Kind) {
    let filter = Filter { namespace: None, tag: Some(("team".into(), "a".into())) };
    let bench = Bench::with(&kind, 1, filter).await;
    let (mine, other) = (owing(&bench, 1, Some("a")).await, owing(&bench, 1, Some("b")).await);
    let untagged = owing(&bench, 1, None).await;
    let bench = bench.again().await;
    bench.pass(10_000).await;
    let report = bench.scan(NAME).await;
    assert_eq!((report.filtered, action(&bench, Reconciled::LeftAlone)), (2, 1));
    let report = bench.scan(DISPATCHER).await;
    assert_eq!((report.processed, report.filtered), (1, 2), "{report:?}");
    assert_eq!(cancelled(&bench, mine).await, 1);
    assert_eq!((cancelled(&bench, other).await, cancelled(&bench, untagged).await), (0, 0), "SR-36");
    let elsewhere = Bench::new(&kind).await;
    assert_eq!(action(&elsewhere, Reconciled::LeftAlone), 0, "each engine counts for itself");
}

pub async fn sc_161_the_oldest_group_is_first_and_one_damaged_sibling_holds_up_nobody(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let (younger, older) = (race(&bench, 3, None).await, race(&bench, 3, None).await);
    plant::owe(&*bench.store, member_id(older, "j"), bench.engine.now()).await;
    bench.pass(5).await;
    plant::owe(&*bench.store, member_id(younger, "j"), bench.engine.now()).await;
    let bench = bench.again().await;
    assert_eq!(bench.counts(DISPATCHER).await, (2, 0));
    let ends = bench.events().await.into_iter().filter_map(|event| match event.fact {
        Fact::Finished { reason: Reason::Sibling, .. } => event.execution,
        _ => None,
    });
    let of = |flow| move |at| member_id(flow, &format!("s{at:05}"));
    let expected: Vec<ExecutionId> = (0..3).map(of(older)).chain((0..3).map(of(younger))).collect();
    assert_eq!(ends.collect::<Vec<_>>(), expected);

    let many = kind.many().min(3_000);
    let flow = owing(&bench, many, None).await;
    plant::damage(&*bench.store, Key::Execution(member_id(flow, "s00700")), schema::HOT).await;
    let bench = bench.again().await;
    assert_eq!(bench.scan(DISPATCHER).await.errors, 0);
    bench.until_quiet().await;
    assert_eq!(cancelled(&bench, flow).await as usize, many - 1, "FL-121 all others");
    assert_eq!(bench.dead_letters().await.len(), 1, "it is parked on its own");
}

pub async fn sr_14_an_entry_that_is_too_young_is_due_when_it_is_old_enough(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    owing(&bench, 2, None).await;
    bench.pass(6_000).await;
    let young = bench.engine.now();
    owing(&bench, 2, None).await;
    bench.pass(5_000).await;
    let report = bench.again().await.scan(NAME).await;
    assert_eq!(
        report.next_due,
        Some(young + 10_000),
        "a time that is over would begin the next pass at once: {report:?}"
    );
}
