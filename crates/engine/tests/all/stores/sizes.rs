//! Graphs that are larger than a commit, and races that are tried often.

use super::cut::Cut;
use super::place::{Node, until};
use crate::kit::flows::{claim_all, work};
use crate::kit::kinds::Kind;
use crate::kit::plant;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;
use weft_core::event::{self, Fact};
use weft_core::flow::member_id;
use weft_core::record::Key;
use weft_core::record::continuation::Work;
use weft_core::record::execution::{PublicState, Reason};
use weft_core::record::flow::Mode;
use weft_core::record::member::{GroupPolicy, Then};
use weft_core::{ExecutionId, PartitionId};
use weft_engine::Completion;
use weft_engine::flow::{FlowCancellation, FlowSubmission, Growing, Member};
use weft_store::{Range, Scan, Store, Target};

const P0: PartitionId = PartitionId(0);

/// How often each execution met with a fact.
async fn told(store: &impl Store, is: impl Fn(&Fact) -> bool) -> BTreeMap<ExecutionId, usize> {
    let mut told = BTreeMap::new();
    let mut after = None;
    loop {
        let ranges = vec![Range { after: after.take(), ..Range::default() }];
        let parts = Some(weft_core::schema::PartMask::ALL);
        let scan = Scan { target: Target::Feed, ranges, limit: 200, descending: false, parts };
        let page = store.scan(Some(P0), scan).await.unwrap().remove(0);
        for entry in &page.entries {
            let bytes = entry.found.iter().flat_map(|found| &found.parts).map(|(_, bytes)| bytes);
            for event in bytes.flat_map(|bytes| event::decode(bytes).expect("events of this version")) {
                if let (true, Some(id)) = (is(&event.fact), event.execution) {
                    *told.entry(id).or_default() += 1;
                }
            }
        }
        after = page.entries.last().map(|entry| entry.place.clone());
        if !page.more {
            return told;
        }
    }
}

pub async fn fl_255_a_race_of_many_is_cancelled_over_a_crash_after_each_commit(kind: impl Kind) {
    let (store, many) = (Arc::new(kind.open().await), kind.many());
    let node = Node::start(&store).await;
    let join = Member::new("j", work()).join(GroupPolicy::AnyOf, Then::CancelRemaining(Mode::Immediate));
    let flow = (0..many - 1).fold(FlowSubmission::new("race").with(join), |flow, at| {
        flow.member(format!("s{at:05}"), work()).edge(format!("s{at:05}"), "j")
    });
    let flow = node.submit(flow).await;
    let join = member_id(flow, "j");
    until("the whole graph", async || {
        node.client.flow(flow).await.ok().filter(|view| view.flow.hot.sealed_at.is_some())
    })
    .await;
    node.kill();

    let cut = Cut::new(&store);
    let node = Node::quiet(&cut).await;
    let winner = node.claim(flow, "s00007").await;
    cut.after(1);
    node.client.complete(Completion::of(&winner)).await.unwrap();
    let (mut node, mut commits, mut deaths) = (node, 1, 0);
    while plant::execution(&*store, join).await.member().unwrap().groups[0].owed.is_some() {
        node.kill();
        let cut = Cut::new(&store);
        node = Node::quiet(&cut).await;
        cut.after(1);
        node.engine.scan("edge_cancel_dispatcher", P0).await.unwrap();
        commits += cut.through();
        deaths += 1;
        assert!(deaths < 200, "each commit takes it further");
    }
    assert!(commits <= 2 + many.div_ceil(256), "{commits} commits");
    let cancelled = told(&*store, |fact| matches!(fact, Fact::Finished { reason: Reason::Sibling, .. })).await;
    assert_eq!((cancelled.len(), cancelled.values().max()), (many - 2, Some(&1)), "each once");
    let summary = node.summary(flow).await;
    assert_eq!((summary.members_neutral as usize, summary.of(PublicState::Waiting)), (many - 2, 1));
    node.kill();
}

