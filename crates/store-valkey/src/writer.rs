//! The commits of one partition, on a connection of their own.
//!
//! A server reads a little from each connection per turn and fsyncs once per turn, so commits of different partitions
//! that arrive together share an fsync only if they come on different connections.
//!
//! The usual commit is a transaction of plain commands. The connection watches the head of its partition: if anybody
//! changes it after this node read it, the transaction does nothing. That is the check that nobody else has written, and
//! it spares the server from moving every byte through Lua, which costs more than the writes themselves. Whatever else has
//! to be decided is left to the commit function.

use crate::batch::{Call, head};
use crate::link::{Dial, Fault, Lease, Link};
use crate::primary::Wait;
use redis::{Cmd, Pipeline, Value};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use weft_core::CommitId;
use weft_core::change::Head;

/// Commit ids that are remembered, so that one that comes again is looked up. A node never sends one twice by itself.
const REMEMBERED: usize = 1024;

pub struct Writer {
    link: Link,
    wait: Wait,
    /// The key to watch; `None` where several partitions share the connection, which then cannot watch.
    head: Option<Vec<u8>>,
    known: tokio::sync::Mutex<Option<Known>>,
    ids: Mutex<VecDeque<CommitId>>,
}

/// The head as it was after the connection began to watch it.
#[derive(Clone, Copy)]
struct Known {
    head: Head,
    /// The connection that watches.
    connection: u64,
}

impl Writer {
    pub fn new(dial: Dial, wait: Wait, head: Option<Vec<u8>>) -> Self {
        Self { link: Link::new(dial), wait, head, known: tokio::sync::Mutex::default(), ids: Mutex::default() }
    }

    /// Carries out a commit and waits until it is as safe as the level says. The reply is that of the commit function.
    pub async fn commit(&self, call: &Call<'_>, asking: bool) -> Result<Value, Fault> {
        let seen_before = self.remember(call.id());
        let watched = self.head.as_ref().filter(|_| !asking);
        // Only one call at a time may rely on what is watched; another one that comes in between asks the function.
        let (Some(key), Ok(mut known)) = (watched, self.known.try_lock()) else {
            return self.function(&call.function(), asking).await;
        };
        let lease = self.link.open().await?;
        // If this call is given up half-way, nothing is known any more.
        let before = known.take().filter(|known| known.connection == lease.number() && !seen_before);
        if let Some(before) = before.filter(|known| call.holds_at(known.head)) {
            let (reply, after) = self.transaction(&lease, call, before.head, key).await?;
            if let Some(reply) = reply {
                *known = after;
                return Ok(reply);
            }
            // It did nothing; now the function has to say why.
        }
        let mut all = Pipeline::with_capacity(5);
        all.add_command(call.function());
        all.cmd("UNWATCH").cmd("WATCH").arg(key).cmd("GET").arg(key);
        let mut replies = self.send(&lease, all, 4).await?;
        *known = self.watching(&lease, replies.pop());
        let reply = replies.swap_remove(0);
        self.checked(reply)
    }

    /// Calls a function that writes.
    pub async fn function(&self, command: &Cmd, asking: bool) -> Result<Value, Fault> {
        let lease = self.link.open().await?;
        let mut all = Pipeline::with_capacity(3);
        if asking {
            all.cmd("ASKING");
        }
        all.add_command(command.clone());
        let reply = self.send(&lease, all, 1 + usize::from(asking)).await?.pop();
        self.checked(reply.unwrap_or_default())
    }

    /// Notes an id that `resolve` was asked about: it may be barred now.
    pub fn resolved(&self, id: CommitId) {
        self.remember(id);
    }

    /// True if the id was there already.
    fn remember(&self, id: CommitId) -> bool {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.contains(&id) {
            return true;
        }
        if ids.len() == REMEMBERED {
            ids.pop_front();
        }
        ids.push_back(id);
        false
    }

    /// Whether it has a connection, and a call that uses it now.
    pub fn in_use(&self) -> Option<bool> {
        self.link.in_use()
    }

    pub async fn load(&self, code: &'static str) -> Result<(), Fault> {
        self.link.load(code).await
    }

    fn checked(&self, reply: Value) -> Result<Value, Fault> {
        match reply {
            Value::ServerError(error) => Err(Fault::Reply { address: self.link.dial.address.clone(), error }),
            reply => Ok(reply),
        }
    }

    fn watching(&self, lease: &Lease, reply: Option<Value>) -> Option<Known> {
        head(reply.as_ref()).map(|head| Known { head, connection: lease.number() })
    }

    /// The commit as a transaction. Without a reply it did nothing.
    async fn transaction(
        &self,
        lease: &Lease,
        call: &Call<'_>,
        before: Head,
        key: &[u8],
    ) -> Result<(Option<Value>, Option<Known>), Fault> {
        let mut all = Pipeline::with_capacity(16);
        all.cmd("MULTI");
        let (left, new_id) = call.transaction(before, &mut all);
        all.cmd("EXEC");
        let exec = all.len() - 1;
        all.cmd("WATCH").arg(key).cmd("GET").arg(key);
        let count = all.len();
        let mut replies = self.send(lease, all, count).await?;
        let after = self.watching(lease, replies.pop());
        match std::mem::take(&mut replies[exec]) {
            Value::Array(done) => {
                let failed = done.iter().find_map(|reply| match reply {
                    Value::ServerError(error) => Some(error.to_string()),
                    _ => None,
                });
                let why = match (failed, done.get(new_id)) {
                    (None, Some(Value::Int(1))) => return Ok((Some(left), after)),
                    (Some(why), _) => why,
                    (None, _) => "its id was used before".to_owned(),
                };
                Err(Fault::Broken { address: self.link.dial.address.clone(), why })
            }
            // Somebody else has written, or the server would not queue it: the function tells which.
            Value::Nil => Ok((None, after)),
            Value::ServerError(error) if error.code() == "EXECABORT" => Ok((None, after)),
            reply => self.checked(reply).map(|_| (None, after)),
        }
    }

    /// Sends everything in one message, with the wait of the level at its end. Answers the first `count` replies.
    async fn send(&self, lease: &Lease, mut all: Pipeline, count: usize) -> Result<Vec<Value>, Fault> {
        let Some((wait, needed)) = self.wait.command() else { return self.link.send_on(lease, &all, count).await };
        let started = Instant::now();
        all.add_command(wait.clone());
        let mut replies = self.link.send_on(lease, &all, count + 1).await?;
        let mut waited = replies.pop();
        if replies.iter().all(|reply| matches!(reply, Value::ServerError(_))) {
            return Ok(replies);
        }
        loop {
            let reached = waited.as_ref().and_then(|reply| self.wait.reached(reply)).unwrap_or(-1);
            if reached >= i64::from(needed) {
                return Ok(replies);
            }
            // It comes after the write, so it is repeated on the same connection while there is time. A server that
            // answers with an error is no primary any more: another one knows what has become of the commit.
            let replaced = matches!(waited, Some(Value::ServerError(_)));
            if replaced || started.elapsed() + Duration::from_millis(Wait::MS) > self.link.dial.call_timeout {
                return Err(Fault::Short { address: self.link.dial.address.clone(), reached, needed });
            }
            let mut again = Pipeline::with_capacity(1);
            again.add_command(wait.clone());
            waited = self.link.send_on(lease, &again, 1).await?.pop();
        }
    }
}
