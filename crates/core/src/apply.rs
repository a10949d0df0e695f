//! The one way in: a call, checked in order (scope, shape, kept reply), then given to the rule it names.

use crate::answer;
use crate::audit;
use crate::bulk;
use crate::command::{Call, Command, Principal, Scopes};
use crate::digest;
use crate::error::{BusyCause, Rejection};
use crate::execution::*;
use crate::flow;
use crate::flow::follow::{self, Follow};
use crate::id::PartitionId;
use crate::key::{change_key, create_key, key_of, revoke_key, rotate_key, touch_key};
use crate::limits::{BATCH_RECORDS_MAX, Limits};
use crate::node::{drain_node, drains_key, heartbeat};
use crate::record::dedup::{Body, What};
use crate::record::{BulkJob, Dedup, Key, Record};
use crate::reply::{Children, Reply};
use crate::schema::PartMask;
use crate::text::check_key;
use crate::time::Time;
use crate::tx::{Stop, Tx};
use crate::worker;

/// When a call may find more room than its batch had.
const NO_ROOM_MS: u64 = 100;

/// A call that went through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    pub reply: Reply,
    /// The call had been answered before, with the same reply; nothing has changed.
    pub repeated: bool,
}

/// Runs one call. After an error the transaction must be dropped: a refusal changes nothing, and after a miss the call
/// runs again from the start once `Tx::misses` are loaded. A miss replaces the rule's answer, which may be another one
/// when the missing records are there.
pub fn apply(tx: &mut Tx<'_>, call: &Call) -> Result<Applied, Stop> {
    may(&call.principal, &call.command)?;
    validate(&call.command, tx.limits(), tx.now())?;
    let answer = match (&call.request_id, place(&call.command)) {
        (Some(request_id), Some(partition)) => once(tx, call, request_id, partition),
        _ => run(tx, call).map(fresh),
    };
    match tx.met_newer() {
        _ if tx.has_missed() => Err(Stop::Miss),
        Some(newer) => Err(newer.into()),
        None => answer,
    }
}

/// A reply that was made now, though the call may repeat one that ended a lease.
fn fresh(reply: Reply) -> Applied {
    Applied { repeated: is_repeat(&reply), reply }
}

