//! The handle to an open store: the six verbs.

use crate::check;
use crate::durability::Needs;
use crate::error::OpenError;
use crate::keys::{Keys, PartitionKeys};
use crate::link::Fault;
use crate::meta;
use crate::options::{Migrate, Mode, Options};
use crate::primary::{Primary, Request};
use crate::route::Router;
use crate::verdict::{self, Verdict};
use crate::wake::Wakeups;
use crate::{batch, members, reader, scan};
use futures_util::future::try_join_all;
use redis::{Cmd, RedisWrite, Value};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;
use tokio::task::JoinHandle;
use uuid::Uuid;
use weft_core::change::{Batch, DueEntry};
use weft_core::record::Key;
use weft_core::schema::PartMask;
use weft_core::{CommitId, PartitionId, Time};
use weft_store::{Description, Durability, Error, Outcome, Page, Read, Resolution, Scan, Store, Vitals, Wakes};

/// How long a barred id is kept.
const BARRED_MS: u64 = 3_600_000;
/// How often the settings that durability rests on are looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// How long to wait for one of several primaries to return the time.
const TIME_WAIT: Duration = Duration::from_millis(500);
/// Several nodes share a server, so a batch stays small: nobody is served while it is applied.
const BATCH_RECORDS: usize = 512;
const BATCH_BYTES: usize = 1 << 20;

/// An open store. Dropping it ends its connections.
pub struct ValkeyStore {
    mode: Mode,
    id: Uuid,
    needs: Needs,
    names: Vec<PartitionKeys>,
    router: Arc<Router>,
    wakeups: Arc<Wakeups>,
    durability: Arc<RwLock<Durability>>,
    /// The partition whose primary returned the time last.
    timekeeper: AtomicUsize,
    /// Why this node writes nothing to a partition any more.
    parked: Vec<OnceLock<String>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl ValkeyStore {
    /// Opens the store after a look at every primary. Refuses servers that would lose or delete what they acknowledged,
    /// another number of partitions, and a store that a newer program made; an older one is brought up to date if the
    /// options say so.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let survey = check::survey(&options).await?;
        if let Some(problem) = survey.problems.into_iter().next() {
            return Err(problem);
        }
        let meta = match (meta::read(&options, &survey.layout).await?, options.migrate) {
            (Some(meta), _) if meta.format == meta::FORMAT => meta,
            (Some(meta), Migrate::Auto) => meta::upgrade(&options, &survey.layout, meta).await?,
            (Some(meta), Migrate::Check) => {
                return Err(OpenError::Older { url: options.url(), found: meta.format, known: meta::FORMAT });
            }
            (None, Migrate::Auto) => meta::create(&options, &survey.layout).await?,
            (None, Migrate::Check) => return Err(OpenError::Absent { url: options.url() }),
        };
        meta::verify(&options, meta)?;
        let keys = Keys::new(&options.prefix);
        let router = Router::new(options.clone(), survey.needs.clone(), meta.partitions, &survey.layout);
        for primary in router.primaries() {
            let address = primary.dial().address.clone();
            if let Some(foreign) = check::foreign_library(&options, &address).await {
                return Err(foreign);
            }
            let failed = |fault: Fault| OpenError::Server { address, why: fault.to_string() };
            primary.load_library().await.map_err(failed)?;
        }
        let durability = survey.needs.describe();
        if durability.level < options.durability {
            tracing::warn!(can_lose = ?durability.can_lose, "the store can lose acknowledged commits, and that was accepted");
        }
        let store = Self {
            mode: options.mode,
            id: meta.id,
            needs: survey.needs,
            names: (0..meta.partitions).map(|partition| keys.of(PartitionId(partition))).collect(),
            router,
            wakeups: Arc::new(Wakeups::new(token())),
            durability: Arc::new(RwLock::new(durability)),
            timekeeper: AtomicUsize::new(0),
            parked: (0..meta.partitions).map(|_| OnceLock::new()).collect(),
            tasks: Mutex::default(),
        };
        store.start(options, keys.channel());
        Ok(store)
    }

    /// Opens `valkey://host:port…` or `valkey-cluster://host:port,…`.
    pub async fn open_url(url: &str) -> Result<Self, OpenError> {
        Self::open(Options::from_url(url)?).await
    }

