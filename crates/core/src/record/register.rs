//! What a partition has to know about many of its records without looking through them: where its audit log ends, which
//! names API keys have, and which nodes are wanted to stop.

use super::{Key, audit};
use crate::codec::{self, Decode, DecodeError};
use crate::id::{KeyId, PartitionId};
use crate::schema::{Due, PartMask, Value};
use crate::text::Text;
use crate::time::Time;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use uuid::Uuid;

/// What a register is about. The number is stored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[repr(u8)]
pub enum Subject {
    AuditEnd = 1,
    KeyNames = 2,
    NodeDrains = 3,
}

impl Subject {
    pub const ALL: [Subject; 3] = [Subject::AuditEnd, Subject::KeyNames, Subject::NodeDrains];

    pub fn from_u8(number: u8) -> Option<Subject> {
        Self::ALL.into_iter().find(|subject| *subject as u8 == number)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Subject::AuditEnd => "audit_end",
            Subject::KeyNames => "key_names",
            Subject::NodeDrains => "node_drains",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    pub partition: PartitionId,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    AuditEnd(audit::End),
    KeyNames(BTreeMap<Text, KeyId>),
    /// By node, of those whose records are in this partition.
    NodeDrains(BTreeMap<Uuid, Drain>),
}

/// An operator's wish that a node stops. It is about this run of the node: one that starts again has another id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    pub by: Text,
    pub reason: Text,
    pub at: Time,
}

impl Register {
    fn subject(&self) -> Subject {
        match self.body {
            Body::AuditEnd(_) => Subject::AuditEnd,
            Body::KeyNames(_) => Subject::KeyNames,
            Body::NodeDrains(_) => Subject::NodeDrains,
        }
    }

    pub fn key(&self) -> Key {
        Key::Register(self.partition, self.subject())
    }

    pub fn facets(&self) -> Vec<Value> {
        vec![Value::Text(self.subject().name().into())]
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
        match &self.body {
            Body::AuditEnd(_) => 256,
            Body::KeyNames(names) => 256 + names.len() * 64,
            Body::NodeDrains(drains) => 256 + drains.len() * 128,
        }
    }
}

impl Decode for Register {
    type Id = (PartitionId, Subject);

    fn decode((partition, subject): Self::Id, parts: &[(u8, Bytes)], _: PartMask) -> Result<Self, DecodeError> {
        let register = Self { partition, body: codec::required("body", parts, 0)? };
        match register.subject() == subject {
            true => Ok(register),
            false => Err(DecodeError::new("body", "is about something else")),
        }
    }
}
