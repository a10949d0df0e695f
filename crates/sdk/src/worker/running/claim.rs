//! Taking work: one waiting claim over all lanes, for as many tasks as there are permits.

use super::held::{Held, Phase};
use super::{Flight, LONG, Running, SHORT, is_fatal};
use crate::Error;
use crate::client::{back_off, ms};
use crate::worker::ctx::Ctx;
use crate::worker::token::Cause;
use std::time::Duration;
use tokio::time::Instant;
use weft_api::work::{Claim, Claimed, NoticeKind, Task};
use weft_api::{Args, Class, Code, op};

/// Tasks of one claim.
const CLAIM_MAX: usize = 256;
/// Outcomes that wait to be sent, in tasks of a claim: with more, the server is the slower side and more work would only
/// wait.
const BACKLOG: usize = 4;
/// Tasks claimed ahead, in handlers, however long a call takes.
const AHEAD_MAX: u32 = 16;

#[derive(Default)]
pub struct Claiming {
    pub flight: Option<Flight<Claimed>>,
    sent: Option<Instant>,
    /// Of the claim in flight, or of the last one that was not answered: its leases are found again by it.
    pub id: Option<String>,
    /// A claim with this id may have taken leases of which no reply has arrived
    in_doubt: bool,
    failures: u32,
    /// Claims bear no id before
    unnamed_until: Option<Instant>,
    /// No claim before
    pub after: Option<Instant>,
}

/// How long claims bear no id after one was refused because the server could not look for the leases of its id. While a
/// partition of the store gives no answer every such claim is refused, and work of the others would lie idle. If the reply to
/// a claim without id is lost, its leases run out.
const UNNAMED: Duration = Duration::from_secs(10);

impl Claiming {
    /// Gives up a claim of a session that is over.
    pub fn give_up(&mut self) {
        self.flight = None;
        (self.id, self.in_doubt) = (None, false);
    }
}

impl Running {
    /// Tasks that can be taken: free permits, and some ahead while handlers are short.
    fn room(&self, now: Instant) -> usize {
        let wanted = self.settings.concurrency + self.ahead(now);
        let waiting = self.settling.outbox.len() + self.settling.sent.len();
        if waiting > wanted * BACKLOG {
            return 0;
        }
        wanted.saturating_sub(self.running() + self.queue.len()).min(CLAIM_MAX)
    }

    /// As many as the handlers finish while a call to the server is on its way, so that they never wait for one. A permit
    /// whose handler has been running for long finishes nothing soon, whatever its predecessors did.
    fn ahead(&self, now: Instant) -> usize {
        let Some(pace) = self.pace.filter(|pace| *pace < SHORT) else { return 0 };
        let calls = self.settling.took.as_micros() / pace.as_micros().max(1);
        let rounds = u32::try_from(calls).unwrap_or(u32::MAX).clamp(1, AHEAD_MAX);
        let concurrency = self.settings.concurrency;
        let long = self.started.values().take_while(|since| **since + LONG <= now).count();
        let quick = concurrency.saturating_sub(long);
        match self.settings.prefetch {
            Some(prefetch) => prefetch * quick / concurrency,
            None => quick * rounds as usize,
        }
    }

    pub fn claim(&mut self, now: Instant) {
        if self.claiming.after.is_some_and(|after| after > now) {
            return;
        }
        // Forgotten before anything else is asked: a time that has passed would wake the loop without end.
        self.claiming.after = None;
        if self.claiming.flight.is_some() || self.drain.is_some() || !self.registration.is_known() {
            return;
        }
        let room = self.room(now);
        // Few large claims are cheaper than many small ones, as long as no permit lies idle meanwhile.
        let is_idle = self.running() + self.queue.len() < self.settings.concurrency;
        if room == 0 || (!is_idle && room * 4 < self.settings.concurrency) {
            return;
        }
        self.send_claim(room, self.settings.claim_wait, now);
    }

    pub fn send_claim(&mut self, max: usize, wait: Duration, now: Instant) {
        let is_named = self.claiming.id.is_some() || self.claiming.unnamed_until.is_none_or(|until| until <= now);
        let id = is_named.then(|| self.claiming.id.get_or_insert_with(|| self.once.world().fresh()).clone());
        let settings = &self.settings;
        let body = Claim {
            worker: settings.pool.clone(),
            instance: self.instance.clone(),
            session: self.registration.session,
            lanes: settings.lanes.clone(),
            lane_mode: settings.lane_mode,
            kinds: settings.kinds.clone(),
            capabilities: Some(settings.capabilities.clone()),
            max: Some(max as u32),
            wait_ms: Some(ms(wait)),
            lease_ms: Some(ms(settings.lease)),
            request_id: id,
            ..Claim::default()
        };
        let client = self.once.clone();
        self.claiming.sent = Some(now);
        self.claiming.flight =
            Some(Box::pin(async move { client.call_as_it_is::<op::Claim>(Args { body, ..Args::default() }).await }));
    }

