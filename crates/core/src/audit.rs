//! The audit log: which calls leave an entry, and how it is made. The one place that knows; no rule writes entries.
//!
//! An entry is part of the commit of the act it tells of. A call that was refused leaves one too, in a commit that
//! changes nothing else.

#[cfg(test)]
mod tests;

use crate::command::{Call, Command, NoteRefusal, Origin, Scopes};
use crate::error::Rejection;
use crate::id::PartitionId;
use crate::limits::AUDIT_TEXT_MAX;
use crate::node::drains;
use crate::record::audit::{Act, Audit, DONE, End};
use crate::record::register::{self, Subject};
use crate::record::{Key, Record, Register};
use crate::reply::Reply;
use crate::schema::PartMask;
use crate::text::Text;
use crate::tx::{Stop, Tx};

/// A call is audited if only an operator or administrator could make it.
pub fn is_audited(call: &Call) -> bool {
    let as_operator = || !call.principal.scopes.any(Scopes::SUBMIT);
    match &call.command {
        Command::Revoke(_)
        | Command::Hold(_)
        | Command::Release(_)
        | Command::ForceComplete(_)
        | Command::ForceFail(_)
        | Command::Purge(_)
        | Command::RetryParked(_)
        | Command::DiscardParked(_)
        | Command::UndrainWorker(_)
        | Command::MarkWorkerDead(_)
        | Command::StartBulk(_)
        | Command::StopBulk(_)
        | Command::DrainNode(_)
        | Command::PurgeFlow(_)
        | Command::CreateKey(_)
        | Command::ChangeKey(_)
        | Command::RotateKey(_)
        | Command::RevokeKey(_) => true,
        // Owners of the work may do these as well; a worker does them with its fence.
        Command::Cancel(cmd) => cmd.fence.is_none() && as_operator(),
        Command::SetTags(cmd) => cmd.fence.is_none() && as_operator(),
        Command::ChangePriority(_) | Command::Replay(_) | Command::CancelFlow(_) => as_operator(),
        // A worker may drain itself.
        Command::DrainWorker(_) => call.principal.scopes.any(Scopes::OPERATE),
        Command::Submit(_)
        | Command::SubmitAll(_)
        | Command::Claim(_)
        | Command::Renew(_)
        | Command::Progress(_)
        | Command::RecordSteps(_)
        | Command::Complete(_)
        | Command::Fail(_)
        | Command::Delay(_)
        | Command::WaitChildren(_)
        | Command::Reschedule(_)
        | Command::SubmitFlow(_)
        | Command::GrowFlow(_)
        | Command::SealFlow(_)
        | Command::FinishFlow(_)
        | Command::ChangeFlow(_)
        | Command::VerifyFlow(_)
        | Command::AuditFlow(_)
        | Command::ReconcileGroup(_)
        | Command::Expire(_)
        | Command::RecordTrouble(_)
        | Command::DropEntry(_)
        | Command::Heartbeat(_)
        | Command::RegisterWorker(_)
        | Command::BeatWorker(_)
        | Command::DeregisterWorker(_)
        | Command::SettleWorker(_)
        | Command::EndLease(_)
        | Command::ShareBulk(_)
        | Command::AdvanceBulk(_)
        | Command::ReportBulk(_)
        | Command::TouchKey(_)
        | Command::NoteRefusal(_)
        | Command::KeepAnswer(_) => false,
    }
}

/// How the target of an audited call stood before it.
pub(crate) struct Before {
    target: Key,
    state: String,
}

/// Notes what an entry will need, so that it is loaded together with what the rule needs. True if something is missing.
pub(crate) fn prefetch(tx: &mut Tx<'_>, call: &Call, target: Option<Key>) -> bool {
    let Some(target) = target.filter(|_| is_audited(call)) else { return false };
    let end = tx.prefetch(end_key(target.partition()), PartMask::NONE);
    tx.prefetch(target, PartMask::NONE) || end
}

/// To be asked before the rule runs; `None` if the call leaves no entry.
pub(crate) fn before(tx: &mut Tx<'_>, call: &Call, target: Option<Key>) -> Result<Option<Before>, Stop> {
    let Some(target) = target.filter(|_| is_audited(call)) else { return Ok(None) };
    Ok(Some(Before { target, state: describe(tx, target, &call.command)? }))
}

/// Adds the entry of a call that went through.
pub(crate) fn done(tx: &mut Tx<'_>, call: &Call, before: Before, reply: &Reply) -> Result<(), Stop> {
    // Nothing was asked for: every node that starts would leave an entry.
    if *reply == Reply::KeysExist {
        return Ok(());
    }
    let after = describe(tx, before.target, &call.command)?;
    let change = if before.state == after { after } else { format!("{} → {after}", before.state) };
    let change = match reason(&call.command).filter(|reason| !reason.is_empty()) {
        Some(reason) => format!("{change}: {reason}"),
        None => change,
    };
    let act = act(tx, call, before.target, &change, DONE);
    append(tx, before.target.partition(), act)
}

/// Adds the entry of a call that was refused; nothing if it is not audited. A caller who may not operate at all gets none
/// here, because anybody could fill the log: such refusals are told by `NoteRefusal`, many in one.
pub fn refused(tx: &mut Tx<'_>, call: &Call, rejection: &Rejection) -> Result<(), Stop> {
    let Some(target) = crate::apply::target(&call.command).filter(|_| is_audited(call)) else { return Ok(()) };
    // Damage is an event of its own, not an answer to an act.
    if !call.principal.scopes.any(Scopes::OPERATE) || matches!(rejection, Rejection::Internal { .. }) {
        return Ok(());
    }
    let act = act(tx, call, target, "", rejection.code());
    append(tx, target.partition(), act)
}

