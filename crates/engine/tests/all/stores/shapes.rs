//! Small graphs, step by step.

use super::place::{Node, until};
use crate::kit::flows::{key_of, work};
use crate::kit::kinds::Kind;
use std::sync::Arc;
use weft_core::flow::member_id;
use weft_core::record::edge::On;
use weft_core::record::execution::PublicState;
use weft_core::record::flow::{Mode, Remaining};
use weft_core::record::member::{GroupPolicy, Then};
use weft_engine::flow::{Edge, FlowCancellation, FlowSubmission, Growing, Member, MemberFilter};
use weft_engine::{Claim, Completion, Failing, Replaying, Submission};

const CANCEL: Then = Then::CancelRemaining(Mode::Immediate);

/// Members and edges of a line like `a b a>b`; `a!>b` on failure, `a*>b` on any end.
fn graph(line: &str) -> FlowSubmission {
    let mut flow = FlowSubmission::new("graph");
    for word in line.split_whitespace() {
        flow = match word.split_once('>') {
            None => flow.member(word, work()),
            Some((from, to)) => {
                let on = if from.ends_with('!') {
                    On::Failure
                } else if from.ends_with('*') {
                    On::Any
                } else {
                    On::Success
                };
                flow.link(Edge::new(from.trim_end_matches(['!', '*']), to).on(on))
            }
        };
    }
    flow
}

pub async fn fl_250_a_diamond_runs_and_its_join_gets_both_inputs(kind: impl Kind) {
    let node = Node::start(&Arc::new(kind.open().await)).await;
    let flow =
        graph("a b c d a>b a>c").link(Edge::new("b", "d").input("left")).link(Edge::new("c", "d").input("right"));
    let submitted = node.client.submit_flow(flow).await.unwrap().value;
    let keys: Vec<&str> = submitted.members.iter().map(|(key, _)| &**key).collect();
    assert_eq!((keys, submitted.revision), (vec!["a", "b", "c", "d"], 1), "FL-41");
    let flow = submitted.id;
    node.complete(flow, "a").await;
    node.complete(flow, "b").await;
    assert_eq!(node.states(flow, "c d").await, ["waiting", "waiting_children"]);
    node.complete(flow, "c").await;
    let d = node.claim(flow, "d").await;
    let inputs: Vec<(&str, &str)> = d.inputs.iter().map(|input| (&*input.name, &*input.upstream)).collect();
    assert_eq!(inputs, [("left", "b"), ("right", "c")], "FL-77 ready with what made it so");
    let waiting = node.client.wait_flow(flow, None, 30_000);
    let (waited, completed) = tokio::join!(waiting, node.client.complete(Completion::of(&d)));
    completed.unwrap();
    let view = waited.unwrap();
    assert!(view.reached && view.flow.is_done());
    assert_eq!((view.flow.public_state().name(), view.flow.summary.of(PublicState::Completed)), ("completed", 4));
}

pub async fn fl_251_a_failed_branch_skips_the_join_and_the_other_runs_on(kind: impl Kind) {
    let node = Node::start(&Arc::new(kind.open().await)).await;
    let flow = node.submit(graph("a b c d a>b a>c b>d c>d")).await;
    node.complete(flow, "a").await;
    node.fail(flow, "b").await;
    assert_eq!(node.states(flow, "c d").await, ["waiting", "skipped"]);
    assert_eq!(node.state(flow).await, "running");
    node.complete(flow, "c").await;
    let summary = node.summary(flow).await;
    assert_eq!((summary.failures, summary.of(PublicState::Skipped)), (1, 1));
    assert_eq!(node.state(flow).await, "failed");
}

