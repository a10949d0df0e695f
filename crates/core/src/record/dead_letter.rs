//! Dead letters: items that a scanner could not handle, for operators to inspect, retry or discard.

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
    pub why: Why,
    pub scanner: Text,
    /// The timer whose entry the scanner was handling.
    pub timer: Timer,
    pub due: Time,
    /// The raw key of the item, which may be anything.
    pub kind: u8,
    pub key: Bytes,
    pub error: Text,
    pub fails: u32,
    pub parked_at: Time,
    /// When a failing item is tried again.
    pub next_try_at: Option<Time>,
    /// Poison entries, which belong to no record, go after a while; parked items stay with their record.
    pub expires_at: Option<Time>,
    /// The namespace that the item belongs to, if that is known.
    pub namespace: Option<Text>,
    /// The flow that the item belongs to, if that is known.
    pub flow: Option<FlowId>,
    /// Timers of a damaged record whose entries are gone from the due index.
    pub dropped: Vec<Timer>,
}

/// The reason why an item is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// A rule refuses it again and again.
    Failing,
    /// Its record does not decode.
    Damaged,
    /// The entry names no record that could exist.
    Poison,
}

impl Why {
    pub const fn name(self) -> &'static str {
        match self {
            Why::Failing => "failing",
            Why::Damaged => "damaged",
            Why::Poison => "poison",
        }
    }
}

impl Body {
    /// The kind of the item, if it is one that exists.
    pub fn item_kind(&self) -> Option<Kind> {
        Kind::from_u8(self.kind)
    }
}

impl DeadLetter {
    pub fn key(&self) -> Key {
        Key::DeadLetter(self.partition, self.uuid)
    }

    /// The record that it is about, if its key names one that could exist.
    pub fn item(&self) -> Option<Key> {
        self.body.item_kind().and_then(|kind| Key::from_bytes(self.partition, kind, &self.body.key))
    }

    pub fn facets(&self) -> Vec<Value> {
        vec![Value::text(&self.body.scanner), Value::Int(self.body.parked_at.as_i64())]
    }

    pub fn due(&self) -> Vec<Due> {
        self.body.expires_at.map(|at| Due { timer: Timer::Retention, at }).into_iter().collect()
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
        256 + self.body.error.len() + self.body.key.len()
    }
}

impl Decode for DeadLetter {
    type Id = (PartitionId, Uuid);

    fn decode((partition, uuid): Self::Id, parts: &[(u8, Bytes)], _: PartMask) -> Result<Self, DecodeError> {
        Ok(Self { partition, uuid, body: codec::required("body", parts, 0)? })
    }
}
