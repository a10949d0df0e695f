//! The store as the engine holds it: the same six verbs behind a pointer, counted.

use crate::runtime::BoxFuture;
use crate::stats::Counters;
use std::sync::Arc;
use weft_core::change::Batch;
use weft_core::record::Key;
use weft_core::schema::PartMask;
use weft_core::{CommitId, PartitionId, Time};
use weft_store::{Description, Error, Outcome, Page, Read, Resolution, Scan, Store, Wakes};

/// `Store` with boxed futures, so that one engine type serves every store.
pub trait AnyStore: Send + Sync + 'static {
    fn read(&self, partition: PartitionId, keys: Vec<(Key, PartMask)>) -> BoxFuture<Result<Read, Error>>;
    fn scan(&self, partition: Option<PartitionId>, scan: Scan) -> BoxFuture<Result<Vec<Page>, Error>>;
    fn commit(&self, partition: PartitionId, batch: Batch) -> BoxFuture<Outcome>;
    fn resolve(&self, partition: PartitionId, id: CommitId) -> BoxFuture<Result<Resolution, Error>>;
    fn watch(&self) -> Wakes;
    fn now(&self) -> BoxFuture<Result<Time, Error>>;
    fn describe(&self) -> Description;
}

/// Counts every call on its way to the store.
pub struct Counted<S> {
    store: Arc<S>,
    counters: Arc<Counters>,
}

impl<S: Store> Counted<S> {
    pub fn new(store: Arc<S>, counters: Arc<Counters>) -> Self {
        Self { store, counters }
    }
}

impl<S: Store> AnyStore for Counted<S> {
    fn read(&self, partition: PartitionId, keys: Vec<(Key, PartMask)>) -> BoxFuture<Result<Read, Error>> {
        self.counters.reads.add(1);
        let store = self.store.clone();
        Box::pin(async move { store.read(partition, keys).await })
    }

    fn scan(&self, partition: Option<PartitionId>, scan: Scan) -> BoxFuture<Result<Vec<Page>, Error>> {
        self.counters.scans.add(1);
        let store = self.store.clone();
        Box::pin(async move { store.scan(partition, scan).await })
    }

    fn commit(&self, partition: PartitionId, batch: Batch) -> BoxFuture<Outcome> {
        self.counters.commits.add(1);
        self.counters.records_written.add(batch.writes.len() as u64);
        self.counters.bytes_written.add(batch.weight() as u64);
        let store = self.store.clone();
        Box::pin(async move { store.commit(partition, batch).await })
    }

    fn resolve(&self, partition: PartitionId, id: CommitId) -> BoxFuture<Result<Resolution, Error>> {
        self.counters.resolves.add(1);
        let store = self.store.clone();
        Box::pin(async move { store.resolve(partition, id).await })
    }

    fn watch(&self) -> Wakes {
        self.store.watch()
    }

    fn now(&self) -> BoxFuture<Result<Time, Error>> {
        self.counters.clock_reads.add(1);
        let store = self.store.clone();
        Box::pin(async move { store.now().await })
    }

    fn describe(&self) -> Description {
        self.store.describe()
    }
}
