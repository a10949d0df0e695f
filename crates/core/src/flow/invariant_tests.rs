//! What holds of every flow after every commit: the checks refuse what breaks it, and no command does.

use crate::command::*;
use crate::flow::member_id;
use crate::flow::resolve::meets;
use crate::invariant;
use crate::kit::World;
use crate::kit::calls::{self, fence};
use crate::kit::flows::*;
use crate::record::continuation::Work;
use crate::record::execution::{Execution, Hold, HoldKey, Next, PublicState, State};
use crate::record::flow::{Cause, Flow, FlowOutcome, Mode, Remaining, State as FlowState};
use crate::record::member::{GroupPolicy, GroupState, MAIN, Owed, Then};
use crate::record::{Key, Record};
use crate::reply::Expired;
use crate::schema::Timer;
use crate::time::Time;
use crate::{ExecutionId, FlowId};

const CANCEL: Then = Then::CancelRemaining(Mode::Immediate);

/// The invariant that a record breaks which was changed as no rule changes it.
fn broken(execution: &Execution, change: impl FnOnce(&mut Execution)) -> Option<&'static str> {
    let mut execution = execution.clone();
    change(&mut execution);
    invariant::check(&execution, Time::from_ms(1 << 40)).err().map(|broken| broken.id)
}

fn broken_flow(flow: &Flow, change: impl FnOnce(&mut Flow)) -> Option<&'static str> {
    let mut flow = flow.clone();
    change(&mut flow);
    invariant::check_flow(&flow).err().map(|broken| broken.id)
}

/// A member that waits for two others.
fn waiting() -> (World, FlowId, Execution) {
    let mut world = World::new();
    let flow = world.flow_of("a b d a>d b>d", |_| {});
    let d = world.member(flow, "d");
    assert_eq!(broken(&d, |_| {}), None, "it is as it should be");
    (world, flow, d)
}

fn set_hold(execution: &mut Execution, hold: Hold) {
    let State::Blocked { holds, .. } = &mut execution.hot.state else { panic!("it waits") };
    let key = hold.key();
    *holds.get_mut(key).expect("it has one") = hold;
}

fn decide(execution: &mut Execution, state: GroupState) {
    let group = &mut execution.member_mut().groups[0];
    (group.state, group.decided_at) = (state, Some(Time::ZERO));
}

/// Flows whose fan-out does not fit into one commit.
fn wide(world: &mut World, on: &str) -> FlowId {
    let mut flow = blank_flow();
    flow.members = [member("u")].into_iter().chain((0..1_500).map(|at| member(&format!("c{at}")))).collect();
    flow.edges = (0..1_500).map(|at| edge(&format!("u{on}>c{at}"))).collect();
    let flow = world.submit_flow(flow).unwrap().id;
    world.scan();
    flow
}

fn is_armed(world: &World, timer: Timer, key: Key) -> bool {
    world.due.iter().any(|entry| entry.timer() == Some(timer) && entry.key == key.to_bytes().as_slice())
}

#[test]
fn fl_34_more_ends_than_edges_are_refused() {
    let (_, _, d) = waiting();
    let counted = |met, unmet| {
        broken(&d, |it| {
            let group = &mut it.member_mut().groups[0];
            (group.met, group.unmet) = (met, unmet);
        })
    };
    assert_eq!([counted(2, 1), counted(0, 3), counted(3, 0)], [Some("FL-34"); 3]);
}

#[test]
fn fl_170_states_that_do_not_add_up_to_all_members_are_refused() {
    let mut world = World::new();
    let flow = world.flow_of("a b c a>b", |_| {});
    let of = world.flow(flow);
    assert_eq!(broken_flow(&of, |_| {}), None);
    for state in PublicState::ALL {
        assert_eq!(broken_flow(&of, |it| it.summary.by_state[state as usize] += 1), Some("FL-170"), "{state:?}");
    }
    assert_eq!(broken_flow(&of, |it| it.summary.total_members -= 1), Some("FL-170"), "one was forgotten");
    assert_eq!(broken_flow(&of, |it| it.summary.members_neutral = 1), Some("FL-170"), "nobody was cancelled");
    assert_eq!(broken_flow(&of, |it| it.summary.members_purged = 1), Some("FL-170"), "nobody has ended");
    assert_eq!(broken_flow(&of, |it| it.summary.edges_pending = 2), Some("FL-170"), "there is one edge");
}

