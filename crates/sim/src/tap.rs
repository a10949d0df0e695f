//! Two looks at the store calls of a node. `Truth` sits under the faults and tells the checker what the store did;
//! `Sight` sits above them and tells it what the node was told. Neither changes an answer.

use crate::checker::SharedJudge;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_core::change::Batch;
use weft_core::record::Key;
use weft_core::schema::PartMask;
use weft_core::{CommitId, PartitionId, Time};
use weft_store::{Description, Error, Outcome, Page, Read, Resolution, Scan, Store, Wakes};

/// Conflicts in a row on one partition after which a node is said to make no progress. Injected ones are rare enough
/// never to come near it.
const CONFLICTS_IN_ROW_MAX: u32 = 60;

/// What the store really did.
pub struct Truth<S> {
    inner: Arc<S>,
    judge: SharedJudge,
}

impl<S> Truth<S> {
    pub fn new(inner: Arc<S>, judge: SharedJudge) -> Self {
        Self { inner, judge }
    }
}

impl<S: Store> Store for Truth<S> {
    async fn read(&self, partition: PartitionId, keys: Vec<(Key, PartMask)>) -> Result<Read, Error> {
        self.inner.read(partition, keys).await
    }

    async fn scan(&self, partition: Option<PartitionId>, scan: Scan) -> Result<Vec<Page>, Error> {
        self.inner.scan(partition, scan).await
    }

    async fn commit(&self, partition: PartitionId, batch: Batch) -> Outcome {
        let (id, expect) = (batch.id, batch.expect);
        let outcome = self.inner.commit(partition, batch).await;
        self.judge.lock().arrived(partition, id, expect, &outcome);
        outcome
    }

    async fn resolve(&self, partition: PartitionId, id: CommitId) -> Result<Resolution, Error> {
        let resolution = self.inner.resolve(partition, id).await?;
        self.judge.lock().resolved(partition, id, resolution);
        Ok(resolution)
    }

    fn watch(&self) -> Wakes {
        self.inner.watch()
    }

    async fn now(&self) -> Result<Time, Error> {
        self.inner.now().await
    }

    fn describe(&self) -> Description {
        self.inner.describe()
    }
}

/// What a node was told.
pub struct Sight<S> {
    inner: Arc<S>,
    judge: SharedJudge,
    seen: Mutex<BTreeMap<PartitionId, Seen>>,
    in_flight: Arc<Flights>,
    node: usize,
    /// A number that differs between lives of the node.
    life: u64,
}

#[derive(Default)]
struct Seen {
    conflicts_in_row: u32,
    /// A commit whose outcome this node has not learnt yet.
    unknown: Option<CommitId>,
}

impl<S> Sight<S> {
    /// `in_flight` counts the commits that this node waits for.
    pub fn new(inner: Arc<S>, judge: SharedJudge, in_flight: Arc<Flights>, node: usize, life: u64) -> Self {
        Self { inner, judge, seen: Mutex::new(BTreeMap::new()), in_flight, node, life }
    }

