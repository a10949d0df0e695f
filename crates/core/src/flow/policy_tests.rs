//! Siblings, policies and cancels: who is ended by what, once.

use crate::command::*;
use crate::flow::member_id;
use crate::kit::World;
use crate::kit::calls::{self, fence};
use crate::kit::flows::*;
use crate::record::execution::{Outcome, PublicState, Reason, State};
use crate::record::flow::{Cause, CompletionPolicy, FailurePolicy, FlowOutcome, Mode, Remaining, State as FlowState};
use crate::record::member::{EndedBy, GroupPolicy, GroupState, MAIN, Then};
use crate::reply::Reply;
use crate::{ExecutionId, FlowId};

const CANCEL: Then = Then::CancelRemaining(Mode::Immediate);
const ALL: Remaining = Remaining::Cancel(Mode::Immediate);

fn end(world: &World, flow: FlowId, key: &str) -> (Outcome, Reason) {
    match world.member(flow, key).hot.state {
        State::Done { outcome, reason, .. } => (outcome, reason),
        other => panic!("{key} is {other:?}"),
    }
}

fn finishes(world: &World, id: ExecutionId) -> usize {
    let of = world.events.iter().filter(|event| event.execution == Some(id));
    of.filter(|event| event.fact.name() == "execution.finished").count()
}

fn cancel_flow(world: &mut World, flow: FlowId, remaining: Remaining) {
    world.run(Command::CancelFlow(CancelFlow { flow, remaining, reason: "enough".into() })).unwrap();
}

#[test]
fn fl_111_a_sibling_that_its_parent_waits_for_is_needed() {
    let mut world = World::new();
    let flow = world.flow_of("p", |_| {});
    let held = world.claim_member(flow, "p");
    world.within(&held, "x y j").unwrap();
    let children = vec![member_id(flow, "x")];
    world.run(Command::WaitChildren(calls::wait(held.id, fence(&held), Some(children)))).unwrap();
    let edges = ["x>j", "y>j"].map(|text| NewEdge { policy: Some((GroupPolicy::AnyOf, CANCEL)), ..edge(text) });
    let grow =
        GrowFlow { flow, members: vec![], edges: edges.into(), seal: true, expected_revision: None, within: None };
    world.run(Command::GrowFlow(Box::new(grow))).unwrap();
    world.complete_member(flow, "y");
    assert_eq!(world.states(flow, "x j"), ["waiting", "waiting"], "its parent waits for it");
}

#[test]
fn fl_112_a_sibling_that_was_kept_is_not_cancelled_later_by_the_first_group() {
    let mut world = World::new();
    let flow = world.flow_of("s x y d e s>d x>d s>e y>e", |flow| {
        policy(flow, "d", MAIN, GroupPolicy::AnyOf, CANCEL);
        policy(flow, "e", MAIN, GroupPolicy::AnyOf, Then::LetRun);
    });
    world.complete_member(flow, "x");
    world.complete_member(flow, "y");
    world.at(600_000).scan();
    assert_eq!(world.states(flow, "s e"), ["waiting", "waiting"], "nobody needs it, and nobody cancels it");
}

#[test]
fn fl_113_let_run_cancels_nobody_on_either_verdict() {
    for fails in [false, true] {
        let mut world = World::new();
        let flow = world.flow_of("a b c j a>j b>j c>j", |flow| {
            policy(flow, "j", MAIN, if fails { GroupPolicy::Quorum(3) } else { GroupPolicy::AnyOf }, Then::LetRun);
        });
        if fails {
            world.fail_member(flow, "a");
        } else {
            world.complete_member(flow, "a");
        }
        assert_eq!(world.states(flow, "b c"), ["waiting", "waiting"]);
        let decided = world.state(flow, "j");
        world.complete_member(flow, "b");
        world.fail_member(flow, "c");
        assert_eq!(world.state(flow, "j"), decided, "FL-33 late ends only count");
        let group = world.member(flow, "j").member().unwrap().groups[0].clone();
        assert_eq!(group.met + group.unmet, 3);
    }
}

#[test]
fn fl_114_a_downstream_that_is_cancelled_leaves_its_upstreams_alone() {
    let mut world = World::new();
    let flow = world.flow_of("a b j a>j b>j", |flow| policy(flow, "j", MAIN, GroupPolicy::AnyOf, CANCEL));
    world.run(Command::Cancel(calls::cancel(member_id(flow, "j")))).unwrap();
    assert_eq!(world.states(flow, "a b"), ["waiting", "waiting"]);
    world.complete_member(flow, "a");
    assert_eq!(world.state(flow, "b"), "waiting", "its group is not decided any more");
}

