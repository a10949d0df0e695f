//! Purging: the execution goes from reads and indexes at once, a long history bit by bit. Its idempotency key stays
//! bound as long as it was promised.

use super::{emit, steps, visible};
use crate::command::{Principal, Purge};
use crate::digest;
use crate::error::Rejection;
use crate::event::Fact;
use crate::flow::purge_flow;
use crate::id::ExecutionId;
use crate::limits::{PURGE_INLINE_MAX, PURGE_PER_COMMIT, PURGE_STEPS_PER_COMMIT, REASON_MAX};
use crate::planted::{self, Defect};
use crate::record::continuation::{Body, Rest};
use crate::record::dedup::What;
use crate::record::execution::State;
use crate::record::{Continuation, Execution, Key, Record};
use crate::reply::{Expired, Reply};
use crate::schema::PartMask;
use crate::text::{Text, check_text};
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &Purge) -> Result<(), Rejection> {
    check_text("reason", &cmd.reason, REASON_MAX)
}

pub fn purge(tx: &mut Tx<'_>, who: &Principal, cmd: &Purge) -> Result<Reply, Stop> {
    let execution = visible(tx, who, cmd.id, PartMask::NONE)?;
    if !execution.is_done() {
        let previous = execution.hot.previous;
        return Err(Rejection::ExecutionNotTerminal { public_state: execution.public_state(), previous }.into());
    }
    match execution.member() {
        None => remove(tx, execution, &who.name, &cmd.reason)?,
        Some(member) => {
            let flow = tx.flow_of(member.flow)?;
            if !flow.is_done() && !planted::on(Defect::LiveMemberPurged) {
                return Err(Rejection::FlowNotTerminal { state: flow.public_state().name() }.into());
            }
            purge_flow::bury(tx, execution, &who.name, &cmd.reason)?;
        }
    }
    Ok(Reply::Purged)
}

/// The time of an ended execution is over. A member waits for its flow.
pub(super) fn by_time(tx: &mut Tx<'_>, mut execution: Execution, by: &Text) -> Result<(), Stop> {
    let Some(member) = execution.member() else { return remove(tx, execution, by, &"".into()) };
    let mut flow = tx.flow_of(member.flow)?;
    if flow.is_done() || planted::on(Defect::LiveMemberPurged) {
        return purge_flow::bury(tx, execution, by, &"".into());
    }
    if let State::Done { purge_at, .. } = &mut execution.hot.state {
        *purge_at = None;
    }
    flow.hot.kept += 1;
    tx.put_flow(flow);
    tx.put_execution(execution);
    Ok(())
}

/// Removes an execution that has ended, and a short history with it.
pub(crate) fn remove(tx: &mut Tx<'_>, execution: Execution, by: &Text, reason: &Text) -> Result<(), Stop> {
    emit(tx, &execution, by, Fact::Purged { reason: reason.clone() });
    erase(tx, execution)
}

/// Removes an execution without a word about it.
pub(crate) fn erase(tx: &mut Tx<'_>, execution: Execution) -> Result<(), Stop> {
    if execution.member().is_none() {
        release_key(tx, &execution)?;
    }
    let attempts = execution.hot.attempts;
    let inline = attempts.min(PURGE_INLINE_MAX as u32);
    delete_attempts(tx, execution.id, 0, inline);
    let steps = execution.hot.steps.next;
    if attempts > inline || steps > 0 {
        // An execution is purged once and its id never comes back: there is no such continuation yet.
        tx.insert(Record::Continuation(Box::new(Continuation {
            owner: execution.id,
            body: Body {
                namespace: execution.spec.namespace.clone(),
                created_at: tx.now(),
                rest: Rest::Purge { next: inline, attempts, next_step: 0, steps },
                trouble: None,
            },
        })));
    }
    for item in execution.trouble().into_iter().flat_map(|trouble| &trouble.items) {
        if let Some(letter) = item.letter {
            tx.delete_blind(Key::DeadLetter(execution.id.partition(), letter));
        }
    }
    tx.delete(execution.key());
    Ok(())
}