    fn with_seen(&self, partition: PartitionId, note: impl FnOnce(&mut Seen)) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        note(seen.entry(partition).or_default());
    }

    fn sends(&self, partition: PartitionId, id: CommitId) {
        self.with_seen(partition, |seen| {
            if let Some(unknown) = seen.unknown.filter(|unknown| *unknown != id) {
                let what = format!("partition {partition}: {id} was sent while the outcome of {unknown} is unknown");
                self.judge.lock().violation("RL-14", what);
            }
        });
    }

    fn told(&self, partition: PartitionId, id: CommitId, outcome: &Outcome) {
        self.with_seen(partition, |seen| match outcome {
            Outcome::Conflict { .. } => {
                seen.conflicts_in_row += 1;
                let mut judge = self.judge.lock();
                if seen.conflicts_in_row == 3 {
                    judge.sometimes("conflict three times in a row");
                }
                if seen.conflicts_in_row == CONFLICTS_IN_ROW_MAX {
                    let what = format!("partition {partition}: {CONFLICTS_IN_ROW_MAX} conflicts in a row, no progress");
                    judge.violation("SD-25", what);
                }
            }
            Outcome::Unknown { .. } => seen.unknown = Some(id),
            Outcome::Applied { head } => {
                seen.conflicts_in_row = 0;
                self.judge.lock().acknowledged(self.life, partition, id, head.position);
            }
            Outcome::Lost { .. } | Outcome::NotApplied { .. } => {}
        });
    }

    fn learnt(&self, partition: PartitionId, id: CommitId, resolution: Resolution) {
        if let Resolution::Applied { position } = resolution {
            self.judge.lock().acknowledged(self.life, partition, id, position);
        }
        self.with_seen(partition, |seen| {
            if seen.unknown.take().is_some() {
                self.judge.lock().sometimes(match resolution {
                    Resolution::Applied { .. } => "unknown then applied",
                    Resolution::NotApplied => "unknown then not applied",
                });
            }
        });
    }
}

fn words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Applied { head } => format!("applied at {}", head.position.seq),
        Outcome::Conflict { keys, head } => format!("conflict at {} in {keys:?}", head.position.seq),
        Outcome::Lost { head } => format!("lost, at {}", head.position.seq),
        Outcome::NotApplied { .. } => "not applied".to_owned(),
        Outcome::Unknown { .. } => "unknown".to_owned(),
    }
}

/// Commits that a node waits for, by partition.
#[derive(Default)]
pub struct Flights(Mutex<BTreeMap<PartitionId, u64>>);

impl Flights {
    fn counts(&self) -> MutexGuard<'_, BTreeMap<PartitionId, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_any(&self) -> bool {
        self.counts().values().any(|count| *count > 0)
    }

    pub fn is_in(&self, partition: PartitionId) -> bool {
        self.counts().get(&partition).is_some_and(|count| *count > 0)
    }
}

/// Counts a commit as in flight for as long as its future lives.
struct Flight {
    flights: Arc<Flights>,
    partition: PartitionId,
}

impl Flight {
    fn begin(flights: &Arc<Flights>, partition: PartitionId) -> Self {
        *flights.counts().entry(partition).or_default() += 1;
        Self { flights: flights.clone(), partition }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(count) = self.flights.counts().get_mut(&self.partition) {
            *count -= 1;
        }
    }
}

impl<S: Store> Store for Sight<S> {
    async fn read(&self, partition: PartitionId, keys: Vec<(Key, PartMask)>) -> Result<Read, Error> {
        self.inner.read(partition, keys).await
    }

    async fn scan(&self, partition: Option<PartitionId>, scan: Scan) -> Result<Vec<Page>, Error> {
        self.inner.scan(partition, scan).await
    }

    async fn commit(&self, partition: PartitionId, batch: Batch) -> Outcome {
        let id = batch.id;
        self.sends(partition, id);
        let node = self.node;
        self.judge.lock().log.remark(|| format!("  node {node} sends {id} to partition {partition}"));
        let flight = Flight::begin(&self.in_flight, partition);
        let outcome = self.inner.commit(partition, batch).await;
        drop(flight);
        self.judge.lock().log.remark(|| format!("  node {node} is told of {id}: {}", words(&outcome)));
        self.told(partition, id, &outcome);
        outcome
    }

    async fn resolve(&self, partition: PartitionId, id: CommitId) -> Result<Resolution, Error> {
        let resolution = self.inner.resolve(partition, id).await?;
        self.learnt(partition, id, resolution);
        Ok(resolution)
    }

    fn watch(&self) -> Wakes {
        self.inner.watch()
    }

    async fn now(&self) -> Result<Time, Error> {
        self.inner.now().await
    }

    fn describe(&self) -> Description {
        self.inner.describe()
    }
}
