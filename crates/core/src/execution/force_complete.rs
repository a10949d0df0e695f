//! An operator ends an execution as a success. The open attempt is overridden and carries the result.

use super::finish::{self, End};
use super::submit::validate_content_type;
use super::{WITH_ACTIONS, note, refuse_done, visible};
use crate::command::{ForceComplete, Principal};
use crate::error::Rejection;
use crate::limits::{Limits, REASON_MAX};
use crate::record::attempt::AttemptState;
use crate::record::execution::{ForcedResult, LeaseEnd, Outcome, Reason};
use crate::reply::Reply;
use crate::schema::{PartMask, execution as schema};
use crate::text::{check_size, check_text};
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &ForceComplete, limits: &Limits) -> Result<(), Rejection> {
    if let Some(result) = &cmd.result {
        check_size("result", result.len(), limits.result_max)?;
    }
    validate_content_type(&cmd.content_type, cmd.result.is_some())?;
    check_text("reason", &cmd.reason, REASON_MAX)
}

pub fn force_complete(tx: &mut Tx<'_>, who: &Principal, cmd: &ForceComplete) -> Result<Reply, Stop> {
    let now = tx.now();
    let mut execution = visible(tx, who, cmd.id, WITH_ACTIONS)?;
    refuse_done(&execution)?;
    if execution.hot.open.is_none() {
        execution = tx.execution(cmd.id, WITH_ACTIONS.with(PartMask::of(schema::RESULT)))?;
    }
    note(&mut execution, "force_complete", who, &cmd.reason, now);
    match &mut execution.hot.open {
        Some(open) => open.set_result(cmd.result.clone(), cmd.content_type.clone()),
        // Attempts that have ended never change, so without an open one the result stays with the execution.
        None => execution
            .push_forced_result(ForcedResult { bytes: cmd.result.clone(), content_type: cmd.content_type.clone() }),
    }
    let outcome = Outcome::Success;
    let end = End {
        outcome,
        reason: Reason::Operator,
        by: who.name.clone(),
        attempt: AttemptState::Overridden,
        failure: None,
        lease: LeaseEnd::Forced,
        cascade: None,
    };
    finish::finish(tx, execution, end)?;
    Ok(Reply::Forced { outcome })
}
