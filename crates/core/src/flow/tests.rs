//! Whole flows, step by step. Every commit of every test here is followed by a check of the invariants of its flows.

use super::cancel_tests::cancel;
use crate::command::*;
use crate::error::Rejection;
use crate::flow::member_id;
use crate::kit::World;
use crate::kit::calls::{self, fence};
use crate::kit::flows::*;
use crate::limits::{SIBLINGS_AT_ONCE, SIBLINGS_PER_COMMIT};
use crate::record::execution::{Outcome, Reason, State};
use crate::record::flow::{Cause, CompletionPolicy, FailurePolicy, FlowOutcome, Growth, Mode, Remaining};
use crate::record::member::{EndedBy, GroupPolicy, GroupState, MAIN, Then};
use crate::reply::{Expired, InputValue, Reply};
use crate::schema::Timer;
use crate::time::Time;

const CANCEL: Then = Then::CancelRemaining(Mode::Immediate);

fn names(events: &World) -> Vec<&'static str> {
    events.events.iter().map(|event| event.fact.name()).filter(|name| name.starts_with("flow.")).collect()
}

#[test]
fn fl_250_a_diamond_runs_and_its_join_gets_both_inputs_in_the_commit_of_the_later() {
    let mut world = World::new();
    let flow = world.flow_of("a b c d a>b a>c b>d=left c>d=right", |_| {});
    assert_eq!(world.states(flow, "a b c d"), ["waiting", "waiting_children", "waiting_children", "waiting_children"]);
    world.complete_member(flow, "a");
    assert_eq!(world.states(flow, "b c d"), ["waiting", "waiting", "waiting_children"]);
    world.complete_member(flow, "b");
    assert_eq!(world.state(flow, "d"), "waiting_children");
    let commits = world.commits;
    world.complete_member(flow, "c");
    assert_eq!((world.state(flow, "d"), world.commits), ("waiting", commits + 2), "ready in the commit of c's end");
    let claimed = world.claim_member(flow, "d");
    let given: Vec<(&str, &str)> = claimed.inputs.iter().map(|input| (&*input.name, &*input.upstream)).collect();
    assert_eq!(given, [("left", "b"), ("right", "c")]);
    assert!(
        claimed
            .inputs
            .iter()
            .all(|input| matches!(&input.value, InputValue::Inline(value) if &value.bytes[..] == b"done"))
    );
    assert_eq!(world.flow_state(flow), "running");
    world.run(calls::complete(claimed.id, fence(&claimed), None)).unwrap();
    assert_eq!(world.flow_state(flow), "completed");
    assert_eq!(names(&world), ["flow.created", "flow.sealed", "flow.finished"]);
}

#[test]
fn fl_251_a_failed_branch_skips_the_join_and_the_other_runs_on() {
    let mut world = World::new();
    let flow = world.flow_of("a b c d a>b a>c b>d c>d", |_| {});
    world.complete_member(flow, "a");
    world.fail_member(flow, "b");
    assert_eq!(world.states(flow, "b c d"), ["failed", "waiting", "skipped"], "skipped in that commit");
    let skipped = world.member(flow, "d");
    let b = member_id(flow, "b");
    let cause = Some(EndedBy::Dependency { group: MAIN.into(), unmet: vec![b] });
    assert_eq!((skipped.hot.attempts, skipped.member().unwrap().cause.clone()), (0, cause));
    assert_eq!(world.flow_state(flow), "running");
    world.complete_member(flow, "c");
    let ended = world.flow(flow);
    assert_eq!((ended.public_state().name(), ended.summary.failures), ("failed", 1));
}

#[test]
fn fl_252_the_first_of_five_cancels_the_others_in_its_commit() {
    let mut world = World::new();
    let flow =
        world.flow_of("a b c d e j a>j b>j c>j d>j e>j", |flow| policy(flow, "j", MAIN, GroupPolicy::AnyOf, CANCEL));
    let held = world.claim_member(flow, "b");
    world.complete_member(flow, "c");
    assert_eq!(
        world.states(flow, "a b c d e j"),
        ["cancelled", "cancelled", "completed", "cancelled", "cancelled", "waiting"]
    );
    let late = world.run(calls::complete(held.id, fence(&held), None));
    assert_eq!(late.unwrap_err().code(), "cancelled", "FL-117 never both");
    let State::Done { outcome, reason, .. } = world.member(flow, "a").hot.state else { panic!("it has ended") };
    assert_eq!((outcome, reason), (Outcome::Cancelled, Reason::Sibling));
    let expected =
        EndedBy::Sibling { downstream: member_id(flow, "j"), group: MAIN.into(), verdict: GroupState::Satisfied };
    assert_eq!(world.member(flow, "a").member().unwrap().cause, Some(expected), "FL-118");
    world.complete_member(flow, "j");
    let done = world.flow(flow);
    assert_eq!((done.public_state().name(), done.summary.members_neutral), ("completed", 4), "FL-136");
}

