//! What all requests of a server share.

use crate::auth::Keyring;
use crate::bucket::{Buckets, Rate};
use crate::drain::Drain;
use crate::health::Health;
use crate::metrics::Metrics;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_core::limits::Limits;
use weft_dispatch::Dispatch;
use weft_dispatch::secret::MasterKey;
use weft_engine::Engine;

/// What can be set about a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// None: nobody needs a key, and only this machine may call.
    pub master_key: Option<MasterKey>,
    pub rates: Rates,
    pub limits: Limits,
    /// Origins that browsers may call from.
    pub cors_origins: Vec<String>,
    /// Connections at a time.
    pub connections_max: usize,
    /// Calls that wait for something, at a time: on this node, and of one key.
    pub waiting_max: usize,
    pub waiting_per_key_max: usize,
    /// How long calls that are on their way may take when the server stops.
    pub drain: Duration,
    /// Metrics are shown without a key, because they have a listener of their own.
    pub open_metrics: bool,
}

/// Calls a second.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    pub default: Rate,
    pub worker: Rate,
    /// Of one address, before anybody is known.
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
        Self {
            master_key: None,
            rates: Rates::default(),
            limits: Limits::default(),
            cors_origins: Vec::new(),
            connections_max: 10_000,
            waiting_max: 20_000,
            waiting_per_key_max: 1_000,
            drain: Duration::from_secs(15),
            open_metrics: false,
        }
    }

    /// With keys whose secrets are recognised by this key.
    pub fn keyed(master_key: MasterKey) -> Self {
        Self { master_key: Some(master_key), ..Self::dev() }
    }
}

/// A server without its sockets. Cheap to clone.
#[derive(Clone)]
pub struct App {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub options: Options,
    pub dispatch: Dispatch,
    pub keyring: Option<Keyring>,
    pub buckets: Buckets,
    pub drain: Drain,
    pub health: Health,
    pub metrics: Metrics,
    started: Instant,
}

/// Keys and addresses whose rates are remembered.
const NAMES_MAX: usize = 100_000;

impl App {
    pub fn new(engine: Engine, options: Options) -> Self {
        let macs = options.master_key.as_ref().map(MasterKey::macs);
        let dispatch = Dispatch::new(engine.clone()).with_macs(macs.clone());
        let keyring = macs.map(|macs| Keyring::new(engine.clone(), macs));
        let metrics = Metrics::new(&engine);
        Self {
            shared: Arc::new(Shared {
                health: Health::new(engine),
                options,
                dispatch,
                keyring,
                buckets: Buckets::new(NAMES_MAX),
                drain: Drain::default(),
                metrics,
                started: Instant::now(),
            }),
        }
    }

    pub fn engine(&self) -> &Engine {
        self.shared.dispatch.engine()
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

    /// The largest body that an operation takes.
    pub fn body_max(&self, max: weft_api::operation::BodyMax) -> usize {
        const SMALL: usize = 64 << 10;
        let limits = &self.options.limits;
        match max {
            weft_api::operation::BodyMax::Small => SMALL,
            // Base64 makes four bytes of three.
            weft_api::operation::BodyMax::Payload => {
                let largest = limits.input_max.max(limits.result_max).max(limits.checkpoint_max);
                largest.div_ceil(3) * 4 + SMALL
            }
            weft_api::operation::BodyMax::Batch => weft_core::limits::BATCH_BYTES_MAX,
        }
    }
}
