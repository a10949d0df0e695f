//! What was planted wrong in a store, and what sets it right.

use super::place::{Node, until};
use crate::kit::flows::work;
use crate::kit::kinds::Kind;
use crate::kit::plant;
use std::sync::Arc;
use weft_core::flow::member_id;
use weft_core::record::Key;
use weft_core::record::execution::PublicState;
use weft_core::record::member::{GroupPolicy, Then};
use weft_core::reply::Reconciled;
use weft_core::schema::{Due, Timer};
use weft_core::{FlowId, PartitionId, Time};
use weft_engine::Engine;
use weft_engine::flow::{FlowSubmission, Member};
use weft_engine::telemetry::Reading;

const P0: PartitionId = PartitionId(0);
const PROJECTOR: &str = "flow_projector";

/// The reading of a counter with at most one label.
fn count(engine: &Engine, name: &str, label: Option<&str>) -> u64 {
    let all = engine.metrics();
    let readings = all.iter().find(|readings| readings.family.name == name).expect("a metric of the table");
    let sample = readings.samples.iter().find(|(values, _)| values.first().map(|value| &**value) == label);
    match sample {
        Some((_, Reading::Count(count))) => *count,
        other => panic!("{name}: {other:?}"),
    }
}

pub async fn fl_264_planted_counters_are_repaired_once(kind: impl Kind) {
    let store = Arc::new(kind.open().await);
    let node = Node::quiet(&store).await;
    let flow = node.submit(FlowSubmission::new("v").member("a", work()).member("b", work()).edge("a", "b")).await;
    node.complete(flow, "a").await;
    node.kill();
    let due = |flow: &mut weft_core::record::Flow| flow.hot.verify_at = Some(flow.definition.created_at);
    let right = plant::flow(&*store, flow).await.summary;
    plant::change_flow(&*store, flow, |flow| {
        flow.summary.by_state[PublicState::Waiting as usize] = 7;
        flow.summary.failures = 3;
        due(flow);
    })
    .await;
    let node = Node::quiet(&store).await;
    assert_eq!(node.engine.scan(PROJECTOR, P0).await.unwrap().processed, 0, "once is a doubt");
    node.kill();
    plant::change_flow(&*store, flow, due).await;
    let node = Node::quiet(&store).await;
    assert_eq!(node.engine.scan(PROJECTOR, P0).await.unwrap().processed, 1, "twice is drift");
    assert_eq!(count(&node.engine, "weft_flow_summary_repairs_total", None), 1);
    let repaired = plant::flow(&*store, flow).await;
    assert_eq!((repaired.summary.by_state, repaired.summary.failures), (right.by_state, 0));
    assert_eq!(repaired.hot.verify_at, None, "FL-184");
    node.kill();
    plant::change_flow(&*store, flow, due).await;
    let node = Node::quiet(&store).await;
    node.engine.scan(PROJECTOR, P0).await.unwrap();
    let again = plant::flow(&*store, flow).await.summary;
    assert_eq!((again.by_state, again.change_no), (right.by_state, repaired.summary.change_no), "nothing changes");
    assert_eq!(count(&node.engine, "weft_flow_summary_repairs_total", None), 0);
    node.kill();
}

/// A race that somebody has won while two siblings live, or have ended.
async fn race(node: &Node, ended: bool) -> FlowId {
    let join = Member::new("j", work()).join(GroupPolicy::AnyOf, Then::LetRun);
    let flow = FlowSubmission::new("race").with(join).member("w", work()).member("x", work()).member("y", work());
    let flow = node.submit(flow.edge("w", "j").edge("x", "j").edge("y", "j")).await;
    for key in if ended { &["w", "x", "y"][..] } else { &["w"] } {
        node.complete(flow, key).await;
    }
    flow
}

pub async fn fl_265_each_row_of_the_safety_net_has_its_action(kind: impl Kind) {
    let store = Arc::new(kind.open().await);
    let node = Node::quiet(&store).await;
    let [gone, moved, idle, alive, over] = [
        race(&node, false).await,
        race(&node, false).await,
        race(&node, false).await,
        race(&node, false).await,
        race(&node, true).await,
    ];
    let now = node.engine.now();
    node.kill();
    let (old, older) = (Time::from_ms(now.ms() - 60_000), Time::from_ms(now.ms() - 90_000));
    let join = |flow| member_id(flow, "j");
    let at = |at| Due { timer: Timer::GroupCancel, at };
    // Row 1: the entry has moved on since, so what was seen is in the index no longer.
    plant::owe(&*store, join(moved), old).await;
    plant::entry(&*store, Key::Execution(join(moved)), at(older)).await;
    // Rows 2 and 3: an entry of nobody, and one of a group that owes nothing.
    plant::orphan(&*store, Key::Execution(join(gone)), at(old)).await;
    plant::entry(&*store, Key::Execution(join(idle)), at(old)).await;
    // Rows 4 and 5.
    plant::owe(&*store, join(alive), old).await;
    plant::owe(&*store, join(over), old).await;
    let before = [moved, idle, alive].map(|flow| Key::Execution(join(flow)));
    let before = [
        plant::stored(&*store, before[0]).await,
        plant::stored(&*store, before[1]).await,
        plant::stored(&*store, before[2]).await,
    ];

    let node = Node::quiet(&store).await;
    // What was written in the same moment as it is looked at may have taken the entry along.
    until("a later moment", async || (node.engine.now() > now).then_some(())).await;
    let report = node.engine.scan("edge_cancel_reconciler", P0).await.unwrap();
    assert_eq!((report.processed, report.errors), (3, 0));
    let action = |action: Reconciled| count(&node.engine, "weft_sibling_cancel_reconcile_total", Some(action.name()));
    assert_eq!(Reconciled::ALL.map(action), [3, 2, 1], "left alone: the moved one twice, and the live one");
    for was in before {
        let (record, revision) = was.unwrap();
        let (_, now) = plant::stored(&*store, record.key()).await.unwrap();
        assert_eq!(now, revision, "FL-125 {:?}", record.key());
    }
    let left: Vec<_> = plant::entries(&*store, P0, Timer::GroupCancel).await.iter().map(|entry| entry.key()).collect();
    let keys = [moved, moved, alive].map(|flow| Some(Key::Execution(join(flow))));
    assert!(left.len() == 3 && keys.iter().all(|key| left.contains(key)), "{left:?}");
    let settled = plant::execution(&*store, join(over)).await;
    assert_eq!(settled.member().unwrap().groups[0].owed, None, "owed and entry went together");
    for flow in [moved, alive] {
        assert_eq!(node.summary(flow).await.of(PublicState::Cancelled), 0, "it cancels nobody");
    }
    node.kill();
}
