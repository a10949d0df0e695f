//! The store in memory: the yardstick for every other one, and the ground of the simulator.
//!
//! Every call is decided under one lock and answers at once. Nothing survives the process, and the feed is kept whole.
//!
//! A commit id is applied at most once. When an id arrives that was applied before, nothing changes and the answer is
//! `Applied` with the head as it was left the first time: that is the truth about this id, whoever asks.

mod partition;
mod walk;

pub use partition::{Dump, FeedEntry, Stored};

use crate::{Description, Durability, Error, Level, Outcome, Page, Read, Resolution, Scan, Store, Vitals, Wake, Wakes};
use partition::Partition;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;
use weft_core::change::{Batch, DueEntry, Head};
use weft_core::record::Key;
use weft_core::schema::PartMask;
use weft_core::{CommitId, PartitionId, Time};

/// The clock a store in memory tells the time by.
pub type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// Called under the lock after each commit that was applied. It must not call the store; what it may want to see is in
/// `Committed`.
pub type Observer = Box<dyn FnMut(&Committed<'_>) + Send>;

/// A handle to partitions in memory. Clones are the same node; `node_handle` makes another one.
#[derive(Clone)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    clock: Clock,
    node: u64,
}

struct State {
    partitions: Vec<Partition>,
    exclusive: bool,
    commits: u64,
    nodes: u64,
    watchers: Vec<(u64, mpsc::UnboundedSender<Wake>)>,
    observer: Option<Observer>,
}

/// What a partition held at one moment.
pub struct Saved(Partition);

/// A commit that was just applied, with the partition as it left it.
pub struct Committed<'a> {
    pub partition: PartitionId,
    pub batch: &'a Batch,
    /// The head that the commit found. A bar set by `resolve` since the commit before has moved it on.
    pub before: Head,
    pub head: Head,
    after: &'a Partition,
}

impl Committed<'_> {
    pub fn record(&self, key: &Key) -> Option<&Stored> {
        self.after.record(key)
    }

    pub fn dump(&self) -> Dump {
        self.after.dump()
    }
}

impl MemoryStore {
    /// Empty partitions that one node has for itself.
    pub fn new(partitions: u16, clock: Clock) -> Self {
        let state = State {
            partitions: (0..partitions).map(|id| Partition::new(PartitionId(id))).collect(),
            exclusive: true,
            commits: 0,
            nodes: 1,
            watchers: Vec::new(),
            observer: None,
        };
        Self { state: Arc::new(Mutex::new(state)), clock, node: 0 }
    }

    /// Lets several nodes in: the store no longer calls itself exclusive, and commits wake the other nodes.
    pub fn shared(self) -> Self {
        self.lock().exclusive = false;
        self
    }

    /// The same partitions as another node sees them: it is woken by the commits of all handles but its own.
    pub fn node_handle(&self) -> Self {
        let mut state = self.lock();
        let node = state.nodes;
        state.nodes += 1;
        Self { state: self.state.clone(), clock: self.clock.clone(), node }
    }

    /// Everything that is in the partition. Panics if there is no such partition.
    pub fn dump(&self, partition: PartitionId) -> Dump {
        self.lock().partitions[usize::from(partition.0)].dump()
    }

    /// The partition as it is, to go back to.
    pub fn save(&self, partition: PartitionId) -> Saved {
        Saved(self.lock().partitions[usize::from(partition.0)].clone())
    }

    /// Loses every commit since the partition was saved, as a failover to a replica that lagged would.
    pub fn go_back(&self, saved: &Saved) {
        let partition = saved.0.clone();
        let index = usize::from(partition.id().0);
        self.lock().partitions[index] = partition;
    }

    /// How many commits were applied, in all partitions together.
    pub fn commits(&self) -> u64 {
        self.lock().commits
    }

    /// Shows every commit from now on to `observer`, in place of the one before.
    pub fn set_observer(&self, observer: Observer) {
        self.lock().observer = Some(observer);
    }

    /// Adds an entry to the due index outside a commit, as damage would: its key may name nothing.
    pub fn insert_due(&self, partition: PartitionId, entry: &DueEntry) {
        self.lock().partitions[usize::from(partition.0)].insert_due(entry);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Only an observer can panic under the lock, and by then the commit is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn partition(&mut self, id: PartitionId) -> Result<&mut Partition, Error> {
        self.partitions.get_mut(usize::from(id.0)).ok_or_else(|| Error::refused(format!("there is no partition {id}")))
    }

    fn commit(&mut self, node: u64, id: PartitionId, batch: &Batch) -> Result<Outcome, Error> {
        let partition = self.partition(id)?;
        let before = partition.head();
        let (outcome, applied) = partition.commit(batch);
        let Some(head) = applied else { return Ok(outcome) };
        self.commits += 1;
        if !self.exclusive {
            self.wake(node, id, batch);
        }
        if let Some(observer) = &mut self.observer {
            let after = &self.partitions[usize::from(id.0)];
            observer(&Committed { partition: id, batch, before, head, after });
        }
        Ok(outcome)
    }

    fn wake(&mut self, node: u64, partition: PartitionId, batch: &Batch) {
        let Some(wake) = Wake::of(partition, batch) else { return };
        self.watchers.retain(|(watcher, wakes)| match *watcher == node {
            true => !wakes.is_closed(),
            false => wakes.send(wake.clone()).is_ok(),
        });
    }
}

impl Store for MemoryStore {
    async fn read(&self, partition: PartitionId, keys: Vec<(Key, PartMask)>) -> Result<Read, Error> {
        let mut state = self.lock();
        let partition = state.partition(partition)?;
        let found = keys.iter().map(|(key, mask)| partition.found(key, *mask)).collect();
        Ok(Read { head: partition.head(), found })
    }

    async fn scan(&self, partition: Option<PartitionId>, scan: Scan) -> Result<Vec<Page>, Error> {
        let mut state = self.lock();
        match partition {
            Some(partition) => state.partition(partition)?.scan(&scan),
            None => partition::scan_all(&state.partitions, &scan),
        }
    }

    async fn commit(&self, partition: PartitionId, batch: Batch) -> Outcome {
        match self.lock().commit(self.node, partition, &batch) {
            Ok(outcome) => outcome,
            Err(error) => Outcome::NotApplied { retry_after_ms: 0, source: Arc::new(error) },
        }
    }

    async fn resolve(&self, partition: PartitionId, id: CommitId) -> Result<Resolution, Error> {
        Ok(self.lock().partition(partition)?.resolve(id))
    }

    fn watch(&self) -> Wakes {
        let (wakes, receiver) = mpsc::unbounded_channel();
        self.lock().watchers.push((self.node, wakes));
        receiver
    }

    async fn now(&self) -> Result<Time, Error> {
        Ok((self.clock)())
    }

    fn describe(&self) -> Description {
        let state = self.lock();
        Description {
            name: "memory",
            partitions: state.partitions.len() as u16,
            exclusive: state.exclusive,
            batch_records: 2000,
            batch_bytes: 4 << 20,
            durability: Durability {
                level: Level::Memory,
                acknowledged: "it is in the memory of this process".into(),
                can_lose: vec!["everything, when the process ends".into()],
                verified: true,
            },
            vitals: Vitals::default(),
        }
    }
}
