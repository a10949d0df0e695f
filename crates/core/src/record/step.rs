//! A recorded step of an execution: written once under its name, never changed, gone with the execution.
//!
//! Steps are numbered in the order in which they were recorded, over the whole life of the execution, so that a replay
//! clears them by remembering a number. The dedup record of the name says which number it has.

use super::{Key, Lazy};
use crate::codec::{self, Decode, DecodeError};
use crate::digest;
use crate::id::ExecutionId;
use crate::schema::{Due, PartMask, Value, step as schema};
use crate::text::Text;
use crate::time::Time;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub execution: ExecutionId,
    pub number: u32,
    pub body: Body,
    value: Lazy<Bytes>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    pub name: Text,
    /// The first number of the run it belongs to; a replay that clears steps begins another.
    pub since: u32,
    pub content_type: Option<Text>,
    pub attempt: u32,
    pub at: Time,
    pub bytes: u32,
}

impl Step {
    pub fn new(execution: ExecutionId, number: u32, body: Body, value: Bytes) -> Self {
        Self { execution, number, body, value: Lazy::Loaded(value) }
    }

    /// What was recorded; ask the transaction for the part first.
    pub fn value(&self) -> &Bytes {
        self.value.loaded().expect("step: value was asked for")
    }

    /// Where it is written that `name` is taken, in the run that began with the number `since`.
    pub fn name_key(execution: ExecutionId, since: u32, name: &str) -> Key {
        Key::Dedup(execution.partition(), digest::step(execution, since, name))
    }

    pub fn key(&self) -> Key {
        Key::Step(self.execution, self.number)
    }

    pub fn facets(&self) -> Vec<Value> {
        vec![
            Value::bytes(self.execution.uuid().as_bytes()),
            Value::Int(i64::from(self.number)),
            Value::text(&self.body.name),
            Value::Int(i64::from(self.body.attempt)),
            Value::Int(self.body.at.as_i64()),
            Value::Int(i64::from(self.body.bytes)),
        ]
    }

    pub fn due(&self) -> Vec<Due> {
        Vec::new()
    }

    pub fn encode(&self, mask: PartMask) -> Vec<(u8, Option<Bytes>)> {
        let mut parts = Vec::with_capacity(2);
        if mask.has(schema::BODY) {
            parts.push((schema::BODY, Some(codec::encode(&self.body))));
        }
        if mask.has(schema::VALUE) {
            parts.push((schema::VALUE, self.value.loaded().cloned()));
        }
        parts
    }

    pub fn loaded(&self) -> PartMask {
        match self.value {
            Lazy::Loaded(_) => schema::LIGHT.with(PartMask::of(schema::VALUE)),
            Lazy::Unloaded => schema::LIGHT,
        }
    }

    /// Written once, whole.
    pub fn dirty(&self) -> PartMask {
        PartMask::of(schema::BODY).with(PartMask::of(schema::VALUE))
    }

    pub fn mark_clean(&mut self) {}

    pub fn weight(&self) -> usize {
        256 + self.value.loaded().map_or(0, Bytes::len)
    }

    pub fn absorb(&mut self, other: &Step) {
        if self.value.loaded().is_none() {
            self.value = other.value.clone();
        }
    }
}

impl Decode for Step {
    type Id = (ExecutionId, u32);

    fn decode((execution, number): Self::Id, parts: &[(u8, Bytes)], asked: PartMask) -> Result<Self, DecodeError> {
        let value = match asked.has(schema::VALUE) {
            true => {
                let bytes = codec::part(parts, schema::VALUE);
                Lazy::Loaded(bytes.cloned().ok_or_else(|| DecodeError::new("value", "is missing"))?)
            }
            false => Lazy::Unloaded,
        };
        Ok(Self { execution, number, body: codec::required("body", parts, schema::BODY)?, value })
    }
}