#[test]
fn fl_116_a_sibling_is_asked_first_if_the_group_says_so() {
    let mut world = World::new();
    let graceful = Then::CancelRemaining(Mode::Graceful { grace_ms: 5_000 });
    let flow = world.flow_of("a b c j a>j b>j c>j", |flow| policy(flow, "j", MAIN, GroupPolicy::AnyOf, graceful));
    let (kind, lazy) = (world.claim_member(flow, "b"), world.claim_member(flow, "c"));
    world.complete_member(flow, "a");
    assert_eq!(world.states(flow, "b c"), ["active", "active"]);
    world.run(calls::complete(kind.id, fence(&kind), None)).unwrap();
    world.at(6_000).scan();
    assert_eq!(end(&world, flow, "b"), (Outcome::Success, Reason::Worker), "FL-117 it was first");
    assert_eq!(end(&world, flow, "c"), (Outcome::Cancelled, Reason::Sibling));
    assert_eq!(finishes(&world, lazy.id), 1);
}

#[test]
fn fl_130_fl_131_what_counts_against_a_flow() {
    let mut world = World::new();
    let flow = world.flow_of("client failed expired minor fine", |flow| {
        flow.members[2].submit.deadline = Some(When::InMs(1_000));
        flow.members[3].critical = false;
    });
    world.run(Command::Cancel(calls::cancel(member_id(flow, "client")))).unwrap();
    world.fail_member(flow, "failed");
    world.at(1_000).scan();
    world.fail_member(flow, "minor");
    world.complete_member(flow, "fine");
    let done = world.flow(flow);
    assert_eq!((done.summary.failures, done.summary.members_neutral), (3, 0));
    assert_eq!(done.public_state().name(), "failed", "FL-173");
    let neutral = world.flow_of("p", |_| {});
    let held = world.claim_member(neutral, "p");
    world.within(&held, "child").unwrap();
    world.run(Command::Cancel(calls::cancel(held.id))).unwrap();
    world.scan();
    assert_eq!(end(&world, neutral, "child"), (Outcome::Cancelled, Reason::Parent), "FL-102");
    assert_eq!((world.flow(neutral).summary.failures, world.flow(neutral).summary.members_neutral), (1, 1));
}

#[test]
fn fl_135_the_first_decision_stands() {
    let mut world = World::new();
    let flow = world.flow_of("root a", |flow| {
        flow.completion = CompletionPolicy::Root { key: "root".into(), remaining: Remaining::LetRun };
    });
    world.complete_member(flow, "root");
    assert_eq!(world.flow_state(flow), "ending");
    world.fail_member(flow, "a");
    let done = world.flow(flow);
    assert_eq!((done.public_state().name(), done.summary.failures), ("completed", 1));
}

#[test]
fn fl_137_a_failure_with_a_retry_left_decides_nothing() {
    let mut world = World::new();
    let flow = world.flow_of("a b", |flow| {
        flow.failure = FailurePolicy::FailFast { remaining: ALL };
        flow.members[0].submit.policy.retry.max_retries = 1;
    });
    world.fail_member(flow, "a");
    assert_eq!((world.state(flow, "a"), world.flow_state(flow)), ("delayed", "running"));
    world.at(3_600_000).scan();
    let claimed = world.claim_member(flow, "a");
    world.run(calls::fail(claimed.id, fence(&claimed))).unwrap();
    world.scan();
    let FlowState::Done { outcome, cause, .. } = world.flow(flow).hot.state else { panic!("it has ended") };
    assert_eq!((outcome, cause), (FlowOutcome::Failed, Cause::Member(member_id(flow, "a"))));
}

#[test]
fn fl_142_what_would_be_skipped_in_a_flow_that_is_cancelled_is_cancelled() {
    let mut world = World::new();
    let flow = world.flow_of("u d u>d", |_| {});
    let held = world.claim_member(flow, "u");
    cancel_flow(&mut world, flow, Remaining::FinishActive);
    world.run(calls::fail(held.id, fence(&held))).unwrap();
    world.scan();
    assert_eq!(end(&world, flow, "d"), (Outcome::Cancelled, Reason::Flow));
    let open = world.flow_of("u d u>d", |_| {});
    cancel_flow(&mut world, open, Remaining::LetRun);
    world.fail_member(open, "u");
    assert_eq!(end(&world, open, "d"), (Outcome::Skipped, Reason::Dependency), "with let_run edges resolve as ever");
}