#[test]
fn fl_171_the_public_state_is_terminal_exactly_when_the_flow_is_done() {
    let mut world = World::new();
    let flow = world.flow_of("a b", |_| {});
    let mut of = world.flow(flow);
    let done = |outcome| FlowState::Done { outcome, cause: Cause::AllTerminal, by: "engine".into(), at: Time::ZERO };
    for outcome in [FlowOutcome::Completed, FlowOutcome::Failed, FlowOutcome::Cancelled] {
        of.hot.state = done(outcome);
        assert!(of.public_state().is_terminal(), "{outcome:?}, whatever the totals say");
    }
    // All have ended, and nothing has decided it.
    of.hot.state = FlowState::Open;
    of.summary.by_state = [0; 12];
    of.summary.by_state[PublicState::Completed as usize] = 2;
    assert_eq!(of.public_state().name(), "open");
    world.run(Command::CancelFlow(CancelFlow { flow, remaining: Remaining::LetRun, reason: "".into() })).unwrap();
    for (key, terminal) in [("a", false), ("b", true)] {
        world.complete_member(flow, key);
        let of = world.flow(flow);
        assert_eq!((of.is_done(), of.public_state().is_terminal()), (terminal, terminal), "{key}");
    }
}

#[test]
fn fl_222_ranks_grow_along_every_edge_in_whatever_order_they_come() {
    let mut world = World::new();
    let flow = world.flow_of("a b c d a>b c>d", |_| {});
    let ranks = |world: &World| {
        let rank = |id: ExecutionId| world.execution(id).member().unwrap().rank;
        let edges = world.edges_of(flow).into_iter();
        edges.map(|edge| (rank(edge.upstream), rank(edge.body.downstream))).collect::<Vec<_>>()
    };
    let late = ["d>a", "e e>c", "f b>f f>g g", "h h>e", "a>g@late"];
    for line in late {
        world.grow(flow, line).unwrap();
        assert!(ranks(&world).iter().all(|(from, to)| from < to), "{line}: {:?}", ranks(&world));
    }
    let before = ranks(&world);
    for cycle in ["b>c", "g>h", "f>d"] {
        assert_eq!(world.grow(flow, cycle).unwrap_err().code(), "cycle", "{cycle}");
        assert_eq!(ranks(&world), before, "{cycle}: nothing was moved");
    }
}

#[test]
fn fl_223_what_has_not_begun_is_refused_without_a_hold_while_a_group_is_open() {
    let (mut world, _, d) = waiting();
    let ready = |it: &mut Execution| it.hot.state = State::Ready { since: Time::ZERO, order: 0, next: Next::First };
    assert_eq!(broken(&d, ready), Some("FL-223"));
    let impossible = |it: &mut Execution| {
        ready(it);
        decide(it, GroupState::Impossible);
    };
    assert_eq!(broken(&d, impossible), Some("FL-223"));
    let satisfied = |it: &mut Execution| {
        ready(it);
        decide(it, GroupState::Satisfied);
    };
    assert_eq!(broken(&d, satisfied), None, "then it may run");
    assert_eq!(world.try_claim(d.id, |_| {}).unwrap_err().code(), "not_claimable");
}

#[test]
fn fl_224_a_hold_that_counts_otherwise_or_waits_for_nothing_is_refused() {
    let (_, _, d) = waiting();
    for unresolved in [0, 1, 3] {
        let hold = Hold::Dependencies { unresolved, sealed: true };
        assert_eq!(broken(&d, |it| set_hold(it, hold.clone())), Some("FL-224"), "{unresolved} of two are pending");
    }
    let satisfied = |it: &mut Execution| {
        decide(it, GroupState::Satisfied);
        it.member_mut().groups[0].met = 2;
        set_hold(it, Hold::Dependencies { unresolved: 0, sealed: true });
    };
    assert_eq!(broken(&d, satisfied), Some("FL-224"), "nothing is left to wait for");
}

