//! Flows with a member that cannot be read: it is parked and passed by, and an operator decides what becomes of it.

use crate::command::*;
use crate::error::Rejection;
use crate::event::Fact;
use crate::flow::member_id;
use crate::kit::calls::{self, call, fence};
use crate::kit::flows::*;
use crate::kit::{PARTITION, World};
use crate::record::execution::{Outcome, PublicState, Reason};
use crate::record::flow::{Cause, FailurePolicy, FlowOutcome, Mode, Remaining, State};
use crate::record::{DeadLetter, Key, Record};
use crate::reply::Reply;
use crate::schema::{Timer, execution as schema, flow as flow_schema};
use crate::{ExecutionId, FlowId};
use bytes::Bytes;

const CANCEL: Remaining = Remaining::Cancel(Mode::Immediate);

/// Breaks a part of a member; what was there.
fn damage(world: &mut World, id: ExecutionId, part: u8) -> Bytes {
    world.planted = true;
    let stored = world.records.get_mut(&Key::Execution(id)).unwrap();
    stored.parts.insert(part, "broken".into()).unwrap()
}

fn letters(world: &World) -> Vec<DeadLetter> {
    let keys = world.records.keys().filter(|key| matches!(key, Key::DeadLetter(..)));
    keys.map(|key| match world.record(*key) {
        Some(Record::DeadLetter(letter)) => *letter,
        other => panic!("{other:?}"),
    })
    .collect()
}

fn discard(world: &mut World) -> Result<Reply, Rejection> {
    let letter = letters(world)[0].uuid;
    world.run(Command::DiscardParked(DiscardParked { letter, partition: PARTITION, reason: "lost".into() }))
}

fn retry(world: &mut World) -> Result<Reply, Rejection> {
    let letter = letters(world)[0].uuid;
    world.run(Command::RetryParked(RetryParked { letter, partition: PARTITION }))
}

fn cancel(world: &mut World, flow: FlowId) {
    let command = CancelFlow { flow, remaining: CANCEL, reason: "enough".into() };
    world.run(Command::CancelFlow(command)).unwrap();
}

#[test]
fn fl_145_a_member_that_cannot_be_cancelled_is_parked_and_its_flow_ends_when_it_is_given_up() {
    for part in [schema::HOT, schema::SPEC, schema::MEMBER] {
        let mut world = World::new();
        let flow = world.flow_of("a b c", |_| {});
        let id = member_id(flow, "b");
        damage(&mut world, id, part);
        let bytes = world.records[&Key::Execution(id)].clone();
        cancel(&mut world, flow);
        world.at(10_000).scan();
        assert_eq!(world.states(flow, "a c"), ["cancelled", "cancelled"], "the others are");
        let ending = world.flow(flow);
        assert_eq!((ending.public_state().name(), ending.summary.cancel_owed), ("ending", 1));
        let parked = letters(&world);
        assert_eq!((parked.len(), parked[0].body.flow), (1, Some(flow)));

        assert_eq!(discard(&mut world), Ok(Reply::Noted));
        let done = world.flow(flow);
        assert_eq!(done.public_state().name(), "cancelled", "part {part}");
        let counts = [PublicState::Failed, PublicState::Cancelled].map(|state| done.summary.of(state));
        assert_eq!((counts, done.summary.live(), done.summary.failures), ([1, 2], 0, 1));
        assert_eq!((done.summary.cancel_owed, done.summary.members_purged), (0, 1));
        assert_eq!(world.records[&Key::Execution(id)], bytes, "its bytes are not touched");
        let ends = world.events.iter().filter(|event| event.execution == Some(id));
        let ends: Vec<&Fact> =
            ends.map(|event| &event.fact).filter(|fact| fact.name() == "execution.finished").collect();
        assert!(
            matches!(ends[..], [Fact::Finished { outcome: Outcome::Failed, reason: Reason::Operator, .. }]),
            "FD-7 {ends:?}"
        );
        world.at(120_000).scan();
        assert!(letters(&world).is_empty(), "it is not parked again");
        assert!(!world.events.iter().any(|event| event.fact.name() == "flow.repaired"), "FL-180 a recount agrees");
    }
}

