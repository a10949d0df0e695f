//! What goes when: members at their own time, the flow last.

use crate::command::*;
use crate::error::Rejection;
use crate::flow::member_id;
use crate::kit::World;
use crate::kit::calls::{call, force_fail, hold};
use crate::kit::flows::*;
use crate::record::Key;
use crate::record::flow::Remaining;
use crate::reply::{Expired, Reply};
use crate::schema::Timer;

#[test]
fn fl_201_all_members_whose_time_was_over_go_when_the_flow_is_done_however_many_there_are() {
    let mut world = World::new();
    let (staying, going) = (1_300, 1_200);
    let mut flow = blank_flow();
    let of = |kind: &str, count: usize| (0..count).map(|at| member(&format!("{kind}{at}"))).collect::<Vec<_>>();
    flow.members = of("stays", staying).into_iter().chain(of("goes", going)).chain([member("last")]).collect();
    for new in flow.members.iter_mut().filter(|new| new.key.starts_with("goes")) {
        new.submit.policy.retention_ms = Some(1_000);
    }
    let flow = world.submit_flow(flow).unwrap().id;
    for (kind, count) in [("stays", staying), ("goes", going)] {
        (0..count).for_each(|at| world.complete_member(flow, &format!("{kind}{at}")));
    }
    world.at(2_000).scan();
    assert_eq!(world.flow(flow).hot.kept, going as u32, "EX-82 they wait for their flow");
    world.complete_member(flow, "last");
    let steps: Vec<Expired> = world
        .scan()
        .into_iter()
        .filter(|(timer, ..)| *timer == Timer::FlowPurge)
        .map(|(_, _, expired)| expired)
        .collect();
    assert!(steps.len() > 2 && steps.ends_with(&[Expired::Fired]), "bit by bit: {steps:?}");
    let is_there = |key: String| world.records.contains_key(&Key::Execution(member_id(flow, &key)));
    assert!((0..staying).all(|at| is_there(format!("stays{at}"))));
    assert!(!(0..going).any(|at| is_there(format!("goes{at}"))));
    let ended = world.flow(flow);
    assert_eq!((ended.hot.kept, ended.hot.purging, ended.summary.members_purged), (0, None, going as u32), "FL-205");
    world.at(100_000_000).scan();
    world.at(200_000_000).scan();
    assert!(world.is_swept(), "FL-202");
}

#[test]
fn fl_203_an_operator_purges_a_flow_at_once_and_only_one_that_is_done() {
    let mut world = World::new();
    let flow = world.flow_of("a b a>b", |flow| flow.retention_ms = None);
    let purge = Command::PurgeFlow(PurgeFlow { flow, reason: "known".into() });
    let mut submits = call(purge.clone());
    submits.principal.scopes = Scopes::SUBMIT.with(Scopes::WORK);
    assert_eq!(world.call(&submits).unwrap_err().code(), "forbidden");
    let a = member_id(flow, "a");
    for state in ["blocked", "running", "ending"] {
        match state {
            "blocked" => drop(world.run(hold(a)).unwrap()),
            "running" => {
                world.run(Command::Release(Release { id: a, reason: "".into() })).unwrap();
                world.claim_member(flow, "a");
            }
            "ending" => {
                let remaining = Remaining::FinishActive;
                world.run(Command::CancelFlow(CancelFlow { flow, remaining, reason: "".into() })).unwrap();
            }
            _ => {}
        }
        assert_eq!(world.run(purge.clone()), Err(Rejection::FlowNotTerminal { state }));
    }
    world.run(force_fail(a)).unwrap();
    assert_eq!(world.flow_state(flow), "cancelled");
    assert_eq!(world.run(purge.clone()), Ok(Reply::FlowPurging));
    assert_eq!(world.run(purge), Err(Rejection::FlowNotFound), "out of sight at once");
    world.scan();
    assert!(world.is_swept(), "no time had to pass: {:?}", world.records.keys());
}
