//! A worker process: what it offers, which session of it is the current one, and whether it may claim.
//!
//! The registry decides who is listed and who is handed work, never who may complete: that is the fence alone.

use super::Key;
use crate::codec::{self, Decode, DecodeError};
use crate::command::WorkerEnd;
use crate::digest;
use crate::id::PartitionId;
use crate::limits::WORKER_KEEP_MS;
use crate::schema::{Due, PartMask, Timer, Value};
use crate::text::{Capabilities, Text};
use crate::time::Time;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The registry of workers among the lanes of a hint to other nodes: namespace and lane.
pub const LANE: (&str, &str) = ("", "workers");

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    pub partition: PartitionId,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    pub namespace: Text,
    pub instance: Text,
    /// The pool it belongs to.
    pub worker: Text,
    /// Differs from one start of the process to the next; empty for one that only claims.
    pub boot_id: Text,
    /// Counts its starts; 0 for one that only ever claimed.
    pub session: u64,
    /// When this session began.
    pub session_at: Time,
    pub state: State,
    pub lanes: Vec<Text>,
    pub kinds: Option<Vec<Text>>,
    pub capabilities: Capabilities,
    pub capacity: Option<u32>,
    pub free: Option<u32>,
    pub version: Option<Text>,
    pub host: Option<Text>,
    pub labels: BTreeMap<Text, Text>,
    pub ttl_ms: u64,
    pub registered_at: Time,
    /// As of the last write; it may have been seen up to a third of its ttl later.
    pub last_seen_at: Time,
    pub changed_at: Time,
    /// Leases that are to be ended.
    pub owed: Option<Owed>,
    /// When its leases are looked at next: to end what is owed, or to see whether it has drained.
    pub look_at: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    Active,
    /// Told to take no more work.
    Draining(Drain),
    /// Draining, and holds nothing.
    Drained(Drain),
    /// Silent, or given up by an operator. What it was told before counts again if it comes back from silence.
    Dead {
        at: Time,
        marked: Option<Text>,
        drain: Option<Drain>,
    },
    /// It has said that it goes; the record goes with its last lease.
    Left {
        at: Time,
    },
}

impl State {
    pub const fn name(&self) -> &'static str {
        match self {
            State::Active => "active",
            State::Draining(_) => "draining",
            State::Drained(_) | State::Left { .. } => "drained",
            State::Dead { .. } => "dead",
        }
    }

    pub fn drain(&self) -> Option<&Drain> {
        match self {
            State::Draining(drain) | State::Drained(drain) => Some(drain),
            State::Dead { drain, .. } => drain.as_ref(),
            State::Active | State::Left { .. } => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    pub reason: Text,
    pub by: Text,
    pub since: Time,
    pub deadline_at: Option<Time>,
}

/// Leases of sessions before `before` are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owed {
    pub end: WorkerEnd,
    pub before: u64,
    pub since: Time,
}

impl Worker {
    pub fn key(&self) -> Key {
        Key::Worker(self.partition, digest::worker(&self.body.namespace, &self.body.instance))
    }

    pub fn facets(&self) -> Vec<Value> {
        let body = &self.body;
        vec![
            Value::text(&body.namespace),
            Value::text(&body.instance),
            Value::text(&body.worker),
            Value::Int(body.session as i64),
            Value::Text(body.state.name().into()),
            body.version.as_ref().map_or(Value::Null, Value::text),
            Value::Int(body.last_seen_at.as_i64()),
        ]
    }

    pub fn due(&self) -> Vec<Due> {
        let look = self.body.look_at.map(|at| Due { timer: Timer::WorkerLeases, at });
        look.into_iter().chain([Due { timer: Timer::Worker, at: self.body.due_at() }]).collect()
    }

    pub fn encode(&self, mask: PartMask) -> Vec<(u8, Option<Bytes>)> {
        if mask.has(0) { vec![(0, Some(codec::encode(&self.body)))] } else { Vec::new() }
    }

    pub fn loaded(&self) -> PartMask {
        PartMask::of(0)
    }

    pub fn dirty(&self) -> PartMask {
        PartMask::of(0)
    }

    pub fn mark_clean(&mut self) {}

    pub fn weight(&self) -> usize {
        let body = &self.body;
        512 + 32 * (body.lanes.len() + body.kinds.as_ref().map_or(0, Vec::len) + 2 * body.labels.len())
    }
}

impl Body {
    /// From then on it is silent. That it was seen is not written at once, so it is given that much longer.
    pub fn silent_at(&self) -> Time {
        self.last_seen_at + (self.ttl_ms + self.seen_every_ms())
    }

    /// From then on it is in doubt whether it lives: a process that does is written as seen in half of that time.
    pub fn doubtful_at(&self) -> Time {
        self.last_seen_at + 2 * self.seen_every_ms()
    }

    /// How often it is written that it was seen.
    pub fn seen_every_ms(&self) -> u64 {
        self.ttl_ms / 3
    }

    /// When time alone changes it.
    fn due_at(&self) -> Time {
        match &self.state {
            // At the deadline it owes the end of what is left; a debt of earlier sessions does not put that off.
            State::Draining(Drain { deadline_at: Some(deadline), .. })
                if !self.owed.is_some_and(|owed| owed.end == WorkerEnd::Drained) =>
            {
                self.silent_at().min(*deadline)
            }
            State::Active | State::Draining(_) => self.silent_at(),
            State::Drained(_) => self.last_seen_at + WORKER_KEEP_MS,
            State::Dead { at, .. } | State::Left { at } => *at + WORKER_KEEP_MS,
        }
    }

    /// Whether a lease that was taken in this session is owed an end. One without a session was taken before the debt.
    pub fn owes(&self, session: Option<u64>, acquired_at: Time) -> Option<WorkerEnd> {
        let owed = self.owed?;
        let ends = session.map_or(acquired_at <= owed.since, |session| session < owed.before);
        ends.then_some(owed.end)
    }

    /// The session that its leases are taken in, if it has told of one.
    pub fn lease_session(&self) -> Option<u64> {
        (!self.only_claims()).then_some(self.session)
    }

    /// It was entered because it claims, not because it registered.
    pub fn only_claims(&self) -> bool {
        self.boot_id.is_empty()
    }
}

impl Decode for Worker {
    type Id = (PartitionId, [u8; 32]);

    fn decode((partition, digest): Self::Id, parts: &[(u8, Bytes)], _: PartMask) -> Result<Self, DecodeError> {
        let body: Body = codec::required("body", parts, 0)?;
        if digest::worker(&body.namespace, &body.instance) != digest {
            return Err(DecodeError::new("body", "is of another worker"));
        }
        Ok(Self { partition, body })
    }
}
