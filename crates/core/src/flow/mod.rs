//! Flows: graphs of executions. One file per command, and the few pieces they share.
//!
//! `follow` runs behind every command: it does what the ends of members entail (edges, groups, skips, cancelled
//! siblings), brings the exact totals up to date and decides the flow. No command does any of these by other means.

pub mod plan;
pub mod problem;

pub(crate) mod audit_flow;
pub(crate) mod cancel_flow;
pub(crate) mod change_flow;
pub(crate) mod damaged;
pub(crate) mod decide;
pub(crate) mod finish_flow;
pub(crate) mod follow;
pub(crate) mod group;
pub(crate) mod grow;
pub(crate) mod inputs;
pub(crate) mod layout;
pub(crate) mod member;
pub(crate) mod purge_flow;
pub(crate) mod rank;
pub(crate) mod reopen;
pub(crate) mod resolve;
pub(crate) mod seal;
pub(crate) mod siblings;
pub(crate) mod submit_flow;
pub(crate) mod summary;
pub(crate) mod verify;

pub use group::evaluate;
pub use member::member_id;
pub use summary::{recount, recount_purged};

use crate::command::{Principal, Within};
use crate::error::Rejection;
use crate::event::{Event, Fact};
use crate::execution::fence::{self, Verb};
use crate::id::FlowId;
use crate::record::{Execution, Flow};
use crate::schema::PartMask;
use crate::text::Text;
use crate::tx::{Stop, Tx};

/// The flow, if the caller may see it. One of another namespace, half built or going answers like one that is not there.
pub(crate) fn visible(tx: &mut Tx<'_>, who: &Principal, id: FlowId) -> Result<Flow, Stop> {
    match tx.find_flow(id)? {
        Some(flow) if flow.is_visible() && (flow.definition.namespace == who.namespace || who.is_engine()) => Ok(flow),
        _ => Err(Rejection::FlowNotFound.into()),
    }
}

/// The flow on which it depends whether a member is seen. Of a graph that is not whole yet every member waits for its
/// edges or its seal, so that no flow has to be looked at for any other.
pub fn shown_by(execution: &Execution) -> Option<FlowId> {
    group::hold(execution).and_then(|_| execution.member()).map(|member| member.flow)
}

/// The flow for a call that changes it; a member that calls holds its lease and belongs to it.
pub(crate) fn callers(tx: &mut Tx<'_>, who: &Principal, id: FlowId, within: &Within) -> Result<Flow, Stop> {
    let Some((member, held)) = within else { return visible(tx, who, id) };
    tx.prefetch(crate::record::Key::Flow(id), PartMask::NONE);
    let execution = crate::execution::visible(tx, who, *member, PartMask::NONE)?;
    fence::admit(tx, &execution, Some(*held), Verb::Spawn)?;
    if execution.member().is_none_or(|member| member.flow != id) {
        return Err(Rejection::FlowNotFound.into());
    }
    visible(tx, who, id)
}

/// Tells a fact about the flow itself.
pub(crate) fn emit(tx: &mut Tx<'_>, flow: &Flow, by: &Text, fact: Fact) {
    tx.emit(Event {
        at: tx.now(),
        execution: None,
        flow: Some(flow.id),
        namespace: flow.definition.namespace.clone(),
        lane: "".into(),
        kind: flow.definition.kind.clone(),
        epoch: 0,
        by: by.clone(),
        fact,
    });
}

#[cfg(test)]
mod cancel_tests;
#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod event_tests;
#[cfg(test)]
mod growth_tests;
#[cfg(test)]
mod input_tests;
#[cfg(test)]
mod invariant_tests;
#[cfg(test)]
mod large_tests;
#[cfg(test)]
mod member_tests;
#[cfg(test)]
mod policy_tests;
#[cfg(test)]
mod purge_tests;
#[cfg(test)]
mod repair_tests;
#[cfg(test)]
mod replay_tests;
#[cfg(test)]
mod resolve_tests;
#[cfg(test)]
mod sibling_tests;
#[cfg(test)]
mod tests;
