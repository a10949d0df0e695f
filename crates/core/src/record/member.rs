//! What makes an execution a member of a flow: its place in the graph, and the groups of edges that lead to it.

use super::execution::{Holds, Outcome, Why};
use crate::id::{ExecutionId, FlowId};
use crate::text::Text;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use uuid::Uuid;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub flow: FlowId,
    /// Unique in the flow and never used again.
    pub key: Text,
    /// Its place in the order in which members were added.
    pub number: u32,
    /// A bad end counts against the flow.
    pub critical: bool,
    /// Larger than that of every upstream, which keeps the graph free of cycles.
    pub rank: u64,
    /// All edges that lead to it are known.
    pub sealed: bool,
    /// Edges that ever left it: their numbers are `0..outs`.
    pub outs: u32,
    /// Edges that lead to it, of all groups.
    pub ins: u32,
    /// Some edge that leads to it has a name, so claims bring inputs.
    pub has_inputs: bool,
    pub groups: Vec<Group>,
    /// How many of its edges were ever resolved; numbers their resolutions.
    pub resolutions: u32,
    /// Resolutions before this one are the inputs of the current opening; set by its first claim.
    pub pinned: Option<u32>,
    /// The epoch at its last opening: with a higher one it has begun.
    pub opened_epoch: u64,
    /// Why a group ended it.
    pub cause: Option<EndedBy>,
}

impl Member {
    /// Since when a group of it owes cancels: the oldest.
    pub fn owed_since(&self) -> Option<Time> {
        self.groups.iter().filter_map(|group| group.owed.as_ref()).map(|owed| owed.since).min()
    }

    pub fn group(&self, name: &str) -> Option<(usize, &Group)> {
        self.groups.iter().enumerate().find(|(_, group)| *group.name == *name)
    }

    /// Edges that are not resolved yet.
    pub fn pending(&self) -> u32 {
        self.groups.iter().map(Group::pending).sum()
    }
}

/// Edges to one member that are judged together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    pub name: Text,
    pub policy: GroupPolicy,
    pub then: Then,
    pub n: u32,
    pub met: u32,
    pub unmet: u32,
    pub state: GroupState,
    /// How often it was opened again by a replay.
    pub opening: u32,
    pub decided_at: Option<Time>,
    /// An operator let its member run without it.
    pub waived: bool,
    pub owed: Option<Owed>,
}

impl Group {
    pub fn new(name: Text, policy: GroupPolicy, then: Then) -> Self {
        Self {
            name,
            policy,
            then,
            n: 0,
            met: 0,
            unmet: 0,
            state: GroupState::Pending,
            opening: 0,
            decided_at: None,
            waived: false,
            owed: None,
        }
    }

    pub fn pending(&self) -> u32 {
        self.n.saturating_sub(self.met).saturating_sub(self.unmet)
    }
}

/// The name of the group of an edge that names none.
pub const MAIN: &str = "main";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupPolicy {
    AllOf,
    AnyOf,
    Quorum(u32),
}

impl GroupPolicy {
    /// How many of `n` edges must be met.
    pub const fn needed(self, n: u32) -> u32 {
        match self {
            GroupPolicy::AllOf => n,
            GroupPolicy::AnyOf => 1,
            GroupPolicy::Quorum(k) => k,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            GroupPolicy::AllOf => "all_of",
            GroupPolicy::AnyOf => "any_of",
            GroupPolicy::Quorum(_) => "quorum",
        }
    }
}

/// What becomes of the upstreams that still run when the group is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Then {
    LetRun,
    CancelRemaining(Mode),
}

/// The stronger, the larger: a shorter grace is stronger than a longer one, and none the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    Graceful { grace_ms: u64 },
    Immediate,
}

impl Ord for Mode {
    fn cmp(&self, other: &Self) -> Ordering {
        // Not even a grace of no time at all is as strong as none.
        let grace = |mode: &Mode| match mode {
            Mode::Graceful { grace_ms } => Some(*grace_ms),
            Mode::Immediate => None,
        };
        match (grace(self), grace(other)) {
            (Some(own), Some(other)) => other.cmp(&own),
            (own, other) => own.is_none().cmp(&other.is_none()),
        }
    }
}

