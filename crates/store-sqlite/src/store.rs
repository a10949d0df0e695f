//! The handle to an open store file. Passes each verb to the thread that carries it out and waits for the answer.

use crate::check::Check;
use crate::folder::Lock;
use crate::options::{OpenError, Options};
use crate::reader::{self, Question};
use crate::stats::{Counters, Stats};
use crate::writer::{self, Job};
use crate::{connection, folder, migrations};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;
use weft_core::change::{Batch, DueEntry};
use weft_core::record::Key;
use weft_core::schema::PartMask;
use weft_core::{CommitId, PartitionId, Time};
use weft_store::{
    Description, Durability, Error, Level, Outcome, Page, Read, Resolution, Scan, Store, Vitals, Wake, Wakes,
};

/// Reads, or commits, that may wait for their thread. Beyond that they are turned away.
const WAITING_MAX: usize = 1024;

/// An open store file. Dropping it closes it.
pub struct SqliteStore {
    path: PathBuf,
    partitions: u16,
    id: Uuid,
    counters: Arc<Counters>,
    reads: Queue<Question>,
    writes: Queue<Job>,
    readers: Mutex<Vec<JoinHandle<()>>>,
    writer: Mutex<Option<(JoinHandle<()>, Lock)>>,
    check: Mutex<Option<Check>>,
    /// Kept so that the receivers given out by `watch` do not end.
    wakes: Mutex<Vec<mpsc::UnboundedSender<Wake>>>,
}

impl SqliteStore {
    /// The size of the log beside the file; `None` if there is none.
    fn log_bytes(&self) -> Option<u64> {
        std::fs::metadata(folder::beside(&self.path, "-wal")).ok().map(|found| found.len())
    }

    /// Opens the file, making or upgrading it if need be. Refuses a file that another process has open, that is not a
    /// store of Weft, that a newer program wrote or that is damaged. Blocks for as long as that takes.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        connection::refuse_old_library()?;
        let (path, lock) = folder::prepare(&options.path)?;
        let failed = |source| OpenError::sqlite(&path, source);
        let left_open = connection::was_left_open(&path);
        let connection = connection::writer(&path).map_err(failed)?;
        let format = migrations::identify(&connection, &path)?;
        folder::keep_private(&path)?;
        connection::make_durable(&connection, options.cache_bytes).map_err(failed)?;
        let bytes = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        let check_later = left_open && bytes >= connection::QUICK_CHECK_BYTES_MAX;
        if left_open && !check_later {
            connection::quick_check(&connection, &path)?;
        }
        let partitions = migrations::prepare(&connection, &path, format, options.partitions)?;
        if let Some(bytes) = options.bytes_max {
            connection::limit(&connection, bytes).map_err(failed)?;
        }
        let id = migrations::meta(&connection, "store_id").map_err(failed)?.unwrap_or_default();

        let counters = Arc::new(Counters::default());
        let cache = options.cache_bytes / 4;
        let (reads, readers) = reader::spawn(&path, options.readers, cache, partitions, &counters)?;
        let (writes, writer) = writer::spawn(connection, &path, partitions, counters.clone(), options.on_io_error)?;
        let damaged = writes.clone();
        let check = check_later.then(|| Check::spawn(&path, move |what| drop(damaged.send(Job::Damaged(what)))));
        Ok(Self {
            check: Mutex::new(check.transpose()?),
            partitions,
            id: Uuid::from_bytes(id),
            counters,
            reads: Queue::new(reads),
            writes: Queue::new(writes),
            readers: Mutex::new(readers),
            writer: Mutex::new(Some((writer, lock))),
            wakes: Mutex::default(),
            path,
        })
    }

    /// Opens `sqlite://PATH` or `sqlite://PATH?partitions=N`.
    pub fn open_url(url: &str) -> Result<Self, OpenError> {
        Self::open(Options::from_url(url)?)
    }

    /// Without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names this store for as long as it lives; drawn when it was made. A copy has the same one.
    pub fn id(&self) -> Uuid {
        self.id
    }

    pub fn stats(&self) -> Stats {
        self.counters.snapshot()
    }

    /// Finishes what is queued, copies the log into the file, ends the threads and lets go of the lock. Calls
    /// after that are refused; closing again does nothing. Blocks.
    pub fn close(&self) {
        if let Some(check) = lock(&self.check).take() {
            check.stop();
        }
        let readers = std::mem::take(&mut *lock(&self.readers));
        for _ in &readers {
            self.reads.push_unbounded(Question::Stop);
        }
        for reader in readers {
            // A reader that panicked has nothing left to lose.
            drop(reader.join());
        }
        let mut writer = lock(&self.writer);
        if let Some((thread, held)) = writer.take() {
            self.writes.push_unbounded(Job::Stop);
            if thread.join().is_err() {
                tracing::error!(path = %self.path.display(), "the writer of the store panicked");
            }
            drop(held);
        }
    }

    /// Lets the file grow to so many bytes from now on.
    pub async fn set_bytes_max(&self, bytes: u64) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        self.writes.push(Job::Limit { bytes, answer })?;
        answered.await.map_err(|_| Error::unavailable(GONE))?.map_err(Error::unavailable)
    }

    /// Adds an entry to the due index outside a commit, as damage would: its key may name nothing. For tests.
    pub async fn insert_due(&self, partition: PartitionId, entry: DueEntry) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        self.writes.push(Job::InsertDue { partition, entry, answer })?;
        answered.await.map_err(|_| Error::unavailable(GONE))?.map_err(Error::unavailable)
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.close();
    }
}

