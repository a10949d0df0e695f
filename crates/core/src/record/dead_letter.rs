//! An item that a scanner gave up on, in sight of an operator.

use super::Key;
use crate::codec::{self, Decode, DecodeError};
use crate::id::{FlowId, PartitionId};
use crate::schema::{Due, Kind, PartMask, Timer, Value};
use crate::text::Text;
use crate::time::Time;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    pub partition: PartitionId,
    pub uuid: Uuid,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    pub scanner: Text,
    pub timer: Timer,
    pub due: Time,
    /// The raw key of the item, which may be anything.
    pub kind: u8,
    pub key: Bytes,
    pub error: Text,
    pub fails: u32,
    pub parked_at: Time,
    /// Poison entries, which belong to no record, go after a while; parked items stay with their record.
    pub expires_at: Option<Time>,
    /// The flow that the item belongs to, if that is known.
    pub flow: Option<FlowId>,
}

/// A letter as format 1 has it.
#[derive(Deserialize)]
struct Flowless {
    scanner: Text,
    timer: Timer,
    due: Time,
    kind: u8,
    key: Bytes,
    error: Text,
    fails: u32,
    parked_at: Time,
    expires_at: Option<Time>,
}

impl From<Flowless> for Body {
    fn from(it: Flowless) -> Self {
        let Flowless { scanner, timer, due, kind, key, error, fails, parked_at, expires_at } = it;
        Body { scanner, timer, due, kind, key, error, fails, parked_at, expires_at, flow: None }
    }
}

/// The format in which letters are written: they name the flow.
const VERSION: u8 = 2;

impl Body {
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        match bytes.first() {
            Some(&codec::VERSION) => codec::decode::<Flowless>("body", bytes).map(Body::from),
            _ => codec::decode_as(VERSION, "body", bytes),
        }
    }

    /// The kind of the item, if it is one that exists.
    pub fn item_kind(&self) -> Option<Kind> {
        Kind::from_u8(self.kind)
    }
}

impl DeadLetter {
    pub fn key(&self) -> Key {
        Key::DeadLetter(self.partition, self.uuid)
    }

    pub fn facets(&self) -> Vec<Value> {
        vec![Value::text(&self.body.scanner), Value::Int(self.body.parked_at.as_i64())]
    }

    pub fn due(&self) -> Vec<Due> {
        self.body.expires_at.map(|at| Due { timer: Timer::Retention, at }).into_iter().collect()
    }

    pub fn encode(&self, mask: PartMask) -> Vec<(u8, Option<Bytes>)> {
        if mask.has(0) { vec![(0, Some(codec::encode_as(VERSION, &self.body)))] } else { Vec::new() }
    }

    pub fn loaded(&self) -> PartMask {
        PartMask::of(0)
    }

    pub fn dirty(&self) -> PartMask {
        PartMask::of(0)
    }

    pub fn mark_clean(&mut self) {}

    pub fn weight(&self) -> usize {
        256 + self.body.error.len() + self.body.key.len()
    }
}

impl Decode for DeadLetter {
    type Id = (PartitionId, Uuid);

    fn decode((partition, uuid): Self::Id, parts: &[(u8, Bytes)], _: PartMask) -> Result<Self, DecodeError> {
        let bytes = codec::part(parts, 0).ok_or_else(|| DecodeError::new("body", "is missing"))?;
        Ok(Self { partition, uuid, body: Body::decode(bytes)? })
    }
}
