//! An operator ends an execution as failed, without any retry.

use super::finish::{self, End};
use super::{WITH_ACTIONS, note, refuse_done, visible};
use crate::command::{ForceFail, Principal};
use crate::error::Rejection;
use crate::limits::{FAILURE_MESSAGE_MAX, REASON_MAX};
use crate::record::attempt::{AttemptState, Failure};
use crate::record::execution::{FORCE_FAIL, LeaseEnd, Outcome, Reason};
use crate::reply::Reply;
use crate::text::check_text;
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &ForceFail) -> Result<(), Rejection> {
    check_text("message", &cmd.message, FAILURE_MESSAGE_MAX)?;
    check_text("reason", &cmd.reason, REASON_MAX)
}

pub fn force_fail(tx: &mut Tx<'_>, who: &Principal, cmd: &ForceFail) -> Result<Reply, Stop> {
    let now = tx.now();
    let mut execution = visible(tx, who, cmd.id, WITH_ACTIONS)?;
    refuse_done(&execution)?;
    // Without an open attempt nothing else keeps the message: `Execution::forced_failure` finds it here.
    let said = if execution.hot.open.is_none() { &cmd.message } else { &cmd.reason };
    note(&mut execution, FORCE_FAIL, who, said, now);
    let failure = Failure::by_operator(cmd.message.clone());
    let outcome = Outcome::Failed;
    let end = End {
        outcome,
        reason: Reason::Operator,
        by: who.name.clone(),
        attempt: AttemptState::Overridden,
        failure: Some(failure),
        lease: LeaseEnd::Forced,
        cascade: None,
    };
    finish::finish(tx, execution, end)?;
    Ok(Reply::Forced { outcome })
}
