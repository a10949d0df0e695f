//! How a worker is set up.

use crate::Error;
use crate::worker::Labels;
use crate::world::World;
use std::time::Duration;
use weft_api::work::{LaneMode, LaneWish};

#[derive(Clone)]
pub struct Settings {
    pub pool: String,
    pub instance: Option<String>,
    /// `default` if none
    pub lanes: Option<Vec<LaneWish>>,
    pub lane_mode: Option<LaneMode>,
    /// Any if none
    pub kinds: Option<Vec<String>>,
    pub capabilities: Vec<String>,
    pub concurrency: usize,
    pub prefetch: Option<usize>,
    pub lease: Duration,
    pub claim_wait: Duration,
    pub grace: Duration,
    pub drain_timeout: Duration,
    pub drain_kill: Duration,
    pub version: Option<String>,
    pub labels: Labels,
    pub strict_steps: bool,
}

impl Settings {
    pub fn new() -> Self {
        Self {
            pool: "worker".to_string(),
            instance: None,
            lanes: None,
            lane_mode: None,
            kinds: None,
            capabilities: Vec::new(),
            concurrency: 16,
            prefetch: None,
            lease: Duration::from_secs(30),
            claim_wait: Duration::from_secs(30),
            grace: Duration::from_secs(5),
            drain_timeout: Duration::from_secs(30),
            drain_kill: Duration::from_secs(10),
            version: None,
            labels: Labels::new(),
            strict_steps: cfg!(debug_assertions),
        }
    }

    pub fn check(&self) -> Result<(), Error> {
        let lease = self.lease.as_millis();
        if !(100..=3_600_000).contains(&lease) {
            return Err(Error::Config(format!("the lease is {:?}, allowed are 100ms to 1h", self.lease)));
        }
        let lanes = self.lanes.as_ref().map_or(0, Vec::len);
        if lanes > 64 {
            return Err(Error::Config(format!("the worker has {lanes} lanes, allowed are 64")));
        }
        Ok(())
    }

    /// The name of this process: host, process and start tell it from every other.
    pub fn instance(&self, world: &World) -> String {
        let boot = || format!("{}-{}-{:08x}", host(), std::process::id(), world.random() as u32);
        self.instance.clone().unwrap_or_else(boot)
    }
}

/// The name of this host, with what a name may have.
pub fn host() -> String {
    let named = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let named = named.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let good = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '_');
    let named: String = named.trim().chars().filter(good).take(64).collect();
    if named.is_empty() { "host".to_string() } else { named }
}
