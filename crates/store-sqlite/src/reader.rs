//! The threads that read, each with its own connection. They never write and never hold a snapshot for long.

use crate::commit::head_of;
use crate::options::OpenError;
use crate::stats::{Counters, add};
use crate::verdict;
use crate::{connection, scan, sql};
use rusqlite::{Connection, Result};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use weft_core::PartitionId;
use weft_core::record::Key;
use weft_core::schema::PartMask;
use weft_store::{Error, Page, Range, Read, Scan, Target, merge};

/// A walk takes a new snapshot after so many rows or so long: an old one keeps the write-ahead log from being emptied.
const ROWS_PER_SNAPSHOT: usize = 1000;
const SNAPSHOT_MAX: Duration = Duration::from_secs(1);

pub type Answer<T> = oneshot::Sender<std::result::Result<T, Error>>;

pub enum Question {
    Read {
        partition: PartitionId,
        keys: Vec<(Key, PartMask)>,
        answer: Answer<Read>,
    },
    Scan {
        partition: Option<PartitionId>,
        scan: Scan,
        answer: Answer<Vec<Page>>,
    },
    /// One reader ends.
    Stop,
}

/// Opens the connections and starts the threads.
pub fn spawn(
    path: &Path,
    count: usize,
    cache_bytes: usize,
    partitions: u16,
    counters: &Arc<Counters>,
) -> std::result::Result<(Sender<Question>, Vec<JoinHandle<()>>), OpenError> {
    let (sender, receiver) = mpsc::channel();
    let receiver = Arc::new(Mutex::new(receiver));
    let mut threads = Vec::new();
    for number in 0..count.max(1) {
        let reader = Reader {
            connection: connection::reader(path, cache_bytes).map_err(|source| OpenError::sqlite(path, source))?,
            partitions,
            counters: counters.clone(),
        };
        let receiver = receiver.clone();
        let name = format!("weft-read-{number}");
        let started = thread::Builder::new().name(name).spawn(move || reader.run(&receiver));
        threads.push(started.map_err(OpenError::Thread)?);
    }
    Ok((sender, threads))
}

struct Reader {
    connection: Connection,
    partitions: u16,
    counters: Arc<Counters>,
}

impl Reader {
    fn run(self, receiver: &Mutex<Receiver<Question>>) {
        loop {
            let question = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
            // A caller that has gone away is not waited for, so a failed send is no error.
            match question {
                Ok(Question::Read { partition, keys, answer }) => {
                    add(&self.counters.reads, 1);
                    drop(answer.send(self.read(partition, &keys)));
                }
                Ok(Question::Scan { partition, scan, answer }) => {
                    add(&self.counters.scans, 1);
                    drop(answer.send(self.scan(partition, &scan)));
                }
                Ok(Question::Stop) | Err(_) => return,
            }
        }
    }

    fn read(&self, partition: PartitionId, keys: &[(Key, PartMask)]) -> std::result::Result<Read, Error> {
        self.known(partition)?;
        let _snapshot = Snapshot::take(&self.connection).map_err(verdict::of_read)?;
        self.read_now(partition, keys).map_err(verdict::of_read)
    }

    fn read_now(&self, partition: PartitionId, keys: &[(Key, PartMask)]) -> Result<Read> {
        let mut head = self.connection.prepare_cached(sql::HEAD_READ)?;
        let head = head.query_row([partition.0], head_of)?;
        let mut found = Vec::with_capacity(keys.len());
        for (key, mask) in keys {
            let kind = key.kind();
            let id = key.to_bytes();
            let mut statement = self.connection.prepare_cached(&sql::read(kind.table(), *mask))?;
            let mut rows = statement.query((partition.0, id.as_slice()))?;
            let row = rows.next()?.filter(|_| key.partition() == partition);
            let place = (partition, kind as u8, id.as_slice());
            found.push(row.map(|row| scan::found(&self.connection, place, *mask, row, 0)).transpose()?);
        }
        Ok(Read { head, found })
    }

    fn scan(&self, partition: Option<PartitionId>, scan: &Scan) -> std::result::Result<Vec<Page>, Error> {
        for range in &scan.ranges {
            check(scan.target, range)?;
        }
        let Some(partition) = partition else {
            let all = (0..self.partitions).map(|id| self.pages(PartitionId(id), scan));
            let pages = all.collect::<Result<Vec<_>>>().map_err(verdict::of_read)?;
            return Ok(merge::merge_all(pages, scan.limit, scan.descending));
        };
        self.known(partition)?;
        self.pages(partition, scan).map_err(verdict::of_read)
    }

    fn pages(&self, partition: PartitionId, scan: &Scan) -> Result<Vec<Page>> {
        let mut snapshot = Snapshot::take(&self.connection)?;
        scan.ranges.iter().map(|range| self.page(&mut snapshot, partition, scan, range)).collect()
    }

    fn page(&self, snapshot: &mut Snapshot<'_>, partition: PartitionId, scan: &Scan, range: &Range) -> Result<Page> {
        let mut page = Page::default();
        let mut range = range.clone();
        loop {
            let wanted = (scan.limit - page.entries.len()).min(ROWS_PER_SNAPSHOT);
            let mut entries = scan::entries(&self.connection, partition, scan, &range, wanted + 1)?;
            page.more = entries.len() > wanted;
            entries.truncate(wanted);
            snapshot.used(entries.len())?;
            page.entries.append(&mut entries);
            if !page.more || page.entries.len() == scan.limit {
                return Ok(page);
            }
            range.after = page.entries.last().map(|entry| entry.place.clone());
        }
    }

    fn known(&self, partition: PartitionId) -> std::result::Result<(), Error> {
        match partition.0 < self.partitions {
            true => Ok(()),
            false => Err(Error::refused(format!("there is no partition {partition}"))),
        }
    }
}

/// Refuses a range that does not fit its target.
fn check(target: Target, range: &Range) -> std::result::Result<(), Error> {
    let columns = target.columns();
    if range.prefix.len() > columns {
        return Err(Error::refused("the prefix has more columns than the target"));
    }
    match &range.after {
        Some(after) if after.columns.len() != columns => {
            Err(Error::refused("the place to go on after has not all columns of the target"))
        }
        _ => Ok(()),
    }
}

/// A read transaction, ended when it goes out of scope.
struct Snapshot<'c> {
    connection: &'c Connection,
    rows: usize,
    taken: Instant,
}

impl<'c> Snapshot<'c> {
    fn take(connection: &'c Connection) -> Result<Self> {
        connection.prepare_cached("begin")?.execute([])?;
        Ok(Self { connection, rows: 0, taken: Instant::now() })
    }

    /// Counts rows, and after too many of them lets go of the snapshot for a fresh one.
    fn used(&mut self, rows: usize) -> Result<()> {
        self.rows += rows;
        if self.rows >= ROWS_PER_SNAPSHOT || self.taken.elapsed() >= SNAPSHOT_MAX {
            self.connection.prepare_cached("commit")?.execute([])?;
            self.connection.prepare_cached("begin")?.execute([])?;
            (self.rows, self.taken) = (0, Instant::now());
        }
        Ok(())
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        if !self.connection.is_autocommit() {
            // Nothing was written, so there is nothing that could be lost.
            let _ = self.connection.prepare_cached("commit").and_then(|mut end| end.execute([]));
        }
    }
}
