//! The durable rest of bounded work: due at once, gone when the work is done.

use super::Key;
use super::trouble::Trouble;
use crate::codec::{self, Decode, DecodeError};
use crate::id::ExecutionId;
use crate::schema::{Due, PartMask, Timer, Value};
use crate::text::Text;
use crate::time::Time;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// What is left to do. The number is part of the key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[repr(u8)]
pub enum Work {
    /// Remove the attempts and steps of an execution that is purged.
    Purge = 1,
    /// Cancel the unfinished children of an execution.
    CancelChildren = 2,
    /// Resolve the out-edges of a member that has ended.
    Resolve = 3,
    /// Take the edges below a replayed member back to pending.
    Reopen = 4,
}

impl Work {
    pub const ALL: [Work; 4] = [Work::Purge, Work::CancelChildren, Work::Resolve, Work::Reopen];

    pub fn from_u8(number: u8) -> Option<Work> {
        Self::ALL.into_iter().find(|work| *work as u8 == number)
    }

    pub const fn timer(self) -> Timer {
        match self {
            Work::Purge => Timer::Purge,
            Work::CancelChildren => Timer::CancelChildren,
            Work::Resolve => Timer::Resolve,
            Work::Reopen => Timer::Reopen,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    pub owner: ExecutionId,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    pub namespace: Text,
    pub created_at: Time,
    pub rest: Rest,
    /// Failures of scanners on this work.
    pub trouble: Option<Trouble>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rest {
    /// Attempts `next..attempts` and steps `next_step..steps` are still there.
    Purge { next: u32, attempts: u32, next_step: u32, steps: u32 },
    /// Children after this one in key order have not been looked at.
    CancelChildren { after: Option<ExecutionId>, reason: Text, by: Text },
    /// Out-edges from `next` on are not resolved. It counts only while the member has ended with this number of replays.
    Resolve { replays: u32, next: u32 },
    /// Out-edges from `next` on have not been taken back. It counts only while the member has this number of replays; if it
    /// ends meanwhile its edges are resolved behind it.
    Reopen { replays: u32, next: u32 },
}

impl Continuation {
    pub fn work(&self) -> Work {
        match self.body.rest {
            Rest::Purge { .. } => Work::Purge,
            Rest::CancelChildren { .. } => Work::CancelChildren,
            Rest::Resolve { .. } => Work::Resolve,
            Rest::Reopen { .. } => Work::Reopen,
        }
    }

    pub fn key(&self) -> Key {
        Key::Continuation(self.owner, self.work())
    }

    pub fn facets(&self) -> Vec<Value> {
        vec![
            Value::text(&self.body.namespace),
            Value::Text(self.work().timer().name().into()),
            Value::Int(self.body.created_at.as_i64()),
        ]
    }

    /// The timer of the continuation at its own time, before any delay after a failure.
    pub fn timers(&self) -> Vec<Due> {
        vec![Due { timer: self.work().timer(), at: self.body.created_at }]
    }

    pub fn due(&self) -> Vec<Due> {
        match &self.body.trouble {
            None => self.timers(),
            Some(trouble) => trouble.apply(self.timers()),
        }
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
        256
    }
}

impl Decode for Continuation {
    type Id = (ExecutionId, Work);

    fn decode((owner, _): Self::Id, parts: &[(u8, Bytes)], _: PartMask) -> Result<Self, DecodeError> {
        Ok(Self { owner, body: codec::required("body", parts, 0)? })
    }
}
