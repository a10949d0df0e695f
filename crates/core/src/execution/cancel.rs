//! Cancelling: by a client or operator, at once or with grace; by the holder itself; and of children, bit by bit.

use super::fence::{self, Verb};
use super::finish::{self, End};
use super::{WITH_ACTIONS, emit, note, terminal, visible};
use crate::command::{self, CancelMode, Principal, Scopes};
use crate::error::Rejection;
use crate::event::Fact;
use crate::flow::decide;
use crate::id::{ExecutionId, FlowId};
use crate::limits::{FANOUT_PER_COMMIT, GRACE_MAX_MS, REASON_MAX};
use crate::planted::{self, Defect};
use crate::record::continuation::Rest;
use crate::record::execution::{Cancel, LeaseEnd, Outcome, Reason, State};
use crate::record::{Continuation, Execution, Record};
use crate::reply::{Cancelled, Expired, Reply};
use crate::schema::PartMask;
use crate::text::{Text, check_range, check_text};
use crate::tx::{List, Stop, Tx};

pub fn validate(cmd: &command::Cancel) -> Result<(), Rejection> {
    check_text("reason", &cmd.reason, REASON_MAX)?;
    match cmd.mode {
        CancelMode::Graceful { .. } if cmd.fence.is_some() => {
            Err(Rejection::invalid("mode", "has no meaning for the holder, who can stop by itself"))
        }
        CancelMode::Graceful { grace_ms } => check_range("grace_ms", grace_ms, 0, GRACE_MAX_MS),
        CancelMode::Immediate => Ok(()),
    }
}

pub fn cancel(tx: &mut Tx<'_>, who: &Principal, cmd: &command::Cancel) -> Result<Reply, Stop> {
    if cmd.fence.is_some() {
        return by_holder(tx, who, cmd);
    }
    let now = tx.now();
    let mut execution = visible(tx, who, cmd.id, WITH_ACTIONS)?;
    if let State::Done { outcome, .. } = execution.hot.state
        && !(planted::on(Defect::CancelAfterCompletion) && outcome == Outcome::Success)
    {
        return match (outcome, terminal(&execution)) {
            (Outcome::Cancelled, _) => Ok(Reply::Cancelled(Cancelled::Done { already: true })),
            (_, Some(rejection)) => Err(rejection.into()),
            (_, None) => Err(Rejection::internal("E7 Done has an outcome").into()),
        };
    }
    let grace_ms = match cmd.mode {
        CancelMode::Immediate => None,
        CancelMode::Graceful { grace_ms } => Some(grace_ms),
    };
    let request = Cancel {
        reason: cmd.reason.clone(),
        by: who.name.clone(),
        why: requester(who),
        requested_at: now,
        kill_at: grace_ms.map(|ms| now + ms),
        cascade: cmd.cascade,
    };
    note(&mut execution, "cancel", who, &cmd.reason, now);
    if let (Some(_), State::Active { .. }) = (grace_ms, &execution.hot.state) {
        return Ok(ask_holder(tx, &who.name, execution, request));
    }
    let asked_before = matches!(&execution.hot.state, State::Active { cancel: Some(old), .. } if old.cascade);
    let end = End::cancelled(&Cancel { cascade: request.cascade || asked_before, ..request });
    finish::finish(tx, execution, end)?;
    Ok(Reply::Cancelled(Cancelled::Done { already: false }))
}

fn requester(who: &Principal) -> Reason {
    if who.scopes.any(Scopes::SUBMIT) { Reason::Client } else { Reason::Operator }
}

/// Records the request; the lease stays valid. A second request may only bring the end nearer.
pub(crate) fn ask_holder(tx: &mut Tx<'_>, by: &Text, mut execution: Execution, request: Cancel) -> Reply {
    let State::Active { cancel, .. } = &mut execution.hot.state else {
        panic!("cancel: only Active has a holder");
    };
    let before = cancel.as_ref().and_then(|cancel| cancel.kill_at);
    let cancel = match cancel {
        Some(old) => {
            old.kill_at = [old.kill_at, request.kill_at].into_iter().flatten().min();
            old.cascade |= request.cascade;
            old
        }
        None => cancel.insert(request),
    };
    let kill_at = cancel.kill_at;
    if before != kill_at {
        let fact = Fact::CancelRequested { reason: cancel.reason.clone(), kill_at };
        emit(tx, &execution, by, fact);
    }
    tx.put_execution(execution);
    Reply::Cancelled(Cancelled::Requested { kill_at })
}