pub async fn fl_257_a_fan_out_that_a_crash_cut_makes_every_child_ready_once(kind: impl Kind) {
    let (store, many) = (Arc::new(kind.open().await), kind.many());
    let node = Node::start(&store).await;
    let flow = (0..many - 1).fold(FlowSubmission::new("fan").member("u", work()), |flow, at| {
        flow.member(format!("c{at:05}"), work()).edge("u", format!("c{at:05}"))
    });
    let flow = node.submit(flow).await;
    until("the whole graph", async || {
        node.client.flow(flow).await.ok().filter(|view| view.flow.hot.sealed_at.is_some())
    })
    .await;
    node.kill();

    let cut = Cut::new(&store);
    let node = Node::quiet(&cut).await;
    let upstream = node.claim(flow, "u").await;
    cut.after(1);
    node.client.complete(Completion::of(&upstream)).await.unwrap();
    node.kill();
    let rest = plant::stored(&*store, Key::Continuation(upstream.id, Work::Resolve)).await;
    assert!(rest.is_some(), "FL-83 the rest is durable");

    let node = Node::quiet(&store).await;
    assert_eq!(node.engine.scan("dependency_reconciler", P0).await.unwrap().errors, 0);
    until("all edges", async || none_pending(&node, flow).await).await;
    let ready = told(&*store, |fact| matches!(fact, Fact::GroupSatisfied { .. })).await;
    assert_eq!((ready.len(), ready.values().max()), (many - 1, Some(&1)), "each once");
    assert_eq!(node.summary(flow).await.of(PublicState::Waiting) as usize, many - 1);
    node.kill();
}

async fn none_pending(node: &Node, flow: weft_core::FlowId) -> Option<()> {
    (node.summary(flow).await.edges_pending == 0).then_some(())
}

pub async fn fl_260_after_the_reply_to_a_cancel_no_claim_succeeds(kind: impl Kind) {
    let (store, many) = (Arc::new(kind.open().await), kind.many().min(1_500));
    let node = Node::start(&store).await;
    // One that nobody claims: however fast the workers are, the flow has not ended before it is cancelled.
    let flow = FlowSubmission::new("flat").member("idle", work().lane("nobody"));
    let flow = (1..many).fold(flow, |flow, at| flow.member(format!("m{at:05}"), work()));
    let flow = node.submit(flow).await;
    let (over, under_way) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
    let mut workers = Vec::new();
    for _ in 0..16 {
        let (client, over, under_way) = (node.client.clone(), over.clone(), under_way.clone());
        workers.push(tokio::spawn(async move {
            let mut done = 0;
            loop {
                let was_over = over.load(Ordering::SeqCst);
                let claimed = claim_all(&client, 1).await;
                assert!(!was_over || claimed.is_empty(), "FL-140 a claim after the reply");
                let Some(held) = claimed.first() else {
                    if was_over {
                        return done;
                    }
                    tokio::task::yield_now().await;
                    continue;
                };
                match client.complete(Completion::of(held)).await {
                    Ok(_) => done += 1,
                    Err(refused) => assert_eq!(refused.code(), "cancelled"),
                }
                if done == 2 {
                    under_way.notify_one();
                }
            }
        }));
    }
    under_way.notified().await;
    node.client.cancel_flow(FlowCancellation::new(flow, "stop")).await.unwrap();
    over.store(true, Ordering::SeqCst);
    let mut done = 0;
    for worker in workers {
        done += worker.await.unwrap();
    }
    let view = node.client.wait_flow(flow, None, 30_000).await.unwrap();
    let summary = view.flow.summary.clone();
    assert_eq!((view.flow.public_state().name(), summary.ended() as usize), ("cancelled", many));
    assert_eq!(summary.of(PublicState::Completed), done, "who was told so has completed");
    let ends = told(&*store, |fact| matches!(fact, Fact::Finished { .. })).await;
    assert_eq!((ends.len(), ends.values().max()), (many, Some(&1)), "one outcome each");
}

pub async fn fl_262_growing_races_with_the_last_completion(kind: impl Kind) {
    let node = Node::start(&Arc::new(kind.open().await)).await;
    let (mut added, mut closed) = (0, 0);
    for round in 0..kind.often() {
        let flow = node.submit(FlowSubmission::new("one").member("a", work())).await;
        let a = node.claim(flow, "a").await;
        let grow = node.client.grow_flow(Growing::new(flow).member("b", work()));
        let complete = node.client.complete(Completion::of(&a));
        let (grown, completed) = match round {
            // Each order once for sure, so that both answers are seen.
            0 => {
                let grown = grow.await;
                (grown, complete.await)
            }
            1 => {
                let completed = complete.await;
                (grow.await, completed)
            }
            // A completion goes before what else waits, so it is the one that comes a little later, or not at all.
            _ => {
                let later = async {
                    for _ in 0..round % 8 * 2 {
                        tokio::task::yield_now().await;
                    }
                    complete.await
                };
                tokio::join!(grow, later)
            }
        };
        completed.unwrap();
        let ended = node.state(flow).await;
        match grown {
            Ok(_) => {
                assert_eq!(ended, "running");
                added += 1;
            }
            Err(refused) => {
                assert_eq!((refused.code(), ended), ("flow_closed", "completed"));
                closed += 1;
            }
        }
    }
    assert!(added > 0 && closed > 0, "both happen: {added}, {closed}");
}
