//! Inputs about flows.

use super::{Fence, Submit, When};
use crate::flow::plan::Plan;
use crate::id::{ExecutionId, FlowId};
use crate::record::edge::On;
use crate::record::flow::{CompletionPolicy, FailurePolicy, FlowOutcome, Growth, Remaining, Summary};
use crate::record::member::{GroupPolicy, Then};
use crate::text::Text;
use crate::time::Time;
use bytes::Bytes;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A flow as a caller describes it. `Plan::new` checks it and lays it out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewFlow {
    pub kind: Text,
    pub name: Option<Text>,
    pub tags: BTreeMap<Text, Text>,
    pub failure: FailurePolicy,
    pub completion: CompletionPolicy,
    pub growth: Growth,
    pub seal: bool,
    /// How long it may stay unsealed; that of the deployment unless given.
    pub seal_by_ms: Option<u64>,
    pub deadline: Option<When>,
    pub retention_ms: Option<u64>,
    pub idempotency_key: Option<Bytes>,
    pub idempotency_ttl_ms: u64,
    #[serde(skip)]
    pub trace: Option<Text>,
    pub members: Vec<NewMember>,
    pub edges: Vec<NewEdge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewMember {
    pub key: Text,
    pub critical: bool,
    /// Declared on the member; the edges of a group need not repeat its policy.
    pub groups: Vec<NewGroup>,
    pub submit: Submit,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewGroup {
    pub name: Text,
    pub policy: GroupPolicy,
    pub then: Then,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewEdge {
    pub from: Text,
    pub to: Text,
    pub group: Text,
    /// That of the group; all of its edges, if nobody says otherwise.
    pub policy: Option<(GroupPolicy, Then)>,
    pub on: On,
    pub input: Option<Text>,
}

/// Makes a flow, or goes on with one that was too large for one commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SubmitFlow {
    /// Minted by the engine, in the partition where it is placed.
    #[serde(skip)]
    pub id: Option<FlowId>,
    pub plan: Arc<Plan>,
    /// The first piece of the plan that this commit adds.
    #[serde(skip)]
    pub from: u32,
}

/// A running member in whose name its own flow is changed.
pub type Within = Option<(ExecutionId, Fence)>;

/// Adds members and edges to a flow that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GrowFlow {
    pub flow: FlowId,
    pub members: Vec<NewMember>,
    pub edges: Vec<NewEdge>,
    /// The edges of the new members are all known.
    pub seal: bool,
    pub expected_revision: Option<u64>,
    pub within: Within,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SealFlow {
    pub flow: FlowId,
    /// These members; without any, all of them and then the flow.
    pub keys: Option<Vec<Text>>,
    pub within: Within,
    /// All members up to this one were found fit to be sealed: the look at a large flow goes on behind it.
    #[serde(skip)]
    pub checked: Option<ExecutionId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CancelFlow {
    pub flow: FlowId,
    pub remaining: Remaining,
    pub reason: Text,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FinishFlow {
    pub flow: FlowId,
    pub outcome: FlowOutcome,
    pub reason: Text,
    pub within: Within,
}

/// Changes tags, and stops growth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeFlow {
    pub flow: FlowId,
    pub set: BTreeMap<Text, Text>,
    pub remove: Vec<Text>,
    pub growth: Option<Growth>,
    pub reason: Text,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PurgeFlow {
    pub flow: FlowId,
    pub reason: Text,
}

/// The engine has recounted the members of a flow while it stood at `change_no`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerifyFlow {
    pub flow: FlowId,
    pub due: Time,
    pub change_no: u64,
    pub counted: Box<Summary>,
    /// Every member could be read, so that their edges are counted too.
    pub edges: bool,
    pub now: Time,
}

/// The engine has compared members that wait with their upstreams, and names the upstreams that have ended although an
/// edge of theirs is pending, each with the first such edge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditFlow {
    pub flow: FlowId,
    pub due: Time,
    pub ended: Vec<(ExecutionId, u32)>,
}

/// Looks at a member with a group that has owed cancels for long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReconcileGroup {
    pub id: ExecutionId,
    /// Of the entry that led to it.
    pub due: Time,
    /// When that entry was seen.
    pub seen_at: Time,
}
