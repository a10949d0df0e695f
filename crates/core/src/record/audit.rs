//! An entry of the audit log: one act of an operator or administrator, or one that was refused.
//!
//! The entries of a partition are numbered without gaps, and each carries a hash over the one before and its own fields,
//! so that one that is changed, removed or moved shows. What executions carry is never in it.

use super::Key;
use crate::codec::{self, Decode, DecodeError};
use crate::digest::digest;
use crate::id::PartitionId;
use crate::limits::AUDIT_KEPT_MS;
use crate::schema::{Due, PartMask, Timer, Value};
use crate::text::Text;
use crate::time::Time;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// What `result` says of an act that was done.
pub const DONE: &str = "ok";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    pub partition: PartitionId,
    /// From 1.
    pub number: u64,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    pub act: Act,
    /// The end of the log before this entry. So each can be checked by itself when those before have been kept long
    /// enough and are gone.
    pub previous: End,
    /// The hash over the entry before and this one.
    pub chain: [u8; 32],
    /// How long it is kept, as it was set when it was written.
    pub kept_ms: u64,
}

/// What was written before the time to keep an entry could be set.
#[derive(Deserialize)]
struct Unset {
    act: Act,
    previous: End,
    chain: [u8; 32],
}

impl From<Unset> for Body {
    fn from(Unset { act, previous, chain }: Unset) -> Self {
        Self { act, previous, chain, kept_ms: AUDIT_KEPT_MS }
    }
}

/// Who did what, from where, to what end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Act {
    pub at: Time,
    pub principal: Text,
    /// Where the principal acted; empty for what belongs to the whole deployment.
    pub namespace: Text,
    /// Id of the key.
    pub key: Text,
    pub address: Text,
    pub request: Text,
    pub verb: Text,
    pub target: Text,
    /// How the target stood before and after; empty if that was not looked at.
    pub change: Text,
    /// `ok`, or the code of the refusal.
    pub result: Text,
}

impl Audit {
    /// The entry after `previous` in the log of its partition.
    pub fn after(previous: &End, partition: PartitionId, act: Act, kept_ms: u64) -> Self {
        let chain = chain(partition, previous, &act);
        Self { partition, number: previous.number + 1, body: Body { act, previous: *previous, chain, kept_ms } }
    }

    /// Where the log ends with this entry.
    pub fn end(&self) -> End {
        End { number: self.number, at: self.body.act.at, chain: self.body.chain }
    }

    /// It is what was written after `previous`.
    pub fn follows(&self, previous: &End) -> bool {
        self.is_sound() && self.body.previous == *previous
    }

    /// Its hash is that of its own fields and of the end it was written after.
    pub fn is_sound(&self) -> bool {
        let previous = &self.body.previous;
        self.number == previous.number + 1 && self.body.chain == chain(self.partition, previous, &self.body.act)
    }

    /// The entries before this one have been kept as long as they had to be, which is `kept_ms` now.
    pub fn may_be_first(&self, now: Time, kept_ms: u64) -> bool {
        self.number == 1 || self.body.previous.at + kept_ms <= now
    }

    pub fn key(&self) -> Key {
        Key::Audit(self.partition, self.number)
    }

    pub fn facets(&self) -> Vec<Value> {
        let act = &self.body.act;
        vec![
            Value::Int(act.at.as_i64()),
            Value::text(&act.principal),
            Value::text(&act.verb),
            Value::text(&act.target),
            Value::text(&act.result),
        ]
    }

    pub fn due(&self) -> Vec<Due> {
        vec![Due { timer: Timer::Retention, at: self.body.act.at + self.body.kept_ms }]
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
        384 + self.body.act.change.len()
    }
}

/// Where the log of a partition ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Of the last entry; 0 if there was none.
    pub number: u64,
    pub at: Time,
    pub chain: [u8; 32],
}

fn chain(partition: PartitionId, previous: &End, act: &Act) -> [u8; 32] {
    digest(&[
        b"audit",
        &previous.chain,
        &partition.0.to_be_bytes(),
        &previous.number.to_be_bytes(),
        &previous.at.ms().to_be_bytes(),
        &act.at.ms().to_be_bytes(),
        act.principal.as_bytes(),
        act.namespace.as_bytes(),
        act.key.as_bytes(),
        act.address.as_bytes(),
        act.request.as_bytes(),
        act.verb.as_bytes(),
        act.target.as_bytes(),
        act.change.as_bytes(),
        act.result.as_bytes(),
    ])
}

impl Decode for Audit {
    type Id = (PartitionId, u64);

    fn decode((partition, number): Self::Id, parts: &[(u8, Bytes)], _: PartMask) -> Result<Self, DecodeError> {
        // The two forms differ in length, so that neither can be taken for the other.
        let body = codec::required("body", parts, 0);
        let body = body.or_else(|_| codec::required::<Unset>("body", parts, 0).map(Body::from))?;
        Ok(Self { partition, number, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn act(at: u64) -> Act {
        Act {
            at: Time::from_ms(at),
            principal: "ops".into(),
            namespace: "shop".into(),
            key: "0aZz9bC1".into(),
            address: "127.0.0.1".into(),
            request: "r1".into(),
            verb: "hold".into(),
            target: "x_3_1".into(),
            change: "waiting → held".into(),
            result: DONE.into(),
        }
    }

    /// A way to change an entry.
    type Change = fn(&mut Audit);

    #[test]
    fn sec_12_an_entry_that_differs_in_anything_does_not_follow() {
        let partition = PartitionId(3);
        let first = Audit::after(&End::default(), partition, act(5), AUDIT_KEPT_MS);
        let second = Audit::after(&first.end(), partition, act(7), AUDIT_KEPT_MS);
        assert!(first.follows(&End::default()) && second.follows(&first.end()));
        assert!(!second.follows(&End::default()), "the one before was removed");
        let changes: [Change; 12] = [
            |entry| entry.number += 1,
            |entry| entry.partition = PartitionId(4),
            |entry| entry.body.previous.at = Time::from_ms(4),
            |entry| entry.body.act.at = Time::from_ms(8),
            |entry| entry.body.act.principal = "eve".into(),
            |entry| entry.body.act.namespace = "".into(),
            |entry| entry.body.act.key = "".into(),
            |entry| entry.body.act.address = "".into(),
            |entry| entry.body.act.verb = "release".into(),
            |entry| entry.body.act.target = "x_3_2".into(),
            |entry| entry.body.act.change = "".into(),
            |entry| entry.body.act.result = "forbidden".into(),
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let mut changed = second.clone();
            change(&mut changed);
            assert!(!changed.follows(&first.end()), "change {at}");
        }
    }

    #[test]
    fn sec_12_entries_of_which_nobody_set_how_long_they_are_kept_are_still_read() {
        let partition = PartitionId(3);
        let entry = Audit::after(&End::default(), partition, act(5), 7);
        let read = |bytes: Bytes| Audit::decode((partition, 1), &[(0, bytes)], PartMask::ALL);
        assert_eq!(read(codec::encode(&entry.body)), Ok(entry.clone()));
        let Body { act, previous, chain, .. } = entry.body.clone();
        let old = read(codec::encode(&(act, previous, chain))).unwrap();
        assert_eq!(old.body, Body { kept_ms: AUDIT_KEPT_MS, ..entry.body });
    }
}
