//! Cancelling a flow: what becomes of its members, and of a cancel that is asked for again.

use crate::command::*;
use crate::error::Rejection;
use crate::kit::World;
use crate::kit::calls::{self, fence};
use crate::kit::flows::*;
use crate::record::execution::{Outcome, Reason, State};
use crate::record::flow::{Mode, Remaining};
use crate::reply::{FlowCancelled, Reply};
use crate::time::Time;

pub(super) fn cancel(flow: crate::FlowId, remaining: Remaining) -> Command {
    Command::CancelFlow(CancelFlow { flow, remaining, reason: "enough".into() })
}

#[test]
fn fl_140_cancelling_a_flow_ends_every_member_and_no_claim_succeeds_after_it() {
    let mut world = World::new();
    let flow = world.flow_of("a b c d a>b b>c c>d", |_| {});
    world.complete_member(flow, "a");
    let held = world.claim_member(flow, "b");
    let Ok(Reply::FlowCancelled(FlowCancelled { owed, cancelled, state, .. })) =
        world.run(cancel(flow, Remaining::Cancel(Mode::Immediate)))
    else {
        panic!("it is cancelled");
    };
    assert_eq!((owed, cancelled, state.name()), (0, 3, "cancelled"));
    assert_eq!(world.states(flow, "a b c d"), ["completed", "cancelled", "cancelled", "cancelled"]);
    assert_eq!(world.run(calls::complete(held.id, fence(&held), None)).unwrap_err().code(), "cancelled");
    let again = world.run(cancel(flow, Remaining::Cancel(Mode::Immediate)));
    assert_eq!(again.unwrap_err().code(), "flow_terminal", "FL-147");
    assert_eq!(world.run(Command::Replay(calls::replay(held.id))).unwrap_err().code(), "flow_closed", "FL-161");
}

#[test]
fn fl_261_those_that_run_may_end_their_attempt() {
    let mut world = World::new();
    let flow = world.flow_of("a b c d", |flow| flow.members[1].submit.policy.retry.max_retries = 3);
    let [a, b, c] = ["a", "b", "c"].map(|key| world.claim_member(flow, key));
    let Ok(Reply::FlowCancelled(reply)) = world.run(cancel(flow, Remaining::FinishActive)) else { panic!("cancelled") };
    assert_eq!((reply.cancelled, reply.owed, reply.active), (1, 0, 3));
    let delay = Command::Delay(Delay {
        id: c.id,
        fence: Some(fence(&c)),
        until: When::InMs(5),
        checkpoint: None,
        steps: Vec::new(),
    });
    assert_eq!(world.run(delay).unwrap_err().code(), "cancel_requested", "EX-46");
    world.run(calls::complete(a.id, fence(&a), None)).unwrap();
    world.run(calls::fail(b.id, fence(&b))).unwrap();
    world.at(30_000).scan();
    assert_eq!(world.states(flow, "a b c d"), ["completed", "cancelled", "cancelled", "cancelled"]);
    assert_eq!(world.flow_state(flow), "cancelled");
}

#[test]
fn fl_261_a_lease_that_is_lost_once_too_often_is_cancelled_with_the_flow() {
    let mut world = World::new();
    let flow = world.flow_of("a", |flow| flow.members[0].submit.policy.max_reclaims = 0);
    world.claim_member(flow, "a");
    world.run(cancel(flow, Remaining::FinishActive)).unwrap();
    world.at(30_000).scan();
    let State::Done { outcome, reason, .. } = world.member(flow, "a").hot.state else { panic!("it has ended") };
    assert_eq!((outcome, reason), (Outcome::Cancelled, Reason::Flow));
    assert_eq!((world.flow_state(flow), world.flow(flow).summary.failures), ("cancelled", 0));
}

#[test]
fn fl_261_children_that_run_may_end_their_attempt_too() {
    for remaining in [Remaining::FinishActive, Remaining::Cancel(Mode::Graceful { grace_ms: 20_000 })] {
        let mut world = World::new();
        let flow = world.flow_of("p", |_| {});
        let held = world.claim_member(flow, "p");
        world.within(&held, "runs waits").unwrap();
        let parent = Some((held.id, fence(&held)));
        let outside = world.submit(|cmd| (cmd.parent, cmd.outside) = (parent, true));
        let child = world.claim_member(flow, "runs");
        world.run(cancel(flow, remaining)).unwrap();
        world.run(calls::fail(held.id, fence(&held))).unwrap();
        world.scan();
        assert_eq!(world.states(flow, "p runs waits"), ["cancelled", "active", "cancelled"], "{remaining:?}");
        assert_eq!(world.execution(outside).public_state().name(), "cancelled", "nobody else ends it");
        world.run(calls::complete(child.id, fence(&child), None)).unwrap();
        assert_eq!((world.state(flow, "runs"), world.flow_state(flow)), ("completed", "cancelled"));
    }
}

