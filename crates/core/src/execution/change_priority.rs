//! Changing the priority: the one thing about an execution that may change. It keeps the time it became ready.

use super::{WITH_ACTIONS, emit, note, refuse_done, settle, visible};
use crate::command::{ChangePriority, Principal};
use crate::error::Rejection;
use crate::event::Fact;
use crate::limits::{PRIORITY_MAX, REASON_MAX};
use crate::record::execution::State;
use crate::reply::Reply;
use crate::text::{check_range, check_text};
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &ChangePriority) -> Result<(), Rejection> {
    check_text("reason", &cmd.reason, REASON_MAX)?;
    check_range("priority", cmd.priority.into(), 0, PRIORITY_MAX.into())
}

pub fn change_priority(tx: &mut Tx<'_>, who: &Principal, cmd: &ChangePriority) -> Result<Reply, Stop> {
    let mut execution = visible(tx, who, cmd.id, WITH_ACTIONS)?;
    refuse_done(&execution)?;
    let (old, new) = (execution.hot.priority, cmd.priority);
    if old == new {
        return Ok(Reply::PriorityChanged { old, new, changed: false });
    }
    execution.hot.priority = new;
    if let State::Ready { since, order, .. } = &mut execution.hot.state {
        *order = settle::order(*since, new);
    }
    let now = tx.now();
    note(&mut execution, "change_priority", who, &cmd.reason, now);
    emit(tx, &execution, &who.name, Fact::PriorityChanged { old, new, reason: cmd.reason.clone() });
    tx.put_execution(execution);
    Ok(Reply::PriorityChanged { old, new, changed: true })
}
