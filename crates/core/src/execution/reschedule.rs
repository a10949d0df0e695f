//! Moving the time an execution waits for. Keeps why it waits, its holds and what comes next.

use super::settle;
use super::{WITH_ACTIONS, emit, note, visible, when};
use crate::command::{Principal, Reschedule};
use crate::error::Rejection;
use crate::event::Fact;
use crate::limits::REASON_MAX;
use crate::reply::Reply;
use crate::text::check_text;
use crate::time::Time;
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &Reschedule, now: Time) -> Result<(), Rejection> {
    check_text("reason", &cmd.reason, REASON_MAX)?;
    when::validate("start", cmd.start, now)
}

pub fn reschedule(tx: &mut Tx<'_>, who: &Principal, cmd: &Reschedule) -> Result<Reply, Stop> {
    let now = tx.now();
    let mut execution = visible(tx, who, cmd.id, WITH_ACTIONS)?;
    let delayed = settle::waits(&execution).and_then(|waits| waits.not_before.map(|at| (waits, at)));
    let Some((mut waits, (old, why))) = delayed else {
        return Err(Rejection::NotDelayed { public_state: execution.public_state() }.into());
    };
    let new = when::moment(cmd.start, now);
    waits.not_before = Some((new, why));
    settle::settle(&mut execution, waits, now);
    note(&mut execution, "reschedule", who, &cmd.reason, now);
    emit(tx, &execution, &who.name, Fact::Rescheduled { old, new, reason: cmd.reason.clone() });
    tx.put_execution(execution);
    Ok(Reply::Rescheduled { old, new })
}