#[test]
fn fl_253_a_quorum_of_three_is_impossible_at_the_third_failure() {
    for (then, live) in [(CANCEL, "cancelled"), (Then::LetRun, "waiting")] {
        let mut world = World::new();
        let flow = world
            .flow_of("a b c d e j a>j b>j c>j d>j e>j", |flow| policy(flow, "j", MAIN, GroupPolicy::Quorum(3), then));
        world.fail_member(flow, "a");
        world.fail_member(flow, "b");
        assert_eq!(world.state(flow, "j"), "waiting_children");
        world.fail_member(flow, "c");
        assert_eq!(world.states(flow, "d e j"), [live, live, "skipped"]);
    }
}

#[test]
fn fl_254_a_sibling_that_another_group_needs_runs_on() {
    let mut world = World::new();
    let flow = world.flow_of("s x y d e s>d x>d s>e y>e", |flow| {
        policy(flow, "d", MAIN, GroupPolicy::AnyOf, CANCEL);
        policy(flow, "e", MAIN, GroupPolicy::AnyOf, CANCEL);
    });
    world.complete_member(flow, "x");
    assert_eq!(world.states(flow, "s d e"), ["waiting", "waiting", "waiting_children"], "e needs s");
    world.complete_member(flow, "s");
    assert_eq!(world.states(flow, "y e"), ["cancelled", "waiting"]);
}

#[test]
fn fl_255_ten_thousand_siblings_are_cancelled_in_bounded_commits_and_none_twice() {
    let mut world = World::new();
    let mut flow = blank_flow();
    flow.members = (0..3_000).map(|at| member(&format!("s{at}"))).chain([member("j")]).collect();
    flow.edges = (0..3_000).map(|at| edge(&format!("s{at}>j"))).collect();
    policy(&mut flow, "j", MAIN, GroupPolicy::AnyOf, CANCEL);
    let flow = world.submit_flow(flow).unwrap().id;
    world.scan();
    let held = world.claim_member(flow, "s7");
    let before = world.commits;
    world.run(calls::complete(held.id, fence(&held), None)).unwrap();
    assert_eq!(world.state(flow, "j"), "waiting");
    assert_eq!(world.flow(flow).hot.works, 1, "FL-115 the rest is owed");
    world.scan();
    // The deciding commit and the one behind it cancel few; at this rate ten thousand take 41.
    let few = (SIBLINGS_AT_ONCE + SIBLINGS_AT_ONCE / 2) as u64;
    let most = |siblings: u64| 2 + (siblings - few).div_ceil(SIBLINGS_PER_COMMIT as u64);
    assert_eq!(most(10_000), 41);
    assert!(world.commits - before <= most(3_000), "{} commits", world.commits - before);
    let finished = world.events.iter().filter(|event| event.fact.name() == "execution.finished").count();
    assert_eq!(finished, 3_000, "each ended once");
    assert_eq!(world.flow(flow).summary.members_neutral, 2_999);
    world.complete_member(flow, "j");
    assert_eq!(world.flow_state(flow), "completed");
}

#[test]
fn fl_256_edges_on_failure_and_on_any_end() {
    for (critical, ended) in [(true, "failed"), (false, "completed")] {
        let mut world = World::new();
        let flow = world.flow_of("u h n z u!>h u>n h*>z n*>z", |flow| flow.members[0].critical = critical);
        world.fail_member(flow, "u");
        assert_eq!(world.states(flow, "h n z"), ["waiting", "skipped", "waiting_children"]);
        world.complete_member(flow, "h");
        world.complete_member(flow, "z");
        assert_eq!(world.flow_state(flow), ended);
    }
}

#[test]
fn fl_257_a_fan_out_beyond_one_commit_makes_every_child_ready_once() {
    let mut world = World::new();
    let mut flow = blank_flow();
    flow.members = [member("u")].into_iter().chain((0..2_500).map(|at| member(&format!("c{at}")))).collect();
    flow.edges = (0..2_500).map(|at| edge(&format!("u>c{at}"))).collect();
    let flow = world.submit_flow(flow).unwrap().id;
    world.scan();
    world.complete_member(flow, "u");
    assert!(world.flow(flow).hot.works > 0);
    world.scan();
    assert_eq!(world.flow(flow).summary.of(crate::record::execution::PublicState::Waiting), 2_500);
    assert_eq!((world.flow(flow).hot.works, world.flow(flow).summary.edges_pending), (0, 0));
}

#[test]
fn fl_93_a_long_chain_below_a_failure_is_skipped_to_its_end() {
    let mut world = World::new();
    let mut flow = blank_flow();
    flow.members = (0..3_000).map(|at| member(&format!("m{at}"))).collect();
    flow.edges = (1..3_000).map(|at| edge(&format!("m{}>m{at}", at - 1))).collect();
    let flow = world.submit_flow(flow).unwrap().id;
    world.scan();
    let before = world.commits;
    world.fail_member(flow, "m0");
    world.scan();
    assert_eq!(world.flow(flow).summary.of(crate::record::execution::PublicState::Skipped), 2_999);
    assert_eq!(world.flow_state(flow), "failed");
    // Nothing is in memory here: each commit goes as far down as it may load.
    assert!(world.commits - before < 400, "{} commits", world.commits - before);
}