#[test]
fn fl_143_fl_144_what_is_owed_goes_down_with_each_end() {
    let mut world = World::new();
    let flow = world.flow_of("a b c", |_| {});
    let graceful = Remaining::Cancel(Mode::Graceful { grace_ms: 5_000 });
    let (first, _) = (world.claim_member(flow, "a"), world.claim_member(flow, "b"));
    cancel_flow(&mut world, flow, graceful);
    assert_eq!((world.flow(flow).summary.cancel_owed, world.state(flow, "c")), (2, "cancelled"));
    world.run(calls::complete(first.id, fence(&first), None)).unwrap();
    assert_eq!(world.flow(flow).summary.cancel_owed, 1, "one that ended by itself counts the same");
    world.at(5_000).scan();
    let done = world.flow(flow);
    assert_eq!((done.summary.cancel_owed, done.public_state().name()), (0, "cancelled"));
    assert_eq!(end(&world, flow, "a"), (Outcome::Success, Reason::Worker));
}

#[test]
fn fl_149_cancels_and_timers_that_meet_on_one_member_end_it_once() {
    let mut world = World::new();
    let flow = world.flow_of("a b j a>j b>j", |flow| {
        policy(flow, "j", MAIN, GroupPolicy::AnyOf, Then::CancelRemaining(Mode::Graceful { grace_ms: 1_000 }));
        flow.members[1].submit.deadline = Some(When::InMs(1_000));
        flow.deadline = Some(When::InMs(1_000));
    });
    let id = world.claim_member(flow, "b").id;
    world.complete_member(flow, "a");
    world.at(500);
    world.run(Command::Cancel(Cancel { mode: CancelMode::Graceful { grace_ms: 500 }, ..calls::cancel(id) })).unwrap();
    world.at(1_000).scan();
    assert_eq!(finishes(&world, id), 1);
    assert!(world.member(flow, "b").is_done() && world.flow(flow).is_done());
}

#[test]
fn fl_149_a_requested_cancel_gives_its_reason_however_the_attempt_ends() {
    let mut world = World::new();
    let flow = world.flow_of("fails lost late", |flow| {
        flow.members[2].submit.policy.attempt_timeout_ms = Some(1_000);
    });
    let held = ["fails", "lost", "late"].map(|key| world.claim_member(flow, key));
    for claimed in &held {
        let mode = CancelMode::Graceful { grace_ms: 60_000 };
        world.run(Command::Cancel(Cancel { mode, ..calls::cancel(claimed.id) })).unwrap();
    }
    cancel_flow(&mut world, flow, Remaining::FinishActive);
    world.run(calls::fail(held[0].id, fence(&held[0]))).unwrap();
    world.at(30_000).scan();
    for key in ["fails", "lost", "late"] {
        assert_eq!(end(&world, flow, key), (Outcome::Cancelled, Reason::Client), "{key}");
    }
    assert_eq!(world.flow(flow).summary.failures, 3);
}

#[test]
fn fl_80_fl_81_every_end_resolves_and_lifts_nothing_else() {
    type Ending = fn(&mut World, FlowId);
    let endings: [(&str, Ending); 5] = [
        ("force_fail", |world, flow| drop(world.run(calls::force_fail(member_id(flow, "u"))).unwrap())),
        ("cancel", |world, flow| drop(world.run(Command::Cancel(calls::cancel(member_id(flow, "u")))).unwrap())),
        ("deadline", |world, _| drop(world.at(10_000).scan())),
        ("failure", |world, flow| world.fail_member(flow, "u")),
        ("reclaims", |world, flow| {
            world.claim_member(flow, "u");
            world.at(31_000).scan();
        }),
    ];
    for (name, ending) in endings {
        let mut world = World::new();
        let flow = world.flow_of("u d u!>d", |flow| {
            let submit = &mut flow.members[0].submit;
            submit.policy.max_reclaims = 0;
            submit.deadline = (name == "deadline").then_some(When::InMs(10_000));
        });
        world.run(calls::hold(member_id(flow, "d"))).unwrap();
        ending(&mut world, flow);
        assert_eq!(world.flow(flow).summary.edges_pending, 0, "{name}");
        assert_eq!(world.state(flow, "d"), "held", "{name}: another hold keeps its effect");
        let release = Release { id: member_id(flow, "d"), reason: "go".into() };
        world.run(Command::Release(release)).unwrap();
        assert_eq!(world.state(flow, "d"), "waiting", "{name}");
    }
}

#[test]
fn fl_91_a_step_behind_an_any_edge_runs_after_a_skip() {
    let mut world = World::new();
    let flow = world.flow_of("u a clean sad u>a a*>clean a!>sad", |_| {});
    world.fail_member(flow, "u");
    assert_eq!(world.states(flow, "a clean sad"), ["skipped", "waiting", "skipped"]);
    world.complete_member(flow, "clean");
    let done = world.flow(flow);
    assert_eq!((done.public_state().name(), done.summary.failures), ("failed", 1), "FL-94 only the failure counts");
}

