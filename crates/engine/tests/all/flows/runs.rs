//! Flows as they run: resolved in the commit, carried on at once, verified, purged.

use crate::kit::bench::Bench;
use crate::kit::flows::*;
use crate::kit::kinds::Kind;
use crate::kit::plant;
use weft_core::command::Fence;
use weft_core::flow::member_id;
use weft_core::record::Key;
use weft_core::record::continuation::Work;
use weft_core::record::edge::On;
use weft_core::record::execution::PublicState;
use weft_core::record::flow::{FailurePolicy, Mode, PublicFlowState, Remaining};
use weft_core::schema::{Kind as RecordKind, Timer};
use weft_engine::flow::{Edge, FlowSubmission, Sealing};
use weft_engine::{Completion, Failing, ForceCompleting, Replaying};
use weft_store::Store;

pub async fn sr_62_a_fan_out_goes_on_at_once_and_no_scanner_is_needed(kind: impl Kind) {
    let (bench, many) = (Bench::running(&kind, 1).await, kind.many().min(2_500));
    let flow = bench.submit(fan(many)).await;
    bench.until_quiet().await;
    let source = bench.claim().await;
    bench.client.complete(Completion::of(&source)).await.unwrap();
    bench.until_quiet().await;
    let summary = bench.client.flow(flow).await.unwrap().flow.summary;
    assert_eq!(summary.of(PublicState::Waiting) as usize, many, "FL-257 every child is ready once");
    assert_eq!(bench.engine.stats().scanner_processed, 0, "SC-121 no timer and no scanner in between");
    assert_eq!(bench.work_off().await.len(), many + 1);
    assert_eq!(state(&bench.client, flow).await, "completed");
}

pub async fn sc_159_a_fan_out_that_a_dead_node_left_is_finished_by_another(kind: impl Kind) {
    let (bench, many) = (Bench::shared(&kind).await, kind.many().min(2_500));
    let flow = bench.submit(fan(many)).await;
    bench.until_quiet().await;
    let source = bench.claim().await;
    // The reply comes with the first commit, and the node is cut off before the next arrives.
    bench.probe.cut_after(1);
    bench.client.complete(Completion::of(&source)).await.unwrap();
    bench.pass(5_000).await;
    let rest = plant::stored(&*bench.store, Key::Continuation(source.id, Work::Resolve)).await;
    assert!(rest.is_some(), "FL-83 the rest is durable");
    let second = bench.another().await;
    second.until_quiet().await;
    let summary = second.client.flow(flow).await.unwrap().flow.summary;
    let counts = (summary.of(PublicState::Waiting) as usize, summary.edges_pending as usize);
    assert_eq!(counts, (many, many));
}

pub async fn fl_180_totals_are_verified_after_a_change_and_never_repaired(kind: impl Kind) {
    let bench = Bench::running(&kind, 1).await;
    let flow = bench.submit(fan(30)).await;
    bench.work_off().await;
    for _ in 0..100 {
        bench.pass(500).await;
        if bench.client.flow(flow).await.unwrap().flow.summary.verified_at.is_some() {
            break;
        }
    }
    let verified = bench.client.flow(flow).await.unwrap().flow;
    assert_eq!(verified.summary.verified_no, Some(verified.summary.change_no), "SC-26");
    assert_eq!(verified.hot.verify_at, None, "FL-184 no timer is left");
    assert_eq!(bench.entries(Timer::FlowVerify).await, 0);
}

pub async fn sc_11_a_flow_without_members_is_open_and_costs_no_count(kind: impl Kind) {
    let bench = Bench::running(&kind, 1).await;
    let flow = bench.submit(FlowSubmission::new("empty").unsealed()).await;
    let view = bench.client.flow(flow).await.unwrap().flow;
    assert_eq!((view.public_state(), view.summary.total_members, view.hot.verify_at), (PublicFlowState::Open, 0, None));
    let refused = bench.client.seal_flow(Sealing::new(flow)).await.unwrap_err();
    assert_eq!(refused.code(), "empty_flow", "FL-57");
}

pub async fn fl_132_fail_fast_cancels_what_lives(kind: impl Kind) {
    let bench = Bench::running(&kind, 1).await;
    let remaining = Remaining::Cancel(Mode::Immediate);
    let flow = fan(300).failure(FailurePolicy::FailFast { remaining });
    let flow = bench.submit(flow).await;
    let source = bench.claim().await;
    bench.client.complete(Completion::of(&source)).await.unwrap();
    let some = claim_all(&bench.client, 5).await;
    bench.client.fail(Failing::of(&some[0])).await.unwrap();
    bench.until_quiet().await;
    let view = bench.meanwhile(bench.client.wait_flow(flow, None, 1_000)).await.unwrap();
    assert_eq!((view.flow.public_state(), view.flow.summary.failures), (PublicFlowState::Failed, 1));
}

