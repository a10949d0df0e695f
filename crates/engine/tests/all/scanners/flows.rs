//! Flows that end by time or by force, and that go.

use crate::kit::bench::Bench;
use crate::kit::flows::*;
use crate::kit::kinds::Kind;
use crate::kit::log::Log;
use crate::kit::plant;
use crate::kit::probe::Asked;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use tracing::Level;
use weft_core::event::Fact;
use weft_core::flow::member_id;
use weft_core::record::Key;
use weft_core::record::execution::{Outcome, PublicState, State};
use weft_core::record::flow::{Cause, Mode, Remaining};
use weft_core::record::member::{GroupPolicy, Then};
use weft_core::schema::Kind as RecordKind;
use weft_core::{ExecutionId, PartitionId};
use weft_engine::Completion;
use weft_engine::config::Filter;
use weft_engine::flow::{FlowCancellation, FlowSubmission, Member};
use weft_engine::telemetry::Reading;
use weft_store::Store;

/// Longest wait between two counts of a backlog.
const COUNT_MS: u64 = 10_000;
/// Counts that are waited for: a call that a loaded server does not answer in time costs one of them.
const COUNTS: usize = 20;

/// The gauge as it was last counted.
fn reading(bench: &Bench<impl Store>, name: &str) -> f64 {
    let all = bench.engine.metrics();
    let readings = all.iter().find(|readings| readings.family.name == name).expect("a metric of the table");
    match readings.samples.first() {
        Some((_, Reading::Level(level))) => *level,
        other => panic!("{name}: {other:?}"),
    }
}

/// The gauge after the time in which it is counted anew.
async fn gauge(bench: &Bench<impl Store>, name: &str) -> f64 {
    // Until the next look, after which it is counted.
    bench.pass(30_000).await;
    reading(bench, name)
}

/// Lets time go on until the gauge has this value.
async fn until_gauge(bench: &Bench<impl Store>, name: &str, expected: f64) {
    for _ in 0..COUNTS {
        bench.pass(COUNT_MS).await;
        if reading(bench, name) == expected {
            return;
        }
    }
    panic!("{name} is {}, not {expected}", reading(bench, name));
}

/// How often each execution ended.
async fn ends(bench: &Bench<impl Store>) -> BTreeMap<ExecutionId, usize> {
    let mut ends = BTreeMap::new();
    for event in bench.events().await {
        if let (Fact::Finished { .. }, Some(id)) = (&event.fact, event.execution) {
            *ends.entry(id).or_default() += 1;
        }
    }
    ends
}

pub async fn sc_152_the_deadline_of_a_flow_ends_it_with_its_members(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let flow = FlowSubmission::new("late").member("a", work()).member("b", work()).member("c", work().delay_ms(90_000));
    let flow = bench.submit(flow.edge("a", "b").deadline_in_ms(60_000)).await;
    let held = claim_all(&bench.client, 1).await.remove(0);
    bench.pass(59_999).await;
    assert_eq!(bench.counts("execution_deadline").await, (0, 0), "not a moment before");
    bench.pass(1).await;
    assert_eq!(bench.counts("execution_deadline").await, (1, 0));
    let ended = bench.record(flow).await;
    assert_eq!((ended.public_state().name(), ended.summary.of(PublicState::Cancelled)), ("failed", 3));
    let weft_core::record::flow::State::Done { cause, .. } = &ended.hot.state else { panic!("{:?}", ended.hot.state) };
    assert_eq!(*cause, Cause::Deadline);
    let late = bench.client.complete(Completion::of(&held)).await.unwrap_err();
    assert_eq!(late.code(), "cancelled");
}

