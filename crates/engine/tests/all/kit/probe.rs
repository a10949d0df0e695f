//! A store that tells what it was asked, and fails or answers wrongly where a test wants it to.

use std::sync::{Arc, Mutex};
use weft_core::change::Batch;
use weft_core::record::Key;
use weft_core::schema::{IndexId, PartMask, Value};
use weft_core::{CommitId, PartitionId, Time};
use weft_store::{Description, Error, MemoryStore, Outcome, Page, Read, Resolution, Scan, Store, Target, Wakes};

/// A call to the store.
#[derive(Clone, Debug)]
pub enum Asked {
    Read(PartitionId, Vec<Key>),
    Scan(Option<PartitionId>, Scan),
    Commit(PartitionId),
    Now,
}

impl Asked {
    pub fn is_of(&self, index: IndexId) -> bool {
        matches!(self, Asked::Scan(_, scan) if scan.target == Target::Index(index))
    }

    /// A walk over the due entries of one partition, and of which timer.
    pub fn due(&self) -> Option<i64> {
        match self {
            Asked::Scan(Some(_), Scan { target: Target::Due, ranges, .. }) => match ranges[0].prefix[0] {
                Value::Int(timer) => Some(timer),
                _ => None,
            },
            _ => None,
        }
    }
}

type Refuse = Box<dyn Fn(&Asked) -> bool + Send>;
type Edit = Box<dyn Fn(&Scan, &mut Vec<Page>) + Send>;

pub struct Probe {
    inner: MemoryStore,
    asked: Mutex<Vec<Asked>>,
    refuse: Mutex<Option<Refuse>>,
    edit: Mutex<Option<Edit>>,
}

impl Probe {
    pub fn new(inner: MemoryStore) -> Arc<Self> {
        let (asked, refuse, edit) = (Mutex::default(), Mutex::default(), Mutex::default());
        Arc::new(Self { inner, asked, refuse, edit })
    }

    /// Calls that this says yes to fail from now on.
    pub fn refuse(&self, refuse: impl Fn(&Asked) -> bool + Send + 'static) {
        *self.refuse.lock().unwrap() = Some(Box::new(refuse));
    }

    /// Pages are answered as this leaves them.
    pub fn edit(&self, edit: impl Fn(&Scan, &mut Vec<Page>) + Send + 'static) {
        *self.edit.lock().unwrap() = Some(Box::new(edit));
    }

    /// Everything is answered as it is.
    pub fn obey(&self) {
        *self.refuse.lock().unwrap() = None;
        *self.edit.lock().unwrap() = None;
    }

    /// What was asked since the last time.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    fn note(&self, asked: Asked) -> Result<(), Error> {
        let refused = self.refuse.lock().unwrap().as_ref().is_some_and(|refuse| refuse(&asked));
        self.asked.lock().unwrap().push(asked);
        if refused { Err(Error::unavailable("refused by the test")) } else { Ok(()) }
    }
}

impl Store for Probe {
    async fn read(&self, partition: PartitionId, keys: Vec<(Key, PartMask)>) -> Result<Read, Error> {
        self.note(Asked::Read(partition, keys.iter().map(|(key, _)| *key).collect()))?;
        self.inner.read(partition, keys).await
    }

    async fn scan(&self, partition: Option<PartitionId>, scan: Scan) -> Result<Vec<Page>, Error> {
        self.note(Asked::Scan(partition, scan.clone()))?;
        let mut pages = self.inner.scan(partition, scan.clone()).await?;
        if let Some(edit) = &*self.edit.lock().unwrap() {
            edit(&scan, &mut pages);
        }
        Ok(pages)
    }

    async fn commit(&self, partition: PartitionId, batch: Batch) -> Outcome {
        match self.note(Asked::Commit(partition)) {
            Ok(()) => self.inner.commit(partition, batch).await,
            Err(error) => Outcome::NotApplied { retry_after_ms: 1, source: Arc::new(error) },
        }
    }

    async fn resolve(&self, partition: PartitionId, id: CommitId) -> Result<Resolution, Error> {
        self.inner.resolve(partition, id).await
    }

    fn watch(&self) -> Wakes {
        self.inner.watch()
    }

    async fn now(&self) -> Result<Time, Error> {
        self.note(Asked::Now)?;
        self.inner.now().await
    }

    fn describe(&self) -> Description {
        self.inner.describe()
    }
}
