//! The store seam: six verbs, no default bodies, the same for every store.
//!
//! A store keeps records, index entries and a feed per partition, applies a commit whole or not at all, and says
//! whether it did. It knows nothing about leases or retries: no rule of the product is behind this seam.

pub mod admin;
pub mod conformance;
pub mod differential;
pub mod faulty;
pub mod memory;
pub mod merge;
pub mod transfer;

pub use admin::{Durability, Finding, Floor, Level, Severity};
pub use faulty::Faulty;
pub use memory::MemoryStore;

use bytes::Bytes;
use std::future::Future;
use std::sync::Arc;
use tokio::sync::mpsc;
use weft_core::change::{Batch, Head, Position};
use weft_core::record::Key;
use weft_core::schema::{IndexId, Kind, PartMask, Value};
use weft_core::{CommitId, PartitionId, Time};

/// A place that keeps partitions.
pub trait Store: Send + Sync + 'static {
    /// The records under `keys`, each with the parts in its mask, and the head of the partition. All of it is as of one
    /// moment. A record that is absent reads as `None`; a part that is absent is left out.
    fn read(
        &self,
        partition: PartitionId,
        keys: Vec<(Key, PartMask)>,
    ) -> impl Future<Output = Result<Read, Error>> + Send;

    /// Entries in order, one page per range. Without a partition all of them are covered, merged in order.
    fn scan(&self, partition: Option<PartitionId>, scan: Scan)
    -> impl Future<Output = Result<Vec<Page>, Error>> + Send;

    /// Applies the batch whole or not at all. Never repeats it, and never lets a client library repeat it.
    ///
    /// An id that arrives again after it was applied changes nothing and is answered as applied where it was; a barred
    /// one is never applied. Drops of the due index come before the timers that the batch arms.
    fn commit(&self, partition: PartitionId, batch: Batch) -> impl Future<Output = Outcome> + Send;

    /// Says whether a commit was applied, and bars it for good if it was not. The first bar of an id moves `seq` on and
    /// leaves nothing in the feed.
    fn resolve(&self, partition: PartitionId, id: CommitId) -> impl Future<Output = Result<Resolution, Error>> + Send;

    /// Hints from other nodes. They may be late, doubled or lost: nothing depends on them.
    fn watch(&self) -> Wakes;

    /// The store's clock.
    fn now(&self) -> impl Future<Output = Result<Time, Error>> + Send;

    /// What this store is and promises, which does not change, and how it is at the moment.
    fn describe(&self) -> Description;
}

/// Facts about a store that the engine asks for instead of guessing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    pub name: &'static str,
    /// Fixed when the store was created.
    pub partitions: u16,
    /// No other process can write: what this node saw last still holds.
    pub exclusive: bool,
    /// The size at which the engine closes a batch.
    pub batch_records: usize,
    pub batch_bytes: usize,
    pub durability: Durability,
    pub vitals: Vitals,
}

/// How a store is at the moment it is described, as far as it can tell without asking anybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vitals {
    /// Connections to a server, in use and idle.
    pub connections: Option<(usize, usize)>,
    /// Size of a write-ahead log that is kept beside the data.
    pub log_bytes: Option<u64>,
}

/// What `read` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub head: Head,
    /// In the order of the keys.
    pub found: Vec<Option<Found>>,
}

/// A stored record: its revision and the parts that were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub revision: CommitId,
    pub parts: Vec<(u8, Bytes)>,
}

/// What to walk over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Columns: the facets of the index.
    Index(IndexId),
    /// The due index. Columns: timer, due time, kind of record.
    Due,
    /// All records of a kind in key order. No columns.
    Records(Kind),
    /// The feed. Column: seq. The key is the commit id; part 0 is the encoded events, absent if there are none.
    Feed,
}

impl Target {
    /// How many columns an entry has.
    pub fn columns(self) -> usize {
        match self {
            Target::Index(index) => index.get().facets.len(),
            Target::Due => 3,
            Target::Records(_) => 0,
            Target::Feed => 1,
        }
    }
}

/// A walk over one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    pub target: Target,
    pub ranges: Vec<Range>,
    /// Entries per range.
    pub limit: usize,
    pub descending: bool,
    /// Also load these parts of each record. Not for `Due`.
    pub parts: Option<PartMask>,
}

