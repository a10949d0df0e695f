//! Flows: graphs of executions. Here is what is submitted and added; how they are judged is in `policy`, what is read in
//! `read`, and what is asked of a flow that is there in `steer`.

mod ids;
mod policy;
mod read;
mod steer;

pub use ids::MemberIds;
pub use policy::*;
pub use read::*;
pub use steer::*;

use crate::execution::{CancelMode, Explanation, Keep, Outcome, Policy, PublicState, Reason, StepsOnReplay, Submit};
use crate::payload::Payload;
use crate::time::Moment;
use crate::unique::unique;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// A flow to be, with its members and the edges between them. Only the kind is required.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object with `kind`, `members` and `edges`")]
pub struct SubmitFlow {
    #[schema(example = "etl")]
    pub kind: String,
    /// For people
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "unique")]
    pub tags: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 10000)]
    pub members: Vec<NewMember>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 50000)]
    pub edges: Vec<NewEdge>,
    /// `isolate` unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
    /// `all_terminal` unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_policy: Option<CompletionPolicy>,
    /// `dynamic` unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<Growth>,
    /// All members and edges are here; true unless given. Until it is sealed a flow does not finish
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<bool>,
    /// How long it may stay unsealed before it is cancelled
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal_by_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_in_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Moment>,
    /// How long it is kept after its end
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_ms: Option<Keep>,
    /// A second submission with this key never makes a second flow
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_ttl_ms: Option<u64>,
    /// W3C trace context; the `traceparent` header unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// A member to be: an execution under a key of its flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMember {
    /// Unique in the flow and never used again; a repeat of the same member under it changes nothing
    pub key: String,
    /// Whether a bad end counts against the flow; true unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical: Option<bool>,
    /// How the edges that lead to it are judged; a group that is not declared waits for all of its edges
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 16)]
    pub groups: Vec<NewGroup>,
    /// What is to be done: the worker that handles this kind does it
    pub kind: String,
    /// The queue it waits in; `default` unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    /// 0 to 9000, larger first
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 9000)]
    pub priority: Option<u32>,
    /// What a worker must offer to get it
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "unique")]
    pub tags: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Moment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_in_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Moment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_key: Option<Payload>,
    /// W3C trace context, handed to the worker; that of the flow unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

impl NewMember {
    /// This execution as a member under a key. Its idempotency key is that key, so that one of its own is dropped.
    pub fn new(key: impl Into<String>, submit: Submit) -> Self {
        Self {
            key: key.into(),
            critical: submit.critical,
            groups: Vec::new(),
            kind: submit.kind,
            lane: submit.lane,
            input: submit.input,
            priority: submit.priority,
            capabilities: submit.capabilities,
            tags: submit.tags,
            delay_ms: submit.delay_ms,
            start_at: submit.start_at,
            deadline_in_ms: submit.deadline_in_ms,
            deadline_at: submit.deadline_at,
            policy: submit.policy,
            concurrency_key: submit.concurrency_key,
            trace: submit.trace,
        }
    }

    /// The execution that it is, without what makes it a member.
    pub fn submit(self) -> Submit {
        Submit {
            kind: self.kind,
            lane: self.lane,
            input: self.input,
            priority: self.priority,
            capabilities: self.capabilities,
            tags: self.tags,
            delay_ms: self.delay_ms,
            start_at: self.start_at,
            deadline_in_ms: self.deadline_in_ms,
            deadline_at: self.deadline_at,
            policy: self.policy,
            concurrency_key: self.concurrency_key,
            trace: self.trace,
            ..Submit::default()
        }
    }
}

/// A group of edges that lead to one member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewGroup {
    /// `main` unless given, which is the group of edges that name none
    #[serde(default = "main_group")]
    pub name: String,
    pub policy: GroupPolicy,
    /// What becomes of upstreams that still run when it is decided; `let_run` for `all_of`, to be given for the others
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Then>,
}

fn main_group() -> String {
    "main".to_string()
}

/// An edge: `to` waits for the end of `from`. Both are keys of members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewEdge {
    pub from: String,
    pub to: String,
    /// The group of `to` that it is in; `main` unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Which end of `from` meets it; `success` unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<On>,
    /// Hands the end of `from` to `to` under this name; a name that ends in `[]` collects a list
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// That of its group, if no member declares it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<GroupPolicy>,
    /// With `policy`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Then>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FlowSubmitted {
    pub id: String,
    /// Ids of the members by their keys, in the order given
    #[schema(value_type = BTreeMap<String, String>)]
    pub members: MemberIds,
    /// Grows by one with each change of the graph
    pub revision: u64,
    pub public_flow_state: PublicFlowState,
    /// The idempotency key was bound already; `id` is the flow it stands for
    pub duplicate: bool,
    /// That flow has been purged
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub purged: bool,
}
