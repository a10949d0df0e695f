//! What the feed tells of flows and groups.

use crate::command::*;
use crate::event::{Fact, GroupCounts};
use crate::kit::World;
use crate::kit::calls::{self, fence};
use crate::kit::flows::*;
use crate::record::flow::{Mode, Remaining};
use crate::record::member::{GroupPolicy, MAIN, Then};
use crate::text::Text;

const CANCEL: Then = Then::CancelRemaining(Mode::Immediate);

/// The facts about flows and groups, in their order, without those of executions.
fn facts(world: &World) -> Vec<Fact> {
    let told = |name: &str| name.starts_with("flow.") || name.starts_with("group.");
    world.events.iter().map(|event| event.fact.clone()).filter(|fact| told(fact.name())).collect()
}

#[test]
fn fd_7_what_a_group_tells_says_how_it_was_decided() {
    let mut world = World::new();
    let flow = world.flow_of("a b c d j k a>j b>j c>j d>j a!>k b!>k", |flow| {
        policy(flow, "j", MAIN, GroupPolicy::Quorum(2), CANCEL);
        policy(flow, "k", MAIN, GroupPolicy::AnyOf, Then::LetRun);
    });
    world.events.clear();
    world.complete_member(flow, "a");
    world.complete_member(flow, "b");
    let (group, flow_of) = (Text::from(MAIN), flow);
    let counts = |k, n, met, unmet, cancels| Some(GroupCounts { k, n, met, unmet, cancels });
    let satisfied = Fact::GroupSatisfied {
        flow: flow_of,
        group: group.clone(),
        policy: "quorum".into(),
        waived: false,
        counts: counts(2, 4, 2, 0, 2),
    };
    let impossible =
        Fact::GroupImpossible { flow: flow_of, group, policy: "any_of".into(), counts: counts(1, 2, 0, 2, 0) };
    assert_eq!(facts(&world), [satisfied, impossible]);
}

#[test]
fn fd_7_a_cancel_is_told_in_the_words_of_its_call_and_so_is_a_stronger_one() {
    let mut world = World::new();
    let flow = world.flow_of("a b", |_| {});
    world.claim_member(flow, "a");
    world.claim_member(flow, "b");
    for remaining in [
        Remaining::LetRun,
        Remaining::FinishActive,
        Remaining::LetRun,
        Remaining::Cancel(Mode::Graceful { grace_ms: 60_000 }),
        Remaining::Cancel(Mode::Immediate),
    ] {
        let _ = world.run(Command::CancelFlow(CancelFlow { flow, remaining, reason: "enough".into() }));
    }
    let told: Vec<(Text, u32)> = facts(&world)
        .into_iter()
        .filter_map(|fact| match fact {
            Fact::FlowCancelRequested { policy, members, .. } => Some((policy, members)),
            _ => None,
        })
        .collect();
    let words = |told: &[(Text, u32)]| told.iter().map(|(policy, _)| policy.to_string()).collect::<Vec<_>>();
    assert_eq!(words(&told[..3]), ["flow_only", "let_active_finish", "cancel_all"], "FL-147");
    assert!(told.iter().all(|(_, members)| *members == 2), "{told:?}");
}

#[test]
fn fd_7_a_purge_tells_what_went_and_a_small_flow_that_it_is_sealed() {
    let mut world = World::new();
    let flow = world.flow_of("a b a>b", |_| {});
    let sealed = Fact::FlowSealed { flow, members: 2, edges: 1, revision: 1 };
    assert_eq!(facts(&world)[1], sealed);
    world.complete_member(flow, "a");
    world.complete_member(flow, "b");
    world.run(Command::PurgeFlow(PurgeFlow { flow, reason: "".into() })).unwrap();
    let purged = Fact::FlowPurged { flow, members: 2, edges: Some(1), revision: Some(1) };
    assert_eq!(facts(&world).last(), Some(&purged));
}

#[test]
fn fl_15_children_that_join_change_the_graph_once_per_commit_and_that_is_told() {
    let mut world = World::new();
    let flow = world.flow_of("a", |_| {});
    let held = world.claim_member(flow, "a");
    world.events.clear();
    let child = |id| Submit { id: Some(id), parent: Some((held.id, fence(&held))), ..calls::submit() };
    let items: Vec<Submit> = (0..3).map(|_| world.fresh_id()).map(child).collect();
    world.run(Command::SubmitAll(SubmitAll { items })).unwrap();
    let one = child(world.fresh_id());
    world.run(Command::Submit(Box::new(one))).unwrap();
    assert_eq!(world.flow(flow).hot.revision, 3);
    let changed = |members, revision| Fact::FlowChanged { flow, members, edges: 0, revision };
    assert_eq!(facts(&world), [changed(3, 2), changed(1, 3)]);
    let numbers: Vec<u32> = world.members_of(flow).iter().map(|it| it.member().unwrap().number).collect();
    assert_eq!(numbers.iter().collect::<std::collections::BTreeSet<_>>().len(), 5, "{numbers:?}");
}
