//! Releasing: lifts the operator's hold and nothing else.

use super::{WITH_ACTIONS, emit, note, refuse_done, settle, visible};
use crate::command::{Principal, Release};
use crate::error::Rejection;
use crate::event::Fact;
use crate::limits::REASON_MAX;
use crate::record::execution::HoldKey;
use crate::reply::Reply;
use crate::text::check_text;
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &Release) -> Result<(), Rejection> {
    check_text("reason", &cmd.reason, REASON_MAX)
}

pub fn release(tx: &mut Tx<'_>, who: &Principal, cmd: &Release) -> Result<Reply, Stop> {
    let now = tx.now();
    let mut execution = visible(tx, who, cmd.id, WITH_ACTIONS)?;
    refuse_done(&execution)?;
    let changed = settle::lift(&mut execution, HoldKey::Operator, now).is_some();
    let public_state = execution.public_state();
    if changed {
        note(&mut execution, "release", who, &cmd.reason, now);
        emit(tx, &execution, &who.name, Fact::Released { reason: cmd.reason.clone() });
        tx.put_execution(execution);
    }
    Ok(Reply::Released { changed, public_state })
}
