//! Flows with a member that cannot be read: it is parked and passed by, and an operator decides what becomes of it.

use crate::change::DueEntry;
use crate::command::*;
use crate::error::Rejection;
use crate::event::Fact;
use crate::flow::member_id;
use crate::kit::calls::{self, call, fence};
use crate::kit::flows::*;
use crate::kit::{PARTITION, World};
use crate::record::continuation::Work;
use crate::record::execution::{Outcome, PublicState, Reason, Verdict};
use crate::record::flow::{Cause, FailurePolicy, FlowOutcome, Mode, Remaining, State};
use crate::record::member::{EndedBy, GroupPolicy, GroupState, MAIN, Then};
use crate::record::{DeadLetter, Key, Record};
use crate::reply::{Children, InputValue, Reply, Retried};
use crate::schema::{Timer, execution as schema, flow as flow_schema};
use crate::time::Time;
use crate::{ExecutionId, FlowId};
use bytes::Bytes;
use uuid::Uuid;

const CANCEL: Remaining = Remaining::Cancel(Mode::Immediate);

/// Breaks a part of a member; what was there.
fn damage(world: &mut World, id: ExecutionId, part: u8) -> Bytes {
    world.planted = true;
    let stored = world.records.get_mut(&Key::Execution(id)).unwrap();
    stored.parts.insert(part, "\u{1}broken".into()).unwrap()
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
fn fl_77_fl_145_one_that_was_given_up_is_handed_over_like_a_failure() {
    for part in [schema::HOT, schema::SPEC, schema::MEMBER] {
        let mut world = World::new();
        let flow = world.flow_of("v u d v>u u*>d=x", |_| {});
        let id = member_id(flow, "u");
        damage(&mut world, id, part);
        world.complete_member(flow, "v");
        discard(&mut world).unwrap();
        let claimed = world.claim_member(flow, "d");
        let given = &claimed.inputs[0];
        assert_eq!((given.id, given.outcome, &given.value), (id, Outcome::Failed, &InputValue::None));
        assert_eq!(&*given.upstream == "u", part != schema::MEMBER, "its key, if that can be read");
    }
}

#[test]
fn fl_145_fl_167_one_that_was_given_up_keeps_no_replay_below_it_from_an_answer() {
    let mut world = World::new();
    let flow = world.flow_of("v u d v>u u>d=x", |_| {});
    damage(&mut world, member_id(flow, "u"), schema::HOT);
    world.complete_member(flow, "v");
    discard(&mut world).unwrap();
    assert_eq!((world.state(flow, "d"), world.flow_state(flow)), ("skipped", "failed"));
    let replay = calls::replay(member_id(flow, "d"));
    let refused = world.run(Command::Replay(replay.clone()));
    assert_eq!(refused, Err(Rejection::StillImpossible { edges: vec![("u".into(), "d".into())] }));
    world.run(Command::Replay(Replay { ignore_dependencies: true, ..replay })).unwrap();
    assert_eq!(world.claim_member(flow, "d").inputs[0].outcome, Outcome::Failed);
}

#[test]
fn fl_101_fl_145_a_parent_that_waits_for_one_that_is_given_up_goes_on() {
    for part in [schema::HOT, schema::MEMBER] {
        let mut world = World::new();
        let flow = world.flow_of("p", |_| {});
        let held = world.claim_member(flow, "p");
        world.within(&held, "v c v>c").unwrap();
        let id = member_id(flow, "c");
        world.run(Command::WaitChildren(calls::wait(held.id, fence(&held), Some(vec![id])))).unwrap();
        damage(&mut world, id, part);
        world.complete_member(flow, "v");
        assert_eq!(world.state(flow, "p"), "waiting_children");
        discard(&mut world).unwrap();
        assert_eq!(world.state(flow, "p"), "waiting", "EX-49");
        let again = world.claim_member(flow, "p");
        let waited = again.children.clone().unwrap();
        assert_eq!((waited.verdict, waited.children[0].outcome), (Verdict::Impossible, Some(Outcome::Failed)));
        let wait = calls::wait(again.id, fence(&again), None);
        let decided = Ok(Reply::Children(Children::Decided { verdict: Verdict::Met }));
        assert_eq!(world.run(Command::WaitChildren(wait)), decided, "no child is left");
    }
}

#[test]
fn fl_101_fl_145_a_child_that_was_given_up_can_be_named_and_has_failed() {
    for part in [schema::HOT, schema::SPEC] {
        let mut world = World::new();
        let flow = world.flow_of("p", |_| {});
        let held = world.claim_member(flow, "p");
        world.within(&held, "v c w x y v>c").unwrap();
        let [id, other] = ["c", "w"].map(|key| member_id(flow, key));
        damage(&mut world, id, part);
        world.complete_member(flow, "v");
        let wait = |ids: &[ExecutionId], rule| {
            let wait = calls::wait(held.id, fence(&held), Some(ids.to_vec()));
            Command::WaitChildren(WaitChildren { rule, ..wait })
        };
        assert_eq!(world.run(wait(&[id], ChildrenRule::AllOf)).unwrap_err().code(), "internal", "it may yet be read");
        discard(&mut world).unwrap();
        let decided = |verdict| Ok(Reply::Children(Children::Decided { verdict }));
        assert_eq!(world.run(wait(&[id], ChildrenRule::AllOf)), decided(Verdict::Impossible), "part {part}");
        let waiting = Ok(Reply::Children(Children::Waiting { waiting: 1, repeated: false }));
        assert_eq!(world.run(wait(&[other, id], ChildrenRule::AnyOf)), waiting, "part {part}");
        let stranger = world.claim_member(flow, "w");
        let foreign = Command::WaitChildren(calls::wait(stranger.id, fence(&stranger), Some(vec![id])));
        assert_eq!(world.run(foreign), Err(Rejection::NotAChild { id }), "part {part}");
    }
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
    let command = Command::DiscardParked(DiscardParked { letter, partition: PARTITION, reason: "lost".into() });
    let mut stranger = call(command);
    stranger.principal.namespace = "elsewhere".into();
    assert_eq!(world.call(&stranger), Err(Rejection::DeadLetterNotFound));
    assert_eq!((world.flow_state(flow), letters(&world).len()), ("ending", 1));
}

/// As the scanner that meets an entry whose record does not decode: the entry goes, and a dead letter stays.
fn drop_entry(world: &mut World, key: Key, timer: Timer) -> Uuid {
    let bytes = key.to_bytes();
    let is_it = |entry: &&DueEntry| entry.timer() == Some(timer) && entry.key[..] == bytes.as_slice()[..];
    let entry = world.due.iter().find(is_it).cloned().expect("it is due");
    assert_eq!(world.expire(key, timer, entry.at).unwrap_err().code(), "internal");
    let (scanner, entry) = ("edge_cancel_dispatcher".into(), Some(entry));
    let drop = DropEntry { partition: PARTITION, entry, scanner, error: "broken".into(), poison: false };
    let engine = Principal::engine();
    world.call(&Call { principal: engine, ..call(Command::DropEntry(drop)) }).unwrap();
    crate::execution::trouble::letter_of(key)
}

fn discard_letter(world: &mut World, letter: Uuid) {
    let discard = DiscardParked { letter, partition: PARTITION, reason: "lost".into() };
    assert_eq!(world.run(Command::DiscardParked(discard)), Ok(Reply::Noted));
}

/// A race of 40 for `j`, of which the first has won and most still wait for their cancel.
fn race(world: &mut World) -> FlowId {
    let mut race = blank_flow();
    race.members = (0..40).map(|at| member(&format!("s{at}"))).chain([member("j")]).collect();
    race.edges = (0..40).map(|at| edge(&format!("s{at}>j"))).collect();
    policy(&mut race, "j", MAIN, GroupPolicy::AnyOf, Then::CancelRemaining(Mode::Immediate));
    let flow = world.submit_flow(race).unwrap().id;
    world.complete_member(flow, "s0");
    assert_eq!((world.flow(flow).hot.works, world.flow(flow).hot.owing), (1, 1));
    flow
}

/// Ends an upstream of a member that does not decode; the letter under which that is parked.
fn meet(world: &mut World, flow: FlowId, id: ExecutionId) -> Uuid {
    let key = (0..40).map(|at| format!("s{at}")).find(|key| world.state(flow, key) == "waiting").unwrap();
    world.complete_member(flow, &key);
    let bytes = Key::Execution(id).to_bytes();
    let parked = |letter: &DeadLetter| letter.body.key[..] == bytes.as_slice()[..];
    let letter = letters(world).into_iter().find(parked).expect("FL-85 it is parked");
    assert_eq!(letter.body.flow, Some(flow), "the flow that met it is known from then on");
    letter.uuid
}

#[test]
fn fl_145_a_downstream_that_owes_cancels_and_is_given_up_owes_nothing() {
    for part in [schema::HOT, schema::SPEC, schema::MEMBER, schema::INLETS] {
        let mut world = World::new();
        let flow = race(&mut world);
        let id = member_id(flow, "j");
        damage(&mut world, id, part);
        let entry = drop_entry(&mut world, Key::Execution(id), Timer::GroupCancel);
        // Nobody can tell the flow of one whose membership is broken, before the flow itself meets it.
        let letter = if part == schema::MEMBER { meet(&mut world, flow, id) } else { entry };
        discard_letter(&mut world, letter);
        let hot = world.flow(flow).hot;
        assert_eq!((hot.works, hot.owing), (0, 0), "part {part}");
        // Few commands load the last part: without what it owes the member goes on.
        let ended = if part == schema::INLETS { "completed" } else { "failed" };
        if ended == "completed" {
            world.complete_member(flow, "j");
        }
        let live = (0..40).map(|at| format!("s{at}")).filter(|key| world.state(flow, key) == "waiting");
        for key in live.collect::<Vec<_>>() {
            world.complete_member(flow, &key);
        }
        assert_eq!(world.flow_state(flow), ended, "part {part}");
    }
}

#[test]
fn fl_145_a_downstream_that_has_ended_and_owes_keeps_no_flow_from_its_end() {
    for part in [schema::HOT, schema::SPEC] {
        let mut world = World::new();
        let flow = race(&mut world);
        world.complete_member(flow, "j");
        let id = member_id(flow, "j");
        damage(&mut world, id, part);
        cancel(&mut world, flow);
        let letter = drop_entry(&mut world, Key::Execution(id), Timer::GroupCancel);
        assert_eq!((world.flow(flow).summary.live(), world.flow_state(flow)), (0, "ending"));
        discard_letter(&mut world, letter);
        let done = world.flow(flow);
        let completed = done.summary.of(PublicState::Completed);
        assert_eq!((done.public_state().name(), completed), ("cancelled", 2), "part {part}");
    }
}

#[test]
fn fl_145_what_was_owed_is_settled_once_however_often_it_is_parked() {
    for part in [schema::HOT, schema::SPEC] {
        let mut world = World::new();
        let flow = race(&mut world);
        let id = member_id(flow, "j");
        damage(&mut world, id, part);
        cancel(&mut world, flow);
        let first = letters(&world)[0].uuid;
        let letter = drop_entry(&mut world, Key::Execution(id), Timer::GroupCancel);
        // Another group owes as well: what is settled is not its.
        let other = Key::Flow(flow);
        let mut stands = world.flow(flow);
        stands.hot.owe();
        let parts = Record::Flow(Box::new(stands)).encode(flow_schema::LIGHT);
        let stored = world.records.get_mut(&other).unwrap();
        stored.parts.extend(parts.into_iter().filter_map(|(part, bytes)| Some((part, bytes?))));
        assert_eq!((letter, letters(&world).len()), (first, 1), "a record is parked once, whoever meets it");
        discard_letter(&mut world, letter);
        assert_eq!((world.flow(flow).hot.works, world.flow(flow).hot.owing), (1, 1), "part {part}");
    }
}

#[test]
fn fl_145_left_over_work_that_cannot_be_read_keeps_no_flow_from_its_end() {
    let mut world = World::new();
    let mut fan = blank_flow();
    let count = 1_500;
    fan.members = (0..count).map(|at| member(&format!("d{at}"))).chain([member("u")]).collect();
    fan.edges = (0..count).map(|at| edge(&format!("u>d{at}"))).collect();
    let flow = world.submit_flow(fan).unwrap().id;
    world.scan();
    world.planted = true;
    world.complete_member(flow, "u");
    let key = Key::Continuation(member_id(flow, "u"), Work::Resolve);
    world.records.get_mut(&key).unwrap().parts.insert(0, "\u{1}broken".into()).unwrap();
    let letter = drop_entry(&mut world, key, Timer::Resolve);
    assert_eq!(letters(&world)[0].body.flow, Some(flow), "it is named among what is parked of the flow");
    let mut stranger =
        call(Command::DiscardParked(DiscardParked { letter, partition: PARTITION, reason: "lost".into() }));
    stranger.principal.namespace = "elsewhere".into();
    assert_eq!(world.call(&stranger), Err(Rejection::DeadLetterNotFound));
    discard_letter(&mut world, letter);
    assert_eq!((world.flow(flow).hot.works, world.records.contains_key(&key)), (0, false));
    assert!(world.flow(flow).summary.edges_pending > 0);
    world.at(700_000).scan();
    let waiting = world.flow(flow).summary.of(PublicState::Waiting);
    assert_eq!((waiting, world.flow(flow).hot.works), (count as u32, 0), "the audit begins it anew");
}

#[test]
fn fl_85_a_downstream_that_can_be_read_again_gets_what_passed_it_by() {
    let mut world = World::new();
    let flow = world.flow_of("u v d u>d=x v>d", |_| {});
    let id = member_id(flow, "d");
    let good = damage(&mut world, id, schema::HOT);
    world.complete_member(flow, "u");
    assert!(matches!(retry(&mut world), Ok(Reply::Retried(Retried::StillDamaged { .. }))), "it is as it was");
    world.records.get_mut(&Key::Execution(id)).unwrap().parts.insert(schema::HOT, good);
    world.complete_member(flow, "v");
    assert_eq!((world.state(flow, "d"), letters(&world).len()), ("waiting_children", 1));
    assert_eq!(retry(&mut world), Ok(Reply::Retried(Retried::Retried)));
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
fn fl_121_a_sibling_that_can_be_read_again_is_cancelled_by_a_retry() {
    let mut world = World::new();
    let flow = world.flow_of("a b c j other b>j c>j a>j a>other", |flow| {
        policy(flow, "j", MAIN, GroupPolicy::AnyOf, Then::CancelRemaining(Mode::Immediate));
    });
    for (key, ended) in [("b", "cancelled"), ("a", "waiting")] {
        let id = member_id(flow, key);
        let good = damage(&mut world, id, schema::HOT);
        if key == "b" {
            let needed = damage(&mut world, member_id(flow, "a"), schema::HOT);
            world.complete_member(flow, "c");
            world.records.get_mut(&Key::Execution(member_id(flow, "a"))).unwrap().parts.insert(schema::HOT, needed);
        }
        world.records.get_mut(&Key::Execution(id)).unwrap().parts.insert(schema::HOT, good);
        let of_key = letters(&world).into_iter().find(|letter| letter.body.key[..] == id.uuid().as_bytes()[..]);
        let letter = of_key.expect("FL-121 it is parked on its own");
        assert_eq!(letter.body.timer, Timer::GroupCancel);
        let retry = RetryParked { letter: letter.uuid, partition: PARTITION };
        assert_eq!(world.run(Command::RetryParked(retry)), Ok(Reply::Retried(Retried::Retried)));
        assert_eq!(world.state(flow, key), ended, "{key}");
    }
    let cause = world.member(flow, "b").member().unwrap().cause.clone();
    assert!(matches!(cause, Some(EndedBy::Sibling { verdict: GroupState::Satisfied, .. })), "{cause:?}");
    world.planted = false;
    for key in ["a", "j", "other"] {
        world.complete_member(flow, key);
    }
    assert_eq!((world.flow_state(flow), world.flow(flow).summary.members_neutral), ("completed", 1));
}

#[test]
fn fl_121_a_retry_catches_up_with_all_that_passed_a_member_by() {
    let mut world = World::new();
    let flow = world.flow_of("u v b c j u>b v>b b>j c>j", |flow| {
        policy(flow, "j", MAIN, GroupPolicy::AnyOf, Then::CancelRemaining(Mode::Immediate));
    });
    let id = member_id(flow, "b");
    let good = damage(&mut world, id, schema::HOT);
    world.complete_member(flow, "u");
    world.complete_member(flow, "c");
    world.records.get_mut(&Key::Execution(id)).unwrap().parts.insert(schema::HOT, good);
    let parked = letters(&world);
    assert_eq!((parked.len(), parked[0].body.timer), (1, Timer::Resolve), "it is parked once");
    retry(&mut world).unwrap();
    world.scan();
    assert_eq!((world.state(flow, "b"), world.flow(flow).summary.edges_pending), ("cancelled", 1), "v still runs");
}

#[test]
fn fl_57_a_member_that_cannot_be_read_does_not_keep_the_others_from_their_seal() {
    let mut world = World::new();
    let flow = world.flow_of("a b c", |flow| flow.seal = false);
    let good = damage(&mut world, member_id(flow, "b"), schema::HOT);
    let seal = SealFlow { flow, keys: None, within: None, checked: None };
    assert_eq!(world.run(Command::SealFlow(seal)), Ok(Reply::FlowSealed { already: false, continued: false }));
    assert_eq!(world.states(flow, "a c"), ["waiting", "waiting"]);
    assert_eq!(letters(&world)[0].body.timer, Timer::FlowSeal);
    world.records.get_mut(&Key::Execution(member_id(flow, "b"))).unwrap().parts.insert(schema::HOT, good);
    assert_eq!((world.state(flow, "b"), world.stuck(flow).as_str()), ("waiting_children", "b"), "nobody seals it");
    retry(&mut world).unwrap();
    world.scan();
    assert_eq!((world.state(flow, "b"), world.flow(flow).hot.unsealed), ("waiting", 0), "FL-234");
}

#[test]
fn sr_23_what_a_cascade_parks_is_told_of_once_and_by_the_scanner_of_its_timer() {
    let parked = |world: &World| {
        let events = world.events.iter().filter(|event| event.fact.name() == "scanner.parked").cloned();
        events.collect::<Vec<_>>()
    };
    let mut world = World::new();
    let flow = world.flow_of("u v d u>d v>d", |_| {});
    let id = member_id(flow, "d");
    damage(&mut world, id, schema::HOT);
    for key in ["u", "v"] {
        world.complete_member(flow, key);
    }
    let told = parked(&world);
    assert_eq!((told.len(), told[0].execution, told[0].flow), (1, Some(id), Some(flow)));
    let Fact::ScannerParked { scanner, timer, failures, error } = &told[0].fact else { panic!("{told:?}") };
    assert_eq!((&**scanner, *timer, *failures), ("dependency_reconciler", Timer::Resolve, 1));
    assert!(error.contains("hot"), "{error}");

    let mut world = World::new();
    let flow = world.flow_of("a b", |_| {});
    damage(&mut world, member_id(flow, "b"), schema::HOT);
    cancel(&mut world, flow);
    let scanner =
        |fact: &Fact| matches!(fact, Fact::ScannerParked { scanner, .. } if &**scanner == "cancel_reconciler");
    assert!(scanner(&parked(&world)[0].fact), "{:?}", parked(&world));
    assert_eq!(&*letters(&world)[0].body.scanner, "cancel_reconciler");

    let mut world = World::new();
    let flow = race(&mut world);
    damage(&mut world, member_id(flow, "j"), schema::HOT);
    drop_entry(&mut world, Key::Execution(member_id(flow, "j")), Timer::GroupCancel);
    let told = parked(&world);
    assert_eq!((told.len(), &*told[0].namespace), (1, "shop"), "SR-26 {told:?}");
}

/// Gives a flow a failure policy that only a later version knows.
fn later_policy(world: &mut World, flow: FlowId) {
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
}

#[test]
fn fl_4_a_policy_of_a_later_version_stops_the_command_and_is_no_default() {
    let mut world = World::new();
    let flow = world.flow_of("a b a>b", |_| {});
    let held = world.claim_member(flow, "a");
    later_policy(&mut world, flow);
    let refused = world.run(calls::complete(held.id, fence(&held), None)).unwrap_err();
    assert_eq!((refused.code(), refused.class()), ("unknown_policy", crate::error::Class::Fix));
    let refused = world.run(Command::SealFlow(SealFlow { flow, keys: None, within: None, checked: None })).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "cannot act on what a later version wrote: failure policy 9 is not known to this version"
    );
    assert!(world.execution(held.id).lease().is_some(), "nothing has changed");
}

#[test]
fn fl_205_a_member_that_has_a_tombstone_from_a_discard_is_purged_and_keeps_it() {
    let mut world = World::new();
    let flow = world.flow_of("a b", |_| {});
    let id = member_id(flow, "b");
    world.fail_member(flow, "a");
    world.fail_member(flow, "b");
    let purge = || Command::Purge(Purge { id, reason: "".into() });
    // As a discard leaves it that was followed by the bytes of a backup.
    let mut other = world.clone();
    other.run(purge()).unwrap();
    world.records.insert(Key::Tombstone(id), other.records[&Key::Tombstone(id)].clone());
    assert_eq!(world.run(purge()), Ok(Reply::Purged));
    assert_eq!((world.record(Key::Execution(id)), world.record(Key::Tombstone(id)).is_some()), (None, true));
}

#[test]
fn e11_a_retry_after_a_change_in_its_batch_leaves_no_timer_that_the_record_has_no_more() {
    let mut world = World::new();
    let id = world.submit(|cmd| {
        cmd.start = Some(When::At(Time::from_ms(50_000)));
        cmd.deadline = Some(When::At(Time::from_ms(90_000)));
    });
    let key = Key::Execution(id);
    let good = damage(&mut world, id, schema::HOT);
    let letter = drop_entry(&mut world, key, Timer::Until);
    world.records.get_mut(&key).unwrap().parts.insert(schema::HOT, good);
    let retry = Command::RetryParked(RetryParked { letter, partition: PARTITION });
    let answers = world.together(&[call(calls::force_fail(id)), call(retry)]);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let timers: Vec<_> = world.due.iter().filter(|entry| entry.key[..] == key.to_bytes().as_slice()[..]).collect();
    assert_eq!(timers.iter().filter_map(|entry| entry.timer()).collect::<Vec<_>>(), [Timer::Retention]);
}

#[test]
fn fl_4_sr_29_an_entry_of_a_record_with_a_policy_of_a_later_version_is_not_dropped() {
    let mut world = World::new();
    let flow = world.flow_of("a b", |flow| flow.seal = false);
    let key = Key::Flow(flow);
    let entry = world
        .due
        .iter()
        .find(|entry| entry.key[..] == key.to_bytes().as_slice()[..])
        .cloned()
        .expect("it is to be sealed");
    later_policy(&mut world, flow);
    let before = world.clone();
    let scanner = "dependency_reconciler".into();
    let drop = DropEntry { partition: PARTITION, entry: Some(entry), scanner, error: "?".into(), poison: false };
    let refused = world.call(&Call { principal: Principal::engine(), ..call(Command::DropEntry(drop)) });
    assert_eq!(refused.unwrap_err().code(), "unknown_policy");
    assert_eq!((world.records, world.due), (before.records, before.due), "entry and bytes stay, and no letter is made");
}

/// Gives the group of a member a policy that only a later version knows.
fn later_group(world: &mut World, id: ExecutionId) {
    let key = Key::Execution(id);
    let parts = &mut world.records.get_mut(&key).unwrap().parts;
    let good = parts[&schema::MEMBER].clone();
    let is_later = |bytes: &Bytes| {
        let parts = parts.iter().map(|(part, old)| (*part, if *part == schema::MEMBER { bytes } else { old }.clone()));
        let read = Record::decode(key, &parts.collect::<Vec<_>>(), key.kind().table().light);
        read.is_err_and(|error| error.is_unknown_policy)
    };
    let later = (0..good.len()).map(|at| [&good[..at], &[9], &good[at + 1..]].concat().into()).find(is_later);
    parts.insert(schema::MEMBER, later.expect("the policy of its group is in there"));
    world.planted = true;
}

#[test]
fn fl_4_sr_29_an_operator_changes_nothing_of_a_parked_record_of_a_later_version() {
    let mut world = World::new();
    let flow = world.flow_of("a b c a>c b>c", |_| {});
    let id = member_id(flow, "c");
    let good = damage(&mut world, id, schema::MEMBER);
    cancel(&mut world, flow);
    let put = |world: &mut World, part, bytes| {
        world.records.get_mut(&Key::Execution(id)).unwrap().parts.insert(part, bytes);
    };
    let seen = |world: &World| (world.records[&Key::Execution(id)].clone(), letters(world), world.flow(flow));
    put(&mut world, schema::MEMBER, good);
    later_group(&mut world, id);
    for code in ["unknown_policy", "unavailable"] {
        let before = seen(&world);
        for answer in [discard(&mut world), retry(&mut world)] {
            assert_eq!(answer.unwrap_err().code(), code);
        }
        assert_eq!(seen(&world), before);
        put(&mut world, schema::HOT, "\u{7f}later".into());
    }
}

#[test]
fn fl_4_a_member_with_a_policy_of_a_later_version_is_not_parked_as_damaged() {
    let mut world = World::new();
    let flow = world.flow_of("a b c a>c b>c", |_| {});
    later_group(&mut world, member_id(flow, "c"));
    let before = world.clone();
    let command = CancelFlow { flow, remaining: CANCEL, reason: "enough".into() };
    assert_eq!(world.run(Command::CancelFlow(command)).unwrap_err().code(), "unknown_policy");
    assert_eq!((world.records, world.due), (before.records, before.due));
}
