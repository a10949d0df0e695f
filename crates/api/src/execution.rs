//! Executions: what is submitted and what is read; what is asked of them is in `steer`.

mod steer;

pub use steer::*;

use crate::payload::Payload;
use crate::time::Moment;
use crate::unique::unique;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// An execution to be. Only the kind is required.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Submit {
    /// What is to be done: the worker that handles this kind does it
    #[schema(example = "invoice.send")]
    pub kind: String,
    /// The queue it waits in; `default` unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "mail")]
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
    /// A second submission with this key never makes a second execution
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
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
    /// Executions with the same key are placed together
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_key: Option<Payload>,
    /// W3C trace context, handed to the worker; the `traceparent` header unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Of a child of a member of a flow: `none` keeps it out of that flow
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<OwnFlow>,
    /// Of a child that joins the flow of its parent: whether a bad end counts against the flow; true unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical: Option<bool>,
}

/// The flow of a child that does not join that of its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OwnFlow {
    None,
}

/// How it is retried, how long it may run and how long it is kept. What is not given comes from the server's defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Active time of one attempt
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_timeout_ms: Option<u64>,
    /// Lost leases before it fails
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_reclaims: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_replays: Option<u32>,
    /// How long it is kept after its end
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_ms: Option<Keep>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_ttl_ms: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Jitter>,
    /// Categories that are retried; empty means every one
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_on: Option<Vec<String>>,
    /// Categories that are never retried; wins over `retry_on`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub never_on: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Backoff {
    Exponential {
        initial_ms: u64,
        max_ms: u64,
        /// 1 to 10, at most three decimals
        multiplier: f64,
    },
    Fixed {
        delay_ms: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    None,
    Equal,
    Full,
}

/// A time to keep something for, or `forever`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Keep {
    Ms(u64),
    Word(Forever),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Forever {
    Forever,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Submitted {
    pub id: String,
    pub public_state: PublicState,
    /// The idempotency key was bound already; `id` is the execution it stands for
    pub duplicate: bool,
    /// That execution has been purged
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub purged: bool,
}

/// Many submissions. With `atomic` all of them exist afterwards or none.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitBatch {
    #[schema(min_items = 1, max_items = 1000)]
    pub items: Vec<Submit>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub atomic: bool,
}

/// The one word that lists, counts and filters use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PublicState {
    Waiting,
    Delayed,
    Held,
    WaitingChildren,
    RateLimited,
    Active,
    Suspended,
    Completed,
    Failed,
    Cancelled,
    Expired,
    Skipped,
}

impl PublicState {
    pub const ALL: [PublicState; 12] = [
        PublicState::Waiting,
        PublicState::Delayed,
        PublicState::Held,
        PublicState::WaitingChildren,
        PublicState::RateLimited,
        PublicState::Active,
        PublicState::Suspended,
        PublicState::Completed,
        PublicState::Failed,
        PublicState::Cancelled,
        PublicState::Expired,
        PublicState::Skipped,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            PublicState::Waiting => "waiting",
            PublicState::Delayed => "delayed",
            PublicState::Held => "held",
            PublicState::WaitingChildren => "waiting_children",
            PublicState::RateLimited => "rate_limited",
            PublicState::Active => "active",
            PublicState::Suspended => "suspended",
            PublicState::Completed => "completed",
            PublicState::Failed => "failed",
            PublicState::Cancelled => "cancelled",
            PublicState::Expired => "expired",
            PublicState::Skipped => "skipped",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    pub const fn is_terminal(self) -> bool {
        use PublicState::{Cancelled, Completed, Expired, Failed, Skipped};
        matches!(self, Completed | Failed | Cancelled | Expired | Skipped)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Success,
    Failed,
    Cancelled,
    Expired,
    Skipped,
}

impl Outcome {
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Success => "success",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
            Outcome::Expired => "expired",
            Outcome::Skipped => "skipped",
        }
    }
}

/// Everything about one execution but its payloads, which come when asked for.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Execution {
    pub id: String,
    pub namespace: String,
    pub lane: String,
    pub kind: String,
    pub priority: u32,
    pub tags: BTreeMap<String, String>,
    pub capabilities: Vec<String>,
    pub public_state: PublicState,
    pub dimensions: Dimensions,
    pub holds: Vec<Hold>,
    pub creator: String,
    /// Attempts ever begun
    pub attempts: u32,
    pub retries_used: u32,
    pub max_retries: u32,
    pub reclaims: u32,
    pub replays: u32,
    pub epoch: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// How it ended
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// Of the last attempt, if it failed
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The flow it is a member of, and as what
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<crate::flow::Membership>,
    pub children: u32,
    /// Recorded steps
    pub steps: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_key: Option<Payload>,
    /// As it was resolved when it was submitted; not in lists
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    pub created_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_started_at: Option<u64>,
    /// Until then it waits
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<u64>,
    pub changed_at: u64,
    pub updated_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purge_at: Option<u64>,
    /// What scanners failed at, by timer
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trouble: Vec<Trouble>,
    pub revision: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// The first 1000, without their payloads
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_list: Option<Vec<Attempt>>,
}

/// Failures of a scanner on one timer, in a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Trouble {
    pub scanner: String,
    pub timer: String,
    pub fails: u32,
    pub first_at: u64,
    pub last_at: u64,
    pub last_error: String,
    /// Absent if it was given up
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_at: Option<u64>,
    /// The id of the parked item, if it is parked
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up: Option<GivenUp>,
}

