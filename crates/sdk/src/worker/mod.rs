//! The worker: claims executions, runs a handler for each, keeps their leases and sends their outcomes.

mod children;
mod ctx;
mod extract;
mod failure;
mod handler;
mod inputs;
mod limits;
mod outcome;
mod own_flow;
mod raw;
mod report;
mod running;
mod sleep;
mod state;
mod step;
mod task;
mod token;

pub use children::{Child, Children, NewChild};
pub use ctx::Ctx;
pub use extract::{Checkpoint, FromTask, Info, Raw, State, Tags};
pub use failure::{Failure, OrFail};
pub use handler::{Handler, Handlers};
pub use inputs::{Inputs, Values};
pub use outcome::{Coded, IntoResult, Json, Outcome};
pub use own_flow::{Growing, OwnFlow};
pub use report::{Noted, Tagging};
pub use running::Health;
pub use state::States;
pub use step::STEP_NAME_MAX;
pub use task::Task;
pub use token::{Cancellation, Cause};

use crate::{Client, Error};
use handler::Router;
use running::{Control, Dispatcher, Running, Settings};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service};
use weft_api::work::{LaneMode, LaneWish};

/// The one dispatch point of tasks, with the layers around it.
pub type TaskService = BoxCloneSyncService<Task, Outcome, Failure>;

type Wrap = Box<dyn Fn(TaskService) -> TaskService + Send + Sync>;

/// A worker to be. It runs when `run` or `run_until` is awaited.
#[must_use = "nothing is claimed before `run` or `run_until` is awaited"]
pub struct Worker {
    client: Client,
    settings: Settings,
    states: States,
    router: Router,
    layers: Vec<Wrap>,
    control: Arc<Control>,
}

impl Worker {
    pub fn new(client: Client) -> Self {
        let settings = Settings::new();
        Self {
            client,
            settings,
            states: States::default(),
            router: Router::default(),
            layers: Vec::new(),
            control: Arc::default(),
        }
    }

    /// The pool this process belongs to; `worker` unless given.
    pub fn pool(mut self, pool: impl Into<String>) -> Self {
        self.settings.pool = pool.into();
        self
    }

    /// The name of this process in its pool; of the host, the process and its start unless given.
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.settings.instance = Some(instance.into());
        self
    }

    /// A lane to take work from, beside those given before; `default` if none is given.
    pub fn lane(self, lane: impl Into<String>) -> Self {
        self.weighted_lane(lane, None)
    }

    /// A lane with its share among the lanes of this worker.
    pub fn weighted_lane(mut self, lane: impl Into<String>, weight: impl Into<Option<u32>>) -> Self {
        self.settings.lanes.get_or_insert_default().push(LaneWish { lane: lane.into(), weight: weight.into() });
        self
    }

    /// A lane is looked at only when those before it have nothing.
    pub fn strict_lanes(mut self) -> Self {
        self.settings.lane_mode = Some(LaneMode::Strict);
        self
    }

    /// Something this worker offers, beside those given before.
    pub fn capability(mut self, capability: impl Into<String>) -> Self {
        self.settings.capabilities.push(capability.into());
        self
    }

    /// Handlers at once; 16 unless given, at least 1.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.settings.concurrency = concurrency.max(1);
        self
    }

    /// Tasks to claim ahead, so that a handler that ends finds the next one at once; unless given, as many as the handlers
    /// finish during one call. Only while handlers are short: what waits here could run elsewhere.
    pub fn prefetch(mut self, prefetch: usize) -> Self {
        self.settings.prefetch = Some(prefetch);
        self
    }

    /// The length of leases; 30 seconds unless given. They are renewed while handlers run.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// How long a handler may go on after its lease was lost or its execution cancelled at once; 5 seconds unless given.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// How long a drain waits for handlers before they are told to stop; 30 seconds unless given.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.settings.drain_timeout = timeout;
        self
    }

    /// How long handlers have that were told to stop by a drain; 10 seconds unless given.
    pub fn drain_kill(mut self, kill: Duration) -> Self {
        self.settings.drain_kill = kill;
        self
    }

    /// What runs here, for operators.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.settings.version = Some(version.into());
        self
    }

    /// A label of this process, for operators.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.labels.insert(key.into(), value.into());
        self
    }

    /// Whether a step inside a step, or two at once with one name, is refused, so that a mistake is found; otherwise they
    /// run one after the other. In builds with debug assertions unless given.
    pub fn strict_steps(mut self, strict: bool) -> Self {
        self.settings.strict_steps = strict;
        self
    }

    /// Something handlers get by `State<T>`. One of each type.
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, state: T) -> Self {
        self.states.put(state);
        self
    }

    /// The handler of a kind. Only kinds that have one are claimed.
    pub fn handle<A, H: Handler<A>>(mut self, kind: impl Into<String>, handler: H) -> Self {
        self.router.put(Some(kind.into()), handler);
        self
    }

    /// The handler of every kind that has no other: with it any kind is claimed.
    pub fn handle_any<A, H: Handler<A>>(mut self, handler: H) -> Self {
        self.router.put(None, handler);
        self
    }

    /// Adds a layer around all others. Every task and every outcome passes through it.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<TaskService> + Send + Sync + 'static,
        L::Service: Service<Task, Response = Outcome, Error = Failure> + Clone + Send + Sync + 'static,
        <L::Service as Service<Task>>::Future: Send + 'static,
    {
        self.layers.push(Box::new(move |inner| TaskService::new(layer.layer(inner))));
        self
    }

    /// A way to drain the worker and to see how it is while it runs.
    pub fn handle_on(&self) -> WorkerHandle {
        WorkerHandle { control: self.control.clone() }
    }

    /// Finds what is wrong with the worker before it runs: no handler, or a handler whose state is missing.
    pub fn check(&self) -> Result<(), Error> {
        match self.router.missing(&self.states) {
            Some(missing) => Err(Error::Config(missing)),
            None => self.settings.check(),
        }
    }

    /// Runs until it is drained by its handle or by the server, or cannot go on. A server that is away is waited for; one
    /// whose certificate is not trusted, or whose address has the wrong scheme, ends a worker that has not begun.
    pub async fn run(self) -> Result<(), Error> {
        self.run_until(std::future::pending::<()>()).await
    }

    /// Runs until `signal` is ready, then drains: claims no more, waits for handlers, hands back what has not ended.
    pub async fn run_until<S: Future>(self, signal: S) -> Result<(), Error> {
        self.check()?;
        let Self { client, mut settings, states, router, layers, control } = self;
        settings.kinds = router.kinds();
        let router = Arc::new(router);
        let dispatcher = match layers.is_empty() {
            true => Dispatcher::Plain(router),
            false => {
                let inner = TaskService::new(Handlers(router));
                Dispatcher::Layered(layers.iter().fold(inner, |inner, wrap| wrap(inner)))
            }
        };
        let running = Running::new(client, settings, Arc::new(states), dispatcher, control);
        running.run_until(signal).await
    }
}

/// A handle on a running worker. Cheap to clone.
#[derive(Clone)]
pub struct WorkerHandle {
    control: Arc<Control>,
}

impl WorkerHandle {
    /// Tells the worker to take no more work and to end when it has none.
    pub fn drain(&self) {
        self.control.drain();
    }

    pub fn health(&self) -> Health {
        self.control.health()
    }
}

pub(crate) type Labels = BTreeMap<String, String>;
