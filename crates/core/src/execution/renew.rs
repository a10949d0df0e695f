//! Renewing a lease. Owns the deadline of an active attempt; never changes who holds it.

use super::fence::{self, Verb};
use super::progress::{self, save_checkpoint, validate_checkpoint};
use super::{steps, visible};
use crate::command::{Payload, Principal, Renew};
use crate::error::Rejection;
use crate::limits::{LEASE_MS_MAX, LEASE_MS_MIN, Limits};
use crate::record::Execution;
use crate::record::execution::State;
use crate::reply::{CancelNotice, Renewed, Reply};
use crate::schema::PartMask;
use crate::text::check_range;
use crate::time::Time;
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &Renew, limits: &Limits) -> Result<(), Rejection> {
    if let Some(ms) = cmd.lease_ms {
        check_range("lease_ms", ms, LEASE_MS_MIN, LEASE_MS_MAX)?;
    }
    progress::validate_told(cmd.percent, &cmd.message)?;
    validate_checkpoint(&cmd.checkpoint, limits)?;
    steps::validate(&cmd.steps, Payload::len_of(&cmd.checkpoint), limits)
}

/// Moves the end of the lease, and keeps what came with it: progress, a checkpoint, steps. Repeating it is harmless, and
/// a late duplicate never shortens the lease.
pub fn renew(tx: &mut Tx<'_>, who: &Principal, cmd: &Renew) -> Result<Reply, Stop> {
    let now = tx.now();
    let mut execution = visible(tx, who, cmd.id, PartMask::NONE)?;
    fence::admit(tx, &execution, cmd.fence, Verb::Renew)?;
    let before = execution.lease().map(|lease| lease.expires_at);
    let steps = steps::record(tx, &mut execution, &cmd.steps)?;
    let tells = cmd.percent.is_some() || cmd.message.is_some() || cmd.checkpoint.is_some();
    progress::tell(&mut execution, cmd.percent, &cmd.message, now);
    save_checkpoint(&mut execution, &cmd.checkpoint, now);
    let expires_at = extend(tx, &mut execution, cmd.lease_ms);
    let State::Active { lease, timeout_due, cancel, .. } = &execution.hot.state else {
        return Err(Rejection::internal("E6 a fence passes on Active only").into());
    };
    let renewed = Renewed {
        expires_in_ms: expires_at.since(now),
        timeout_left_ms: timeout_due.map(|due| due.since(now)),
        cancel: cancel.as_ref().map(|cancel| CancelNotice {
            reason: cancel.reason.clone(),
            kill_in_ms: cancel.kill_at.map(|at| at.since(now)),
        }),
        steps,
        holder: Some((lease.instance.clone(), lease.session.unwrap_or(0))),
    };
    if tells || before != Some(expires_at) || renewed.steps.iter().any(|step| !step.existed) {
        tx.put_execution(execution);
    }
    Ok(Reply::Renewed(renewed))
}

/// Moves the end of the lease of an Active execution to `lease_ms` from now, or as long as it was claimed for.
pub(super) fn extend(tx: &mut Tx<'_>, execution: &mut Execution, lease_ms: Option<u64>) -> Time {
    let now = tx.now();
    let State::Active { lease, .. } = &mut execution.hot.state else { return now };
    lease.expires_at = lease.expires_at.max(now + lease_ms.unwrap_or(lease.lease_ms));
    lease.expires_at
}
