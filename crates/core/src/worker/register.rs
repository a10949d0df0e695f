//! Registering a worker process: what it is and offers. Another start of it supersedes the one before.

use super::{check_name, emit, find, is_stale, owe, put, refuse_marked, seen};
use crate::command::{Principal, RegisterWorker, WorkerEnd};
use crate::error::Rejection;
use crate::event::Fact;
use crate::limits::*;
use crate::record::Worker;
use crate::record::worker::{Body, State};
use crate::reply::Reply;
use crate::text::{self, LANE_DEFAULT, check_range, check_text, check_token};
use crate::time::Time;
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &RegisterWorker) -> Result<(), Rejection> {
    check_name(&cmd.name)?;
    check_token("worker", &cmd.worker, WORKER_MAX)?;
    check_text("boot_id", &cmd.boot_id, WORKER_MAX)?;
    if cmd.lanes.len() > CLAIM_LANES_MAX {
        return Err(Rejection::invalid("lanes", "has more than 64 entries"));
    }
    cmd.lanes.iter().try_for_each(|lane| text::check_name("lanes", lane))?;
    if cmd.kinds.as_ref().is_some_and(|kinds| kinds.len() > CLAIM_KINDS_MAX) {
        return Err(Rejection::invalid("kinds", "has more than 256 entries"));
    }
    cmd.kinds.iter().flatten().try_for_each(|kind| check_token("kinds", kind, KIND_MAX))?;
    if let Some(version) = &cmd.version {
        check_token("version", version, VERSION_MAX)?;
    }
    if let Some(host) = &cmd.host {
        check_text("host", host, HOST_MAX)?;
    }
    if cmd.labels.len() > TAGS_MAX {
        return Err(Rejection::invalid("labels", "has more than 64 entries"));
    }
    for (key, value) in &cmd.labels {
        check_token("labels", key, TAG_KEY_MAX)?;
        check_text("labels", value, TAG_VALUE_MAX)?;
    }
    check_range("ttl_ms", cmd.ttl_ms, WORKER_TTL_MS_MIN, WORKER_TTL_MS_MAX)
}

/// Enters the process, or refreshes what is known of it. With the boot id of the current session that session goes on;
/// with another one a new session begins, free of any drain, and the leases of earlier ones end unless it wants them.
/// Without a boot id it is the engine's word for a process that claims: it never replaces what a process said itself.
pub fn register(tx: &mut Tx<'_>, who: &Principal, cmd: &RegisterWorker) -> Result<Reply, Stop> {
    let now = tx.now();
    let found = find(tx, who, &cmd.name)?;
    if found.is_none() && cmd.name.namespace != who.namespace && !who.is_engine() {
        return Err(Rejection::WorkerNotFound.into());
    }
    let Some(mut worker) = found else {
        let worker = Worker { partition: cmd.name.partition, body: fresh(cmd, now) };
        return Ok(begin(tx, who, worker));
    };
    let before = worker.body.clone();
    let has_left = matches!(before.state, State::Left { .. });
    if cmd.boot_id.is_empty() && !before.only_claims() && !has_left {
        refuse_marked(&before)?;
        if !is_stale(&before, now) {
            return Ok(Reply::Worker(Box::new(before)));
        }
        seen(&mut worker.body, now);
        return Ok(put(tx, worker));
    }
    if before.boot_id == cmd.boot_id && !has_left {
        refuse_marked(&before)?;
        describe(&mut worker.body, cmd);
        if worker.body == before && !is_stale(&before, now) {
            return Ok(Reply::Worker(Box::new(before)));
        }
        seen(&mut worker.body, now);
        return Ok(put(tx, worker));
    }
    let session = before.session + 1;
    worker.body = Body { session, owed: before.owed, look_at: before.look_at, ..fresh(cmd, now) };
    // What was taken without a session may well be this process's own, from before it registered.
    if cmd.abandon && !before.only_claims() {
        owe(&mut worker.body, WorkerEnd::Lost, session, now);
    }
    super::arm(&mut worker.body, now);
    Ok(begin(tx, who, worker))
}

fn begin(tx: &mut Tx<'_>, who: &Principal, worker: Worker) -> Reply {
    let fact = Fact::WorkerRegistered {
        worker: worker.body.worker.clone(),
        instance: worker.body.instance.clone(),
        session: worker.body.session,
        lanes: worker.body.lanes.clone(),
    };
    emit(tx, &worker.body, &who.name, fact);
    put(tx, worker)
}

fn fresh(cmd: &RegisterWorker, now: Time) -> Body {
    let mut body = Body {
        namespace: cmd.name.namespace.clone(),
        instance: cmd.name.instance.clone(),
        worker: cmd.worker.clone(),
        boot_id: cmd.boot_id.clone(),
        session: if cmd.boot_id.is_empty() { 0 } else { 1 },
        session_at: now,
        state: State::Active,
        lanes: Vec::new(),
        kinds: None,
        capabilities: cmd.capabilities.clone(),
        capacity: None,
        free: None,
        version: None,
        host: None,
        labels: Default::default(),
        ttl_ms: cmd.ttl_ms,
        registered_at: now,
        last_seen_at: now,
        changed_at: now,
        owed: None,
        look_at: None,
    };
    describe(&mut body, cmd);
    body
}