pub async fn fl_252_the_third_of_five_wins_and_the_others_are_cancelled_and_told(kind: impl Kind) {
    let node = Node::start(&Arc::new(kind.open().await)).await;
    let mut notices = node.client.notices("mailer-1");
    let flow = graph("a b c d e").with(Member::new("j", work()).join(GroupPolicy::AnyOf, CANCEL));
    let flow = "abcde".chars().fold(flow, |flow, key| flow.edge(key.to_string(), "j"));
    let flow = node.submit(flow).await;
    let mut held = Vec::new();
    for key in ["a", "b", "c"] {
        held.push(node.claim(flow, key).await);
    }
    node.client.complete(Completion::of(&held[2])).await.unwrap();
    assert_eq!(
        node.states(flow, "a b c d e j").await,
        ["cancelled", "cancelled", "completed", "cancelled", "cancelled", "waiting"]
    );
    for _ in 0..2 {
        let told = until("a notice", async || notices.next().await).await;
        assert!(format!("{told:?}").contains("Cancelled"), "{told:?}");
    }
    assert_eq!(node.client.complete(Completion::of(&held[0])).await.unwrap_err().code(), "cancelled", "FL-117");
    node.complete(flow, "j").await;
    assert_eq!((node.state(flow).await, node.summary(flow).await.members_neutral), ("completed", 4));
}

pub async fn fl_253_a_quorum_of_three_is_impossible_at_the_third_failure(kind: impl Kind) {
    let node = Node::start(&Arc::new(kind.open().await)).await;
    for (then, live) in [(CANCEL, "cancelled"), (Then::LetRun, "waiting")] {
        let flow = graph("a b c d e").with(Member::new("j", work()).join(GroupPolicy::Quorum(3), then));
        let flow = "abcde".chars().fold(flow, |flow, key| flow.edge(key.to_string(), "j"));
        let flow = node.submit(flow).await;
        node.fail(flow, "a").await;
        node.fail(flow, "b").await;
        assert_eq!(node.states(flow, "j").await, ["waiting_children"]);
        node.fail(flow, "c").await;
        assert_eq!(node.states(flow, "d e j").await, [live, live, "skipped"]);
    }
}

pub async fn fl_254_a_sibling_that_another_group_needs_runs_on(kind: impl Kind) {
    let node = Node::start(&Arc::new(kind.open().await)).await;
    let mut flow = graph("s x y");
    for key in ["d", "e"] {
        flow = flow.with(Member::new(key, work()).join(GroupPolicy::AnyOf, CANCEL));
    }
    let flow = flow.edge("s", "d").edge("x", "d").edge("s", "e").edge("y", "e");
    let flow = node.submit(flow).await;
    node.complete(flow, "x").await;
    assert_eq!(node.states(flow, "s d e").await, ["waiting", "waiting", "waiting_children"], "e needs s");
    node.complete(flow, "s").await;
    assert_eq!(node.states(flow, "y e").await, ["cancelled", "waiting"]);
}

pub async fn fl_256_edges_on_failure_and_on_any_end(kind: impl Kind) {
    let node = Node::start(&Arc::new(kind.open().await)).await;
    for (critical, outcome) in [(true, "failed"), (false, "completed")] {
        let mut flow = graph("h n z u!>h u>n h*>z n*>z");
        let u = Member::new("u", work());
        flow = flow.with(if critical { u } else { u.uncritical() });
        let flow = node.submit(flow).await;
        node.fail(flow, "u").await;
        assert_eq!(node.states(flow, "h n z").await, ["waiting", "skipped", "waiting_children"]);
        node.complete(flow, "h").await;
        node.complete(flow, "z").await;
        assert_eq!(node.state(flow).await, outcome);
    }
}

pub async fn fl_258_a_replayed_upstream_reopens_what_was_skipped_below_it(kind: impl Kind) {
    let node = Node::start(&Arc::new(kind.open().await)).await;
    let flow = node.submit(graph("u a b c u>a a>b b>c")).await;
    node.fail(flow, "u").await;
    assert_eq!(node.states(flow, "a b c").await, ["skipped"; 3]);
    assert_eq!(node.state(flow).await, "failed");
    node.client.replay(Replaying::new(member_id(flow, "u"), "again")).await.unwrap();
    assert_eq!(
        node.states(flow, "u a b c").await,
        ["waiting", "waiting_children", "waiting_children", "waiting_children"]
    );
    for key in ["u", "a", "b", "c"] {
        node.complete(flow, key).await;
    }
    assert_eq!((node.state(flow).await, node.summary(flow).await.failures), ("completed", 0));
}

