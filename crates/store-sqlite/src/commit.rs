//! Deciding about one batch and writing it, inside a transaction that somebody else began.
//!
//! Everything is checked before the first write, so a refused batch leaves nothing to roll back. The heads of the
//! partitions, the barred ids and the ids of recent commits are kept in memory: this is the only connection that writes,
//! and the lock file keeps other processes out.

use crate::sql;
use crate::table::{Records, Row};
use rusqlite::{Connection, OptionalExtension, Result, Statement};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use uuid::Uuid;
use weft_core::change::{Batch, Body, Change, DueEntry, Head, Position};
use weft_core::limits::{BYTES_PER_COMMIT_MAX, RECORDS_PER_COMMIT_MAX};
use weft_core::record::{Key, KeyBytes};
use weft_core::schema::{Due, Kind};
use weft_core::{CommitId, PartitionId, Time};
use weft_store::Resolution;

/// Barred ids are kept this long; by then a commit that was given up cannot be under way any more.
const BARRED_MS: u64 = 3_600_000;

/// Commits that are known by their id without looking into the feed.
const RECENT_MAX: usize = 8192;

/// What was decided. `Applied` becomes true with the transaction.
#[derive(Debug)]
pub enum Decision {
    Applied(Head),
    /// This id was applied before, and left this head.
    Repeated(Head),
    /// The batch is built on a commit that is not there.
    Lost {
        head: Head,
    },
    Conflict {
        keys: Vec<Key>,
        head: Head,
    },
    Refused(&'static str),
}

/// The statements of the writing connection, and the heads as of the last transaction.
pub struct Applier<'c> {
    records: Vec<Records<'c>>,
    due_add: Statement<'c>,
    due_add_rows: Statement<'c>,
    due_remove: Statement<'c>,
    head_read: Statement<'c>,
    head_write: Statement<'c>,
    feed_add: Statement<'c>,
    feed_find: Statement<'c>,
    barred_all: Statement<'c>,
    barred_add: Statement<'c>,
    barred_trim: Statement<'c>,
    partitions: Vec<Known>,
}

/// What is known about a partition without looking into the file.
#[derive(Default)]
struct Known {
    head: Head,
    barred: BTreeSet<CommitId>,
    /// The last commits of this process, oldest first. Nobody can send one again that came before.
    recent: VecDeque<CommitId>,
    recent_heads: BTreeMap<CommitId, Head>,
}

impl Known {
    fn remember(&mut self, id: CommitId) {
        self.recent_heads.insert(id, self.head);
        self.recent.push_back(id);
        if self.recent.len() > RECENT_MAX
            && let Some(oldest) = self.recent.pop_front()
        {
            self.recent_heads.remove(&oldest);
        }
    }
}

impl<'c> Applier<'c> {
    pub fn new(connection: &'c Connection, partitions: u16) -> Result<Self> {
        let mut applier = Self {
            records: Kind::ALL.into_iter().map(|kind| Records::new(connection, kind)).collect::<Result<_>>()?,
            due_add: connection.prepare(&sql::due_add(1))?,
            due_add_rows: connection.prepare(&sql::due_add(sql::ROWS))?,
            due_remove: connection.prepare(sql::DUE_REMOVE)?,
            head_write: connection.prepare(sql::HEAD_WRITE)?,
            feed_add: connection.prepare(sql::FEED_ADD)?,
            feed_find: connection.prepare(sql::FEED_FIND)?,
            barred_all: connection.prepare(sql::BARRED_ALL)?,
            barred_add: connection.prepare(sql::BARRED_ADD)?,
            barred_trim: connection.prepare(sql::BARRED_TRIM)?,
            head_read: connection.prepare(sql::HEAD_READ)?,
            partitions: (0..partitions).map(|_| Known::default()).collect(),
        };
        applier.reload()?;
        Ok(applier)
    }

    /// Takes the heads and the barred ids from the file.
    pub fn reload(&mut self) -> Result<()> {
        for (id, known) in self.partitions.iter_mut().enumerate() {
            known.head = self.head_read.query_row([id as i64], head_of)?;
            let barred =
                self.barred_all.query_map([id as i64], |row| row.get(0).map(Uuid::from_bytes).map(CommitId))?;
            known.barred = barred.collect::<Result<_>>()?;
        }
        Ok(())
    }

    /// Takes over what a transaction has made durable: a commit and the head it left.
    pub fn settle(&mut self, partition: PartitionId, id: CommitId, head: Head) {
        let known = &mut self.partitions[usize::from(partition.0)];
        known.head = head;
        known.remember(id);
    }

