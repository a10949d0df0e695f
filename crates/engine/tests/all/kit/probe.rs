//! A store that tells what it was asked, and fails or answers wrongly where a test wants it to. Its time is the test's.

use super::hand::Hand;
use super::plant::{self, Records};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use weft_core::change::Batch;
use weft_core::record::Key;
use weft_core::schema::{IndexId, PartMask, Value};
use weft_core::{CommitId, PartitionId, Time};
use weft_store::{Description, Error, Outcome, Page, Read, Resolution, Scan, Store, Target, Wakes};

/// A call to the store.
#[derive(Clone, Debug)]
pub enum Asked {
    Read(PartitionId, Vec<Key>),
    Scan(Option<PartitionId>, Scan),
    /// With what it writes.
    Commit(PartitionId, Vec<Key>),
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

    /// A commit that changes executions.
    pub fn is_work(&self) -> bool {
        matches!(self, Asked::Commit(_, keys) if keys.iter().any(|key| matches!(key, Key::Execution(_))))
    }
}

type Refuse = Box<dyn Fn(&Asked) -> bool + Send>;
type Edit = Box<dyn Fn(&Scan, &mut Vec<Page>) + Send>;
type Observe = Arc<dyn Fn(Records) + Send + Sync>;

pub struct Probe<S> {
    inner: Arc<S>,
    hand: Hand,
    asked: Mutex<Vec<Asked>>,
    refuse: Mutex<Option<Refuse>>,
    /// Calls that get no answer.
    stall: Mutex<Option<Refuse>>,
    /// Calls that panic.
    panic: Mutex<Option<Refuse>>,
    /// The stalled calls go on.
    released: Notify,
    edit: Mutex<Option<Edit>>,
    observe: Mutex<Option<Observe>>,
    /// How long a commit takes before it reaches the store, on tokio's clock.
    slow_ms: AtomicU64,
}

impl<S: Store> Probe<S> {
    pub fn new(inner: Arc<S>, hand: Hand) -> Arc<Self> {
        let (asked, refuse, edit) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (observe, slow_ms, released) = (Mutex::default(), AtomicU64::new(0), Notify::new());
        let (stall, panic) = (Mutex::default(), Mutex::default());
        Arc::new(Self { inner, hand, asked, refuse, stall, panic, released, edit, observe, slow_ms })
    }

    /// Calls that this says yes to fail from now on.
    pub fn refuse(&self, refuse: impl Fn(&Asked) -> bool + Send + 'static) {
        *self.refuse.lock().unwrap() = Some(Box::new(refuse));
    }

    /// Calls that this says yes to get no answer until everything is answered again.
    pub fn stall(&self, stall: impl Fn(&Asked) -> bool + Send + 'static) {
        *self.stall.lock().unwrap() = Some(Box::new(stall));
    }

    /// Scans that this says yes to panic.
    pub fn panic_on(&self, panic: impl Fn(&Asked) -> bool + Send + 'static) {
        *self.panic.lock().unwrap() = Some(Box::new(panic));
    }

    /// Nothing gets through any more once so many commits that change executions did.
    pub fn cut_after(&self, commits: usize) {
        let through = AtomicUsize::new(0);
        self.refuse(move |asked| match asked.is_work() {
            true => through.fetch_add(1, Ordering::SeqCst) >= commits,
            false => through.load(Ordering::SeqCst) >= commits,
        });
    }

    /// Pages are answered as this leaves them.
    pub fn edit(&self, edit: impl Fn(&Scan, &mut Vec<Page>) + Send + 'static) {
        *self.edit.lock().unwrap() = Some(Box::new(edit));
    }

    /// Everything is answered as it is.
    pub fn obey(&self) {
        *self.refuse.lock().unwrap() = None;
        *self.stall.lock().unwrap() = None;
        self.released.notify_waiters();
        *self.edit.lock().unwrap() = None;
    }

    /// Shows what the partition holds after every commit, before that is answered.
    pub fn observe(&self, observe: impl Fn(Records) + Send + Sync + 'static) {
        *self.observe.lock().unwrap() = Some(Arc::new(observe));
    }

    /// Commits take so long at least, so that others have their turn meanwhile on every store.
    pub fn slow_down(&self, ms: u64) {
        self.slow_ms.store(ms, Ordering::SeqCst);
    }

    /// What was asked since the last time.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    /// Waits until the store was asked nothing that it has not answered, and nobody makes more of the answers: all that
    /// can be done at this moment of the test's clock is done.
    pub async fn settle(&self) {
        self.hand.calls().settle().await;
    }

    fn note(&self, asked: Asked) -> Result<(), Error> {
        let refused = self.refuse.lock().unwrap().as_ref().is_some_and(|refuse| refuse(&asked));
        self.asked.lock().unwrap().push(asked);
        if refused { Err(Error::unavailable("refused by the test")) } else { Ok(()) }
    }
}

impl<S: Store> Store for Probe<S> {
    async fn read(&self, partition: PartitionId, keys: Vec<(Key, PartMask)>) -> Result<Read, Error> {
        let _call = self.hand.calls().begin();
        self.note(Asked::Read(partition, keys.iter().map(|(key, _)| *key).collect()))?;
        self.inner.read(partition, keys).await
    }

    async fn scan(&self, partition: Option<PartitionId>, scan: Scan) -> Result<Vec<Page>, Error> {
        let asked = Asked::Scan(partition, scan.clone());
        let released = self.released.notified();
        let stalls = self.stall.lock().unwrap().as_ref().is_some_and(|stall| stall(&asked));
        if stalls {
            released.await;
        }
        let panics = self.panic.lock().unwrap().as_ref().is_some_and(|panic| panic(&asked));
        assert!(!panics, "wanted by the test");
        let _call = self.hand.calls().begin();
        self.note(Asked::Scan(partition, scan.clone()))?;
        let mut pages = self.inner.scan(partition, scan.clone()).await?;
        if let Some(edit) = &*self.edit.lock().unwrap() {
            edit(&scan, &mut pages);
        }
        Ok(pages)
    }

    async fn commit(&self, partition: PartitionId, batch: Batch) -> Outcome {
        let _call = self.hand.calls().begin();
        let keys = batch.writes.iter().map(|write| write.key).collect();
        if let Err(error) = self.note(Asked::Commit(partition, keys)) {
            return Outcome::NotApplied { retry_after_ms: 1, source: Arc::new(error) };
        }
        let slow_ms = self.slow_ms.load(Ordering::SeqCst);
        if slow_ms > 0 {
            tokio::time::sleep(Duration::from_millis(slow_ms)).await;
        }
        let outcome = self.inner.commit(partition, batch).await;
        let observe = self.observe.lock().unwrap().clone();
        if let Some(observe) = observe {
            observe(plant::records(&*self.inner, partition).await);
        }
        outcome
    }

    async fn resolve(&self, partition: PartitionId, id: CommitId) -> Result<Resolution, Error> {
        let _call = self.hand.calls().begin();
        self.inner.resolve(partition, id).await
    }

    fn watch(&self) -> Wakes {
        self.inner.watch()
    }

    async fn now(&self) -> Result<Time, Error> {
        self.note(Asked::Now)?;
        Ok(self.hand.now())
    }

    fn describe(&self) -> Description {
        self.inner.describe()
    }
}