#[test]
fn fl_258_replaying_a_failed_upstream_reopens_what_was_skipped_below_it() {
    let mut world = World::new();
    let flow = world.flow_of("u a b c u>a a>b b>c", |_| {});
    world.fail_member(flow, "u");
    assert_eq!((world.states(flow, "a b c"), world.flow_state(flow)), (vec!["skipped"; 3], "failed"));
    world.run(Command::Replay(calls::replay(member_id(flow, "u")))).unwrap();
    assert_eq!((world.states(flow, "a b c"), world.flow(flow).hot.reopens), (vec!["waiting_children"; 3], 1));
    for key in ["u", "a", "b", "c"] {
        world.complete_member(flow, key);
    }
    let done = world.flow(flow);
    assert_eq!((done.public_state().name(), done.summary.failures), ("completed", 0), "FL-169");
    assert_eq!(names(&world), ["flow.created", "flow.sealed", "flow.finished", "flow.reopened", "flow.finished"]);
}

#[test]
fn fl_259_a_downstream_that_runs_is_not_touched_by_a_replay_above_it() {
    let mut world = World::new();
    let flow = world.flow_of("u d u>d=x", |_| {});
    world.complete_member(flow, "u");
    let held = world.claim_member(flow, "d");
    world.run(Command::Replay(calls::replay(member_id(flow, "u")))).unwrap();
    let before = world.member(flow, "d");
    world.fail_member(flow, "u");
    assert_eq!(world.member(flow, "d"), before, "FL-165");
    world.run(calls::complete(held.id, fence(&held), None)).unwrap();
    assert_eq!(world.state(flow, "d"), "completed");
}

#[test]
fn fl_164_a_second_success_keeps_an_any_of_decided() {
    let mut world = World::new();
    let flow = world.flow_of("a b j a>j b>j", |flow| policy(flow, "j", MAIN, GroupPolicy::AnyOf, Then::LetRun));
    world.complete_member(flow, "a");
    world.complete_member(flow, "b");
    world.run(Command::Replay(calls::replay(member_id(flow, "a")))).unwrap();
    assert_eq!(world.state(flow, "j"), "waiting");
    world.run(Command::Replay(calls::replay(member_id(flow, "b")))).unwrap();
    assert_eq!(world.state(flow, "j"), "waiting_children", "FL-163 nobody meets it any more");
}

#[test]
fn fl_167_a_skipped_member_is_replayed_only_if_it_could_run() {
    let mut world = World::new();
    let flow = world.flow_of("u d u>d", |_| {});
    world.fail_member(flow, "u");
    let d = member_id(flow, "d");
    let refused = world.run(Command::Replay(calls::replay(d)));
    assert_eq!(refused, Err(Rejection::StillImpossible { edges: vec![("u".into(), "d".into())] }));
    let forced = Replay { ignore_dependencies: true, ..calls::replay(d) };
    world.run(Command::Replay(forced)).unwrap();
    assert!(world.member(flow, "d").member().unwrap().groups[0].waived, "FL-37");
    world.complete_member(flow, "d");
    assert_eq!(world.flow_state(flow), "failed", "u still counts");
}

#[test]
fn fl_133_fail_fast_ends_the_flow_in_the_commit_of_the_failure() {
    let mut world = World::new();
    let remaining = Remaining::Cancel(Mode::Immediate);
    let flow = world.flow_of("a b c", |flow| flow.failure = FailurePolicy::FailFast { remaining });
    world.fail_member(flow, "a");
    let ending = world.flow(flow).ending().cloned().expect("it ends");
    assert_eq!((ending.outcome, ending.cause), (FlowOutcome::Failed, Cause::Member(member_id(flow, "a"))));
    world.scan();
    assert_eq!((world.states(flow, "b c"), world.flow_state(flow)), (vec!["cancelled"; 2], "failed"));
}

#[test]
fn fl_134_root_threshold_and_declared() {
    let mut world = World::new();
    let root = world.flow_of("a b", |flow| {
        flow.completion = CompletionPolicy::Root { key: "a".into(), remaining: Remaining::LetRun };
    });
    world.complete_member(root, "a");
    assert_eq!(world.flow_state(root), "ending");
    world.fail_member(root, "b");
    assert_eq!(world.flow_state(root), "completed", "FL-135 the first decision stands");

    let cancel = Remaining::Cancel(Mode::Immediate);
    let two = world.flow_of("a b c", |flow| {
        flow.completion = CompletionPolicy::Threshold { successes: 2, remaining: cancel };
        flow.growth = Growth::Fixed;
    });
    world.fail_member(two, "a");
    assert_eq!(world.flow_state(two), "running");
    world.fail_member(two, "b");
    world.scan();
    assert_eq!((world.flow_state(two), world.state(two, "c")), ("failed", "cancelled"), "it cannot be reached");

    let declared = world.flow_of("a", |flow| flow.completion = CompletionPolicy::Declared { remaining: cancel });
    world.complete_member(declared, "a");
    assert_eq!(world.flow_state(declared), "open", "FL-137");
    let finish = FinishFlow { flow: declared, outcome: FlowOutcome::Completed, reason: "ok".into(), within: None };
    world.run(Command::FinishFlow(finish)).unwrap();
    assert_eq!(world.flow_state(declared), "completed");

    let collected = world.flow_of("a b", |flow| flow.failure = FailurePolicy::CollectAll);
    world.fail_member(collected, "a");
    world.complete_member(collected, "b");
    assert_eq!((world.flow_state(collected), world.flow(collected).summary.failures), ("completed", 1));
}

