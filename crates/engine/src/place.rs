//! The router: which partition a call belongs to. Pure; holds no connection.

use crate::engine::Shared;
use crate::request::Submission;
use weft_core::command::{Call, Command, WorkerName};
use weft_core::digest;
use weft_core::error::Rejection;
use weft_core::record::api_key;
use weft_core::text::Text;
use weft_core::{BulkId, ExecutionId, PartitionId};

/// Where a new execution is placed: with its parent, else by its keys, else in `otherwise`.
pub fn of_submission(
    shared: &Shared,
    namespace: &str,
    submission: &Submission,
    otherwise: PartitionId,
) -> Result<PartitionId, Rejection> {
    let by_request = || submission.request_id.as_ref().map(|id| of_key(shared, namespace, id));
    Ok(of_keys(shared, namespace, submission)?.or_else(by_request).unwrap_or(otherwise))
}

/// The partition that the parent or a key of a submission names.
pub fn of_keys(shared: &Shared, namespace: &str, submission: &Submission) -> Result<Option<PartitionId>, Rejection> {
    if let Some((parent, _)) = submission.parent {
        return of_id(shared, parent).map(Some);
    }
    let key = submission.idempotency_key.as_ref().or(submission.concurrency_key.as_ref());
    Ok(key.map(|key| of_key(shared, namespace, key)))
}

pub fn of_key(shared: &Shared, namespace: &str, key: &[u8]) -> PartitionId {
    PartitionId((digest::place(namespace, key) % shared.partitions.len() as u64) as u16)
}

/// Where the record of a worker process is.
pub fn of_worker(shared: &Shared, namespace: &Text, instance: &Text) -> WorkerName {
    let digest = digest::worker(namespace, instance);
    let place = u64::from_be_bytes(*digest.first_chunk().expect("digest: it has 32 bytes"));
    let partition = PartitionId((place % shared.partitions.len() as u64) as u16);
    WorkerName { partition, namespace: namespace.clone(), instance: instance.clone() }
}

pub fn of_id(shared: &Shared, id: ExecutionId) -> Result<PartitionId, Rejection> {
    let partition = id.partition();
    if usize::from(partition.0) >= shared.partitions.len() {
        return Err(Rejection::InvalidId { expected: "x" });
    }
    Ok(partition)
}

pub fn of_bulk(shared: &Shared, id: BulkId) -> Result<PartitionId, Rejection> {
    match usize::from(id.partition().0) < shared.partitions.len() {
        true => Ok(id.partition()),
        false => Err(Rejection::InvalidId { expected: "j" }),
    }
}

/// The partition of the record that a command is about.
pub fn of_call(shared: &Shared, call: &Call) -> Result<PartitionId, Rejection> {
    let id = match &call.command {
        Command::Submit(submit) => submit.id.expect("place: the engine has minted an id"),
        Command::SubmitAll(all) => match all.items.first() {
            Some(first) => first.id.expect("place: the engine has minted an id"),
            None => return Err(Rejection::invalid("items", "is empty")),
        },
        Command::Claim(claim) => claim.id,
        Command::Renew(renew) => renew.id,
        Command::Progress(progress) => progress.id,
        Command::RecordSteps(record) => record.id,
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
        Command::RegisterWorker(register) => return Ok(register.name.partition),
        Command::BeatWorker(beat) => return Ok(beat.name.partition),
        Command::DeregisterWorker(deregister) => return Ok(deregister.name.partition),
        Command::DrainWorker(drain) => return Ok(drain.name.partition),
        Command::UndrainWorker(undrain) => return Ok(undrain.name.partition),
        Command::MarkWorkerDead(mark) => return Ok(mark.name.partition),
        Command::SettleWorker(settle) => {
            return Ok(settle.key.expect("place: the engine names the record").partition());
        }
        Command::EndLease(end) => end.id,
        Command::StartBulk(start) => return of_bulk(shared, start.id.expect("place: the engine has minted an id")),
        Command::StopBulk(stop) => return of_bulk(shared, stop.id),
        Command::ShareBulk(share) => return Ok(share.partition),
        Command::ReportBulk(report) => return Ok(report.job.partition()),
        Command::AdvanceBulk(advance) => {
            return Ok(advance.key.expect("place: a bulk job names its record").partition());
        }
        Command::CreateKey(_)
        | Command::ChangeKey(_)
        | Command::RotateKey(_)
        | Command::RevokeKey(_)
        | Command::TouchKey(_) => return Ok(api_key::HOME),
        Command::NoteRefusal(note) => return Ok(note.partition),
    };
    of_id(shared, id)
}
