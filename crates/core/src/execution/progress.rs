//! Reporting progress and saving a checkpoint. Only the last value is kept.

use super::fence::{self, Verb};
use super::submit::validate_payload;
use super::{renew, visible};
use crate::command::{Payload, Principal, Progress};
use crate::error::Rejection;
use crate::limits::{LEASE_MS_MAX, LEASE_MS_MIN, Limits, PROGRESS_MESSAGE_MAX};
use crate::record::Execution;
use crate::record::execution::{self, Checkpoint};
use crate::reply::Reply;
use crate::schema::PartMask;
use crate::text::{Text, check_range, check_text};
use crate::time::Time;
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &Progress, limits: &Limits) -> Result<(), Rejection> {
    if cmd.percent.is_none() && cmd.message.is_none() && cmd.checkpoint.is_none() && cmd.renew_ms.is_none() {
        return Err(Rejection::invalid("progress", "has nothing to report"));
    }
    validate_told(cmd.percent, &cmd.message)?;
    validate_checkpoint(&cmd.checkpoint, limits)?;
    cmd.renew_ms.map_or(Ok(()), |ms| check_range("renew_ms", ms, LEASE_MS_MIN, LEASE_MS_MAX))
}

pub(super) fn validate_told(percent: Option<u8>, message: &Option<Text>) -> Result<(), Rejection> {
    check_range("percent", percent.unwrap_or(0).into(), 0, 100)?;
    message.as_ref().map_or(Ok(()), |message| check_text("message", message, PROGRESS_MESSAGE_MAX))
}

pub(super) fn validate_checkpoint(checkpoint: &Option<Payload>, limits: &Limits) -> Result<(), Rejection> {
    validate_payload("checkpoint", checkpoint, limits.checkpoint_max)
}

/// Given fields overwrite, absent ones stay.
pub fn progress(tx: &mut Tx<'_>, who: &Principal, cmd: &Progress) -> Result<Reply, Stop> {
    let now = tx.now();
    let mut execution = visible(tx, who, cmd.id, PartMask::NONE)?;
    fence::admit(tx, &execution, cmd.fence, Verb::Progress)?;
    tell(&mut execution, cmd.percent, &cmd.message, now);
    save_checkpoint(&mut execution, &cmd.checkpoint, now);
    let expires_at = match cmd.renew_ms {
        Some(ms) => renew::extend(tx, &mut execution, Some(ms)),
        None => execution.lease().map_or(now, |lease| lease.expires_at),
    };
    tx.put_execution(execution);
    Ok(Reply::Progressed { expires_in_ms: expires_at.since(now) })
}

/// Keeps what a worker tells; what it does not mention stays.
pub(super) fn tell(execution: &mut Execution, percent: Option<u8>, message: &Option<Text>, now: Time) {
    if percent.is_none() && message.is_none() {
        return;
    }
    let old = execution.hot.progress.take();
    let (old_percent, old_message) = old.map_or((None, None), |old| (old.percent, old.message));
    execution.hot.progress = Some(execution::Progress {
        percent: percent.or(old_percent),
        message: message.clone().or(old_message),
        at: now,
    });
}

/// Keeps `checkpoint` with the number of the attempt that wrote it; an absent one leaves the last.
pub(super) fn save_checkpoint(execution: &mut Execution, checkpoint: &Option<Payload>, now: Time) {
    if let (Some(Payload { bytes, content_type }), Some(open)) = (checkpoint.clone(), &execution.hot.open) {
        let attempt = open.index;
        execution.set_checkpoint(Some(Checkpoint { bytes, attempt, at: now, content_type }));
    }
}
