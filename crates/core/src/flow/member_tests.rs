//! Members and edges: who belongs to a flow, what of an edge can change, and what nobody may decide from.

use crate::command::*;
use crate::flow::member_id;
use crate::kit::World;
use crate::kit::calls::{self, fence};
use crate::kit::flows::*;
use crate::record::execution::PublicState;
use crate::record::flow::{Mode, Remaining};
use crate::record::member::{GroupPolicy, MAIN, Then};
use crate::record::{Key, Record};
use crate::reply::Reply;
use crate::schema::{Timer, execution as schema};
use std::collections::BTreeSet;

#[test]
fn fl_10_fl_11_membership_is_one_field_from_birth_and_what_exists_never_joins() {
    let mut world = World::new();
    let alone = world.submit(|_| {});
    let flow = world.flow_of("a b a>b", |_| {});
    assert!(world.execution(alone).member().is_none());
    assert_eq!(world.grow(flow, &format!("{alone}")).unwrap_err().code(), "invalid_argument");
    assert!(world.execution(alone).member().is_none());
    let indexed: BTreeSet<Key> = world
        .records
        .iter()
        .filter(|(key, stored)| matches!(key, Key::Execution(_)) && !stored.facets[schema::FLOW].is_null())
        .map(|(key, _)| *key)
        .collect();
    let members: BTreeSet<Key> = world.members_of(flow).iter().map(|it| Key::Execution(it.id)).collect();
    assert_eq!(indexed, members, "FL-221");
    assert!(world.members_of(flow).iter().all(|it| it.id.partition() == flow.partition()), "FL-1, FL-220");
    assert!(world.members_of(flow).iter().all(|it| &*it.spec.namespace == "shop"));
}

#[test]
fn fl_14_a_bad_end_of_a_member_that_is_not_critical_counts_against_nothing() {
    let mut world = World::new();
    let flow = world.flow_of("a b a!>b", |flow| flow.members[0].critical = false);
    world.fail_member(flow, "a");
    world.complete_member(flow, "b");
    let done = world.flow(flow);
    assert_eq!((done.public_state().name(), done.summary.failures), ("completed", 0), "FL-173");
    assert_eq!(done.summary.of(PublicState::Failed), 1);
}

#[test]
fn fl_23_of_an_edge_only_its_resolution_changes() {
    let mut world = World::new();
    let flow = world.flow_of("a b c a>b=x a!>c", |_| {});
    let plain = |world: &World| {
        let mut edges = world.edges_of(flow);
        edges.iter_mut().for_each(|edge| edge.body.resolved = None);
        edges
    };
    let before = plain(&world);
    world.complete_member(flow, "a");
    world.run(Command::Replay(calls::replay(member_id(flow, "a")))).unwrap();
    world.fail_member(flow, "a");
    world.complete_member(flow, "c");
    assert_eq!(plain(&world), before);
    world.run(Command::Purge(Purge { id: member_id(flow, "a"), reason: "".into() })).unwrap();
    assert!(world.edges_of(flow).iter().all(|edge| edge.body.resolved.is_some()), "a purge leaves them decided");
}

#[test]
fn fl_16_fl_205_a_purged_member_stays_counted_and_its_key_is_never_another() {
    let mut world = World::new();
    let flow = world.flow_of("a b", |_| {});
    world.fail_member(flow, "a");
    world.complete_member(flow, "b");
    let before = world.flow(flow).summary;
    world.run(Command::Purge(Purge { id: member_id(flow, "a"), reason: "".into() })).unwrap();
    let after = world.flow(flow).summary;
    assert_eq!((after.by_state, after.failures, after.members_purged), (before.by_state, before.failures, 1), "FL-174");
    world.run(Command::Replay(calls::replay(member_id(flow, "b")))).unwrap();
    let Ok(Reply::FlowGrown(again)) = world.grow(flow, "a") else { panic!("known") };
    assert_eq!(again.members[0], ("a".into(), member_id(flow, "a"), true));
    world.complete_member(flow, "b");
    assert_eq!(world.flow_state(flow), "failed", "its failure is not lost");
}