#[test]
fn fl_102_a_client_that_cancels_a_parent_in_a_flow_that_ends_cancels_its_children() {
    let mut world = World::new();
    let flow = world.flow_of("p", |_| {});
    let held = world.claim_member(flow, "p");
    world.within(&held, "runs").unwrap();
    world.claim_member(flow, "runs");
    world.run(cancel(flow, Remaining::FinishActive)).unwrap();
    world.run(Command::Cancel(calls::cancel(held.id))).unwrap();
    world.scan();
    assert_eq!(world.states(flow, "p runs"), ["cancelled", "cancelled"]);
}

#[test]
fn fl_147_a_stronger_cancel_makes_a_weaker_one_harder() {
    let mut world = World::new();
    let flow = world.flow_of("a b c", |_| {});
    world.claim_member(flow, "a");
    world.run(cancel(flow, Remaining::LetRun)).unwrap();
    assert_eq!(world.states(flow, "a b c"), ["active", "waiting", "waiting"], "the gate stays open");
    world.complete_member(flow, "b");
    let graceful = Remaining::Cancel(Mode::Graceful { grace_ms: 5_000 });
    let Ok(Reply::FlowCancelled(reply)) = world.run(cancel(flow, graceful)) else { panic!("cancelled") };
    assert_eq!((reply.already, reply.owed, reply.active), (true, 1, 1));
    assert_eq!(world.states(flow, "a c"), ["active", "cancelled"]);
    world.run(cancel(flow, Remaining::FinishActive)).unwrap();
    assert_eq!(world.flow(flow).ending().map(|ending| ending.remaining), Some(graceful), "a weaker one is ignored");
    world.at(5_000).scan();
    assert_eq!((world.state(flow, "a"), world.flow_state(flow)), ("cancelled", "cancelled"));
}

#[test]
fn fl_147_a_shorter_grace_is_stronger_and_brings_the_end_nearer() {
    let graceful = |grace_ms| Remaining::Cancel(Mode::Graceful { grace_ms });
    let mut world = World::new();
    let flow = world.flow_of("a", |_| {});
    let id = world.claim_member(flow, "a").id;
    let stands = |world: &World| {
        let State::Active { cancel: Some(cancel), .. } = world.execution(id).hot.state else { panic!("it is asked") };
        (world.flow(flow).ending().unwrap().remaining, cancel.kill_at.map(Time::ms))
    };
    world.run(cancel(flow, graceful(10_000))).unwrap();
    assert_eq!(stands(&world), (graceful(10_000), Some(10_000)));
    world.at(1_000).run(cancel(flow, graceful(20_000))).unwrap();
    assert_eq!(stands(&world), (graceful(10_000), Some(10_000)), "a weaker one is ignored");
    world.run(cancel(flow, graceful(2_000))).unwrap();
    assert_eq!(stands(&world), (graceful(2_000), Some(3_000)));
    world.at(2_500).run(cancel(flow, graceful(1_000))).unwrap();
    assert_eq!(stands(&world), (graceful(1_000), Some(3_000)), "nothing puts it off");
    world.run(cancel(flow, Remaining::Cancel(Mode::Immediate))).unwrap();
    assert_eq!((world.state(flow, "a"), world.flow_state(flow)), ("cancelled", "cancelled"));
}

#[test]
fn fl_150_a_large_flow_is_cancelled_bit_by_bit_and_exactly() {
    let mut world = World::new();
    let mut flow = blank_flow();
    flow.members = (0..3_000).map(|at| member(&format!("m{at}"))).collect();
    flow.edges = (1..3_000).map(|at| edge(&format!("m{}>m{at}", at / 2))).collect();
    let flow = world.submit_flow(flow).unwrap().id;
    world.scan();
    world.complete_member(flow, "m0");
    world.run(cancel(flow, Remaining::Cancel(Mode::Immediate))).unwrap();
    assert!(world.flow(flow).summary.cancel_owed > 0, "FL-143");
    assert_eq!(world.flow_state(flow), "ending");
    let refused = world.grow(flow, "late").unwrap_err();
    assert_eq!(refused, Rejection::FlowClosed { why: "ending" }, "FL-141");
    world.scan();
    let done = world.flow(flow);
    assert_eq!((done.public_state().name(), done.summary.cancel_owed), ("cancelled", 0));
    assert_eq!(done.summary.of(crate::record::execution::PublicState::Cancelled), 2_999, "FL-142 none was skipped");
}
