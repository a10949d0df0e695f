//! Connections that calls take in turn, opened when first needed and kept. Knows nothing of what is sent on them.

use crate::connect;
use crate::link::Link;
use crate::open_error::OpenError;
use crate::options::Options;
use crate::stats::{Counters, add};
use futures_util::future::join_all;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, SemaphorePermit};

/// One connection of so many is for reads; the others are for commits, of which each has one to itself.
const PER_READER: usize = 5;

/// What the connections of a pool are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Read,
    Commit,
}

impl Use {
    /// Calls of this kind that are made at the same time; others wait for their turn.
    pub fn most(self, options: &Options) -> usize {
        let readers = (options.pool / PER_READER).max(1);
        match self {
            Use::Read => readers,
            Use::Commit => options.pool.saturating_sub(readers).max(1),
        }
    }
}

pub struct Pool {
    options: Options,
    purpose: Use,
    turns: Semaphore,
    /// The one that was used last goes out first: its statements are prepared, and the server remembers its tables.
    idle: Mutex<Vec<Link>>,
    counters: Arc<Counters>,
}

/// A connection that one call has to itself. Dropped, it is closed: whoever gives up in the middle leaves nothing of it to
/// the next call.
pub struct Taken<'a> {
    pub link: Link,
    pool: &'a Pool,
    _turn: SemaphorePermit<'a>,
}

impl Pool {
    pub fn new(purpose: Use, options: Options, counters: Arc<Counters>) -> Self {
        let turns = Semaphore::new(purpose.most(&options));
        Self { options, purpose, turns, idle: Mutex::default(), counters }
    }

    /// A connection that the server has not closed.
    pub async fn take(&self) -> Result<Taken<'_>, OpenError> {
        let turn = self.turns.acquire().await.expect("pool: its turns are never ended");
        while let Some(mut link) = self.take_idle() {
            if link.is_alive().await {
                return Ok(Taken { link, pool: self, _turn: turn });
            }
        }
        Ok(Taken { link: self.connect().await?, pool: self, _turn: turn })
    }

    /// Opens connections before they are needed. One that cannot be had is no trouble yet: the call that needs it tries
    /// again, and tells.
    pub async fn fill(&self, count: usize) {
        for link in join_all((0..count).map(|_| self.connect())).await.into_iter().flatten() {
            self.put(link);
        }
    }

    async fn connect(&self) -> Result<Link, OpenError> {
        add(&self.counters.connections);
        match self.purpose {
            Use::Read => connect::session(&self.options).await,
            Use::Commit => connect::writer(&self.options).await,
        }
    }

    /// Connections in use, those being made included, and idle ones.
    pub fn connections(&self) -> (usize, usize) {
        let most = self.purpose.most(&self.options);
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).len();
        (most - self.turns.available_permits().min(most), idle)
    }

    /// Adds a connection that nobody uses.
    pub fn put(&self, link: Link) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(link);
    }

    fn take_idle(&self) -> Option<Link> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

impl Taken<'_> {
    /// Leaves the connection to the next call.
    pub fn give_back(self) {
        self.pool.put(self.link);
    }
}
