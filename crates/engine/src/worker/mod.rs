//! The registry of worker processes on this node: registering, heartbeats, draining, and what a claim is told.
//!
//! The rules are commands of the core on the record of one process. What is here finds records and leases, and keeps in
//! memory what claims need to know (`roster`), so that a claim reads nothing. A process that claims without having
//! registered is entered beside its claim (`enter`), so that every node lists every process.

mod enter;
pub(crate) mod leases;
mod list;
pub(crate) mod roster;
mod verbs;

pub(crate) use enter::{claimed, waits};
pub(crate) use list::{Ability, Taker, get, list, takers};
pub(crate) use roster::Roster;
pub(crate) use verbs::{Admitted, admit, alive, deregister, drain, heartbeat, judge, mark_dead, register, undrain};

use crate::notices::Told;
use std::collections::BTreeMap;
use weft_core::command::Fence;
use weft_core::limits;
use weft_core::record::Execution;
use weft_core::record::execution::Progress;
use weft_core::record::worker::Drain;
use weft_core::text::Text;
use weft_core::{ExecutionId, LeaseId, Time};

pub use weft_core::record::worker::{Body, State};

/// A worker process tells what it is.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The pool, and this process of it.
    pub worker: Text,
    pub instance: Text,
    /// Differs from one start of the process to the next.
    pub boot_id: Text,
    /// `None`: the lane `default`. An empty list is refused.
    pub lanes: Option<Vec<Text>>,
    /// `None`: any kind. An empty list is refused.
    pub kinds: Option<Vec<Text>>,
    pub capabilities: Vec<Text>,
    pub capacity: Option<u32>,
    pub version: Option<Text>,
    pub host: Option<Text>,
    pub labels: BTreeMap<Text, Text>,
    pub ttl_ms: u64,
    /// Leases of an earlier start are given to others.
    pub abandon: bool,
}

impl Registration {
    pub fn new(worker: impl Into<Text>, instance: impl Into<Text>, boot_id: impl Into<Text>) -> Self {
        Self {
            worker: worker.into(),
            instance: instance.into(),
            boot_id: boot_id.into(),
            lanes: None,
            kinds: None,
            capabilities: Vec::new(),
            capacity: None,
            version: None,
            host: None,
            labels: BTreeMap::new(),
            ttl_ms: limits::WORKER_TTL_MS_DEFAULT,
            abandon: true,
        }
    }

    pub fn lane(mut self, lane: impl Into<Text>) -> Self {
        self.lanes.get_or_insert_default().push(lane.into());
        self
    }

    pub fn kind(mut self, kind: impl Into<Text>) -> Self {
        self.kinds.get_or_insert_default().push(kind.into());
        self
    }

    pub fn offers(mut self, capability: impl Into<Text>) -> Self {
        self.capabilities.push(capability.into());
        self
    }

    pub fn version(mut self, version: impl Into<Text>) -> Self {
        self.version = Some(version.into());
        self
    }

    pub fn label(mut self, key: impl Into<Text>, value: impl Into<Text>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    pub fn ttl_ms(mut self, ms: u64) -> Self {
        self.ttl_ms = ms;
        self
    }

    /// Leases of an earlier start go on, and are listed in the reply.
    pub fn keep_leases(mut self) -> Self {
        self.abandon = false;
        self
    }
}

/// The process as it was entered.
#[derive(Clone, Debug)]
pub struct Registered {
    pub worker: Body,
    /// Leases of an earlier start that go on.
    pub leases: Vec<HeldLease>,
    /// When the next heartbeat is expected.
    pub next_in_ms: u64,
}

/// A worker process lives, and may tell what it holds.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    pub instance: Text,
    pub session: Option<u64>,
    /// An empty list says that it holds nothing; without one nothing is compared.
    pub holding: Option<Vec<Holding>>,
    /// Renews everything in `holding`.
    pub renew_ms: Option<u64>,
    pub free: Option<u32>,
}