#[test]
fn fl_225_a_group_that_is_decided_before_its_seal_is_refused() {
    let mut world = World::new();
    let flow = world.flow_of("a b d a>d b>d", |flow| flow.seal = false);
    let d = world.member(flow, "d");
    assert_eq!(broken(&d, |_| {}), None);
    for state in [GroupState::Satisfied, GroupState::Impossible] {
        assert_eq!(broken(&d, |it| decide(it, state)), Some("FL-225"), "{state:?}");
    }
    let timeless = |it: &mut Execution| it.member_mut().groups[0].state = GroupState::Satisfied;
    assert_eq!(broken(&d, timeless), Some("FL-37"), "nor without a time");
    assert_eq!(broken(&d, |it| it.member_mut().ins = 3), Some("FL-22"), "an edge of no group");
}

#[test]
fn fl_226_a_pending_edge_has_a_live_upstream_or_a_continuation() {
    let mut world = World::new();
    let flow = wide(&mut world, "");
    world.complete_member(flow, "u");
    let work = Key::Continuation(member_id(flow, "u"), Work::Resolve);
    let pending = |world: &World| world.edges_of(flow).iter().filter(|edge| edge.body.resolved.is_none()).count();
    while pending(&world) > 0 {
        let due = world.due.iter().find(|entry| entry.timer() == Some(Timer::Resolve)).cloned().expect("it is due");
        assert!(world.records.contains_key(&work), "{} are pending", pending(&world));
        world.expire(work, Timer::Resolve, due.at).unwrap();
    }
    assert!(!world.records.contains_key(&work), "it goes with the last");
    let flow = world.flow_of("a b c x y z w a>x b>y c!>z a!>w b*>w@any", |_| {});
    world.complete_member(flow, "a");
    world.fail_member(flow, "b");
    world.run(Command::Cancel(calls::cancel(member_id(flow, "c")))).unwrap();
    let ends: Vec<_> =
        world.edges_of(flow).into_iter().filter_map(|it| Some((it.body.on, it.body.resolved?))).collect();
    assert_eq!(ends.len(), 5, "all of them have ended");
    assert!(ends.iter().all(|(on, end)| end.met == meets(*on, end.outcome, end.reason)), "{ends:?}");
}

#[test]
fn fl_227_whoever_waits_for_what_is_impossible_is_refused() {
    let (mut world, flow, d) = waiting();
    assert_eq!(broken(&d, |it| decide(it, GroupState::Impossible)), Some("FL-227"));
    world.fail_member(flow, "a");
    assert_eq!(world.state(flow, "d"), "skipped", "in the commit that made it so");
}

#[test]
fn fl_228_what_is_owed_is_of_a_decided_group_and_in_the_index() {
    let (_, _, d) = waiting();
    let owed = Some(Owed { verdict: GroupState::Pending, cursor: 0, since: Time::ZERO });
    assert_eq!(broken(&d, |it| it.member_mut().groups[0].owed = owed), Some("FL-228"));
    let mut world = World::new();
    let mut flow = blank_flow();
    flow.members = (0..700).map(|at| member(&format!("s{at}"))).chain([member("j")]).collect();
    flow.edges = (0..700).map(|at| edge(&format!("s{at}>j"))).collect();
    policy(&mut flow, "j", MAIN, GroupPolicy::AnyOf, CANCEL);
    let flow = world.submit_flow(flow).unwrap().id;
    world.scan();
    let key = Key::Execution(member_id(flow, "j"));
    let owes = |world: &World| world.member(flow, "j").member().unwrap().groups[0].owed.map(|owed| owed.since);
    assert_eq!((owes(&world), is_armed(&world, Timer::GroupCancel, key)), (None, false));
    world.complete_member(flow, "s0");
    let mut commits = 0;
    while let Some(since) = owes(&world) {
        assert!(is_armed(&world, Timer::GroupCancel, key), "after {commits} commits");
        world.expire(key, Timer::GroupCancel, since).unwrap();
        commits += 1;
    }
    assert!(commits > 1 && !is_armed(&world, Timer::GroupCancel, key), "after {commits} commits");
}

