//! The write-ahead log: how long it is, and when its pages go into the file. Used by the writer alone, between commits.

use crate::connection::{BUSY, PAGE_BYTES};
use crate::stats::{Counters, add};
use rusqlite::{Connection, Result, Statement};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Pages that wait in the log before they are copied. More of them means that a hot page is copied less often; fewer,
/// that the pause is shorter.
const PASSIVE_BYTES: u64 = 16 << 20;
/// Above this the log is emptied, waiting for readers if it must, but not for long: commits wait meanwhile.
const TRUNCATE_BYTES: u64 = 64 << 20;
const TRUNCATE_WAIT: Duration = Duration::from_millis(100);

/// A page and its header.
const FRAME_BYTES: u64 = PAGE_BYTES + 24;

pub struct Log<'c> {
    connection: &'c Connection,
    look: Statement<'c>,
    passive: Statement<'c>,
    truncate: Statement<'c>,
    /// A reader kept the log from being emptied: no use in trying again before it has grown to this.
    truncate_above: u64,
}

/// Frames in the log, and how many of them are in the file already.
struct Extent {
    busy: bool,
    bytes: u64,
    waiting_bytes: u64,
}

impl<'c> Log<'c> {
    pub fn new(connection: &'c Connection) -> Result<Self> {
        let prepare = |mode: &str| connection.prepare(&format!("pragma wal_checkpoint({mode})"));
        Ok(Self {
            connection,
            look: prepare("noop")?,
            passive: prepare("passive")?,
            truncate: prepare("truncate")?,
            truncate_above: TRUNCATE_BYTES,
        })
    }

    /// Measures the log and copies its pages into the file if enough of them wait.
    pub fn tend(&mut self, counters: &Counters) -> Result<()> {
        let mut extent = extent(&mut self.look)?;
        if extent.bytes > self.truncate_above {
            extent = self.empty()?;
            add(&counters.checkpoints, 1);
        } else if extent.waiting_bytes > PASSIVE_BYTES {
            extent = self::extent(&mut self.passive)?;
            add(&counters.checkpoints, 1);
        }
        counters.wal_bytes.store(extent.bytes, Ordering::Relaxed);
        Ok(())
    }

    fn empty(&mut self) -> Result<Extent> {
        self.connection.busy_timeout(TRUNCATE_WAIT)?;
        let emptied = extent(&mut self.truncate);
        self.connection.busy_timeout(BUSY)?;
        let extent = emptied?;
        self.truncate_above = if extent.busy { extent.bytes + PASSIVE_BYTES } else { TRUNCATE_BYTES };
        Ok(extent)
    }

    /// Copies everything and empties the log, before the store is closed.
    pub fn close(mut self) -> Result<()> {
        extent(&mut self.truncate).map(drop)
    }
}

fn extent(statement: &mut Statement<'_>) -> Result<Extent> {
    statement.query_row([], |row| {
        let frames = |at: usize| row.get::<_, i64>(at).map(|frames| frames.max(0) as u64);
        let (all, copied) = (frames(1)?, frames(2)?);
        let waiting_bytes = all.saturating_sub(copied) * FRAME_BYTES;
        Ok(Extent { busy: row.get(0)?, bytes: all * FRAME_BYTES, waiting_bytes })
    })
}
