//! Replays of members: what they open again, and what they leave alone.

use crate::command::*;
use crate::error::Rejection;
use crate::flow::member_id;
use crate::kit::World;
use crate::kit::calls::{self, fence};
use crate::kit::flows::*;
use crate::limits::REPLAY_EDGES_MAX;
use crate::record::execution::{PublicState, State};
use crate::record::flow::{CompletionPolicy, FailurePolicy, Mode, Remaining};
use crate::record::member::{EndedBy, GroupPolicy, GroupState, MAIN, Then};
use crate::record::{Key, Record};
use crate::reply::InputValue;
use crate::schema::PartMask;
use crate::time::Time;
use crate::{ExecutionId, FlowId};

fn replay(world: &mut World, flow: FlowId, key: &str) {
    world.run(Command::Replay(calls::replay(member_id(flow, key)))).unwrap();
}

fn keep(world: &mut World, flow: FlowId, key: &str) {
    let replay = Replay { downstream: Downstream::Keep, ..calls::replay(member_id(flow, key)) };
    world.run(Command::Replay(replay)).unwrap();
}

/// Does all that commits left. What is resolved behind edges that are taken back waits a moment for them.
fn go_on(world: &mut World) {
    for _ in 0..3 {
        world.scan();
        world.now = world.now + 1_000;
    }
    world.scan();
}

#[test]
fn fl_160_a_replay_opens_a_finished_flow_and_decides_nothing_itself() {
    let mut world = World::new();
    let flow = world.flow_of("a b", |_| {});
    world.fail_member(flow, "a");
    world.complete_member(flow, "b");
    assert!(world.flow(flow).hot.purge_at.is_some(), "FL-200");
    replay(&mut world, flow, "a");
    let open = world.flow(flow);
    assert_eq!((open.public_state().name(), open.hot.reopens, open.hot.purge_at), ("running", 1, None));
    assert_eq!(open.summary.failures, 0, "FL-169");
    world.at(200_000_000).scan();
    assert_eq!(world.flow_state(flow), "running", "it is not purged");
    world.complete_member(flow, "a");
    assert_eq!(world.flow_state(flow), "completed");
}

#[test]
fn fl_160_a_replay_beside_a_root_that_has_ended_leaves_the_outcome_to_the_root() {
    for (root, outcome) in [(true, "completed"), (false, "failed")] {
        let mut world = World::new();
        let flow = world.flow_of("r a b", |flow| {
            flow.completion = CompletionPolicy::Root { key: "r".into(), remaining: Remaining::LetRun };
        });
        if root {
            world.complete_member(flow, "r");
        } else {
            world.fail_member(flow, "r");
        }
        world.fail_member(flow, "a");
        world.complete_member(flow, "b");
        assert_eq!(world.flow_state(flow), outcome);
        replay(&mut world, flow, "a");
        replay(&mut world, flow, "b");
        world.complete_member(flow, "a");
        assert_eq!((world.flow_state(flow), world.state(flow, "b")), ("running", "waiting"));
        world.complete_member(flow, "b");
        assert_eq!(world.flow_state(flow), outcome);
    }
}

#[test]
fn fl_160_a_threshold_that_was_reached_is_looked_at_again_by_the_next_end_only() {
    let mut world = World::new();
    let flow = world.flow_of("a b c x y", |flow| {
        flow.completion = CompletionPolicy::Threshold { successes: 2, remaining: Remaining::FinishActive };
    });
    let held = ["a", "b", "c", "x", "y"].map(|key| world.claim_member(flow, key));
    for claimed in &held[..3] {
        world.run(calls::complete(claimed.id, fence(claimed), None)).unwrap();
    }
    for claimed in &held[3..] {
        world.run(calls::fail(claimed.id, fence(claimed))).unwrap();
    }
    assert_eq!(world.flow_state(flow), "completed");
    replay(&mut world, flow, "x");
    assert_eq!(world.flow_state(flow), "running");
    replay(&mut world, flow, "y");
    world.scan();
    assert_eq!(world.states(flow, "x y"), ["waiting", "waiting"]);
    let claimed = world.claim_member(flow, "x");
    assert_eq!(world.flow_state(flow), "running", "neither does a claim decide");
    world.run(calls::complete(claimed.id, fence(&claimed), None)).unwrap();
    world.scan();
    assert_eq!((world.flow_state(flow), world.state(flow, "y")), ("completed", "cancelled"));
}

