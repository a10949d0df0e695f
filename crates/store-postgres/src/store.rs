//! The handle to an open store. Gives each verb the connection it needs and turns what came back into its answer.

use crate::commit::{self, Attempt, Care};
use crate::connect::{self, within};
use crate::diagnosis::{self, Reason};
use crate::doorbell::Doorbell;
use crate::durability::Settings;
use crate::link::{Link, Step};
use crate::migrations;
use crate::open_error::OpenError;
use crate::options::Options;
use crate::pool::{Pool, Use};
use crate::readers::{self, Readers};
use crate::resolve::{self, source};
use crate::scan;
use crate::sql::{IfThere, Stmt};
use crate::stats::{Counters, Stats, add};
use crate::verdict::{self, FULL_RETRY_MS, Verdict};
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio::time::timeout;
use uuid::Uuid;
use weft_core::change::{Batch, DueEntry};
use weft_core::record::Key;
use weft_core::schema::PartMask;
use weft_core::{CommitId, PartitionId, Time};
use weft_store::{
    Description, Durability, Error, Full, Outcome, Page, Read, Resolution, Scan, Store, Vitals, Wake, Wakes,
};

/// When to try again after the server could not be reached.
const RECONNECT_MS: u64 = 100;

/// Connections for commits that an open store begins with: as many as an engine under load uses at once. Made when the
/// load comes, they would take the server's time from it.
const READY: usize = 8;

/// An open store. Dropping it closes its connections.
pub struct PostgresStore {
    options: Options,
    partitions: u16,
    id: Uuid,
    durability: Durability,
    /// One commit at a time in each partition: others would only wait for it on the server, with a connection each.
    seats: Vec<Mutex<()>>,
    writers: Pool,
    readers: Readers,
    doorbell: Doorbell,
    counters: Arc<Counters>,
}

impl PostgresStore {
    /// Connections in use and idle, that of the doorbell apart.
    fn connections(&self) -> (usize, usize) {
        let (writing, spare) = self.writers.connections();
        let (reading, idle) = self.readers.connections();
        (writing + reading, spare + idle)
    }

