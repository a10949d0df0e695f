//! One concrete run of an execution. While it runs or is paused it lives inside the execution's hot part; when it ends
//! it becomes a record of its own, which is written once and never changes.

use super::execution::EndCause;
use super::{Content, Key, Lazy};
use crate::codec::{self, Decode, DecodeError};
use crate::id::{ExecutionId, LeaseId};
use crate::limits::LEASE_EPISODES_MAX;
use crate::schema::{Due, PartMask, Value, attempt as schema};
use crate::text::Text;
use crate::time::Time;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// One run. As a record it is always final.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub execution: ExecutionId,
    pub index: u32,
    pub kind: AttemptKind,
    pub previous: Option<u32>,
    /// Category, cause of the lost lease, or who asked for the replay and why.
    pub why: Option<Text>,
    pub state: AttemptState,
    pub started_at: Time,
    pub ended_at: Option<Time>,
    /// Leased time only; of earlier leases while it is running.
    pub active_ms: u64,
    /// What was left of the attempt timeout at the last pause.
    pub timeout_left_ms: Option<u64>,
    pub failure: Option<Failure>,
    pub content_type: Option<Text>,
    pub leases: Vec<Episode>,
    /// Older episodes that are no longer listed.
    pub leases_dropped: u32,
    #[serde(skip)]
    result: Lazy<Option<Bytes>>,
    #[serde(skip)]
    detail: Lazy<Option<Bytes>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptKind {
    Initial,
    Retry,
    Reclaim,
    Replay,
}

