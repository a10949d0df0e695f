//! What Valkey itself can do for the same durable facts: the yardstick of the benchmark, written by hand.
//!
//! Strings, two sorted sets and a stream as one lays them out for this queue alone, each batch one transaction of variadic
//! commands without a script, with the row sizes and the durability of the store. Shares no command with it and must stay
//! as fast as a good engineer makes it.

use crate::check;
use crate::durability::Needs;
use crate::error::OpenError;
use crate::link::Dial;
use crate::options::{Address, Options};
use crate::primary::Wait;
use crate::slots::slot;
use crate::wipe::wipe;
use futures_util::future::try_join_all;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, RedisWrite, Value};
use std::ops::Range;
use std::time::Instant;
use weft_store::Floor;

/// Names, times and numbers of a job, packed in front of its changing part.
const FIELDS: usize = 64;
const HOT: [u8; 180] = [0xa5; 180];
const SPEC: [u8; 100] = [0x5a; 100];
const RESULT: [u8; 16] = [0x33; 16];
/// About what one event takes in a feed entry.
const EVENT_BYTES: usize = 48;
const SINGLE_COMMITS: usize = 200;
const STARTED_MS: u64 = 1_800_000_000_000;
const PREFIX_MAX: usize = 24;

const READY: u8 = b'r';
const ACTIVE: u8 = b'a';
const SUCCEEDED: u8 = b's';

/// Takes `n` jobs (rounded up to whole batches) through insert, claim and completion in batches of `batch`, each batch
/// one transaction with a feed entry. `loops` connections share the batches. Then one connection makes single commits.
///
/// Works under a prefix of its own beside that of the options, and leaves nothing there.
pub async fn floor(
    options: &Options,
    n: usize,
    batch: usize,
    payload: usize,
    loops: usize,
) -> Result<Floor, OpenError> {
    let mut options = options.clone();
    options.prefix.truncate(PREFIX_MAX);
    options.prefix += "_floor";
    wipe(&options).await?;
    let survey = check::survey(&options).await?;
    if let Some(problem) = survey.problems.into_iter().next() {
        return Err(problem);
    }
    let (batch, loops) = (batch.max(1), loops.max(1));
    let batches = n.div_ceil(batch);
    let mut benches = Vec::new();
    for number in 0..loops {
        let base = format!("{}:{{p{number}}}", options.prefix);
        let address = survey.layout.owner(slot(base.as_bytes())).unwrap_or(&options.addresses[0]);
        benches.push(Bench::open(&options, address, &survey.needs, base, payload).await?);
    }
    let started = Instant::now();
    let runs = benches
        .into_iter()
        .enumerate()
        .map(|(number, bench)| tokio::spawn(bench.lifecycles((number..batches).step_by(loops).collect(), batch)));
    let done = try_join_all(runs).await.map_err(|_| wrong(&options.addresses[0], "a loop of the floor panicked"))?;
    let seconds = started.elapsed().as_secs_f64();
    let mut benches: Vec<Bench> = done.into_iter().collect::<Result<_, _>>()?;

    let lifecycles = batches * batch;
    for (number, bench) in benches.iter_mut().enumerate() {
        let own: Vec<usize> = (number..batches).step_by(loops).collect();
        bench.verify(&own, batch).await?;
    }
    let commit_ms = benches[0].single_commits(lifecycles).await?;
    wipe(&options).await?;
    Ok(Floor { lifecycles, lifecycles_per_s: lifecycles as f64 / seconds, commit_ms })
}

fn wrong(address: &Address, why: impl Into<String>) -> OpenError {
    OpenError::Server { address: address.clone(), why: why.into() }
}

struct Bench {
    connection: MultiplexedConnection,
    address: Address,
    wait: Wait,
    base: String,
    seq: u64,
    input: Vec<u8>,
}

impl Bench {
    async fn open(
        options: &Options,
        address: &Address,
        needs: &Needs,
        base: String,
        payload: usize,
    ) -> Result<Self, OpenError> {
        let dial = Dial::new(address.clone(), options);
        let connection = dial.connect().await.map_err(|error| wrong(address, error.to_string()))?;
        let input = vec![0x77; payload];
        Ok(Self { connection, address: address.clone(), wait: needs.wait(address), base, seq: 0, input })
    }

    async fn lifecycles(mut self, batches: Vec<usize>, batch: usize) -> Result<Self, OpenError> {
        for number in batches {
            let rows = number * batch..(number + 1) * batch;
            self.insert(rows.clone()).await?;
            self.claim(rows.clone()).await?;
            self.complete(rows).await?;
        }
        Ok(self)
    }

    async fn insert(&mut self, rows: Range<usize>) -> Result<(), OpenError> {
        let cold = [&SPEC[..], &self.input].concat();
        let mut set = self.hot(rows.clone(), &state(READY, &HOT[..120]));
        for row in rows.clone() {
            set.arg(self.job('c', row)).arg(&cold);
        }
        let ready = self.add("ready", rows.clone(), 0);
        self.commit(rows.len(), vec![set, ready]).await
    }

    async fn claim(&mut self, rows: Range<usize>) -> Result<(), OpenError> {
        let set = self.hot(rows.clone(), &state(ACTIVE, &HOT));
        let commands = vec![set, self.remove("ready", rows.clone()), self.add("leases", rows.clone(), 30_000)];
        self.commit(rows.len(), commands).await
    }