#[test]
fn fl_121_a_sibling_that_cannot_be_read_is_passed() {
    let mut world = World::new();
    let cancel = Then::CancelRemaining(Mode::Immediate);
    let flow = world.flow_of("a b c j a>j b>j c>j", |flow| policy(flow, "j", MAIN, GroupPolicy::AnyOf, cancel));
    world.planted = true;
    let damaged = Key::Execution(member_id(flow, "b"));
    world.records.get_mut(&damaged).unwrap().parts.insert(schema::HOT, "\u{1}broken".into());
    world.complete_member(flow, "a");
    assert_eq!(world.states(flow, "c j"), ["cancelled", "waiting"]);
    let letter = world.records.keys().find(|key| matches!(key, Key::DeadLetter(..))).copied().unwrap();
    let Some(Record::DeadLetter(letter)) = world.record(letter) else { panic!("a letter") };
    assert_eq!((letter.body.timer, letter.body.flow), (Timer::GroupCancel, Some(flow)));
}

#[test]
fn fl_172_fl_235_guards_look_at_the_state_and_a_flow_that_is_cancelled_issues_no_lease() {
    for remaining in [Remaining::Cancel(Mode::Immediate), Remaining::FinishActive] {
        let mut world = World::new();
        let mut large = blank_flow();
        large.members = (0..2_500).map(|at| member(&format!("m{at}"))).collect();
        let flow = world.submit_flow(large).unwrap().id;
        world.scan();
        let held = world.claim_member(flow, "m0");
        world.run(Command::CancelFlow(CancelFlow { flow, remaining, reason: "enough".into() })).unwrap();
        assert!(world.flow(flow).summary.of(PublicState::Waiting) > 0, "some are not reached yet");
        for at in 1..2_500 {
            let id = member_id(flow, &format!("m{at}"));
            if world.execution(id).public_state() == PublicState::Waiting {
                assert_eq!(world.try_claim(id, |_| {}).unwrap_err().code(), "not_claimable", "FL-140");
                break;
            }
        }
        if remaining == Remaining::FinishActive {
            world.run(calls::complete(held.id, fence(&held), None)).expect("it may end its attempt");
        }
        world.scan();
        assert_eq!(world.flow_state(flow), "cancelled");
    }
}

#[test]
fn fl_183_a_repair_that_shows_a_flow_to_be_over_lets_the_rules_end_it() {
    let mut world = World::new();
    let flow = world.flow_of("a b", |_| {});
    world.complete_member(flow, "a");
    // As if one had been counted that never was.
    let Some(Record::Flow(mut wrong)) = world.record(Key::Flow(flow)) else { panic!("a flow") };
    wrong.summary.by_state[PublicState::Waiting as usize] += 1;
    wrong.summary.total_members += 1;
    let stored = world.records.get_mut(&Key::Flow(flow)).unwrap();
    let record = Record::Flow(wrong);
    let parts = record.encode(crate::schema::PartMask::ALL);
    stored.parts = parts.into_iter().filter_map(|(part, bytes)| Some((part, bytes?))).collect();
    stored.facets = record.facets();
    world.planted = true;
    world.complete_member(flow, "b");
    assert_eq!(world.flow_state(flow), "running", "one is missing");
    world.at(15_000).scan();
    assert_eq!(world.flow_state(flow), "running", "seen once");
    world.at(30_000).scan();
    assert_eq!(world.flow_state(flow), "completed");
    let repaired = world.events.iter().filter(|event| event.fact.name() == "flow.repaired").count();
    assert_eq!(repaired, 1);
}

#[test]
fn fl_175_the_totals_are_of_all_members_whatever_their_tags_and_kinds() {
    let mut world = World::new();
    let flow = world.flow_of("a b c d parent a>d", |flow| {
        for (at, member) in flow.members.iter_mut().enumerate() {
            member.submit.tags.insert("team".into(), format!("t{}", at % 2).into());
            member.submit.lane = ["mail", "gpu"][at % 2].into();
            member.submit.kind = format!("kind{at}").into();
            member.critical = at != 1;
        }
    });
    let held = world.claim_member(flow, "parent");
    world.within(&held, "child").unwrap();
    let ready = world.member(flow, "a").spec.lane.clone();
    assert_eq!(&*ready, "mail");
    world.complete_member(flow, "a");
    world.fail_member(flow, "b");
    let summary = world.flow(flow).summary;
    let of = |state| summary.of(state);
    assert_eq!((summary.total_members, summary.live(), summary.failures), (6, 4, 0));
    let ended = (of(PublicState::Completed), of(PublicState::Failed));
    assert_eq!((ended, of(PublicState::Active), of(PublicState::Waiting)), ((1, 1), 1, 3));
    let tagged = |team: &str| {
        let members = world.members_of(flow);
        members.iter().filter(|it| it.tags().get("team").is_some_and(|tag| **tag == *team)).count()
    };
    assert_eq!((tagged("t0"), tagged("t1")), (3, 2), "a view per tag is made from the members, and one has none");
}
