//! Ending a worker: claim no more, wait for handlers, tell them to stop, drop them, hand back what has not ended.

use super::Running;
use super::held::Phase;
use crate::worker::token::Cause;
use std::time::Duration;
use tokio::time::Instant;

pub struct Drain {
    /// When handlers are told to stop; none once they were
    tell_at: Option<Instant>,
}

impl Running {
    pub fn begin_drain(&mut self, reason: &str) {
        if self.drain.is_some() {
            return;
        }
        tracing::info!(reason, running = self.running, "the worker drains");
        let now = Instant::now();
        self.drain = Some(Drain { tell_at: Some(now + self.settings.drain_timeout) });
        for slot in std::mem::take(&mut self.queue) {
            self.hand_back(slot);
        }
        self.claiming.after = None;
        if self.claiming.flight.take().is_some() {
            // The claim that is given up may have been granted on its way: the same one again finds its leases, and
            // they are handed back at once instead of waiting for their end.
            self.send_claim(1, Duration::ZERO, now);
        }
    }

    pub fn drain_at(&self) -> Option<Instant> {
        self.drain.as_ref()?.tell_at
    }

    /// Everything is done that a drain waits for.
    pub fn is_drained(&mut self) -> bool {
        let now = Instant::now();
        let Some(drain) = &mut self.drain else { return false };
        if drain.tell_at.is_some_and(|at| at <= now) {
            drain.tell_at = None;
            self.tell_all(now + self.settings.drain_kill);
        }
        self.claiming.flight.is_none() && self.held.is_empty()
    }

    fn tell_all(&mut self, kill_at: Instant) {
        for held in self.held.values_mut() {
            if matches!(held.phase, Phase::Running { .. }) {
                held.told(Cause::Shutdown, "shutdown", Some(kill_at));
            }
        }
        self.look_at(kill_at);
    }
}