/// Adds the entry of a call that was refused before it became a command.
pub(crate) fn note_refusal(tx: &mut Tx<'_>, cmd: &NoteRefusal) -> Result<Reply, Stop> {
    let origin = cmd.origin.as_deref().cloned().unwrap_or_default();
    let act = Act {
        at: tx.now(),
        principal: cut(&cmd.principal),
        namespace: cut(&cmd.namespace),
        key: cut(&origin.key),
        address: cut(&origin.address),
        request: cut(&origin.request),
        verb: cut(&cmd.verb),
        target: cut(&cmd.target),
        change: match (cmd.times, cmd.other_targets) {
            (0 | 1, _) => "".into(),
            (times, false) => format!("{times} times").into(),
            (times, true) => format!("{times} times, of several targets").into(),
        },
        result: cut(&cmd.code),
    };
    append(tx, cmd.partition, act)?;
    Ok(Reply::Noted)
}

fn act(tx: &Tx<'_>, call: &Call, target: Key, change: &str, result: &str) -> Act {
    let (who, nothing) = (&call.principal, Origin::default());
    let origin = who.origin.as_deref().unwrap_or(&nothing);
    Act {
        at: tx.now(),
        principal: cut(&who.name),
        namespace: cut(&who.namespace),
        key: cut(&origin.key),
        address: cut(&origin.address),
        request: cut(&origin.request),
        verb: call.command.verb().into(),
        target: name(target, &call.command).into(),
        change: cut(change),
        result: result.into(),
    }
}

/// Why it was done, as far as the caller said so.
fn reason(command: &Command) -> Option<&Text> {
    Some(match command {
        Command::Cancel(cmd) => &cmd.reason,
        Command::Reschedule(cmd) => &cmd.reason,
        Command::ChangePriority(cmd) => &cmd.reason,
        Command::SetTags(cmd) => &cmd.reason,
        Command::Revoke(cmd) => &cmd.reason,
        Command::Hold(cmd) => &cmd.reason,
        Command::Release(cmd) => &cmd.reason,
        Command::ForceComplete(cmd) => &cmd.reason,
        Command::ForceFail(cmd) => &cmd.reason,
        Command::Purge(cmd) => &cmd.reason,
        Command::Replay(cmd) => &cmd.reason,
        Command::DrainWorker(cmd) => &cmd.reason,
        Command::MarkWorkerDead(cmd) => &cmd.reason,
        Command::DrainNode(cmd) => &cmd.reason,
        Command::DiscardParked(cmd) => &cmd.reason,
        Command::StartBulk(cmd) => cmd.verb.reason(),
        _ => return None,
    })
}

/// The id or name by which people know the record.
fn name(target: Key, command: &Command) -> String {
    match command {
        Command::DrainWorker(cmd) => return cmd.name.instance.to_string(),
        Command::UndrainWorker(cmd) => return cmd.name.instance.to_string(),
        Command::MarkWorkerDead(cmd) => return cmd.name.instance.to_string(),
        Command::DrainNode(cmd) => return format!("n_{}", cmd.node),
        _ => {}
    }
    match target {
        Key::Execution(id) => id.to_string(),
        Key::ApiKey(_, id) => id.to_string(),
        Key::DeadLetter(partition, uuid) => crate::id::ParkedId::new(partition, uuid).to_string(),
        Key::BulkJob(partition, uuid, _) => crate::id::BulkId::new(partition, uuid).to_string(),
        other => format!("{other:?}"),
    }
}

/// How a record stands, in a few words that say nothing of what it carries.
fn describe(tx: &mut Tx<'_>, target: Key, command: &Command) -> Result<String, Stop> {
    if let Command::DrainNode(cmd) = command {
        let wanted = drains(tx, cmd.partition)?.contains_key(&cmd.node);
        return Ok(if wanted { "draining" } else { "serving" }.into());
    }
    Ok(match tx.get(target, PartMask::NONE)? {
        None => "absent".into(),
        Some(Record::Execution(execution)) => match command {
            Command::ChangePriority(_) => format!("priority {}", execution.hot.priority),
            _ => execution.public_state().name().into(),
        },
        Some(Record::ApiKey(key)) => key.summary(),
        Some(Record::Worker(worker)) => format!("{} {}", worker.body.instance, worker.body.state.name()),
        Some(_) => "present".into(),
    })
}

const fn end_key(partition: PartitionId) -> Key {
    Key::Register(partition, Subject::AuditEnd)
}

fn append(tx: &mut Tx<'_>, partition: PartitionId, act: Act) -> Result<(), Stop> {
    let end = match tx.get(end_key(partition), PartMask::NONE)? {
        Some(Record::Register(register)) => match register.body {
            register::Body::AuditEnd(end) => end,
            register::Body::KeyNames(_) | register::Body::NodeDrains(_) => {
                return Err(Rejection::internal("K2 the end of the log is a register").into());
            }
        },
        _ => End::default(),
    };
    let entry = Audit::after(&end, partition, act, tx.limits().audit_kept_ms);
    let end = register::Body::AuditEnd(entry.end());
    tx.insert(Record::Audit(Box::new(entry)));
    tx.put(Record::Register(Box::new(Register { partition, body: end })));
    Ok(())
}

fn cut(text: &str) -> Text {
    let fits = |end: &usize| text.is_char_boundary(*end);
    let end = (0..=text.len().min(AUDIT_TEXT_MAX)).rev().find(fits).unwrap_or(0);
    text[..end].into()
}
