//! Cancelling a flow, and what every flow owes that ends before its members: each live one is dealt with once, as many
//! in a commit as there is room for.

use super::decide::{self, Verdict, cancelled, grace_ms};
use super::follow::Follow;
use super::{group, plan, summary, visible};
use crate::command::{CancelFlow, Principal};
use crate::error::Rejection;
use crate::event::Fact;
use crate::execution::cancel::ask_holder;
use crate::execution::finish;
use crate::execution::trouble;
use crate::id::{ExecutionId, FlowId};
use crate::limits::{CANCEL_AGAIN_MS, REASON_MAX};
use crate::record::execution::{Cancel, PublicState, Reason, State as MemberState};
use crate::record::flow::{Cause, Ending, Flow, FlowOutcome, Remaining, State};
use crate::record::{Execution, Key};
use crate::reply::{Expired, FlowCancelled, Reply};
use crate::schema::{PartMask, Timer};
use crate::text::{Text, check_text};
use crate::tx::{List, Stop, Tx};

pub fn validate(cmd: &CancelFlow) -> Result<(), Rejection> {
    check_text("reason", &cmd.reason, REASON_MAX)?;
    plan::check_remaining(cmd.remaining)
}

pub fn cancel_flow(tx: &mut Tx<'_>, who: &Principal, cmd: &CancelFlow, follow: &mut Follow) -> Result<Reply, Stop> {
    let flow = visible(tx, who, cmd.flow)?;
    let (mut flow, already) = match &flow.hot.state {
        State::Done { outcome, cause, .. } => {
            return Err(Rejection::FlowTerminal { outcome: *outcome, cause: cause.name() }.into());
        }
        State::Ending(ending) => {
            if cmd.remaining > ending.remaining {
                tell_requested(tx, who, &flow, cmd);
            }
            (escalate(tx, flow, cmd.remaining), true)
        }
        State::Open => {
            tell_requested(tx, who, &flow, cmd);
            let verdict = Verdict {
                outcome: FlowOutcome::Cancelled,
                cause: Cause::Requested { reason: cmd.reason.clone() },
                remaining: cmd.remaining,
                by: who.name.clone(),
            };
            (decide::end(tx, flow, verdict), false)
        }
    };
    step(tx, &mut flow, follow)?;
    tx.put_flow(flow);
    // The numbers are filled in when what follows is done.
    let reply = FlowCancelled {
        already,
        state: crate::record::flow::PublicFlowState::Ending,
        outcome: FlowOutcome::Cancelled,
        remaining: cmd.remaining,
        reason: cmd.reason.clone(),
        cancelled: 0,
        owed: 0,
        active: 0,
    };
    Ok(Reply::FlowCancelled(reply))
}

fn tell_requested(tx: &mut Tx<'_>, who: &Principal, flow: &Flow, cmd: &CancelFlow) {
    let fact = Fact::FlowCancelRequested {
        flow: flow.id,
        policy: cmd.remaining.policy().into(),
        reason: cmd.reason.clone(),
        members: flow.summary.live(),
    };
    super::emit(tx, flow, &who.name, fact);
}

/// A repeat can only make the end harder for those that live; outcome, reason and requester of the first stay.
fn escalate(tx: &Tx<'_>, mut flow: Flow, wish: Remaining) -> Flow {
    let now = tx.now();
    let State::Ending(ending) = &mut flow.hot.state else { return flow };
    if wish <= ending.remaining {
        return flow;
    }
    ending.remaining = wish;
    ending.next_at = now;
    ending.cursor = None;
    let unsealed = ending.unsealed;
    flow.summary.cancel_owed = summary::owed(&flow, wish, unsealed);
    flow
}

/// The reply with the numbers as they stand after all that followed.
pub(crate) fn tell(tx: &mut Tx<'_>, id: FlowId, reply: &mut FlowCancelled) -> Result<(), Stop> {
    let flow = tx.flow_of(id)?;
    reply.state = flow.public_state();
    let (outcome, cause) = match &flow.hot.state {
        State::Ending(ending) => {
            reply.remaining = ending.remaining;
            (ending.outcome, &ending.cause)
        }
        State::Done { outcome, cause, .. } => (*outcome, cause),
        State::Open => return Err(Rejection::internal("FL-140 a cancelled flow is not open").into()),
    };
    reply.outcome = outcome;
    reply.reason = cause.reason();
    reply.cancelled = flow.summary.of(PublicState::Cancelled);
    reply.owed = flow.summary.cancel_owed;
    reply.active = flow.summary.of(PublicState::Active);
    Ok(())
}

