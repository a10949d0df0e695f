//! Where fresh keys, jitter and the time of day come from. A value, so that a test has the same ones in every run.
//! Waiting goes by tokio's timer, which a test pauses.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Clone)]
pub struct World {
    random: Arc<dyn Fn() -> u64 + Send + Sync>,
    clock: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl World {
    #[cfg_attr(not(feature = "test"), expect(dead_code, reason = "only the harness brings a world of its own"))]
    pub fn new(
        random: impl Fn() -> u64 + Send + Sync + 'static,
        clock: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self { random: Arc::new(random), clock: Arc::new(clock) }
    }

    pub fn of_system() -> Self {
        let since = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            random: Arc::new(|| getrandom::u64().expect("world: the operating system gives entropy")),
            clock: Arc::new(move || since().as_millis() as u64),
        }
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        (self.clock)()
    }

    pub fn random(&self) -> u64 {
        (self.random)()
    }

    /// Evenly from 0 to `max`, both included.
    pub fn up_to(&self, max: u64) -> u64 {
        match max.checked_add(1) {
            Some(bound) => self.random() % bound,
            None => self.random(),
        }
    }

    /// Text that nobody else has.
    pub fn fresh(&self) -> String {
        format!("{:016x}{:016x}", self.random(), self.random())
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("World")
    }
}
