//! What follows from a look at the leases of a worker process: a debt is paid, a drain is over, the record goes.

use super::{emit, put};
use crate::command::{Principal, SettleWorker};
use crate::event::Fact;
use crate::limits::{WORKER_LAG_MS, WORKER_LOOK_MS};
use crate::record::Record;
use crate::record::worker::{Body, State};
use crate::reply::Reply;
use crate::schema::PartMask;
use crate::time::Time;
use crate::tx::{Stop, Tx};

/// Takes the word of the engine for what it saw. A record that is gone, or owes something else by now, is left alone.
pub fn settle(tx: &mut Tx<'_>, who: &Principal, cmd: &SettleWorker) -> Result<Reply, Stop> {
    let now = tx.now();
    let key = cmd.key.expect("settle_worker: the engine names the record");
    let Some(Record::Worker(mut worker)) = tx.get(key, PartMask::NONE)? else { return Ok(Reply::Noted) };
    let body = &mut worker.body;
    if body.owed.map(|owed| owed.since) != cmd.owed_since {
        return Ok(Reply::Worker(Box::new(body.clone())));
    }
    if !cmd.owed_left && is_paid(body, now) {
        body.owed = None;
    }
    if matches!(body.state, State::Left { .. }) && body.owed.is_none() {
        let fact = Fact::WorkerLeft { worker: body.worker.clone(), instance: body.instance.clone() };
        emit(tx, &worker.body, &who.name, fact);
        tx.delete(key);
        return Ok(Reply::Noted);
    }
    if let State::Draining(drain) = &body.state
        && !cmd.held
    {
        body.state = State::Drained(drain.clone());
        let fact = Fact::WorkerDrained { worker: body.worker.clone(), instance: body.instance.clone() };
        emit(tx, &worker.body, &who.name, fact);
    }
    let body = &mut worker.body;
    let looks = body.owed.is_some() || matches!(body.state, State::Draining(_));
    let next = if cmd.owed_left { now } else { now + WORKER_LOOK_MS };
    body.look_at = looks.then_some(next);
    Ok(put(tx, *worker))
}

/// Other nodes may lease in the name of an ended session until they have heard of its end. One that has left by itself
/// claims no more.
fn is_paid(body: &Body, now: Time) -> bool {
    let heard = |since: Time| now.since(since) >= WORKER_LAG_MS;
    matches!(body.state, State::Left { .. }) || body.owed.is_none_or(|owed| heard(owed.since))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Call, Command};
    use crate::kit::World;
    use crate::kit::calls::*;

    fn look(world: &mut World, instance: &str, owed_left: bool, held: bool) -> Reply {
        let owed_since = world.worker(instance).and_then(|body| body.owed).map(|owed| owed.since);
        let cmd = SettleWorker { key: Some(worker_key(instance)), owed_since, owed_left, held };
        let call = Call { principal: Principal::engine(), ..call(Command::SettleWorker(cmd)) };
        world.call(&call).unwrap()
    }

    #[test]
    fn sd_54_drained_is_told_once_when_nothing_is_held() {
        let mut world = World::new();
        world.run(register_worker("w1", "a")).unwrap();
        world.run(drain_worker("w1", None)).unwrap();
        look(&mut world, "w1", false, true);
        assert_eq!(world.worker("w1").map(|body| body.state.name()), Some("draining"));
        look(&mut world, "w1", false, false);
        look(&mut world, "w1", false, false);
        let body = world.worker("w1").expect("it is there");
        assert_eq!((body.state.name(), body.look_at), ("drained", None));
        assert_eq!(world.facts(), ["worker.registered", "worker.draining", "worker.drained"]);
        assert_eq!(worker(world.run(undrain_worker("w1"))).state, State::Active);
    }

    #[test]
    fn sd_54_one_that_left_goes_with_its_last_lease() {
        let mut world = World::new();
        world.run(register_worker("w1", "a")).unwrap();
        world.run(deregister_worker("w1", Some(1))).unwrap();
        look(&mut world, "w1", true, true);
        assert!(world.worker("w1").is_some());
        look(&mut world, "w1", false, false);
        assert!(world.worker("w1").is_none());
        assert_eq!(world.facts(), ["worker.registered", "worker.left"]);
    }

    #[test]
    fn sc_164_a_debt_is_looked_at_until_every_node_has_heard_of_it() {
        let mut world = World::new();
        world.run(register_worker("w1", "a")).unwrap();
        world.run(mark_dead_worker("w1")).unwrap();
        look(world.at(WORKER_LAG_MS - 1), "w1", false, false);
        assert!(world.worker("w1").is_some_and(|body| body.owed.is_some() && body.look_at.is_some()));
        look(world.at(WORKER_LAG_MS), "w1", false, false);
        assert!(world.worker("w1").is_some_and(|body| body.owed.is_none() && body.look_at.is_none()));
    }
}