pub async fn sc_155_a_flow_goes_last_and_leaves_no_record(kind: impl Kind) {
    let bench = Bench::running(&kind, 1).await;
    let mut flow = fan(30);
    flow.retention_ms = Some(100_000);
    let flow = bench.submit(flow).await;
    bench.work_off().await;
    let goes = |key: &Key| !matches!(key.kind(), RecordKind::Audit | RecordKind::Register);
    let mut last = usize::MAX;
    bench.pass(99_000).await;
    assert!(plant::records(&*bench.store, P0).await.len() > 60, "not a moment before");
    for _ in 0..400 {
        bench.pass(1_000).await;
        let left: Vec<Key> = plant::records(&*bench.store, P0).await.into_keys().filter(goes).collect();
        let parts = left.iter().filter(|key| !matches!(key, Key::Flow(_))).count();
        assert!(parts <= last, "nothing comes back");
        assert!(parts == 0 || left.contains(&Key::Flow(flow)), "the flow goes last: {left:?}");
        last = parts;
        if left.is_empty() {
            return;
        }
    }
    panic!("{last} records are left");
}

pub async fn sc_160_a_cancel_that_a_dead_node_left_is_finished_by_another(kind: impl Kind) {
    let (bench, many) = (Bench::shared(&kind).await, kind.many());
    let flow = (0..many).fold(FlowSubmission::new("flat"), |flow, at| flow.member(format!("m{at:05}"), work()));
    let flow = bench.submit(flow).await;
    bench.until_quiet().await;
    // The reply comes with the first commit, and the node is cut off before the last of what follows.
    bench.probe.cut_after(2);
    bench.client.cancel_flow(FlowCancellation::new(flow, "the order was withdrawn")).await.unwrap();
    bench.pass(5_000).await;
    let some = ends(&bench).await.len();
    assert!(some > 0 && some < many, "{some} were cancelled when the node died");

    let second = bench.another().await;
    // The first node is dead: nobody hears of it again, and its share passes on.
    let owed = gauge(&second, "weft_cancel_backlog").await;
    assert!(owed <= (many - some) as f64, "{owed} members are owed after {some}");
    second.until_quiet().await;
    let ends = ends(&second).await;
    assert_eq!((ends.len(), ends.values().max()), (many, Some(&1)), "each once");
    let client = &second.client;
    assert_eq!(state(client, flow).await, "cancelled");
    for at in [0, many / 2, many - 1] {
        let key = &*format!("m{at:05}");
        let State::Done { outcome, .. } = client.member(flow, key).await.unwrap().execution.hot.state.clone() else {
            panic!("{key} is done")
        };
        assert_eq!(outcome, Outcome::Cancelled);
    }
    let told = client.cancel_flow(FlowCancellation::new(flow, "again")).await.unwrap_err();
    assert_eq!(told.code(), "flow_terminal");
    let weft_core::record::flow::State::Done { cause, .. } = client.flow(flow).await.unwrap().flow.hot.state.clone()
    else {
        panic!("it is done")
    };
    assert_eq!(cause, Cause::Requested { reason: "the order was withdrawn".into() });
    until_gauge(&second, "weft_cancel_backlog", 0.0).await;
}

pub async fn sr_41_what_commits_left_is_told_until_it_is_done(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let join = Member::new("j", work()).join(GroupPolicy::AnyOf, Then::LetRun);
    let race = FlowSubmission::new("race").with(join).member("w", work().priority(9)).member("s", work());
    let race = bench.submit(race.edge("w", "j").edge("s", "j")).await;
    let winner = claim_all(&bench.client, 1).await.remove(0);
    bench.client.complete(Completion::of(&winner)).await.unwrap();
    plant::owe(&*bench.store, member_id(race, "j"), bench.engine.now()).await;
    let bench = bench.again().await;
    until_gauge(&bench, "weft_sibling_cancel_backlog", 1.0).await;
    bench.scan("edge_cancel_dispatcher").await;
    until_gauge(&bench, "weft_sibling_cancel_backlog", 0.0).await;

    bench.submit(fan(kind.many().min(2_500))).await;
    bench.until_quiet().await;
    let held = claim_all(&bench.client, 2).await;
    let source = held.iter().find(|work| key_of(work) == "source").expect("it waits for nothing");
    let commits = AtomicUsize::new(0);
    bench.probe.refuse(move |asked| asked.is_work() && commits.fetch_add(1, Ordering::SeqCst) > 0);
    bench.client.complete(Completion::of(source)).await.unwrap();
    until_gauge(&bench, "weft_continuations", 1.0).await;
    bench.probe.obey();
    bench.scan("dependency_reconciler").await;
    bench.until_quiet().await;
    until_gauge(&bench, "weft_continuations", 0.0).await;
}

