//! A flow: what was asked for (`Definition`, written once), where it stands (`Hot`), and its exact totals.

pub use super::member::Mode;
pub use super::summary::Summary;

use super::execution::{Deadline, PublicState};
use super::trouble::Trouble;
use super::{Key, known};
use crate::codec::{self, Decode, DecodeError};
use crate::id::{ExecutionId, FlowId};
use crate::schema::{Due, PartMask, Timer, Value, flow as schema};
use crate::text::Text;
use crate::time::Time;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What was submitted. Fixed for life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    pub namespace: Text,
    pub kind: Text,
    pub name: Option<Text>,
    pub creator: Text,
    pub created_at: Time,
    pub failure: FailurePolicy,
    pub completion: CompletionPolicy,
    pub deadline: Option<Deadline>,
    /// From the commit that ends it; `None` keeps it for ever.
    pub retention_ms: Option<u64>,
    pub idempotency_key: Option<Bytes>,
    pub idempotency_ttl_ms: u64,
    pub fingerprint: [u8; 32],
    pub trace: Option<Text>,
}

/// What becomes of live members when the outcome is decided before they have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Remaining {
    LetRun,
    /// Those that run may end their attempt; the others are cancelled.
    FinishActive,
    Cancel(Mode),
}

impl Remaining {
    pub const fn name(self) -> &'static str {
        match self {
            Remaining::LetRun => "let_run",
            Remaining::FinishActive => "finish_active",
            Remaining::Cancel(_) => "cancel",
        }
    }

    /// The policy of a cancel that means it.
    pub const fn policy(self) -> &'static str {
        match self {
            Remaining::LetRun => "flow_only",
            Remaining::FinishActive => "let_active_finish",
            Remaining::Cancel(_) => "cancel_all",
        }
    }

    /// No member is claimed any more.
    pub const fn closes(self) -> bool {
        !matches!(self, Remaining::LetRun)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum FailurePolicy {
    #[default]
    Isolate,
    FailFast {
        remaining: Remaining,
    },
    CollectAll,
}

impl FailurePolicy {
    pub const fn name(self) -> &'static str {
        match self {
            FailurePolicy::Isolate => "isolate",
            FailurePolicy::FailFast { .. } => "fail_fast",
            FailurePolicy::CollectAll => "collect_all",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CompletionPolicy {
    #[default]
    AllTerminal,
    Root {
        key: Text,
        remaining: Remaining,
    },
    Threshold {
        successes: u32,
        remaining: Remaining,
    },
    Declared {
        remaining: Remaining,
    },
}

impl CompletionPolicy {
    pub const fn name(&self) -> &'static str {
        match self {
            CompletionPolicy::AllTerminal => "all_terminal",
            CompletionPolicy::Root { .. } => "root",
            CompletionPolicy::Threshold { .. } => "threshold",
            CompletionPolicy::Declared { .. } => "declared",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Growth {
    #[default]
    Dynamic,
    /// Takes no members and edges once it is sealed.
    Fixed,
}

impl Growth {
    pub const fn name(self) -> &'static str {
        match self {
            Growth::Dynamic => "dynamic",
            Growth::Fixed => "fixed",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlowOutcome {
    Completed,
    Failed,
    Cancelled,
}

impl FlowOutcome {
    pub const fn name(self) -> &'static str {
        match self {
            FlowOutcome::Completed => "completed",
            FlowOutcome::Failed => "failed",
            FlowOutcome::Cancelled => "cancelled",
        }
    }
}

/// What decided the outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    AllTerminal,
    /// This member ended against the flow.
    Member(ExecutionId),
    /// The root ended.
    Root(ExecutionId),
    Threshold,
    Declared {
        reason: Text,
    },
    Requested {
        reason: Text,
    },
    Deadline,
    NeverSealed,
    Budget {
        reason: Text,
    },
}

impl Cause {
    pub const fn name(&self) -> &'static str {
        match self {
            Cause::AllTerminal => "all_terminal",
            Cause::Member(_) => "member",
            Cause::Root(_) => "root",
            Cause::Threshold => "threshold",
            Cause::Declared { .. } => "declared",
            Cause::Requested { .. } => "requested",
            Cause::Deadline => "deadline",
            Cause::NeverSealed => "never_sealed",
            Cause::Budget { .. } => "budget",
        }
    }

    /// What is told to members that end because of it.
    pub fn reason(&self) -> Text {
        match self {
            Cause::Requested { reason } | Cause::Declared { reason } | Cause::Budget { reason } => reason.clone(),
            other => Text::from(format!("the flow ended: {}", other.name())),
        }
    }
}

/// The only thing that guards look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    Open,
    Ending(Ending),
    Done { outcome: FlowOutcome, cause: Cause, by: Text, at: Time },
}

/// The outcome stands, and members still live.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    pub outcome: FlowOutcome,
    pub cause: Cause,
    pub by: Text,
    pub since: Time,
    pub remaining: Remaining,
    /// It was not sealed when it was decided: its unsealed members are cancelled whatever becomes of the others.
    pub unsealed: bool,
    /// When members are cancelled next, and from which on.
    pub next_at: Time,
    pub cursor: Option<ExecutionId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hot {
    pub state: State,
    /// Pieces that are there of a graph too large for one commit; nobody sees it before it is whole.
    pub building: Option<u32>,
    pub growth: Growth,
    pub sealed_at: Option<Time>,
    pub seal_by: Option<Time>,
    /// Members are being sealed, so far up to this one.
    pub sealing: Option<Sealing>,
    /// Grows by one with each commit that adds a member, an edge or a group.
    pub revision: u64,
    pub reopens: u32,
    pub deadline_at: Option<Time>,
    pub purge_at: Option<Time>,
    pub purging: Option<Purging>,
    /// Live members that are not sealed.
    pub unsealed: u32,
    /// Continuations and groups with work that a commit left.
    pub works: u32,
    /// Ended members whose own time is over and that wait for the flow.
    pub kept: u32,
    pub verify_at: Option<Time>,
    /// A recount differed at this change number.
    pub doubt: Option<u64>,
    pub audit_at: Option<Time>,
    pub audits: u32,
    pub updated_at: Time,
    /// Of `works`, the groups: as long as there is one, a member may have lost without its own record saying so.
    pub owing: u32,
    /// Recounts in a row that gave no verdict because the flow had changed meanwhile.
    pub moves: u32,
}

impl Hot {
    /// A group has been decided and still has siblings to cancel.
    pub(crate) fn owe(&mut self) {
        self.works += 1;
        self.owing += 1;
    }

    /// So many groups owe nothing any more.
    pub(crate) fn settle(&mut self, groups: u32) {
        self.works = self.works.saturating_sub(groups);
        self.owing = self.owing.saturating_sub(groups);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealing {
    pub after: Option<ExecutionId>,
    pub since: Time,
    pub by: Text,
}

/// What is removed of a flow that is Done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purging {
    /// The members whose own time is over.
    Kept { since: Time },
    /// Everything; it is no longer seen.
    Whole { since: Time },
    /// The members whose own time is over, of those after this number.
    KeptAfter { since: Time, number: u32 },
}

/// The one word that lists and filters use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PublicFlowState {
    Open,
    Running,
    Blocked,
    Ending,
    Completed,
    Failed,
    Cancelled,
}

impl PublicFlowState {
    pub const ALL: [PublicFlowState; 7] = [
        PublicFlowState::Open,
        PublicFlowState::Running,
        PublicFlowState::Blocked,
        PublicFlowState::Ending,
        PublicFlowState::Completed,
        PublicFlowState::Failed,
        PublicFlowState::Cancelled,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            PublicFlowState::Open => "open",
            PublicFlowState::Running => "running",
            PublicFlowState::Blocked => "blocked",
            PublicFlowState::Ending => "ending",
            PublicFlowState::Completed => "completed",
            PublicFlowState::Failed => "failed",
            PublicFlowState::Cancelled => "cancelled",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    pub const fn is_terminal(self) -> bool {
        matches!(self, PublicFlowState::Completed | PublicFlowState::Failed | PublicFlowState::Cancelled)
    }
}

/// One flow, decoded. Change `hot` and `summary` freely; tags and trouble through their setters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    pub id: FlowId,
    pub definition: Arc<Definition>,
    pub hot: Hot,
    pub summary: Summary,
    tags: Arc<BTreeMap<Text, Text>>,
    trouble: Option<Trouble>,
    dirty: PartMask,
}

impl Flow {
    pub fn new(id: FlowId, definition: Definition, hot: Hot, tags: BTreeMap<Text, Text>) -> Self {
        let (definition, tags) = (Arc::new(definition), Arc::new(tags));
        Self { id, definition, hot, summary: Summary::default(), tags, trouble: None, dirty: schema::LIGHT }
    }

    pub fn tags(&self) -> &Arc<BTreeMap<Text, Text>> {
        &self.tags
    }

    pub fn set_tags(&mut self, tags: BTreeMap<Text, Text>) {
        self.tags = Arc::new(tags);
        self.dirty = self.dirty.with(PartMask::of(schema::TAGS));
    }

    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    pub fn set_trouble(&mut self, trouble: Option<Trouble>) {
        if self.trouble != trouble {
            self.trouble = trouble;
            self.dirty = self.dirty.with(PartMask::of(schema::TROUBLE));
        }
    }

    pub fn is_done(&self) -> bool {
        matches!(self.hot.state, State::Done { .. })
    }

    /// It is there for those who read and act: whole, and not on its way out.
    pub fn is_visible(&self) -> bool {
        self.hot.building.is_none() && !matches!(self.hot.purging, Some(Purging::Whole { .. }))
    }

    /// Whether a member may be claimed.
    pub fn is_gate_open(&self) -> bool {
        match &self.hot.state {
            State::Open => self.hot.building.is_none(),
            State::Ending(ending) => !ending.remaining.closes(),
            State::Done { .. } => false,
        }
    }

    pub fn ending(&self) -> Option<&Ending> {
        match &self.hot.state {
            State::Ending(ending) => Some(ending),
            _ => None,
        }
    }

    pub fn public_state(&self) -> PublicFlowState {
        use PublicState::*;
        let of = |state| self.summary.of(state);
        match &self.hot.state {
            State::Done { outcome: FlowOutcome::Completed, .. } => PublicFlowState::Completed,
            State::Done { outcome: FlowOutcome::Failed, .. } => PublicFlowState::Failed,
            State::Done { outcome: FlowOutcome::Cancelled, .. } => PublicFlowState::Cancelled,
            State::Ending(_) => PublicFlowState::Ending,
            State::Open if of(Waiting) + of(Delayed) + of(Active) > 0 => PublicFlowState::Running,
            // Nothing goes on without help from outside.
            State::Open if of(Held) + of(Suspended) > 0 => PublicFlowState::Blocked,
            // Nobody adds members once a seal is under way, so those that it has not reached count as sealed.
            State::Open if self.summary.live() > self.hot.unsealed => PublicFlowState::Running,
            State::Open if self.summary.live() > 0 && self.hot.sealing.is_some() => PublicFlowState::Running,
            // It is still being built, or nobody lives and nothing has decided it.
            State::Open => PublicFlowState::Open,
        }
    }

    pub fn key(&self) -> Key {
        Key::Flow(self.id)
    }

    pub fn facets(&self) -> Vec<Value> {
        let finished_at = match &self.hot.state {
            State::Done { at, .. } => Some(*at),
            _ => None,
        };
        vec![
            Value::text(&self.definition.namespace),
            Value::Int(self.definition.created_at.as_i64()),
            Value::text(&self.definition.kind),
            self.definition.name.as_ref().map_or(Value::Null, Value::text),
            Value::Text(self.public_state().name().into()),
            Value::Int(i64::from(self.summary.total_members)),
            Value::Int(i64::from(self.summary.live())),
            Value::opt_time(finished_at),
        ]
    }

    /// The armed timers as the state says, before failures of scanners move them.
    pub fn timers(&self) -> Vec<Due> {
        let mut due = Vec::with_capacity(3);
        let mut arm = |timer, at: Option<Time>| due.extend(at.map(|at| Due { timer, at }));
        let hot = &self.hot;
        match &hot.state {
            State::Open => {
                arm(Timer::SealBy, hot.seal_by.filter(|_| hot.sealed_at.is_none() || hot.unsealed > 0));
                arm(Timer::Deadline, hot.deadline_at);
                arm(Timer::FlowSeal, hot.sealing.as_ref().map(|sealing| sealing.since));
            }
            State::Ending(ending) => {
                arm(Timer::FlowEnding, Some(ending.next_at).filter(|_| self.summary.cancel_owed > 0))
            }
            State::Done { .. } if hot.purging.is_none() => arm(Timer::Retention, hot.purge_at),
            State::Done { .. } => {}
        }
        arm(
            Timer::FlowPurge,
            hot.purging.map(|purging| match purging {
                Purging::Kept { since } | Purging::KeptAfter { since, .. } | Purging::Whole { since } => since,
            }),
        );
        if self.is_visible() {
            arm(Timer::FlowVerify, hot.verify_at);
            arm(Timer::DependencyAudit, hot.audit_at.filter(|_| !self.is_done()));
        }
        due
    }

    pub fn due(&self) -> Vec<Due> {
        let timers = self.timers();
        match &self.trouble {
            None => timers,
            Some(trouble) => trouble.apply(timers),
        }
    }

    pub fn encode(&self, mask: PartMask) -> Vec<(u8, Option<Bytes>)> {
        let mut parts = Vec::with_capacity(3);
        let mut put = |part: u8, bytes: &dyn Fn() -> Option<Bytes>| {
            if mask.has(part) {
                parts.push((part, bytes()));
            }
        };
        put(schema::HOT, &|| Some(codec::encode(&self.hot)));
        put(schema::DEFINITION, &|| Some(codec::encode(&*self.definition)));
        put(schema::SUMMARY, &|| Some(codec::encode(&self.summary)));
        put(schema::TAGS, &|| (!self.tags.is_empty()).then(|| codec::encode(&*self.tags)));
        put(schema::TROUBLE, &|| self.trouble.as_ref().map(codec::encode));
        parts
    }

    pub fn loaded(&self) -> PartMask {
        schema::LIGHT
    }

    pub fn dirty(&self) -> PartMask {
        self.dirty.with(PartMask::of(schema::HOT)).with(PartMask::of(schema::SUMMARY))
    }

    pub fn mark_clean(&mut self) {
        self.dirty = PartMask::NONE;
    }

    pub fn weight(&self) -> usize {
        768 + self.tags.len() * 96
    }
}

impl Decode for Flow {
    type Id = FlowId;

    fn decode(id: FlowId, parts: &[(u8, Bytes)], _: PartMask) -> Result<Self, DecodeError> {
        let unknown = |error: DecodeError| {
            let why = match error.part {
                "definition" => codec::part(parts, schema::DEFINITION).and_then(|bytes| known::definition(bytes)),
                "hot" => codec::part(parts, schema::HOT).and_then(|bytes| known::hot(bytes)),
                _ => None,
            };
            why.map_or(error.clone(), |why| DecodeError::unknown_policy(error.part, why))
        };
        Self::decode_whole(id, parts).map_err(unknown)
    }
}

impl Flow {
    fn decode_whole(id: FlowId, parts: &[(u8, Bytes)]) -> Result<Self, DecodeError> {
        Ok(Self {
            id,
            definition: Arc::new(codec::required("definition", parts, schema::DEFINITION)?),
            hot: codec::required("hot", parts, schema::HOT)?,
            summary: codec::required("summary", parts, schema::SUMMARY)?,
            tags: Arc::new(codec::optional("tags", parts, schema::TAGS)?.unwrap_or_default()),
            trouble: codec::optional("trouble", parts, schema::TROUBLE)?,
            dirty: PartMask::NONE,
        })
    }
}
