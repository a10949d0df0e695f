//! Flows that end by time or by force, and that go.

use super::bench::Bench;
use crate::kit::flows::*;
use crate::kit::probe::Asked;
use crate::kit::{kept, memory, open, open_faulty_on, pass, plant};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use weft_core::ExecutionId;
use weft_core::event::{self, Fact};
use weft_core::flow::member_id;
use weft_core::record::Key;
use weft_core::record::execution::{Outcome, PublicState, State};
use weft_core::record::flow::Cause;
use weft_core::record::member::{GroupPolicy, Then};
use weft_core::schema::Kind;
use weft_engine::flow::{FlowCancellation, FlowSubmission, Member};
use weft_engine::telemetry::Reading;
use weft_engine::{Completion, Config, Engine};
use weft_store::MemoryStore;
use weft_store::faulty::Faults;

/// The gauge, counted anew.
async fn gauge(engine: &Engine, name: &str) -> f64 {
    pass(10_000).await;
    engine.metrics();
    // It is counted in the background, and no call of this store takes time.
    for _ in 0..10 {
        pass(1).await;
    }
    for _ in 0..100 {
        pass(1).await;
        let all = engine.metrics();
        let readings = all.iter().find(|readings| readings.family.name == name).expect("a metric of the table");
        if let Some((_, Reading::Level(level))) = readings.samples.first() {
            return *level;
        }
    }
    panic!("{name} is counted");
}

/// How often each execution ended.
fn ends(store: &MemoryStore) -> BTreeMap<ExecutionId, usize> {
    let mut ends = BTreeMap::new();
    for entry in store.dump(P0).feed {
        for event in event::decode(&entry.events).expect("events of this version") {
            if let (Fact::Finished { .. }, Some(id)) = (&event.fact, event.execution) {
                *ends.entry(id).or_default() += 1;
            }
        }
    }
    ends
}

#[tokio::test(start_paused = true)]
async fn sc_152_the_deadline_of_a_flow_ends_it_with_its_members() {
    let bench = Bench::new().await;
    let flow = FlowSubmission::new("late").member("a", work()).member("b", work()).member("c", work().delay_ms(90_000));
    let flow = bench.submit(flow.edge("a", "b").deadline_in_ms(60_000)).await;
    let held = claim_all(&bench.client, 1).await.remove(0);
    pass(59_999).await;
    assert_eq!(bench.counts("execution_deadline").await, (0, 0), "not a moment before");
    pass(1).await;
    assert_eq!(bench.counts("execution_deadline").await, (1, 0));
    let ended = bench.record(flow).await;
    assert_eq!((ended.public_state().name(), ended.summary.of(PublicState::Cancelled)), ("failed", 3));
    let weft_core::record::flow::State::Done { cause, .. } = &ended.hot.state else { panic!("{:?}", ended.hot.state) };
    assert_eq!(*cause, Cause::Deadline);
    let late = bench.client.complete(Completion::of(&held)).await.unwrap_err();
    assert_eq!(late.code(), "cancelled");
}

#[tokio::test(start_paused = true)]
async fn sc_155_a_flow_goes_last_and_leaves_no_record() {
    let kit = open().await;
    let mut flow = fan(30);
    flow.retention_ms = Some(100_000);
    let flow = kit.client.submit_flow(flow).await.unwrap().value.id;
    work_off(&kit.client).await;
    let goes = |key: &Key| !matches!(key.kind(), Kind::Audit | Kind::Register);
    let mut last = usize::MAX;
    pass(99_000).await;
    assert!(kept(&kit.store).len() > 60, "not a moment before");
    for _ in 0..400 {
        pass(1_000).await;
        let left: Vec<Key> = kept(&kit.store).into_iter().filter(goes).collect();
        let parts = left.iter().filter(|key| !matches!(key, Key::Flow(_))).count();
        assert!(parts <= last, "nothing comes back");
        assert!(parts == 0 || left.contains(&Key::Flow(flow)), "the flow goes last: {left:?}");
        last = parts;
        if left.is_empty() {
            return;
        }
    }
    panic!("{:?} are left", kept(&kit.store));
}

