//! What all requests of a server share.

use crate::auth::{Keyring, Keys};
use crate::body;
use crate::bucket::{Buckets, Rate};
use crate::budget::{BodyMemory, Budget};
use crate::connection::Silence;
use crate::cors::Origins;
use crate::drain::Drain;
use crate::forwarded::Proxies;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::waiting::Seats;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use weft_api::node::Setting;
use weft_api::operation::BodyMax;
use weft_dispatch::Dispatch;
use weft_dispatch::secret::Macs;
use weft_engine::Engine;

/// What can be set about a server.
#[derive(Clone)]
pub struct Options {
    pub auth: Auth,
    pub rates: Rates,
    /// Origins that browsers may call from.
    pub cors_origins: Origins,
    /// Proxies that may say for whom they call.
    pub proxies: Proxies,
    /// Connections at a time.
    pub connections_max: usize,
    /// Calls that wait for something, at a time: on this node, and of one key.
    pub waiting_max: usize,
    pub waiting_per_key_max: usize,
    /// Streams of events at a time, which are counted apart: a worker has one beside the claim with which it waits.
    pub streams_max: usize,
    pub streams_per_key_max: usize,
    /// How long calls that are on their way may take when the server stops.
    pub drain: Duration,
    /// How long connections may say nothing.
    pub silence: Silence,
    /// How much of the memory bodies may take.
    pub body_memory: BodyMemory,
    /// How long a key is trusted without another look at it. While a call waits, its key is looked at twice in
    /// that time.
    pub key_trust: Duration,
}

/// Who may call.
#[derive(Clone)]
pub enum Auth {
    /// Anybody on this machine, without a key; nobody else.
    Dev,
    /// Whoever has a key that is good.
    Keyed { macs: Macs, keys: Arc<dyn Keys> },
}

/// Calls a second.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    pub default: Rate,
    pub worker: Rate,
    /// Of one address, with keys that are not good or none.
    pub open: Rate,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            default: Rate { per_s: 2_000, burst: 4_000 },
            worker: Rate { per_s: 20_000, burst: 40_000 },
            open: Rate { per_s: 20, burst: 100 },
        }
    }
}

impl Options {
    /// For this machine only: no keys.
    pub fn dev() -> Self {
        Self::new(Auth::Dev)
    }

    pub fn new(auth: Auth) -> Self {
        Self {
            auth,
            rates: Rates::default(),
            cors_origins: Origins::default(),
            proxies: Proxies::default(),
            connections_max: 10_000,
            waiting_max: 20_000,
            waiting_per_key_max: 1_000,
            streams_max: 10_000,
            streams_per_key_max: 1_000,
            drain: Duration::from_secs(15),
            silence: Silence::default(),
            body_memory: BodyMemory::default(),
            key_trust: Duration::from_secs(2),
        }
    }
}

/// A server without its sockets. Cheap to clone.
#[derive(Clone)]
pub struct App {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub options: Options,
    /// What can change while the server runs; it begins as the options say.
    current: RwLock<(Rates, Arc<Origins>)>,
    pub dispatch: Dispatch,
    pub keyring: Option<Keyring>,
    pub buckets: Buckets,
    pub drain: Drain,
    pub budget: Budget,
    pub health: Arc<Health>,
    pub metrics: Metrics,
    /// Calls that wait, and streams, on this node.
    pub waiting: Seats,
    pub streams: Seats,
    started: Instant,
}

/// Keys and addresses whose rates are remembered.
const NAMES_MAX: usize = 100_000;
/// What most bodies may have, and what surrounds a payload.
const SMALL: usize = 64 << 10;

impl App {
    /// Begins to watch the engine's health, on the tokio runtime of the caller.
    pub fn new(engine: Engine, options: Options) -> Self {
        let (keyring, macs) = match &options.auth {
            Auth::Dev => (None, None),
            Auth::Keyed { macs, keys } => {
                (Some(Keyring::new(engine.clone(), macs.clone(), keys.clone(), options.key_trust)), Some(macs.clone()))
            }
        };
        let body_memory = options.body_memory;
        let health = Arc::new(Health::default());
        Health::watch(&health, engine.clone());
        Self {
            shared: Arc::new(Shared {
                metrics: Metrics::new(&engine),
                dispatch: Dispatch::new(engine).with_macs(macs),
                current: RwLock::new((options.rates, Arc::new(options.cors_origins.clone()))),
                options,
                keyring,
                buckets: Buckets::new(NAMES_MAX),
                drain: Drain::default(),
                budget: Budget::new(body_memory),
                health,
                waiting: Seats::default(),
                streams: Seats::default(),
                started: Instant::now(),
            }),
        }
    }

    pub fn engine(&self) -> &Engine {
        self.shared.dispatch.engine()
    }

    /// Changes how often may be called and from which pages, from the next request on.
    pub fn reload(&self, rates: Rates, cors_origins: Origins) {
        let mut current = self.shared.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = (rates, Arc::new(cors_origins));
    }

    /// What `GET /v1/config` tells from now on. Secrets must not be in it.
    pub fn show_settings(&self, settings: Vec<Setting>) {
        self.shared.dispatch.set_settings(settings);
    }

    /// True if nobody needs a key.
    pub fn is_dev(&self) -> bool {
        self.shared.keyring.is_none()
    }

    /// What is measured, as OpenMetrics text.
    pub fn metrics_text(&self) -> String {
        self.shared.metrics.text(self.engine())
    }
}

impl Shared {
    /// Milliseconds since the server began, for rates.
    pub fn elapsed_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    pub fn rates(&self) -> Rates {
        self.current.read().unwrap_or_else(PoisonError::into_inner).0
    }

    pub fn origins(&self) -> Arc<Origins> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// The largest body that an operation takes, and the largest if its payload is in base64.
    pub fn body_max(&self, max: BodyMax) -> body::Max {
        let limits = self.dispatch.engine().limits();
        match max {
            BodyMax::Small => body::Max::of(SMALL),
            BodyMax::Payload => {
                let largest = limits.input_max.max(limits.result_max).max(limits.checkpoint_max);
                // Base64 makes four bytes of three.
                body::Max { plain: largest + SMALL, base64: largest.div_ceil(3) * 4 + SMALL }
            }
            BodyMax::Batch => body::Max::of(weft_core::limits::BATCH_BYTES_MAX),
        }
    }
}
