//! An operator ends an execution as failed, without any retry.

use super::finish::{self, End};
use super::{WITH_ACTIONS, note, refuse_done, visible};
use crate::command::{ForceFail, Principal};
use crate::error::Rejection;
use crate::limits::{FAILURE_MESSAGE_MAX, REASON_MAX};
use crate::record::attempt::{AttemptState, Failure};
use crate::record::execution::{LeaseEnd, Outcome, Reason};
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
    // Without an attempt there is no other place that keeps the message.
    let said = if execution.hot.attempts == 0 { &cmd.message } else { &cmd.reason };
    note(&mut execution, "force_fail", who, said, now);
    let failure =
        Failure { category: "operator".into(), message: cmd.message.clone(), retry_at: None, has_detail: false };
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
