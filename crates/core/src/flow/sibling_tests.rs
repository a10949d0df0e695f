//! Siblings between the commit that decides against them and the one that writes their cancel.

use crate::command::*;
use crate::error::Rejection;
use crate::flow::member_id;
use crate::kit::World;
use crate::kit::calls::{self, fence};
use crate::kit::flows::*;
use crate::limits::SIBLINGS_AT_ONCE;
use crate::record::Key;
use crate::record::execution::{Reason, State};
use crate::record::flow::Mode;
use crate::record::member::{GroupPolicy, GroupState, MAIN, Then};
use crate::reply::{Expired, Reply};
use crate::schema::Timer;
use crate::{ExecutionId, FlowId};

const RUNNERS: usize = SIBLINGS_AT_ONCE + 10;

/// A race of more runners than the deciding commit cancels.
fn race(then: Then, line: &str) -> (World, FlowId) {
    let mut world = World::new();
    let (mut members, mut edges) = graph(line);
    members.extend((0..RUNNERS).map(|at| member(&format!("s{at}"))).chain([member("j")]));
    edges.extend((0..RUNNERS).map(|at| edge(&format!("s{at}>j"))));
    let mut flow = NewFlow { members, edges, ..blank_flow() };
    policy(&mut flow, "j", MAIN, GroupPolicy::AnyOf, then);
    let flow = world.submit_flow(flow).unwrap().id;
    (world, flow)
}

fn last() -> String {
    format!("s{}", RUNNERS - 1)
}

/// Every verb by which a worker changes something.
fn verbs(world: &mut World, id: ExecutionId, held: Fence) -> Vec<Command> {
    let progress =
        Progress { id, fence: Some(held), percent: Some(5), message: None, checkpoint: None, renew_ms: None };
    let child = Submit { id: Some(world.fresh_id()), parent: Some((id, held)), ..calls::submit() };
    vec![
        calls::renew(id, held),
        Command::Progress(progress),
        calls::record(id, held, vec![calls::step("a", b"1")]),
        calls::delay(id, held, 1_000),
        Command::WaitChildren(calls::wait(id, held, None)),
        Command::Submit(Box::new(child)),
        calls::fail(id, held),
        calls::complete(id, held, Some(b"late")),
    ]
}

#[test]
fn fl_117_a_loser_changes_nothing_from_the_deciding_commit_on() {
    let (mut world, flow) = race(Then::CancelRemaining(Mode::Immediate), "");
    let held = world.claim_member(flow, &last());
    world.at(5).complete_member(flow, "s0");
    assert_eq!(world.state(flow, &last()), "active", "its own record is not written yet");
    let before = world.records.clone();
    let mut told = Vec::new();
    for verb in verbs(&mut world, held.id, fence(&held)) {
        told.push(world.at(7).run(verb).unwrap_err());
    }
    assert_eq!(world.records, before, "nothing has changed");
    world.scan();
    assert_eq!(world.state(flow, &last()), "cancelled");
    assert!(matches!(world.member(flow, &last()).hot.state, State::Done { reason: Reason::Sibling, .. }));
    for (verb, told) in verbs(&mut world, held.id, fence(&held)).into_iter().zip(told) {
        let now = world.run(verb).unwrap_err();
        assert_eq!((told.code(), now.code()), ("cancelled", "cancelled"));
        let words = |told: &Rejection| told.to_string().split_once(" by ").map(|(_, words)| words.to_owned());
        assert_eq!(words(&told), words(&now), "the same reason");
    }
}

#[test]
fn fl_112_a_sibling_that_is_needed_may_end_while_others_are_owed_a_cancel() {
    let (mut world, flow) = race(Then::CancelRemaining(Mode::Immediate), &format!("k {}>k", last()));
    let held = world.claim_member(flow, &last());
    world.complete_member(flow, "s0");
    assert!(world.flow(flow).hot.works > 0, "some are owed a cancel");
    world.run(calls::complete(held.id, fence(&held), None)).unwrap();
    assert_eq!(world.states(flow, &format!("{} k", last())), ["completed", "waiting"]);
}