#[test]
fn fl_161_no_replay_escapes_a_cancel() {
    let mut world = World::new();
    let flow = world.flow_of("a b", |_| {});
    world.fail_member(flow, "a");
    let held = world.claim_member(flow, "b");
    let cancel = CancelFlow { flow, remaining: Remaining::FinishActive, reason: "enough".into() };
    world.run(Command::CancelFlow(cancel)).unwrap();
    let again = Command::Replay(calls::replay(member_id(flow, "a")));
    assert_eq!(world.run(again.clone()), Err(Rejection::FlowClosed { why: "ending" }));
    world.run(calls::complete(held.id, fence(&held), None)).unwrap();
    assert_eq!(world.run(again), Err(Rejection::FlowClosed { why: "cancelled" }));
}

#[test]
fn fl_160_a_relative_deadline_counts_anew_for_a_flow_that_opens_again() {
    let mut world = World::new();
    let flow = world.flow_of("a b", |flow| flow.deadline = Some(When::InMs(2_000)));
    world.complete_member(flow, "b");
    world.claim_member(flow, "a");
    world.at(2_000).scan();
    assert_eq!((world.flow_state(flow), world.state(flow, "a")), ("failed", "cancelled"), "FL-148");
    world.at(5_000);
    replay(&mut world, flow, "a");
    world.scan();
    assert_eq!((world.flow_state(flow), world.state(flow, "a")), ("running", "waiting"));
    replay(world.at(6_000), flow, "b");
    assert_eq!(world.flow(flow).hot.deadline_at.map(Time::ms), Some(7_000), "a flow that is open keeps its own");
    world.at(7_000).scan();
    assert_eq!((world.flow_state(flow), world.state(flow, "a")), ("failed", "cancelled"));
}

#[test]
fn fl_160_an_absolute_deadline_that_has_passed_refuses_a_replay_unless_another_is_given() {
    let mut world = World::new();
    let flow = world.flow_of("a", |flow| flow.deadline = Some(When::At(Time::from_ms(2_000))));
    world.fail_member(flow, "a");
    replay(world.at(1_000), flow, "a");
    assert_eq!(world.flow(flow).hot.deadline_at.map(Time::ms), Some(2_000), "it is ahead");
    world.fail_member(flow, "a");
    world.at(5_000);
    let before = world.records.clone();
    let again = calls::replay(member_id(flow, "a"));
    assert_eq!(world.run(Command::Replay(again.clone())), Err(Rejection::DeadlineInPast));
    assert_eq!(world.records, before);
    world.run(Command::Replay(Replay { deadline: DeadlineWish::None, ..again })).unwrap();
    world.at(100_000).scan();
    assert_eq!((world.flow_state(flow), world.flow(flow).hot.deadline_at), ("running", None));
}

#[test]
fn fl_58_fl_160_a_flow_without_a_seal_that_opens_again_has_its_time_again() {
    let mut world = World::new();
    let flow = world.flow_of("a b", |flow| {
        flow.failure = FailurePolicy::FailFast { remaining: Remaining::LetRun };
        flow.seal = false;
        flow.retention_ms = None;
    });
    world.run(Command::SealFlow(SealFlow { flow, keys: Some(vec!["a".into()]), within: None, checked: None })).unwrap();
    world.fail_member(flow, "a");
    world.scan();
    assert_eq!(world.flow_state(flow), "failed");
    world.at(200_000_000);
    replay(&mut world, flow, "a");
    world.scan();
    assert_eq!((world.flow_state(flow), world.state(flow, "a")), ("running", "waiting"));
    assert!(world.flow(flow).hot.sealed_at.is_none() && world.flow(flow).hot.seal_by > Some(world.now));
}