impl Heartbeat {
    pub fn new(instance: impl Into<Text>) -> Self {
        Self { instance: instance.into(), session: None, holding: None, renew_ms: None, free: None }
    }

    pub fn session(mut self, session: u64) -> Self {
        self.session = Some(session);
        self
    }

    /// Adds a lease that it holds.
    pub fn holding(mut self, id: ExecutionId, fence: Fence) -> Self {
        self.holding.get_or_insert_default().push(Holding { id, fence });
        self
    }

    /// It holds nothing but what is added.
    pub fn nothing(mut self) -> Self {
        self.holding.get_or_insert_default();
        self
    }

    pub fn renew_ms(mut self, ms: u64) -> Self {
        self.renew_ms = Some(ms);
        self
    }
}

/// A lease that a worker process believes to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    pub id: ExecutionId,
    pub fence: Fence,
}

/// What a heartbeat is told.
#[derive(Clone, Debug)]
pub struct Beat {
    pub state: State,
    pub drain: Option<Drain>,
    /// How long each renewed lease still lasts.
    pub renewed: Vec<(ExecutionId, u64)>,
    /// Listed, and no longer good.
    pub lost: Vec<LostLease>,
    /// Good, and to be stopped.
    pub cancel: Vec<CancelledLease>,
    /// Good, not listed, and not just on its way.
    pub unknown: Vec<HeldLease>,
    pub told: Told,
    pub next_in_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostLease {
    pub execution: ExecutionId,
    pub epoch: u64,
    /// How it ended, as far as that is known; else the word of the refusal.
    pub cause: Text,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelledLease {
    pub execution: ExecutionId,
    pub epoch: u64,
    pub reason: Text,
    pub kill_in_ms: Option<u64>,
}

/// A lease that a worker process holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLease {
    pub execution: ExecutionId,
    pub kind: Text,
    pub lane: Text,
    pub lease: LeaseId,
    pub epoch: u64,
    pub attempt: u32,
    pub acquired_at: Time,
    pub expires_at: Time,
    pub progress: Option<Progress>,
}

impl HeldLease {
    /// Of an execution that is Active.
    fn of(execution: &Execution) -> Option<Self> {
        let lease = execution.lease()?;
        Some(Self {
            execution: execution.id,
            kind: execution.spec.kind.clone(),
            lane: execution.spec.lane.clone(),
            lease: lease.id,
            epoch: lease.epoch,
            attempt: execution.hot.open.as_ref().map_or(0, |open| open.index),
            acquired_at: lease.acquired_at,
            expires_at: lease.expires_at,
            progress: execution.hot.progress.clone(),
        })
    }
}

/// Leases of one worker process, in the order of the ids of the executions.
#[derive(Clone, Debug, Default)]
pub struct LeasePage {
    pub leases: Vec<HeldLease>,
    /// The last of these, if there are more.
    pub next_cursor: Option<ExecutionId>,
}

/// Which worker processes to list. Nothing set means all of the namespace.
#[derive(Clone, Debug, Default)]
pub struct WorkerFilter {
    pub worker: Option<Text>,
    pub lane: Option<Text>,
    pub kind: Option<Text>,
    pub capability: Option<Text>,
    /// As `State::name` says it.
    pub state: Option<Text>,
    pub version: Option<Text>,
    pub label: Option<(Text, Text)>,
    pub limit: Option<usize>,
    /// As the page before gave it.
    pub cursor: Option<String>,
}

/// Worker processes by their names. One that only ever claimed has the session 0.
#[derive(Clone, Debug, Default)]
pub struct WorkerPage {
    pub workers: Vec<Body>,
    /// Absent exactly at the end. A page may be short and still have one: its cost is bounded.
    pub next_cursor: Option<String>,
}

/// Which worker processes are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerTarget {
    Instance(Text),
    /// All of a pool.
    Worker(Text),
    Version(Text),
    Label(Text, Text),
}
