//! What makes a repeated call harmless: a kept reply, or the binding of an idempotency key.

use super::Key;
use crate::codec::{self, Decode, DecodeError};
use crate::id::{ExecutionId, PartitionId};
use crate::record::execution::PublicState;
use crate::reply::Reply;
use crate::schema::{Due, PartMask, Timer, Value};
use crate::text::Text;
use crate::time::Time;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dedup {
    pub partition: PartitionId,
    pub digest: [u8; 32],
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    pub namespace: Text,
    pub fingerprint: [u8; 32],
    pub what: What,
    /// `None` while the execution that is bound lives.
    pub expires_at: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// The reply to a call with a request id.
    Request { reply: Reply },
    /// An idempotency key and the one execution it stands for; how that one had ended, once it is purged.
    Key { execution: ExecutionId, purged: Option<PublicState> },
}

impl Dedup {
    pub fn key(&self) -> Key {
        Key::Dedup(self.partition, self.digest)
    }

    pub fn facets(&self) -> Vec<Value> {
        vec![Value::text(&self.body.namespace), Value::opt_time(self.body.expires_at)]
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
        320
    }
}

impl Decode for Dedup {
    type Id = (PartitionId, [u8; 32]);

    fn decode((partition, digest): Self::Id, parts: &[(u8, Bytes)], _: PartMask) -> Result<Self, DecodeError> {
        Ok(Self { partition, digest, body: codec::required("body", parts, 0)? })
    }
}
