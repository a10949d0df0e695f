//! One lease that the worker holds, and where its task is.

use crate::worker::ctx::Ctx;
use crate::worker::failure::{Failure, Kind};
use crate::worker::outcome::{Outcome, cancel, hand_back};
use crate::worker::token::Cause;
use std::any::Any;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use weft_api::work::Settle;

pub struct Held {
    pub ctx: Ctx,
    pub phase: Phase,
    /// Somebody else may have the execution by now: nothing is sent for it.
    pub lost: bool,
    /// When the handler is dropped.
    pub kill_at: Option<Instant>,
    /// When the time of the attempt is over.
    pub timeout_at: Option<Instant>,
}

pub enum Phase {
    /// Claimed ahead
    Queued { since: Instant },
    /// Its end comes by the channel; dropping the handle drops the handler
    Running { _handle: AbortOnDrop },
    /// Its outcome is known and not yet acknowledged
    Settling,
}

/// Ends a handler together with the worker that runs it.
pub struct AbortOnDrop(pub AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Held {
    pub fn lose(&mut self, reason: &str, kill_at: Option<Instant>) {
        self.lost = true;
        self.told(Cause::LeaseLost, reason, kill_at);
    }

    /// Tells the handler to stop. Of several times the earliest counts.
    pub fn told(&mut self, cause: Cause, reason: &str, kill_at: Option<Instant>) {
        self.ctx.token().raise(cause, reason, kill_at);
        self.kill_at = [self.kill_at, kill_at].into_iter().flatten().min();
        if cause == Cause::Timeout {
            self.timeout_at = None;
        }
    }

    /// What to send for a handler that ended so.
    pub fn answer(&mut self, outcome: Outcome) -> Option<Settle> {
        if self.lost || self.ctx.is_paused() {
            return None;
        }
        let told = self.ctx.cancellation().map(|told| (told.cause, told.reason));
        let item = match (outcome, told) {
            // It stopped because it was told to.
            (Outcome::Failed(Failure { kind: Kind::Told, .. }), Some((Cause::Cancel, reason))) => Some(cancel(&reason)),
            // What it says about itself is its own; an error by the way is taken for one of the end of the worker.
            (Outcome::Failed(Failure { kind: Kind::Told | Kind::Retry, .. }), Some((Cause::Shutdown, _))) => {
                Some(self.back())
            }
            // The server ends the attempt by itself, and knows better why.
            (Outcome::Failed(_), Some((Cause::LeaseLost | Cause::Timeout, _))) => None,
            // Of a failure after a cancel the server makes the cancel, and keeps the failure.
            (outcome, _) => outcome.settle(),
        };
        item.map(|item| self.fenced(item))
    }

    /// What to send for a handler that was dropped.
    pub fn killed(&mut self) -> Option<Settle> {
        if self.lost || self.ctx.is_paused() {
            return None;
        }
        let told = self.ctx.cancellation()?;
        let item = match told.cause {
            Cause::Cancel => cancel(&told.reason),
            Cause::Shutdown => self.back(),
            Cause::LeaseLost | Cause::Timeout => return None,
        };
        Some(self.fenced(item))
    }

    fn back(&self) -> Settle {
        Settle { checkpoint: self.ctx.riders().checkpoint.clone(), ..hand_back() }
    }

    /// The item with the fence of this lease.
    pub fn fenced(&self, item: Settle) -> Settle {
        let claimed = self.ctx.claimed();
        Settle {
            execution: claimed.execution.clone(),
            lease: Some(claimed.lease.id.clone()),
            epoch: Some(claimed.lease.epoch),
            ..item
        }
    }

    /// When a clock may decide something about it.
    pub fn next_check(&self, stale: Duration) -> Instant {
        let queued = match self.phase {
            Phase::Queued { since } => Some(since + stale),
            _ => None,
        };
        let (expires_at, timeout_at) = match self.lost {
            true => (None, None),
            false => (Some(self.ctx.expires_at()), self.timeout_at),
        };
        let all = [expires_at, self.kill_at, timeout_at, queued];
        all.into_iter().flatten().min().unwrap_or_else(|| self.ctx.expires_at())
    }
}

/// The outcome of a handler that panicked.
pub fn panicked(panic: &(dyn Any + Send)) -> Outcome {
    let said = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Outcome::Failed(Failure::retry(said.unwrap_or("the handler panicked")).category("panic"))
}
