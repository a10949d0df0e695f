//! What others may ask of a running worker.

use crate::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// How a worker is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Handlers that run
    pub running: usize,
    /// Leases that are held, those claimed ahead and those being settled included
    pub held: usize,
    pub draining: bool,
    /// Calls that failed since the last claim that did not
    pub failures: u32,
    pub last_error: Option<String>,
    /// Calls that sent outcomes
    pub settle_calls: u64,
    /// Outcomes that were sent, repeats included
    pub outcomes: u64,
}

#[derive(Default)]
pub struct Control {
    drain: AtomicBool,
    told: AtomicBool,
    notify: Notify,
    health: Mutex<Health>,
}

impl Control {
    pub fn drain(&self) {
        self.drain.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Ready once, when a drain was asked for.
    pub async fn drained(&self) {
        loop {
            if self.drain.load(Ordering::Acquire) && !self.told.swap(true, Ordering::AcqRel) {
                return;
            }
            self.notify.notified().await;
        }
    }

    pub fn health(&self) -> Health {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn note(&self, running: usize, held: usize, draining: bool) {
        let mut health = self.lock();
        (health.running, health.held, health.draining) = (running, held, draining);
    }

    pub fn failed(&self, error: &Error) {
        let mut health = self.lock();
        health.failures += 1;
        health.last_error = Some(error.to_string());
    }

    pub fn succeeded(&self) {
        let mut health = self.lock();
        health.failures = 0;
    }

    pub fn settled(&self, items: usize) {
        let mut health = self.lock();
        health.settle_calls += 1;
        health.outcomes += items as u64;
    }
}
