//! Draining: a worker process takes no more work and ends what it has.

use super::{arm, check_name, emit, known, put, refuse_marked};
use crate::command::{DrainWorker, Principal};
use crate::error::Rejection;
use crate::event::Fact;
use crate::limits::{HORIZON_MS, REASON_MAX};
use crate::record::worker::{Drain, State};
use crate::reply::Reply;
use crate::text::{check_range, check_text};
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &DrainWorker) -> Result<(), Rejection> {
    check_name(&cmd.name)?;
    check_text("reason", &cmd.reason, REASON_MAX)?;
    cmd.deadline_ms.map_or(Ok(()), |ms| check_range("deadline_ms", ms, 0, HORIZON_MS))
}

/// Leases go on until they end by themselves or the deadline comes. A repeat replaces reason and deadline; one that has
/// drained stays so. A silent one is told when it comes back.
pub fn drain(tx: &mut Tx<'_>, who: &Principal, cmd: &DrainWorker) -> Result<Reply, Stop> {
    let now = tx.now();
    let mut worker = known(tx, who, &cmd.name)?;
    refuse_marked(&worker.body)?;
    let since = worker.body.state.drain().map_or(now, |drain| drain.since);
    let told = Drain {
        reason: cmd.reason.clone(),
        by: who.name.clone(),
        since,
        deadline_at: cmd.deadline_ms.map(|ms| now + ms),
    };
    match &mut worker.body.state {
        State::Left { .. } => return Err(Rejection::WorkerNotFound.into()),
        State::Drained(_) => return Ok(Reply::Worker(Box::new(worker.body))),
        State::Dead { drain, .. } => *drain = Some(told),
        State::Draining(drain) => *drain = told,
        State::Active => {
            let (reason, deadline_at) = (told.reason.clone(), told.deadline_at);
            worker.body.state = State::Draining(told);
            let (name, instance) = (worker.body.worker.clone(), worker.body.instance.clone());
            let fact = Fact::WorkerDraining { worker: name, instance, reason, deadline_at };
            emit(tx, &worker.body, &who.name, fact);
        }
    }
    arm(&mut worker.body, now);
    Ok(put(tx, worker))
}