/// Unbinds the idempotency key if its time is over, else says when it will be.
fn release_key(tx: &mut Tx<'_>, execution: &Execution) -> Result<(), Stop> {
    let spec = &execution.spec;
    let Some(idempotency_key) = &spec.idempotency_key else { return Ok(()) };
    let digest = digest::idempotency(&spec.namespace, spec.parent, idempotency_key);
    let key = Key::Dedup(execution.id.partition(), digest);
    let Some(Record::Dedup(mut dedup)) = tx.get(key, PartMask::NONE)? else { return Ok(()) };
    let kept_until = execution.hot.created_at + spec.policy.idempotency_ttl_ms;
    if kept_until <= tx.now() {
        tx.delete(key);
    } else {
        dedup.body.what = What::Key { execution: execution.id, purged: Some(execution.public_state()) };
        dedup.body.expires_at = Some(kept_until);
        tx.put(Record::Dedup(dedup));
    }
    Ok(())
}

/// Removes the next attempts of an execution that is gone, and after them its steps.
pub(super) fn go_on(tx: &mut Tx<'_>, mut continuation: Continuation) -> Result<Expired, Stop> {
    let Rest::Purge { next, attempts, next_step, steps } = continuation.body.rest else {
        return Err(Rejection::internal("E11 the timer belongs to this work").into());
    };
    let end = attempts.min(next.saturating_add(PURGE_PER_COMMIT as u32));
    delete_attempts(tx, continuation.owner, next, end);
    let mut end_step = next_step;
    if next == attempts {
        end_step = steps.min(next_step.saturating_add(PURGE_STEPS_PER_COMMIT));
        steps::delete(tx, continuation.owner, next_step..end_step)?;
    }
    if end == attempts && end_step == steps {
        tx.delete(continuation.key());
        return Ok(Expired::Fired);
    }
    continuation.body.rest = Rest::Purge { next: end, attempts, next_step: end_step, steps };
    continuation.body.trouble = None;
    tx.put(Record::Continuation(Box::new(continuation)));
    Ok(Expired::More)
}

fn delete_attempts(tx: &mut Tx<'_>, id: ExecutionId, from: u32, to: u32) {
    for index in from..to {
        tx.delete_blind(Key::Attempt(id, index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use crate::kit::World;
    use crate::kit::calls::force_fail;
    use crate::schema::Timer;

    #[test]
    fn ex_81_a_long_history_goes_bit_by_bit_and_leaves_nothing() {
        let mut world = World::new();
        let id = world.submit(|cmd| cmd.policy.max_reclaims = 100_000);
        for _ in 0..PURGE_PER_COMMIT + 200 {
            world.claim_as(id, "w", 1_000);
            world.now = world.now + 1_000;
            world.scan();
            world.now = world.now + 60_000;
            world.scan();
        }
        world.run(force_fail(id)).unwrap();
        assert_eq!(world.run(Command::Purge(Purge { id, reason: "".into() })), Ok(Reply::Purged));
        assert_eq!(
            world.run(Command::Purge(Purge { id, reason: "".into() })),
            Err(Rejection::ExecutionNotFound),
            "EX-71"
        );
        let left = world.records.len();
        assert!(left > PURGE_PER_COMMIT, "{left} records follow");
        let fired: Vec<_> = world.scan().into_iter().map(|(timer, _, expired)| (timer, expired)).collect();
        assert_eq!(fired, [(Timer::Purge, Expired::More), (Timer::Purge, Expired::Fired)]);
        assert!(world.is_swept());
    }

    #[test]
    fn ex_84_no_retention_purges_right_after_the_end() {
        let mut world = World::new();
        let id = world.submit(|cmd| cmd.policy.retention_ms = Some(0));
        assert_eq!(
            world.run(Command::Purge(Purge { id, reason: "".into() })).unwrap_err().code(),
            "execution_not_terminal"
        );
        world.run(force_fail(id)).unwrap();
        world.scan();
        assert!(world.is_swept());
        assert_eq!(world.facts(), ["submitted", "finished", "purged"]);
    }
}