/// Whether the caller has a scope that the verb needs.
pub(crate) fn may(who: &Principal, command: &Command) -> Result<(), Rejection> {
    let (submit, work, operate) = (Scopes::SUBMIT, Scopes::WORK, Scopes::OPERATE);
    let scopes = who.scopes;
    match command {
        Command::Submit(cmd) if cmd.parent.is_some() => scopes.need(submit.with(work), "submit"),
        Command::SubmitAll(cmd) if cmd.items.iter().all(|item| item.parent.is_some()) => {
            scopes.need(submit.with(work), "submit")
        }
        Command::Submit(_) | Command::SubmitAll(_) | Command::Reschedule(_) => scopes.need(submit, "submit"),
        Command::Claim(_)
        | Command::Renew(_)
        | Command::Progress(_)
        | Command::RecordSteps(_)
        | Command::Complete(_)
        | Command::Fail(_)
        | Command::Delay(_)
        | Command::WaitChildren(_)
        | Command::DeregisterWorker(_) => scopes.need(work, "work"),
        // The engine enters a worker process that only claims, and notes that it was seen.
        Command::RegisterWorker(_) | Command::BeatWorker(_) => scopes.need(work.with(Scopes::ENGINE), "work"),
        Command::DrainWorker(_) | Command::UndrainWorker(_) => scopes.need(work.with(operate), "operate"),
        // Only what the caller did itself is found again.
        Command::KeepAnswer(_) => scopes.need(submit.with(work).with(operate), "work"),
        Command::Cancel(cmd) => fenced_or(scopes, cmd.fence.is_some(), submit.with(operate)),
        Command::SetTags(cmd) => fenced_or(scopes, cmd.fence.is_some(), submit.with(operate)),
        // To run what its dependencies forbid is an operator's decision.
        Command::Replay(cmd) if cmd.ignore_dependencies => scopes.need(operate, "operate"),
        Command::ChangePriority(_) | Command::Replay(_) => scopes.need(submit.with(operate), "submit"),
        // Whoever may replay each member of a flow may replay them together.
        Command::StartBulk(cmd) if cmd.is_replay_of_flow() => scopes.need(submit.with(operate), "submit"),
        Command::Revoke(_)
        | Command::Hold(_)
        | Command::Release(_)
        | Command::ForceComplete(_)
        | Command::ForceFail(_)
        | Command::Purge(_)
        | Command::RetryParked(_)
        | Command::DiscardParked(_)
        | Command::MarkWorkerDead(_)
        | Command::StartBulk(_)
        | Command::StopBulk(_)
        | Command::DrainNode(_) => scopes.need(operate, "operate"),
        Command::SubmitFlow(_) | Command::ChangeFlow(_) => scopes.need(submit, "submit"),
        Command::CancelFlow(_) => scopes.need(submit.with(operate), "submit"),
        Command::GrowFlow(cmd) => of_member_or(scopes, cmd.within.is_some()),
        Command::SealFlow(cmd) => of_member_or(scopes, cmd.within.is_some()),
        Command::FinishFlow(cmd) => of_member_or(scopes, cmd.within.is_some()),
        Command::PurgeFlow(_) => scopes.need(operate, "operate"),
        Command::CreateKey(_) | Command::ChangeKey(_) | Command::RotateKey(_) | Command::RevokeKey(_) => {
            scopes.need(Scopes::ADMIN, "admin")
        }
        Command::Expire(_)
        | Command::RecordTrouble(_)
        | Command::DropEntry(_)
        | Command::Heartbeat(_)
        | Command::SettleWorker(_)
        | Command::EndLease(_)
        | Command::ShareBulk(_)
        | Command::AdvanceBulk(_)
        | Command::ReportBulk(_)
        | Command::TouchKey(_)
        | Command::VerifyFlow(_)
        | Command::AuditFlow(_)
        | Command::ReconcileGroup(_)
        | Command::NoteRefusal(_) => scopes.need(Scopes::ENGINE, "engine"),
    }
}

/// Verbs by which a running member grows its own flow, and clients any.
fn of_member_or(scopes: Scopes, fenced: bool) -> Result<(), Rejection> {
    if fenced { scopes.need(Scopes::WORK, "work") } else { scopes.need(Scopes::SUBMIT, "submit") }
}

/// Verbs that a worker calls with its fence and others without one.
fn fenced_or(scopes: Scopes, fenced: bool, others: Scopes) -> Result<(), Rejection> {
    match fenced {
        true => scopes.need(Scopes::WORK, "work"),
        false if scopes.any(others) => Ok(()),
        false if scopes.any(Scopes::WORK) => Err(Rejection::FenceRequired),
        false => scopes.need(others, "submit"),
    }
}

