//! An engine, its store and a worker on virtual time, and the hands of a test on them.

use super::broken::Broken;
use super::events;
use super::gate::Gate;
use super::virtual_time::Virtual;
use crate::client::{Run, Submission};
use crate::transport::{Embedded, Origin};
use crate::{Client, Error, Worker};
use futures_util::FutureExt;
use serde::Serialize;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::AbortHandle;

use weft_api::execution::{CountQuery, GetQuery, ListQuery, Order, PublicState};
use weft_core::schema::Kind;
use weft_core::{PartitionId, Time, event};
use weft_engine::{Config, Engine};
use weft_store::MemoryStore;

type Make = Arc<dyn Fn(Worker) -> Worker + Send + Sync>;

/// How long `run_until_idle` lets time pass before it says what is still going on.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// Without a change for so long, and with nothing running, work that waits has no worker.
const SILENCE: Duration = Duration::from_secs(20);
/// Time moves by so much at most while something runs.
const STEP: Duration = Duration::from_secs(1);
/// Longer than a lease and a grace: a handler without an execution is gone after this.
const QUIET: Duration = Duration::from_secs(60);

/// Cheap to clone; clones are the same harness.
#[derive(Clone)]
pub struct Harness {
    inner: Arc<Inner>,
}

struct Inner {
    time: Virtual,
    store: MemoryStore,
    engine: Engine,
    client: Client,
    gate: Gate,
    broken: Broken,
    instances: AtomicU32,
    workers: Mutex<Vec<AbortHandle>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        for worker in self.workers.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            worker.abort();
        }
    }
}

impl Harness {
    /// In a runtime whose clock is paused, as `#[tokio::test(start_paused = true)]` and `test::run` make it.
    pub async fn new() -> Self {
        Self::seeded(0).await
    }

    /// With other chances: ids, jitter, the order of what is equal.
    pub async fn seeded(seed: u64) -> Self {
        Self::with(seed, Config::default()).await
    }

    pub async fn with(seed: u64, config: Config) -> Self {
        let time = Virtual::new(seed);
        let clock = time.clone();
        let store = MemoryStore::new(1, Arc::new(move || Time::from_ms(clock.now_ms())));
        let engine = Engine::open_on(Arc::new(store.clone()), config, Arc::new(time.clone())).await;
        let engine = engine.expect("harness: an empty memory store opens");
        let embedded = Origin::Embedded(Embedded::new(engine.clone()));
        let broken = Broken::default();
        let client = Client::embedded(engine.clone()).in_world(time.world()).layer(broken.clone());
        let gate = Gate::new(embedded.transport());
        let workers = Mutex::default();
        let instances = AtomicU32::new(0);
        Self { inner: Arc::new(Inner { time, store, engine, client, gate, broken, instances, workers }) }
    }

    /// A client of the test, whose replies are never lost.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// Time that has passed since the harness was made.
    pub fn elapsed(&self) -> Duration {
        Duration::from_millis(self.inner.time.passed_ms())
    }

    /// Starts a worker. It is made again after each crash.
    ///
    /// If it panics, or ends because it cannot go on, so does whoever uses the harness next.
    pub fn worker(&self, make: impl Fn(Worker) -> Worker + Send + Sync + 'static) {
        let make: Make = Arc::new(make);
        // The worker must not keep the harness alive that ends it.
        let inner = Arc::downgrade(&self.inner);
        let broken = self.inner.broken.clone();
        let supervise = async move {
            loop {
                let Some((gate, run)) = inner.upgrade().map(|inner| inner.process(&make)) else { return };
                tokio::select! {
                    biased;
                    () = gate.crashed() => {}
                    ended = run => match ended {
                        Ok(()) => return,
                        Err(error) => panic!("the worker of the harness cannot go on: {error}"),
                    },
                }
            }
        };
        let supervise = AssertUnwindSafe(supervise).catch_unwind();
        let supervise = async move {
            if let Err(panic) = supervise.await {
                broken.set(&*panic);
            }
        };
        let handle = tokio::spawn(supervise).abort_handle();
        self.inner.workers.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
    }

    pub fn submit<T: Serialize + ?Sized>(&self, kind: impl Into<String>, input: &T) -> Submission {
        self.inner.client.submit(kind, input)
    }

    /// Lets so much time pass; everything that is due meanwhile happens at its time.
    pub async fn advance(&self, time: Duration) {
        let end = self.elapsed() + time;
        let mut quiet = Duration::ZERO;
        loop {
            settle().await;
            let left = end.saturating_sub(self.elapsed());
            if left.is_zero() {
                return;
            }
            let (_, active) = self.unfinished().await;
            quiet = if active == 0 { quiet + STEP } else { Duration::ZERO };
            // When nothing is held and handlers that were told so have gone, nobody counts seconds: time may jump to
            // what is due next.
            let due = || self.until_due().map_or(left, |due| left.min(due));
            match quiet > QUIET && due() > STEP {
                true => tokio::time::advance(due()).await,
                false => tokio::time::sleep(STEP.min(left)).await,
            }
        }
    }

