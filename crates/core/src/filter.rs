//! Which executions are meant: one judgement for lists, counts and bulk jobs.

use crate::error::Rejection;
use crate::id::ExecutionId;
use crate::limits::FILTER_STATES_MAX;
use crate::record::Execution;
use crate::record::execution::{PublicState, State};
use crate::text::Text;
use crate::time::Time;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Nothing set means all of the namespace. Ranges include both ends.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Filter {
    /// Any of these; empty means every one.
    pub states: Vec<PublicState>,
    pub lane: Option<Text>,
    pub kind: Option<Text>,
    pub tag: Option<(Text, Text)>,
    pub parent: Option<ExecutionId>,
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
            && self.concurrency_key.as_ref().is_none_or(|key| spec.concurrency_key.as_ref() == Some(key))
            && self.created_from.is_none_or(|from| hot.created_at >= from)
            && self.created_until.is_none_or(|until| hot.created_at <= until)
            && self.updated_since.is_none_or(|since| hot.updated_at >= since)
            && self.finished_from.is_none_or(|from| finished_at.is_some_and(|at| at >= from))
            && self.finished_until.is_none_or(|until| finished_at.is_some_and(|at| at <= until))
    }
}