/// Shape and size, before anything is read.
pub(crate) fn validate(command: &Command, limits: &Limits, now: Time) -> Result<(), Rejection> {
    match command {
        Command::Submit(cmd) => submit::validate(cmd, limits, now),
        Command::SubmitAll(cmd) => submit_all::validate(cmd, limits, now),
        Command::Claim(cmd) => claim::validate(cmd),
        Command::Renew(cmd) => renew::validate(cmd, limits),
        Command::Progress(cmd) => progress::validate(cmd, limits),
        Command::RecordSteps(cmd) => record_steps::validate(cmd, limits),
        Command::Complete(cmd) => complete::validate(cmd, limits),
        Command::Fail(cmd) => fail::validate(cmd, limits),
        Command::Delay(cmd) => delay::validate(cmd, limits, now),
        Command::WaitChildren(cmd) => wait_children::validate(cmd, limits),
        Command::Cancel(cmd) => cancel::validate(cmd),
        Command::Reschedule(cmd) => reschedule::validate(cmd, now),
        Command::ChangePriority(cmd) => change_priority::validate(cmd),
        Command::SetTags(cmd) => set_tags::validate(cmd),
        Command::Release(cmd) => release::validate(cmd),
        Command::Purge(cmd) => purge::validate(cmd),
        Command::Revoke(cmd) => revoke::validate(cmd),
        Command::Hold(cmd) => hold::validate(cmd),
        Command::ForceComplete(cmd) => force_complete::validate(cmd, limits),
        Command::ForceFail(cmd) => force_fail::validate(cmd),
        Command::Replay(cmd) => replay::validate(cmd, now),
        Command::DiscardParked(cmd) => parked::validate_discard(cmd),
        Command::RegisterWorker(cmd) => worker::register::validate(cmd),
        Command::BeatWorker(cmd) => worker::beat::validate(cmd),
        Command::DeregisterWorker(cmd) => worker::deregister::validate(cmd),
        Command::DrainWorker(cmd) => worker::drain::validate(cmd),
        Command::UndrainWorker(cmd) => worker::undrain::validate(cmd),
        Command::MarkWorkerDead(cmd) => worker::mark_dead::validate(cmd),
        Command::StartBulk(cmd) => bulk::start::validate(cmd),
        Command::CreateKey(cmd) => create_key::validate(cmd, now),
        Command::ChangeKey(cmd) => change_key::validate(cmd, now),
        Command::RotateKey(cmd) => rotate_key::validate(cmd),
        Command::DrainNode(cmd) => drain_node::validate(cmd),
        Command::GrowFlow(cmd) => flow::grow::validate(cmd, limits, now),
        Command::SealFlow(cmd) => flow::seal::validate(cmd),
        Command::CancelFlow(cmd) => flow::cancel_flow::validate(cmd),
        Command::FinishFlow(cmd) => flow::finish_flow::validate(cmd),
        Command::ChangeFlow(cmd) => flow::change_flow::validate(cmd),
        Command::PurgeFlow(cmd) => flow::purge_flow::validate(cmd),
        // A plan has passed all checks.
        Command::SubmitFlow(_)
        | Command::VerifyFlow(_)
        | Command::AuditFlow(_)
        | Command::ReconcileGroup(_)
        | Command::Expire(_)
        | Command::RecordTrouble(_)
        | Command::DropEntry(_)
        | Command::Heartbeat(_)
        | Command::SettleWorker(_)
        | Command::EndLease(_)
        | Command::RetryParked(_)
        | Command::StopBulk(_)
        | Command::ShareBulk(_)
        | Command::AdvanceBulk(_)
        | Command::ReportBulk(_)
        | Command::RevokeKey(_)
        | Command::TouchKey(_)
        | Command::NoteRefusal(_)
        | Command::KeepAnswer(_) => Ok(()),
    }
}

/// Runs the rule, and adds to the audit log what an operator does by it.
pub(crate) fn run(tx: &mut Tx<'_>, call: &Call) -> Result<Reply, Stop> {
    expect_revision(tx, call)?;
    let target = target(&call.command);
    if audit::prefetch(tx, call, target) {
        // The rule says what it lacks as well; whatever it does is dropped with the miss.
        return match act(tx, call) {
            // It gave up on loading anything more: a miss that names nothing would wait for ever.
            Err(refused) if !tx.has_missed() => Err(refused),
            _ => Err(Stop::Miss),
        };
    }
    let before = audit::before(tx, call, target)?;
    let reply = act(tx, call)?;
    if let Some(before) = before {
        audit::done(tx, call, before, &reply)?;
    }
    Ok(reply)
}

/// The rule, and behind it all that the ends of members entail.
fn act(tx: &mut Tx<'_>, call: &Call) -> Result<Reply, Stop> {
    let mut follow = Follow::new(&call.command);
    let mut reply = rule(tx, call, &mut follow)?;
    let raised = follow.raised;
    follow::follow(tx, follow)?;
    if let Command::GrowFlow(_) = &call.command {
        flow::grow::check_size(tx, raised)?;
    }
    // What others in the batch have done is not lost because this does not fit beside it.
    if tx.records_of_batch() > BATCH_RECORDS_MAX {
        return Err(Rejection::Busy { retry_after_ms: NO_ROOM_MS, cause: BusyCause::Overload }.into());
    }
    match (&mut reply, &call.command) {
        (Reply::FlowCancelled(told), Command::CancelFlow(cmd)) => flow::cancel_flow::tell(tx, cmd.flow, told)?,
        (Reply::FlowSubmitted(told), _) if !told.purged => told.state = tx.flow_of(told.id)?.public_state(),
        _ => {}
    }
    Ok(reply)
}

