//! What is read of a flow. No reply carries all of its members.

use super::*;
use crate::execution::{Execution, Order};

/// A flow as it stands.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Flow {
    pub id: String,
    pub namespace: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub tags: BTreeMap<String, String>,
    pub creator: String,
    pub public_flow_state: PublicFlowState,
    /// How it ended, or will when its members have
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<Decided>,
    pub failure_policy: FailurePolicy,
    pub completion_policy: CompletionPolicy,
    pub growth: Growth,
    /// Absent: it is not sealed, and does not finish by itself
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_at: Option<u64>,
    /// When it is cancelled if it is not sealed
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal_by: Option<u64>,
    /// Grows by one with each change of the graph
    pub revision: u64,
    /// How often a replay opened it again
    pub reopens: u32,
    pub summary: Summary,
    /// Members that have not ended
    pub live: u32,
    /// Ended members of all, 0 to 1; absent without members
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// From the first start of a member to the end, or to now
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<u64>,
    pub retention_ms: Keep,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    pub created_at: u64,
    pub updated_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purge_at: Option<u64>,
    /// Another one after every change of the flow or of a member: what `If-Match` compares
    pub etag: String,
    /// Of a read that waited: whether what it waited for has come about
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<bool>,
}

/// What decided the outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Decided {
    pub outcome: FlowOutcome,
    /// `all_terminal`, `member`, `root`, `threshold`, `declared`, `requested`, `deadline`, `never_sealed`, `budget`
    pub cause: String,
    /// The member whose end decided it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub by: String,
    pub at: u64,
    /// Nothing of it lives any more
    pub done: bool,
    /// What becomes of those that live
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<Remaining>,
}

/// Exact totals over all members, purged ones included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Summary {
    pub total_members: u32,
    pub members_waiting: u32,
    pub members_delayed: u32,
    pub members_held: u32,
    pub members_waiting_children: u32,
    pub members_rate_limited: u32,
    pub members_active: u32,
    pub members_suspended: u32,
    pub members_completed: u32,
    pub members_failed: u32,
    pub members_cancelled: u32,
    pub members_expired: u32,
    pub members_skipped: u32,
    /// Those of the cancelled whose cancel was a consequence of something else
    pub members_neutral: u32,
    /// Those of the ended that have no record any more
    pub members_purged: u32,
    /// Members whose end counts against the flow
    pub failures: u32,
    /// Live members that the end of the flow still has to cancel
    pub cancel_owed: u32,
    pub edges_total: u64,
    pub edges_pending: u64,
    pub attempts: u64,
    pub retries: u64,
    pub usage: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_started_at: Option<u64>,
    pub last_change_at: u64,
    /// Grows by one with each commit that changes any of these
    pub change_no: u64,
    /// When they were last recounted and found right
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_no: Option<u64>,
}

/// Which flows. Nothing given means all of the namespace.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct FlowsQuery {
    /// May be given more than once
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<PublicFlowState>,
    pub kind: Option<String>,
    /// `key=value`
    pub tag: Option<String>,
    pub created_from: Option<Moment>,
    pub created_until: Option<Moment>,
    pub finished_from: Option<Moment>,
    pub finished_until: Option<Moment>,
    /// By time of creation; `desc` unless given
    pub order: Option<Order>,
    /// 1 to 1000, 50 unless given
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// As the page before gave it
    pub cursor: Option<String>,
}

/// One page of flows.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Flows {
    pub items: Vec<Flow>,
    /// Ids of those whose records do not read
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<String>,
    /// Where the next page begins; absent exactly at the end
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Whether to wait for a flow.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct FlowQuery {
    /// Waits this long for `until`
    #[param(maximum = 60000)]
    pub wait_ms: Option<u64>,
    /// `done`, or a public state of a flow
    pub until: Option<String>,
}

/// Which members.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MembersQuery {
    /// May be given more than once
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<PublicState>,
    /// Those that count against the flow, or those that do not
    pub against: Option<bool>,
    /// Those that were claimed since they were last opened, or those that were not
    pub begun: Option<bool>,
    /// Children of this execution
    pub parent: Option<String>,
    /// The one with this key
    pub key: Option<String>,
    /// `added` unless given
    pub order: Option<MemberOrder>,
    /// 1 to 1000, 50 unless given
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// As the page before gave it
    pub cursor: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemberOrder {
    /// As they were added
    Added,
    /// By their keys; each page looks at the whole flow
    Key,
}