pub async fn fl_259_a_downstream_that_runs_is_not_touched_by_a_replay(kind: impl Kind) {
    let node = Node::start(&Arc::new(kind.open().await)).await;
    let flow = node.submit(graph("u d u>d")).await;
    node.complete(flow, "u").await;
    let d = node.claim(flow, "d").await;
    let before = node.client.group(flow, "d", "main").await.unwrap().group;
    node.client.replay(Replaying::new(member_id(flow, "u"), "again")).await.unwrap();
    node.fail(flow, "u").await;
    assert_eq!(node.client.group(flow, "d", "main").await.unwrap().group, before);
    assert_eq!(node.states(flow, "d").await, ["active"]);
    node.client.complete(Completion::of(&d)).await.unwrap();
    assert_eq!(node.state(flow).await, "failed", "what counts is the last end of `u`");
}

pub async fn fl_261_those_that_run_may_end_their_attempt(kind: impl Kind) {
    let node = Node::start(&Arc::new(kind.open().await)).await;
    let patient = Submission::new("work");
    let flow = graph("good idle").member("bad", patient.clone()).member("lost", patient);
    let flow = node.submit(flow).await;
    let (good, bad) = (node.claim(flow, "good").await, node.claim(flow, "bad").await);
    let lost = node.claim_for(flow, "lost", 300).await;
    let cancel = FlowCancellation::new(flow, "enough").remaining(Remaining::FinishActive);
    node.client.cancel_flow(cancel).await.unwrap();
    assert_eq!(node.states(flow, "good bad lost idle").await, ["active", "active", "active", "cancelled"]);
    node.client.complete(Completion::of(&good)).await.unwrap();
    node.client.fail(Failing::of(&bad)).await.unwrap();
    let view = node.client.wait_flow(flow, None, 30_000).await.unwrap();
    assert!(view.reached, "the lease of `lost` runs out: {view:?}");
    assert_eq!(node.states(flow, "good bad lost").await, ["completed", "cancelled", "cancelled"]);
    assert_eq!((node.state(flow).await, lost.epoch), ("cancelled", 1));
}

pub async fn fl_263_a_member_that_runs_again_adds_the_same_children(kind: impl Kind) {
    let node = Node::start(&Arc::new(kind.open().await)).await;
    let flow = node.submit(graph("p")).await;
    let children = |held: &weft_core::reply::Claimed| {
        let mut growing = Growing::new(flow);
        growing.within = Some((held.id, weft_core::command::Fence { lease: held.lease, epoch: held.epoch }));
        (0..100).fold(growing, |growing, at| growing.member(format!("c{at:02}"), work()))
    };
    let first = node.claim_for(flow, "p", 300).await;
    node.client.grow_flow(children(&first)).await.unwrap();
    // It dies without a word; its lease runs out, and it is claimed again among its children.
    let again = until("the second run of `p`", async || {
        let claim = Claim { execution: Some(first.id), ..Claim::new("mailer", "mailer-2") };
        node.client.claim(claim).await.ok()?.executions.pop()
    });
    let again = again.await;
    assert_eq!((key_of(&again).as_str(), again.epoch), ("p", 2));
    assert_eq!(node.client.grow_flow(children(&first)).await.unwrap_err().code(), "lease_expired", "FL-62");
    node.client.grow_flow(children(&again)).await.unwrap();
    let filter = MemberFilter { limit: Some(1_000), ..MemberFilter::default() };
    assert_eq!(node.client.members(flow, filter).await.unwrap().members.len(), 101);
    assert_eq!(node.summary(flow).await.total_members, 101);
}
