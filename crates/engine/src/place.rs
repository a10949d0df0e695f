//! The router: which partition a call belongs to. Pure; holds no connection.

use crate::engine::Shared;
use crate::request::Submission;
use weft_core::command::{Call, Command, WorkerName};
use weft_core::digest;
use weft_core::error::Rejection;
use weft_core::record::api_key;
use weft_core::text::Text;
use weft_core::{BulkId, ExecutionId, FlowId, PartitionId};

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

pub fn of_flow(shared: &Shared, id: FlowId) -> Result<PartitionId, Rejection> {
    match usize::from(id.partition().0) < shared.partitions.len() {
        true => Ok(id.partition()),
        false => Err(Rejection::InvalidId { expected: "f" }),
    }
}

pub fn of_bulk(shared: &Shared, id: BulkId) -> Result<PartitionId, Rejection> {
    match usize::from(id.partition().0) < shared.partitions.len() {
        true => Ok(id.partition()),
        false => Err(Rejection::InvalidId { expected: "j" }),
    }
}

/// What a command is about, which says where it is carried out.
#[derive(Clone, Copy, Debug)]
pub enum About {
    Execution(ExecutionId),
    Bulk(BulkId),
    Flow(FlowId),
    /// A record of this partition.
    Partition(PartitionId),
    Nothing,
}

/// The partition of the record that a command is about.
pub fn of_call(shared: &Shared, call: &Call) -> Result<PartitionId, Rejection> {
    match about(&call.command) {
        About::Execution(id) => of_id(shared, id),
        About::Bulk(id) => of_bulk(shared, id),
        About::Flow(id) => of_flow(shared, id),
        About::Partition(partition) => Ok(partition),
        About::Nothing => Err(Rejection::invalid("items", "is empty")),
    }
}

pub fn about(command: &Command) -> About {
    match command {
        Command::Submit(submit) => About::Execution(submit.id.expect("place: the engine has minted an id")),
        Command::SubmitAll(all) => match all.items.first() {
            Some(first) => About::Execution(first.id.expect("place: the engine has minted an id")),
            None => About::Nothing,
        },
        Command::Claim(claim) => About::Execution(claim.id),
        Command::Renew(renew) => About::Execution(renew.id),
        Command::Progress(progress) => About::Execution(progress.id),
        Command::RecordSteps(record) => About::Execution(record.id),
        Command::Complete(complete) => About::Execution(complete.id),
        Command::Fail(fail) => About::Execution(fail.id),
        Command::Delay(delay) => About::Execution(delay.id),
        Command::WaitChildren(wait) => About::Execution(wait.id),
        Command::Cancel(cancel) => About::Execution(cancel.id),
        Command::Reschedule(reschedule) => About::Execution(reschedule.id),
        Command::ChangePriority(change) => About::Execution(change.id),
        Command::SetTags(tags) => About::Execution(tags.id),
        Command::Revoke(revoke) => About::Execution(revoke.id),
        Command::Hold(hold) => About::Execution(hold.id),
        Command::Release(release) => About::Execution(release.id),
        Command::ForceComplete(force) => About::Execution(force.id),
        Command::ForceFail(force) => About::Execution(force.id),
        Command::Purge(purge) => About::Execution(purge.id),
        Command::Replay(replay) => About::Execution(replay.id),
        Command::Expire(expire) => About::Partition(expire.key.expect("place: a timer names its record").partition()),
        Command::RecordTrouble(trouble) => {
            About::Partition(trouble.key.expect("place: trouble names its record").partition())
        }
        Command::DropEntry(drop) => About::Partition(drop.partition),
        Command::Heartbeat(heartbeat) => About::Partition(heartbeat.partition),
        Command::RetryParked(retry) => About::Partition(retry.partition),
        Command::DiscardParked(discard) => About::Partition(discard.partition),
        Command::RegisterWorker(register) => About::Partition(register.name.partition),
        Command::BeatWorker(beat) => About::Partition(beat.name.partition),
        Command::DeregisterWorker(deregister) => About::Partition(deregister.name.partition),
        Command::DrainWorker(drain) => About::Partition(drain.name.partition),
        Command::UndrainWorker(undrain) => About::Partition(undrain.name.partition),
        Command::MarkWorkerDead(mark) => About::Partition(mark.name.partition),
        Command::SettleWorker(settle) => {
            About::Partition(settle.key.expect("place: the engine names the record").partition())
        }
        Command::EndLease(end) => About::Execution(end.id),
        Command::StartBulk(start) => About::Bulk(start.id.expect("place: the engine has minted an id")),
        Command::StopBulk(stop) => About::Bulk(stop.id),
        Command::ShareBulk(share) => About::Partition(share.partition),
        Command::ReportBulk(report) => About::Partition(report.job.partition()),
        Command::AdvanceBulk(advance) => {
            About::Partition(advance.key.expect("place: a bulk job names its record").partition())
        }
        Command::CreateKey(_)
        | Command::ChangeKey(_)
        | Command::RotateKey(_)
        | Command::RevokeKey(_)
        | Command::TouchKey(_) => About::Partition(api_key::HOME),
        Command::NoteRefusal(note) => About::Partition(note.partition),
        Command::KeepAnswer(keep) => About::Partition(keep.partition),
        Command::DrainNode(drain) => About::Partition(drain.partition),
        Command::SubmitFlow(submit) => About::Flow(submit.id.expect("place: the engine has minted an id")),
        Command::GrowFlow(grow) => About::Flow(grow.flow),
        Command::SealFlow(seal) => About::Flow(seal.flow),
        Command::CancelFlow(cancel) => About::Flow(cancel.flow),
        Command::FinishFlow(finish) => About::Flow(finish.flow),
        Command::ChangeFlow(change) => About::Flow(change.flow),
        Command::PurgeFlow(purge) => About::Flow(purge.flow),
        Command::VerifyFlow(verify) => About::Flow(verify.flow),
        Command::AuditFlow(audit) => About::Flow(audit.flow),
        Command::ReconcileGroup(reconcile) => About::Execution(reconcile.id),
    }
}
