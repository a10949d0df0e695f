//! An edge: a downstream waits for the end of an upstream. Only its resolution ever changes.

use super::Key;
use super::execution::{Outcome, Reason};
use crate::codec::{self, Decode, DecodeError};
use crate::id::{ExecutionId, FlowId};
use crate::schema::{Due, PartMask, Value};
use crate::text::Text;
use crate::time::Time;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Named by its upstream and its number among that one's edges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    pub upstream: ExecutionId,
    pub number: u32,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    pub flow: FlowId,
    pub downstream: ExecutionId,
    /// Which of the downstream's groups.
    pub group: u8,
    pub on: On,
    pub input: Option<Text>,
    /// Order of creation in the flow.
    pub seq: u64,
    pub resolved: Option<Resolution>,
}

/// Which end of the upstream meets the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum On {
    Success,
    Failure,
    Any,
}

impl On {
    pub const fn name(self) -> &'static str {
        match self {
            On::Success => "success",
            On::Failure => "failure",
            On::Any => "any",
        }
    }
}

/// How the upstream ended, kept so that purging it leaves the edge decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    pub met: bool,
    pub outcome: Outcome,
    pub reason: Reason,
    /// The attempt that was open when it ended.
    pub attempt: Option<u32>,
    pub at: Time,
    /// Its place among the resolutions of the downstream.
    pub order: u32,
    /// How often the upstream had been replayed when it ended so: which of its ends it was, if it had no attempt.
    #[serde(skip)]
    pub replays: u32,
}

/// The format of an edge whose upstream had been replayed: how often stands behind what format 1 has.
const REPLAYED_VERSION: u8 = 2;

impl Edge {
    pub fn key(&self) -> Key {
        Key::Edge(self.upstream, self.number)
    }

    pub const fn state(&self) -> &'static str {
        match &self.body.resolved {
            None => "pending",
            Some(Resolution { met: true, .. }) => "met",
            Some(_) => "unmet",
        }
    }

    pub fn facets(&self) -> Vec<Value> {
        vec![
            Value::bytes(self.body.flow.uuid().as_bytes()),
            Value::bytes(self.upstream.uuid().as_bytes()),
            Value::bytes(self.body.downstream.uuid().as_bytes()),
            Value::Text(self.state().into()),
        ]
    }

    pub fn due(&self) -> Vec<Due> {
        Vec::new()
    }

    pub fn encode(&self, mask: PartMask) -> Vec<(u8, Option<Bytes>)> {
        if !mask.has(0) {
            return Vec::new();
        }
        let bytes = match self.body.resolved.map_or(0, |end| end.replays) {
            0 => codec::encode(&self.body),
            replays => codec::encode_as(REPLAYED_VERSION, &(&self.body, replays)),
        };
        vec![(0, Some(bytes))]
    }

    pub fn loaded(&self) -> PartMask {
        PartMask::of(0)
    }

    pub fn dirty(&self) -> PartMask {
        PartMask::of(0)
    }

    pub fn mark_clean(&mut self) {}

    pub fn weight(&self) -> usize {
        224
    }
}

impl Decode for Edge {
    type Id = (ExecutionId, u32);

    fn decode((upstream, number): Self::Id, parts: &[(u8, Bytes)], _: PartMask) -> Result<Self, DecodeError> {
        let body = match codec::part(parts, 0) {
            Some(bytes) if bytes.first() == Some(&REPLAYED_VERSION) => {
                let (mut body, replays): (Body, u32) = codec::decode_as(REPLAYED_VERSION, "body", bytes)?;
                body.resolved = body.resolved.map(|end| Resolution { replays, ..end });
                body
            }
            _ => codec::required("body", parts, 0)?,
        };
        Ok(Self { upstream, number, body })
    }
}