#[test]
fn fl_134_members_without_a_seal_end_with_a_flow_that_was_decided_before_it() {
    let mut world = World::new();
    let flow = world.flow_of("a", |flow| {
        flow.completion = CompletionPolicy::Declared { remaining: Remaining::LetRun };
    });
    let unsealed = GrowFlow {
        flow,
        members: vec![member("late")],
        edges: vec![],
        seal: false,
        expected_revision: None,
        within: None,
    };
    world.run(Command::GrowFlow(Box::new(unsealed))).unwrap();
    let finish = FinishFlow { flow, outcome: FlowOutcome::Completed, reason: "good".into(), within: None };
    assert!(matches!(world.run(Command::FinishFlow(finish)), Ok(Reply::FlowFinished { .. })));
    world.scan();
    assert_eq!((world.states(flow, "a late"), world.flow_state(flow)), (vec!["waiting", "cancelled"], "ending"));
    world.complete_member(flow, "a");
    let done = world.flow(flow);
    assert_eq!((done.public_state().name(), done.summary.of(PublicState::Cancelled)), ("completed", 1));
}

#[test]
fn fl_35_an_all_of_is_impossible_at_the_first_unmet_edge_and_stays_so() {
    for first in ["a", "b", "c"] {
        let mut world = World::new();
        let flow = world.flow_of("a b c d a>d b>d c>d", |_| {});
        world.fail_member(flow, first);
        let group = |world: &World| world.member(flow, "d").member().unwrap().groups[0].clone();
        let decided = group(&world);
        assert_eq!((decided.state, world.state(flow, "d")), (GroupState::Impossible, "skipped"), "{first}");
        world.now = world.now + 10;
        for other in ["a", "b", "c"].into_iter().filter(|key| *key != first) {
            world.complete_member(flow, other);
        }
        let later = group(&world);
        assert_eq!((later.state, later.decided_at), (decided.state, decided.decided_at), "whatever the others do");
        assert_eq!((later.met, later.unmet), (2, 1), "FL-33 only its counters move");
        assert_eq!((world.state(flow, "d"), finishes(&world, member_id(flow, "d"))), ("skipped", 1));
    }
}

#[test]
fn fl_110_a_decided_group_cancels_what_is_left_of_it_on_either_verdict() {
    for (ends, verdict) in [([true, true], GroupState::Satisfied), ([false, false], GroupState::Impossible)] {
        let mut world = World::new();
        let flow = world.flow_of("a b waits runs late d a>d b>d waits>d runs>d late>d other late>other", |flow| {
            policy(flow, "d", MAIN, GroupPolicy::Quorum(if ends[0] { 2 } else { 4 }), CANCEL);
        });
        let held = world.claim_member(flow, "runs");
        for (key, good) in ["a", "b"].into_iter().zip(ends) {
            assert_eq!(world.state(flow, "waits"), "waiting", "only a decision cancels");
            if good { world.complete_member(flow, key) } else { world.fail_member(flow, key) }
        }
        assert_eq!(world.states(flow, "waits runs late"), ["cancelled", "cancelled", "waiting"], "other needs late");
        for key in ["waits", "runs"] {
            assert_eq!(end(&world, flow, key), (Outcome::Cancelled, Reason::Sibling));
            let (downstream, group) = (member_id(flow, "d"), MAIN.into());
            let cause = world.member(flow, key).member().unwrap().cause.clone();
            assert_eq!(cause, Some(EndedBy::Sibling { downstream, group, verdict }), "{key}");
        }
        let told = world.run(calls::renew(held.id, fence(&held))).unwrap_err();
        assert_eq!(told.code(), "cancelled", "its worker is told");
    }
}

#[test]
fn fl_136_completed_skipped_and_neutral_members_are_no_failure() {
    let mut world = World::new();
    let names = (0..10).map(|at| format!("s{at}"));
    let edges = (0..10).map(|at| format!("s{at}>j"));
    let line = names.chain(edges).collect::<Vec<_>>().join(" ") + " j bad j!>bad";
    let flow = world.flow_of(&line, |flow| policy(flow, "j", MAIN, GroupPolicy::AnyOf, CANCEL));
    world.complete_member(flow, "s4");
    assert_eq!(world.flow_state(flow), "running", "two live");
    world.complete_member(flow, "j");
    let done = world.flow(flow);
    let counts = [PublicState::Completed, PublicState::Cancelled, PublicState::Skipped].map(|it| done.summary.of(it));
    assert_eq!((counts, done.summary.members_neutral), ([2, 9, 1], 9));
    assert_eq!((done.public_state().name(), done.summary.failures), ("completed", 0));
    let flow = world.flow_of("a b", |_| {});
    world.complete_member(flow, "a");
    world.run(Command::Cancel(calls::cancel(member_id(flow, "b")))).unwrap();
    assert_eq!(world.flow_state(flow), "failed", "a cancel that somebody asked for is none of these");
}