impl Store for SqliteStore {
    async fn read(&self, partition: PartitionId, keys: Vec<(Key, PartMask)>) -> Result<Read, Error> {
        let (answer, answered) = oneshot::channel();
        let _waiting = self.reads.push(Question::Read { partition, keys, answer })?;
        answered.await.unwrap_or_else(|_| Err(Error::unavailable(GONE)))
    }

    async fn scan(&self, partition: Option<PartitionId>, scan: Scan) -> Result<Vec<Page>, Error> {
        let (answer, answered) = oneshot::channel();
        let _waiting = self.reads.push(Question::Scan { partition, scan, answer })?;
        answered.await.unwrap_or_else(|_| Err(Error::unavailable(GONE)))
    }

    async fn commit(&self, partition: PartitionId, batch: Batch) -> Outcome {
        let (answer, answered) = oneshot::channel();
        let batch = Arc::new(batch);
        let commit = writer::Commit { partition, batch: batch.clone(), answer };
        let _waiting = match self.writes.push(Job::Commit(commit)) {
            Ok(waiting) => waiting,
            Err(error) => return Outcome::NotApplied { retry_after_ms: 50, source: Arc::new(error) },
        };
        // The writer answers everything it takes. If it is gone in the middle, nobody knows how far it came.
        answered.await.unwrap_or_else(|_| Outcome::Unknown { source: writer::source(GONE) })
    }

    async fn resolve(&self, partition: PartitionId, id: CommitId) -> Result<Resolution, Error> {
        let (answer, answered) = oneshot::channel();
        let _waiting = self.writes.push(Job::Resolve { partition, id, now: clock(), answer })?;
        answered.await.unwrap_or_else(|_| Err(Error::Indeterminate(writer::source(GONE))))
    }

    fn watch(&self) -> Wakes {
        let (wakes, receiver) = mpsc::unbounded_channel();
        let mut senders = lock(&self.wakes);
        senders.retain(|sender| !sender.is_closed());
        senders.push(wakes);
        receiver
    }

    async fn now(&self) -> Result<Time, Error> {
        Ok(clock())
    }

    fn describe(&self) -> Description {
        Description {
            name: "sqlite",
            partitions: self.partitions,
            exclusive: true,
            batch_records: 2000,
            batch_bytes: 4 << 20,
            durability: Durability {
                level: Level::Local,
                acknowledged: "its frames of the write-ahead log are fsynced: it survives kill -9, a kernel crash and \
                               a power cut on a disk that does not lie"
                    .to_owned(),
                can_lose: vec!["everything, if the disk itself is lost".to_owned()],
                verified: true,
            },
            vitals: Vitals { connections: None, log_bytes: self.log_bytes() },
        }
    }
}

const GONE: &str = "the store has been closed";

/// The store's clock is this machine's.
fn clock() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_ms(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A bounded way to a thread.
struct Queue<T> {
    sender: Sender<T>,
    waiting: Arc<AtomicUsize>,
}

/// Counts as waiting until it is dropped.
struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<T> Queue<T> {
    fn new(sender: Sender<T>) -> Self {
        Self { sender, waiting: Arc::default() }
    }

    fn push(&self, item: T) -> Result<Waiting, Error> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(self.waiting.clone());
        if before >= WAITING_MAX {
            return Err(Error::unavailable("too many calls wait for the store"));
        }
        self.sender.send(item).map_err(|_| Error::unavailable(GONE))?;
        Ok(waiting)
    }

    fn push_unbounded(&self, item: T) {
        // The thread may have ended by itself; then there is nobody to tell.
        drop(self.sender.send(item));
    }
}
