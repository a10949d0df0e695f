//! The worker's entry in the registry: made before the first claim, kept by heartbeats, removed at the end. A server
//! without a registry is worked for all the same.

use super::{Flight, GOODBYE, Running, is_fatal};
use crate::Error;
use crate::worker::token::Cause;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use weft_api::worker::{Beat, Heartbeat, Holding, Register, Registered, SessionQuery};
use weft_api::{Args, Class, Code, op};

/// Leases that a heartbeat may list.
const HOLDING_MAX: usize = 10_000;

#[derive(Default)]
pub struct Registration {
    pub joining: Option<Flight<Registered>>,
    pub beating: Option<Flight<Beat>>,
    pub session: Option<u64>,
    /// Settled, one way or the other
    known: bool,
    /// The server has answered a registration before
    reached: bool,
    failures: u32,
    /// The next try to join, or the next heartbeat
    at: Option<Instant>,
    /// Another heartbeat is due as soon as the one in flight is answered.
    beat_again: bool,
    beat_at: Option<Instant>,
    /// When the server last began a drain, or took one back, by a notice.
    drain_told_at: Option<Instant>,
    boot_id: String,
}

impl Registration {
    /// The server knows this worker, or has no registry.
    pub fn is_known(&self) -> bool {
        self.known
    }

    fn settle(&mut self) {
        (self.known, self.reached) = (true, true);
    }

    /// When the next call is due; none while one is in flight, and none for a worker that drains and would have to join.
    pub fn wake_at(&self, drains: bool) -> Option<Instant> {
        let is_idle = self.joining.is_none() && self.beating.is_none();
        self.at.filter(|_| is_idle && (self.known || !drains))
    }
}

impl Running {
    pub fn join_again(&mut self) {
        self.registration.known = false;
        self.registration.session = None;
        self.registration.at = None;
        self.registration.beat_again = false;
        // The next session supersedes this one. Whoever still asked or listened in its name would be told so, and would
        // take it for another process.
        self.registration.beating = None;
        self.claiming.give_up();
        self.listening.stop();
    }

    pub fn register(&mut self, now: Instant) {
        let registration = &mut self.registration;
        let is_time = registration.at.is_none_or(|at| at <= now);
        if registration.known || registration.joining.is_some() || !is_time || self.drain.is_some() {
            return;
        }
        registration.at = None;
        // Each time it joins it is another start, so that it never goes on with leases it does not know.
        registration.boot_id = self.once.world().fresh();
        let settings = &self.settings;
        let body = Register {
            worker: settings.pool.clone(),
            instance: self.instance.clone(),
            boot_id: registration.boot_id.clone(),
            lanes: settings.lanes.as_ref().map(|lanes| lanes.iter().map(|wish| wish.lane.clone()).collect()),
            kinds: settings.kinds.clone(),
            capabilities: settings.capabilities.clone(),
            capacity: Some(settings.concurrency as u32),
            version: settings.version.clone(),
            host: Some(super::settings::host()),
            labels: settings.labels.clone(),
            ttl_ms: None,
            abandon: None,
            request_id: None,
        };
        let client = self.once.clone();
        registration.joining =
            Some(Box::pin(async move { client.call::<op::RegisterWorker>(Args { body, ..Args::default() }).await }));
    }

    pub fn registered(&mut self, reply: Result<Registered, Error>) -> Result<(), Error> {
        let now = Instant::now();
        match reply {
            Ok(registered) => {
                self.registration.settle();
                self.registration.failures = 0;
                self.registration.session = Some(registered.session);
                self.registration.at = Some(now + Duration::from_millis(registered.next_in_ms.max(100)));
            }
            Err(error) if matches!(error.code(), Some(Code::NotReady | Code::RouteNotFound)) => {
                self.registration.settle();
            }
            // Later it is waited for: a server may get a new certificate before its clients trust it.
            Err(error) if !self.registration.reached && error.is_misconfigured() => return Err(error),
            Err(error) if is_fatal(&error) || error.class() == Some(Class::Fix) => return Err(error),
            Err(error) => {
                self.registration.failures += 1;
                tracing::warn!(%error, failures = self.registration.failures, "could not register");
                self.control.failed(&error);
                self.registration.at = Some(now + self.back_off(self.registration.failures, &error));
            }
        }
        Ok(())
    }

