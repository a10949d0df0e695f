//! Rejections: answers that say no. A rejection changes nothing and is not a failure of the engine.

use crate::flow::problem::Problem;
use crate::id::{CommitId, ExecutionId, PartitionId};
use crate::record::execution::{EndCause, Outcome, PublicState, Reason};
use crate::record::flow::FlowOutcome;
use crate::record::member::GroupState;
use crate::text::Text;
use crate::time::Time;
use std::fmt;

/// Why a command was refused. Each has one stable code, the same on every store and over every interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    InvalidArgument {
        field: &'static str,
        why: &'static str,
    },
    OutOfRange {
        field: &'static str,
        min: u64,
        max: u64,
        got: u64,
    },
    PayloadTooLarge {
        field: &'static str,
        limit: u64,
        got: u64,
    },
    InvalidId {
        expected: &'static str,
    },
    DeadlineInPast,
    FenceRequired,
    Forbidden {
        needs: &'static str,
    },
    NotAChild {
        id: ExecutionId,
    },
    LeaseExpired {
        at: Time,
    },
    LeaseRevoked {
        at: Time,
        reason: Text,
    },
    LeaseLost {
        cause: EndCause,
        at: Time,
    },
    Cancelled {
        at: Time,
        reason: Text,
        by: Text,
    },
    StaleLease {
        current_epoch: u64,
    },
    ExecutionNotActive {
        public_state: PublicState,
        epoch: u64,
    },
    ExecutionNotFound,
    AttemptNotFound,
    StepNotFound,
    DeadLetterNotFound,
    BulkNotFound,
    /// Of the nodes that live.
    NodeNotFound,
    KeyNotFound,
    NameTaken,
    ExecutionTerminal {
        outcome: Outcome,
        reason: Reason,
        epoch: u64,
        attempt: Option<u32>,
    },
    ExecutionNotTerminal {
        public_state: PublicState,
        previous: Option<(Outcome, Option<u32>)>,
    },
    NotDelayed {
        public_state: PublicState,
    },
    NotClaimable {
        public_state: PublicState,
    },
    CancelRequested {
        kill_in_ms: Option<u64>,
    },
    IdempotencyMismatch {
        existing: Option<ExecutionId>,
    },
    ReplayLimit {
        max: u32,
    },
    /// There would be more of `what` than an execution may have.
    LimitExceeded {
        what: &'static str,
        max: u64,
    },
    /// It is not as the caller saw it. `current` is absent while the change before is not committed yet.
    RevisionMismatch {
        current: Option<CommitId>,
    },
    /// An item of a call that is done whole or not at all; nothing of the call was done.
    AtItem {
        index: u32,
        rejection: Box<Rejection>,
    },
    /// What the key of a submission stands for is in another partition. The engine asks there; no caller sees it.
    Elsewhere {
        partition: PartitionId,
    },
    WorkerNotFound,
    /// An operator has given the worker process up; it starts anew with another boot id.
    WorkerDead {
        at: Time,
        reason: Text,
    },
    /// Another start of the worker process has taken its name.
    InstanceSuperseded {
        session: u64,
    },
    InvalidCursor,
    FlowNotFound,
    /// The flow has no such group.
    GroupNotFound,
    /// It takes no members or edges, and if it is ending or cancelled no replays: `why` is its state, or `fixed`.
    FlowClosed {
        why: &'static str,
    },
    FlowTerminal {
        outcome: FlowOutcome,
        cause: &'static str,
    },
    FlowNotTerminal {
        state: &'static str,
    },
    GroupDecided {
        verdict: GroupState,
    },
    DownstreamBegun,
    /// The member would be skipped again: edges that are not met, by the keys of their ends.
    StillImpossible {
        edges: Vec<(Text, Text)>,
    },
    FlowRevisionMismatch {
        current: u64,
    },
    /// A graph that is not right; the problems of the first check that found any.
    BadGraph {
        problems: Vec<Problem>,
    },
    /// More members are to be reordered than one commit takes, or than are looked at to find out whether there is a cycle.
    GraphTooLarge {
        visited: u32,
    },
    /// A stored policy is of a later version.
    UnknownPolicy {
        what: Text,
    },
    /// Nothing is wrong with the command and nothing has changed; it can be repeated later.
    Busy {
        retry_after_ms: u64,
        cause: BusyCause,
    },
    /// The store could not be reached, or did not say whether the command happened.
    Unavailable {
        retry_after_ms: u64,
        outcome_unknown: bool,
    },
    /// A record is in a format that a later version writes. A node of that version can carry the command out.
    NewerFormat {
        what: Text,
    },
    /// A broken invariant or a damaged record; never caused by what a caller sent.
    Internal {
        what: Text,
    },
}