#[test]
fn fl_229_a_flow_owes_cancels_exactly_while_it_is_in_the_backlog() {
    let mut world = World::new();
    let flow = world.flow_of("a b c", |_| {});
    let of = world.flow(flow);
    assert_eq!(broken_flow(&of, |it| it.summary.cancel_owed = 1), Some("FL-229"), "it does not end");
    let key = Key::Flow(flow);
    let backlog =
        |world: &World| (world.flow(flow).summary.cancel_owed, is_armed(world, Timer::FlowEnding, Key::Flow(flow)));
    assert_eq!(backlog(&world), (0, false));
    let held = ["a", "b"].map(|key| world.claim_member(flow, key));
    let remaining = Remaining::Cancel(Mode::Graceful { grace_ms: 60_000 });
    world.run(Command::CancelFlow(CancelFlow { flow, remaining, reason: "".into() })).unwrap();
    assert_eq!(backlog(&world), (2, true), "both were asked");
    let ending = world.flow(flow);
    assert_eq!(broken_flow(&ending, |it| it.summary.cancel_owed = 3), Some("FL-143"), "two live");
    world.run(calls::complete(held[0].id, fence(&held[0]), None)).unwrap();
    assert_eq!(backlog(&world), (1, true));
    world.run(calls::complete(held[1].id, fence(&held[1]), None)).unwrap();
    assert_eq!((backlog(&world), world.flow_state(flow)), ((0, false), "cancelled"));
    assert!(world.records.contains_key(&key));
}

#[test]
fn fl_230_the_totals_equal_a_recount_after_every_commit() {
    let mut world = World::new();
    // The checks of every commit are left out: here it is counted in the open.
    world.planted = true;
    let flow = world.flow_of("u v w x y z u>x u!>y v>z@one w>z@two", |flow| {
        flow.members[1].critical = false;
        flow.members[2].submit.start = Some(When::InMs(5_000));
        flow.members.iter_mut().for_each(|it| it.submit.policy.retention_ms = Some(60_000));
    });
    let id = |key: &str| member_id(flow, key);
    type Step<'a> = (&'a str, Box<dyn Fn(&mut World) + 'a>);
    let steps: Vec<Step<'_>> = vec![
        ("fail u", Box::new(|world| world.fail_member(flow, "u"))),
        ("hold v", Box::new(|world| drop(world.run(calls::hold(id("v"))).unwrap()))),
        ("release v", Box::new(|world| drop(world.run(release(id("v"))).unwrap()))),
        ("claim v", Box::new(|world| drop(world.claim_member(flow, "v")))),
        ("lose v", Box::new(|world| drop(world.at(40_000).scan()))),
        ("cancel v", Box::new(|world| drop(world.run(Command::Cancel(calls::cancel(id("v")))).unwrap()))),
        ("replay u", Box::new(|world| drop(world.run(Command::Replay(calls::replay(id("u")))).unwrap()))),
        ("complete u", Box::new(|world| world.complete_member(flow, "u"))),
        ("complete x", Box::new(|world| world.complete_member(flow, "x"))),
        ("complete w", Box::new(|world| world.complete_member(flow, "w"))),
        ("grow", Box::new(|world| assert_eq!(world.grow(flow, "t").unwrap_err().code(), "flow_closed"))),
        ("purge", Box::new(|world| drop(world.at(120_000).scan()))),
    ];
    for (name, step) in steps {
        step(&mut world);
        let (stands, counted) = (world.flow(flow).summary, world.recount(flow));
        assert_eq!((stands.by_state, stands.total_members), (counted.by_state, 6), "{name}");
        assert_eq!(
            (stands.failures, stands.members_neutral, stands.members_purged),
            (counted.failures, counted.members_neutral, counted.members_purged),
            "{name}"
        );
        let pending = world.edges_of(flow).iter().filter(|edge| edge.body.resolved.is_none()).count();
        assert_eq!(stands.edges_pending, pending as u64, "{name}");
    }
    assert_eq!((world.flow_state(flow), world.flow(flow).summary.members_purged), ("completed", 6), "FL-174");
}

fn release(id: ExecutionId) -> Command {
    Command::Release(Release { id, reason: "".into() })
}

#[test]
fn fl_231_what_is_done_has_nothing_that_lives_and_nothing_left_to_do() {
    let mut world = World::new();
    let flow = wide(&mut world, "");
    world.fail_member(flow, "u");
    while !world.flow(flow).is_done() {
        assert!(world.flow(flow).hot.works > 0, "something is left, or it would be done");
        let due = world.due.iter().find(|entry| entry.timer() == Some(Timer::Resolve)).cloned().expect("it is due");
        let work = Key::Continuation(member_id(flow, "u"), Work::Resolve);
        world.expire(work, Timer::Resolve, due.at).unwrap();
    }
    let done = world.flow(flow);
    assert_eq!((done.summary.live(), done.hot.works, done.public_state().name()), (0, 0, "failed"));
    assert_eq!(broken_flow(&done, |_| {}), None);
    let lives = |it: &mut Flow| {
        it.summary.by_state[PublicState::Waiting as usize] += 1;
        it.summary.total_members += 1;
    };
    assert_eq!(broken_flow(&done, lives), Some("FL-231"));
}