pub async fn sr_40_a_count_that_meets_what_cannot_be_read_leaves_the_gauge_as_it_was(kind: impl Kind) {
    const NAME: &str = "weft_cancel_backlog";
    let (first, last) = (P0, PartitionId(2));
    let bench = Bench::with(&kind, 3, Filter::NONE).await;
    let mut flows = BTreeMap::new();
    for number in 0..64 {
        let flow = FlowSubmission::new("keyed").idempotency_key(format!("k{number}"));
        let flow = bench.submit(flow.member("a", work()).member("b", work())).await;
        flows.insert(flow.partition(), flow);
    }
    assert_eq!(flows.len(), 3, "one in each partition");
    while !claim_all(&bench.client, 256).await.is_empty() {}
    for flow in flows.values() {
        let remaining = Remaining::Cancel(Mode::Graceful { grace_ms: 600_000 });
        bench.client.cancel_flow(FlowCancellation::new(*flow, "wait").remaining(remaining)).await.unwrap();
    }
    until_gauge(&bench, NAME, 6.0).await;
    let (log, _guard) = Log::listen();
    plant::change_flow(&*bench.store, flows[&PartitionId(1)], |flow| flow.summary.cancel_owed = 1).await;
    for partition in [first, PartitionId(1), last] {
        bench.probe.refuse(move |asked| matches!(asked, Asked::Read(of, keys) if *of == partition && keys.iter().any(|key| matches!(key, Key::Flow(_)))));
        let lines = partial_counts(&bench, &log, 6.0, "refused by the test").await;
        assert!(
            lines.iter().all(|(level, _)| *level == Level::DEBUG),
            "the flow of {partition} could not be read: {lines:?}"
        );
    }
    bench.probe.refuse(|asked| matches!(asked, Asked::Scan(None, scan) if scan.limit > 1_000));
    assert_eq!(gauge(&bench, NAME).await, 6.0, "a partition could not be counted");
    bench.probe.obey();
    until_gauge(&bench, NAME, 5.0).await;
    plant::damage(&*bench.store, Key::Flow(flows[&last]), weft_core::schema::flow::SUMMARY).await;
    plant::change_flow(&*bench.store, flows[&first], |flow| flow.summary.cancel_owed = 1).await;
    // Damaged is neither zero nor left out.
    partial_counts(&bench, &log, 5.0, "does not decode").await;
}

/// The lines of counts that ended with this error, while the gauge of cancels stays as it was.
async fn partial_counts(bench: &Bench<impl Store>, log: &Log, stays: f64, error: &str) -> Vec<(Level, String)> {
    log.take("");
    for _ in 0..COUNTS {
        assert_eq!(gauge(bench, "weft_cancel_backlog").await, stays);
        let mut lines = log.take("not counted in every partition");
        lines.retain(|(_, line)| line.contains("scanner=\"cancel_reconciler\"") && line.contains(error));
        if !lines.is_empty() {
            return lines;
        }
    }
    panic!("no count ended with: {error}");
}

pub async fn sc_160_the_backlog_counts_members_and_not_flows(kind: impl Kind) {
    // Longer than all counts that are waited for.
    const GRACE_MS: u64 = 600_000;
    let bench = Bench::new(&kind).await;
    let flow = bench.flow(7).await;
    let held = claim_all(&bench.client, 3).await;
    let remaining =
        weft_core::record::flow::Remaining::Cancel(weft_core::record::flow::Mode::Graceful { grace_ms: GRACE_MS });
    bench.client.cancel_flow(FlowCancellation::new(flow, "wait").remaining(remaining)).await.unwrap();
    // Those whose grace runs are owed, and counted once when it is over.
    until_gauge(&bench, "weft_cancel_backlog", 3.0).await;
    bench.pass(GRACE_MS).await;
    until_gauge(&bench, "weft_cancel_backlog", 3.0).await;
    bench.scan("cancel_reconciler").await;
    until_gauge(&bench, "weft_cancel_backlog", 0.0).await;
    assert_eq!(bench.client.complete(Completion::of(&held[0])).await.unwrap_err().code(), "cancelled");
}