/// What the process says about itself replaces what it said before.
fn describe(body: &mut Body, cmd: &RegisterWorker) {
    body.worker = cmd.worker.clone();
    body.lanes = if cmd.lanes.is_empty() { vec![LANE_DEFAULT.into()] } else { cmd.lanes.clone() };
    body.kinds = cmd.kinds.clone();
    body.capabilities = cmd.capabilities.clone();
    body.capacity = cmd.capacity;
    body.version = cmd.version.clone();
    body.host = cmd.host.clone();
    body.labels = cmd.labels.clone();
    body.ttl_ms = cmd.ttl_ms;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use crate::kit::World;
    use crate::kit::calls::*;

    #[test]
    fn sd_49_the_same_start_keeps_its_session_and_is_written_rarely() {
        let mut world = World::new();
        assert_eq!(worker(world.run(register_worker("w1", "a"))).session, 1);
        let commits = world.commits;
        assert_eq!(worker(world.at(19_999).run(register_worker("w1", "a"))).session, 1);
        assert_eq!(world.commits, commits, "nothing has changed and a third of its ttl is not over");
        assert_eq!(worker(world.at(20_000).run(register_worker("w1", "a"))).last_seen_at, Time::from_ms(20_000));
    }

    #[test]
    fn sd_51_another_start_supersedes_the_one_before() {
        let mut world = World::new();
        world.run(register_worker("w1", "a")).unwrap();
        world.run(drain_worker("w1", None)).unwrap();
        let second = worker(world.at(5).run(register_worker("w1", "b")));
        assert_eq!((second.session, &second.state), (2, &State::Active), "SD-54: a new session clears a drain");
        assert_eq!(second.owes(Some(1), Time::ZERO), Some(WorkerEnd::Lost));
        assert_eq!(second.owes(Some(2), Time::from_ms(5)), None);
        let old = world.run(beat_worker("w1", Some(1)));
        assert_eq!(old, Err(Rejection::InstanceSuperseded { session: 2 }));
        assert!(world.run(beat_worker("w1", Some(2))).is_ok());
    }

    #[test]
    fn sd_48_leases_of_the_earlier_start_stay_if_it_wants_them() {
        let mut world = World::new();
        world.run(register_worker("w1", "a")).unwrap();
        let Command::RegisterWorker(mut again) = register_worker("w1", "b") else { panic!("a registration") };
        again.abandon = false;
        let second = worker(world.run(Command::RegisterWorker(again)));
        assert_eq!((second.session, second.owed), (2, None));
    }

    #[test]
    fn sd_48_a_process_that_claims_never_replaces_one_that_registered() {
        let mut world = World::new();
        let entered = worker(world.run(register_worker("w1", "")));
        assert_eq!((entered.session, entered.only_claims()), (0, true));
        let registered = worker(world.at(5).run(register_worker("w1", "a")));
        assert_eq!((registered.session, registered.owed), (1, None), "it may hold what it took before");
        let commits = world.commits;
        assert_eq!(worker(world.at(9).run(register_worker("w1", ""))), registered);
        assert_eq!(world.commits, commits);
        let seen = worker(world.at(20_005).run(register_worker("w1", "")));
        assert_eq!((&*seen.boot_id, seen.session, seen.last_seen_at), ("a", 1, Time::from_ms(20_005)));
        world.run(mark_dead_worker("w1")).unwrap();
        assert_eq!(world.run(register_worker("w1", "")).unwrap_err().code(), "worker_dead");
    }

    #[test]
    fn sd_48_no_lanes_are_the_default_lane() {
        let mut world = World::new();
        let Command::RegisterWorker(mut it) = register_worker("w1", "a") else { panic!("a registration") };
        it.lanes = Vec::new();
        assert_eq!(worker(world.run(Command::RegisterWorker(it))).lanes, ["default".into()]);
    }

    #[test]
    fn sd_18_what_is_registered_is_checked_like_a_claim() {
        let mut world = World::new();
        let Command::RegisterWorker(good) = register_worker("w1", "a") else { panic!("a registration") };
        let wrong: [fn(&mut RegisterWorker); 5] = [
            |cmd| cmd.ttl_ms = 4_999,
            |cmd| cmd.ttl_ms = 600_001,
            |cmd| cmd.lanes = vec!["no lane".into()],
            |cmd| cmd.worker = "".into(),
            |cmd| cmd.name.instance = "".into(),
        ];
        for change in wrong {
            let mut cmd = good.clone();
            change(&mut cmd);
            let refused = world.run(Command::RegisterWorker(cmd)).unwrap_err();
            assert_eq!(refused.code(), "invalid_argument");
        }
    }
}
