//! Each defect of the core that can be planted breaks something that can be seen. `cargo test --features planted`
#![cfg(feature = "planted")]

mod kit;

use kit::World;
use kit::calls::*;
use weft_core::command::*;
use weft_core::id::ExecutionId;
use weft_core::limits::{BACKOFF_ROUNDS, FAIL_THRESHOLD};
use weft_core::planted::{Defect, plant};
use weft_core::record::Key;
use weft_core::schema::Timer;

/// What a world looks like after `act`, with and without the defect.
fn differs<T: PartialEq + std::fmt::Debug>(defect: Defect, act: impl Fn() -> T) {
    plant(None);
    let sound = act();
    plant(Some(defect));
    let broken = act();
    plant(None);
    assert_ne!(sound, broken, "{} shows", defect.name());
}

fn claimed() -> (World, ExecutionId, Fence) {
    let mut world = World::new();
    let id = world.submit(|_| {});
    let held = fence(&world.claim(id));
    (world, id, held)
}

#[test]
fn a_planted_defect_of_fences_shows() {
    let with = |change: fn(&mut World, &mut Fence)| {
        move || {
            let (mut world, id, mut held) = claimed();
            change(&mut world, &mut held);
            world.run(renew(id, held)).is_ok()
        }
    };
    differs(Defect::EpochNotCompared, with(|_, held| held.epoch = 0));
    differs(Defect::EpochComparedByLess, with(|_, held| held.epoch = 9));
    differs(Defect::LeaseIdNotCompared, with(|world, held| held.lease = world.fresh_lease()));
    differs(Defect::ExpiredLeaseAccepted, with(|world, _| world.now = world.now + 30_000));
}

#[test]
fn a_planted_defect_of_ends_shows() {
    differs(Defect::SecondCompletionChangesResult, || {
        let (mut world, id, held) = claimed();
        world.run(complete(id, held, Some(b"first"))).expect("completed");
        world.run(complete(id, held, Some(b"second"))).expect("repeated");
        world.attempt(id, 0).result().cloned()
    });
    differs(Defect::CancelAfterCompletion, || {
        let (mut world, id, held) = claimed();
        world.run(complete(id, held, None)).expect("completed");
        world.run(Command::Cancel(cancel(id))).is_ok()
    });
}

#[test]
fn sr_23_the_planted_defect_that_a_parked_item_is_never_tried_again_shows() {
    differs(Defect::ParkedNeverTriedAgain, || {
        let (mut world, id, _) = claimed();
        let lease = |world: &World| world.due.iter().find(|entry| entry.timer() == Some(Timer::Lease)).cloned();
        for _ in 0..FAIL_THRESHOLD * (BACKOFF_ROUNDS + 1) {
            let entry = lease(&world).expect("it is tried until it is parked");
            world.at(entry.at.ms());
            let trouble = RecordTrouble {
                key: Some(Key::Execution(id)),
                timer: Timer::Lease,
                due: entry.at,
                scanner: "lease_expiry".into(),
                interval_ms: 1_000,
                error: "no way".into(),
                fresh: world.fresh(),
            };
            let command = Command::RecordTrouble(trouble);
            world.call(&Call { principal: Principal::engine(), ..call(command) }).expect("noted");
        }
        lease(&world).map(|entry| entry.at.since(world.now))
    });
}

#[test]
fn a_planted_defect_of_holds_shows() {
    differs(Defect::LiftingOneHoldLiftsAll, || {
        let (mut world, id, held) = claimed();
        world.submit(|cmd| cmd.parent = Some((id, held)));
        world.run(hold(id)).expect("held");
        world.run(Command::WaitChildren(wait(id, held, None))).expect("waiting");
        world.run(Command::Release(Release { id, reason: "".into() })).expect("released");
        world.execution(id).public_state()
    });
}
