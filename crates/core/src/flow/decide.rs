//! The outcome of a flow: decided by its policies from exact totals, in the commit that makes it so. The first decision
//! stands.

use super::{damaged, emit, member, summary};
use crate::event::Fact;
use crate::execution::finish::End;
use crate::id::{ExecutionId, FlowId};
use crate::limits::VERIFY_AFTER_MS;
use crate::record::attempt::AttemptState;
use crate::record::execution::{Execution, LeaseEnd, Outcome, PublicState, Reason, State as MemberState};
use crate::record::flow::{
    Cause, CompletionPolicy, Ending, FailurePolicy, FlowOutcome, Growth, Mode, Purging, Remaining, State,
};
use crate::record::member::is_failure;
use crate::record::tombstone;
use crate::record::{Flow, Key, Record};
use crate::schema::PartMask;
use crate::text::Text;
use crate::tx::{Stop, Tx};

/// Looks at the policies after `ends`, and ends a flow of which nothing lives. With `anew` they are looked at though nobody
/// has ended.
pub(crate) fn decide(tx: &mut Tx<'_>, id: FlowId, ends: &[ExecutionId], anew: bool) -> Result<(), Stop> {
    let flow = tx.flow_of(id)?;
    if flow.hot.building.is_some() {
        return Ok(());
    }
    let flow = match &flow.hot.state {
        State::Open => match verdict(tx, &flow, ends, anew)? {
            Some(verdict) => end(tx, flow, verdict),
            None => return Ok(()),
        },
        State::Ending(_) => flow,
        State::Done { .. } => return Ok(()),
    };
    if flow.ending().is_some() && flow.summary.live() == 0 && flow.hot.works == 0 {
        finish(tx, flow);
    } else {
        tx.put_flow(flow);
    }
    Ok(())
}

/// An outcome, and what becomes of those that live.
pub(crate) struct Verdict {
    pub outcome: FlowOutcome,
    pub cause: Cause,
    pub remaining: Remaining,
    pub by: Text,
}

fn verdict(tx: &mut Tx<'_>, flow: &Flow, ends: &[ExecutionId], anew: bool) -> Result<Option<Verdict>, Stop> {
    let engine: Text = "engine".into();
    let verdict = |outcome, cause, remaining| Some(Verdict { outcome, cause, remaining, by: engine.clone() });
    if let FailurePolicy::FailFast { remaining } = flow.definition.failure
        && flow.summary.failures > 0
        && let Some(against) = first_against(tx, flow.id, ends)?
    {
        return Ok(verdict(FlowOutcome::Failed, Cause::Member(against), remaining));
    }
    let (sealed, live) = (flow.hot.sealed_at.is_some(), flow.summary.live());
    // Work that is left may still bring members back.
    let over = sealed && flow.summary.total_members > 0 && live == 0 && flow.hot.works == 0;
    Ok(match &flow.definition.completion {
        CompletionPolicy::AllTerminal => {
            over.then(|| by_failures(flow)).and_then(|outcome| verdict(outcome, Cause::AllTerminal, Remaining::LetRun))
        }
        CompletionPolicy::Root { key, remaining } => {
            let root = member::member_id(flow.id, key);
            // After a replay it may have ended long before the last of the others.
            match (over || ends.contains(&root)).then(|| ended(tx, root)).transpose()?.flatten() {
                Some(Ended { outcome: Outcome::Success, .. }) => {
                    verdict(FlowOutcome::Completed, Cause::Root(root), *remaining)
                }
                Some(_) => verdict(FlowOutcome::Failed, Cause::Root(root), *remaining),
                // A root that never comes leaves a flow that ends like others.
                None if over => verdict(FlowOutcome::Failed, Cause::AllTerminal, *remaining),
                None => None,
            }
        }
        // A replay in a flow that has enough would be cancelled by its own commit.
        CompletionPolicy::Threshold { .. } if !(over || anew || is_time(tx, flow, ends)) => None,
        CompletionPolicy::Threshold { successes, remaining } => {
            let completed = flow.summary.of(PublicState::Completed);
            let fixed = flow.hot.growth == Growth::Fixed && sealed;
            if completed >= *successes {
                verdict(FlowOutcome::Completed, Cause::Threshold, *remaining)
            } else if over || (fixed && completed + live < *successes) {
                verdict(FlowOutcome::Failed, Cause::Threshold, *remaining)
            } else {
                None
            }
        }
        CompletionPolicy::Declared { .. } => None,
    })
}

/// Whether this commit is one in which policies decide: a member has ended in it, or the flow was sealed.
fn is_time(tx: &Tx<'_>, flow: &Flow, ends: &[ExecutionId]) -> bool {
    let sealed_before = match tx.before(&flow.key()) {
        Some(Record::Flow(before)) => before.hot.sealed_at.is_some(),
        _ => false,
    };
    let is_of_flow = |id: &ExecutionId| match tx.after(&Key::Execution(*id)) {
        Some(Record::Execution(execution)) => execution.member().is_some_and(|member| member.flow == flow.id),
        // One that was given up: its record stays as it is, and what is left of it is written.
        _ => matches!(tx.after(&Key::Tombstone(*id)), Some(Record::Tombstone(stone)) if stone.body.flow == flow.id),
    };
    (flow.hot.sealed_at.is_some() && !sealed_before) || ends.iter().any(is_of_flow)
}

fn by_failures(flow: &Flow) -> FlowOutcome {
    match flow.definition.failure {
        FailurePolicy::CollectAll => FlowOutcome::Completed,
        _ if flow.summary.failures == 0 => FlowOutcome::Completed,
        FailurePolicy::Isolate | FailurePolicy::FailFast { .. } => FlowOutcome::Failed,
    }
}

