//! Large graphs: bounded commits, however much follows from one end.

use crate::command::*;
use crate::kit::World;
use crate::kit::calls::{self, fence};
use crate::kit::flows::*;
use crate::limits::FLOW_RECORDS_PER_COMMIT;
use crate::record::execution::PublicState;
use crate::record::member::{GroupPolicy, MAIN, Mode, Then};

#[test]
fn fl_92_fl_93_a_long_chain_is_skipped_in_bounded_commits() {
    let mut world = World::new();
    // Counting all of them after every commit would be all that the test does.
    world.planted = true;
    let length = 6_000;
    let flow = world.flow_of("m0", |_| {});
    for first in (1..length).step_by(700) {
        let numbers = first..length.min(first + 700);
        let members = numbers.clone().map(|at| member(&format!("m{at}"))).collect();
        let edges = numbers.map(|at| edge(&format!("m{}>m{at}", at - 1))).collect();
        let grow = GrowFlow { flow, members, edges, seal: true, expected_revision: None, within: None };
        world.run(Command::GrowFlow(Box::new(grow))).unwrap();
    }
    world.largest = 0;
    world.fail_member(flow, "m0");
    assert!(!world.flow(flow).is_done(), "one commit does not hold it");
    world.scan();
    let done = world.flow(flow);
    assert_eq!((done.summary.of(PublicState::Skipped), done.public_state().name()), (length - 1, "failed"));
    assert_eq!((done.hot.works, done.summary.edges_pending), (0, 0));
    assert!(world.largest <= FLOW_RECORDS_PER_COMMIT, "{} records in one commit", world.largest);
}

#[test]
fn fl_83_no_more_edges_than_the_store_wants_in_a_batch() {
    let largest = |batch_records| {
        let mut world = World::new();
        world.batch_records = batch_records;
        let mut fan = blank_flow();
        fan.members = (0..900).map(|at| member(&format!("s{at}"))).chain([member("u")]).collect();
        fan.edges = (0..900).map(|at| edge(&format!("u>s{at}"))).collect();
        let fan = world.submit_flow(fan).unwrap().id;
        world.scan();
        world.largest = 0;
        world.complete_member(fan, "u");
        world.scan();
        assert_eq!(world.flow(fan).summary.of(PublicState::Waiting), 900);
        world.largest
    };
    assert!(largest(150) <= 150, "{} records in one commit", largest(150));
    assert!(largest(2_000) > 500, "a store that takes more is given more");
}

#[test]
fn fl_115_siblings_take_their_own_edges_with_them_however_small_batches_are() {
    let mut world = World::new();
    world.batch_records = 150;
    let mut race = blank_flow();
    race.members = (0..900).map(|at| member(&format!("s{at}"))).chain([member("j")]).collect();
    race.edges = (0..900).map(|at| edge(&format!("s{at}>j"))).collect();
    policy(&mut race, "j", MAIN, GroupPolicy::AnyOf, Then::CancelRemaining(Mode::Immediate));
    let race = world.submit_flow(race).unwrap().id;
    world.scan();
    let held = world.claim_member(race, "s7");
    let before = world.commits;
    world.run(calls::complete(held.id, fence(&held), None)).unwrap();
    world.scan();
    assert_eq!(world.flow(race).summary.of(PublicState::Cancelled), 899);
    assert!(world.commits - before <= 8, "{} commits", world.commits - before);
}

#[test]
fn fl_83_fl_115_what_follows_from_one_end_is_bounded_per_commit() {
    let count = 2_500;
    let names = |count: usize| (0..count).map(|at| member(&format!("s{at}")));
    let mut world = World::new();
    let mut fan = blank_flow();
    fan.members = names(count).chain([member("u")]).collect();
    fan.edges = (0..count).map(|at| edge(&format!("u>s{at}"))).collect();
    let fan = world.submit_flow(fan).unwrap().id;
    world.scan();
    world.largest = 0;
    world.complete_member(fan, "u");
    world.scan();
    assert_eq!(world.flow(fan).summary.of(PublicState::Waiting), count as u32);
    let mut race = blank_flow();
    race.members = names(count).chain([member("j")]).collect();
    race.edges = (0..count).map(|at| edge(&format!("s{at}>j"))).collect();
    policy(&mut race, "j", MAIN, GroupPolicy::AnyOf, Then::CancelRemaining(Mode::Immediate));
    let (before, race) = (world.largest, world.submit_flow(race).unwrap().id);
    world.scan();
    world.largest = before;
    world.complete_member(race, "s7");
    world.scan();
    assert_eq!(world.flow(race).summary.of(PublicState::Cancelled), count as u32 - 1, "FL-120 none is dropped");
    assert!(world.largest <= FLOW_RECORDS_PER_COMMIT, "{} records in one commit", world.largest);
}