#[test]
fn fl_232_the_revision_of_what_ends_or_has_ended_stands_still() {
    let mut world = World::new();
    let flow = world.flow_of("a b c a>b", |_| {});
    let held = world.claim_member(flow, "c");
    world.grow(flow, "z z>b@late").unwrap();
    let revision = world.flow(flow).hot.revision;
    world.run(Command::CancelFlow(CancelFlow { flow, remaining: Remaining::LetRun, reason: "".into() })).unwrap();
    for state in ["ending", "cancelled"] {
        for line in ["n", "a>c@more", "n n>b@more"] {
            assert_eq!(world.grow(flow, line).unwrap_err().code(), "flow_closed", "{state}: {line}");
        }
        if state == "ending" {
            assert_eq!(world.within(&held, "child").unwrap_err().code(), "flow_closed", "FL-61 nor by a member");
            world.run(calls::complete(held.id, fence(&held), None)).unwrap();
            for key in ["a", "z", "b"] {
                world.complete_member(flow, key);
            }
        }
        assert_eq!(world.flow(flow).hot.revision, revision, "{state}");
    }
    assert_eq!(world.flow_state(flow), "cancelled");
}

#[test]
fn fl_233_what_a_commit_leaves_is_one_continuation_for_each_kind_and_subject() {
    let mut world = World::new();
    let flow = wide(&mut world, "");
    let u = member_id(flow, "u");
    let left = |world: &World| {
        let works = world.records.keys().filter(|key| matches!(key, Key::Continuation(..))).copied();
        let works: Vec<Key> = works.collect();
        assert_eq!(world.flow(flow).hot.works as usize, works.len(), "the flow knows of each");
        works
    };
    assert!(left(&world).is_empty());
    world.fail_member(flow, "u");
    assert_eq!(left(&world), [Key::Continuation(u, Work::Resolve)]);
    world.run(Command::Replay(calls::replay(u))).unwrap();
    let both = [Key::Continuation(u, Work::Resolve), Key::Continuation(u, Work::Reopen)];
    assert_eq!(left(&world), both, "what was resolved is taken back, bit by bit");
    world.fail_member(flow, "u");
    assert_eq!(left(&world), both, "the next end waits for that in the same place");
    for _ in 0..3 {
        world.now = world.now + 1_000;
        world.scan();
    }
    assert!(left(&world).is_empty());
    assert_eq!((world.flow(flow).summary.edges_pending, world.flow_state(flow)), (0, "failed"));
}

#[test]
fn fl_234_every_live_member_has_a_way_forward() {
    let mut world = World::new();
    let flow = world.flow_of("a b d e f a>b b>d a>d e>f", |flow| flow.seal = false);
    assert_eq!(world.stuck(flow), "", "a client may seal them");
    world.run(Command::SealFlow(SealFlow { flow, keys: None, within: None, checked: None })).unwrap();
    assert_eq!(world.stuck(flow), "");
    world.claim_member(flow, "e");
    world.run(calls::hold(member_id(flow, "b"))).unwrap();
    assert_eq!(world.stuck(flow), "");
    world.complete_member(flow, "a");
    assert_eq!(world.stuck(flow), "", "an operator may let it go on");
    // An end that nobody was told of, and a lease that nobody looks after.
    world.run(release(member_id(flow, "b"))).unwrap();
    let mut deaf = world.clone();
    deaf.planted = true;
    let claimed = deaf.claim_member(flow, "b");
    let before = deaf.records[&Key::Edge(claimed.id, 0)].clone();
    let waiting = deaf.records[&Key::Execution(member_id(flow, "d"))].clone();
    deaf.run(calls::complete(claimed.id, fence(&claimed), None)).unwrap();
    deaf.records.insert(Key::Edge(claimed.id, 0), before);
    deaf.records.insert(Key::Execution(member_id(flow, "d")), waiting);
    assert_eq!(deaf.stuck(flow), "d");
    deaf.due.retain(|entry| entry.timer() != Some(Timer::Lease));
    assert_eq!(deaf.stuck(flow), "d e");
    let audit = deaf.flow(flow).hot.audit_at.unwrap();
    deaf.now = audit;
    deaf.audit_flow(flow, audit).unwrap();
    assert_eq!(deaf.stuck(flow), "e", "the audit finds what was not told");
    let fired = deaf.expire(Key::Continuation(claimed.id, Work::Resolve), Timer::Resolve, audit);
    assert_eq!(fired, Ok(crate::reply::Reply::Expired(Expired::Fired)));
    assert_eq!(deaf.state(flow, "d"), "waiting");
}