/// The first of `ends` that counts against the flow.
fn first_against(tx: &mut Tx<'_>, flow: FlowId, ends: &[ExecutionId]) -> Result<Option<ExecutionId>, Stop> {
    for id in ends {
        if let Some(end) = ended(tx, *id)?
            && end.flow == flow
            && end.critical
            && is_failure(end.outcome, end.reason)
        {
            return Ok(Some(*id));
        }
    }
    Ok(None)
}

/// How a member ended.
struct Ended {
    flow: FlowId,
    critical: bool,
    outcome: Outcome,
    reason: Reason,
}

/// Of one that cannot be read there is what was left when it was given up.
fn ended(tx: &mut Tx<'_>, id: ExecutionId) -> Result<Option<Ended>, Stop> {
    match tx.find_execution(id, PartMask::NONE) {
        Ok(Some(execution)) => Ok(match (execution.member(), &execution.hot.state) {
            (Some(member), MemberState::Done { outcome, reason, .. }) => {
                Some(Ended { flow: member.flow, critical: member.critical, outcome: *outcome, reason: *reason })
            }
            _ => None,
        }),
        Ok(None) | Err(Stop::Rejected(_)) => Ok(damaged::stone(tx, id)?.map(|stone| {
            let tombstone::Body { flow, critical, outcome, reason, .. } = stone.body;
            Ended { flow, critical, outcome, reason }
        })),
        Err(Stop::Miss) => Err(Stop::Miss),
    }
}

/// Decides the flow: `Ending` until nothing of it lives.
pub(crate) fn end(tx: &mut Tx<'_>, mut flow: Flow, verdict: Verdict) -> Flow {
    let now = tx.now();
    let Verdict { outcome, cause, remaining, by } = verdict;
    // Nothing could start them any more.
    let unsealed = flow.hot.sealed_at.is_none() || flow.hot.unsealed > 0;
    let fact = Fact::FlowEnding { flow: flow.id, outcome, cause: cause.name().into() };
    if flow.summary.live() > 0 {
        emit(tx, &flow, &by, fact);
    }
    flow.summary.cancel_owed = summary::owed(&flow, remaining, unsealed);
    flow.hot.sealing = None;
    flow.hot.state =
        State::Ending(Ending { outcome, cause, by, since: now, remaining, unsealed, next_at: now, cursor: None });
    flow
}

fn finish(tx: &mut Tx<'_>, mut flow: Flow) {
    let now = tx.now();
    let State::Ending(Ending { outcome, cause, by, .. }) = std::mem::replace(&mut flow.hot.state, State::Open) else {
        panic!("finish: only what is ending can be done");
    };
    let started = flow.summary.first_started_at.unwrap_or(now);
    let fact =
        Fact::FlowFinished { flow: flow.id, outcome, counts: flow.summary.by_state, duration_ms: now.since(started) };
    flow.summary.cancel_owed = 0;
    flow.hot.purge_at = flow.definition.retention_ms.map(|ms| now + ms);
    flow.hot.audit_at = None;
    flow.hot.audits = 0;
    // A pause that grew while the flow kept changing ends with it.
    flow.hot.moves = 0;
    flow.hot.verify_at = flow.hot.verify_at.map(|at| at.min(now + VERIFY_AFTER_MS));
    if flow.hot.kept > 0 {
        flow.hot.purging = Some(Purging::Kept { since: now });
    }
    emit(tx, &flow, &by, fact);
    flow.hot.state = State::Done { outcome, cause, by, at: now };
    tx.put_flow(flow);
}

/// How a member ends that the flow's end takes with it.
pub(crate) fn cancelled(ending: &Ending) -> End {
    let reason = ending.cause.reason();
    End {
        outcome: Outcome::Cancelled,
        reason: Reason::Flow,
        by: ending.by.clone(),
        attempt: AttemptState::Cancelled,
        failure: None,
        lease: LeaseEnd::Cancelled { reason, by: ending.by.clone() },
        // Its children are members too, or live outside the flow: the latter are cancelled with it.
        cascade: Some(ending.cause.reason()),
    }
}

/// The flow that took the member with it when it ended. One that cannot be read, or is gone, ended by itself.
pub(crate) fn ended_with(tx: &mut Tx<'_>, id: ExecutionId) -> Result<Option<FlowId>, Stop> {
    match tx.find_execution(id, PartMask::NONE) {
        Ok(Some(execution)) => Ok(match execution.hot.state {
            MemberState::Done { reason: Reason::Flow, .. } => execution.member().map(|member| member.flow),
            _ => None,
        }),
        Ok(None) | Err(Stop::Rejected(_)) => Ok(None),
        Err(Stop::Miss) => Err(Stop::Miss),
    }
}

/// Whether a member that gives up its lease ends instead of waiting again.
pub(crate) fn closed_for(tx: &mut Tx<'_>, execution: &Execution) -> Result<Option<Ending>, Stop> {
    let Some(member) = execution.member() else { return Ok(None) };
    let flow = tx.flow_of(member.flow)?;
    Ok(flow.ending().filter(|ending| ending.remaining.closes()).cloned())
}

/// The grace that a running member is given.
pub(crate) const fn grace_ms(remaining: Remaining) -> Option<u64> {
    match remaining {
        Remaining::Cancel(Mode::Graceful { grace_ms }) => Some(grace_ms),
        Remaining::Cancel(Mode::Immediate) | Remaining::FinishActive | Remaining::LetRun => None,
    }
}
