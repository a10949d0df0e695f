//! A worker process that was told to drain takes work again.

use super::{arm, check_name, known, put, refuse_marked};
use crate::command::{Principal, UndrainWorker, WorkerEnd};
use crate::error::Rejection;
use crate::record::worker::State;
use crate::reply::Reply;
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &UndrainWorker) -> Result<(), Rejection> {
    check_name(&cmd.name)
}

/// One that was not draining is left as it is. Leases that were to end at the deadline of the drain are kept.
pub fn undrain(tx: &mut Tx<'_>, who: &Principal, cmd: &UndrainWorker) -> Result<Reply, Stop> {
    let now = tx.now();
    let mut worker = known(tx, who, &cmd.name)?;
    refuse_marked(&worker.body)?;
    match &mut worker.body.state {
        State::Left { .. } => return Err(Rejection::WorkerNotFound.into()),
        State::Active | State::Dead { drain: None, .. } => return Ok(Reply::Worker(Box::new(worker.body))),
        State::Dead { drain, .. } => *drain = None,
        State::Draining(_) | State::Drained(_) => worker.body.state = State::Active,
    }
    worker.body.owed = worker.body.owed.filter(|owed| owed.end != WorkerEnd::Drained);
    arm(&mut worker.body, now);
    Ok(put(tx, worker))
}