#[test]
fn fl_145_those_that_wait_for_one_that_is_given_up_follow_its_failure() {
    let mut world = World::new();
    let flow = world.flow_of("u v ok sad any v>u u>ok u!>sad u*>any", |_| {});
    let id = member_id(flow, "u");
    damage(&mut world, id, schema::HOT);
    world.complete_member(flow, "v");
    assert_eq!(letters(&world).len(), 1, "FL-85");
    discard(&mut world).unwrap();
    assert_eq!(world.states(flow, "ok sad any"), ["skipped", "waiting", "waiting"]);
    for key in ["sad", "any"] {
        world.complete_member(flow, key);
    }
    assert_eq!(world.flow_state(flow), "failed");
}

#[test]
fn fl_145_a_fan_out_of_one_that_is_given_up_is_continued() {
    let mut world = World::new();
    let mut flow = blank_flow();
    flow.members = (0..2_500).map(|at| member(&format!("d{at}"))).chain([member("u"), member("v")]).collect();
    flow.edges = (0..2_500).map(|at| edge(&format!("u!>d{at}"))).chain([edge("v>u")]).collect();
    let flow = world.submit_flow(flow).unwrap().id;
    world.scan();
    damage(&mut world, member_id(flow, "u"), schema::MEMBER);
    world.complete_member(flow, "v");
    discard(&mut world).unwrap();
    assert_eq!(world.flow(flow).hot.works, 1, "there was no room for all");
    world.scan();
    let ready = (0..2_500).filter(|at| world.state(flow, &format!("d{at}")) == "waiting").count();
    assert_eq!(
        (ready, world.flow(flow).hot.works, world.flow(flow).summary.edges_pending),
        (2_500, 0, 1),
        "the edge to it stays"
    );
    let Some(Record::Tombstone(stone)) = world.record(Key::Tombstone(member_id(flow, "u"))) else { panic!("a stone") };
    assert_eq!(stone.body.outs, 2_500, "its edges go with it");
}

#[test]
fn fl_145_giving_up_a_member_decides_like_its_failure() {
    let mut world = World::new();
    let flow = world.flow_of("v u a v>u", |flow| flow.failure = FailurePolicy::FailFast { remaining: CANCEL });
    let id = member_id(flow, "u");
    damage(&mut world, id, schema::SPEC);
    world.complete_member(flow, "v");
    discard(&mut world).unwrap();
    world.scan();
    let State::Done { outcome, cause, .. } = world.flow(flow).hot.state else { panic!("it has ended") };
    assert_eq!((outcome, cause), (FlowOutcome::Failed, Cause::Member(id)));
}

#[test]
fn fl_145_one_that_had_ended_is_not_counted_twice() {
    let mut world = World::new();
    let flow = world.flow_of("u d a u>d", |_| {});
    world.run(Command::Cancel(calls::cancel(member_id(flow, "d")))).unwrap();
    damage(&mut world, member_id(flow, "d"), schema::HOT);
    world.complete_member(flow, "u");
    let before = world.flow(flow).summary;
    discard(&mut world).unwrap();
    assert_eq!(world.flow(flow).summary, before);
    world.complete_member(flow, "a");
    assert_eq!(world.flow(flow).summary.of(PublicState::Cancelled), 1);
}

#[test]
fn fl_145_only_operators_of_its_namespace_give_a_member_up() {
    let mut world = World::new();
    let flow = world.flow_of("a b", |_| {});
    damage(&mut world, member_id(flow, "b"), schema::SPEC);
    cancel(&mut world, flow);
    let letter = letters(&world)[0].uuid;
    let command = Command::DiscardParked(DiscardParked { letter, partition: PARTITION, reason: "".into() });
    let mut stranger = call(command);
    stranger.principal.namespace = "elsewhere".into();
    assert_eq!(world.call(&stranger), Err(Rejection::DeadLetterNotFound));
    assert_eq!((world.flow_state(flow), letters(&world).len()), ("ending", 1));
}