fn rule(tx: &mut Tx<'_>, call: &Call, follow: &mut Follow) -> Result<Reply, Stop> {
    let who = &call.principal;
    match &call.command {
        Command::Submit(cmd) => submit::submit(tx, who, cmd),
        Command::SubmitAll(cmd) => submit_all::submit_all(tx, who, cmd),
        Command::Claim(cmd) => claim::claim(tx, who, cmd),
        Command::Renew(cmd) => renew::renew(tx, who, cmd),
        Command::Progress(cmd) => progress::progress(tx, who, cmd),
        Command::RecordSteps(cmd) => record_steps::record_steps(tx, who, cmd),
        Command::Complete(cmd) => complete::complete(tx, who, cmd),
        Command::Fail(cmd) => fail::fail(tx, who, cmd),
        Command::Delay(cmd) => delay::delay(tx, who, cmd),
        Command::WaitChildren(cmd) => wait_children::wait_children(tx, who, cmd),
        Command::Cancel(cmd) => cancel::cancel(tx, who, cmd),
        Command::Reschedule(cmd) => reschedule::reschedule(tx, who, cmd),
        Command::ChangePriority(cmd) => change_priority::change_priority(tx, who, cmd),
        Command::SetTags(cmd) => set_tags::set_tags(tx, who, cmd),
        Command::Revoke(cmd) => revoke::revoke(tx, who, cmd),
        Command::Hold(cmd) => hold::hold(tx, who, cmd),
        Command::Release(cmd) => release::release(tx, who, cmd),
        Command::ForceComplete(cmd) => force_complete::force_complete(tx, who, cmd),
        Command::ForceFail(cmd) => force_fail::force_fail(tx, who, cmd),
        Command::Purge(cmd) => purge::purge(tx, who, cmd),
        Command::Replay(cmd) => replay::replay(tx, who, cmd, follow),
        Command::Expire(cmd) => expire::expire(tx, who, cmd, follow),
        Command::RecordTrouble(cmd) => trouble::record_trouble(tx, who, cmd),
        Command::DropEntry(cmd) => trouble::drop_entry(tx, cmd),
        Command::Heartbeat(cmd) => heartbeat::heartbeat(tx, cmd),
        Command::RetryParked(cmd) => parked::retry_parked(tx, who, cmd),
        Command::DiscardParked(cmd) => parked::discard_parked(tx, who, cmd, follow),
        Command::RegisterWorker(cmd) => worker::register::register(tx, who, cmd),
        Command::BeatWorker(cmd) => worker::beat::beat(tx, who, cmd),
        Command::DeregisterWorker(cmd) => worker::deregister::deregister(tx, who, cmd),
        Command::DrainWorker(cmd) => worker::drain::drain(tx, who, cmd),
        Command::UndrainWorker(cmd) => worker::undrain::undrain(tx, who, cmd),
        Command::MarkWorkerDead(cmd) => worker::mark_dead::mark_dead(tx, who, cmd),
        Command::SettleWorker(cmd) => worker::settle::settle(tx, who, cmd),
        Command::EndLease(cmd) => lose::end(tx, who, cmd),
        Command::StartBulk(cmd) => bulk::start::start(tx, who, cmd),
        Command::StopBulk(cmd) => bulk::stop::stop(tx, who, cmd),
        Command::ShareBulk(cmd) => bulk::share::share(tx, cmd),
        Command::AdvanceBulk(cmd) => bulk::advance::advance(tx, cmd),
        Command::ReportBulk(cmd) => bulk::report::report(tx, cmd),
        Command::CreateKey(cmd) => create_key::create_key(tx, who, cmd),
        Command::ChangeKey(cmd) => change_key::change_key(tx, cmd),
        Command::RotateKey(cmd) => rotate_key::rotate_key(tx, cmd),
        Command::RevokeKey(cmd) => revoke_key::revoke_key(tx, cmd),
        Command::TouchKey(cmd) => touch_key::touch_key(tx, cmd),
        Command::NoteRefusal(cmd) => audit::note_refusal(tx, cmd),
        Command::KeepAnswer(cmd) => answer::keep(tx, call, cmd),
        Command::DrainNode(cmd) => drain_node::drain_node(tx, who, cmd),
        Command::SubmitFlow(cmd) => flow::submit_flow::submit_flow(tx, who, cmd),
        Command::GrowFlow(cmd) => flow::grow::grow(tx, who, cmd, follow),
        Command::SealFlow(cmd) => flow::seal::seal(tx, who, cmd, follow),
        Command::CancelFlow(cmd) => flow::cancel_flow::cancel_flow(tx, who, cmd, follow),
        Command::FinishFlow(cmd) => flow::finish_flow::finish_flow(tx, who, cmd),
        Command::ChangeFlow(cmd) => flow::change_flow::change_flow(tx, who, cmd),
        Command::PurgeFlow(cmd) => flow::purge_flow::purge_flow(tx, who, cmd),
        Command::VerifyFlow(cmd) => flow::verify::verify(tx, who, cmd, follow),
        Command::AuditFlow(cmd) => flow::audit_flow::audit(tx, who, cmd),
        Command::ReconcileGroup(cmd) => flow::siblings::reconcile(tx, cmd),
    }
}

