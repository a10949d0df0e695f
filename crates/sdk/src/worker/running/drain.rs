//! Ending a worker: claim no more, wait for handlers, tell them to stop, drop them, hand back what has not ended.

use super::Running;
use super::held::Phase;
use crate::worker::token::Cause;
use std::time::Duration;
use tokio::time::Instant;

/// Before the time that the server has set everything is handed back, with so much left for the call that does it.
const MARGIN: Duration = Duration::from_secs(1);

/// How long outcomes are still sent after the last handlers were dropped, if their leases last as long.
const LAST: Duration = Duration::from_secs(30);

pub struct Drain {
    /// When handlers are told to stop; none once they were
    tell_at: Option<Instant>,
    /// When what is left is given to others
    end_at: Option<Instant>,
    /// When the last handlers are dropped; none before they were told to stop
    kill_at: Option<Instant>,
    /// The server wants it, and may take it back
    is_servers: bool,
}

impl Running {
    /// Ends the worker; nobody takes that back.
    pub fn begin_drain(&mut self, reason: &str) {
        self.drain_by(reason, None, false);
    }

    /// The server wants the worker to end, and gives to others what is left after `time`.
    pub fn drain_for_server(&mut self, reason: &str, time: Option<Duration>) {
        self.drain_by(reason, time, true);
    }

    fn drain_by(&mut self, reason: &str, time: Option<Duration>, is_servers: bool) {
        let now = Instant::now();
        let end_at = time.map(|time| now + time - MARGIN.min(time / 10));
        let tell_by = end_at.map(|at| at.checked_sub(self.settings.drain_kill).map_or(now, |at| at.max(now)));
        if let Some(drain) = &mut self.drain {
            drain.is_servers &= is_servers;
            drain.end_at = [drain.end_at, end_at].into_iter().flatten().min();
            drain.tell_at = drain.tell_at.map(|at| tell_by.map_or(at, |by| at.min(by)));
            return;
        }
        tracing::info!(reason, running = self.running(), "the worker drains");
        let tell_at = now + self.settings.drain_timeout;
        let tell_at = Some(tell_by.map_or(tell_at, |by| tell_at.min(by)));
        self.drain = Some(Drain { tell_at, end_at, kill_at: None, is_servers });
        for slot in std::mem::take(&mut self.queue) {
            self.hand_back(slot);
        }
        self.claiming.after = None;
        self.claiming.flight = None;
        if self.claiming.id.is_some() {
            // A claim that is given up, or that was not answered, may have been granted on its way: the same one again
            // finds its leases, and they are handed back at once instead of waiting for their end.
            self.send_claim(1, Duration::ZERO, now);
        }
    }

    /// The server takes its drain back. Handlers that were told to stop end all the same.
    pub fn undrain(&mut self) {
        if self.drain.as_ref().is_some_and(|drain| drain.is_servers) {
            tracing::info!("the worker takes work again");
            self.drain = None;
        }
    }

    pub fn drain_at(&self) -> Option<Instant> {
        let drain = self.drain.as_ref()?;
        drain.tell_at.or(drain.kill_at.map(|at| at + LAST))
    }

    /// The handlers of a drain were dropped: what is left are outcomes that the server does not take.
    pub fn is_killed(&self, now: Instant) -> bool {
        self.drain.as_ref().and_then(|drain| drain.kill_at).is_some_and(|at| at <= now)
    }

    /// Everything is done that a drain waits for.
    pub fn is_drained(&mut self) -> bool {
        let now = Instant::now();
        let Some(drain) = &mut self.drain else { return false };
        if drain.tell_at.is_some_and(|at| at <= now) {
            drain.tell_at = None;
            let kill_at = now + self.settings.drain_kill;
            let kill_at = drain.end_at.map_or(kill_at, |end| kill_at.min(end));
            drain.kill_at = Some(kill_at);
            self.tell_all(kill_at);
        }
        if self.is_given_up(now) {
            tracing::warn!(leases = self.held.len(), "the worker ends with outcomes that the server did not take");
            return true;
        }
        self.claiming.flight.is_none() && self.held.is_empty()
    }

    fn is_given_up(&self, now: Instant) -> bool {
        self.drain.as_ref().and_then(|drain| drain.kill_at).is_some_and(|at| at + LAST <= now)
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