/// Who decided that a timer is not to fire, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GivenUp {
    pub by: String,
    pub reason: String,
    pub at: u64,
}

/// Where it stands, seen from seven sides.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Dimensions {
    pub phase: String,
    pub ownership: String,
    pub eligibility: String,
    pub blocking_reason: String,
    pub outcome: String,
    pub attempt_state: String,
    pub cancellation: String,
}

/// A stored reason why it may not run.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Hold {
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// Of children and of dependencies: how many have not ended
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u32>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Lease {
    pub id: String,
    pub worker: String,
    pub instance: String,
    pub epoch: u64,
    pub acquired_at: u64,
    pub expires_at: u64,
}

/// A cancel that its worker has been asked to act on.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CancelState {
    pub reason: String,
    pub by: String,
    pub requested_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill_at: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    pub at: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Ended {
    pub outcome: Outcome,
    pub reason: String,
    pub by: String,
    pub at: u64,
    /// The attempt that ended it; absent if none did
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Failure {
    pub category: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Payload>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Checkpoint {
    pub value: Payload,
    pub attempt: u32,
    pub at: u64,
}

/// One run of an execution.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    pub index: u32,
    pub kind: String,
    pub state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    pub started_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// Leased time only
    pub active_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_left_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    pub leases: Vec<Episode>,
    /// Older leases that are no longer listed
    pub leases_dropped: u32,
}

/// One lease of an attempt.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Episode {
    pub epoch: u64,
    pub lease: String,
    pub worker: String,
    pub instance: String,
    pub from: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// Whom to explain it for.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ExplainQuery {
    /// Why this worker does not get it; any worker unless given
    pub instance: Option<String>,
}

/// What to read of one execution, and whether to wait for it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GetQuery {
    /// Payloads to bring along, joined by commas: `input`, `result`, `checkpoint`, `attempts`
    pub include: Option<String>,
    /// Waits this long for `until`
    #[param(maximum = 60000)]
    pub wait_ms: Option<u64>,
    /// `done`, or a public state
    pub until: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WaitQuery {
    /// Waits this long for the end
    #[param(maximum = 60000)]
    pub wait_ms: Option<u64>,
}

/// Which executions. Nothing given means all of the namespace.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// May be given more than once
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<PublicState>,
    pub lane: Option<String>,
    pub kind: Option<String>,
    /// `key=value`
    pub tag: Option<String>,
    pub parent: Option<String>,
    /// Members of this flow, in the order they were added
    pub flow: Option<String>,
    /// Those whose end counts against their flow, or those of which that is not so
    pub against: Option<bool>,
    /// Held by this worker instance
    pub worker: Option<String>,
    /// The text of the key, or `b64:` and its bytes in base64
    pub concurrency_key: Option<String>,
    pub created_from: Option<Moment>,
    pub created_until: Option<Moment>,
    pub finished_from: Option<Moment>,
    pub finished_until: Option<Moment>,
    pub updated_since: Option<Moment>,
    /// By time of creation; `desc` unless given
    pub order: Option<Order>,
    /// 1 to 1000, 50 unless given
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// As the page before gave it
    pub cursor: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    Asc,
    Desc,
}

/// Which executions to count, and by what.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CountQuery {
    /// Joined by commas: `lane`, `kind`, `state` (or `public_state`), `namespace`
    pub group_by: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<PublicState>,
    pub lane: Option<String>,
    pub kind: Option<String>,
    /// `key=value`
    pub tag: Option<String>,
    pub parent: Option<String>,
    /// Members of this flow
    pub flow: Option<String>,
    /// Those whose end counts against their flow, or those of which that is not so
    pub against: Option<bool>,
    pub worker: Option<String>,
    /// The text of the key, or `b64:` and its bytes in base64
    pub concurrency_key: Option<String>,
    pub created_from: Option<Moment>,
    pub created_until: Option<Moment>,
    pub finished_from: Option<Moment>,
    pub finished_until: Option<Moment>,
    pub updated_since: Option<Moment>,
}

/// Numbers of executions, exact unless `at_least` is true.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Counts {
    pub total: u64,
    pub groups: Vec<Count>,
    /// The count took too long and was ended: every number is a lower bound
    #[serde(default)]
    pub at_least: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Count {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<PublicState>,
    pub count: u64,
}

/// Which attempts, and whether with what they left.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AttemptsQuery {
    /// 1 to 1000, 50 unless given
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// As the page before gave it
    pub cursor: Option<String>,
    /// Payloads to bring along, joined by commas: `result`, `detail`. Pages with them may be shorter
    pub include: Option<String>,
}

/// What happened to an execution, in order.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct History {
    pub items: Vec<HistoryEntry>,
    /// Old entries of the time of this page that are no longer kept
    pub dropped: u32,
    /// Where the next page begins; absent exactly at the end
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct HistoryEntry {
    pub at: u64,
    pub what: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Why an execution is not running: every reason that applies, in order.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    pub public_state: PublicState,
    pub at: u64,
    pub running: bool,
    pub reasons: Vec<Reason>,
    /// The flow that it is a member of
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// Its key in that flow
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The earliest moment at which a reason clears by time
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_time: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Reason {
    pub code: String,
    /// For people
    pub text: String,
    #[schema(value_type = Object)]
    pub detail: serde_json::Map<String, serde_json::Value>,
    /// What ends it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clears: Option<String>,
}
