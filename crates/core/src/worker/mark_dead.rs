//! An operator gives a worker process up: what it holds goes to others at once.

use super::{check_name, emit, known, owe, put};
use crate::command::{MarkWorkerDead, Principal, WorkerEnd};
use crate::error::Rejection;
use crate::event::Fact;
use crate::limits::REASON_MAX;
use crate::record::worker::State;
use crate::reply::Reply;
use crate::text::check_text;
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &MarkWorkerDead) -> Result<(), Rejection> {
    check_name(&cmd.name)?;
    check_text("reason", &cmd.reason, REASON_MAX)
}

/// Its leases end as lost, and it is refused until it registers with another boot id. A repeat changes nothing.
pub fn mark_dead(tx: &mut Tx<'_>, who: &Principal, cmd: &MarkWorkerDead) -> Result<Reply, Stop> {
    let now = tx.now();
    let mut worker = known(tx, who, &cmd.name)?;
    match worker.body.state {
        State::Dead { marked: Some(_), .. } => return Ok(Reply::Worker(Box::new(worker.body))),
        State::Left { .. } => return Err(Rejection::WorkerNotFound.into()),
        _ => {}
    }
    worker.body.state = State::Dead { at: now, marked: Some(cmd.reason.clone()), drain: None };
    let before = worker.body.session + 1;
    owe(&mut worker.body, WorkerEnd::Lost, before, now);
    let fact = Fact::WorkerLost {
        worker: worker.body.worker.clone(),
        instance: worker.body.instance.clone(),
        reason: Some(cmd.reason.clone()),
    };
    emit(tx, &worker.body, &who.name, fact);
    Ok(put(tx, worker))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::World;
    use crate::kit::calls::*;
    use crate::time::Time;

    #[test]
    fn sd_51_one_that_was_given_up_is_refused_until_it_starts_anew() {
        let mut world = World::new();
        world.run(register_worker("w1", "a")).unwrap();
        let dead = worker(world.at(7).run(mark_dead_worker("w1")));
        assert_eq!(dead.owes(Some(1), Time::ZERO), Some(WorkerEnd::Lost));
        for command in [register_worker("w1", "a"), beat_worker("w1", Some(1)), drain_worker("w1", None)] {
            assert_eq!(world.run(command).unwrap_err().code(), "worker_dead");
        }
        let commits = world.commits;
        world.run(mark_dead_worker("w1")).unwrap();
        assert_eq!(world.commits, commits, "a repeat changes nothing");
        assert_eq!(worker(world.run(register_worker("w1", "b"))).session, 2);
    }
}
