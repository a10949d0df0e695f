//! The registry of workers.

use crate::unique::unique;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// A worker process tells what it is. Optional: a claim does so too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// The pool this process belongs to
    pub worker: String,
    pub instance: String,
    /// Differs from one start of the process to the next
    pub boot_id: String,
    /// `default` unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 64)]
    pub lanes: Option<Vec<String>>,
    /// Any unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 256)]
    pub kinds: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Executions at once
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "unique")]
    pub labels: BTreeMap<String, String>,
    /// 60 seconds unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 5000, maximum = 600000)]
    pub ttl_ms: Option<u64>,
    /// Leases of an earlier start are given to others; true unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abandon: Option<bool>,
    /// Recognises a repeat, which gets the first answer
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Registered {
    pub session: u64,
    pub state: WorkerState,
    /// Leases of an earlier start that go on, with `abandon: false`
    #[serde(default)]
    pub leases: Vec<HeldLease>,
    pub next_in_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkerState {
    Active,
    Draining,
    Drained,
    Dead,
}

/// The worker is alive, and this is what it holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    /// Compared with what the server knows; an empty list says that it holds nothing
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 10000)]
    pub holding: Option<Vec<Holding>>,
    /// Renews everything in `holding`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<u32>,
    /// Recognises a repeat, which gets the first answer
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Holding {
    pub execution: String,
    pub lease: String,
    pub epoch: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Beat {
    pub state: WorkerState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
    /// How long until the drain's deadline, for a worker whose clock is another
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_in_ms: Option<u64>,
    #[serde(default)]
    pub renewed: Vec<RenewedLease>,
    /// Listed, and no longer good
    #[serde(default)]
    pub lost: Vec<LostLease>,
    #[serde(default)]
    pub cancel: Vec<CancelledLease>,
    /// Good, and not listed
    #[serde(default)]
    pub unknown: Vec<HeldLease>,
    /// What this worker should know that came with no reply before
    #[serde(default)]
    pub notices: Vec<crate::work::Notice>,
    /// Notices were dropped before they could be told
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missed: bool,
    pub next_in_ms: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RenewedLease {
    pub execution: String,
    pub expires_in_ms: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LostLease {
    pub execution: String,
    pub epoch: u64,
    pub cause: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CancelledLease {
    pub execution: String,
    pub epoch: u64,
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill_in_ms: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct HeldLease {
    pub execution: String,
    pub kind: String,
    pub lane: String,
    pub lease: String,
    pub epoch: u64,
    pub attempt: u32,
    pub acquired_at: u64,
    pub expires_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<crate::execution::Progress>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Drain {
    pub reason: String,
    pub by: String,
    pub since: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    pub namespace: String,
    pub instance: String,
    pub worker: String,
    pub session: u64,
    pub state: WorkerState,
    pub lanes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<String>>,
    pub capabilities: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub ttl_ms: u64,
    pub registered_at: u64,
    pub last_seen_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead: Option<Dead>,
}

/// Since when a process counts as dead, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Dead {
    pub at: u64,
    /// An operator gave it up; otherwise it was silent for too long, and its next call brings it back
    pub marked: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WorkersQuery {
    pub worker: Option<String>,
    pub lane: Option<String>,
    pub kind: Option<String>,
    pub capability: Option<String>,
    pub state: Option<WorkerState>,
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    pub cursor: Option<String>,
}

/// Which workers: exactly one field is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainTarget {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `key=value`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(default)]
    pub reason: String,
    /// What is left then is given to others
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Of a worker that tells itself; an operator needs none
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    /// Recognises a repeat, which gets the first answer
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// Which workers may take work again: exactly one of the first four fields is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UndrainTarget {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `key=value`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Of a worker that tells itself; an operator needs none
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    /// Recognises a repeat, which gets the first answer
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DrainReply {
    /// The instances that were told
    pub instances: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MarkDead {
    #[serde(default)]
    pub reason: String,
    /// Recognises a repeat, which gets the first answer
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WorkerEnd {
    /// Leases that were given to others
    pub leases: u32,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SessionQuery {
    /// As `POST /v1/workers` gave it
    pub session: Option<u64>,
}