#[test]
fn fl_162_edges_go_back_where_the_downstream_has_not_begun() {
    let mut world = World::new();
    let flow = world.flow_of("u v ready delayed blocked begun u>ready u>delayed u>blocked v>blocked u>begun", |flow| {
        flow.members[3].submit.start = Some(When::InMs(60_000));
    });
    world.complete_member(flow, "u");
    assert_eq!(world.states(flow, "ready delayed blocked"), ["waiting", "delayed", "waiting_children"]);
    let held = world.claim_member(flow, "begun");
    replay(&mut world, flow, "u");
    assert_eq!(
        world.states(flow, "ready delayed blocked begun"),
        ["waiting_children", "waiting_children", "waiting_children", "active"]
    );
    assert_eq!(world.member(flow, "ready").member().unwrap().groups[0].opening, 1);
    assert_eq!(world.flow(flow).summary.edges_pending, 4, "FL-165 that of the one that runs is not among them");
    world.complete_member(flow, "u");
    assert_eq!(world.states(flow, "ready delayed"), ["waiting", "delayed"], "FL-80 a start time keeps its effect");
    world.run(calls::complete(held.id, fence(&held), None)).unwrap();
}

#[test]
fn fl_162_a_flow_is_not_decided_while_members_are_still_to_come_back() {
    let mut world = World::new();
    let mut wide = blank_flow();
    wide.members = ["u", "s"].into_iter().map(member).collect();
    // As many as one commit looks at stand before the one that is skipped.
    for at in 0..1_000 {
        let key = format!("m{at}");
        wide.edges.push(edge(&format!("u*>{key}")));
        wide.members.push(NewMember { critical: false, ..member(&key) });
    }
    wide.edges.push(edge("u>s"));
    let flow = world.submit_flow(wide).unwrap().id;
    world.scan();
    for at in 0..1_000 {
        world.run(Command::Cancel(calls::cancel(member_id(flow, &format!("m{at}"))))).unwrap();
    }
    world.fail_member(flow, "u");
    world.scan();
    assert_eq!((world.state(flow, "s"), world.flow_state(flow)), ("skipped", "failed"));
    replay(&mut world, flow, "u");
    assert_eq!((world.state(flow, "s"), world.flow(flow).hot.works), ("skipped", 1), "there was no room for it");
    world.complete_member(flow, "u");
    assert_eq!((world.flow(flow).summary.live(), world.flow_state(flow)), (0, "open"));
    go_on(&mut world);
    assert_eq!((world.state(flow, "s"), world.flow_state(flow)), ("waiting", "running"));
    world.fail_member(flow, "s");
    assert_eq!((world.flow_state(flow), world.flow(flow).hot.works), ("failed", 0));
}

#[test]
fn fl_164_a_second_failure_keeps_an_all_of_impossible() {
    let mut world = World::new();
    let flow = world.flow_of("a b j a>j b>j", |_| {});
    world.fail_member(flow, "a");
    world.fail_member(flow, "b");
    replay(&mut world, flow, "a");
    assert_eq!(world.state(flow, "j"), "skipped");
    world.complete_member(flow, "a");
    assert_eq!(world.state(flow, "j"), "skipped");
    replay(&mut world, flow, "b");
    assert_eq!(world.state(flow, "j"), "waiting_children");
    world.complete_member(flow, "b");
    assert_eq!(world.state(flow, "j"), "waiting");
}

#[test]
fn fl_163_fl_233_what_is_still_being_reopened_when_it_is_skipped_again_is_skipped_to_the_last() {
    let mut world = World::new();
    let count = 2_500;
    let mut deep = blank_flow();
    deep.members = ["u", "d"].into_iter().map(member).collect();
    deep.members.extend((0..count).map(|at| member(&format!("c{at}"))));
    deep.edges = [edge("u>d")].into_iter().chain((0..count).map(|at| edge(&format!("d>c{at}")))).collect();
    let flow = world.submit_flow(deep).unwrap().id;
    world.scan();
    world.fail_member(flow, "u");
    world.scan();
    let skipped = |world: &World| world.flow(flow).summary.of(PublicState::Skipped);
    assert_eq!((skipped(&world), world.flow_state(flow)), (count + 1, "failed"));
    for _ in 0..2 {
        replay(&mut world, flow, "u");
        assert!(skipped(&world) > 0 && world.flow(flow).hot.works == 1, "there is no room for all");
        world.fail_member(flow, "u");
        go_on(&mut world);
        let done = world.flow(flow);
        assert_eq!((skipped(&world), done.hot.works, done.summary.edges_pending), (count + 1, 0, 0));
        assert_eq!(done.public_state().name(), "failed");
    }
    replay(&mut world, flow, "u");
    world.complete_member(flow, "u");
    world.complete_member(flow, "d");
    go_on(&mut world);
    let open = world.flow(flow);
    assert_eq!((open.summary.of(PublicState::Waiting), open.hot.works, open.summary.edges_pending), (count, 0, 0));
}