#[test]
fn fl_13_nothing_is_claimable_before_its_seal() {
    let mut world = World::new();
    let flow = world.flow_of("a b a>b", |flow| flow.seal = false);
    assert_eq!(world.states(flow, "a b"), ["waiting_children", "waiting_children"]);
    let keys = Some(vec!["a".into()]);
    world.run(Command::SealFlow(SealFlow { flow, keys, within: None, checked: None })).unwrap();
    assert_eq!(world.states(flow, "a b"), ["waiting", "waiting_children"]);
    world.complete_member(flow, "a");
    assert_eq!(world.state(flow, "b"), "waiting_children", "FL-32 decided at the seal");
    let whole = || Command::SealFlow(SealFlow { flow, keys: None, within: None, checked: None });
    world.run(whole()).unwrap();
    assert_eq!(world.state(flow, "b"), "waiting");
    assert_eq!(world.run(whole()), Ok(Reply::FlowSealed { already: true, continued: false }), "FL-57");
    world.complete_member(flow, "b");
    assert_eq!(world.flow_state(flow), "completed");
}

#[test]
fn fl_55_unsealed_members_of_a_sealed_flow_are_sealed_with_it_or_end_in_time() {
    let grow = |world: &mut World, flow| {
        let (members, edges) = graph("late later late>later");
        let grow = GrowFlow { flow, members, edges, seal: false, expected_revision: None, within: None };
        world.run(Command::GrowFlow(Box::new(grow))).unwrap();
    };
    let mut world = World::new();
    let flow = world.flow_of("a", |_| {});
    grow(&mut world, flow);
    world.complete_member(flow, "a");
    assert_eq!((world.flow_state(flow), world.state(flow, "late")), ("open", "waiting_children"));
    let seal = Command::SealFlow(SealFlow { flow, keys: None, within: None, checked: None });
    assert_eq!(world.run(seal), Ok(Reply::FlowSealed { already: false, continued: false }));
    assert_eq!(world.states(flow, "late later"), ["waiting", "waiting_children"]);
    let forgotten = world.flow_of("a", |_| {});
    grow(&mut world, forgotten);
    world.complete_member(forgotten, "a");
    world.at(86_400_001).scan();
    assert_eq!((world.flow_state(forgotten), world.state(forgotten, "late")), ("cancelled", "cancelled"));
}

#[test]
fn fl_58_members_that_come_later_have_a_time_of_their_own_to_be_sealed() {
    const DAY: u64 = 86_400_000;
    let mut world = World::new();
    let flow = world.flow_of("a", |_| {});
    let grow = |world: &mut World, key: &str| {
        let members = vec![member(key)];
        let grow = GrowFlow { flow, members, edges: vec![], seal: false, expected_revision: None, within: None };
        world.run(Command::GrowFlow(Box::new(grow))).unwrap();
    };
    grow(&mut world, "b");
    let keys = Some(vec!["b".into()]);
    world.run(Command::SealFlow(SealFlow { flow, keys, within: None, checked: None })).unwrap();
    world.at(2 * DAY).scan();
    grow(&mut world, "c");
    world.scan();
    assert_eq!(world.states(flow, "a b c"), ["waiting", "waiting", "waiting_children"]);
    grow(world.at(2 * DAY + DAY / 2), "d");
    world.at(3 * DAY).scan();
    assert_eq!(world.flow_state(flow), "cancelled", "the first of them counts");
}

#[test]
fn fl_58_a_flow_that_is_never_sealed_is_cancelled() {
    let mut world = World::new();
    let flow = world.flow_of("a", |flow| {
        flow.seal = false;
        flow.seal_by_ms = Some(1_000);
    });
    world.at(1_000).scan();
    assert_eq!((world.flow_state(flow), world.state(flow, "a")), ("cancelled", "cancelled"));
    let empty = world.flow_of("", |flow| {
        flow.seal = false;
        flow.seal_by_ms = Some(1_000);
    });
    world.at(3_000).scan();
    assert_eq!(world.flow_state(empty), "cancelled");
}

#[test]
fn fl_148_the_deadline_of_a_flow_ends_it_with_its_members() {
    let mut world = World::new();
    let flow = world.flow_of("a b a>b", |flow| flow.deadline = Some(When::InMs(2_000)));
    world.claim_member(flow, "a");
    world.at(2_000).scan();
    assert_eq!((world.flow_state(flow), world.states(flow, "a b")), ("failed", vec!["cancelled"; 2]));
}

#[test]
fn fl_65_an_edge_added_before_and_one_added_after_the_end_leave_the_same() {
    let build = |early: bool| {
        let mut world = World::new();
        let flow = world.flow_of("u v", |_| {});
        if early {
            world.grow(flow, "d u>d v>d").unwrap();
            world.complete_member(flow, "u");
        } else {
            world.complete_member(flow, "u");
            world.grow(flow, "d u>d v>d").unwrap();
        }
        let downstream = world.member(flow, "d");
        (downstream.hot.state.clone(), downstream.member().unwrap().groups.clone(), world.edges_of(flow))
    };
    assert_eq!(build(true), build(false));
}

