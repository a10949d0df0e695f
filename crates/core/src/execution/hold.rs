//! The operator's hold. On what is owned it waits until the lease ends, unless the lease is to be revoked with it.

use super::{WITH_ACTIONS, emit, note, refuse_done, revoke, settle, visible};
use crate::command::{Hold, Principal};
use crate::error::Rejection;
use crate::event::Fact;
use crate::limits::REASON_MAX;
use crate::reply::Reply;
use crate::text::check_text;
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &Hold) -> Result<(), Rejection> {
    check_text("reason", &cmd.reason, REASON_MAX)
}

/// A second hold changes nothing and keeps the first reason.
pub fn hold(tx: &mut Tx<'_>, who: &Principal, cmd: &Hold) -> Result<Reply, Stop> {
    let now = tx.now();
    let mut execution = visible(tx, who, cmd.id, WITH_ACTIONS)?;
    refuse_done(&execution)?;
    let revokes = cmd.revoke && execution.lease().is_some();
    let placed = settle::place(&mut execution, settle::operator_hold(&who.name, &cmd.reason, now), now);
    let changed = placed || revokes;
    if changed {
        note(&mut execution, "hold", who, &cmd.reason, now);
    }
    if placed {
        emit(tx, &execution, &who.name, Fact::Held { reason: cmd.reason.clone() });
    }
    if revokes {
        revoke::take(tx, execution, &who.name, &cmd.reason, None)?;
    } else if changed {
        tx.put_execution(execution);
    }
    Ok(Reply::Held { changed })
}