#[tokio::test(start_paused = true)]
async fn sc_160_a_cancel_that_a_dead_node_left_is_finished_by_another() {
    let (store, faulty, first) = open_faulty_on(memory(1).shared(), Faults::default(), Config::default()).await;
    let client = first.client("shop").unwrap();
    let flow = (0..10_000).fold(FlowSubmission::new("flat"), |flow, at| flow.member(format!("m{at:05}"), work()));
    let flow = client.submit_flow(flow).await.unwrap().value.id;
    until_quiet(&store).await;
    let slow = Faults { before_ms: (1_000, 1_000), ..Faults::default() };
    faulty.set_faults(slow);
    client.cancel_flow(FlowCancellation::new(flow, "the order was withdrawn")).await.unwrap();
    faulty.set_faults(Faults { commit_not_applied: 1_000, read_error: 1_000, ..slow });
    pass(5_000).await;
    let some = ends(&store).len();
    assert!(some > 0 && some < 10_000, "{some} were cancelled when the node died");

    let second = Engine::open(store.node_handle(), Config::default()).await.unwrap();
    // The first node is dead: nobody hears of it again, and its share passes on.
    let owed = gauge(&second, "weft_cancel_backlog").await;
    assert!(owed <= (10_000 - some) as f64, "{owed} members are owed after {some}");
    until_quiet(&store).await;
    let ends = ends(&store);
    assert_eq!((ends.len(), ends.values().max()), (10_000, Some(&1)), "each once");
    let client = second.client("shop").unwrap();
    assert_eq!(state(&client, flow).await, "cancelled");
    for key in ["m00000", "m05000", "m09999"] {
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
    assert_eq!(gauge(&second, "weft_cancel_backlog").await, 0.0);
}

#[tokio::test(start_paused = true)]
async fn sr_41_what_commits_left_is_told_until_it_is_done() {
    let bench = Bench::new().await;
    let join = Member::new("j", work()).join(GroupPolicy::AnyOf, Then::LetRun);
    let race = FlowSubmission::new("race").with(join).member("w", work().priority(9)).member("s", work());
    let race = bench.submit(race.edge("w", "j").edge("s", "j")).await;
    let winner = claim_all(&bench.client, 1).await.remove(0);
    bench.client.complete(Completion::of(&winner)).await.unwrap();
    plant::owe(&bench.store, member_id(race, "j"), bench.engine.now()).await;
    let bench = bench.again().await;
    assert_eq!(gauge(&bench.engine, "weft_sibling_cancel_backlog").await, 1.0);
    bench.scan("edge_cancel_dispatcher").await;
    assert_eq!(gauge(&bench.engine, "weft_sibling_cancel_backlog").await, 0.0);

    bench.submit(fan(2_500)).await;
    until_quiet(&bench.store).await;
    let held = claim_all(&bench.client, 2).await;
    let source = held.iter().find(|work| key_of(work) == "source").expect("it waits for nothing");
    let commits = AtomicUsize::new(0);
    bench.probe.refuse(move |asked| matches!(asked, Asked::Commit(_)) && commits.fetch_add(1, Ordering::SeqCst) > 0);
    bench.client.complete(Completion::of(source)).await.unwrap();
    assert_eq!(gauge(&bench.engine, "weft_continuations").await, 1.0);
    bench.probe.obey();
    bench.scan("dependency_reconciler").await;
    until_quiet(&bench.store).await;
    assert_eq!(gauge(&bench.engine, "weft_continuations").await, 0.0);
}

#[tokio::test(start_paused = true)]
async fn sc_160_the_backlog_counts_members_and_not_flows() {
    let bench = Bench::new().await;
    let flow = bench.flow(7).await;
    let held = claim_all(&bench.client, 3).await;
    let remaining =
        weft_core::record::flow::Remaining::Cancel(weft_core::record::flow::Mode::Graceful { grace_ms: 60_000 });
    bench.client.cancel_flow(FlowCancellation::new(flow, "wait").remaining(remaining)).await.unwrap();
    assert_eq!(gauge(&bench.engine, "weft_cancel_backlog").await, 3.0, "those whose grace runs are owed");
    pass(60_000).await;
    assert_eq!(gauge(&bench.engine, "weft_cancel_backlog").await, 3.0, "and counted once when it is over");
    bench.scan("cancel_reconciler").await;
    assert_eq!(gauge(&bench.engine, "weft_cancel_backlog").await, 0.0);
    assert_eq!(bench.client.complete(Completion::of(&held[0])).await.unwrap_err().code(), "cancelled");
}