#[test]
fn fl_64_a_late_edge_makes_its_downstream_wait_again() {
    let mut world = World::new();
    let flow = world.flow_of("a b c", |_| {});
    world.grow(flow, "a>b").unwrap();
    assert_eq!(world.state(flow, "b"), "waiting_children");
    world.claim_member(flow, "c");
    let begun = world.grow(flow, "a>c").unwrap_err();
    assert_eq!((begun.code(), begun.class()), ("downstream_begun", crate::error::Class::Conflict));
    let named = "`edges[0]` (`a` -> `c`): the downstream has begun; an edge to it would come too late";
    assert_eq!(begun.to_string(), named);
    world.complete_member(flow, "a");
    assert_eq!(world.state(flow, "b"), "waiting");
    assert_eq!(world.grow(flow, "c>b").unwrap_err().code(), "group_decided");
    world.grow(flow, "c>b@second").unwrap();
    assert_eq!(world.state(flow, "b"), "waiting_children");
    assert_eq!(world.grow(flow, "b>a").unwrap_err().code(), "execution_terminal");
}

#[test]
fn fl_24_edges_that_would_close_a_cycle_are_refused_with_the_way() {
    let mut world = World::new();
    let flow = world.flow_of("a b c x a>b b>c", |_| {});
    let refused = world.grow(flow, "c>a").unwrap_err();
    assert_eq!((refused.code(), refused.to_string()), ("cycle", "the edges close a cycle: c -> a -> b -> c".into()));
    world.grow(flow, "d c>d").unwrap();
    assert_eq!(world.grow(flow, "d>b").unwrap_err().code(), "cycle");
    world.grow(flow, "x>a").unwrap();
    world.grow(flow, "y y>x").unwrap();
    assert_eq!(world.grow(flow, "d>y").unwrap_err().code(), "cycle");
}

#[test]
fn fl_12_the_same_members_again_are_the_same_members() {
    let mut world = World::new();
    let flow = world.flow_of("a", |_| {});
    let held = world.claim_member(flow, "a");
    let Ok(Reply::FlowGrown(first)) = world.within(&held, "c1 c2 c1>c2") else { panic!("added") };
    let Ok(Reply::FlowGrown(again)) = world.within(&held, "c1 c2 c1>c2") else { panic!("known") };
    let plain = |grown: &crate::reply::FlowGrown| {
        grown.members.iter().map(|(_, id, existed)| (*id, *existed)).collect::<Vec<_>>()
    };
    let (first_ids, again_ids) = (plain(&first), plain(&again));
    assert!(first_ids.iter().zip(&again_ids).all(|(one, two)| one.0 == two.0 && !one.1 && two.1));
    assert_eq!((again.edges_existed, again.revision), (1, first.revision));
    assert_eq!(world.flow(flow).summary.total_members, 3);
    let mut other = member("c1");
    other.submit.input = Some("else".into());
    let grow =
        GrowFlow { flow, members: vec![other], edges: vec![], seal: true, expected_revision: None, within: None };
    let mismatch = world.run(Command::GrowFlow(Box::new(grow))).unwrap_err();
    assert_eq!(mismatch.code(), "idempotency_mismatch");
    assert!(mismatch.to_string().starts_with("`members[0]` (`c1`): the key belongs to `x_"), "{mismatch}");
    world.at(40_000);
    assert_eq!(world.within(&held, "c3").unwrap_err().code(), "lease_expired", "FL-62");
}

#[test]
fn fl_263_children_of_a_member_join_its_flow_once_under_their_keys() {
    let mut world = World::new();
    let flow = world.flow_of("p", |_| {});
    let held = world.claim_member(flow, "p");
    let parent = Some((held.id, fence(&held)));
    let spawn = |world: &mut World, key: Option<&'static str>, outside| {
        let id = Some(world.fresh_id());
        let cmd = Submit { id, parent, outside, idempotency_key: key.map(Into::into), ..calls::submit() };
        match world.run(Command::Submit(Box::new(cmd))) {
            Ok(Reply::Submitted(done)) => done,
            other => panic!("{other:?}"),
        }
    };
    let first = spawn(&mut world, Some("k"), false);
    let again = spawn(&mut world, Some("k"), false);
    assert_eq!((again.id, again.duplicate), (first.id, true));
    let unnamed = spawn(&mut world, None, false);
    assert_eq!(&*world.execution(unnamed.id).member().unwrap().key, unnamed.id.to_string());
    let outside = spawn(&mut world, None, true);
    assert!(world.execution(outside.id).member().is_none(), "FL-15");
    assert_eq!(world.flow(flow).summary.total_members, 3);
    assert_eq!(world.member(flow, "p").hot.children, 3);
    world.run(calls::complete(held.id, fence(&held), None)).unwrap();
    assert_eq!(world.flow_state(flow), "running", "children keep it open");
}