/// Refuses a call about an execution or a key that is not as the caller saw it.
fn expect_revision(tx: &mut Tx<'_>, call: &Call) -> Result<(), Stop> {
    let Some(expected) = call.expected_revision else { return Ok(()) };
    let key = match record(&call.command) {
        Some(key @ Key::Execution(id)) => {
            visible(tx, &call.principal, id, PartMask::NONE)?;
            key
        }
        Some(key @ Key::Flow(id)) => {
            flow::visible(tx, &call.principal, id)?;
            key
        }
        Some(key @ Key::ApiKey(..)) => match tx.get(key, PartMask::NONE)? {
            Some(_) => key,
            None => return Err(Rejection::KeyNotFound.into()),
        },
        _ => return Ok(()),
    };
    let current = tx.revision(key)?;
    if current == Some(expected) { Ok(()) } else { Err(Rejection::RevisionMismatch { current }.into()) }
}

/// The partition in which a reply is kept; `None` for commands that keep none: the engine's own, claims, whose repeats the
/// leases themselves answer, those that record steps, which answer a repeat themselves and would be kept twice, and
/// those about worker processes, of which a repeat changes nothing. What is answered to these two is kept by
/// `KeepAnswer`. One that leaves is told of it in its own commit, because its record may be gone before that.
fn place(command: &Command) -> Option<PartitionId> {
    Some(match command {
        Command::RetryParked(cmd) => cmd.partition,
        Command::DiscardParked(cmd) => cmd.partition,
        Command::StartBulk(cmd) => cmd.id?.partition(),
        Command::StopBulk(cmd) => cmd.id.partition(),
        Command::DeregisterWorker(cmd) => cmd.name.partition,
        Command::DrainNode(cmd) => cmd.partition,
        Command::SubmitAll(cmd) => cmd.items.first()?.id?.partition(),
        Command::Renew(cmd) if !cmd.steps.is_empty() => return None,
        // What is written in several commits is found again by its key.
        Command::SubmitFlow(cmd) if cmd.plan.pieces() > 1 => return None,
        Command::SubmitFlow(cmd) => cmd.id?.partition(),
        Command::VerifyFlow(_) | Command::AuditFlow(_) | Command::ReconcileGroup(_) => return None,
        Command::Claim(_)
        | Command::RecordSteps(_)
        | Command::Expire(_)
        | Command::RecordTrouble(_)
        | Command::DropEntry(_)
        | Command::Heartbeat(_)
        | Command::EndLease(_)
        | Command::ShareBulk(_)
        | Command::AdvanceBulk(_)
        | Command::ReportBulk(_)
        | Command::TouchKey(_)
        | Command::NoteRefusal(_)
        | Command::KeepAnswer(_) => return None,
        _ => record(command)?.partition(),
    })
}

