//! Which executions are meant: one judgement for lists, counts and bulk jobs.

use crate::error::Rejection;
use crate::id::{ExecutionId, FlowId};
use crate::limits::FILTER_STATES_MAX;
use crate::record::Execution;
use crate::record::execution::{PublicState, State};
use crate::record::member::is_against;
use crate::text::Text;
use crate::time::Time;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Nothing set means all of the namespace. Ranges include both ends.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "Written", from = "Written")]
pub struct Filter {
    /// Any of these; empty means every one.
    pub states: Vec<PublicState>,
    pub lane: Option<Text>,
    pub kind: Option<Text>,
    pub tag: Option<(Text, Text)>,
    pub parent: Option<ExecutionId>,
    /// Members of this flow.
    pub flow: Option<FlowId>,
    /// Those whose end counts against their flow, or those of which that is not so.
    pub against: Option<bool>,
    /// The worker instance that holds it.
    pub worker: Option<Text>,
    pub concurrency_key: Option<Bytes>,
    pub created_from: Option<Time>,
    pub created_until: Option<Time>,
    pub updated_since: Option<Time>,
    /// Ended in this time; what has not ended is not meant.
    pub finished_from: Option<Time>,
    pub finished_until: Option<Time>,
}

impl Filter {
    pub(crate) fn check(&self) -> Result<(), Rejection> {
        match self.states.len() > FILTER_STATES_MAX {
            true => Err(Rejection::invalid("filter.states", "names states more than once")),
            false => Ok(()),
        }
    }

    /// Judges everything but the namespace.
    pub fn matches(&self, execution: &Execution) -> bool {
        let (spec, hot) = (&execution.spec, &execution.hot);
        let finished_at = match &hot.state {
            State::Done { at, .. } => Some(*at),
            _ => None,
        };
        let wants = |wanted: &Option<Text>, got: Option<&Text>| wanted.as_ref().is_none_or(|text| got == Some(text));
        (self.states.is_empty() || self.states.contains(&execution.public_state()))
            && wants(&self.lane, Some(&spec.lane))
            && wants(&self.kind, Some(&spec.kind))
            && wants(&self.worker, execution.lease().map(|lease| &lease.instance))
            && self.tag.as_ref().is_none_or(|(key, value)| execution.tags().get(key) == Some(value))
            && self.parent.is_none_or(|parent| spec.parent == Some(parent))
            && self.flow.is_none_or(|flow| execution.member().is_some_and(|member| member.flow == flow))
            && self.against.is_none_or(|wanted| wanted == is_against(execution))
            && self.concurrency_key.as_ref().is_none_or(|key| spec.concurrency_key.as_ref() == Some(key))
            && self.created_from.is_none_or(|from| hot.created_at >= from)
            && self.created_until.is_none_or(|until| hot.created_at <= until)
            && self.updated_since.is_none_or(|since| hot.updated_at >= since)
            && self.finished_from.is_none_or(|from| finished_at.is_some_and(|at| at >= from))
            && self.finished_until.is_none_or(|until| finished_at.is_some_and(|at| at <= until))
    }
}

/// A filter as it is stored. Its fields and the forms of `Whose` are written as they always were, so that older jobs read.
#[derive(Clone, Serialize, Deserialize)]
struct Written {
    states: Vec<PublicState>,
    lane: Option<Text>,
    kind: Option<Text>,
    tag: Option<(Text, Text)>,
    whose: Whose,
    worker: Option<Text>,
    concurrency_key: Option<Bytes>,
    created_from: Option<Time>,
    created_until: Option<Time>,
    updated_since: Option<Time>,
    finished_from: Option<Time>,
    finished_until: Option<Time>,
}

/// To what the executions belong. The first two have the bytes of an optional parent, which was all there was before flows.
#[derive(Clone, Serialize, Deserialize)]
enum Whose {
    Anybodys,
    ChildrenOf(ExecutionId),
    InFlow { parent: Option<ExecutionId>, flow: Option<FlowId>, against: Option<bool> },
}

impl From<Filter> for Written {
    fn from(filter: Filter) -> Self {
        let whose = match (filter.parent, filter.flow, filter.against) {
            (None, None, None) => Whose::Anybodys,
            (Some(parent), None, None) => Whose::ChildrenOf(parent),
            (parent, flow, against) => Whose::InFlow { parent, flow, against },
        };
        Self {
            states: filter.states,
            lane: filter.lane,
            kind: filter.kind,
            tag: filter.tag,
            whose,
            worker: filter.worker,
            concurrency_key: filter.concurrency_key,
            created_from: filter.created_from,
            created_until: filter.created_until,
            updated_since: filter.updated_since,
            finished_from: filter.finished_from,
            finished_until: filter.finished_until,
        }
    }
}

impl From<Written> for Filter {
    fn from(written: Written) -> Self {
        let (parent, flow, against) = match written.whose {
            Whose::Anybodys => (None, None, None),
            Whose::ChildrenOf(parent) => (Some(parent), None, None),
            Whose::InFlow { parent, flow, against } => (parent, flow, against),
        };
        Self {
            states: written.states,
            lane: written.lane,
            kind: written.kind,
            tag: written.tag,
            parent,
            flow,
            against,
            worker: written.worker,
            concurrency_key: written.concurrency_key,
            created_from: written.created_from,
            created_until: written.created_until,
            updated_since: written.updated_since,
            finished_from: written.finished_from,
            finished_until: written.finished_until,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::PartitionId;
    use uuid::Uuid;

    #[test]
    fn api_40_a_filter_is_written_as_before_flows_were_and_reads_back_with_them() {
        let parent = ExecutionId::new(PartitionId(3), Uuid::from_u128(7));
        let flow = FlowId::new(PartitionId(3), Uuid::from_u128(8));
        let bytes = |filter: &Filter| postcard::to_allocvec(filter).expect("it is written");
        assert_eq!(bytes(&Filter::default()), [0; 12]);
        let child = bytes(&Filter { parent: Some(parent), ..Filter::default() });
        let old = postcard::to_allocvec(&Some(parent)).expect("it is written");
        assert_eq!(child[4..4 + old.len()], old, "as an optional id");
        for (parent, flow, against) in
            [(None, None, None), (Some(parent), None, None), (Some(parent), Some(flow), None), (None, None, Some(true))]
        {
            let filter = Filter { parent, flow, against, ..Filter::default() };
            assert_eq!(postcard::from_bytes::<Filter>(&bytes(&filter)).expect("it reads"), filter);
        }
    }
}
