//! The connections to one primary: one per partition for commits, a few for reads.

use crate::batch::Call;
use crate::keys::Keys;
use crate::library;
use crate::link::{Dial, Fault, Link};
use crate::writer::Writer;
use redis::{Cmd, Value};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use weft_core::{CommitId, PartitionId};

const READERS: usize = 2;
/// Connections for commits. With more partitions than that some share one.
const WRITERS_MAX: u16 = 256;

/// What a commit waits for once the primary has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Nothing,
    /// Received by so many replicas.
    Received(u32),
    /// On the disk of the primary and of so many replicas.
    Fsynced(u32),
}

impl Wait {
    /// How long one wait takes at most. It is repeated until the call has taken too long.
    pub const MS: u64 = 500;

    /// The command, and how many replicas it is about.
    pub fn command(self) -> Option<(Cmd, u32)> {
        let mut command = Cmd::new();
        match self {
            Wait::Nothing => None,
            Wait::Received(replicas) => {
                command.arg("WAIT").arg(replicas).arg(Self::MS);
                Some((command, replicas))
            }
            Wait::Fsynced(replicas) => {
                command.arg("WAITAOF").arg(1).arg(replicas).arg(Self::MS);
                Some((command, replicas))
            }
        }
    }

    /// How many replicas a reply counts; less than any if the primary itself has not fsynced.
    pub fn reached(self, reply: &Value) -> Option<i64> {
        match (self, reply) {
            (Wait::Received(_), Value::Int(replicas)) => Some(*replicas),
            (Wait::Fsynced(_), Value::Array(counts)) => match counts[..] {
                [Value::Int(local), Value::Int(replicas)] => Some(if local >= 1 { replicas } else { -1 }),
                _ => None,
            },
            _ => None,
        }
    }
}

pub struct Primary {
    dial: Dial,
    wait: Wait,
    keys: Keys,
    partitions: u16,
    /// Made when a partition commits here for the first time.
    writers: Mutex<BTreeMap<u16, Arc<Writer>>>,
    reads: [Link; READERS],
    turn: AtomicUsize,
}

/// What is sent to a primary.
#[derive(Clone, Copy)]
pub enum Request<'a> {
    /// Changes nothing and may be sent again.
    Read(&'a Cmd),
    Commit(&'a Call<'a>),
    Resolve(CommitId, &'a Cmd),
}

impl Primary {
    pub fn new(dial: Dial, wait: Wait, keys: Keys, partitions: u16) -> Self {
        let reads = std::array::from_fn(|_| Link::new(dial.clone()));
        Self { dial, wait, keys, partitions, writers: Mutex::default(), reads, turn: AtomicUsize::new(0) }
    }

    pub fn dial(&self) -> &Dial {
        &self.dial
    }

    fn writer(&self, partition: PartitionId) -> Arc<Writer> {
        let number = partition.0 % WRITERS_MAX;
        let watched = (self.partitions <= WRITERS_MAX).then(|| self.keys.of(partition).head());
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.entry(number).or_insert_with(|| Arc::new(Writer::new(self.dial.clone(), self.wait, watched))).clone()
    }

    pub async fn send(&self, partition: PartitionId, request: Request<'_>, asking: bool) -> Result<Value, Fault> {
        match request {
            Request::Read(command) => self.read(command, asking).await,
            Request::Commit(call) => self.writer(partition).commit(call, asking).await,
            Request::Resolve(id, command) => {
                let writer = self.writer(partition);
                writer.resolved(id);
                writer.function(command, asking).await
            }
        }
    }

    pub async fn read(&self, command: &Cmd, asking: bool) -> Result<Value, Fault> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.reads[turn % READERS].call(command, asking).await
    }

    /// Connections that calls use now, and those that wait for one.
    pub fn connections(&self) -> (usize, usize) {
        let writers: Vec<Arc<Writer>> =
            self.writers.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let open =
            self.reads.iter().filter_map(Link::in_use).chain(writers.iter().filter_map(|writer| writer.in_use()));
        open.fold((0, 0), |(used, idle), in_use| if in_use { (used + 1, idle) } else { (used, idle + 1) })
    }

    /// Makes sure that the server has the library.
    pub async fn load_library(&self) -> Result<(), Fault> {
        self.writer(PartitionId(0)).load(library::CODE).await
    }
}
