//! The world of an engine and of clients whose every choice follows from a seed and whose clock a test moves.

use crate::world::World;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use weft_core::Time;
use weft_engine::Runtime;
use weft_engine::runtime::BoxFuture;

/// When every test begins.
const BEGIN_MS: u64 = 1_700_000_000_000;

#[derive(Clone)]
pub struct Virtual {
    began: Instant,
    random: Arc<Mutex<ChaCha8Rng>>,
}

impl Virtual {
    pub fn new(seed: u64) -> Self {
        Self { began: Instant::now(), random: Arc::new(Mutex::new(ChaCha8Rng::seed_from_u64(seed))) }
    }

    pub fn now_ms(&self) -> u64 {
        BEGIN_MS + self.passed_ms()
    }

    pub fn passed_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    pub fn since_begin(at: Time) -> u64 {
        at.ms().saturating_sub(BEGIN_MS)
    }

    /// For clients and workers, with a stream of chance of their own.
    pub fn world(&self) -> World {
        let (random, clock) = (self.clone(), self.clone());
        World::new(move || random.random(), move || clock.now_ms())
    }
}

impl Runtime for Virtual {
    fn clock(&self) -> Time {
        Time::from_ms(self.now_ms())
    }

    fn sleep(&self, ms: u64) -> BoxFuture<()> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }

    fn spawn(&self, task: BoxFuture<()>) {
        tokio::spawn(task);
    }

    fn random(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }
}