    /// Names this store for as long as it lives; drawn when it was made.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Adds an entry to the due index outside a commit, as damage would: its key may name nothing, and with timer 0 its
    /// key is all there is. For tests.
    pub async fn insert_due(&self, partition: PartitionId, entry: &DueEntry) -> Result<(), Error> {
        let mut command = Cmd::new();
        command.arg("ZADD").write_arg(&self.names(partition)?.due());
        command.arg(0).write_arg(&members::due_entry(entry));
        // Sent again it changes nothing, which is all that is asked of a read.
        self.router.call(partition, Request::Read(&command)).await.map_err(verdict::read_error).map(drop)
    }

    /// The clock of the primary of a partition.
    async fn time_at(&self, partition: PartitionId) -> Result<Time, Error> {
        let time = redis::cmd("TIME");
        let reply = self.router.call(partition, Request::Read(&time)).await.map_err(verdict::read_error)?;
        let Value::Array(fields) = reply else { return Err(reader::unexpected()) };
        let number = |at: usize| fields.get(at).and_then(|field| crate::info::text(field).parse::<u64>().ok());
        let (seconds, micros) = number(0).zip(number(1)).ok_or_else(reader::unexpected)?;
        Ok(Time::from_ms(seconds * 1000 + micros / 1000))
    }

    fn start(&self, options: Options, channel: String) {
        let publish = self.wakeups.clone().publish(self.router.clone(), channel.clone());
        let listen = self.wakeups.clone().listen(self.router.clone(), options.clone(), channel);
        let watch = look_again(options, self.durability.clone());
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.extend([tokio::spawn(publish), tokio::spawn(listen), tokio::spawn(watch)]);
    }

    fn names(&self, partition: PartitionId) -> Result<&PartitionKeys, Error> {
        let names = self.names.get(usize::from(partition.0));
        names.ok_or_else(|| Error::refused(format!("there is no partition {partition}")))
    }

    async fn try_commit(&self, partition: PartitionId, batch: &Batch) -> Result<Outcome, Error> {
        let names = self.names(partition)?;
        if let Some(why) = self.parked[usize::from(partition.0)].get() {
            return Err(Error::refused(why.as_str()));
        }
        let call = batch::call(names, partition, batch, self.needs.waits());
        match self.router.call(partition, Request::Commit(&call)).await {
            Ok(reply) => Ok(call.outcome(&reply).unwrap_or_else(|| {
                let source = Arc::new(reader::unexpected());
                Outcome::Unknown { source }
            })),
            Err(fault) => {
                self.park_if_broken(partition, &fault);
                Ok(verdict::outcome(fault))
            }
        }
    }

    /// A function that failed half-way may have left a part of a commit. Nothing more is written on top of it until
    /// somebody has looked.
    fn park_if_broken(&self, partition: PartitionId, fault: &Fault) {
        let broken = match fault {
            Fault::Broken { .. } => true,
            Fault::Reply { error, address } => verdict::of(error, address) == Verdict::Broken,
            _ => false,
        };
        if !broken {
            return;
        }
        let why = format!("partition {partition} is parked on this node until it starts again: {fault}");
        tracing::error!(%partition, %fault, "a commit failed half-way; this node writes nothing more to the partition");
        // A second failure changes nothing about the first.
        drop(self.parked[usize::from(partition.0)].set(why));
    }
}

impl Drop for ValkeyStore {
    fn drop(&mut self) {
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
    }
}

impl Store for ValkeyStore {
    async fn read(&self, partition: PartitionId, keys: Vec<(Key, PartMask)>) -> Result<Read, Error> {
        let command = reader::command(self.names(partition)?, partition, &keys);
        let reply = self.router.call(partition, Request::Read(&command)).await.map_err(verdict::read_error)?;
        reader::answer(partition, &keys, reply)
    }

    async fn scan(&self, partition: Option<PartitionId>, scan: Scan) -> Result<Vec<Page>, Error> {
        if scan.ranges.iter().any(|range| range.prefix.len() > scan.target.columns()) {
            return Err(Error::refused("the prefix has more columns than the target"));
        }
        if let Some(partition) = partition {
            return scan::scan(&self.router, self.names(partition)?, partition, &scan).await;
        }
        // All at once: each primary gets its questions together, on one connection.
        let asked = self
            .names
            .iter()
            .enumerate()
            .map(|(partition, names)| scan::scan(&self.router, names, PartitionId(partition as u16), &scan));
        Ok(scan::merged(try_join_all(asked).await?, &scan))
    }

