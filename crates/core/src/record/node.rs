//! A node of a deployment: that it lives, what it serves, and how far it has seen every partition.
//!
//! The registry is advice about who scans what, and a witness should the store go back in time. No rule about executions
//! reads it.

use super::Key;
use crate::change::Position;
use crate::codec::{self, Decode, DecodeError};
use crate::id::PartitionId;
use crate::limits::{NODE_KEEP_MS, NODE_TTL_MS};
use crate::schema::{Due, PartMask, Timer, Value};
use crate::text::Text;
use crate::time::Time;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use uuid::Uuid;

/// The registry among the lanes of a hint to other nodes: namespace and lane. No namespace of a user is empty.
pub const LANE: (&str, &str) = ("", "nodes");

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub partition: PartitionId,
    /// Drawn at every start: a node that starts again is another one.
    pub uuid: Uuid,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    pub name: Text,
    /// The version of the program.
    pub version: Text,
    pub started_at: Time,
    /// The last heartbeat.
    pub seen_at: Time,
    /// It has said that it goes; what it saw stays known.
    pub left: bool,
    /// The partitions whose timers it looks after.
    pub claimed: Vec<u16>,
    /// The items that its scanners handle. Nodes with equal filters share the partitions among themselves.
    pub filters: Filters,
    /// The last position it saw of each partition, in order.
    pub seen: Vec<(u64, u64)>,
}

/// Selects items of scanners by namespace and tag, byte for byte. A filter without fields selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    pub namespace: Option<Text>,
    pub tag: Option<(Text, Text)>,
}

impl Filter {
    pub const NONE: Filter = Filter { namespace: None, tag: None };

    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// This filter, with the fields of `general` where it has none.
    pub fn or(&self, general: &Filter) -> Filter {
        Filter {
            namespace: self.namespace.clone().or_else(|| general.namespace.clone()),
            tag: self.tag.clone().or_else(|| general.tag.clone()),
        }
    }

    pub fn covers_namespace(&self, namespace: &str) -> bool {
        self.namespace.as_ref().is_none_or(|wanted| **wanted == *namespace)
    }

    /// Whether a record with these tags is selected. A tag that is absent is never equal.
    pub fn covers(&self, namespace: &str, tags: &BTreeMap<Text, Text>) -> bool {
        let tagged = |(key, value): &(Text, Text)| tags.get(key) == Some(value);
        self.covers_namespace(namespace) && self.tag.as_ref().is_none_or(tagged)
    }
}

/// `namespace=shop tag=team=a`, or `none`.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.namespace, &self.tag) {
            (None, None) => f.write_str("none"),
            (Some(namespace), None) => write!(f, "namespace={namespace}"),
            (None, Some((key, value))) => write!(f, "tag={key}={value}"),
            (Some(namespace), Some((key, value))) => write!(f, "namespace={namespace} tag={key}={value}"),
        }
    }
}

/// The filters of all scanners of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filters {
    /// The filter of every scanner that `scanners` does not name.
    pub general: Filter,
    /// Scanners with another filter, and every scanner that the embedding program registered: a node that has it forms no
    /// group with one that has not.
    pub scanners: BTreeMap<Text, Filter>,
}

impl Filters {
    /// The filter of a scanner.
    pub fn of(&self, scanner: &str) -> &Filter {
        self.scanners.get(scanner).unwrap_or(&self.general)
    }
}

impl Node {
    pub fn key(&self) -> Key {
        Key::Node(self.partition, self.uuid)
    }

    /// Counted on when partitions are shared out.
    pub fn is_live(&self, now: Time) -> bool {
        !self.body.left && now.since(self.body.seen_at) < NODE_TTL_MS
    }

    /// How far it has seen the partition.
    pub fn seen(&self, partition: PartitionId) -> Option<Position> {
        let (generation, seq) = *self.body.seen.get(usize::from(partition.0))?;
        Some(Position { generation, seq })
    }

    pub fn facets(&self) -> Vec<Value> {
        vec![
            Value::text(&self.body.name),
            Value::text(&self.body.version),
            Value::Int(self.body.started_at.as_i64()),
            Value::Int(self.body.seen_at.as_i64()),
        ]
    }

    pub fn due(&self) -> Vec<Due> {
        vec![Due { timer: Timer::Retention, at: self.body.seen_at + NODE_KEEP_MS }]
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
        256 + self.body.seen.len() * 16
    }
}

impl Decode for Node {
    type Id = (PartitionId, Uuid);

    fn decode((partition, uuid): Self::Id, parts: &[(u8, Bytes)], _: PartMask) -> Result<Self, DecodeError> {
        Ok(Self { partition, uuid, body: codec::required("body", parts, 0)? })
    }
}