/// The record that the command is about.
fn record(command: &Command) -> Option<Key> {
    let id = match command {
        Command::Submit(cmd) => cmd.id?,
        Command::Claim(cmd) => cmd.id,
        Command::Renew(cmd) => cmd.id,
        Command::Progress(cmd) => cmd.id,
        Command::RecordSteps(cmd) => cmd.id,
        Command::Complete(cmd) => cmd.id,
        Command::Fail(cmd) => cmd.id,
        Command::Delay(cmd) => cmd.id,
        Command::WaitChildren(cmd) => cmd.id,
        Command::Cancel(cmd) => cmd.id,
        Command::Reschedule(cmd) => cmd.id,
        Command::ChangePriority(cmd) => cmd.id,
        Command::SetTags(cmd) => cmd.id,
        Command::Revoke(cmd) => cmd.id,
        Command::Hold(cmd) => cmd.id,
        Command::Release(cmd) => cmd.id,
        Command::ForceComplete(cmd) => cmd.id,
        Command::ForceFail(cmd) => cmd.id,
        Command::Purge(cmd) => cmd.id,
        Command::Replay(cmd) => cmd.id,
        Command::Expire(cmd) => return cmd.key,
        Command::RecordTrouble(cmd) => return cmd.key,
        Command::EndLease(cmd) => cmd.id,
        Command::CreateKey(cmd) => return Some(key_of(cmd.id)),
        Command::ChangeKey(cmd) => return Some(key_of(cmd.id)),
        Command::RotateKey(cmd) => return Some(key_of(cmd.id)),
        Command::RevokeKey(cmd) => return Some(key_of(cmd.id)),
        Command::TouchKey(cmd) => return Some(key_of(cmd.id)),
        Command::GrowFlow(cmd) => return Some(Key::Flow(cmd.flow)),
        Command::SealFlow(cmd) => return Some(Key::Flow(cmd.flow)),
        Command::CancelFlow(cmd) => return Some(Key::Flow(cmd.flow)),
        Command::FinishFlow(cmd) => return Some(Key::Flow(cmd.flow)),
        Command::ChangeFlow(cmd) => return Some(Key::Flow(cmd.flow)),
        Command::PurgeFlow(cmd) => return Some(Key::Flow(cmd.flow)),
        Command::VerifyFlow(cmd) => return Some(Key::Flow(cmd.flow)),
        Command::AuditFlow(cmd) => return Some(Key::Flow(cmd.flow)),
        Command::ReconcileGroup(cmd) => cmd.id,
        Command::SubmitFlow(cmd) => return cmd.id.map(Key::Flow),
        Command::SubmitAll(_)
        | Command::DropEntry(_)
        | Command::Heartbeat(_)
        | Command::NoteRefusal(_)
        | Command::KeepAnswer(_)
        | Command::RetryParked(_)
        | Command::DiscardParked(_)
        | Command::RegisterWorker(_)
        | Command::BeatWorker(_)
        | Command::DeregisterWorker(_)
        | Command::DrainWorker(_)
        | Command::UndrainWorker(_)
        | Command::MarkWorkerDead(_)
        | Command::SettleWorker(_)
        | Command::StartBulk(_)
        | Command::StopBulk(_)
        | Command::ShareBulk(_)
        | Command::AdvanceBulk(_)
        | Command::ReportBulk(_)
        | Command::DrainNode(_) => return None,
    };
    Some(Key::Execution(id))
}

/// What an operator acts upon: the record of the command, the dead letter it names, or the register it changes.
pub(crate) fn target(command: &Command) -> Option<Key> {
    match command {
        Command::RetryParked(cmd) => Some(Key::DeadLetter(cmd.partition, cmd.letter)),
        Command::DiscardParked(cmd) => Some(Key::DeadLetter(cmd.partition, cmd.letter)),
        Command::DrainWorker(cmd) => Some(cmd.name.key()),
        Command::UndrainWorker(cmd) => Some(cmd.name.key()),
        Command::MarkWorkerDead(cmd) => Some(cmd.name.key()),
        Command::DrainNode(cmd) => Some(drains_key(cmd.partition)),
        Command::StartBulk(cmd) => cmd.id.map(BulkJob::key_of),
        Command::StopBulk(cmd) => Some(BulkJob::key_of(cmd.id)),
        other => record(other),
    }
}

