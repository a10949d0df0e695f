//! A store whose node is cut off after so many commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use weft_core::change::Batch;
use weft_core::record::Key;
use weft_core::schema::PartMask;
use weft_core::{CommitId, PartitionId, Time};
use weft_store::{Description, Error, Outcome, Page, Read, Resolution, Scan, Store, Wakes};

pub struct Cut<S> {
    inner: Arc<S>,
    /// Commits about executions that still go through.
    left: AtomicI64,
    /// Those that did.
    through: AtomicUsize,
}

impl<S: Store> Cut<S> {
    pub fn new(inner: &Arc<S>) -> Arc<Self> {
        Arc::new(Self { inner: inner.clone(), left: AtomicI64::new(i64::MAX), through: AtomicUsize::new(0) })
    }

    /// Only so many more commits about executions arrive.
    pub fn after(&self, commits: i64) {
        self.left.store(commits, Ordering::SeqCst);
    }

    pub fn through(&self) -> usize {
        self.through.load(Ordering::SeqCst)
    }
}

impl<S: Store> Store for Cut<S> {
    async fn read(&self, partition: PartitionId, keys: Vec<(Key, PartMask)>) -> Result<Read, Error> {
        self.inner.read(partition, keys).await
    }

    async fn scan(&self, partition: Option<PartitionId>, scan: Scan) -> Result<Vec<Page>, Error> {
        self.inner.scan(partition, scan).await
    }

    async fn commit(&self, partition: PartitionId, batch: Batch) -> Outcome {
        if batch.writes.iter().any(|write| matches!(write.key, Key::Execution(_))) {
            if self.left.fetch_sub(1, Ordering::SeqCst) <= 0 {
                let source = Arc::new(Error::unavailable("the node is cut off"));
                return Outcome::NotApplied { retry_after_ms: 1, source };
            }
            self.through.fetch_add(1, Ordering::SeqCst);
        }
        self.inner.commit(partition, batch).await
    }

    async fn resolve(&self, partition: PartitionId, id: CommitId) -> Result<Resolution, Error> {
        self.inner.resolve(partition, id).await
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