#[test]
fn fl_110_a_sibling_with_a_grace_may_end_before_it_is_asked() {
    let (mut world, flow) = race(Then::CancelRemaining(Mode::Graceful { grace_ms: 1_000 }), "");
    let held = world.claim_member(flow, &last());
    world.complete_member(flow, "s0");
    world.run(calls::complete(held.id, fence(&held), None)).unwrap();
    assert_eq!(world.state(flow, &last()), "completed");
}

#[test]
fn fl_162_a_group_that_waits_again_owes_no_cancel() {
    let (mut world, flow) = race(Then::CancelRemaining(Mode::Immediate), "");
    let held = world.claim_member(flow, &last());
    world.complete_member(flow, "s0");
    world.run(Command::Replay(calls::replay(member_id(flow, "s0")))).unwrap();
    let group = world.member(flow, "j").member().unwrap().groups[0].clone();
    assert_eq!((group.state, group.owed, world.flow(flow).hot.works), (GroupState::Pending, None, 0));
    world.scan();
    world.run(calls::complete(held.id, fence(&held), None)).unwrap();
    assert_eq!(world.states(flow, &format!("{} j s0 s1", last())), ["completed", "waiting", "cancelled", "cancelled"]);
}

#[test]
fn fl_83_a_verb_of_a_member_asks_for_none_of_its_edges_while_those_of_others_are_resolved() {
    let mut world = World::new();
    let (mut members, mut edges) = graph("u v");
    members.extend((0..2_000).map(|at| member(&format!("d{at}"))));
    edges.extend((0..2_000).map(|at| edge(&format!("{}>d{at}", if at < 1_900 { "u" } else { "v" }))));
    let flow = world.submit_flow(NewFlow { members, edges, ..blank_flow() }).unwrap().id;
    world.scan();
    let held = world.claim_member(flow, "v");
    world.run(calls::renew(held.id, fence(&held))).unwrap();
    let usual = world.loads;
    world.complete_member(flow, "u");
    assert!(world.flow(flow).hot.works > 0, "edges are left");
    world.run(calls::renew(held.id, fence(&held))).unwrap();
    assert_eq!(world.loads, usual);
}

#[test]
fn sr_24_a_drain_that_goes_on_after_a_success_has_neither_account_nor_letter() {
    let mut world = World::new();
    let mut flow = blank_flow();
    flow.members = (0..700).map(|at| member(&format!("s{at}"))).chain([member("j")]).collect();
    flow.edges = (0..700).map(|at| edge(&format!("s{at}>j"))).collect();
    policy(&mut flow, "j", MAIN, GroupPolicy::AnyOf, Then::CancelRemaining(Mode::Immediate));
    let flow = world.submit_flow(flow).unwrap().id;
    world.scan();
    world.complete_member(flow, "s0");
    let key = Key::Execution(member_id(flow, "j"));
    let due = |world: &World| {
        let entry = world.due.iter().find(|entry| entry.timer() == Some(Timer::GroupCancel));
        entry.expect("the drain is due until it is done").at
    };
    let letters = |world: &World| world.records.keys().filter(|key| matches!(key, Key::DeadLetter(..))).count();
    while letters(&world) == 0 {
        let at = due(&world);
        world.at(at.ms());
        let trouble = RecordTrouble {
            key: Some(key),
            timer: Timer::GroupCancel,
            due: at,
            scanner: "edge_cancel_dispatcher".into(),
            interval_ms: 1_000,
            error: "no way".into(),
            fresh: world.fresh(),
        };
        let command = Command::RecordTrouble(trouble);
        world.call(&Call { principal: Principal::engine(), ..calls::call(command) }).unwrap();
    }
    let at = due(&world);
    assert_eq!(world.at(at.ms()).expire(key, Timer::GroupCancel, at), Ok(Reply::Expired(Expired::More)));
    assert_eq!((world.member(flow, "j").trouble(), letters(&world)), (None, 0), "the rest begins without failures");
    assert!(due(&world) <= at, "and is due at once");
}
