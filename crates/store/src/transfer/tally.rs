//! Counts and digests of records, the same in whatever order they come.

use super::Raw;
use std::collections::BTreeMap;
use std::fmt;
use weft_core::digest;
use weft_core::schema::Kind;

/// What a store or a file holds, by kind of record. Kinds that have none are not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub kinds: BTreeMap<Kind, Tally>,
}

impl Summary {
    /// All records together.
    pub fn records(&self) -> u64 {
        self.kinds.values().map(|tally| tally.count).sum()
    }

    pub(super) fn add(&mut self, record: &Raw) {
        let tally = self.kinds.entry(record.kind).or_default();
        tally.count += 1;
        tally.digest.add(record);
    }

    /// The first kind in which the two differ, as a sentence.
    pub(super) fn difference(&self, other: &Summary) -> Option<String> {
        Kind::ALL.into_iter().find_map(|kind| {
            let of = |summary: &Summary| summary.kinds.get(&kind).copied().unwrap_or_default();
            let (ours, theirs, name) = (of(self), of(other), kind.table().name);
            match (ours == theirs, ours.count == theirs.count) {
                (true, _) => None,
                (false, true) => Some(format!("its {} records of `{name}` are not the same ones", theirs.count)),
                (false, false) => Some(format!("it has {} records of `{name}` of {}", theirs.count, ours.count)),
            }
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub count: u64,
    pub digest: Digest,
}

/// The SHA-256 digests of records, added up. It finds loss and damage; against somebody who makes up records on purpose
/// it promises less than the digest of a file would.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest([u8; 32]);

impl Digest {
    pub(super) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(super) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn add(&mut self, record: &Raw) {
        let head = [&[record.kind as u8][..], &record.partition.0.to_be_bytes(), &record.key];
        let numbers: Vec<[u8; 1]> = record.parts.iter().map(|(part, _)| [*part]).collect();
        let parts = record.parts.iter().zip(&numbers).flat_map(|((_, bytes), number)| [&number[..], &bytes[..]]);
        let one = digest::digest(&head.into_iter().chain(parts).collect::<Vec<_>>());
        let mut carry = 0;
        for (sum, byte) in self.0.iter_mut().zip(one).rev() {
            carry += u16::from(*sum) + u16::from(byte);
            *sum = carry as u8;
            carry >>= 8;
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use weft_core::PartitionId;

    fn raw(key: &'static str, parts: &[(u8, &'static str)]) -> Raw {
        let parts = parts.iter().map(|(part, bytes)| (*part, Bytes::from_static(bytes.as_bytes()))).collect();
        Raw { partition: PartitionId(1), kind: Kind::Dedup, key: Bytes::from_static(key.as_bytes()), parts }
    }

    fn digest(records: &[Raw]) -> Digest {
        let mut summary = Summary::default();
        records.iter().for_each(|record| summary.add(record));
        summary.kinds[&Kind::Dedup].digest
    }

    #[test]
    fn ops_22_the_order_does_not_matter_and_everything_else_does() {
        let (a, b) = (raw("a", &[(0, "x")]), raw("b", &[(0, "y"), (2, "z")]));
        let whole = digest(&[a.clone(), b.clone()]);
        assert_eq!(whole, digest(&[b.clone(), a.clone()]));
        for other in [
            raw("b", &[(0, "y")]),
            raw("b", &[(0, "y"), (1, "z")]),
            raw("b", &[(0, "z"), (2, "y")]),
            raw("c", &[(0, "y"), (2, "z")]),
            Raw { partition: PartitionId(2), ..b.clone() },
        ] {
            assert_ne!(whole, digest(&[a.clone(), other]));
        }
        assert_ne!(digest(&[a.clone(), a.clone()]), Digest::default(), "two equal records do not cancel out");
    }
}