    /// The same for a barred id.
    pub fn settle_bar(&mut self, partition: PartitionId, id: CommitId, head: Head) {
        let known = &mut self.partitions[usize::from(partition.0)];
        known.head = head;
        known.barred.insert(id);
    }

    /// Decides, and writes if the batch is to be applied. After an error the transaction must be rolled back.
    pub fn commit(&mut self, partition: PartitionId, batch: &Batch) -> Result<Decision> {
        let Some(known) = self.partitions.get(usize::from(partition.0)) else {
            return Ok(Decision::Refused("there is no such partition"));
        };
        if known.barred.contains(&batch.id) {
            return Ok(Decision::Refused("the commit id is barred"));
        }
        if let Some(head) = known.recent_heads.get(&batch.id) {
            return Ok(Decision::Repeated(*head));
        }
        let head = known.head;
        // The feed is read from its end, so it is asked only if others have written since.
        let known = batch.expect.is_at(&head) || self.find(partition, batch.expect.last)?.is_some();
        if head.has_lost(&batch.expect, known) {
            return Ok(Decision::Lost { head });
        }
        if let Some(keys) = self.conflict(partition, batch, head)? {
            return Ok(Decision::Conflict { keys, head });
        }
        if batch.writes.len() > RECORDS_PER_COMMIT_MAX || batch.weight() > BYTES_PER_COMMIT_MAX {
            return Ok(Decision::Refused("the commit is larger than a store has to take"));
        }
        if batch.raise.is_some_and(|raise| raise <= head.position) {
            return Ok(Decision::Refused("the commit raises the partition to where it already is"));
        }
        if batch.writes.iter().any(|write| write.key.partition() != partition) {
            return Ok(Decision::Refused("the commit names a record of another partition"));
        }
        self.apply(partition, batch, head).map(Decision::Applied)
    }

    /// The head that an applied commit left.
    fn find(&mut self, partition: PartitionId, id: CommitId) -> Result<Option<Head>> {
        match self.partitions[usize::from(partition.0)].recent_heads.get(&id) {
            Some(found) => Ok(Some(*found)),
            None => self.feed_find.query_row((partition.0, &id.0.as_bytes()[..]), head_of).optional(),
        }
    }

    /// The records that differ if the batch is in conflict; none if the head alone is the reason.
    fn conflict(&mut self, partition: PartitionId, batch: &Batch, head: Head) -> Result<Option<Vec<Key>>> {
        let holds = batch.expect.is_at(&head);
        if batch.expect.position.generation != head.position.generation
            || batch.now < head.now
            || (batch.strict && !holds)
        {
            return Ok(Some(Vec::new()));
        }
        if batch.fast && holds {
            return Ok(None);
        }
        let mut keys = Vec::new();
        for (key, seen) in &batch.reads {
            let found = match key.partition() == partition {
                true => self.of(key.kind()).revision(partition.0, key.to_bytes().as_slice())?,
                false => None,
            };
            if found != seen.map(|id| *id.0.as_bytes()) {
                keys.push(*key);
            }
        }
        Ok((!keys.is_empty()).then_some(keys))
    }