    pub fn claimed(&mut self, reply: Result<Claimed, Error>) -> Result<(), Error> {
        let now = Instant::now();
        let sent = self.claiming.sent.take().unwrap_or(now);
        match reply {
            Ok(claimed) => {
                // The lease begins when the wait ends. Counted like this it never ends later here than at the server.
                let begun = (sent + Duration::from_millis(claimed.waited_ms)).min(now);
                let is_repeat = std::mem::take(&mut self.claiming.failures) > 0;
                (self.claiming.id, self.claiming.in_doubt) = (None, false);
                self.control.succeeded();
                if claimed.draining && claimed.executions.is_empty() {
                    self.claiming.after = Some(now + back_off(3, None, self.once.world()));
                }
                for task in claimed.executions {
                    // Only a repeat can bring what is here already.
                    if is_repeat && self.find(&task.execution, task.lease.epoch).is_some() {
                        continue;
                    }
                    self.take(task, begun, now);
                }
                self.told(claimed.notices, claimed.missed)
            }
            Err(error) => self.claim_failed(error, now),
        }
    }

    fn claim_failed(&mut self, error: Error, now: Instant) -> Result<(), Error> {
        if self.drain.is_some() {
            // It only looked for leases whose claim was given up; they run out by themselves.
            return Ok(());
        }
        if matches!(error.code(), Some(Code::WorkerNotFound | Code::WorkerDead)) {
            self.join_again();
        } else if is_fatal(&error) || error.class() == Some(Class::Fix) {
            return Err(error);
        }
        let is_refused = error.code() == Some(Code::Unavailable) && !error.is_outcome_unknown();
        if is_refused && !self.claiming.in_doubt {
            (self.claiming.id, self.claiming.unnamed_until) = (None, Some(now + UNNAMED));
        } else {
            self.claiming.in_doubt = self.claiming.id.is_some();
        }
        self.claiming.failures += 1;
        tracing::warn!(%error, failures = self.claiming.failures, "could not claim");
        self.control.failed(&error);
        self.claiming.after = Some(now + self.back_off(self.claiming.failures, &error));
        Ok(())
    }

    /// From 50 ms to 5 s, doubling with each failure in a row, and as long as the server said.
    pub fn back_off(&self, failures: u32, error: &Error) -> Duration {
        back_off(failures, error.retry_after_ms(), self.once.world())
    }

    fn take(&mut self, task: Task, begun: Instant, now: Instant) {
        let timeout_at = task.timeout_left_ms.map(|ms| begun + Duration::from_millis(ms));
        let lease = Duration::from_millis(task.lease.expires_in_ms);
        let ctx = Ctx::new(self.client.clone(), self.states.clone(), task, begun, self.settings.strict_steps);
        let slot = self.next_slot;
        self.next_slot += 1;
        let held = Held { ctx, phase: Phase::Queued { since: now }, lost: false, kill_at: None, timeout_at };
        self.look_at(held.next_check(super::STALE));
        self.renew_by(begun + lease / 3);
        self.held.insert(slot, held);
        match self.drain {
            Some(_) => self.hand_back(slot),
            None => self.queue.push_back(slot),
        }
    }

    pub fn noticed(&mut self, notice: NoticeKind) -> Result<(), Error> {
        match notice {
            NoticeKind::Cancelled { execution, epoch, reason, .. } => {
                if let Some(slot) = self.find(&execution, epoch) {
                    self.lost(slot, Cause::Cancel, &reason);
                }
            }
            NoticeKind::CancelRequested { execution, epoch, reason, kill_in_ms } => {
                if let Some(slot) = self.find(&execution, epoch) {
                    self.cancel_requested(slot, &reason, kill_in_ms);
                }
            }
            NoticeKind::LeaseLost { execution, epoch, cause } => {
                if let Some(slot) = self.find(&execution, epoch) {
                    self.lost(slot, Cause::LeaseLost, &cause);
                }
            }
            NoticeKind::Drain { reason, deadline_in_ms } => {
                self.drain_told();
                self.drain_for_server(&reason, deadline_in_ms.map(Duration::from_millis));
            }
            NoticeKind::Undrain => {
                self.drain_told();
                self.undrain();
            }
            NoticeKind::Superseded => {
                let problem =
                    weft_api::Problem::new(Code::InstanceSuperseded, "another process took this instance name");
                return Err(problem.into());
            }
            NoticeKind::NodeStopping => {}
        }
        Ok(())
    }
}
