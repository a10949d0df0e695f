//! Sorts the writes of a batch into sets of like rows, each of which becomes one statement.
//!
//! Index entries that go and come are told by the old and the new facets that the batch carries: nothing is looked up.

use crate::ddl;
use bytes::Bytes;
use weft_core::change::{Batch, Change, DueEntry, Write};
use weft_core::record::{Key, KeyBytes};
use weft_core::schema::{Due, Index, IndexId, Kind, PartMask, Value};
use weft_core::{CommitId, PartitionId};

/// One row of a set.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    pub id: KeyBytes,
    pub facets: &'a [Value],
    pub parts: &'a [(u8, Option<Bytes>)],
}

/// One entry of the due index.
#[derive(Clone, Copy, Debug)]
pub struct DueRow<'a> {
    pub timer: i16,
    pub at: i64,
    pub kind: i16,
    id: DueId<'a>,
}

#[derive(Clone, Copy, Debug)]
enum DueId<'a> {
    Key(KeyBytes),
    Raw(&'a [u8]),
}

impl DueRow<'_> {
    pub fn id(&self) -> &[u8] {
        match &self.id {
            DueId::Key(key) => key.as_slice(),
            DueId::Raw(bytes) => bytes,
        }
    }

    fn of(due: &Due, kind: Kind, id: KeyBytes) -> Self {
        Self { timer: due.timer as i16, at: due.at.as_i64(), kind: kind as i16, id: DueId::Key(id) }
    }
}

impl<'a> From<&'a DueEntry> for DueRow<'a> {
    fn from(entry: &'a DueEntry) -> Self {
        Self { timer: entry.timer.into(), at: entry.at.as_i64(), kind: entry.kind.into(), id: DueId::Raw(&entry.key) }
    }
}

/// A record that was read, with the revision it had.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub key: Key,
    pub id: KeyBytes,
    pub revision: Option<CommitId>,
}

/// Like rows under what they have in common; a handful, so they are searched one by one.
#[derive(Debug)]
pub struct Sets<K, R>(Vec<(K, Vec<R>)>);

impl<K, R> Default for Sets<K, R> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: PartialEq + Copy, R> Sets<K, R> {
    fn add(&mut self, under: K, row: R) {
        match self.0.iter_mut().find(|(key, _)| *key == under) {
            Some((_, rows)) => rows.push(row),
            None => self.0.push((under, vec![row])),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (K, &[R])> {
        self.0.iter().map(|(key, rows)| (*key, rows.as_slice()))
    }
}

/// The sets of one batch.
#[derive(Debug, Default)]
pub struct Sorted<'a> {
    pub inserts: Sets<(Kind, PartMask), Row<'a>>,
    pub updates: Sets<(Kind, PartMask), Row<'a>>,
    pub deletes: Sets<Kind, Row<'a>>,
    pub entries_removed: Sets<IndexId, Row<'a>>,
    pub entries_added: Sets<IndexId, Row<'a>>,
    /// Removed before others are added: a timer that is armed again in the same commit stays armed.
    pub due_removed: Vec<DueRow<'a>>,
    pub due_added: Vec<DueRow<'a>>,
}

impl<'a> Sorted<'a> {
    pub fn new(batch: &'a Batch) -> Self {
        let mut sorted = Self { due_removed: batch.due_drops.iter().map(DueRow::from).collect(), ..Self::default() };
        batch.writes.iter().for_each(|write| sorted.add(write));
        sorted
    }

    fn add(&mut self, write: &'a Write) {
        let kind = write.key.kind();
        let id = write.key.to_bytes();
        let (old, new) = match &write.what {
            Change::Insert(body) => {
                let mask = mask_of(body.parts.iter().filter(|(_, bytes)| bytes.is_some()));
                self.inserts.add((kind, mask), Row { id, facets: &body.facets, parts: &body.parts });
                (None, Some(body.facets.as_slice()))
            }
            Change::Update { old, body } => {
                let mask = mask_of(body.parts.iter());
                self.updates.add((kind, mask), Row { id, facets: &body.facets, parts: &body.parts });
                (Some(old.as_slice()), Some(body.facets.as_slice()))
            }
            Change::Delete { old } => {
                self.deletes.add(kind, Row { id, facets: &[], parts: &[] });
                (old.as_deref(), None)
            }
        };
        for index in kind.table().indexes.iter().filter(|index| ddl::is_narrow_table(index)) {
            self.move_entry(index, id, old, new);
        }
        self.due_removed.extend(write.due_remove.iter().map(|due| DueRow::of(due, kind, id)));
        self.due_added.extend(write.due_add.iter().map(|due| DueRow::of(due, kind, id)));
    }

    fn move_entry(&mut self, index: &Index, id: KeyBytes, old: Option<&'a [Value]>, new: Option<&'a [Value]>) {
        let listed = |facets: &&[Value]| index.when.is_none_or(|when| !facets[when].is_null());
        let (old, new) = (old.filter(listed), new.filter(listed));
        if let (Some(old), Some(new)) = (old, new)
            && index.facets.iter().all(|at| old[*at] == new[*at])
        {
            return;
        }
        if let Some(facets) = old {
            self.entries_removed.add(index.id, Row { id, facets, parts: &[] });
        }
        if let Some(facets) = new {
            self.entries_added.add(index.id, Row { id, facets, parts: &[] });
        }
    }
}

fn mask_of<'a>(parts: impl Iterator<Item = &'a (u8, Option<Bytes>)>) -> PartMask {
    parts.fold(PartMask::NONE, |mask, (part, _)| mask.with(PartMask::of(*part)))
}

/// The records that a batch has read in this partition, by kind. One of another partition is absent here.
pub fn seen(partition: PartitionId, reads: &[(Key, Option<CommitId>)]) -> Sets<Kind, Seen> {
    let mut sets = Sets::default();
    for (key, revision) in reads.iter().filter(|(key, _)| key.partition() == partition) {
        sets.add(key.kind(), Seen { key: *key, id: key.to_bytes(), revision: *revision });
    }
    sets
}

/// Records of another partition that the batch claims to have seen in this one.
pub fn misplaced(partition: PartitionId, reads: &[(Key, Option<CommitId>)]) -> impl Iterator<Item = Key> {
    let foreign = reads.iter().filter(move |(key, revision)| key.partition() != partition && revision.is_some());
    foreign.map(|(key, _)| *key)
}
