//! Commands about worker processes, one file each, and the few pieces they share.
//!
//! They change the record of one worker process and touch no lease. Leases that are to end are a debt on the record,
//! which the engine pays by commands on the executions.

pub(crate) mod beat;
pub(crate) mod deregister;
pub(crate) mod drain;
pub(crate) mod mark_dead;
pub(crate) mod reap;
pub(crate) mod register;
pub(crate) mod settle;
pub(crate) mod undrain;

use crate::command::{Principal, WorkerEnd, WorkerName};
use crate::error::Rejection;
use crate::event::{Event, Fact};
use crate::limits::{WORKER_LOOK_MS, WORKER_MAX};
use crate::record::worker::{Body, Owed, State};
use crate::record::{Record, Worker};
use crate::reply::Reply;
use crate::schema::PartMask;
use crate::text::{Text, check_token};
use crate::time::Time;
use crate::tx::{Stop, Tx};

fn check_name(name: &WorkerName) -> Result<(), Rejection> {
    check_token("instance", &name.instance, WORKER_MAX)
}

/// The record, if there is one in the caller's namespace.
fn find(tx: &mut Tx<'_>, who: &Principal, name: &WorkerName) -> Result<Option<Worker>, Stop> {
    if name.namespace != who.namespace && !who.is_engine() {
        return Ok(None);
    }
    match tx.get(name.key(), PartMask::NONE)? {
        Some(Record::Worker(worker)) => Ok(Some(*worker)),
        _ => Ok(None),
    }
}

fn known(tx: &mut Tx<'_>, who: &Principal, name: &WorkerName) -> Result<Worker, Stop> {
    find(tx, who, name)?.ok_or(Stop::Rejected(Rejection::WorkerNotFound))
}

/// Refuses a call of another session than the current one. A call that names none is taken for the current one's.
fn check_session(body: &Body, session: Option<u64>) -> Result<(), Rejection> {
    match session {
        Some(session) if session != body.session => Err(Rejection::InstanceSuperseded { session: body.session }),
        _ => Ok(()),
    }
}

/// Refuses a call of a process that an operator has given up.
fn refuse_marked(body: &Body) -> Result<(), Rejection> {
    match &body.state {
        State::Dead { at, marked: Some(reason), .. } => Err(Rejection::WorkerDead { at: *at, reason: reason.clone() }),
        _ => Ok(()),
    }
}

/// It is here. One that was silent goes on as it was told before.
fn seen(body: &mut Body, now: Time) {
    body.last_seen_at = now;
    if let State::Dead { drain, .. } = &mut body.state {
        body.state = drain.take().map_or(State::Active, State::Draining);
    }
    arm(body, now);
}

/// Whether it is time to write that it was seen.
fn is_stale(body: &Body, now: Time) -> bool {
    matches!(body.state, State::Dead { .. }) || now.since(body.last_seen_at) >= body.seen_every_ms()
}

/// Leases of sessions before `before` are to be ended. Whoever called does so at once; should its node die, they are
/// looked at a little later.
fn owe(body: &mut Body, end: WorkerEnd, before: u64, now: Time) {
    body.owed = Some(Owed { end, before, since: now });
    body.look_at = Some(now + WORKER_LOOK_MS);
}

/// Leases are looked at as long as some are owed an end, or it drains, and no longer.
fn arm(body: &mut Body, now: Time) {
    let looks = body.owed.is_some() || matches!(body.state, State::Draining(_));
    body.look_at = if looks { Some(body.look_at.unwrap_or(now)) } else { None };
}

fn put(tx: &mut Tx<'_>, mut worker: Worker) -> Reply {
    worker.body.changed_at = tx.now();
    let reply = Reply::Worker(Box::new(worker.body.clone()));
    tx.put(Record::Worker(Box::new(worker)));
    reply
}

fn emit(tx: &mut Tx<'_>, body: &Body, by: &Text, fact: Fact) {
    tx.emit(Event {
        at: tx.now(),
        execution: None,
        flow: None,
        namespace: body.namespace.clone(),
        lane: "".into(),
        kind: "".into(),
        epoch: body.session,
        by: by.clone(),
        fact,
    });
}
