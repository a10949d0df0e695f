//! Replaying: what has ended runs again, as the same execution with a new attempt. Its history stays.

use super::settle::{self, Waits};
use super::{WITH_ACTIONS, children, emit, note, visible, when};
use crate::command::{DeadlineWish, Principal, Replay, Steps};
use crate::error::Rejection;
use crate::event::Fact;
use crate::flow::follow::Follow;
use crate::flow::reopen;
use crate::limits::{HORIZON_MS, PRIORITY_MAX, REASON_MAX};
use crate::record::Execution;
use crate::record::execution::{Deadline, Holds, Next, Outcome, State, Why};
use crate::reply::Reply;
use crate::schema::{PartMask, execution as schema};
use crate::text::{check_range, check_text};
use crate::time::Time;
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &Replay, now: Time) -> Result<(), Rejection> {
    check_text("reason", &cmd.reason, REASON_MAX)?;
    if let Some(ms) = cmd.delay_ms {
        check_range("delay_ms", ms, 0, HORIZON_MS)?;
    }
    if let Some(priority) = cmd.priority {
        check_range("priority", priority.into(), 0, PRIORITY_MAX.into())?;
    }
    match cmd.deadline {
        DeadlineWish::New(deadline) => when::deadline(deadline, start(cmd, now), now).map(drop),
        DeadlineWish::Keep | DeadlineWish::None => Ok(()),
    }
}

fn start(cmd: &Replay, now: Time) -> Time {
    now + cmd.delay_ms.unwrap_or(0)
}

pub fn replay(tx: &mut Tx<'_>, who: &Principal, cmd: &Replay, follow: &mut Follow) -> Result<Reply, Stop> {
    let now = tx.now();
    let mut execution = visible(tx, who, cmd.id, WITH_ACTIONS)?;
    let State::Done { outcome, attempt, .. } = execution.hot.state else {
        let previous = execution.hot.previous;
        return Err(Rejection::ExecutionNotTerminal { public_state: execution.public_state(), previous }.into());
    };
    let max = execution.spec.policy.max_replays;
    if execution.hot.replays >= max {
        return Err(Rejection::ReplayLimit { max }.into());
    }
    let mut flow = match execution.member().cloned() {
        Some(member) => Some(reopen::check(tx, &member)?),
        None if cmd.ignore_dependencies => {
            return Err(Rejection::invalid("ignore_dependencies", "has an effect on members of a flow only").into());
        }
        None => None,
    };
    let deadline_at = deadline_at(&execution, cmd, now)?;
    if outcome == Outcome::Success && attempt.is_none() {
        // A downstream that was handed it may ask for it again.
        match execution.member().is_some_and(|member| member.outs > 0) {
            true => {
                execution = tx.execution(cmd.id, WITH_ACTIONS.with(PartMask::of(schema::RESULT)))?;
                execution.keep_forced_results();
            }
            false => execution.drop_forced_results(),
        }
    }
    execution.set_checkpoint(None);
    let hot = &mut execution.hot;
    hot.replays += 1;
    if cmd.steps == Steps::Clear {
        hot.steps.clear();
    }
    hot.retries_used = 0;
    hot.reclaims = 0;
    hot.reclaims_in_row = 0;
    hot.progress = None;
    hot.previous = Some((outcome, attempt));
    hot.deadline_at = deadline_at;
    hot.priority = cmd.priority.unwrap_or(hot.priority);
    let (replays, of) = (hot.replays, hot.attempts.checked_sub(1));
    let holds = match &mut flow {
        Some(flow) => reopen::holds(tx, who, cmd, &mut execution, flow)?,
        None => Holds::default(),
    };
    let waits = Waits {
        holds,
        not_before: cmd.delay_ms.map(|ms| (now + ms, Why::Start)),
        next: Next::Replay { of, by: who.name.clone(), reason: cmd.reason.clone() },
    };
    settle::settle(&mut execution, waits, now);
    note(&mut execution, "replay", who, &cmd.reason, now);
    emit(tx, &execution, &who.name, Fact::Replayed { replays, reason: cmd.reason.clone() });
    children::retract(tx, &execution, outcome)?;
    let public_state = execution.public_state();
    tx.put_execution(execution.clone());
    if let Some(flow) = flow {
        reopen::reopen(tx, who, &execution, flow, cmd, follow)?;
    }
    Ok(Reply::Replayed { public_state, replays })
}

/// A relative deadline counts from now; an absolute one must still be ahead, or be replaced.
fn deadline_at(execution: &Execution, cmd: &Replay, now: Time) -> Result<Option<Time>, Rejection> {
    let given: Option<Deadline> = match cmd.deadline {
        DeadlineWish::Keep => execution.spec.deadline,
        DeadlineWish::None => None,
        DeadlineWish::New(deadline) => Some(deadline),
    };
    given.map(|deadline| when::deadline(deadline, start(cmd, now), now)).transpose()
}