/// Deals with the next live members. Leaves in the flow from where to go on, and when.
fn step(tx: &mut Tx<'_>, flow: &mut Flow, follow: &mut Follow) -> Result<bool, Stop> {
    let Some(ending) = flow.ending().cloned() else { return Ok(false) };
    if flow.summary.cancel_owed == 0 {
        return Ok(false);
    }
    let left = page(tx, flow, &ending, follow)?;
    let now = tx.now();
    let State::Ending(ending) = &mut flow.hot.state else { return Ok(false) };
    ending.cursor = left;
    // All were looked at: those that are still owed (their grace runs, or they cannot be read) are looked at again.
    ending.next_at = if left.is_some() { now } else { now + CANCEL_AGAIN_MS };
    Ok(left.is_some())
}

/// The last one that was dealt with, if there are more.
fn page(tx: &mut Tx<'_>, flow: &Flow, ending: &Ending, follow: &mut Follow) -> Result<Option<ExecutionId>, Stop> {
    let ids = tx.list(List::LiveMembers(flow.id), ending.cursor)?;
    let page = &ids[..ids.len().min(follow.room(tx))];
    let keys = page.iter().map(|id| Key::Execution(*id));
    if tx.prefetch_all(keys) {
        return Err(Stop::Miss);
    }
    let mut last = ending.cursor;
    let mut missing = false;
    for id in page {
        if follow.room(tx) == 0 && !missing {
            return Ok(last);
        }
        match one(tx, flow.id, *id, ending) {
            Err(Stop::Miss) => missing = true,
            done => done?,
        }
        follow.resolved();
        last = Some(*id);
    }
    if missing {
        return Err(Stop::Miss);
    }
    Ok(last.filter(|_| ids.len() > page.len()))
}

fn one(tx: &mut Tx<'_>, flow: FlowId, id: ExecutionId, ending: &Ending) -> Result<(), Stop> {
    let execution = match tx.find_execution(id, PartMask::NONE) {
        Ok(Some(execution)) if !execution.is_done() => execution,
        Ok(_) => return Ok(()),
        Err(Stop::Miss) => return Err(Stop::Miss),
        Err(Stop::Rejected(rejection)) => {
            return trouble::park_damaged(tx, Key::Execution(id), Some(flow), Timer::FlowEnding, &rejection);
        }
    };
    if !is_due(&execution, ending) {
        return Ok(());
    }
    let now = tx.now();
    match (grace_ms(ending.remaining), &execution.hot.state) {
        // Asked before. Another request may bring its end nearer, and never puts it off.
        (Some(grace_ms), MemberState::Active { cancel: Some(asked), .. })
            if asked.kill_at.is_some_and(|at| at <= now + grace_ms) =>
        {
            Ok(())
        }
        (Some(grace_ms), MemberState::Active { .. }) => {
            let request = Cancel {
                reason: ending.cause.reason(),
                by: ending.by.clone(),
                why: Reason::Flow,
                requested_at: now,
                kill_at: Some(now + grace_ms),
                cascade: true,
            };
            let by: Text = ending.by.clone();
            ask_holder(tx, &by, execution, request);
            Ok(())
        }
        _ => finish::finish(tx, execution, cancelled(ending)),
    }
}

/// Whether the end of the flow is to take this member with it.
fn is_due(execution: &Execution, ending: &Ending) -> bool {
    match ending.remaining {
        Remaining::Cancel(_) => true,
        Remaining::FinishActive => !matches!(execution.hot.state, MemberState::Active { .. }),
        Remaining::LetRun => ending.unsealed && group::hold(execution).is_some_and(|(_, sealed)| !sealed),
    }
}

/// Goes on cancelling.
pub(crate) fn go_on(tx: &mut Tx<'_>, mut flow: Flow, follow: &mut Follow) -> Result<Expired, Stop> {
    let more = step(tx, &mut flow, follow)?;
    tx.put_flow(flow);
    Ok(if more { Expired::More } else { Expired::Fired })
}

/// Ends a flow because its time is over.
pub(crate) fn by_time(
    tx: &mut Tx<'_>,
    flow: Flow,
    by: &Text,
    timer: Timer,
    follow: &mut Follow,
) -> Result<Expired, Stop> {
    if flow.hot.building.is_some() {
        // Nobody has seen it: what is there of it goes.
        super::purge_flow::give_up(tx, flow);
        return Ok(Expired::Fired);
    }
    let (outcome, cause) = match timer {
        Timer::SealBy => (FlowOutcome::Cancelled, Cause::NeverSealed),
        _ => (FlowOutcome::Failed, Cause::Deadline),
    };
    let remaining = Remaining::Cancel(crate::record::flow::Mode::Immediate);
    let mut flow = decide::end(tx, flow, Verdict { outcome, cause, remaining, by: by.clone() });
    let more = step(tx, &mut flow, follow)?;
    tx.put_flow(flow);
    Ok(if more { Expired::More } else { Expired::Fired })
}
