//! What a commit carries to a store: records as bytes, typed facets, due entries, one feed entry.

use crate::id::CommitId;
use crate::record::Key;
use crate::schema::{Due, Timer, Value};
use crate::text::Text;
use crate::time::Time;
use bytes::Bytes;

/// Where a partition's history stands. `seq` grows by one with every commit of a generation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Position {
    pub generation: u64,
    pub seq: u64,
}

impl Position {
    /// Where the next commit leads.
    pub const fn next(self) -> Self {
        Self { seq: self.seq + 1, ..self }
    }
}

/// The head record of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Head {
    pub position: Position,
    /// The last commit that was applied; nil before the first. Two histories of the same length differ in it.
    pub last: CommitId,
    /// The `now` of the last commit; a commit's `now` is never smaller.
    pub now: Time,
}

impl Head {
    /// Both stand at the same place of the same history.
    pub fn is_at(&self, other: &Self) -> bool {
        self.position == other.position && self.last == other.last
    }

    /// The history that stands here does not lead through what somebody saw. `known` tells whether it has the last commit
    /// of that.
    pub fn has_lost(&self, seen: &Self, known: bool) -> bool {
        let leads_through = seen.is_at(self) || known || seen.last == CommitId::default();
        seen.position > self.position || !leads_through
    }
}

/// One commit. The store applies it whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub id: CommitId,
    /// The head this node saw last. If the partition is still there, nobody else has written. If it is not that far, or
    /// does not know the last commit of it, the store has lost something. Another generation is a conflict.
    pub expect: Head,
    /// The records that were read are as of `expect` or later, so if `expect` holds they need no check of their own.
    pub fast: bool,
    /// The commands relied on a range that was scanned: if `expect` no longer holds the commit is a conflict.
    pub strict: bool,
    pub now: Time,
    /// The position this commit takes instead of the next one, which must lie beyond the head: a generation further,
    /// because the store has lost what somebody saw.
    pub raise: Option<Position>,
    /// Every record that was read or is written, with the revision that was seen; `None` means it was absent.
    pub reads: Vec<(Key, Option<CommitId>)>,
    pub writes: Vec<Write>,
    /// Entries of the due index that go without their record being touched: poison, stale, damaged.
    pub due_drops: Vec<DueEntry>,
    /// The encoded events of this commit; empty if there are none.
    pub feed: Bytes,
    /// Lanes that got ready work: a hint for other nodes.
    pub lanes: Vec<(Text, Text)>,
}

impl Batch {
    /// About how many bytes it carries.
    pub fn weight(&self) -> usize {
        self.feed.len() + self.writes.iter().map(Write::weight).sum::<usize>()
    }
}

/// One changed record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub key: Key,
    pub what: Change,
    pub due_add: Vec<Due>,
    pub due_remove: Vec<Due>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The record is new: all its facets and parts.
    Insert(Body),
    /// The record was there with the facets `old`: all its facets now, and the parts that changed.
    Update { old: Vec<Value>, body: Body },
    /// The record goes. Without `old` it was absent, or it was not looked at; the latter only where no index of its
    /// kind has facets.
    Delete { old: Option<Vec<Value>> },
}

/// Facets in schema order, and parts by number; a part that is `None` is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    pub facets: Vec<Value>,
    pub parts: Vec<(u8, Option<Bytes>)>,
}

impl Write {
    fn weight(&self) -> usize {
        match &self.what {
            Change::Delete { .. } => 64,
            Change::Insert(body) | Change::Update { body, .. } => {
                160 + body.parts.iter().map(|(_, bytes)| bytes.as_ref().map_or(0, Bytes::len)).sum::<usize>()
            }
        }
    }
}

/// One entry of the due index with its raw key, which may name no record. Timer 0, the number of no timer, marks bytes
/// in the index that the store cannot decode: `key` holds all of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DueEntry {
    pub at: Time,
    pub timer: u8,
    pub kind: u8,
    pub key: Bytes,
}

impl DueEntry {
    pub fn new(due: Due, key: Key) -> Self {
        Self {
            at: due.at,
            timer: due.timer as u8,
            kind: key.kind() as u8,
            key: Bytes::copy_from_slice(key.to_bytes().as_slice()),
        }
    }

    pub fn timer(&self) -> Option<Timer> {
        Timer::from_u8(self.timer)
    }
}
