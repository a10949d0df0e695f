//! What is left of a member that was purged before its flow: how it ended, under its id and key.

use super::Key;
use super::execution::{Outcome, Reason};
use crate::codec::{self, Decode, DecodeError};
use crate::id::{ExecutionId, FlowId};
use crate::schema::{Due, PartMask, Value};
use crate::text::Text;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    pub id: ExecutionId,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    pub flow: FlowId,
    pub key: Text,
    pub number: u32,
    pub rank: u64,
    pub critical: bool,
    pub outcome: Outcome,
    pub reason: Reason,
    pub fingerprint: [u8; 32],
    /// Edges that left it and are still there.
    pub outs: u32,
}

impl Tombstone {
    pub fn key(&self) -> Key {
        Key::Tombstone(self.id)
    }

    pub fn facets(&self) -> Vec<Value> {
        vec![Value::bytes(self.body.flow.uuid().as_bytes()), Value::Int(i64::from(self.body.number))]
    }

    pub fn due(&self) -> Vec<Due> {
        Vec::new()
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

impl Decode for Tombstone {
    type Id = ExecutionId;

    fn decode(id: ExecutionId, parts: &[(u8, Bytes)], _: PartMask) -> Result<Self, DecodeError> {
        Ok(Self { id, body: codec::required("body", parts, 0)? })
    }
}