#[test]
fn fl_85_a_downstream_that_can_be_read_again_gets_what_passed_it_by() {
    let mut world = World::new();
    let flow = world.flow_of("u v d u>d=x v>d", |_| {});
    let id = member_id(flow, "d");
    let good = damage(&mut world, id, schema::HOT);
    world.complete_member(flow, "u");
    assert_eq!(retry(&mut world).unwrap_err().code(), "internal", "it is as it was");
    world.records.get_mut(&Key::Execution(id)).unwrap().parts.insert(schema::HOT, good);
    world.complete_member(flow, "v");
    assert_eq!((world.state(flow, "d"), letters(&world).len()), ("waiting_children", 1));
    assert_eq!(retry(&mut world), Ok(Reply::Noted));
    world.scan();
    assert_eq!((world.state(flow, "d"), letters(&world).len()), ("waiting", 0));
    world.planted = false;
    world.complete_member(flow, "d");
    assert_eq!(world.flow_state(flow), "completed");
}

#[test]
fn fl_145_a_member_that_can_be_read_again_is_cancelled_by_a_retry() {
    let mut world = World::new();
    let flow = world.flow_of("a b", |_| {});
    let id = member_id(flow, "b");
    let good = damage(&mut world, id, schema::HOT);
    cancel(&mut world, flow);
    world.records.get_mut(&Key::Execution(id)).unwrap().parts.insert(schema::HOT, good);
    retry(&mut world).unwrap();
    world.scan();
    assert_eq!((world.flow_state(flow), world.state(flow, "b")), ("cancelled", "cancelled"));
}

#[test]
fn fl_57_a_member_that_cannot_be_read_does_not_keep_the_others_from_their_seal() {
    let mut world = World::new();
    let flow = world.flow_of("a b c", |flow| flow.seal = false);
    damage(&mut world, member_id(flow, "b"), schema::HOT);
    let seal = SealFlow { flow, keys: None, within: None, checked: None };
    assert_eq!(world.run(Command::SealFlow(seal)), Ok(Reply::FlowSealed { already: false, continued: false }));
    assert_eq!(world.states(flow, "a c"), ["waiting", "waiting"]);
    assert_eq!(letters(&world)[0].body.timer, Timer::FlowSeal);
}

#[test]
fn fl_4_a_policy_of_a_later_version_stops_the_command_and_is_no_default() {
    let mut world = World::new();
    let flow = world.flow_of("a b a>b", |_| {});
    let held = world.claim_member(flow, "a");
    let stored = world.records.get_mut(&Key::Flow(flow)).unwrap();
    let definition = stored.parts[&flow_schema::DEFINITION].clone();
    // Namespace, kind, no name, creator and the time stand before it.
    let before = definition.windows(2).rposition(|two| two == [0, 0]).map(|at| (0..=at).rev());
    let unknown = before.into_iter().flatten().find_map(|at| {
        let mut bytes = definition.to_vec();
        bytes[at] = 9;
        let parts: Vec<(u8, Bytes)> = stored
            .parts
            .iter()
            .map(|(part, old)| {
                (*part, if *part == flow_schema::DEFINITION { bytes.clone().into() } else { old.clone() })
            })
            .collect();
        let read = Record::decode(Key::Flow(flow), &parts, flow_schema::LIGHT);
        read.err().filter(|error| error.why.contains("failure policy 9")).map(|_| bytes)
    });
    stored.parts.insert(flow_schema::DEFINITION, unknown.expect("the policy is in there").into());
    world.planted = true;
    let refused = world.run(calls::complete(held.id, fence(&held), None)).unwrap_err();
    assert_eq!((refused.code(), refused.class()), ("unknown_policy", crate::error::Class::Fix));
    let refused = world.run(Command::SealFlow(SealFlow { flow, keys: None, within: None, checked: None })).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "cannot act on what a later version wrote: failure policy 9 is not known to this version"
    );
    assert!(world.execution(held.id).lease().is_some(), "nothing has changed");
}
