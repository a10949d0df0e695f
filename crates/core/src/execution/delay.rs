//! Delaying: the holder pauses its attempt until a time. With a zero delay it hands the work back at no cost.

use super::fence::{self, Verb};
use super::progress::{save_checkpoint, validate_checkpoint};
use super::settle::{self, Requeue};
use super::{emit, steps, visible, when};
use crate::command::{Delay, Payload, Principal};
use crate::error::Rejection;
use crate::event::Fact;
use crate::flow::decide;
use crate::limits::Limits;
use crate::record::Execution;
use crate::record::attempt::AttemptState;
use crate::record::execution::{LeaseEnd, Next, State, Why};
use crate::reply::Reply;
use crate::schema::PartMask;
use crate::time::Time;
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &Delay, limits: &Limits, now: Time) -> Result<(), Rejection> {
    when::validate("until", cmd.until, now)?;
    validate_checkpoint(&cmd.checkpoint, limits)?;
    steps::validate(&cmd.steps, Payload::len_of(&cmd.checkpoint), limits)
}

pub fn delay(tx: &mut Tx<'_>, who: &Principal, cmd: &Delay) -> Result<Reply, Stop> {
    let now = tx.now();
    let mut execution = visible(tx, who, cmd.id, PartMask::NONE)?;
    if let Some(reply) = fence::admit(tx, &execution, cmd.fence, Verb::Delay)? {
        return Ok(reply);
    }
    refuse_if_cancelling(tx, &execution)?;
    steps::record(tx, &mut execution, &cmd.steps)?;
    save_checkpoint(&mut execution, &cmd.checkpoint, now);
    let until = when::moment(cmd.until, now);
    emit(tx, &execution, &who.name, Fact::Delayed { until, why: Why::WorkerDelay });
    let requeue = Requeue {
        lease: LeaseEnd::Delayed { until },
        attempt: AttemptState::PausedByDelay,
        failure: None,
        hold: None,
        not_before: Some((until, Why::WorkerDelay)),
        next: Next::Resume,
    };
    settle::requeue(tx, execution, requeue)?;
    Ok(Reply::Delayed { until_at: until, repeated: false })
}

/// What is about to be cancelled does not go to sleep.
pub(super) fn refuse_if_cancelling(tx: &mut Tx<'_>, execution: &Execution) -> Result<(), Stop> {
    match &execution.hot.state {
        State::Active { cancel: Some(cancel), .. } => {
            let kill_in_ms = cancel.kill_at.map(|at| at.since(tx.now()));
            Err(Rejection::CancelRequested { kill_in_ms }.into())
        }
        // Nor does a member of a flow in which nobody starts again.
        _ if decide::closed_for(tx, execution)?.is_some() => {
            Err(Rejection::CancelRequested { kill_in_ms: None }.into())
        }
        _ => Ok(()),
    }
}