#[test]
fn fl_84_a_replay_amid_the_first_skips_leaves_one_continuation_per_member() {
    let mut world = World::new();
    let count = 2_500;
    let mut deep = blank_flow();
    deep.members = ["u", "d"].into_iter().map(member).collect();
    deep.members.extend((0..count).map(|at| member(&format!("c{at}"))));
    deep.edges = [edge("u>d")].into_iter().chain((0..count).map(|at| edge(&format!("d>c{at}")))).collect();
    let flow = world.submit_flow(deep).unwrap().id;
    world.scan();
    world.fail_member(flow, "u");
    assert_eq!(world.flow(flow).hot.works, 1, "the rest is left");
    for _ in 0..2 {
        replay(&mut world, flow, "u");
        world.fail_member(flow, "u");
    }
    go_on(&mut world);
    let done = world.flow(flow);
    assert_eq!((done.summary.of(PublicState::Skipped), done.hot.works, done.summary.edges_pending), (count + 1, 0, 0));
    assert_eq!(done.public_state().name(), "failed");
}

#[test]
fn fl_80_fl_169_a_start_time_and_a_hold_outlive_a_skip() {
    const HOUR: u64 = 3_600_000;
    let mut world = World::new();
    let flow = world.flow_of("u d e u>d u>e", |flow| {
        flow.members[1].submit.start = Some(When::InMs(24 * HOUR));
        flow.retention_ms = None;
    });
    world.run(calls::hold(member_id(flow, "e"))).unwrap();
    world.at(HOUR).fail_member(flow, "u");
    assert_eq!(world.states(flow, "d e"), ["skipped", "skipped"]);
    let cause = world.member(flow, "d").member().unwrap().cause.clone();
    assert_eq!(cause.as_ref().and_then(EndedBy::dependency), Some((MAIN, &[member_id(flow, "u")][..])), "FL-90");
    replay(&mut world, flow, "u");
    assert_eq!(world.states(flow, "d e"), ["waiting_children", "held"]);
    world.at(2 * HOUR).complete_member(flow, "u");
    assert_eq!(world.states(flow, "d e"), ["delayed", "held"]);
    let State::Delayed { until, .. } = world.member(flow, "d").hot.state else { panic!("it waits for its time") };
    assert_eq!(until.ms(), 24 * HOUR);
    world.run(Command::Release(Release { id: member_id(flow, "e"), reason: "go".into() })).unwrap();
    world.at(24 * HOUR).scan();
    assert_eq!(world.states(flow, "d e"), ["waiting", "waiting"]);
}

#[test]
fn fl_166_siblings_that_were_cancelled_stay_so() {
    let mut world = World::new();
    let then = Then::CancelRemaining(Mode::Immediate);
    let flow = world.flow_of("a b j a>j b>j", |flow| policy(flow, "j", MAIN, GroupPolicy::AnyOf, then));
    world.complete_member(flow, "a");
    replay(&mut world, flow, "a");
    assert_eq!(world.states(flow, "a b j"), ["waiting", "cancelled", "waiting_children"]);
    world.complete_member(flow, "a");
    assert_eq!(world.states(flow, "b j"), ["cancelled", "waiting"]);
}