impl PartialOrd for Mode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupState {
    Pending,
    Satisfied,
    Impossible,
}

impl GroupState {
    pub const fn name(self) -> &'static str {
        match self {
            GroupState::Pending => "pending",
            GroupState::Satisfied => "satisfied",
            GroupState::Impossible => "impossible",
        }
    }
}

/// Siblings that are still to be cancelled: those from the inlet `cursor` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owed {
    pub verdict: GroupState,
    pub cursor: u32,
    pub since: Time,
}

/// What became of a sibling that a decided group had no more use for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiblingResult {
    Cancelled,
    AlreadyTerminal,
    Needed,
    Missing,
}

impl SiblingResult {
    pub const ALL: [SiblingResult; 4] =
        [SiblingResult::Cancelled, SiblingResult::AlreadyTerminal, SiblingResult::Needed, SiblingResult::Missing];

    pub const fn name(self) -> &'static str {
        match self {
            SiblingResult::Cancelled => "cancelled",
            SiblingResult::AlreadyTerminal => "already_terminal",
            SiblingResult::Needed => "needed",
            SiblingResult::Missing => "missing",
        }
    }
}

/// How often each of them was found, in their order.
pub type SiblingResults = [u32; SiblingResult::ALL.len()];

/// The group that ended a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndedBy {
    /// It was skipped because this group of its own is impossible; the first upstreams that did not meet it.
    Dependency { group: Text, unmet: Vec<ExecutionId> },
    /// It was cancelled because this group of another was decided without it.
    Sibling { downstream: ExecutionId, group: Text, verdict: GroupState },
    /// As `Dependency`, of one that waited for something else as well. It will again, if its groups are opened again.
    DependencyAmongOthers { group: Text, unmet: Vec<ExecutionId>, others: Others },
}

/// What a skipped member waited for besides its groups.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Others {
    pub holds: Holds,
    pub not_before: Option<(Time, Why)>,
}

impl EndedBy {
    /// The group of its own that became impossible, and the first upstreams that did not meet it.
    pub fn dependency(&self) -> Option<(&str, &[ExecutionId])> {
        match self {
            EndedBy::Dependency { group, unmet } | EndedBy::DependencyAmongOthers { group, unmet, .. } => {
                Some((group, unmet))
            }
            EndedBy::Sibling { .. } => None,
        }
    }
}

/// The edges that lead to a member, in the order they were added.
pub type Inlets = Vec<Inlet>;

/// Where one edge is, seen from its downstream: that of this number of this upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inlet {
    pub group: u8,
    pub upstream: Uuid,
    pub number: u32,
    /// The name under which the upstream's end is handed over.
    pub input: Option<Text>,
}

/// Whether an end is a consequence of something else and so counts neither as a failure nor against its flow.
pub const fn is_neutral(outcome: Outcome, reason: super::execution::Reason) -> bool {
    use super::execution::Reason;
    matches!(outcome, Outcome::Cancelled) && matches!(reason, Reason::Sibling | Reason::Flow | Reason::Parent)
}

/// Whether an end is a failure: what edges on failure wait for, and, of a critical member, what counts against its flow.
pub const fn is_failure(outcome: Outcome, reason: super::execution::Reason) -> bool {
    match outcome {
        Outcome::Failed | Outcome::Expired => true,
        Outcome::Cancelled => !is_neutral(outcome, reason),
        Outcome::Success | Outcome::Skipped => false,
    }
}

/// Whether the end of this execution counts against the flow that it is a member of.
pub fn is_against(execution: &super::Execution) -> bool {
    match execution.hot.state {
        super::execution::State::Done { outcome, reason, .. } => {
            execution.member().is_some_and(|member| member.critical) && is_failure(outcome, reason)
        }
        _ => false,
    }
}
