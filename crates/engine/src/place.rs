//! The router: which partition a call belongs to. Pure; holds no connection.

use crate::engine::Shared;
use crate::request::Submission;
use weft_core::command::{Call, Command};
use weft_core::digest;
use weft_core::error::Rejection;
use weft_core::{ExecutionId, PartitionId};

/// Where a new execution is placed: with its parent, else by its keys, else in `otherwise`.
pub fn of_submission(
    shared: &Shared,
    namespace: &str,
    submission: &Submission,
    otherwise: PartitionId,
) -> Result<PartitionId, Rejection> {
    if let Some((parent, _)) = submission.parent {
        return of_id(shared, parent);
    }
    let key = [&submission.idempotency_key, &submission.concurrency_key, &submission.request_id];
    Ok(match key.into_iter().flatten().next() {
        Some(key) => PartitionId((digest::place(namespace, key) % shared.partitions.len() as u64) as u16),
        None => otherwise,
    })
}

pub fn of_id(shared: &Shared, id: ExecutionId) -> Result<PartitionId, Rejection> {
    let partition = id.partition();
    if usize::from(partition.0) >= shared.partitions.len() {
        return Err(Rejection::InvalidId { expected: "x" });
    }
    Ok(partition)
}

/// The partition of the record that a command is about.
pub fn of_call(shared: &Shared, call: &Call) -> Result<PartitionId, Rejection> {
    let id = match &call.command {
        Command::Submit(submit) => submit.id.expect("place: the engine has minted an id"),
        Command::Claim(claim) => claim.id,
        Command::Renew(renew) => renew.id,
        Command::Progress(progress) => progress.id,
        Command::Complete(complete) => complete.id,
        Command::Fail(fail) => fail.id,
        Command::Delay(delay) => delay.id,
        Command::WaitChildren(wait) => wait.id,
        Command::Cancel(cancel) => cancel.id,
        Command::Reschedule(reschedule) => reschedule.id,
        Command::ChangePriority(change) => change.id,
        Command::SetTags(tags) => tags.id,
        Command::Revoke(revoke) => revoke.id,
        Command::Hold(hold) => hold.id,
        Command::Release(release) => release.id,
        Command::ForceComplete(force) => force.id,
        Command::ForceFail(force) => force.id,
        Command::Purge(purge) => purge.id,
        Command::Replay(replay) => replay.id,
        Command::Expire(expire) => {
            return Ok(expire.key.expect("place: a timer names its record").partition());
        }
        Command::RecordTrouble(trouble) => {
            return Ok(trouble.key.expect("place: trouble names its record").partition());
        }
        Command::DropEntry(drop) => return Ok(drop.partition),
        Command::Heartbeat(heartbeat) => return Ok(heartbeat.partition),
        Command::RetryParked(retry) => return Ok(retry.partition),
        Command::DiscardParked(discard) => return Ok(discard.partition),
    };
    of_id(shared, id)
}
