//! What is asked of a flow that is there, by clients and by members that run.

use super::*;

/// Members and edges for a flow that is there: all of them or none, and no more than 1,500 of both together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddMembers {
    #[schema(min_items = 1, max_items = 1500)]
    pub members: Vec<NewMember>,
    /// They may also lead to and from members that are there
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1500)]
    pub edges: Vec<NewEdge>,
    /// The edges that lead to the new members are all known; true unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<bool>,
    /// Refused if the graph has changed since
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_revision: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// Edges between members that are there: all of them or none, and no more than 1,500.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddEdges {
    #[schema(min_items = 1, max_items = 1500)]
    pub edges: Vec<NewEdge>,
    /// Refused if the graph has changed since
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_revision: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// What a flow has now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Grown {
    /// Ids of the members of the call by their keys, in the order given
    #[serde(default, skip_serializing_if = "MemberIds::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub members: MemberIds,
    /// Keys of those that were there before
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members_existed: Vec<String>,
    /// Edges of the call that were there before
    pub edges_existed: u32,
    pub revision: u64,
}

/// Says that all edges to these members are known. Without keys: to all members, and the flow may finish.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Seal {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 1000)]
    pub keys: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Sealed {
    /// There was nothing to seal
    pub already: bool,
}

/// Declares the outcome of a flow whose completion policy is `declared`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Finish {
    pub outcome: FlowOutcome,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Finished {
    pub outcome: FlowOutcome,
    /// Nothing of it lived; otherwise it ends when its members have
    pub done: bool,
}

/// Ends a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelFlow {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What becomes of its members; `cancel_all` unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<CancelPolicy>,
    /// With `cancel_all`; `immediate` unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<CancelMode>,
    /// With `graceful`; 10 seconds unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// Waits this long until nothing of it lives
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 60000)]
    pub wait_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CancelPolicy {
    CancelAll,
    /// Those that run may end their attempt
    LetActiveFinish,
    /// Members run on; nothing is added any more
    FlowOnly,
}

/// How far the end of a flow is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FlowCancelled {
    pub public_flow_state: PublicFlowState,
    pub outcome: FlowOutcome,
    /// What is done with its members; a repeat can only make it stronger
    pub policy: CancelPolicy,
    pub reason: String,
    /// Members that were cancelled
    pub cancelled: u32,
    /// Members that still have to be cancelled
    pub owed: u32,
    /// Members that a worker holds
    pub active: u32,
    /// It was ending before this call
    pub already: bool,
    /// Nothing of it lives any more
    pub done: bool,
}

/// Changes tags, and stops growth; all or nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeFlow {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "unique")]
    pub set: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// `fixed`, which is for good
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<Growth>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FlowChanged {
    pub tags: BTreeMap<String, String>,
    pub growth: Growth,
}

/// Replays every member that counts against the flow, in a bulk job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayFlow {
    #[serde(default)]
    pub reason: String,
    /// A new deadline for each member; the submitted ones unless given. That of the flow is dropped if it has passed
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_in_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Moment>,
    /// Drops the deadlines of the members, and that of the flow if it has passed
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_deadline: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// `clear` unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<StepsOnReplay>,
    /// `reopen` unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downstream: Option<crate::execution::Downstream>,
    /// Waits this long for the end of the job, which goes on by itself
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 60000)]
    pub wait_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// A running member adds members and edges to its own flow, no more than 1,500 of both together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddOwnMembers {
    pub execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    #[schema(min_items = 1, max_items = 1500)]
    pub members: Vec<NewMember>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1500)]
    pub edges: Vec<NewEdge>,
    /// The edges that lead to the new members are all known; true unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<bool>,
    /// Refused if the graph has changed since
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_revision: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// A running member adds edges to its own flow, no more than 1,500.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddOwnEdges {
    pub execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    #[schema(min_items = 1, max_items = 1500)]
    pub edges: Vec<NewEdge>,
    /// Refused if the graph has changed since
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_revision: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// A running member says that all edges to these members of its own flow are known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SealOwnMembers {
    pub execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    #[schema(min_items = 1, max_items = 1000)]
    pub keys: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// A running member declares the outcome of its own flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FinishOwnFlow {
    pub execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    pub outcome: FlowOutcome,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// One input of work that is held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadInput {
    pub execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// That of the edge
    pub name: String,
    /// The key of the member it comes from, where several hand over under one name
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
}

/// The inputs under one name of work that is held: those that did not come with the claim too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadInputs {
    pub execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// That of the edges
    pub name: String,
    /// As the page before gave it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u32>,
}

/// Some of the inputs under a name, in the order of their edges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Inputs {
    pub items: Vec<InputRead>,
    /// There are more, after this
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InputRead {
    /// The upstream
    pub execution: String,
    pub outcome: Outcome,
    /// Its result, if it has one
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Payload>,
}
