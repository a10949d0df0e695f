//! Completing: the attempt succeeded, and the execution with it.

use super::fence::{self, Verb};
use super::finish::{self, End};
use super::submit::validate_content_type;
use super::{steps, visible};
use crate::command::{Complete, Principal};
use crate::error::Rejection;
use crate::limits::Limits;
use crate::planted::{self, Defect};
use crate::record::attempt::AttemptState;
use crate::record::execution::{LeaseEnd, Outcome, Reason, State};
use crate::record::{Execution, Record};
use crate::reply::Reply;
use crate::schema::{PartMask, attempt as schema};
use crate::text::check_size;
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &Complete, limits: &Limits) -> Result<(), Rejection> {
    if let Some(result) = &cmd.result {
        check_size("result", result.len(), limits.result_max)?;
    }
    validate_content_type(&cmd.content_type, cmd.result.is_some())?;
    steps::validate(&cmd.steps, cmd.result.as_ref().map_or(0, |result| result.len()), limits)
}

/// Ends it as a success. With a cancel requested it still succeeds: the work is done.
pub fn complete(tx: &mut Tx<'_>, who: &Principal, cmd: &Complete) -> Result<Reply, Stop> {
    let mut execution = visible(tx, who, cmd.id, PartMask::NONE)?;
    if let Some(reply) = fence::admit(tx, &execution, cmd.fence, Verb::Complete)? {
        if planted::on(Defect::SecondCompletionChangesResult) {
            overwrite_result(tx, &execution, cmd)?;
        }
        return Ok(reply);
    }
    steps::record(tx, &mut execution, &cmd.steps)?;
    let (State::Active { cancel, .. }, Some(open)) = (&execution.hot.state, &mut execution.hot.open) else {
        return Err(Rejection::internal("E6 a fence passes on a running attempt only").into());
    };
    let cancel_was_requested = cancel.is_some();
    let attempt = open.index;
    open.set_result(cmd.result.clone(), cmd.content_type.clone());
    let end = End {
        outcome: Outcome::Success,
        reason: Reason::Worker,
        by: who.name.clone(),
        attempt: AttemptState::Succeeded,
        failure: None,
        lease: LeaseEnd::Completed { attempt, cancel_was_requested },
        cascade: None,
    };
    finish::finish(tx, execution, end)?;
    Ok(Reply::Completed { outcome: Outcome::Success, attempt, cancel_was_requested, repeated: false })
}

/// The planted defect: what no rule allows.
fn overwrite_result(tx: &mut Tx<'_>, execution: &Execution, cmd: &Complete) -> Result<(), Stop> {
    if let State::Done { attempt: Some(index), .. } = &execution.hot.state {
        let all = PartMask::of(schema::RESULT).with(PartMask::of(schema::DETAIL));
        if let Some(mut attempt) = tx.find_attempt(execution.id, *index, all)? {
            attempt.set_result(cmd.result.clone(), cmd.content_type.clone());
            tx.put(Record::Attempt(Box::new(attempt)));
        }
    }
    Ok(())
}