#[test]
fn fl_72_all_that_has_ended_by_the_first_claim_is_handed_over_and_pinned() {
    let mut world = World::new();
    let flow = world
        .flow_of("a b c j a>j=x[] b>j=x[] c>j=x[]", |flow| policy(flow, "j", MAIN, GroupPolicy::AnyOf, Then::LetRun));
    world.complete_member(flow, "a");
    world.complete_member(flow, "b");
    let held = world.claim_member(flow, "j");
    let names = |claimed: &crate::reply::Claimed| {
        claimed.inputs.iter().map(|input| input.upstream.to_string()).collect::<Vec<_>>()
    };
    assert_eq!((names(&held), held.inputs_missing.len()), (vec!["a".to_owned(), "b".to_owned()], 1));
    world.complete_member(flow, "c");
    world.at(30_000).scan();
    let again = world.claim_member(flow, "j");
    assert_eq!(names(&again), ["a", "b"], "FL-74, FL-76");
}

#[test]
fn fl_201_members_go_at_their_time_and_the_flow_goes_last() {
    let mut world = World::new();
    let flow = world.flow_of("a b a>b=x", |flow| {
        flow.members[0].submit.policy.retention_ms = Some(1_000);
        flow.retention_ms = Some(60_000);
    });
    world.complete_member(flow, "a");
    world.at(2_000).scan();
    assert!(world.record(crate::record::Key::Execution(member_id(flow, "a"))).is_some(), "EX-82 its flow is not done");
    world.complete_member(flow, "b");
    world.scan();
    assert!(world.record(crate::record::Key::Execution(member_id(flow, "a"))).is_none());
    let kept = world.flow(flow);
    assert_eq!((kept.summary.members_purged, kept.public_state().name()), (1, "completed"), "FL-174");
    world.at(70_000).scan();
    world.at(100_000_000).scan();
    assert!(world.is_swept(), "{:?}", world.records.keys().collect::<Vec<_>>());
}

#[test]
fn fl_44_a_graph_of_several_commits_is_seen_whole_or_not_at_all() {
    let mut world = World::new();
    let mut large = blank_flow();
    large.idempotency_key = Some("once".into());
    large.members = (0..4_000).map(|at| member(&format!("m{at}"))).collect();
    let limits = crate::limits::Limits::default();
    let plan = std::sync::Arc::new(crate::flow::plan::Plan::new(large, &limits, Time::ZERO).unwrap());
    assert_eq!(plan.pieces(), 2);
    let id = world.fresh_flow();
    let build = |world: &mut World, id, from| {
        world.run(Command::SubmitFlow(SubmitFlow { id: Some(id), plan: plan.clone(), from }))
    };
    assert_eq!(build(&mut world, id, 0), Ok(Reply::FlowBuilding { flow: id, next: 1 }));
    let hidden = world.run(cancel(id, Remaining::LetRun));
    assert_eq!(hidden, Err(Rejection::FlowNotFound));
    let some = member_id(id, "m7");
    let before = world.execution(some);
    for command in [Command::Cancel(calls::cancel(some)), calls::hold(some), Command::Replay(calls::replay(some))] {
        assert_eq!(world.run(command), Err(Rejection::ExecutionNotFound), "its members are not there either");
    }
    assert_eq!(world.try_claim(some, |_| {}), Err(Rejection::ExecutionNotFound));
    assert_eq!(world.execution(some), before);
    assert!(world.executions().all(|it| it.public_state().name() == "waiting_children"), "nothing may start");
    let other = world.fresh_flow();
    assert_eq!(build(&mut world, other, 0), Ok(Reply::FlowBuilding { flow: id, next: 1 }), "a repeat goes on");
    let Ok(Reply::FlowSubmitted(done)) = build(&mut world, id, 1) else { panic!("whole") };
    assert_eq!((done.id, done.members.len(), done.duplicate), (id, 4_000, false));
    world.scan();
    assert!(world.flow(id).hot.sealed_at.is_some());
    assert!(world.executions().all(|it| it.public_state().name() == "waiting"));
    world.run(calls::hold(some)).expect("it is there now");
    let Ok(Reply::FlowSubmitted(again)) = build(&mut world, other, 0) else { panic!("known") };
    assert_eq!((again.id, again.duplicate), (id, true), "FL-2");
}

#[test]
fn fl_44_what_never_becomes_whole_is_removed() {
    let mut world = World::new();
    let mut large = blank_flow();
    large.members = (0..4_000).map(|at| member(&format!("m{at}"))).collect();
    let limits = crate::limits::Limits::default();
    let plan = std::sync::Arc::new(crate::flow::plan::Plan::new(large, &limits, Time::ZERO).unwrap());
    let id = world.fresh_flow();
    world.run(Command::SubmitFlow(SubmitFlow { id: Some(id), plan: plan.clone(), from: 0 })).unwrap();
    world.at(300_000).scan();
    assert!(world.is_swept());
    let late = world.run(Command::SubmitFlow(SubmitFlow { id: Some(id), plan, from: 1 }));
    assert_eq!(late, Err(Rejection::FlowNotFound));
}