pub async fn fl_202_a_purged_flow_leaves_nothing_behind(kind: impl Kind) {
    let bench = Bench::running(&kind, 1).await;
    let flow = fan(1_200).link(Edge::new("source", "join").on(On::Any).group("tail"));
    let flow = bench.submit(flow.idempotency_key(&b"once"[..])).await;
    bench.until_quiet().await;
    assert_eq!(bench.client.purge_flow(flow, "", None).await.unwrap_err().code(), "flow_not_terminal", "FL-203");
    bench.work_off().await;
    assert_eq!(state(&bench.client, flow).await, "completed");
    bench.client.purge_flow(flow, "done with it", None).await.unwrap();
    assert_eq!(bench.client.flow(flow).await.unwrap_err().code(), "flow_not_found");
    bench.until_quiet().await;
    for _ in 0..200 {
        bench.pass(1_000).await;
    }
    let stays = |key: &Key| matches!(key.kind(), RecordKind::Dedup | RecordKind::Audit | RecordKind::Register);
    let left = plant::records(&*bench.store, P0).await.into_keys();
    let left: Vec<Key> = left.filter(|key| !stays(key)).collect();
    assert!(left.is_empty(), "{left:?}");
}

pub async fn sc_159_a_pending_edge_whose_upstream_has_ended_is_found_by_the_audit(kind: impl Kind) {
    let bench = Bench::running(&kind, 1).await;
    let flow = FlowSubmission::new("audited").member("a", work()).member("b", work()).edge("a", "b");
    let flow = bench.submit(flow).await;
    let a = bench.claim().await;
    bench.client.complete(Completion::of(&a)).await.unwrap();
    // As if the edge had not been resolved: all but the upstream's own end is taken back.
    bench.engine.shutdown().await;
    plant::pending(&*bench.store, flow).await;
    let bench = bench.another().await;
    assert_eq!(bench.client.member(flow, "b").await.unwrap().public_state, PublicState::WaitingChildren);
    for _ in 0..260 {
        bench.pass(2_500).await;
        if bench.client.member(flow, "b").await.unwrap().public_state == PublicState::Waiting {
            return;
        }
    }
    panic!("the audit finds it within eleven minutes");
}

pub async fn fl_74_a_holder_reads_what_an_operator_gave_before_a_replay(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let flow = FlowSubmission::new("given").member("u", work()).member("d", work());
    let flow = bench.submit(flow.link(Edge::new("u", "d").input("x"))).await;
    let u = member_id(flow, "u");
    bench.client.force_complete(ForceCompleting::new(u, "by hand").result(&b"first"[..])).await.unwrap();
    let held = bench.claim().await;
    let fence = Fence { lease: held.lease, epoch: held.epoch };
    let read = async || {
        let page = bench.client.held_input(held.id, fence, "x", None).await.unwrap();
        page.values[0].2.as_ref().map(|payload| payload.bytes.clone())
    };
    bench.client.replay(Replaying::new(u, "again")).await.unwrap();
    assert_eq!(read().await.as_deref(), Some(&b"first"[..]), "while it lives again");
    bench.client.force_complete(ForceCompleting::new(u, "by hand").result(&b"second"[..])).await.unwrap();
    assert_eq!(read().await.as_deref(), Some(&b"first"[..]));
    let now = bench.client.result(u, 0).await.unwrap().bytes;
    assert_eq!(now.as_deref(), Some(&b"second"[..]), "whoever asks for its result gets that of its last end");
}

pub async fn fl_86_a_chain_is_skipped_in_few_commits_and_without_a_wait(kind: impl Kind) {
    let (bench, length) = (Bench::running(&kind, 1).await, kind.many().min(4_000));
    let mut flow = FlowSubmission::new("chain").member("m0", work());
    for at in 1..length {
        flow = flow.member(format!("m{at}"), work()).edge(format!("m{}", at - 1), format!("m{at}"));
    }
    let flow = bench.submit(flow).await;
    bench.until_quiet().await;
    let first = bench.claim().await;
    let (commits, began) = (bench.engine.stats().commits, bench.engine.now());
    bench.client.fail(Failing::of(&first)).await.unwrap();
    let view = bench.client.wait_flow(flow, None, 60_000).await.unwrap();
    assert_eq!(view.flow.summary.of(PublicState::Skipped) as usize, length - 1);
    let spent = bench.engine.stats().commits - commits;
    // A skip is the record of a member and that of an edge, and a third is reckoned with.
    let skips = (bench.store.describe().batch_records / 3).min(1_000);
    assert!(spent <= 2 + length.div_ceil(skips) as u64, "{spent} commits, though one takes {skips} skips");
    assert_eq!(bench.engine.now(), began, "no timer and no scanner in between");
}