/// What a client does about a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The call is wrong; do not repeat it.
    Fix,
    /// Abandon this work; somebody else has it or nobody may.
    Stop,
    /// Look first, then decide.
    Conflict,
    /// The same call may succeed after the given time.
    Later,
}

/// Why a command could not be taken now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyCause {
    /// More work waits than there is room for in the node.
    Overload,
    /// The store answered that it did not commit.
    StoreRefused,
    /// The store has no room: its disk is full, or its memory has reached a limit.
    StoreFull,
    /// Other nodes keep changing the records that the command needs.
    Contended,
}

impl BusyCause {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overload => "overload",
            Self::StoreRefused => "store_refused",
            Self::StoreFull => "store_full",
            Self::Contended => "contended",
        }
    }
}

impl Rejection {
    pub const fn invalid(field: &'static str, why: &'static str) -> Self {
        Self::InvalidArgument { field, why }
    }

    pub fn internal(what: impl Into<Text>) -> Self {
        Self::Internal { what: what.into() }
    }

    /// Whether the refusal is about a record that only a later version can act on, and that is not damaged.
    pub const fn is_of_later_version(&self) -> bool {
        matches!(self, Self::UnknownPolicy { .. } | Self::NewerFormat { .. })
    }

    /// The stable name of this rejection.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidArgument { .. } | Self::OutOfRange { .. } => "invalid_argument",
            Self::PayloadTooLarge { .. } => "payload_too_large",
            Self::InvalidId { .. } => "invalid_id",
            Self::DeadlineInPast => "deadline_in_past",
            Self::FenceRequired => "fence_required",
            Self::Forbidden { .. } => "forbidden",
            Self::NotAChild { .. } => "not_a_child",
            Self::LeaseExpired { .. } => "lease_expired",
            Self::LeaseRevoked { .. } => "lease_revoked",
            Self::LeaseLost { .. } => "lease_lost",
            Self::Cancelled { .. } => "cancelled",
            Self::StaleLease { .. } => "stale_lease",
            Self::ExecutionNotActive { .. } => "execution_not_active",
            Self::ExecutionNotFound => "execution_not_found",
            Self::AttemptNotFound
            | Self::StepNotFound
            | Self::DeadLetterNotFound
            | Self::BulkNotFound
            | Self::NodeNotFound => "not_found",
            Self::KeyNotFound => "key_not_found",
            Self::NameTaken => "name_taken",
            Self::ExecutionTerminal { .. } => "execution_terminal",
            Self::ExecutionNotTerminal { .. } => "execution_not_terminal",
            Self::NotDelayed { .. } => "not_delayed",
            Self::NotClaimable { .. } => "not_claimable",
            Self::CancelRequested { .. } => "cancel_requested",
            Self::IdempotencyMismatch { .. } => "idempotency_mismatch",
            Self::ReplayLimit { .. } => "replay_limit",
            Self::LimitExceeded { .. } => "limit_exceeded",
            Self::RevisionMismatch { .. } => "revision_mismatch",
            Self::AtItem { rejection, .. } => rejection.code(),
            Self::Elsewhere { .. } => "elsewhere",
            Self::WorkerNotFound => "worker_not_found",
            Self::WorkerDead { .. } => "worker_dead",
            Self::InstanceSuperseded { .. } => "instance_superseded",
            Self::InvalidCursor => "invalid_cursor",
            Self::FlowNotFound => "flow_not_found",
            Self::GroupNotFound => "not_found",
            Self::FlowClosed { .. } => "flow_closed",
            Self::FlowTerminal { .. } => "flow_terminal",
            Self::FlowNotTerminal { .. } => "flow_not_terminal",
            Self::GroupDecided { .. } => "group_decided",
            Self::DownstreamBegun => "downstream_begun",
            Self::StillImpossible { .. } => "still_impossible",
            Self::FlowRevisionMismatch { .. } => "revision_mismatch",
            Self::BadGraph { problems } => problems.first().map_or("invalid_argument", |problem| problem.code()),
            Self::GraphTooLarge { .. } => "graph_too_large",
            Self::UnknownPolicy { .. } => "unknown_policy",
            Self::Busy { .. } => "busy",
            Self::Unavailable { .. } | Self::NewerFormat { .. } => "unavailable",
            Self::Internal { .. } => "internal",
        }
    }

    pub fn class(&self) -> Class {
        match self {
            Self::InvalidArgument { .. }
            | Self::OutOfRange { .. }
            | Self::PayloadTooLarge { .. }
            | Self::InvalidId { .. }
            | Self::DeadlineInPast
            | Self::FenceRequired
            | Self::Forbidden { .. }
            | Self::InvalidCursor
            | Self::GraphTooLarge { .. }
            | Self::UnknownPolicy { .. }
            | Self::NotAChild { .. } => Class::Fix,
            Self::LeaseExpired { .. }
            | Self::LeaseRevoked { .. }
            | Self::LeaseLost { .. }
            | Self::Cancelled { .. }
            | Self::StaleLease { .. }
            | Self::ExecutionNotActive { .. }
            | Self::WorkerDead { .. }
            | Self::InstanceSuperseded { .. } => Class::Stop,
            Self::ExecutionNotFound
            | Self::AttemptNotFound
            | Self::StepNotFound
            | Self::DeadLetterNotFound
            | Self::WorkerNotFound
            | Self::BulkNotFound
            | Self::NodeNotFound
            | Self::KeyNotFound
            | Self::NameTaken
            | Self::ExecutionTerminal { .. }
            | Self::ExecutionNotTerminal { .. }
            | Self::NotDelayed { .. }
            | Self::NotClaimable { .. }
            | Self::CancelRequested { .. }
            | Self::IdempotencyMismatch { .. }
            | Self::ReplayLimit { .. }
            | Self::LimitExceeded { .. }
            | Self::RevisionMismatch { .. }
            | Self::FlowNotFound
            | Self::GroupNotFound
            | Self::FlowClosed { .. }
            | Self::FlowTerminal { .. }
            | Self::FlowNotTerminal { .. }
            | Self::GroupDecided { .. }
            | Self::DownstreamBegun
            | Self::StillImpossible { .. }
            | Self::FlowRevisionMismatch { .. }
            | Self::Internal { .. } => Class::Conflict,
            Self::BadGraph { problems } => {
                problems.first().and_then(Problem::inner).map_or(Class::Fix, Rejection::class)
            }
            Self::AtItem { rejection, .. } => rejection.class(),
            Self::Elsewhere { .. } | Self::Busy { .. } | Self::Unavailable { .. } | Self::NewerFormat { .. } => {
                Class::Later
            }
        }
    }
}