    /// Looks at the server and at the schema, and refuses both with a sentence if they do not do. Must be called within
    /// a Tokio runtime, in which the store keeps one task.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        Box::pin(Self::open_boxed(options)).await
    }

    async fn open_boxed(options: Options) -> Result<Self, OpenError> {
        let mut link = connect::session(&options).await?;
        let settings = within(options.connect_timeout, "read the settings", Settings::read(&mut link)).await??;
        settings.check(&options)?;
        refuse_pooler(&mut link, &options).await?;
        let found = migrations::prepare(&mut link, &options).await?;
        let counters = Arc::new(Counters::default());
        let node = node_token()?;
        let writers = Pool::new(Use::Commit, options.clone(), counters.clone());
        writers.fill(READY.min(found.partitions.into())).await;
        Ok(Self {
            partitions: found.partitions,
            id: found.id,
            durability: settings.durability(),
            seats: (0..found.partitions).map(|_| Mutex::default()).collect(),
            writers,
            readers: Readers::new(options.clone(), link, counters.clone()),
            doorbell: Doorbell::spawn(options.clone(), node, counters.clone()),
            counters,
            options,
        })
    }

    /// Opens `postgres://USER:PASSWORD@HOST:PORT/DATABASE?schema=weft`.
    pub async fn open_url(url: &str) -> Result<Self, OpenError> {
        Self::open(Options::from_url(url)?).await
    }

    /// Names this store for as long as it lives; drawn when it was made. A copy has the same one.
    pub fn id(&self) -> Uuid {
        self.id
    }

    pub fn stats(&self) -> Stats {
        self.counters.snapshot()
    }

    /// Waits until wakes from other nodes arrive here. Without a server that is for ever.
    pub async fn listening(&self) {
        self.doorbell.listening().await;
    }

    /// Adds an entry to the due index outside a commit, as damage would: its key may name nothing. For tests.
    pub async fn insert_due(&self, partition: PartitionId, entry: &DueEntry) -> Result<(), Error> {
        let _seat = self.seat(partition)?.lock().await;
        let mut taken = self.writers.take().await.map_err(Error::unavailable)?;
        commit::insert_due(&mut taken.link, partition, entry).await?;
        taken.give_back();
        Ok(())
    }

    fn seat(&self, partition: PartitionId) -> Result<&Mutex<()>, Error> {
        let seat = self.seats.get(usize::from(partition.0));
        seat.ok_or_else(|| Error::refused(format!("there is no partition {partition}")))
    }

    async fn commit_on(&self, partition: PartitionId, batch: &Batch) -> Outcome {
        let waited = async {
            let seat = self.seat(partition).map_err(|error| not_applied(0, error.to_string()))?.lock().await;
            let taken = self.writers.take().await.map_err(|error| not_applied(RECONNECT_MS, error.to_string()))?;
            Ok::<_, Outcome>((seat, taken))
        };
        let (_seat, mut taken) = match timeout(self.options.call_timeout, waited).await {
            Ok(Ok(ready)) => ready,
            Ok(Err(outcome)) => return outcome,
            Err(_) => return not_applied(RECONNECT_MS, "all connections are busy".to_owned()),
        };
        let decided = timeout(self.options.call_timeout, self.decide(&mut taken.link, partition, batch)).await;
        let Ok(outcome) = decided else {
            return Outcome::Unknown { source: source("no answer to a commit in time".to_owned()) };
        };
        if !matches!(outcome, Outcome::Unknown { .. }) {
            taken.give_back();
        }
        outcome
    }

    /// Tries, and if that is refused finds out why. If nothing speaks against the batch but the haste of the first
    /// attempt, which is known not to have been applied, it is sent once more with care: its records are checked, because
    /// the partition has moved on, and entries that are there already are kept.
    async fn decide(&self, link: &mut Link, partition: PartitionId, batch: &Batch) -> Outcome {
        let mut refusal = None;
        if !diagnosis::is_hopeless(partition, batch) {
            let hasty = Care { records: !batch.fast, entries: IfThere::Fail };
            match self.attempt(link, partition, batch, hasty).await {
                Ok(outcome) => return outcome,
                Err(why) => refusal = Some(why),
            }
        }
        let hasty = batch.fast || matches!(refusal, Some((Verdict::Duplicate, _)));
        let head = match diagnosis::diagnose(link, partition, batch).await {
            Ok(Reason::None { head }) if hasty => head,
            reason => return explained(reason, refusal),
        };
        let holds = batch.fast && head.is_at(&batch.expect);
        match self.attempt(link, partition, batch, Care { records: !holds, entries: IfThere::Keep }).await {
            Ok(outcome) => outcome,
            Err(why) => explained(diagnosis::diagnose(link, partition, batch).await, Some(why)),
        }
    }

    /// The outcome of an attempt, or that it was refused and why that is to be found out.
    async fn attempt(
        &self,
        link: &mut Link,
        partition: PartitionId,
        batch: &Batch,
        care: Care,
    ) -> Result<Outcome, (Verdict, String)> {
        let (verdict, why) = match commit::attempt(link, partition, batch, care).await {
            Attempt::Applied(head) => {
                if care.records {
                    add(&self.counters.checked);
                }
                self.wake_others(partition, batch);
                return Ok(Outcome::Applied { head });
            }
            Attempt::Failed { verdict, why } => (verdict, why),
        };
        match verdict {
            Verdict::Guard | Verdict::Duplicate => Err((verdict, why)),
            Verdict::Wait { retry_after_ms } => Ok(not_applied(retry_after_ms, why)),
            Verdict::Full => Ok(Outcome::NotApplied { retry_after_ms: FULL_RETRY_MS, source: Arc::new(Full(why)) }),
            Verdict::NotApplied => Ok(not_applied(0, why)),
            Verdict::Unknown => Ok(Outcome::Unknown { source: source(why) }),
        }
    }

    fn wake_others(&self, partition: PartitionId, batch: &Batch) {
        if let Some(wake) = Wake::of(partition, batch) {
            self.doorbell.ring(wake, batch.now);
        }
    }

    fn count(&self, outcome: &Outcome) {
        add(match outcome {
            Outcome::Applied { .. } => &self.counters.applied,
            Outcome::Conflict { .. } | Outcome::Lost { .. } => &self.counters.conflicts,
            Outcome::NotApplied { .. } => &self.counters.not_applied,
            Outcome::Unknown { .. } => &self.counters.unknown,
        });
    }
}

/// The answer to a commit that was refused for `reason`; `refusal` is what the server said when it was sent.
fn explained(reason: Result<Reason, String>, refusal: Option<(Verdict, String)>) -> Outcome {
    match (reason, refusal) {
        (Ok(Reason::Barred), _) => not_applied(0, "the commit id is barred".to_owned()),
        (Ok(Reason::Repeated(head)), _) => Outcome::Applied { head },
        (Ok(Reason::Conflict { keys, head }), _) => Outcome::Conflict { keys, head },
        (Ok(Reason::Lost { head }), _) => Outcome::Lost { head },
        (Ok(Reason::Refused(why)), _) => not_applied(0, why.to_owned()),
        (Ok(Reason::None { .. }), Some((Verdict::Duplicate, why))) => not_applied(0, why),
        // What spoke against it has gone meanwhile: the head tells the node where to go on from.
        (Ok(Reason::None { head }), _) => Outcome::Conflict { keys: Vec::new(), head },
        (Err(why), _) => not_applied(RECONNECT_MS, why),
    }
}