#[test]
fn fl_44_a_graph_that_is_being_removed_takes_no_more_pieces() {
    let mut world = World::new();
    let mut large = blank_flow();
    large.idempotency_key = Some("once".into());
    large.members = (0..4_000).map(|at| member(&format!("m{at}"))).collect();
    let limits = crate::limits::Limits::default();
    let plan = std::sync::Arc::new(crate::flow::plan::Plan::new(large, &limits, Time::ZERO).unwrap());
    let (first, second) = (world.fresh_flow(), world.fresh_flow());
    let build = |world: &mut World, id, from| {
        world.run(Command::SubmitFlow(SubmitFlow { id: Some(id), plan: plan.clone(), from }))
    };
    build(&mut world, first, 0).unwrap();
    let key = crate::record::Key::Flow(first);
    world.at(300_000).expire(key, Timer::SealBy, Time::from_ms(300_000)).unwrap();
    assert_eq!(build(&mut world, first, 1), Err(Rejection::FlowNotFound));
    let anew = Ok(Reply::FlowBuilding { flow: second, next: 1 });
    assert_eq!(build(&mut world, second, 0), anew, "what never became whole stands for nothing");
    world.scan();
    assert!(world.record(key).is_none());
    assert!(matches!(build(&mut world, second, 1), Ok(Reply::FlowSubmitted(_))));
    let Ok(Reply::FlowSubmitted(again)) = build(&mut world, first, 0) else { panic!("known") };
    assert_eq!((again.id, again.duplicate), (second, true), "the key stays with the one that is whole");
}

#[test]
fn fl_44_a_deadline_that_passes_while_the_graph_is_built_gives_it_up() {
    let mut world = World::new();
    let mut large = blank_flow();
    large.idempotency_key = Some("once".into());
    large.members = (0..4_000).map(|at| member(&format!("m{at}"))).collect();
    large.edges = vec![edge("m0>m1")];
    for at in [0, 2] {
        large.members[at].submit.deadline = Some(When::InMs(1_000));
    }
    let limits = crate::limits::Limits::default();
    let plan = std::sync::Arc::new(crate::flow::plan::Plan::new(large, &limits, Time::ZERO).unwrap());
    let (first, second) = (world.fresh_flow(), world.fresh_flow());
    let build = |world: &mut World, id, from| {
        world.run(Command::SubmitFlow(SubmitFlow { id: Some(id), plan: plan.clone(), from }))
    };
    build(&mut world, first, 0).unwrap();
    let due = Time::from_ms(1_000);
    let fire = |world: &mut World, key: &str| {
        let key = crate::record::Key::Execution(member_id(first, key));
        world.at(1_000).expire(key, Timer::Deadline, due)
    };
    assert_eq!(fire(&mut world, "m0"), Ok(Reply::Expired(Expired::Fired)));
    assert_eq!(world.state(first, "m0"), "waiting_children", "nobody ends in a graph that is not whole");
    assert!(world.flow(first).hot.purging.is_some());
    assert_eq!(build(&mut world, first, 1), Err(Rejection::FlowNotFound));
    let before = world.flow(first);
    assert_eq!(fire(&mut world, "m2"), Ok(Reply::Expired(Expired::Fired)));
    assert_eq!(world.flow(first), before, "it is being removed already");
    let anew = Ok(Reply::FlowBuilding { flow: second, next: 1 });
    assert_eq!(build(&mut world, second, 0), anew, "what never became whole stands for nothing");
    world.at(1_500);
    assert!(matches!(build(&mut world, second, 1), Ok(Reply::FlowSubmitted(_))));
    world.scan();
    assert!(world.record(crate::record::Key::Flow(first)).is_none(), "all of it is gone");
    world.at(2_000).scan();
    assert_eq!(world.states(second, "m0 m1 m2"), ["expired", "skipped", "expired"]);
    assert!(!world.records.keys().any(|key| matches!(key, crate::record::Key::DeadLetter(..))));
}

#[test]
fn fl_44_a_piece_of_many_edges_wants_a_batch_to_itself() {
    let bulky = |members: usize, from: u32| {
        let mut flow = blank_flow();
        flow.members = (0..members).map(|at| member(&format!("m{at}"))).collect();
        let edges = (0..members).flat_map(|to| (0..to).map(move |from| edge(&format!("m{from}>m{to}"))));
        flow.edges = edges.collect();
        let plan = crate::flow::plan::Plan::new(flow, &crate::limits::Limits::default(), Time::ZERO).unwrap();
        let command = Command::SubmitFlow(SubmitFlow { id: None, plan: plan.into(), from });
        command.is_bulky()
    };
    assert!(!bulky(10, 0), "10 members and 45 edges");
    assert!(bulky(20, 0), "20 members and 190 edges");
    assert!(bulky(100, 0) && bulky(100, 1), "100 members and 4950 edges are two pieces");
}