impl AttemptKind {
    pub const fn name(self) -> &'static str {
        match self {
            AttemptKind::Initial => "initial",
            AttemptKind::Retry => "retry",
            AttemptKind::Reclaim => "reclaim",
            AttemptKind::Replay => "replay",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptState {
    Running,
    PausedByDelay,
    PausedByChildren,
    Succeeded,
    Failed,
    Cancelled,
    Interrupted,
    Overridden,
}

impl AttemptState {
    pub const fn is_final(self) -> bool {
        !matches!(self, AttemptState::Running | AttemptState::PausedByDelay | AttemptState::PausedByChildren)
    }

    pub const fn is_paused(self) -> bool {
        matches!(self, AttemptState::PausedByDelay | AttemptState::PausedByChildren)
    }

    pub const fn name(self) -> &'static str {
        match self {
            AttemptState::Running => "running",
            AttemptState::PausedByDelay | AttemptState::PausedByChildren => "paused",
            AttemptState::Succeeded => "succeeded",
            AttemptState::Failed => "failed",
            AttemptState::Cancelled => "cancelled",
            AttemptState::Interrupted => "interrupted",
            AttemptState::Overridden => "overridden",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub category: Text,
    pub message: Text,
    pub retry_at: Option<Time>,
    pub detail: Content,
}

impl Failure {
    /// What an operator says who ends an execution as failed.
    pub fn by_operator(message: Text) -> Self {
        Self { category: "operator".into(), message, retry_at: None, detail: Content::Absent }
    }
}

/// One lease of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Episode {
    pub epoch: u64,
    pub lease: LeaseId,
    pub worker: Text,
    pub instance: Text,
    pub from: Time,
    pub to: Option<Time>,
    pub cause: Option<EndCause>,
}

impl Attempt {
    /// A run that begins now; its first episode is added by the claim.
    pub fn start(
        execution: ExecutionId,
        index: u32,
        kind: AttemptKind,
        previous: Option<u32>,
        why: Option<Text>,
        now: Time,
    ) -> Self {
        Self {
            execution,
            index,
            kind,
            previous,
            why,
            state: AttemptState::Running,
            started_at: now,
            ended_at: None,
            active_ms: 0,
            timeout_left_ms: None,
            failure: None,
            content_type: None,
            leases: Vec::with_capacity(1),
            leases_dropped: 0,
            result: Lazy::Loaded(None),
            detail: Lazy::Loaded(None),
        }
    }

    pub fn push_episode(&mut self, episode: Episode) {
        self.leases.push(episode);
        if self.leases.len() > LEASE_EPISODES_MAX {
            self.leases.remove(0);
            self.leases_dropped += 1;
        }
    }

    /// Number of leases this attempt ever had.
    pub fn episodes(&self) -> u64 {
        self.leases.len() as u64 + u64::from(self.leases_dropped)
    }

    /// The result of this attempt; ask the transaction for the part first.
    pub fn result(&self) -> Option<&Bytes> {
        self.result.loaded().expect("attempt: result was asked for").as_ref()
    }

    /// The size of the result, if it is in memory and there is one.
    pub fn result_bytes(&self) -> Option<u32> {
        self.result.loaded().and_then(|result| result.as_ref().map(|bytes| bytes.len() as u32))
    }

    pub fn set_result(&mut self, result: Option<Bytes>, content_type: Option<Text>) {
        self.result = Lazy::Loaded(result);
        self.content_type = content_type;
    }

    pub fn detail(&self) -> Option<&Bytes> {
        self.detail.loaded().expect("attempt: detail was asked for").as_ref()
    }

    pub fn set_detail(&mut self, detail: Option<Bytes>) {
        self.detail = Lazy::Loaded(detail);
    }

    /// Says that a payload nobody gave is absent, not merely unknown: an open attempt has none until its last commit.
    pub fn seal(&mut self) {
        for payload in [&mut self.result, &mut self.detail] {
            if payload.loaded().is_none() {
                *payload = Lazy::Loaded(None);
            }
        }
    }

    pub fn key(&self) -> Key {
        Key::Attempt(self.execution, self.index)
    }

    pub fn facets(&self) -> Vec<Value> {
        vec![
            Value::bytes(self.execution.uuid().as_bytes()),
            Value::Int(i64::from(self.index)),
            Value::Text(self.state.name().into()),
            Value::Int(self.started_at.as_i64()),
            Value::Int(self.ended_at.unwrap_or(self.started_at).as_i64()),
        ]
    }

    pub fn due(&self) -> Vec<Due> {
        Vec::new()
    }

    pub fn encode(&self, mask: PartMask) -> Vec<(u8, Option<Bytes>)> {
        let mut parts = Vec::with_capacity(3);
        if mask.has(schema::BODY) {
            parts.push((schema::BODY, Some(codec::encode(self))));
        }
        if mask.has(schema::RESULT) {
            parts.push((schema::RESULT, self.result.loaded().cloned().flatten()));
        }
        if mask.has(schema::DETAIL) {
            parts.push((schema::DETAIL, self.detail.loaded().cloned().flatten()));
        }
        parts
    }

    pub fn loaded(&self) -> PartMask {
        let part = |part: u8, loaded: bool| if loaded { PartMask::of(part) } else { PartMask::NONE };
        schema::LIGHT
            .with(part(schema::RESULT, self.result.loaded().is_some()))
            .with(part(schema::DETAIL, self.detail.loaded().is_some()))
    }

    /// Written once, whole.
    pub fn dirty(&self) -> PartMask {
        PartMask::of(schema::BODY).with(PartMask::of(schema::RESULT)).with(PartMask::of(schema::DETAIL))
    }

    pub fn mark_clean(&mut self) {}

    pub fn weight(&self) -> usize {
        let bytes = |part: &Lazy<Option<Bytes>>| part.loaded().and_then(|part| part.as_ref().map(Bytes::len));
        320 + self.leases.len() * 96 + bytes(&self.result).unwrap_or(0) + bytes(&self.detail).unwrap_or(0)
    }

    pub fn absorb(&mut self, other: &Attempt) {
        if self.result.loaded().is_none() {
            self.result = other.result.clone();
        }
        if self.detail.loaded().is_none() {
            self.detail = other.detail.clone();
        }
    }
}

impl Decode for Attempt {
    type Id = (ExecutionId, u32);

    fn decode(_: Self::Id, parts: &[(u8, Bytes)], asked: PartMask) -> Result<Self, DecodeError> {
        let mut attempt: Attempt = codec::required("body", parts, schema::BODY)?;
        if asked.has(schema::RESULT) {
            attempt.result = Lazy::Loaded(codec::part(parts, schema::RESULT).cloned());
        }
        if asked.has(schema::DETAIL) {
            attempt.detail = Lazy::Loaded(codec::part(parts, schema::DETAIL).cloned());
        }
        Ok(attempt)
    }
}
