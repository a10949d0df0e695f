//! Claimed work, as a worker gets it.

use super::*;

/// Everything needed to start. No second call is needed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Task {
    pub execution: String,
    pub namespace: String,
    pub lane: String,
    pub kind: String,
    pub priority: u32,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    pub lease: TaskLease,
    pub attempt: TaskAttempt,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_left_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<u64>,
    pub retries_left: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<crate::execution::Checkpoint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<ChildrenOutcome>,
    #[serde(default, skip_serializing_if = "Steps::is_empty")]
    pub steps: Steps,
    /// The flow it is a member of
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<TaskFlow>,
    /// The ends of its upstreams, by the names of their edges
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<TaskInput>,
    /// Names of edges whose upstreams had not ended at the first claim
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs_missing: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskFlow {
    pub id: String,
    /// The key of the work in it
    pub key: String,
}

/// The end of an upstream, under the name of its edge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskInput {
    pub name: String,
    /// The key of the upstream
    pub upstream: String,
    pub execution: String,
    pub outcome: Outcome,
    /// Its result; absent if it has none
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Payload>,
    /// Its result is too large to come along: `read_inputs` gives it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<InputHandle>,
    /// Its record is gone, and its result with it
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub purged: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<InputFailure>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InputHandle {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InputFailure {
    pub category: String,
    pub message: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TaskLease {
    pub id: String,
    /// Goes before the epoch where the two are a fencing token for something outside: after a store has lost commits the
    /// same epoch may be given again, but never the same pair
    #[serde(default)]
    pub generation: u64,
    pub epoch: u64,
    /// Count it from the moment the request was sent
    pub expires_in_ms: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TaskAttempt {
    pub index: u32,
    pub kind: String,
    /// The attempt goes on after a pause
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumed: bool,
    /// Why the one before failed
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<crate::execution::Failure>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ChildrenOutcome {
    pub verdict: String,
    pub children: Vec<ChildOutcome>,
}

/// A child that has not ended, or was purged, has no outcome.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ChildOutcome {
    pub execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
}
