//! A worker process goes. Its record goes when it holds nothing any more.

use super::{check_name, check_session, known, owe, put, refuse_marked};
use crate::command::{DeregisterWorker, Principal, WorkerEnd};
use crate::error::Rejection;
use crate::record::worker::State;
use crate::reply::Reply;
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &DeregisterWorker) -> Result<(), Rejection> {
    check_name(&cmd.name)
}

/// Leases that it still holds are given to others, which counts against nobody. A repeat changes nothing.
pub fn deregister(tx: &mut Tx<'_>, who: &Principal, cmd: &DeregisterWorker) -> Result<Reply, Stop> {
    let now = tx.now();
    let mut worker = known(tx, who, &cmd.name)?;
    check_session(&worker.body, cmd.session)?;
    refuse_marked(&worker.body)?;
    if matches!(worker.body.state, State::Left { .. }) {
        return Ok(Reply::Worker(Box::new(worker.body)));
    }
    worker.body.state = State::Left { at: now };
    let before = worker.body.session + 1;
    owe(&mut worker.body, WorkerEnd::Drained, before, now);
    Ok(put(tx, worker))
}
