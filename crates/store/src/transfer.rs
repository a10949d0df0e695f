//! Moving whole stores between kinds, by the six verbs alone: out of a store into a file, out of a file into an empty
//! store.
//!
//! Every record goes along, byte for byte and in its own partition. What is derived from records is derived again: index
//! entries, timers, signposts to bindings that a larger number of partitions would look for elsewhere. The feed stays
//! behind: each partition begins a generation beyond all that its source had, so that no cursor, fence or cached
//! revision of the old store fits the new one.

mod export;
mod format;
mod import;
mod tally;
mod walk;

pub use export::export;
pub use import::{import, inspect};
pub use tally::{Digest, Summary, Tally};
pub use walk::verify;

use bytes::Bytes;
use std::io;
use weft_core::PartitionId;
use weft_core::change::Head;
use weft_core::record::{Key, Record};
use weft_core::schema::{Kind, PartMask};

/// What is being done to the records that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Exporting,
    /// The file is read once before anything is written.
    Checking,
    Importing,
    Verifying,
}

/// Told how many records of a step are through, and of how many if that is known.
pub type Progress<'a> = &'a mut dyn FnMut(Step, u64, Option<u64>);

/// Fingerprint of a master key, from which the key cannot be computed.
pub type Fingerprint = [u8; 8];

/// Where an export comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The kind of store.
    pub store: String,
    /// The fingerprint of the master key that the API keys of the store were made with, if it was at hand.
    pub master: Option<Fingerprint>,
    /// One per partition.
    pub heads: Vec<Head>,
}

/// Why a store was not moved.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not use the file: {0}")]
    File(#[from] io::Error),
    #[error("cannot read the file: {0}; export the store again")]
    Damaged(String),
    #[error(
        "cannot read the file: it has format {found}, and this program reads format {known}; export the store again \
         with this program"
    )]
    Older { found: u16, known: u16 },
    #[error(
        "cannot read the file: it has format {found}, and this program reads format {known}; use a newer program, or \
         export the store again with this one"
    )]
    Newer { found: u16, known: u16 },
    #[error(transparent)]
    Store(#[from] crate::Error),
    #[error("cannot move {what}: {why}; nothing is moved unless everything is")]
    Unreadable { what: String, why: String },
    #[error("cannot export: partition {partition} was written to meanwhile; stop every node and export again")]
    Written { partition: PartitionId },
    #[error(
        "cannot import: {found}, and an import goes into an empty store; if an earlier import was broken off, remove \
         what it left and import again"
    )]
    NotEmpty { found: String },
    #[error(
        "cannot import: the file has {source_partitions} partitions and the store {target_partitions}, which cannot \
         change; remove the empty store, and import into one with `partitions={source_partitions}` in its address"
    )]
    TooFew { source_partitions: usize, target_partitions: usize },
    #[error("could not write to partition {partition}: {why}; remove what was imported and import again")]
    Commit { partition: PartitionId, why: String },
    #[error("the store does not hold what the file does: {0}; remove what was imported and import again")]
    Different(String),
}

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Raw {
    partition: PartitionId,
    kind: Kind,
    key: Bytes,
    parts: Vec<(u8, Bytes)>,
}

impl Raw {
    fn bytes(&self) -> usize {
        self.key.len() + self.parts.iter().map(|(_, bytes)| bytes.len()).sum::<usize>()
    }

    /// The record that the bytes hold. Index entries and timers come from it, so bytes that cannot be read cannot be
    /// moved either.
    fn decode(&self) -> Result<Record, Error> {
        let key = Key::from_bytes(self.partition, self.kind, &self.key)
            .ok_or_else(|| self.unreadable("its key names no record"))?;
        Record::decode(key, &self.parts, PartMask::ALL).map_err(|error| self.unreadable(error.to_string()))
    }

    /// True for what an import made itself. It is left out of counts and files and made again by the next import.
    fn is_derived(&self) -> bool {
        self.kind == Kind::Dedup && matches!(self.decode(), Ok(Record::Dedup(dedup)) if dedup.is_signpost())
    }

    fn unreadable(&self, why: impl Into<String>) -> Error {
        let key: String = self.key.iter().map(|byte| format!("{byte:02x}")).collect();
        let what = format!("a record of `{}` in partition {}, key `{key}`", self.kind.table().name, self.partition);
        Error::Unreadable { what, why: why.into() }
    }
}
