//! What its flow has to do with the end of a member.

use crate::engine::Shared;
use crate::flow::edges;
use crate::reads;
use weft_core::error::Rejection;
use weft_core::record::flow::{FlowOutcome, State};
use weft_core::record::member::{EndedBy, GroupState, Member};
use weft_core::record::{Execution, Key, Record};
use weft_core::schema;
use weft_core::text::Text;
use weft_core::{ExecutionId, FlowId};

/// Which member of which flow it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    pub flow: FlowId,
    pub key: Text,
}

impl Membership {
    pub fn of(member: &Member) -> Self {
        Self { flow: member.flow, key: member.key.clone() }
    }
}

/// The group that ended a member, with the keys of the others. One that cannot be read is named by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// This group of its own is impossible, first because of these.
    Dependency { group: Text, unmet: Vec<(Text, ExecutionId)> },
    /// This group of another was decided without it.
    Sibling { group: Text, verdict: GroupState, downstream: (Text, ExecutionId) },
}

/// Why a group ended it, if one did.
pub async fn ended(shared: &Shared, execution: &Execution) -> Result<Option<Ended>, Rejection> {
    let Some(cause) = execution.member().and_then(|member| member.cause.as_ref()) else { return Ok(None) };
    let ids = match (cause, cause.dependency()) {
        (_, Some((_, unmet))) => unmet.to_vec(),
        (EndedBy::Sibling { downstream, .. }, _) => vec![*downstream],
        (_, None) => Vec::new(),
    };
    let keys = edges::names(shared, execution.id.partition(), &ids).await?;
    let named = |id: &ExecutionId| {
        let key = keys.get(id).and_then(|(key, _)| key.clone());
        (key.unwrap_or_else(|| id.to_string().into()), *id)
    };
    Ok(Some(match cause {
        EndedBy::Dependency { group, unmet } | EndedBy::DependencyAmongOthers { group, unmet, .. } => {
            Ended::Dependency { group: group.clone(), unmet: unmet.iter().map(named).collect() }
        }
        EndedBy::Sibling { downstream, group, verdict } => {
            Ended::Sibling { group: group.clone(), verdict: *verdict, downstream: named(downstream) }
        }
    }))
}

/// The state of its flow, if no replay of a member is taken in it.
pub async fn closed(shared: &Shared, execution: &Execution) -> Result<Option<&'static str>, Rejection> {
    let Some(member) = execution.member() else { return Ok(None) };
    Ok(match reads::read_one(shared, Key::Flow(member.flow), schema::flow::LIGHT).await? {
        Some(Record::Flow(flow)) => match &flow.hot.state {
            State::Ending(_) | State::Done { outcome: FlowOutcome::Cancelled, .. } => Some(flow.public_state().name()),
            State::Open | State::Done { .. } => None,
        },
        _ => None,
    })
}