#[test]
fn fl_40_problems_name_the_place_and_the_keys() {
    let mut world = World::new();
    let code = |world: &mut World, line: &str, change: fn(&mut NewFlow)| world.try_flow(line, change).unwrap_err();
    type Case = (&'static str, fn(&mut NewFlow), &'static str, &'static str);
    let cases: [Case; 12] = [
        ("", |_| {}, "empty_flow", "a flow needs at least one member before it is sealed"),
        ("a a", |_| {}, "duplicate_node", "`members[1].key`: the key `a` is there twice"),
        ("a a>b", |_| {}, "unknown_node", "`edges[0].to` names `b`, which is no member of the flow"),
        ("a a>a", |_| {}, "self_edge", "`edges[0]` leads from `a` to itself"),
        (
            "a b a>b a>b",
            |_| {},
            "duplicate_edge",
            "`edges[1]`: there is an edge from `a` to `b` in the group `main` already",
        ),
        (
            "a b c a>c=x b>c=x",
            |_| {},
            "duplicate_input",
            "`edges[1].input`: `c` has an input `x` already; end the name in `[]` to collect a list",
        ),
        (
            "a b",
            |flow| policy(flow, "b", "g", GroupPolicy::AllOf, Then::LetRun),
            "empty_group",
            "`members[1].groups[0]`: no edge to `b` is in its group `g`",
        ),
        (
            "a b a>b",
            |flow| policy(flow, "b", MAIN, GroupPolicy::Quorum(2), Then::LetRun),
            "quorum_unreachable",
            "`edges[0].group`: the group `main` of `b` wants 2 of 1 edges",
        ),
        ("a b c a>b b>c c>a", |_| {}, "cycle", "the edges close a cycle: a -> b -> c -> a"),
        (
            "a",
            |flow| flow.completion = CompletionPolicy::Root { key: "z".into(), remaining: Remaining::LetRun },
            "unknown_node",
            "`completion_policy.key` names `z`, which is no member of the flow",
        ),
        (
            "a",
            |flow| flow.members[0].submit.priority = Some(9_001),
            "invalid_argument",
            "`members[0]` (`a`): `priority` is 9001, allowed are 0 to 9000",
        ),
        (
            "a b a>b",
            |flow| {
                policy(flow, "b", MAIN, GroupPolicy::AnyOf, Then::LetRun);
                flow.edges[0].policy = Some((GroupPolicy::AllOf, Then::LetRun));
            },
            "group_conflict",
            "`edges[0].group`: the group `main` of `b` was given another policy before",
        ),
    ];
    for (line, change, expected, text) in cases {
        let refused = code(&mut world, line, change);
        assert_eq!((refused.code(), refused.to_string().as_str()), (expected, text), "{line}");
    }
    assert!(world.records.is_empty(), "all or nothing");
}

#[test]
fn fl_45_chains_fans_and_bipartite_graphs_of_ten_thousand_are_accepted() {
    let limits = crate::limits::Limits::default();
    let members = |count: usize| (0..count).map(|at| member(&format!("m{at}"))).collect::<Vec<_>>();
    let plan = |members, edges| {
        let flow = NewFlow { members, edges, ..blank_flow() };
        crate::flow::plan::Plan::new(flow, &limits, Time::ZERO).map(|plan| plan.members())
    };
    let chain = (1..10_000).map(|at| edge(&format!("m{}>m{at}", at - 1))).collect();
    assert_eq!(plan(members(10_000), chain), Ok(10_000));
    let fan = (1..10_000).map(|at| edge(&format!("m0>m{at}"))).collect();
    assert_eq!(plan(members(10_000), fan), Ok(10_000));
    let both = (0..100).flat_map(|from| (100..200).map(move |to| edge(&format!("m{from}>m{to}")))).collect();
    assert_eq!(plan(members(200), both), Ok(200));
    assert_eq!(plan(members(10_001), Vec::new()).unwrap_err().code(), "limit_exceeded");
}

#[test]
fn fl_182_planted_counters_are_repaired_once_and_only_when_seen_twice() {
    let mut world = World::new();
    let flow = world.flow_of("a b a>b", |_| {});
    world.complete_member(flow, "a");
    let key = crate::record::Key::Flow(flow);
    let mut wrong = world.flow(flow);
    (wrong.summary.by_state[0], wrong.summary.by_state[7]) = (0, 2);
    let bytes = wrong.encode(crate::schema::PartMask::of(crate::schema::flow::SUMMARY)).remove(0).1.unwrap();
    world.records.get_mut(&key).unwrap().parts.insert(crate::schema::flow::SUMMARY, bytes);
    world.records.get_mut(&key).unwrap().facets = wrong.facets();
    world.planted = true;
    let due = |world: &World| world.flow(flow).hot.verify_at.unwrap();
    let first = due(&world);
    world.now = first;
    assert_eq!(world.verify_flow(flow, first), Ok(crate::reply::Verified::Doubtful));
    world.now = due(&world);
    let second = due(&world);
    assert_eq!(world.verify_flow(flow, second), Ok(crate::reply::Verified::Repaired));
    assert!(names(&world).contains(&"flow.repaired"));
    assert_eq!(world.flow(flow).summary.by_state, world.recount(flow).by_state, "FL-264");
    assert_eq!(world.flow(flow).hot.verify_at, None, "FL-184");
    assert_eq!(world.scan().iter().filter(|(timer, ..)| *timer == Timer::FlowVerify).count(), 0);
}
