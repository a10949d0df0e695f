//! Telling a handler to stop. Raised once; what was said first stands.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Why a handler should stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Somebody cancelled the execution
    Cancel,
    /// The lease is not ours any more; whatever the handler ends with is discarded
    LeaseLost,
    /// The time of the attempt is over
    Timeout,
    /// The worker stops; what has not ended is handed back
    Shutdown,
}

/// What a handler was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancellation {
    pub cause: Cause,
    pub reason: String,
    /// When the handler is dropped, if it has not ended
    pub(crate) kill_at: Option<Instant>,
}

impl Cancellation {
    /// How long the handler may go on; none if nobody has set a time.
    pub fn time_left(&self) -> Option<Duration> {
        self.kill_at.map(|at| at.saturating_duration_since(Instant::now()))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Token {
    raised: AtomicBool,
    told: Mutex<Option<Cancellation>>,
    notify: Notify,
}

impl Token {
    /// Raises it, unless it is raised already: then only an earlier end counts.
    pub fn raise(&self, cause: Cause, reason: &str, kill_at: Option<Instant>) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *told {
            Some(told) => told.kill_at = [told.kill_at, kill_at].into_iter().flatten().min(),
            none => *none = Some(Cancellation { cause, reason: reason.to_string(), kill_at }),
        }
        drop(told);
        self.raised.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    pub fn told(&self) -> Option<Cancellation> {
        if !self.raised.load(Ordering::Acquire) {
            return None;
        }
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub async fn raised(&self) -> Cancellation {
        loop {
            let notified = self.notify.notified();
            if let Some(told) = self.told() {
                return told;
            }
            notified.await;
        }
    }
}
