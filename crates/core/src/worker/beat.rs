//! A worker process was seen. Written only as often as it takes to know in time that it is silent.

use super::{check_name, check_session, is_stale, known, put, refuse_marked, seen};
use crate::command::{BeatWorker, Principal};
use crate::error::Rejection;
use crate::record::worker::State;
use crate::reply::Reply;
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &BeatWorker) -> Result<(), Rejection> {
    check_name(&cmd.name)
}

/// Answers how the process stands. One that was silent is back; one that was given up, has left or is superseded is
/// told so.
pub fn beat(tx: &mut Tx<'_>, who: &Principal, cmd: &BeatWorker) -> Result<Reply, Stop> {
    let now = tx.now();
    let mut worker = known(tx, who, &cmd.name)?;
    check_session(&worker.body, cmd.session)?;
    refuse_marked(&worker.body)?;
    if matches!(worker.body.state, State::Left { .. }) {
        return Err(Rejection::WorkerNotFound.into());
    }
    if !is_stale(&worker.body, now) {
        return Ok(Reply::Worker(Box::new(worker.body)));
    }
    seen(&mut worker.body, now);
    // How much is free moves with every execution: it is told as it is when something is written anyway.
    worker.body.free = cmd.free.or(worker.body.free);
    Ok(put(tx, worker))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::World;
    use crate::kit::calls::*;
    use crate::time::Time;

    #[test]
    fn sd_49_being_seen_is_written_every_third_of_the_ttl() {
        let mut world = World::new();
        world.run(register_worker("w1", "a")).unwrap();
        let commits = world.commits;
        for at in [1, 10_000, 19_999] {
            world.at(at).run(beat_worker("w1", Some(1))).unwrap();
        }
        assert_eq!(world.commits, commits);
        assert_eq!(worker(world.at(20_000).run(beat_worker("w1", Some(1)))).last_seen_at, Time::from_ms(20_000));
        assert_eq!(world.commits, commits + 1);
    }

    #[test]
    fn sd_48_a_beat_enters_nobody() {
        let mut world = World::new();
        assert_eq!(world.run(beat_worker("w1", None)), Err(Rejection::WorkerNotFound));
    }
}