#[test]
fn fl_167_a_skipped_member_is_judged_by_its_upstreams_as_they_are_now() {
    let mut world = World::new();
    let flow = world.flow_of("u d u>d=x", |_| {});
    world.fail_member(flow, "u");
    keep(&mut world, flow, "u");
    assert_eq!(world.state(flow, "d"), "skipped", "kept");
    world.complete_member(flow, "u");
    assert_eq!((world.state(flow, "d"), world.flow_state(flow)), ("skipped", "completed"));
    replay(&mut world, flow, "d");
    assert_eq!(world.state(flow, "d"), "waiting", "its upstream has succeeded meanwhile");
    let claimed = world.claim_member(flow, "d");
    assert!(matches!(claimed.inputs[0].value, InputValue::Inline(_)), "{:?}", claimed.inputs);
    world.run(calls::complete(claimed.id, fence(&claimed), None)).unwrap();
    assert_eq!(world.flow_state(flow), "completed");
}

#[test]
fn fl_167_a_group_whose_upstream_lives_again_is_waited_for() {
    let mut world = World::new();
    let flow = world.flow_of("a b d a>d@one b>d@two", |_| {});
    world.complete_member(flow, "a");
    world.fail_member(flow, "b");
    for key in ["a", "b"] {
        keep(&mut world, flow, key);
    }
    replay(&mut world, flow, "d");
    let states: Vec<GroupState> = world.member(flow, "d").member().unwrap().groups.iter().map(|it| it.state).collect();
    assert_eq!((world.state(flow, "d"), states), ("waiting_children", vec![GroupState::Pending; 2]));
    world.complete_member(flow, "b");
    assert_eq!(world.state(flow, "d"), "waiting_children");
    world.complete_member(flow, "a");
    assert_eq!(world.state(flow, "d"), "waiting");
}

#[test]
fn fl_167_a_replay_that_one_commit_does_not_take_is_refused_with_the_limit() {
    let mut world = World::new();
    world.planted = true;
    let count = REPLAY_EDGES_MAX + 1;
    let mut fan = blank_flow();
    fan.members = (0..count).map(|at| member(&format!("u{at}"))).chain([member("d")]).collect();
    fan.edges = (0..count).map(|at| edge(&format!("u{at}>d"))).collect();
    let flow = world.submit_flow(fan).unwrap().id;
    world.scan();
    world.run(calls::force_fail(member_id(flow, "u0"))).unwrap();
    for at in 1..count {
        let id = member_id(flow, &format!("u{at}"));
        let complete = ForceComplete { id, result: None, content_type: None, reason: "".into() };
        world.run(Command::ForceComplete(complete)).unwrap();
    }
    assert_eq!(world.state(flow, "d"), "skipped");
    // As if all upstreams had been replayed since, and had ended again.
    let tell_apart = |world: &mut World, at: usize, replays: u32| {
        let key = Key::Edge(member_id(flow, &format!("u{at}")), 0);
        let Some(Record::Edge(mut edge)) = world.record(key) else { panic!("an edge") };
        edge.body.resolved.as_mut().unwrap().replays = replays;
        let parts = Record::Edge(edge).encode(PartMask::ALL);
        world.records.get_mut(&key).unwrap().parts.extend(parts.into_iter().filter_map(|it| Some((it.0, it.1?))));
    };
    (0..count).for_each(|at| tell_apart(&mut world, at, 9));
    let before = world.records.clone();
    for ignore_dependencies in [true, false] {
        let replay = Replay { ignore_dependencies, ..calls::replay(member_id(flow, "d")) };
        let refused = world.run(Command::Replay(replay)).unwrap_err();
        assert_eq!(refused.code(), "limit_exceeded", "{refused}");
    }
    assert!(before.iter().all(|(key, stored)| matches!(key, Key::Register(..)) || world.records[key] == *stored));
    tell_apart(&mut world, 7, 0);
    world.largest = 0;
    let replay = Replay { ignore_dependencies: true, ..calls::replay(member_id(flow, "d")) };
    world.run(Command::Replay(replay)).expect("one less fits");
    assert_eq!((world.state(flow, "d"), world.largest > REPLAY_EDGES_MAX), ("waiting", true));
}