    async fn commit(&self, partition: PartitionId, batch: Batch) -> Outcome {
        let outcome = match self.try_commit(partition, &batch).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::NotApplied { retry_after_ms: 0, source: Arc::new(error) },
        };
        if let Outcome::Applied { .. } = outcome {
            self.wakeups.ring(partition, &batch);
        }
        outcome
    }

    async fn resolve(&self, partition: PartitionId, id: CommitId) -> Result<Resolution, Error> {
        let names = self.names(partition)?;
        let now = self.time_at(partition).await?.ms();
        let mut command = Cmd::new();
        command.arg("FCALL").arg("weft2_resolve").arg(3);
        for key in [names.head(), names.commits(), names.barred()] {
            command.write_arg(&key);
        }
        command.write_arg(id.0.as_bytes());
        command.arg(now).arg(now.saturating_sub(BARRED_MS)).arg(if self.needs.waits() { "w" } else { "" });
        let reply = self.router.call(partition, Request::Resolve(id, &command)).await.map_err(verdict::error)?;
        let Value::Array(fields) = reply else { return Err(reader::unexpected()) };
        match &fields[..] {
            [Value::Int(0)] => Ok(Resolution::NotApplied),
            [Value::Int(1), left] => {
                let head = batch::head(Some(left)).ok_or_else(reader::unexpected)?;
                Ok(Resolution::Applied { position: head.position })
            }
            _ => Err(reader::unexpected()),
        }
    }

    fn watch(&self) -> Wakes {
        self.wakeups.watch()
    }

    /// The clock of the primary that answered last, or of the next one that does: a Cluster without one of its primaries
    /// still has a time.
    async fn now(&self) -> Result<Time, Error> {
        let primaries = self.router.primaries().len();
        let first = self.timekeeper.load(Ordering::Relaxed);
        let partitions = (0..self.names.len()).map(|at| PartitionId(((first + at) % self.names.len()) as u16));
        let mut silent: Vec<Arc<Primary>> = Vec::new();
        for partition in partitions {
            let primary = self.router.owner(partition);
            if silent.iter().any(|one| Arc::ptr_eq(one, &primary)) {
                continue;
            }
            if silent.len() + 1 >= primaries {
                return self.time_at(partition).await;
            }
            if let Ok(Ok(time)) = tokio::time::timeout(TIME_WAIT, self.time_at(partition)).await {
                self.timekeeper.store(usize::from(partition.0), Ordering::Relaxed);
                return Ok(time);
            }
            silent.push(primary);
        }
        Err(Error::unavailable("no primary says its time"))
    }

    fn describe(&self) -> Description {
        Description {
            name: match self.mode {
                Mode::Standalone => "valkey",
                Mode::Cluster => "valkey-cluster",
            },
            partitions: self.names.len() as u16,
            exclusive: false,
            batch_records: BATCH_RECORDS,
            batch_bytes: BATCH_BYTES,
            durability: self.durability.read().unwrap_or_else(PoisonError::into_inner).clone(),
            vitals: Vitals { connections: Some(self.router.connections()), log_bytes: None },
        }
    }
}

fn token() -> [u8; 16] {
    let mut token = [0; 16];
    getrandom::fill(&mut token).expect("random: the system has some");
    token
}

/// Settings change while servers run: what was verified at the start is verified again and again.
async fn look_again(options: Options, durability: Arc<RwLock<Durability>>) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        // A server that does not answer says nothing about its settings.
        let Ok(survey) = check::survey(&options).await else { continue };
        let mut found = survey.needs.describe();
        if let Some(problem) = survey.problems.iter().find(|problem| matches!(problem, OpenError::Weak { .. })) {
            tracing::error!(%problem, "the store no longer keeps what it acknowledges");
            let weaker = Options { accept_data_loss: true, ..options.clone() };
            found = Needs::new(&weaker, weft_store::Level::Memory, true, Default::default()).describe();
        }
        *durability.write().unwrap_or_else(PoisonError::into_inner) = found;
    }
}