/// One page of members.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Members {
    pub items: Vec<Execution>,
    /// Ids of those whose records do not read
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<String>,
    /// Where the next page begins; absent exactly at the end
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Which edges, upstream by upstream; those that lead to one member in the order they were added.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EdgesQuery {
    /// The key of the member they leave
    pub from: Option<String>,
    /// The key of the member they lead to
    pub to: Option<String>,
    pub group: Option<String>,
    pub state: Option<EdgeState>,
    /// 1 to 1000, 50 unless given
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// As the page before gave it
    pub cursor: Option<String>,
}

/// One page of edges.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Edges {
    pub items: Vec<Edge>,
    /// Those whose records do not read: the id of the upstream, `#`, and the number among its edges
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<String>,
    /// Where the next page begins; absent exactly at the end
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Edge {
    /// The key of the upstream
    pub from: String,
    /// The key of the downstream
    pub to: String,
    pub group: String,
    pub on: On,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    pub state: EdgeState,
    /// How the upstream ended
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<Resolved>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Resolved {
    pub outcome: Outcome,
    pub reason: String,
    /// The attempt that ended it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    pub at: u64,
}

/// Which groups, member by member.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GroupsQuery {
    pub state: Option<GroupState>,
    /// 1 to 1000, 50 unless given
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// As the page before gave it
    pub cursor: Option<String>,
}

/// Edges to one member that are judged together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Group {
    /// The key of the member they lead to
    pub member: String,
    pub name: String,
    pub policy: GroupPolicy,
    pub then: Then,
    /// Edges in it
    pub n: u32,
    /// How many must be met
    pub needed: u32,
    pub met: u32,
    pub unmet: u32,
    pub pending: u32,
    pub state: GroupState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<u64>,
    /// An operator let the member run without it
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waived: bool,
    /// Upstreams are still to be cancelled, since then
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owed_since: Option<u64>,
}

/// A group, and the first of its edges that are not met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GroupDetail {
    pub group: Group,
    /// The member they lead to
    pub execution: String,
    /// All edges are known; before that it is never decided
    pub sealed: bool,
    /// The first 20 upstreams that have not ended
    pub pending: Vec<Upstream>,
    /// The first 20 upstreams whose end does not meet their edge
    pub unmet: Vec<Upstream>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Upstream {
    pub key: String,
    pub execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_state: Option<PublicState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// A page of what is needed to draw a flow: all nodes come before all edges.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Graph {
    pub id: String,
    pub kind: String,
    pub public_flow_state: PublicFlowState,
    pub revision: u64,
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
    /// Where the next page begins; absent exactly at the end
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A member, as it is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    pub key: String,
    pub execution: String,
    pub kind: String,
    pub public_state: PublicState,
    pub critical: bool,
    pub attempts: u32,
    /// The execution that submitted it as its child
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Why it ended so
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_started_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
}

/// Why a flow is not done: every reason that applies.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FlowExplanation {
    pub id: String,
    pub public_flow_state: PublicFlowState,
    pub at: u64,
    pub done: bool,
    pub reasons: Vec<Reason>,
    /// Live members by public state
    pub live: BTreeMap<String, u32>,
    /// The first 20 of them, each with why it is not running
    pub members: Vec<MemberExplanation>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct MemberExplanation {
    pub key: String,
    pub execution: String,
    pub explanation: Explanation,
}

/// What makes an execution a member of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Membership {
    /// The flow
    pub id: String,
    pub key: String,
    /// Its place in the order in which members were added
    pub number: u32,
    /// A bad end counts against the flow
    pub critical: bool,
    /// Of the edges that lead to it
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// The group that ended it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<EndedBy>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EndedBy {
    /// It was skipped because this group of its own is impossible; the first upstreams that did not meet it
    Dependency { group: String, unmet: Vec<String> },
    /// It was cancelled because this group of another was decided without it
    Sibling { downstream: String, group: String, verdict: GroupState },
}