/// The holder cancels its own work, or acknowledges a request.
fn by_holder(tx: &mut Tx<'_>, who: &Principal, cmd: &command::Cancel) -> Result<Reply, Stop> {
    let execution = visible(tx, who, cmd.id, PartMask::NONE)?;
    if let Some(reply) = fence::admit(tx, &execution, cmd.fence, Verb::Cancel)? {
        return Ok(reply);
    }
    let own = Cancel {
        reason: cmd.reason.clone(),
        by: who.name.clone(),
        why: Reason::Worker,
        requested_at: tx.now(),
        kill_at: None,
        cascade: cmd.cascade,
    };
    let mut end = match &execution.hot.state {
        State::Active { cancel: Some(asked), .. } => End::cancelled(asked),
        _ => End::cancelled(&own),
    };
    end.lease = LeaseEnd::CancelledByHolder { reason: cmd.reason.clone(), by: who.name.clone() };
    finish::finish(tx, execution, end)?;
    Ok(Reply::Cancelled(Cancelled::Done { already: false }))
}

/// Cancels the next children of a continuation; those that have ended, or cannot be read, are passed.
pub(super) fn go_on(tx: &mut Tx<'_>, mut continuation: Continuation) -> Result<Expired, Stop> {
    let Rest::CancelChildren { after, reason, by } = &continuation.body.rest else {
        return Err(Rejection::internal("E11 the timer belongs to this work").into());
    };
    let (reason, by) = (reason.clone(), by.clone());
    let spared = decide::ended_with(tx, continuation.owner)?;
    let ids = tx.list(List::Children(continuation.owner), *after)?;
    let page = &ids[..ids.len().min(FANOUT_PER_COMMIT)];
    let mut missing = false;
    for id in page {
        // Goes on after a miss, so that all that is missing is loaded together.
        match cancel_child(tx, *id, spared, &reason, &by) {
            Err(Stop::Miss) => missing = true,
            done => done?,
        }
    }
    if missing {
        return Err(Stop::Miss);
    }
    if page.len() == ids.len() {
        tx.delete(continuation.key());
        return Ok(Expired::Fired);
    }
    continuation.body.rest = Rest::CancelChildren { after: page.last().copied(), reason, by };
    continuation.body.trouble = None;
    tx.put(Record::Continuation(Box::new(continuation)));
    Ok(Expired::More)
}

/// Members of the flow `spared` are passed: it ends them itself, each as it is due to it.
fn cancel_child(
    tx: &mut Tx<'_>,
    id: ExecutionId,
    spared: Option<FlowId>,
    reason: &Text,
    by: &Text,
) -> Result<(), Stop> {
    let child = match tx.find_execution(id, PartMask::NONE) {
        Ok(Some(child)) if spared.is_some() && child.member().map(|member| member.flow) == spared => return Ok(()),
        Ok(Some(child)) if !child.is_done() => child,
        Ok(_) | Err(Stop::Rejected(_)) => return Ok(()),
        Err(Stop::Miss) => return Err(Stop::Miss),
    };
    let request = Cancel {
        reason: reason.clone(),
        by: by.clone(),
        why: Reason::Parent,
        requested_at: tx.now(),
        kill_at: None,
        cascade: true,
    };
    finish::finish(tx, child, End::cancelled(&request))
}

#[cfg(test)]
mod tests {
    use crate::command::{Command, Submit};
    use crate::kit::World;
    use crate::kit::calls::{self, fence};
    use crate::record::Key;
    use crate::record::continuation::Work;
    use crate::reply::Expired;
    use crate::schema::Timer;
    use crate::tx::LIST_SCAN_MAX;

    #[test]
    fn ex_62_more_children_than_one_commit_takes_are_cancelled_bit_by_bit() {
        let mut world = World::new();
        let parent = world.submit(|_| {});
        let held = fence(&world.claim(parent));
        let spawn = |cmd: &mut Submit| cmd.parent = Some((parent, held));
        let children: Vec<_> = (0..LIST_SCAN_MAX + 300).map(|_| world.submit(spawn)).collect();
        world.run(Command::Cancel(calls::cancel(parent))).unwrap();
        let key = Key::Continuation(parent, Work::CancelChildren);
        assert_eq!(
            world.scan(),
            [(Timer::CancelChildren, key, Expired::More), (Timer::CancelChildren, key, Expired::Fired)]
        );
        for child in children {
            assert_eq!(world.execution(child).public_state().name(), "cancelled");
        }
        assert!(world.record(key).is_none());
    }
}
