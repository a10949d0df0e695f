//! Revoking a lease: an operator takes the work from its worker. Costs neither a retry nor a reclaim.

use super::settle::{self, Requeue};
use super::{WITH_ACTIONS, emit, note, refuse_done, visible};
use crate::command::{Principal, Revoke};
use crate::error::Rejection;
use crate::event::Fact;
use crate::limits::REASON_MAX;
use crate::record::Execution;
use crate::record::attempt::AttemptState;
use crate::record::execution::{EndCause, Hold, LeaseEnd, Next};
use crate::reply::Reply;
use crate::text::{Text, check_text};
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &Revoke) -> Result<(), Rejection> {
    check_text("reason", &cmd.reason, REASON_MAX)
}

pub fn revoke(tx: &mut Tx<'_>, who: &Principal, cmd: &Revoke) -> Result<Reply, Stop> {
    let now = tx.now();
    let mut execution = visible(tx, who, cmd.id, WITH_ACTIONS)?;
    if let (Some(epoch), Some(last)) = (cmd.expected_epoch, &execution.hot.last_lease)
        && last.epoch == epoch
        && last.end.cause() == EndCause::Revoked
    {
        return Ok(Reply::Revoked { epoch, already: true });
    }
    refuse_done(&execution)?;
    let Some(epoch) = execution.lease().map(|lease| lease.epoch) else {
        let (public_state, epoch) = (execution.public_state(), execution.hot.epoch);
        return Err(Rejection::ExecutionNotActive { public_state, epoch }.into());
    };
    if cmd.expected_epoch.is_some_and(|expected| expected != epoch) {
        return Err(Rejection::StaleLease { current_epoch: epoch }.into());
    }
    note(&mut execution, "revoke", who, &cmd.reason, now);
    let hold = cmd.hold.then(|| settle::operator_hold(&who.name, &cmd.reason, now));
    if hold.is_some() {
        emit(tx, &execution, &who.name, Fact::Held { reason: cmd.reason.clone() });
    }
    take(tx, execution, &who.name, &cmd.reason, hold)?;
    Ok(Reply::Revoked { epoch, already: false })
}

/// Ends the lease of an Active execution as revoked; another attempt follows.
pub(super) fn take(
    tx: &mut Tx<'_>,
    execution: Execution,
    by: &Text,
    reason: &Text,
    hold: Option<Hold>,
) -> Result<(), Stop> {
    let Some(lease) = execution.lease() else {
        return Err(Rejection::internal("E2 only Active has a lease").into());
    };
    let cause = EndCause::Revoked;
    let fact = Fact::Revoked { worker: lease.worker.clone(), cause, reason: reason.clone() };
    emit(tx, &execution, by, fact);
    let of = execution.hot.attempts - 1;
    let requeue = Requeue {
        lease: LeaseEnd::Revoked { reason: reason.clone() },
        attempt: AttemptState::Interrupted,
        failure: None,
        hold,
        not_before: None,
        next: Next::Reclaim { of, cause },
    };
    settle::requeue(tx, execution, requeue)?;
    Ok(())
}