#[test]
fn fl_168_a_replay_of_one_that_ran_waits_for_nobody() {
    let mut world = World::new();
    let flow = world.flow_of("u d u>d", |_| {});
    world.complete_member(flow, "u");
    world.fail_member(flow, "d");
    replay(&mut world, flow, "u");
    replay(&mut world, flow, "d");
    assert_eq!(world.states(flow, "u d"), ["waiting", "waiting"]);
}

#[test]
fn fl_169_after_a_second_end_the_totals_are_those_of_that_end_alone() {
    let line = "u a b c u>a u!>b a>c b>c";
    let any = |flow: &mut NewFlow| policy(flow, "c", MAIN, GroupPolicy::AnyOf, Then::LetRun);
    let (mut once, mut twice) = (World::new(), World::new());
    let (one, two) = (once.flow_of(line, any), twice.flow_of(line, any));
    once.complete_member(one, "u");
    twice.fail_member(two, "u");
    assert_eq!(twice.states(two, "a b"), ["skipped", "waiting"]);
    replay(&mut twice, two, "u");
    twice.complete_member(two, "u");
    let plain = |world: &World, flow| {
        let summary = world.flow(flow).summary;
        let groups = ["a", "b", "c"].map(|key| {
            let group = world.member(flow, key).member().unwrap().groups[0].clone();
            (group.n, group.met, group.unmet, group.state)
        });
        (summary.by_state, summary.failures, summary.edges_pending, groups)
    };
    assert_eq!(plain(&twice, two), plain(&once, one));
}

#[test]
fn fl_90_a_skip_names_its_group_and_the_first_unmet_edges() {
    let mut world = World::new();
    let flow = world.flow_of("a b c d e f g j a>j b>j c>j d>j e>j f>j g>j", |flow| {
        policy(flow, "j", MAIN, GroupPolicy::Quorum(2), Then::LetRun);
    });
    for key in ["g", "f", "e", "d", "c", "b"] {
        world.fail_member(flow, key);
    }
    let ids = |keys: &[&str]| keys.iter().map(|key| member_id(flow, key)).collect::<Vec<ExecutionId>>();
    let cause = world.member(flow, "j").member().unwrap().cause.clone();
    let unmet = ids(&["b", "c", "d", "e", "f"]);
    assert_eq!(cause, Some(EndedBy::Dependency { group: MAIN.into(), unmet }), "in the order of the edges");
    let late = world.flow_of("u v", |_| {});
    world.fail_member(late, "u");
    world.grow(late, "j u>j v>j").unwrap();
    let cause = world.member(late, "j").member().unwrap().cause.clone();
    let unmet = vec![member_id(late, "u")];
    assert_eq!(cause, Some(EndedBy::Dependency { group: MAIN.into(), unmet }), "one that was skipped at its birth too");
}

#[test]
fn e20_a_seal_in_the_batch_of_a_replay_seals_the_member_that_lives_again() {
    let mut world = World::new();
    let flow = world.flow_of("a b c a>b", |flow| flow.seal = false);
    world.run(calls::force_fail(member_id(flow, "a"))).unwrap();
    let seal = Command::SealFlow(SealFlow { flow, keys: None, within: None, checked: None });
    let replay = Command::Replay(calls::replay(member_id(flow, "a")));
    let answers = world.together(&[calls::call(replay), calls::call(seal)]);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    world.scan();
    assert_eq!((world.flow(flow).hot.unsealed, world.state(flow, "a")), (0, "waiting"));
}

#[test]
fn e20_a_cancel_in_the_batch_of_a_replay_cancels_the_downstream_that_lives_again() {
    let mut world = World::new();
    let flow = world.flow_of("a b c a>b", |_| {});
    world.fail_member(flow, "a");
    assert_eq!(world.state(flow, "b"), "skipped");
    let (remaining, reason) = (Remaining::Cancel(Mode::Immediate), "enough".into());
    let cancel = Command::CancelFlow(CancelFlow { flow, remaining, reason });
    let replay = Command::Replay(calls::replay(member_id(flow, "a")));
    let answers = world.together(&[calls::call(replay), calls::call(cancel)]);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!((world.states(flow, "a b c"), world.flow_state(flow)), (vec!["cancelled"; 3], "cancelled"));
}