    fn apply(&mut self, partition: PartitionId, batch: &Batch, head: Head) -> Result<Head> {
        // Drops go first: a timer that is armed again in the same commit stays armed.
        for entry in &batch.due_drops {
            self.due_remove.execute((partition.0, entry.timer, entry.at.as_i64(), entry.kind, entry.key.as_ref()))?;
        }
        // Each record is written once, so that the order among them does not matter: alike writes go together.
        let keys: Vec<KeyBytes> = batch.writes.iter().map(|write| write.key.to_bytes()).collect();
        let mut inserts: Vec<(Kind, (Row<'_>, &Body))> = Vec::with_capacity(batch.writes.len());
        let mut armed = Vec::with_capacity(batch.writes.len());
        for (write, key) in batch.writes.iter().zip(&keys) {
            let kind = write.key.kind();
            let row = Row { partition: partition.0, id: key.as_slice(), revision: batch.id.0.as_bytes() };
            match &write.what {
                Change::Insert(body) => inserts.push((kind, (row, body))),
                Change::Update { old, body } => self.of(kind).update(row, old, body)?,
                Change::Delete { .. } => self.of(kind).delete(row.partition, row.id)?,
            }
            for Due { timer, at } in &write.due_remove {
                self.due_remove.execute((partition.0, *timer as u8, at.as_i64(), kind as u8, row.id))?;
            }
            armed.extend(write.due_add.iter().map(|due| (due, kind, row.id)));
        }
        for run in inserts.chunk_by(|(kind, _), (next, _)| kind == next) {
            let rows: Vec<(Row<'_>, &Body)> = run.iter().map(|(_, row)| *row).collect();
            self.of(run[0].0).insert_all(&rows)?;
        }
        self.arm(partition, &armed)?;
        let position = batch.raise.unwrap_or(head.position.next());
        let head = self.write_head(partition, Head { position, last: batch.id, now: batch.now })?;
        let Position { generation, seq } = head.position;
        let events = (!batch.feed.is_empty()).then_some(batch.feed.as_ref());
        let id = &batch.id.0.as_bytes()[..];
        self.feed_add.execute((partition.0, seq as i64, generation as i64, head.now.as_i64(), id, events))?;
        Ok(head)
    }

    fn write_head(&mut self, partition: PartitionId, head: Head) -> Result<Head> {
        let Position { generation, seq } = head.position;
        let last = &head.last.0.as_bytes()[..];
        self.head_write.execute((partition.0, generation as i64, seq as i64, head.now.as_i64(), last))?;
        Ok(head)
    }

    /// Adds entries to the due index, several at a time where there are many.
    fn arm(&mut self, partition: PartitionId, entries: &[(&Due, Kind, &[u8])]) -> Result<()> {
        let (many, few) = entries.as_chunks::<{ sql::ROWS }>();
        for entries in many {
            for (at, entry) in entries.iter().enumerate() {
                bind_due(&mut self.due_add_rows, at * DUE_COLUMNS, partition, entry)?;
            }
            self.due_add_rows.raw_execute()?;
        }
        for entry in few {
            bind_due(&mut self.due_add, 0, partition, entry)?;
            self.due_add.raw_execute()?;
        }
        Ok(())
    }

    /// Where the commit is, or bars its id: then `seq` moves on, and the head to settle after the transaction is
    /// returned beside it.
    pub fn resolve(
        &mut self,
        partition: PartitionId,
        id: CommitId,
        now: Time,
    ) -> Result<Option<(Resolution, Option<Head>)>> {
        let Some(known) = self.partitions.get(usize::from(partition.0)) else { return Ok(None) };
        let head = known.head;
        if known.barred.contains(&id) {
            return Ok(Some((Resolution::NotApplied, None)));
        }
        if let Some(found) = self.find(partition, id)? {
            return Ok(Some((Resolution::Applied { position: found.position }, None)));
        }
        self.barred_trim.execute((partition.0, (now - BARRED_MS).as_i64()))?;
        self.barred_add.execute((partition.0, &id.0.as_bytes()[..], now.as_i64()))?;
        let head = self.write_head(partition, Head { position: head.position.next(), ..head })?;
        Ok(Some((Resolution::NotApplied, Some(head))))
    }

    /// Adds an entry to the due index outside a commit, as damage would.
    pub fn insert_due(&mut self, partition: PartitionId, entry: &DueEntry) -> Result<()> {
        let key = entry.key.as_ref();
        self.due_add.execute((partition.0, entry.timer, entry.at.as_i64(), entry.kind, key)).map(drop)
    }

    fn of(&mut self, kind: Kind) -> &mut Records<'c> {
        &mut self.records[kind as usize - 1]
    }
}

const DUE_COLUMNS: usize = 5;

/// Binds the parameters of one entry of the due index after `skip` others.
fn bind_due(
    statement: &mut Statement<'_>,
    skip: usize,
    partition: PartitionId,
    (due, kind, id): &(&Due, Kind, &[u8]),
) -> Result<()> {
    statement.raw_bind_parameter(skip + 1, partition.0)?;
    statement.raw_bind_parameter(skip + 2, due.timer as u8)?;
    statement.raw_bind_parameter(skip + 3, due.at.as_i64())?;
    statement.raw_bind_parameter(skip + 4, *kind as u8)?;
    statement.raw_bind_parameter(skip + 5, *id)
}

/// A head from the columns generation, seq, now, last.
pub fn head_of(row: &rusqlite::Row<'_>) -> Result<Head> {
    let number = |at: usize| row.get::<_, i64>(at).map(|number| number as u64);
    let position = Position { generation: number(0)?, seq: number(1)? };
    Ok(Head { position, last: CommitId(Uuid::from_bytes(row.get(3)?)), now: Time::from_ms(number(2)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_numbered_from_one_without_gaps() {
        for (at, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize - 1, at);
        }
    }
}
