//! What SQLite itself can do for the same durable facts: the yardstick of the benchmark, written by hand.
//!
//! One table as one writes it for this queue alone, with the settings, page size, checkpoints and row sizes of the store.
//! Shares no statement with it and must stay as fast as a good engineer makes it.

use crate::connection;
use crate::log::Log;
use crate::stats::Counters;
use rusqlite::{Connection, Error, Result, Statement};
use std::path::Path;
use std::time::Instant;
use weft_store::Floor;

const SCHEMA: &str = "\
create table jobs (
    id blob not null primary key,
    state text not null,
    priority integer not null,
    ready_order integer,
    attempts integer not null,
    lease_epoch integer not null,
    lease_expires_at integer,
    worker text,
    updated_at integer not null,
    finished_at integer,
    created_at integer not null,
    namespace text not null,
    lane text not null,
    kind text not null,
    hot blob not null,
    spec blob not null,
    input blob not null,
    result blob
);
create index jobs_ready on jobs (namespace, lane, ready_order) where ready_order is not null;
create index jobs_leased on jobs (lease_expires_at) where lease_expires_at is not null;
create table feed (seq integer not null primary key, commit_id blob not null, events blob not null);
";

const INSERT: &str = "\
insert into jobs (id, state, priority, ready_order, attempts, lease_epoch, updated_at, created_at, namespace, lane, kind,
    hot, spec, input)
values (?1, 'ready', 0, ?2, 0, 0, ?2, ?2, 'default', 'mail', 'mail.send', ?3, ?4, ?5)";

const CLAIM: &str = "\
update jobs
set state = 'active', ready_order = null, attempts = 1, lease_epoch = 1, lease_expires_at = ?2, worker = 'worker-01',
    updated_at = ?3, hot = ?4
where id = ?1";

const COMPLETE: &str = "\
update jobs
set state = 'succeeded', lease_expires_at = null, worker = null, updated_at = ?2, finished_at = ?2, hot = ?3, result = ?4
where id = ?1";

const FEED: &str = "insert into feed (seq, commit_id, events) values (?1, ?2, ?3)";

const HOT: [u8; 180] = [0xa5; 180];
const SPEC: [u8; 100] = [0x5a; 100];
const RESULT: [u8; 16] = [0x33; 16];
/// About what one event takes in a feed entry.
const EVENT_BYTES: usize = 48;
const SINGLE_COMMITS: usize = 200;
const STARTED_MS: i64 = 1_800_000_000_000;

/// Takes `n` rows (rounded up to whole batches) through insert, claim and completion in batches of `batch`, each batch
/// one transaction with a feed entry, then makes single commits. `path` must not exist; the file is left behind.
pub fn floor(path: &Path, n: usize, batch: usize, payload: usize) -> Result<Floor> {
    let connection = Connection::open(path)?;
    connection::make_durable(&connection, 64 << 20)?;
    connection.execute_batch(SCHEMA)?;
    let batch = batch.max(1);
    let batches = n.div_ceil(batch);
    let mut bench = Bench::new(&connection, batch, payload)?;

    let started = Instant::now();
    for number in 0..batches {
        let rows = number * batch..(number + 1) * batch;
        bench.commit(rows.clone(), Bench::insert)?;
        bench.commit(rows.clone(), Bench::claim)?;
        bench.commit(rows, Bench::complete)?;
    }
    let seconds = started.elapsed().as_secs_f64();

    let lifecycles = batches * batch;
    let commit_ms = bench.single_commits(lifecycles)?;
    verify(&connection, lifecycles, batches)?;
    Ok(Floor { lifecycles, lifecycles_per_s: lifecycles as f64 / seconds, commit_ms })
}

struct Bench<'c> {
    begin: Statement<'c>,
    commit: Statement<'c>,
    insert: Statement<'c>,
    claim: Statement<'c>,
    complete: Statement<'c>,
    feed: Statement<'c>,
    log: Log<'c>,
    counters: Counters,
    seq: i64,
    input: Vec<u8>,
    events: Vec<u8>,
}

impl<'c> Bench<'c> {
    fn new(connection: &'c Connection, batch: usize, payload: usize) -> Result<Self> {
        Ok(Self {
            begin: connection.prepare("begin immediate")?,
            commit: connection.prepare("commit")?,
            insert: connection.prepare(INSERT)?,
            claim: connection.prepare(CLAIM)?,
            complete: connection.prepare(COMPLETE)?,
            feed: connection.prepare(FEED)?,
            log: Log::new(connection)?,
            counters: Counters::default(),
            seq: 0,
            input: vec![0x77; payload],
            events: vec![0x11; batch * EVENT_BYTES],
        })
    }

    /// One transaction over the rows, with its feed entry.
    fn commit(
        &mut self,
        rows: std::ops::Range<usize>,
        mut each: impl FnMut(&mut Self, &[u8; 16], i64) -> Result<usize>,
    ) -> Result<()> {
        self.begin.execute([])?;
        let events = rows.len() * EVENT_BYTES;
        for row in rows {
            if each(self, &id(row), STARTED_MS + row as i64)? != 1 {
                return Err(Error::StatementChangedRows(0));
            }
        }
        self.seq += 1;
        self.feed.execute((self.seq, &id(self.seq as usize)[..], &self.events[..events]))?;
        self.commit.execute([])?;
        self.log.tend(&self.counters)
    }

    fn insert(&mut self, id: &[u8; 16], now: i64) -> Result<usize> {
        self.insert.execute((&id[..], now, &HOT[..120], &SPEC[..], &self.input))
    }

    fn claim(&mut self, id: &[u8; 16], now: i64) -> Result<usize> {
        self.claim.execute((&id[..], now + 30_000, now, &HOT[..]))
    }

    fn complete(&mut self, id: &[u8; 16], now: i64) -> Result<usize> {
        self.complete.execute((&id[..], now, &HOT[..], &RESULT[..]))
    }

    fn single_commits(&mut self, first: usize) -> Result<f64> {
        let mut took = Vec::with_capacity(SINGLE_COMMITS);
        for row in first..first + SINGLE_COMMITS {
            let started = Instant::now();
            self.commit(row..row + 1, Self::insert)?;
            took.push(started.elapsed().as_secs_f64() * 1000.0);
        }
        took.sort_by(f64::total_cmp);
        Ok(took[SINGLE_COMMITS / 2])
    }
}

/// An id that grows with time and ends in bytes that do not, as real ones do.
fn id(row: usize) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&(0x0198_0000_0000_0000 + ((row as u64) << 12)).to_be_bytes());
    id[8..].copy_from_slice(&(row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    id
}

/// A fast wrong answer is a failure.
fn verify(connection: &Connection, lifecycles: usize, batches: usize) -> Result<()> {
    let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let done = count(
        "select count(*) from jobs where state = 'succeeded' and length(result) = 16 and lease_expires_at is null \
         and finished_at is not null",
    )?;
    let expected = [lifecycles, lifecycles + SINGLE_COMMITS, batches * 3 + SINGLE_COMMITS];
    let found = [done, count("select count(*) from jobs")?, count("select count(*) from feed")?];
    match expected.map(|count| count as i64) == found {
        true => Ok(()),
        false => Err(Error::StatementChangedRows(done.max(0) as usize)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_verifies_what_it_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let floor = floor(&folder.path().join("floor.db"), 300, 128, 64).unwrap();
        assert_eq!(floor.lifecycles, 384);
        assert!(floor.lifecycles_per_s > 0.0 && floor.commit_ms > 0.0);
    }
}