/// Entries whose first columns equal `prefix`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Range {
    pub prefix: Vec<Value>,
    /// Only entries strictly beyond this one in the direction of the walk. Its columns begin with `prefix`.
    pub after: Option<Place>,
    /// Only entries whose first column after the prefix is at most this.
    pub until: Option<Value>,
}

/// The place of an entry: all its columns, then its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub columns: Vec<Value>,
    pub key: Bytes,
}

/// One entry of a page. Bytes in the due index that the store cannot read are an entry too: kind 0, no columns, and the
/// bytes as the key; to drop that entry removes exactly those bytes. In other indexes such bytes are passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub partition: PartitionId,
    /// The kind of the record as it is stored; 0 in the feed.
    pub kind: u8,
    pub place: Place,
    /// Present if parts were asked for.
    pub found: Option<Found>,
}

impl Entry {
    /// The record this entry names, if its key is well formed.
    pub fn key(&self) -> Option<Key> {
        Key::from_bytes(self.partition, Kind::from_u8(self.kind)?, &self.place.key)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Page {
    pub entries: Vec<Entry>,
    /// There are entries beyond the last one. False exactly at the end.
    pub more: bool,
}

/// What became of a commit.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The head as this commit left it.
    Applied { head: Head },
    /// Somebody else changed a record, the clock of the partition is ahead, or the head was needed and moved.
    /// `keys` are the records whose revision differs; none if the head alone decided.
    Conflict { keys: Vec<Key>, head: Head },
    /// The batch is built on a commit that the store does not have: an acknowledged write is gone.
    Lost { head: Head },
    /// It did not happen and never will; trying again may help. `source` is `Full` if there was no room for it.
    NotApplied { retry_after_ms: u64, source: Arc<dyn std::error::Error + Send + Sync> },
    /// It may have happened: ask `resolve`.
    Unknown { source: Arc<dyn std::error::Error + Send + Sync> },
}

/// The source of `Outcome::NotApplied` of a store without room: its disk is full, or its memory has reached a limit.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the store is full: {0}")]
pub struct Full(pub String);

/// What `resolve` found, or made sure of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    Applied {
        position: Position,
    },
    /// The id is barred: it was not applied and cannot be any more.
    NotApplied,
}

/// A hint that work may be waiting in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wake {
    pub partition: PartitionId,
    /// (namespace, lane) of work that became ready.
    pub lanes: Vec<(Arc<str>, Arc<str>)>,
    /// The earliest timer that was armed.
    pub due: Option<Time>,
}

impl Wake {
    /// What a commit may have woken on other nodes.
    pub fn of(partition: PartitionId, batch: &Batch) -> Option<Self> {
        let due = batch.writes.iter().flat_map(|write| &write.due_add).map(|due| due.at).min();
        (due.is_some() || !batch.lanes.is_empty()).then(|| Self { partition, lanes: batch.lanes.clone(), due })
    }

    /// Somebody may be waiting for it. Leases are timers too, so most hints are about what comes much later.
    pub fn is_urgent(&self, now: Time) -> bool {
        !self.lanes.is_empty() || self.due.is_some_and(|due| due <= now + 2 * PATIENCE_MS)
    }
}

/// How long a store may keep back a hint that is not urgent, so that those which are find the bell free.
pub const PATIENCE_MS: u64 = 500;

/// Wakes as they come in. An exclusive store never sends any.
pub type Wakes = mpsc::UnboundedReceiver<Wake>;

/// A read that failed. For a write, `Outcome` says more.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// It did not happen; trying again may help.
    #[error("the store did not answer: {0}")]
    Unavailable(Arc<dyn std::error::Error + Send + Sync>),
    /// It may have happened.
    #[error("the store broke off: {0}")]
    Indeterminate(Arc<dyn std::error::Error + Send + Sync>),
    /// Trying again does not help.
    #[error("{0}")]
    Refused(Arc<str>),
}

impl Error {
    pub fn unavailable(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Error::Unavailable(Arc::from(source.into()))
    }

    pub fn refused(why: impl Into<Arc<str>>) -> Self {
        Error::Refused(why.into())
    }
}