#[test]
fn fl_22_edges_are_found_from_both_ends_in_the_order_they_were_added() {
    let mut world = World::new();
    let flow = world.flow_of("a b c d a>d b>d@odd c>d a>c=x", |_| {});
    world.grow(flow, "e e>d@odd a>e b>c@late=y").unwrap();
    world.grow(flow, "b>e a>d@odd").unwrap();
    let edges = world.edges_of(flow);
    for execution in world.members_of(flow) {
        let member = execution.member().unwrap();
        let mut outs: Vec<_> = edges.iter().filter(|edge| edge.upstream == execution.id).collect();
        outs.sort_by_key(|edge| edge.body.seq);
        let numbers: Vec<u32> = outs.iter().map(|edge| edge.number).collect();
        assert_eq!(numbers, (0..member.outs).collect::<Vec<_>>(), "(upstream, seq) of {}", member.key);
        let mut ins: Vec<_> = edges.iter().filter(|edge| edge.body.downstream == execution.id).collect();
        ins.sort_by_key(|edge| edge.body.seq);
        let expected: Vec<_> = ins.iter().map(|it| (it.body.group, it.upstream, it.number, &it.body.input)).collect();
        let inlets = execution.inlets().iter();
        let id = |upstream| ExecutionId::new(flow.partition(), upstream);
        let found: Vec<_> = inlets.map(|it| (it.group, id(it.upstream), it.number, &it.input)).collect();
        assert_eq!(found, expected, "(downstream, group, seq) of {}", member.key);
        assert_eq!(member.ins as usize, found.len());
    }
}

/// Puts a changed record in place of the stored one, as damage from outside would.
fn plant(world: &mut World, record: Record) {
    let stored = world.records.get_mut(&record.key()).unwrap();
    stored.parts = record
        .encode(crate::schema::PartMask::ALL)
        .into_iter()
        .filter_map(|(part, bytes)| Some((part, bytes?)))
        .collect();
    world.planted = true;
}

#[test]
fn fl_34_an_end_too_many_refuses_the_command_and_repairs_nothing() {
    let (mut world, flow, mut d) = waiting();
    let held = world.claim_member(flow, "a");
    let group = &mut d.member_mut().groups[0];
    (group.met, group.unmet) = (1, 1);
    plant(&mut world, Record::Execution(Box::new(d)));
    let before = world.records.clone();
    let refused = world.run(calls::complete(held.id, fence(&held), None)).unwrap_err();
    assert_eq!(refused.code(), "internal");
    assert!(refused.to_string().contains("FL-34"), "{refused}");
    assert_eq!(world.records, before, "neither the end nor the counter");
}

#[test]
fn fl_224_a_hold_lasts_exactly_until_its_groups_are_satisfied() {
    let mut world = World::new();
    let flow = world.flow_of("a b c d a>d b>d@odd c>d@odd", |flow| {
        policy(flow, "d", "odd", GroupPolicy::AnyOf, Then::LetRun);
    });
    let hold = |world: &World| match &world.member(flow, "d").hot.state {
        State::Blocked { holds, .. } => match holds.get(HoldKey::Dependencies) {
            Some(Hold::Dependencies { unresolved, sealed }) => Some((*unresolved, *sealed)),
            _ => None,
        },
        _ => None,
    };
    assert_eq!(hold(&world), Some((3, true)));
    world.complete_member(flow, "b");
    assert_eq!(hold(&world), Some((2, true)), "one group is satisfied");
    world.complete_member(flow, "a");
    assert_eq!(hold(&world), None, "though c is pending");
}