    /// How long until something is due in the store. A worker process that would be found silent after the jump joins
    /// again, so that its timers do not count.
    fn until_due(&self) -> Option<Duration> {
        let due = self.inner.store.dump(PartitionId(0)).due;
        let counts = due.iter().filter(|entry| entry.kind != Kind::Worker as u8);
        let next = counts.map(|entry| Virtual::since_begin(entry.at)).min()?;
        Some(Duration::from_millis(next).saturating_sub(self.elapsed()))
    }

    /// Lets time pass until nothing runs and nothing is ready to run: what is left waits for a later time or has no
    /// worker.
    ///
    /// # Panics
    /// If something still runs after an hour.
    pub async fn run_until_idle(&self) {
        let began = self.elapsed();
        let (mut last, mut since, mut step) = (Vec::new(), began, Duration::from_millis(1));
        loop {
            settle().await;
            let counts = self.counts().await;
            let (ready, active) = (of(&counts, PublicState::Waiting), of(&counts, PublicState::Active));
            if (ready, active) == (0, 0) {
                return;
            }
            if counts != last {
                (last, since, step) = (counts, self.elapsed(), Duration::from_millis(1));
            }
            if active == 0 && self.elapsed() - since > SILENCE {
                return;
            }
            assert!(self.elapsed() - began < PATIENCE, "{active} executions still run after an hour");
            tokio::time::sleep(step).await;
            step = (step * 2).min(STEP);
        }
    }

    async fn unfinished(&self) -> (u64, u64) {
        let counts = self.counts().await;
        (of(&counts, PublicState::Waiting), of(&counts, PublicState::Active))
    }

    async fn counts(&self) -> Vec<(PublicState, u64)> {
        let query = CountQuery { group_by: Some("state".to_string()), ..CountQuery::default() };
        let counts = self.inner.client.count_executions(query).await.expect("harness: counting works");
        counts.groups.into_iter().filter_map(|group| Some((group.state?, group.count))).collect()
    }

    /// Ends the worker as a crash would, in the middle of whatever it does, and starts another.
    pub async fn crash_worker(&self) {
        self.inner.gate.crash();
        settle().await;
    }

    /// The next call of the worker that changes something does so, and the worker does not hear of it.
    pub fn lose_next_reply(&self) {
        self.inner.gate.lose("");
    }

    /// The same for the next call of this operation, such as `settle`.
    pub fn lose_next_reply_to(&self, operation: &str) {
        self.inner.gate.lose(operation);
    }

    /// Every fact so far, one line each.
    pub fn events(&self) -> Vec<String> {
        let feed = self.inner.store.dump(PartitionId(0)).feed;
        let decoded = feed.iter().map(|entry| event::decode(&entry.events).expect("harness: the feed is readable"));
        decoded.flatten().map(|event| events::line(&event)).collect()
    }

    /// How everything stands: a line for each execution with its kind, input, state and result.
    pub async fn states(&self) -> Vec<String> {
        let mut query = ListQuery { limit: Some(1_000), order: Some(Order::Asc), ..ListQuery::default() };
        let mut executions = Vec::new();
        loop {
            let page = self.inner.client.list_executions(query.clone()).await.expect("harness: listing works");
            executions.extend(page.items);
            query.cursor = page.next_cursor;
            if query.cursor.is_none() {
                break;
            }
        }
        let mut lines = Vec::new();
        for execution in executions {
            let query = GetQuery { include: Some("input,result".to_string()), ..GetQuery::default() };
            let whole = self.inner.client.get_execution(execution.id, query).await.expect("harness: it is there");
            let text = |payload: Option<weft_api::Payload>| {
                payload.map_or_else(|| "-".to_string(), |payload| String::from_utf8_lossy(&payload.bytes).into_owned())
            };
            let (input, result) = (text(whole.input), text(whole.result));
            lines.push(format!("{} {input} {} {result}", whole.kind, whole.public_state.name()));
        }
        lines.sort();
        lines
    }

    pub(super) fn gate(&self) -> &Gate {
        &self.inner.gate
    }

    pub fn run(&self, id: &str) -> Run {
        self.inner.client.run(id)
    }
}

impl Inner {
    /// One process of the worker, under a name of its own.
    fn process(&self, make: &Make) -> (Gate, impl Future<Output = Result<(), Error>> + Send + use<>) {
        let no = self.instances.fetch_add(1, Ordering::SeqCst) + 1;
        let gate = self.gate.of_process();
        let client = Client::over(gate.clone()).in_world(self.time.world());
        (gate, make(Worker::new(client).instance(format!("worker-{no}"))).run())
    }
}

fn of(counts: &[(PublicState, u64)], state: PublicState) -> u64 {
    counts.iter().find(|(counted, _)| *counted == state).map_or(0, |(_, count)| *count)
}

/// Lets everything happen that needs no time.
async fn settle() {
    for _ in 0..256 {
        tokio::task::yield_now().await;
    }
}
