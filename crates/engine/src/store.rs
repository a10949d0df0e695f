//! The store as the engine holds it: the same six verbs behind a pointer, counted and timed.

use crate::runtime::{BoxFuture, Runtime};
use crate::stats::Counters;
use crate::telemetry::Telemetry;
use std::sync::Arc;
use tracing::Instrument;
use weft_core::change::Batch;
use weft_core::record::Key;
use weft_core::schema::PartMask;
use weft_core::{CommitId, PartitionId, Time};
use weft_store::{Description, Error, Full, Outcome, Page, Read, Resolution, Scan, Store, Wakes};

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

/// Counts every call on its way to the store, and how long it took.
pub struct Counted<S> {
    store: Arc<S>,
    counters: Arc<Counters>,
    telemetry: Arc<Telemetry>,
    runtime: Arc<dyn Runtime>,
}

impl<S: Store> Counted<S> {
    pub fn new(store: Arc<S>, counters: Arc<Counters>, telemetry: Arc<Telemetry>, runtime: Arc<dyn Runtime>) -> Self {
        Self { store, counters, telemetry, runtime }
    }

    fn begin(&self) -> Watch {
        Watch { began_us: self.runtime.clock_us(), telemetry: self.telemetry.clone(), runtime: self.runtime.clone() }
    }
}

/// Measures one call.
struct Watch {
    began_us: u64,
    telemetry: Arc<Telemetry>,
    runtime: Arc<dyn Runtime>,
}

impl Watch {
    fn took_us(&self) -> u64 {
        self.runtime.clock_us().saturating_sub(self.began_us)
    }
}

impl<S: Store> AnyStore for Counted<S> {
    fn read(&self, partition: PartitionId, keys: Vec<(Key, PartMask)>) -> BoxFuture<Result<Read, Error>> {
        self.counters.reads.add(1);
        let (store, watch) = (self.store.clone(), self.begin());
        let span = tracing::debug_span!("store.read", %partition, keys = keys.len());
        let call = async move {
            let answer = store.read(partition, keys).await;
            let meters = &watch.telemetry.store;
            meters.read.answered(answer.is_ok(), watch.took_us());
            if let Ok(read) = &answer {
                meters.bytes_read.add(read.found.iter().flatten().map(size).sum());
            }
            answer
        };
        Box::pin(call.instrument(span))
    }

    fn scan(&self, partition: Option<PartitionId>, scan: Scan) -> BoxFuture<Result<Vec<Page>, Error>> {
        self.counters.scans.add(1);
        let (store, watch) = (self.store.clone(), self.begin());
        let span = tracing::debug_span!("store.scan", target_index = ?scan.target, limit = scan.limit);
        let call = async move {
            let answer = store.scan(partition, scan).await;
            let meters = &watch.telemetry.store;
            meters.scan.answered(answer.is_ok(), watch.took_us());
            if let Ok(pages) = &answer {
                let found = pages.iter().flat_map(|page| &page.entries).filter_map(|entry| entry.found.as_ref());
                meters.bytes_read.add(found.map(size).sum());
            }
            answer
        };
        Box::pin(call.instrument(span))
    }

    fn commit(&self, partition: PartitionId, batch: Batch) -> BoxFuture<Outcome> {
        self.counters.commits.add(1);
        self.counters.records_written.add(batch.writes.len() as u64);
        self.counters.bytes_written.add(batch.weight() as u64);
        let (store, watch) = (self.store.clone(), self.begin());
        let span = tracing::debug_span!("store.commit", %partition, commit = %batch.id, records = batch.writes.len());
        let call = async move {
            let bytes = batch.weight();
            let outcome = store.commit(partition, batch).await;
            let failed = matches!(outcome, Outcome::NotApplied { .. } | Outcome::Unknown { .. });
            watch.telemetry.store.commit.answered(!failed, watch.took_us());
            watch.telemetry.commits.answered(&outcome);
            match &outcome {
                Outcome::Applied { .. } => watch.telemetry.store.applied(partition, bytes),
                Outcome::NotApplied { source, .. } if source.is::<Full>() => {
                    watch.telemetry.store.refused_as_full(partition, bytes);
                }
                _ => {}
            }
            outcome
        };
        Box::pin(call.instrument(span))
    }

    fn resolve(&self, partition: PartitionId, id: CommitId) -> BoxFuture<Result<Resolution, Error>> {
        self.counters.resolves.add(1);
        let (store, watch) = (self.store.clone(), self.begin());
        let span = tracing::debug_span!("store.resolve", %partition, commit = %id);
        let call = async move {
            let answer = store.resolve(partition, id).await;
            let meters = &watch.telemetry.store;
            meters.resolve.answered(answer.is_ok(), watch.took_us());
            match answer {
                Ok(Resolution::Applied { .. }) => meters.resolved_applied.add(1),
                Ok(Resolution::NotApplied) => meters.resolved_not_applied.add(1),
                Err(_) => {}
            }
            answer
        };
        Box::pin(call.instrument(span))
    }

    fn watch(&self) -> Wakes {
        self.store.watch()
    }

    fn now(&self) -> BoxFuture<Result<Time, Error>> {
        self.counters.clock_reads.add(1);
        let (store, watch) = (self.store.clone(), self.begin());
        Box::pin(async move {
            let answer = store.now().await;
            watch.telemetry.store.now.answered(answer.is_ok(), watch.took_us());
            answer
        })
    }

    fn describe(&self) -> Description {
        self.store.describe()
    }
}

/// The bytes of a record's parts.
fn size(found: &weft_store::Found) -> u64 {
    found.parts.iter().map(|(_, bytes)| bytes.len() as u64).sum()
}
