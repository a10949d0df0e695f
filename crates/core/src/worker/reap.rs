//! What time alone does to a worker process: silence, the end of a drain, the end of its record.

use super::{emit, owe};
use crate::command::WorkerEnd;
use crate::event::Fact;
use crate::limits::WORKER_LOOK_MS;
use crate::record::worker::State;
use crate::record::{Record, Worker};
use crate::reply::Expired;
use crate::text::Text;
use crate::tx::Tx;

/// Fires the timer of the process, which is due. Death by silence touches no lease: leases have a clock of their own.
pub(crate) fn reap(tx: &mut Tx<'_>, mut worker: Worker, by: &Text) -> Expired {
    let now = tx.now();
    let (name, instance) = (worker.body.worker.clone(), worker.body.instance.clone());
    match worker.body.state.clone() {
        State::Drained(_) | State::Left { .. } => {
            emit(tx, &worker.body, by, Fact::WorkerLeft { worker: name, instance });
            tx.delete(worker.key());
            return Expired::Fired;
        }
        State::Dead { .. } => {
            tx.delete(worker.key());
            return Expired::Fired;
        }
        State::Draining(_) if worker.body.silent_at() > now => {
            let before = worker.body.session + 1;
            owe(&mut worker.body, WorkerEnd::Drained, before, now);
        }
        state @ (State::Active | State::Draining(_)) => {
            let drain = state.drain().cloned();
            worker.body.state = State::Dead { at: now, marked: None, drain };
            super::arm(&mut worker.body, now);
            emit(tx, &worker.body, by, Fact::WorkerLost { worker: name, instance, reason: None });
        }
    }
    super::put(tx, worker);
    Expired::Fired
}

/// Nobody could look at its leases: they are looked at again a little later.
pub(crate) fn postpone(tx: &mut Tx<'_>, mut worker: Worker) -> Expired {
    worker.body.look_at = Some(tx.now() + WORKER_LOOK_MS);
    tx.put(Record::Worker(Box::new(worker)));
    Expired::Fired
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::World;
    use crate::kit::calls::*;
    use crate::time::Time;

    #[test]
    fn sd_49_silence_is_noticed_between_one_ttl_and_four_thirds() {
        let mut world = World::new();
        world.run(register_worker("w1", "a")).unwrap();
        world.at(19_999).run(beat_worker("w1", Some(1))).unwrap();
        assert!(world.at(79_999).scan().is_empty(), "its last beat was not written, and is a ttl ago");
        assert_eq!(world.at(80_000).scan().len(), 1);
        let dead = State::Dead { at: Time::from_ms(80_000), marked: None, drain: None };
        assert_eq!(world.worker("w1").map(|body| (body.state, body.owed)), Some((dead, None)), "SD-50");
        assert_eq!(worker(world.run(beat_worker("w1", Some(1)))).state, State::Active, "its next call makes it active");
        assert_eq!(world.facts(), ["worker.registered", "worker.lost"]);
    }

    #[test]
    fn sd_49_a_dead_one_is_kept_for_a_while() {
        let mut world = World::new();
        world.run(register_worker("w1", "a")).unwrap();
        world.at(80_000).scan();
        world.at(80_000 + 3_599_999).scan();
        assert!(world.worker("w1").is_some());
        world.at(80_000 + 3_600_000).scan();
        assert!(world.worker("w1").is_none());
    }

    #[test]
    fn sd_54_a_drain_survives_beats_and_silence() {
        let mut world = World::new();
        world.run(register_worker("w1", "a")).unwrap();
        world.run(drain_worker("w1", None)).unwrap();
        assert_eq!(worker(world.at(20_000).run(beat_worker("w1", Some(1)))).state.name(), "draining");
        assert_eq!(worker(world.run(register_worker("w1", "a"))).state.name(), "draining");
        world.at(100_000).scan();
        assert_eq!(world.worker("w1").map(|body| body.state.name()), Some("dead"));
        assert_eq!(worker(world.run(beat_worker("w1", Some(1)))).state.name(), "draining");
    }

    #[test]
    fn sd_54_at_the_deadline_what_is_left_is_owed_an_end() {
        let mut world = World::new();
        world.run(register_worker("w1", "a")).unwrap();
        world.run(drain_worker("w1", Some(10_000))).unwrap();
        world.at(9_999).scan();
        assert_eq!(world.worker("w1").and_then(|body| body.owed), None);
        world.at(10_000).scan();
        let body = world.worker("w1").expect("it is there");
        assert_eq!(body.owes(Some(1), Time::ZERO), Some(WorkerEnd::Drained));
    }
}