/// Runs the call unless its request id was seen: then the first reply, or a refusal if the body differs. A reply is
/// kept in the commit that makes it true; refusals are not kept.
fn once(tx: &mut Tx<'_>, call: &Call, request_id: &[u8], partition: PartitionId) -> Result<Applied, Stop> {
    check_key("request_id", request_id)?;
    let who = &call.principal;
    let verb = call.command.verb();
    let digest = digest::request(&who.namespace, &who.name, verb, request_id);
    let key = Key::Dedup(partition, digest);
    if tx.prefetch(key, PartMask::NONE) {
        // The rest of what is missing is found by running on; it is loaded together with the kept reply.
        if !matches!(call.command, Command::Submit(_)) {
            record(&call.command).map(|record| tx.prefetch(record, PartMask::NONE));
            audit::prefetch(tx, call, target(&call.command));
        }
        return Err(Stop::Miss);
    }
    let fingerprint = digest::fingerprint(&call.command);
    if let Some(Record::Dedup(dedup)) = tx.get(key, PartMask::NONE)?
        && let What::Request { reply } = dedup.body.what
        && dedup.body.expires_at.is_none_or(|at| at > tx.now())
    {
        if dedup.body.fingerprint != fingerprint {
            return Err(Rejection::IdempotencyMismatch { existing: None }.into());
        }
        return Ok(Applied { reply: repeated(reply), repeated: true });
    }
    let applied = fresh(run(tx, call)?);
    // What is only a part of the way to an answer is not kept as one.
    if !applied.repeated && !matches!(applied.reply, Reply::FlowChecked { .. }) {
        let expires_at = Some(tx.now() + tx.limits().request_ttl_ms);
        let what = What::Request { reply: applied.reply.clone() };
        let home = home(call, request_id);
        let body = Body { namespace: who.namespace.clone(), fingerprint, what, expires_at, home };
        tx.put(Record::Dedup(Box::new(Dedup { partition, digest, body })));
    }
    Ok(applied)
}

/// The number by which a submission was placed; other commands are where their record is.
fn home(call: &Call, request_id: &[u8]) -> Option<u64> {
    let items = match &call.command {
        Command::SubmitFlow(cmd) => {
            let key = cmd.plan.idempotency_key().map_or(request_id, |key| key);
            return Some(digest::place(&call.principal.namespace, key));
        }
        Command::Submit(cmd) => std::slice::from_ref(&**cmd),
        Command::SubmitAll(cmd) => &cmd.items,
        _ => return None,
    };
    if items.iter().any(|item| item.parent.is_some()) {
        return None;
    }
    let mut keys = items.iter().flat_map(|item| [&item.idempotency_key, &item.concurrency_key]).flatten();
    let key = keys.next().map_or(request_id, |key| key);
    Some(digest::place(&call.principal.namespace, key))
}

/// The same reply, marked where it can be.
fn repeated(mut reply: Reply) -> Reply {
    match &mut reply {
        Reply::Completed { repeated, .. }
        | Reply::Failed { repeated, .. }
        | Reply::Delayed { repeated, .. }
        | Reply::Children(Children::Waiting { repeated, .. }) => *repeated = true,
        _ => {}
    }
    reply
}

