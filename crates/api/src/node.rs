//! The deployment and its nodes: version, readiness, durability, what is going on.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Version {
    pub version: String,
    /// How it was built: with debug assertions or for release, and for which machine
    #[serde(default)]
    pub build: String,
    pub store: String,
    pub features: Vec<String>,
}

/// Whether this node takes work, and if not why.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    pub ready: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Capabilities {
    pub durability: Durability,
    pub partitions: u16,
    pub limits: Limits,
}

/// What an acknowledgement means on this store, as it is set now.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Durability {
    pub store: String,
    pub level: String,
    pub acknowledged: String,
    pub can_lose: Vec<String>,
    /// False if the store does not let its user see the settings that decide it
    #[serde(default)]
    pub verified: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    pub input_bytes: u64,
    pub result_bytes: u64,
    pub checkpoint_bytes: u64,
    pub step_bytes: u64,
    pub batch_items: u64,
    pub batch_bytes: u64,
    pub claim_max: u64,
    pub wait_ms: u64,
    #[serde(default)]
    pub flow: FlowLimits,
}

/// How large flows may be.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct FlowLimits {
    pub members: u64,
    pub edges: u64,
    /// That lead to one member, and that leave one
    pub edges_per_member: u64,
    pub groups_per_member: u64,
    /// In one call
    pub submit_members: u64,
    pub submit_edges: u64,
    pub key_bytes: u64,
    pub input_name_bytes: u64,
    pub group_name_bytes: u64,
    /// Inputs of one member that come with its claim; the others are read when asked for
    pub inputs_inline_bytes: u64,
    /// How long a flow may stay unsealed, unless it says otherwise
    pub seal_by_ms: u64,
}

/// How the node that answers is configured. Empty if it was not told, as inside of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Configuration {
    pub items: Vec<Setting>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Setting {
    pub key: String,
    /// As it would be configured; `***` for a secret
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// What holds if there is no value, in words
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<String>,
    /// `built-in`, a file and its line, a variable or a flag
    pub origin: String,
}

/// A namespace and how many executions it has, exactly unless `at_least` is true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Namespace {
    pub name: String,
    pub executions: u64,
    /// By public state; those that none is in are left out
    pub states: BTreeMap<String, u64>,
    /// The count took too long and was ended: every number is a lower bound
    #[serde(default)]
    pub at_least: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Nodes {
    pub items: Vec<Node>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Node {
    pub id: String,
    pub name: String,
    pub version: String,
    pub started_at: u64,
    pub seen_at: u64,
    pub live: bool,
    /// Those whose timers it looks after
    pub partitions: Vec<u16>,
    /// Filters of its scanners; none if they handle everything
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<NodeFilter>,
    /// How late its scanners are; told of the node that answers
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_ms: Option<u64>,
}

/// Which items scanners of a node handle: those of one namespace, those with one tag, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeFilter {
    /// Absent for all scanners that have no filter of their own
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scanner: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `key=value`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// A wish that a node drains and stops, as on a signal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainNode {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DrainingNode {
    /// The id of the node, however it was named
    pub node: String,
    pub draining: bool,
}

/// What is going on in a namespace, as the node that answers has seen it, with counts from the store.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    pub at: u64,
    pub node: String,
    pub uptime_ms: u64,
    /// The last 1, 5 and 15 minutes
    pub windows: Vec<Window>,
    /// By name
    pub lanes: Vec<LaneStats>,
    pub workers: WorkerCounts,
    /// Active executions, the longest running first
    pub slowest: Vec<Running>,
    /// Failed attempts, the newest first
    pub errors: Vec<RecentFailure>,
    /// What the scanners of this node have to do, by their names
    #[serde(default)]
    pub scanners: Vec<ScannerStats>,
    /// Partitions of the store
    #[serde(default)]
    pub partitions: u32,
    /// Partitions whose timers this node looks after
    #[serde(default)]
    pub partitions_claimed: u32,
    /// There are more namespaces than are counted for one answer; name one to see all of it
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// Rates and latencies of a stretch of time that ends now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Window {
    pub minutes: u32,
    pub submitted_per_s: f64,
    pub claimed_per_s: f64,
    /// Ended with success
    pub completed_per_s: f64,
    /// Ended without
    pub failed_per_s: f64,
    pub retried_per_s: f64,
    /// From claimable to claimed
    pub queue_wait: Latency,
    /// From claimed to settled
    pub run: Latency,
    /// From submitted to ended
    pub end_to_end: Latency,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Latency {
    pub count: u64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LaneStats {
    pub lane: String,
    pub waiting: u64,
    pub active: u64,
    pub delayed: u64,
    /// Held, or waiting for children
    pub blocked: u64,
    /// How long the oldest claimable one waits
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_ms: Option<u64>,
    /// Of the last minute
    pub submitted_per_s: f64,
    pub completed_per_s: f64,
    pub failed_per_s: f64,
    /// Workers that asked for this lane lately
    pub workers: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScannerStats {
    pub scanner: String,
    /// When the earliest item is due that it knows of; one that has passed waits to be handled
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<u64>,
    /// How late it is
    pub lag_ms: u64,
    /// Items that it handled since the node began
    pub processed: u64,
    /// Items that could not be handled, and are tried again or parked
    pub errors: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerCounts {
    pub active: u32,
    pub draining: u32,
    pub dead: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Running {
    pub execution: String,
    pub kind: String,
    pub lane: String,
    pub instance: String,
    pub attempt: u32,
    pub running_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RecentFailure {
    pub execution: String,
    pub kind: String,
    pub lane: String,
    pub attempt: u32,
    pub category: String,
    pub message: String,
    pub at: u64,
}