impl fmt::Display for Rejection {
    /// What happened, then what to do; lower case, no full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidArgument { field, why } => write!(f, "`{field}` {why}"),
            Self::OutOfRange { field, min, max, got } => {
                write!(f, "`{field}` is {got}, allowed are {min} to {max}")
            }
            Self::PayloadTooLarge { field, limit, got } => {
                write!(f, "`{field}` has {got} bytes, allowed are {limit}")
            }
            Self::InvalidId { expected } => {
                write!(f, "not an id of this deployment; ids look like `{expected}_<partition>_<uuid>`")
            }
            Self::DeadlineInPast => write!(f, "the deadline is not ahead of now and of the start"),
            Self::FenceRequired => write!(f, "lease id and epoch are needed for this call"),
            Self::Forbidden { needs } => write!(f, "this call needs the scope `{needs}`"),
            Self::NotAChild { id } => write!(f, "`{id}` is not a child of this execution"),
            Self::LeaseExpired { at } => write!(f, "the lease ran out at {}; stop work and discard", at.ms()),
            Self::LeaseRevoked { at, reason } => {
                write!(f, "the lease was revoked at {} ({reason}); stop work and discard", at.ms())
            }
            Self::LeaseLost { cause, at } => {
                write!(f, "the lease ended at {} ({}); stop work and discard", at.ms(), cause.name())
            }
            Self::Cancelled { at, reason, by } => {
                write!(f, "cancelled at {} by {by} ({reason}); stop work and discard", at.ms())
            }
            Self::StaleLease { current_epoch } => {
                write!(f, "the lease is not the current one, which has epoch {current_epoch}; stop work and discard")
            }
            Self::ExecutionNotActive { public_state, .. } => {
                write!(f, "nobody holds it: it is {}", public_state.name())
            }
            Self::ExecutionNotFound => write!(f, "there is no such execution in this namespace"),
            Self::AttemptNotFound => write!(f, "there is no such attempt"),
            Self::StepNotFound => write!(f, "no step of this name is recorded"),
            Self::DeadLetterNotFound => write!(f, "there is no such parked item"),
            Self::BulkNotFound => write!(f, "there is no such bulk job in this namespace"),
            Self::NodeNotFound => write!(f, "no live node has this id or name"),
            Self::KeyNotFound => write!(f, "there is no such key"),
            Self::NameTaken => write!(f, "another key has this name; choose another"),
            Self::ExecutionTerminal { outcome, reason, .. } => {
                write!(f, "it has ended: {} ({})", outcome.name(), reason.name())
            }
            Self::ExecutionNotTerminal { public_state, .. } => {
                write!(f, "it has not ended: it is {}", public_state.name())
            }
            Self::NotDelayed { public_state } => {
                write!(f, "it waits for no time that could be moved: it is {}", public_state.name())
            }
            Self::NotClaimable { public_state } => write!(f, "it cannot be claimed now: it is {}", public_state.name()),
            Self::CancelRequested { .. } => {
                write!(f, "a cancel is requested; complete it, save a checkpoint or cancel it")
            }
            Self::IdempotencyMismatch { existing: Some(id) } => {
                write!(f, "the key belongs to `{id}`, which was submitted with another body")
            }
            Self::IdempotencyMismatch { existing: None } => {
                write!(f, "the request id was used with another body")
            }
            Self::ReplayLimit { max } => write!(f, "it was replayed {max} times, which is its limit"),
            Self::LimitExceeded { what, max } => write!(f, "it would have more {what} than the {max} that are allowed"),
            Self::RevisionMismatch { current: Some(current) } => {
                write!(f, "it has changed and is at revision `{current}`; look at it and decide again")
            }
            Self::RevisionMismatch { current: None } => write!(f, "it is changing; look at it and decide again"),
            Self::AtItem { index, rejection } => write!(f, "item {index}: {rejection}"),
            Self::Elsewhere { partition } => write!(f, "the key is bound in partition {partition}; repeat it there"),
            Self::WorkerNotFound => write!(f, "there is no such worker in this namespace; register it"),
            Self::WorkerDead { at, reason } => {
                write!(f, "the worker was given up at {} ({reason}); start it again and register", at.ms())
            }
            Self::InstanceSuperseded { session } => {
                write!(f, "another process has taken this instance name, with session {session}; exit")
            }
            Self::InvalidCursor => write!(f, "the cursor is not one that this list gave out"),
            Self::FlowNotFound => write!(f, "there is no such flow in this namespace"),
            Self::GroupNotFound => write!(f, "the member has no group of this name"),
            // What has ended without a cancel can be opened again, by a replay.
            Self::FlowClosed { why: why @ ("fixed" | "completed" | "failed") } => {
                write!(f, "the flow is {why}: it takes no members or edges any more")
            }
            Self::FlowClosed { why } => write!(f, "the flow is {why}: it takes no members, edges or replays any more"),
            Self::FlowTerminal { outcome, cause } => write!(f, "the flow has ended: {} ({cause})", outcome.name()),
            Self::FlowNotTerminal { state } => write!(f, "the flow has not ended: it is {state}"),
            Self::GroupDecided { verdict } => {
                write!(f, "the group is {} already; add the edge to a group of its own", verdict.name())
            }
            Self::DownstreamBegun => write!(f, "the downstream has begun; an edge to it would come too late"),
            Self::StillImpossible { edges } => {
                let edges: Vec<String> = edges.iter().map(|(from, to)| format!("`{from}` -> `{to}`")).collect();
                write!(f, "it would be skipped again because of {}; replay the upstreams first", edges.join(", "))
            }
            Self::FlowRevisionMismatch { current } => {
                write!(f, "the flow has changed and is at revision {current}; look at it and decide again")
            }
            Self::BadGraph { problems } => {
                for (at, problem) in problems.iter().enumerate() {
                    write!(f, "{}{problem}", if at == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
            Self::GraphTooLarge { visited } => {
                write!(f, "looked at {visited} members that the edges reorder, and one commit does not take them; ")?;
                write!(f, "add edges from earlier members to later ones")
            }
            Self::UnknownPolicy { what } => write!(f, "cannot act on what a later version wrote: {what}"),
            Self::Busy { retry_after_ms, cause } => {
                let why = match cause {
                    BusyCause::Overload => "too much work waits",
                    BusyCause::StoreRefused => "the store takes no commit now",
                    BusyCause::StoreFull => "the store is full, make room for it",
                    BusyCause::Contended => "other nodes keep changing the same records",
                };
                write!(f, "could not take the call: {why}; repeat it after {retry_after_ms} ms")
            }
            Self::NewerFormat { what } => {
                write!(f, "a later version wrote {what}; this node leaves it alone, one of that version can do it")
            }
            Self::Unavailable { outcome_unknown: true, .. } => {
                write!(f, "could not learn whether it happened; repeat it with the same request id")
            }
            Self::Unavailable { outcome_unknown: false, retry_after_ms } => {
                write!(f, "could not reach the store, nothing changed; repeat it after {retry_after_ms} ms")
            }
            Self::Internal { what } => write!(f, "refused to break an invariant: {what}"),
        }
    }
}

impl std::error::Error for Rejection {}
