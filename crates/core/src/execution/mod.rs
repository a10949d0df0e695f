//! Every operation on an execution, one file each, and the few pieces they share.
//!
//! `settle` decides where an execution that nobody owns stands, `finish` makes every end, `fence` every freshness check;
//! no operation does any of these by other means.

pub mod check;
pub mod claim;
pub mod settle;

pub(crate) mod backoff;
pub(crate) mod cancel;
pub(crate) mod change_priority;
pub(crate) mod children;
pub(crate) mod complete;
pub(crate) mod delay;
pub(crate) mod end_lease;
pub(crate) mod expire;
pub(crate) mod fail;
pub(crate) mod fence;
pub(crate) mod finish;
pub(crate) mod force_complete;
pub(crate) mod force_fail;
pub(crate) mod hold;
pub(crate) mod lose;
pub(crate) mod parked;
pub(crate) mod policy;
pub(crate) mod progress;
pub(crate) mod purge;
pub(crate) mod record_steps;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod replay;
pub(crate) mod reschedule;
pub(crate) mod revoke;
pub(crate) mod set_tags;
pub(crate) mod steps;
pub(crate) mod submit;
pub(crate) mod submit_all;
pub(crate) mod trouble;
pub(crate) mod wait_children;
pub(crate) mod when;

pub use trouble::{letter_of, scanner_of};

use crate::command::Principal;
use crate::error::Rejection;
use crate::event::{Event, Fact};
use crate::flow;
use crate::id::ExecutionId;
use crate::record::Execution;
use crate::record::execution::{Action, During, State};
use crate::schema::{PartMask, execution as schema};
use crate::text::Text;
use crate::time::Time;
use crate::tx::{Stop, Tx};

/// What the verbs of clients and operators load: they add to the history.
const WITH_ACTIONS: PartMask = PartMask::of(schema::ACTIONS);

/// The execution, if the caller may see it. One of another namespace, or of a graph that is not whole yet, answers like
/// one that is not there.
pub(crate) fn visible(tx: &mut Tx<'_>, who: &Principal, id: ExecutionId, parts: PartMask) -> Result<Execution, Stop> {
    let execution = tx.execution(id, parts)?;
    if *execution.spec.namespace != *who.namespace && !who.is_engine() {
        return Err(Rejection::ExecutionNotFound.into());
    }
    if let Some(flow) = flow::shown_by(&execution).filter(|_| !who.is_engine())
        && tx.flow_of(flow)?.hot.building.is_some()
    {
        return Err(Rejection::ExecutionNotFound.into());
    }
    Ok(execution)
}

/// The refusal for an execution that has ended.
fn terminal(execution: &Execution) -> Option<Rejection> {
    match &execution.hot.state {
        State::Done { outcome, reason, attempt, .. } => Some(Rejection::ExecutionTerminal {
            outcome: *outcome,
            reason: *reason,
            epoch: execution.hot.epoch,
            attempt: *attempt,
        }),
        _ => None,
    }
}

pub(crate) fn refuse_done(execution: &Execution) -> Result<(), Rejection> {
    terminal(execution).map_or(Ok(()), Err)
}

fn emit(tx: &mut Tx<'_>, execution: &Execution, by: &Text, fact: Fact) {
    let spec = &execution.spec;
    tx.emit(Event {
        at: tx.now(),
        execution: Some(execution.id),
        flow: execution.member().map(|member| member.flow),
        namespace: spec.namespace.clone(),
        lane: spec.lane.clone(),
        kind: spec.kind.clone(),
        epoch: execution.hot.epoch,
        by: by.clone(),
        fact,
    });
}

/// Adds what a client or operator did to the history. Comes before the action ends a lease or the execution.
fn note(execution: &mut Execution, verb: &str, who: &Principal, reason: &Text, now: Time) {
    let (epoch, verb, by, reason) = (execution.hot.epoch, verb.into(), who.name.clone(), reason.clone());
    let during = match &execution.hot.state {
        State::Active { .. } => During::Lease,
        State::Done { .. } => During::Done,
        State::Ready { .. } | State::Delayed { .. } | State::Blocked { .. } => During::Wait,
    };
    execution.push_action(Action { at: now, epoch, during, verb, by, reason });
}