    async fn complete(&mut self, rows: Range<usize>) -> Result<(), OpenError> {
        let set = self.hot(rows.clone(), &[&state(SUCCEEDED, &HOT)[..], &RESULT].concat());
        let commands = vec![set, self.remove("leases", rows.clone())];
        self.commit(rows.len(), commands).await
    }

    fn job(&self, part: char, row: usize) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.base.len() + 17);
        key.extend_from_slice(self.base.as_bytes());
        key.push(part as u8);
        key.extend_from_slice(&id(row));
        key
    }

    /// Sets the changing part of all rows. A result is a part of it: both are written at the end.
    fn hot(&self, rows: Range<usize>, value: &[u8]) -> Cmd {
        let mut set = Cmd::with_capacity(rows.len() * 4 + 1, rows.len() * (value.len() + self.input.len() + 200));
        set.arg("MSET");
        for row in rows {
            set.arg(self.job('h', row)).arg(value);
        }
        set
    }

    fn add(&self, name: &str, rows: Range<usize>, after_ms: u64) -> Cmd {
        let mut add = Cmd::with_capacity(rows.len() * 2 + 2, rows.len() * 32 + 64);
        add.arg("ZADD").arg(format!("{}{name}", self.base));
        for row in rows {
            add.arg(STARTED_MS + row as u64 + after_ms).write_arg(&id(row));
        }
        add
    }

    fn remove(&self, name: &str, rows: Range<usize>) -> Cmd {
        let mut remove = Cmd::with_capacity(rows.len() + 2, rows.len() * 16 + 64);
        remove.arg("ZREM").arg(format!("{}{name}", self.base));
        rows.for_each(|row| remove.write_arg(&id(row)));
        remove
    }

    /// One transaction with its feed entry, and the wait that the level demands.
    async fn commit(&mut self, rows: usize, commands: Vec<Cmd>) -> Result<(), OpenError> {
        self.seq += 1;
        let mut all = Pipeline::with_capacity(commands.len() + 3);
        all.cmd("MULTI");
        for command in commands {
            all.add_command(command);
        }
        let feed = format!("{}feed", self.base);
        let events = vec![0x11u8; rows * EVENT_BYTES];
        all.cmd("XADD")
            .arg(feed)
            .arg(format!("{}-0", self.seq))
            .arg("c")
            .arg(&id(self.seq as usize)[..])
            .arg("e")
            .arg(events);
        all.cmd("EXEC");
        let wait = self.wait.command();
        if let Some((wait, _)) = &wait {
            all.add_command(wait.clone());
        }
        let failed = |error: RedisError| wrong(&self.address, error.to_string());
        let replies: Vec<Value> = all.query_async(&mut self.connection).await.map_err(failed)?;
        let waited = wait.is_none_or(|(_, needed)| {
            replies
                .last()
                .and_then(|reply| self.wait.reached(reply))
                .is_some_and(|reached| reached >= i64::from(needed))
        });
        match waited {
            true => Ok(()),
            false => Err(wrong(&self.address, "a commit of the floor did not reach its replicas in time")),
        }
    }

    async fn single_commits(&mut self, first: usize) -> Result<f64, OpenError> {
        let mut took = Vec::with_capacity(SINGLE_COMMITS);
        for row in first..first + SINGLE_COMMITS {
            let started = Instant::now();
            self.insert(row..row + 1).await?;
            took.push(started.elapsed().as_secs_f64() * 1000.0);
        }
        took.sort_by(f64::total_cmp);
        Ok(took[SINGLE_COMMITS / 2])
    }

    /// A fast wrong answer is a failure.
    async fn verify(&mut self, batches: &[usize], batch: usize) -> Result<(), OpenError> {
        let failed = |error: RedisError| wrong(&self.address, error.to_string());
        let expected = [&state(SUCCEEDED, &HOT)[..], &RESULT].concat();
        let mut done = 0;
        for number in batches {
            let rows = number * batch..(number + 1) * batch;
            let mut get = redis::cmd("MGET");
            for row in rows {
                get.arg(self.job('h', row)).arg(self.job('c', row));
            }
            let values: Vec<Vec<u8>> = get.query_async(&mut self.connection).await.map_err(failed)?;
            let whole = |pair: &&[Vec<u8>]| pair[0] == expected && pair[1].len() == SPEC.len() + self.input.len();
            done += values.chunks_exact(2).filter(whole).count();
        }
        let mut counts = Pipeline::new();
        counts.cmd("ZCARD").arg(format!("{}ready", self.base)).cmd("ZCARD").arg(format!("{}leases", self.base));
        counts.cmd("XLEN").arg(format!("{}feed", self.base));
        let counts: Vec<usize> = counts.query_async(&mut self.connection).await.map_err(failed)?;
        match done == batches.len() * batch && counts == [0, 0, batches.len() * 3] {
            true => Ok(()),
            false => Err(wrong(&self.address, format!("the floor finished {done} jobs and left {counts:?}"))),
        }
    }
}

fn state(state: u8, hot: &[u8]) -> Vec<u8> {
    [&[state][..], &[0x22; FIELDS - 1], hot].concat()
}

/// An id that grows with time and ends in bytes that do not, as real ones do.
fn id(row: usize) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&(0x0198_0000_0000_0000 + ((row as u64) << 12)).to_be_bytes());
    id[8..].copy_from_slice(&(row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    id
}
