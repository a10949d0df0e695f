//! What upstreams hand over: once, whole, and the same for every try of an opening.

use crate::codec;
use crate::command::*;
use crate::flow::member_id;
use crate::kit::World;
use crate::kit::calls::{self, fence};
use crate::kit::flows::*;
use crate::limits::INPUTS_INLINE_MAX;
use crate::record::execution::{ForcedResult, Outcome};
use crate::record::{Key, Record};
use crate::reply::{Claimed, InputValue};
use crate::schema::execution as schema;
use crate::{ExecutionId, FlowId};
use bytes::Bytes;

fn complete_with(world: &mut World, flow: FlowId, key: &str, result: Option<Bytes>) {
    let claimed = world.claim_member(flow, key);
    let fence = Some(fence(&claimed));
    let content_type = result.is_some().then(|| "text/plain".into());
    let complete = Complete { id: claimed.id, fence, result, content_type, steps: vec![] };
    world.run(Command::Complete(complete)).unwrap();
}

fn force_complete(id: ExecutionId, result: Option<&'static str>) -> Command {
    let result = result.map(Bytes::from);
    Command::ForceComplete(ForceComplete { id, result, content_type: None, reason: "by hand".into() })
}

fn text(value: &InputValue) -> &str {
    match value {
        InputValue::Inline(payload) => std::str::from_utf8(&payload.bytes).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn fl_70_fl_71_an_input_says_who_ended_how_and_with_what() {
    let mut world = World::new();
    let flow = world.flow_of("good bare bad none d good*>d=good bare*>d=bare bad*>d=bad none*>d", |flow| {
        flow.members[4].submit.input = Some("its own".into());
    });
    complete_with(&mut world, flow, "good", Some("42".into()));
    complete_with(&mut world, flow, "bare", None);
    world.fail_member(flow, "bad");
    world.complete_member(flow, "none");
    let claimed = world.claim_member(flow, "d");
    assert_eq!(claimed.input.as_deref(), Some(&b"its own"[..]), "it is not changed");
    let [good, bare, bad] = &claimed.inputs[..] else { panic!("three are named: {:?}", claimed.inputs) };
    assert_eq!((&*good.name, &*good.upstream, good.id), ("good", "good", member_id(flow, "good")));
    let InputValue::Inline(payload) = &good.value else { panic!("{good:?}") };
    assert_eq!((&payload.bytes[..], payload.content_type.as_deref()), (&b"42"[..], Some("text/plain")));
    assert_eq!((bare.outcome, &bare.value), (Outcome::Success, &InputValue::None), "no value is not an empty one");
    let failure = bad.failure.as_ref().map(|(category, message)| (&**category, &**message));
    assert_eq!(
        (bad.outcome, &bad.value, failure),
        (Outcome::Failed, &InputValue::None, Some(("application", "no luck")))
    );
}

#[test]
fn fl_74_later_tries_get_the_same_bytes_even_if_an_upstream_is_replayed() {
    let mut world = World::new();
    let flow = world.flow_of("u d u>d=x", |flow| flow.members[1].submit.policy.retry.max_retries = 3);
    complete_with(&mut world, flow, "u", Some("first".into()));
    let first = world.claim_member(flow, "d");
    world.run(Command::Replay(calls::replay(member_id(flow, "u")))).unwrap();
    world.run(calls::fail(first.id, fence(&first))).unwrap();
    world.at(600_000).scan();
    let live = world.claim_member(flow, "d");
    assert_eq!(text(&live.inputs[0].value), "first", "while the upstream lives again");
    complete_with(&mut world, flow, "u", Some("second".into()));
    world.run(calls::fail(live.id, fence(&live))).unwrap();
    world.at(1_200_000).scan();
    let third = world.claim_member(flow, "d");
    assert_eq!(text(&third.inputs[0].value), "first", "FL-76");
    world.run(calls::force_fail(third.id)).unwrap();
    assert_eq!(world.flow(flow).summary.edges_pending, 0, "FL-165 the second end changes nothing");
}

#[test]
fn fl_74_what_an_operator_gave_stays_with_those_that_were_handed_it() {
    let mut world = World::new();
    let flow = world.flow_of("u d e u>d=x u>e=x", |flow| flow.members[1].submit.policy.retry.max_retries = 3);
    let u = member_id(flow, "u");
    world.run(force_complete(u, Some("first"))).unwrap();
    let first = world.claim_member(flow, "d");
    assert_eq!(text(&first.inputs[0].value), "first");
    let retried = |world: &mut World, held: &Claimed| {
        world.run(calls::fail(held.id, fence(held))).unwrap();
        world.now = world.now + 600_000;
        world.scan();
        world.claim_member(flow, "d")
    };
    world.run(Command::Replay(calls::replay(u))).unwrap();
    let live = retried(&mut world, &first);
    assert_eq!(text(&live.inputs[0].value), "first", "while the upstream lives again");
    world.run(force_complete(u, Some("second"))).unwrap();
    let third = retried(&mut world, &live);
    assert_eq!(text(&third.inputs[0].value), "first", "though it was given another");
    assert_eq!(text(&world.claim_member(flow, "e").inputs[0].value), "second", "whoever begins now gets that one");
    world.run(Command::Replay(calls::replay(u))).unwrap();
    world.run(force_complete(u, None)).unwrap();
    let fourth = retried(&mut world, &third);
    assert_eq!(text(&fourth.inputs[0].value), "first", "nor if it was given none");
    assert_eq!(world.execution(u).forced_result().map(|given| &given.bytes), Some(&None));
}

#[test]
fn ex_66_what_an_operator_gave_goes_with_a_replay_if_nobody_was_handed_it() {
    let mut world = World::new();
    let flow = world.flow_of("u d u>d=x", |_| {});
    let (alone, last) = (world.submit(|_| {}), member_id(flow, "d"));
    world.complete_member(flow, "u");
    for id in [alone, last] {
        world.run(force_complete(id, Some("given"))).unwrap();
        world.run(Command::Replay(calls::replay(id))).unwrap();
        assert!(!world.records[&Key::Execution(id)].parts.contains_key(&schema::RESULT));
    }
}

#[test]
fn forced_results_of_before_they_were_numbered_are_read() {
    let mut world = World::new();
    let flow = world.flow_of("u d u>d=x", |flow| flow.members[1].submit.policy.retry.max_retries = 3);
    let u = member_id(flow, "u");
    world.complete_member(flow, "u");
    world.run(Command::Replay(calls::replay(u))).unwrap();
    world.run(force_complete(u, Some("old"))).unwrap();
    // Format 1 has the one result, without its number, and edges do not say how often their upstream was replayed.
    let given = ForcedResult { bytes: Some("old".into()), content_type: None };
    let stored = world.records.get_mut(&Key::Execution(u)).unwrap();
    stored.parts.insert(schema::RESULT, codec::encode(&given)).unwrap();
    let Some(Record::Edge(edge)) = world.record(Key::Edge(u, 0)) else { panic!("an edge") };
    assert_eq!(edge.body.resolved.map(|end| end.replays), Some(1), "it is read back");
    let stored = world.records.get_mut(&Key::Edge(u, 0)).unwrap();
    stored.parts.insert(0, codec::encode(&edge.body)).unwrap();
    assert_eq!(world.execution(u).forced_result(), Some(&given));
    let first = world.claim_member(flow, "d");
    world.run(Command::Replay(calls::replay(u))).unwrap();
    world.run(calls::fail(first.id, fence(&first))).unwrap();
    world.at(600_000).scan();
    let second = world.claim_member(flow, "d");
    assert_eq!([first, second].map(|held| text(&held.inputs[0].value).to_owned()), ["old", "old"]);
}

#[test]
fn fl_74_a_replay_of_the_downstream_pins_anew() {
    let mut world = World::new();
    let flow = world.flow_of("a b d a*>d=x[] b*>d=x[]", |flow| {
        policy(flow, "d", "main", crate::record::member::GroupPolicy::AnyOf, crate::record::member::Then::LetRun);
    });
    complete_with(&mut world, flow, "a", Some("a".into()));
    let first = world.claim_member(flow, "d");
    assert_eq!((first.inputs.len(), first.inputs_missing.len()), (1, 1));
    complete_with(&mut world, flow, "b", Some("b".into()));
    world.run(calls::fail(first.id, fence(&first))).unwrap();
    world.run(Command::Replay(calls::replay(first.id))).unwrap();
    let again = world.claim_member(flow, "d");
    let texts: Vec<&str> = again.inputs.iter().map(|input| text(&input.value)).collect();
    assert_eq!((texts, again.inputs_missing.len()), (vec!["a", "b"], 0));
}

#[test]
fn fl_75_what_does_not_fit_is_left_to_be_read_and_nothing_is_cut() {
    let mut world = World::new();
    let flow = world.flow_of("a b c d a>d=a b>d=b c>d=c", |_| {});
    let half = Bytes::from(vec![b'x'; INPUTS_INLINE_MAX / 2 + 1]);
    for key in ["a", "b"] {
        complete_with(&mut world, flow, key, Some(half.clone()));
    }
    complete_with(&mut world, flow, "c", Some("small".into()));
    let claimed = world.claim_member(flow, "d");
    let kinds: Vec<&str> = claimed
        .inputs
        .iter()
        .map(|input| match &input.value {
            InputValue::Inline(payload) if payload.bytes == half => "whole",
            InputValue::Handle { .. } => "handle",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["whole", "handle", "handle"], "in the order of the edges after the limit");
}

#[test]
fn fl_75_values_that_do_not_fit_are_not_loaded_to_find_that_out() {
    let mut world = World::new();
    world.planted = true;
    let (count, size) = (200, 64 << 10);
    let mut fan = blank_flow();
    fan.members = (0..count).map(|at| member(&format!("u{at}"))).chain([member("d")]).collect();
    fan.edges = (0..count).map(|at| edge(&format!("u{at}>d=x[]"))).collect();
    let flow = world.submit_flow(fan).unwrap().id;
    for at in 0..count {
        complete_with(&mut world, flow, &format!("u{at}"), Some(Bytes::from(vec![b'x'; size])));
    }
    let claimed = world.claim_member(flow, "d");
    let inline = claimed.inputs.iter().filter(|input| matches!(input.value, InputValue::Inline(_))).count();
    assert_eq!((claimed.inputs.len(), inline), (count, INPUTS_INLINE_MAX / size));
    assert!(world.loaded < 40 * size, "{} bytes were loaded for {} that fit", world.loaded, inline * size);
}

#[test]
fn fl_75_many_small_values_take_few_loads() {
    let mut world = World::new();
    world.planted = true;
    let count = 700;
    let mut fan = blank_flow();
    fan.members = (0..count).map(|at| member(&format!("u{at}"))).chain([member("d")]).collect();
    fan.edges = (0..count).map(|at| edge(&format!("u{at}>d=x[]"))).collect();
    let flow = world.submit_flow(fan).unwrap().id;
    for at in 0..count {
        complete_with(&mut world, flow, &format!("u{at}"), Some(Bytes::from(format!("{at}"))));
    }
    let claimed = world.claim_member(flow, "d");
    let texts: Vec<&str> = claimed.inputs.iter().map(|input| text(&input.value)).collect();
    assert_eq!(texts, (0..count).map(|at| at.to_string()).collect::<Vec<_>>());
    assert!(world.loads <= 10, "{} loads", world.loads);
}

#[test]
fn fl_75_a_success_without_a_result_takes_no_room() {
    let mut world = World::new();
    let flow = world.flow_of("full bare given more last d full>d=1 bare>d=2 given>d=3 more>d=4 last>d=5", |_| {});
    complete_with(&mut world, flow, "full", Some(Bytes::from(vec![b'x'; INPUTS_INLINE_MAX])));
    complete_with(&mut world, flow, "bare", None);
    complete_with(&mut world, flow, "given", Some("".into()));
    complete_with(&mut world, flow, "more", Some("x".into()));
    complete_with(&mut world, flow, "last", Some("".into()));
    let claimed = world.claim_member(flow, "d");
    let [full, bare, given, more, last] = &claimed.inputs[..] else { panic!("{:?}", claimed.inputs) };
    assert!(matches!(&full.value, InputValue::Inline(payload) if payload.bytes.len() == INPUTS_INLINE_MAX));
    assert_eq!(bare.value, InputValue::None, "there is nothing to be read");
    assert_eq!(text(&given.value), "", "nor does an empty one");
    assert_eq!(more.value, InputValue::Handle { bytes: Some(1) });
    assert!(matches!(last.value, InputValue::Handle { .. }), "all after the first that does not fit");
}

#[test]
fn fl_77_whoever_claims_a_member_gets_what_made_it_ready() {
    let mut world = World::new();
    let flow = world.flow_of("a b d a>d=a b>d=b", |_| {});
    let id: ExecutionId = member_id(flow, "d");
    for key in ["a", "b"] {
        assert_eq!(world.try_claim(id, |_| {}).unwrap_err().code(), "not_claimable");
        complete_with(&mut world, flow, key, Some(Bytes::copy_from_slice(key.as_bytes())));
    }
    let claimed: Claimed = world.claim(id);
    assert_eq!(claimed.inputs.iter().map(|input| text(&input.value)).collect::<Vec<_>>(), ["a", "b"]);
}