fn not_applied(retry_after_ms: u64, why: String) -> Outcome {
    Outcome::NotApplied { retry_after_ms, source: source(why) }
}

impl Store for PostgresStore {
    async fn read(&self, partition: PartitionId, keys: Vec<(Key, PartMask)>) -> Result<Read, Error> {
        // The futures of connections are large; boxed, those of callers stay small.
        Box::pin(self.readers.with(async |link| readers::read(link, partition, &keys).await)).await
    }

    async fn scan(&self, partition: Option<PartitionId>, scan: Scan) -> Result<Vec<Page>, Error> {
        scan.ranges.iter().try_for_each(|range| scan::check(scan.target, range))?;
        if let Some(partition) = partition {
            self.seat(partition)?;
        }
        Box::pin(self.readers.with(async |link| scan::pages(link, partition, &scan).await)).await
    }

    async fn commit(&self, partition: PartitionId, batch: Batch) -> Outcome {
        let outcome = Box::pin(self.commit_on(partition, &batch)).await;
        self.count(&outcome);
        outcome
    }

    async fn resolve(&self, partition: PartitionId, id: CommitId) -> Result<Resolution, Error> {
        let work = async {
            let _seat = self.seat(partition)?.lock().await;
            let mut taken = self.writers.take().await.map_err(Error::unavailable)?;
            let resolution = resolve::resolve(&mut taken.link, partition, id).await;
            if resolution.is_ok() {
                taken.give_back();
            }
            resolution
        };
        let late = || Error::Indeterminate(source("no answer to a resolve in time".to_owned()));
        Box::pin(timeout(self.options.call_timeout, work)).await.unwrap_or_else(|_| Err(late()))
    }

    fn watch(&self) -> Wakes {
        self.doorbell.watch()
    }

    async fn now(&self) -> Result<Time, Error> {
        let ask = async |link: &mut Link| {
            let steps = [Step::bare(Stmt::Now)];
            link.prepare(&steps).await.map_err(verdict::of_read)?;
            let answers = link.run(&steps).await.map_err(|unsent| verdict::of_read(unsent.0))?;
            let rows = answers.into_iter().next().unwrap_or_else(|| Ok(Vec::new())).map_err(verdict::of_read)?;
            let row = rows.first().ok_or_else(|| Error::unavailable("the server did not tell the time"))?;
            row.try_get::<_, i64>(0).map(|ms| Time::from_ms(ms as u64)).map_err(verdict::of_read)
        };
        Box::pin(self.readers.with(ask)).await
    }

    fn describe(&self) -> Description {
        Description {
            name: "postgres",
            partitions: self.partitions,
            exclusive: false,
            batch_records: 2000,
            batch_bytes: 4 << 20,
            durability: self.durability.clone(),
            vitals: Vitals { connections: Some(self.connections()), log_bytes: None },
        }
    }
}

/// Sixteen letters that no other node has.
fn node_token() -> Result<String, OpenError> {
    let number = getrandom::u64().map_err(|error| OpenError::Connect(format!("no randomness: {error}")))?;
    Ok(format!("{number:016x}"))
}

/// A pooler that lends server connections for a transaction gives this session another one when the first is in use.
async fn refuse_pooler(link: &mut Link, options: &Options) -> Result<(), OpenError> {
    let mut other = connect::session(options).await?;
    let first = backend(link).await?;
    other.batch("begin").await.map_err(OpenError::postgres("begin a transaction"))?;
    let second = backend(&mut other).await?;
    let again = backend(link).await?;
    match (first == again, first == second) {
        (true, false) => Ok(()),
        (false, _) => Err(OpenError::Pooler { why: "one session was served by two processes" }),
        (_, true) => Err(OpenError::Pooler { why: "two sessions were served by one process" }),
    }
}

async fn backend(link: &mut Link) -> Result<i32, OpenError> {
    let failed = OpenError::postgres("ask for the server process");
    let rows = link.ask("select pg_backend_pid()", &[]).await.map_err(&failed)?;
    rows.first().map_or(Ok(0), |row| row.try_get(0)).map_err(&failed)
}
