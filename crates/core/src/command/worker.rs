//! What is said by and about worker processes.

use super::Fence;
use crate::digest;
use crate::id::{ExecutionId, PartitionId};
use crate::record::Key;
use crate::text::{Capabilities, Text};
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where the record of a worker process is: the partition that the engine found by the hash of its key, and the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkerName {
    pub partition: PartitionId,
    pub namespace: Text,
    pub instance: Text,
}

impl WorkerName {
    pub fn key(&self) -> Key {
        Key::Worker(self.partition, digest::worker(&self.namespace, &self.instance))
    }
}

/// A worker process tells what it is. Another boot id than before is another session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegisterWorker {
    pub name: WorkerName,
    pub worker: Text,
    /// Empty where the engine enters one that only claims.
    pub boot_id: Text,
    pub lanes: Vec<Text>,
    pub kinds: Option<Vec<Text>>,
    pub capabilities: Capabilities,
    pub capacity: Option<u32>,
    pub version: Option<Text>,
    pub host: Option<Text>,
    pub labels: BTreeMap<Text, Text>,
    pub ttl_ms: u64,
    /// Leases of earlier sessions are given to others.
    pub abandon: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BeatWorker {
    pub name: WorkerName,
    pub session: Option<u64>,
    pub free: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeregisterWorker {
    pub name: WorkerName,
    pub session: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DrainWorker {
    pub name: WorkerName,
    pub reason: Text,
    /// What is left then is given to others.
    pub deadline_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UndrainWorker {
    pub name: WorkerName,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MarkWorkerDead {
    pub name: WorkerName,
    pub reason: Text,
}

/// What a look at the leases of a worker process has shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettleWorker {
    #[serde(skip)]
    pub key: Option<Key>,
    /// The debt that was looked at, by the time it was made; another one is not touched.
    pub owed_since: Option<Time>,
    /// Leases that are owed an end are still there.
    pub owed_left: bool,
    /// It holds a lease.
    pub held: bool,
}

/// Ends a lease because of its worker process, if it is still the current one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndLease {
    pub id: ExecutionId,
    pub fence: Fence,
    pub end: WorkerEnd,
}

/// Why leases end with their worker process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerEnd {
    /// It is dead, or another process has its name: the lease counts as lost.
    Lost,
    /// It has left, or its time to drain is over: nothing is counted.
    Drained,
}
