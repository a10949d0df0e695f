use crate::command::*;
use crate::error::Rejection;
use crate::kit::calls::*;
use crate::kit::{PARTITION, World};
use crate::limits::{NODE_KEEP_MS, NODE_TTL_MS, REASON_MAX};
use crate::record::register::Drain;
use crate::reply::Reply;
use uuid::Uuid;

const A: Uuid = Uuid::from_u128(1);
const B: Uuid = Uuid::from_u128(2);

fn beat(world: &mut World, node: Uuid, left: bool) -> Option<Drain> {
    let heartbeat = Heartbeat {
        partition: PARTITION,
        node,
        name: "a".into(),
        version: "1".into(),
        started_at: world.now,
        left,
        claimed: Vec::new(),
        filters: Default::default(),
        seen: Vec::new(),
    };
    let command = Command::Heartbeat(heartbeat);
    match world.call(&Call { principal: Principal::engine(), ..call(command) }) {
        Ok(Reply::Node { drain }) => drain,
        other => panic!("{other:?}"),
    }
}

fn drain(world: &mut World, who: &str, node: Uuid) -> Result<Drain, Rejection> {
    let command = Command::DrainNode(DrainNode { partition: PARTITION, node, reason: "new kernel".into() });
    let principal = Principal::new("", who, Scopes::OPERATE);
    match world.call(&Call { principal, ..call(command) })? {
        Reply::Node { drain: Some(drain) } => Ok(drain),
        other => panic!("{other:?}"),
    }
}

#[test]
fn api_54_a_node_hears_with_its_heartbeat_who_wants_it_to_stop() {
    let mut world = World::new();
    assert_eq!((beat(&mut world, A, false), beat(&mut world, B, false)), (None, None));
    let first = drain(world.at(1_000), "ann", A).unwrap();
    assert_eq!((&*first.by, &*first.reason, first.at), ("ann", "new kernel", world.now));
    assert_eq!(drain(world.at(2_000), "bob", A), Ok(first.clone()), "who asked first is told");
    assert_eq!(beat(&mut world, B, false), None);
    assert_eq!(beat(&mut world, A, false), Some(first.clone()));
    assert_eq!(beat(&mut world, A, false), Some(first), "until it has left");
    beat(&mut world, A, true);
    assert_eq!(beat(&mut world, A, false), None, "nothing is kept of a node that has left");
}

#[test]
fn api_54_a_node_that_has_left_or_is_silent_cannot_be_asked() {
    let mut world = World::new();
    beat(&mut world, A, true);
    assert_eq!(drain(&mut world, "ann", A), Err(Rejection::NodeNotFound));
    beat(&mut world, B, false);
    world.at(NODE_TTL_MS);
    assert_eq!(drain(&mut world, "ann", B), Err(Rejection::NodeNotFound));
    assert_eq!(beat(&mut world, B, false), None);
}

#[test]
fn api_54_the_wish_about_a_node_that_died_is_forgotten_with_its_record() {
    let mut world = World::new();
    beat(&mut world, A, false);
    drain(&mut world, "ann", A).unwrap();
    world.at(NODE_KEEP_MS);
    beat(&mut world, B, false);
    drain(&mut world, "ann", B).unwrap();
    assert_eq!(beat(&mut world, A, false), None);
}

#[test]
fn sec_12_whoever_asks_a_node_to_stop_is_in_the_audit_log() {
    let mut world = World::new();
    beat(&mut world, A, false);
    drain(&mut world, "ann", A).unwrap();
    drain(&mut world, "bob", A).unwrap();
    beat(&mut world, A, true);
    drain(&mut world, "eve", A).unwrap_err();
    let log = world.audit(PARTITION);
    let lines = log.iter().map(|entry| {
        let act = &entry.body.act;
        assert_eq!((&*act.verb, &*act.target), ("drain_node", format!("n_{A}").as_str()));
        format!("{} {} {}", act.principal, act.change, act.result)
    });
    let expected = ["ann serving → draining: new kernel ok", "bob draining: new kernel ok", "eve  not_found"];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}

#[test]
fn api_54_only_an_operator_asks_and_not_at_any_length() {
    let mut world = World::new();
    beat(&mut world, A, false);
    let drain = |reason: String| DrainNode { partition: PARTITION, node: A, reason: reason.into() };
    let by = |scopes, reason| Call {
        principal: Principal::new("", "ann", scopes),
        ..call(Command::DrainNode(drain(reason)))
    };
    let submit = by(Scopes::SUBMIT.with(Scopes::WORK), String::new());
    assert_eq!(world.call(&submit).unwrap_err().code(), "forbidden");
    let long = by(Scopes::OPERATE, "x".repeat(REASON_MAX + 1));
    assert_eq!(world.call(&long).unwrap_err().code(), "payload_too_large");
    assert_eq!(beat(&mut world, A, false), None);
}