/// True for the answer to a repeated fenced call, which writes nothing.
fn is_repeat(reply: &Reply) -> bool {
    matches!(
        reply,
        Reply::Completed { repeated: true, .. }
            | Reply::Failed { repeated: true, .. }
            | Reply::Delayed { repeated: true, .. }
            | Reply::Children(Children::Waiting { repeated: true, .. })
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Cancel, SetTags};
    use crate::kit::World;
    use crate::kit::calls::*;

    #[test]
    fn ex_10_scope_is_asked_for_before_anything_else() {
        let mut world = World::new();
        let id = world.submit(|_| {});
        let held = fence(&world.claim(id));
        let tags = |fence| {
            Command::SetTags(SetTags { id, fence, set: Default::default(), remove: Vec::new(), reason: "".into() })
        };
        let cancelling = |fence| Command::Cancel(Cancel { fence, ..cancel(id) });
        let (submit, work, operate) = (Scopes::SUBMIT, Scopes::WORK, Scopes::OPERATE);
        let cases = [
            (submit, renew(id, held), "forbidden"),
            (work, hold(id), "forbidden"),
            (submit, hold(id), "forbidden"),
            (Scopes::NONE, tags(None), "forbidden"),
            (work, tags(None), "fence_required"),
            (work, cancelling(None), "fence_required"),
            (submit, cancelling(Some(held)), "forbidden"),
            (Scopes::NONE, cancelling(None), "forbidden"),
            (operate, Command::Submit(Box::new(crate::kit::calls::submit())), "forbidden"),
            (Scopes::ENGINE, hold(id), "forbidden"),
        ];
        for (scopes, command, code) in cases {
            let principal = Principal { scopes, ..ann() };
            let refused = world.call(&Call { principal, ..call(command) });
            assert_eq!(refused.unwrap_err().code(), code);
        }
    }

    #[test]
    fn ex_76_a_request_id_belongs_to_principal_and_verb() {
        let mut world = World::new();
        let id = world.submit(|_| {});
        let with = |name: &str, command| Call {
            principal: Principal::all("shop", name),
            request_id: Some("same".into()),
            ..call(command)
        };
        assert_eq!(world.call(&with("ann", hold(id))), Ok(Reply::Held { changed: true }));
        assert_eq!(world.call(&with("ann", hold(id))), Ok(Reply::Held { changed: true }));
        assert_eq!(world.call(&with("bob", hold(id))), Ok(Reply::Held { changed: false }));
        let empty = Call { request_id: Some(bytes::Bytes::new()), ..with("ann", hold(id)) };
        assert_eq!(world.call(&empty).unwrap_err().code(), "invalid_argument");
    }

    #[test]
    fn ex_76_a_kept_reply_is_forgotten_in_its_time() {
        let mut world = World::new();
        let id = world.submit(|_| {});
        let call = Call { request_id: Some("r".into()), ..call(hold(id)) };
        assert_eq!(world.call(&call), Ok(Reply::Held { changed: true }));
        world.at(Limits::default().request_ttl_ms);
        assert_eq!(world.call(&call), Ok(Reply::Held { changed: false }), "though nobody has removed it yet");
    }

    #[test]
    fn api_12_a_call_about_an_older_revision_is_refused() {
        let mut world = World::new();
        let id = world.submit(|_| {});
        let seen = world.records[&Key::Execution(id)].revision;
        let expecting = |revision| Call { expected_revision: Some(revision), ..call(hold(id)) };
        assert_eq!(world.call(&expecting(seen)), Ok(Reply::Held { changed: true }));
        let current = world.records[&Key::Execution(id)].revision;
        assert_ne!(current, seen);
        let refused = Rejection::RevisionMismatch { current: Some(current) };
        assert_eq!(world.call(&expecting(seen)), Err(refused.clone()));
        assert_eq!((refused.code(), refused.class()), ("revision_mismatch", crate::error::Class::Conflict));
        assert_eq!(world.call(&expecting(current)), Ok(Reply::Held { changed: false }));
        let stranger = Call { principal: Principal::all("other", "eve"), ..expecting(seen) };
        assert_eq!(world.call(&stranger), Err(Rejection::ExecutionNotFound), "nothing is told about it");
    }

    #[test]
    fn api_12_a_repeat_is_recognised_before_its_revision_is_looked_at() {
        let mut world = World::new();
        let id = world.submit(|_| {});
        let seen = world.records[&Key::Execution(id)].revision;
        let call = Call { expected_revision: Some(seen), request_id: Some("r".into()), ..call(hold(id)) };
        assert_eq!(world.call(&call), Ok(Reply::Held { changed: true }));
        assert_eq!(world.call(&call), Ok(Reply::Held { changed: true }), "the revision has changed by the call itself");
    }
}