    /// The next heartbeat is due at once, if there are any.
    pub fn beat_now(&mut self) {
        let registration = &mut self.registration;
        match (registration.session, &registration.beating) {
            (None, _) => {}
            // What it will tell is older than what is asked for.
            (Some(_), Some(_)) => registration.beat_again = true,
            (Some(_), None) => registration.at = Some(Instant::now()),
        }
    }

    /// The server has begun a drain or taken one back: a heartbeat that was sent before does not know it.
    pub fn drain_told(&mut self) {
        self.registration.drain_told_at = Some(Instant::now());
    }

    pub fn beat(&mut self, now: Instant) {
        let registration = &mut self.registration;
        let is_time = registration.at.is_some_and(|at| at <= now);
        let (Some(session), None, true) = (registration.session, &registration.beating, is_time) else { return };
        registration.at = None;
        registration.beat_at = Some(now);
        let holding = self.held.values().filter(|held| !held.lost && !held.ctx.is_paused()).map(|held| {
            let claimed = held.ctx.claimed();
            Holding {
                execution: claimed.execution.clone(),
                lease: claimed.lease.id.clone(),
                epoch: claimed.lease.epoch,
            }
        });
        // More than a server takes are not told: it compares nothing then, and leases are kept by renewals all the same.
        let holding = (self.held.len() <= HOLDING_MAX).then(|| holding.collect());
        let free = self.settings.concurrency.saturating_sub(self.running());
        let body =
            Heartbeat { session: Some(session), holding, renew_ms: None, free: Some(free as u32), request_id: None };
        let (client, instance) = (self.once.clone(), self.instance.clone());
        self.registration.beating = Some(Box::pin(async move {
            client.call::<op::Heartbeat>(Args { path: [instance], body, ..Args::default() }).await
        }));
    }

    pub fn beaten(&mut self, reply: Result<Beat, Error>) -> Result<(), Error> {
        let now = Instant::now();
        let sent_at = self.registration.beat_at.take().unwrap_or(now);
        let is_again = std::mem::take(&mut self.registration.beat_again);
        match reply {
            Ok(beat) => {
                self.registration.failures = 0;
                let next = if is_again { Duration::ZERO } else { Duration::from_millis(beat.next_in_ms.max(100)) };
                self.registration.at = Some(now + next);
                for lost in beat.lost {
                    if let Some(slot) = self.find(&lost.execution, lost.epoch) {
                        self.lost(slot, Cause::LeaseLost, &lost.cause);
                    }
                }
                for cancel in beat.cancel {
                    if let Some(slot) = self.find(&cancel.execution, cancel.epoch) {
                        self.cancel_requested(slot, &cancel.reason, cancel.kill_in_ms);
                    }
                }
                let is_current = self.registration.drain_told_at.is_none_or(|told| told < sent_at);
                match beat.drain {
                    _ if !is_current => {}
                    Some(drain) => {
                        self.drain_for_server(&drain.reason, beat.drain_in_ms.map(Duration::from_millis));
                    }
                    None => self.undrain(),
                }
                // It told what it holds, so that a gap is made good by this very reply.
                return self.told(beat.notices, false);
            }
            Err(error) if matches!(error.code(), Some(Code::WorkerNotFound | Code::WorkerDead)) => self.join_again(),
            Err(error) if is_fatal(&error) => return Err(error),
            Err(error) => {
                self.registration.failures += 1;
                self.control.failed(&error);
                self.registration.at = Some(now + self.back_off(self.registration.failures, &error));
            }
        }
        Ok(())
    }

    /// Tells the server that this process ends. Best effort: an entry that stays runs out.
    pub async fn deregister(&mut self) {
        let Some(session) = self.registration.session else { return };
        let (query, path) = (SessionQuery { session: Some(session) }, [self.instance.clone()]);
        let goodbye = self.once.call::<op::DeregisterWorker>(Args { path, query, ..Args::default() });
        if let Ok(Err(error)) = timeout(GOODBYE, goodbye).await {
            tracing::debug!(%error, "could not deregister");
        }
    }
}
