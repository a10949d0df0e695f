//! Keeping leases: all of them in one call, when a third of the shortest has passed.

use super::held::{Held, Phase};
use super::{Flight, Running, is_fatal, may_pass};
use crate::Error;
use crate::client::ms;
use crate::worker::report::Riders;
use crate::worker::token::Cause;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use tokio::time::Instant;
use weft_api::work::{RenewItem, RenewReply, Renewed};
use weft_api::{Args, Batch, Class, Code, Problem, op};

/// Leases in one call; what is over goes with the next one, at once.
const ITEMS_MAX: usize = 1_000;
/// Bytes of checkpoints in one call; a single one may have more. As text they grow, and a server takes 16 MiB.
const BYTES_MAX: usize = 8 << 20;

#[derive(Default)]
pub struct Renewing {
    pub flight: Option<Flight<RenewReply>>,
    sent: Vec<(u64, Riders)>,
    sent_at: Option<Instant>,
    /// The next round over all leases.
    at: Option<Instant>,
    /// Leases of this round that were in no call yet, or in one that failed, and when the next of them go.
    rest: VecDeque<u64>,
    rest_at: Option<Instant>,
    /// Leases for which the server had no time, and when they go again.
    later: BTreeSet<u64>,
    later_at: Option<Instant>,
    failures: u32,
    /// The next call brings nothing along, so that no lease waits until it is known what the last one was refused for.
    bare: bool,
    /// Leases of one call that bring something along; fewer than all after a call was refused as a whole.
    riding_max: Option<usize>,
}

impl Renewing {
    /// When the next call is due; none while one is in flight. A round is finished before the next begins.
    pub fn wake_at(&self) -> Option<Instant> {
        match (&self.flight, self.rest.is_empty()) {
            (Some(_), _) => None,
            (None, false) => self.rest_at,
            (None, true) => [self.at, self.later_at].into_iter().flatten().min(),
        }
    }

    /// Those that were sent go again before others.
    fn send_again(&mut self, slots: impl DoubleEndedIterator<Item = u64>) {
        slots.rev().for_each(|slot| self.rest.push_front(slot));
    }
}

impl Running {
    /// A lease wants to be renewed at `at`.
    pub fn renew_by(&mut self, at: Instant) {
        self.renewing.at = Some(self.renewing.at.map_or(at, |old| old.min(at)));
    }

    pub fn renew(&mut self, now: Instant) {
        let renewing = &mut self.renewing;
        // A pause that was for leases that are gone must not hold up others.
        while renewing.rest.front().is_some_and(|slot| !self.held.contains_key(slot)) {
            renewing.rest.pop_front();
        }
        if renewing.wake_at().is_none_or(|at| at > now) {
            return;
        }
        renewing.rest_at = None;
        if renewing.later_at.is_some_and(|at| at <= now) {
            renewing.later_at = None;
            let later = std::mem::take(&mut renewing.later);
            renewing.send_again(later.into_iter());
        }
        if renewing.rest.is_empty() {
            renewing.at = None;
            renewing.rest = self.held.keys().copied().filter(|slot| !renewing.later.contains(slot)).collect();
        }
        let items = self.next_renewals(now);
        if items.is_empty() {
            return;
        }
        let client = self.swift.clone();
        self.renewing.sent_at = Some(now);
        let args = Args::new([], Default::default(), Batch { items });
        self.renewing.flight = Some(Box::pin(async move { client.call::<op::Renew>(args).await }));
    }

    /// As many of the round as fit into a call.
    fn next_renewals(&mut self, now: Instant) -> Vec<RenewItem> {
        let is_bare = std::mem::take(&mut self.renewing.bare);
        let riding_max = self.renewing.riding_max.unwrap_or(ITEMS_MAX);
        let (mut items, mut bytes, mut riding) = (Vec::new(), 0, 0);
        let is_over = self.is_killed(now);
        while let Some(slot) = self.renewing.rest.pop_front() {
            let is_left = |held: &&Held| {
                let is_given_up = is_over && matches!(held.phase, Phase::Settling);
                held.lost || held.ctx.is_paused() || is_given_up
            };
            let Some(held) = self.held.get(&slot).filter(|held| !is_left(held)) else { continue };
            let riders = match held.phase {
                Phase::Running { .. } if !is_bare => held.ctx.riders().clone(),
                _ => Riders::default(),
            };
            bytes += riders.bytes();
            riding += usize::from(!riders.is_empty());
            let fits = items.len() < ITEMS_MAX && bytes <= BYTES_MAX && riding <= riding_max;
            if !fits && !items.is_empty() {
                self.renewing.rest.push_front(slot);
                break;
            }
            let claimed = held.ctx.claimed();
            items.push(RenewItem {
                execution: claimed.execution.clone(),
                lease: Some(claimed.lease.id.clone()),
                epoch: Some(claimed.lease.epoch),
                lease_ms: Some(ms(self.settings.lease)),
                progress: riders.progress.clone(),
                checkpoint: riders.checkpoint.clone(),
                steps: Vec::new(),
            });
            self.renewing.sent.push((slot, riders));
        }
        items
    }

    pub fn renewed(&mut self, reply: Result<RenewReply, Error>) -> Result<(), Error> {
        let now = Instant::now();
        let sent_at = self.renewing.sent_at.take().unwrap_or(now);
        let sent = std::mem::take(&mut self.renewing.sent);
        let RenewReply { results, notices, missed } = match reply {
            Ok(reply) => reply,
            Err(error) if is_fatal(&error) => return Err(error),
            Err(error) => {
                self.renew_failed(sent, error, now);
                return Ok(());
            }
        };
        if sent.iter().any(|(_, riders)| !riders.is_empty()) {
            self.renewing.riding_max = self.renewing.riding_max.map(|max| max * 2).filter(|max| *max < ITEMS_MAX);
        }
        let mut answers = results.into_iter();
        let mut no_time: Option<Problem> = None;
        for (slot, riders) in sent {
            let unanswered = || Err(Problem::new(Code::Unavailable, "the server did not answer for the lease"));
            match answers.next().map_or_else(unanswered, weft_api::Item::into_result) {
                Ok(renewed) => self.renewed_one(slot, sent_at, &renewed, &riders),
                Err(problem) if problem.code == Code::Cancelled => self.lost(slot, Cause::Cancel, &problem.detail),
                Err(problem) if matches!(problem.class, Class::Stop | Class::Conflict) && !may_pass(&problem) => {
                    self.lost(slot, Cause::LeaseLost, &problem.to_string());
                }
                Err(problem) if problem.class == Class::Fix && !riders.is_empty() => {
                    self.rider_refused(slot, riders, &problem);
                    self.renewing.send_again(std::iter::once(slot));
                }
                Err(problem) => {
                    self.renewing.later.insert(slot);
                    let waits = |problem: &Problem| problem.retry_after_ms.unwrap_or(0);
                    if no_time.as_ref().is_none_or(|other| waits(other) < waits(&problem)) {
                        no_time = Some(problem);
                    }
                }
            }
        }
        match no_time {
            None => self.renewing.failures = 0,
            Some(problem) => {
                let pause = self.renew_later(&problem.into());
                self.renewing.later_at = Some(now + pause);
            }
        }
        self.renewing.rest_at = Some(now);
        self.told(notices, missed)
    }

    /// None of these was renewed.
    fn renew_failed(&mut self, mut sent: Vec<(u64, Riders)>, error: Error, now: Instant) {
        let riding = sent.iter().filter(|(_, riders)| !riders.is_empty()).count();
        let pause = match &error {
            // What comes along is to blame: the leases go alone, and then the riders in fewer and fewer at a time until the
            // one that is refused stands alone.
            Error::Rejected(problem) if problem.class == Class::Fix && riding > 0 => {
                tracing::warn!(%error, leases = sent.len(), "leases are renewed again without their checkpoints");
                if riding == 1 {
                    let alone = sent.iter_mut().find(|(_, riders)| !riders.is_empty());
                    let alone = alone.map(|(slot, riders)| (*slot, std::mem::take(riders)));
                    alone.into_iter().for_each(|(slot, riders)| self.rider_refused(slot, riders, problem));
                }
                self.renewing.riding_max = Some((riding / 2).max(1));
                self.renewing.bare = true;
                Duration::ZERO
            }
            _ => self.renew_later(&error),
        };
        self.renewing.send_again(sent.into_iter().map(|(slot, _)| slot));
        self.renewing.rest_at = Some(now + pause);
    }

    /// Tells that leases were not renewed, and how long to wait.
    fn renew_later(&mut self, error: &Error) -> Duration {
        tracing::warn!(%error, failures = self.renewing.failures, "could not renew leases");
        self.control.failed(error);
        self.renewing.failures += 1;
        self.back_off(self.renewing.failures, error)
    }

    /// The server does not take what came along. It is dropped, because the next renewal would be refused as well.
    fn rider_refused(&mut self, slot: u64, riders: Riders, problem: &Problem) {
        let Some(held) = self.held.get(&slot) else { return };
        tracing::error!(execution = held.ctx.id(), %problem, "a checkpoint or progress was refused and is dropped");
        let field = problem.fields.get("field").and_then(|field| field.as_str());
        held.ctx.riders().refused(riders, field);
    }

    fn renewed_one(&mut self, slot: u64, sent_at: Instant, renewed: &Renewed, riders: &Riders) {
        let Some(held) = self.held.get_mut(&slot) else { return };
        held.ctx.riders().done(riders);
        held.ctx.renewed(sent_at, renewed.expires_in_ms);
        let next = sent_at + Duration::from_millis(renewed.expires_in_ms) / 3;
        self.renew_by(next);
        if let Some(cancel) = &renewed.cancel {
            self.cancel_requested(slot, &cancel.reason, cancel.kill_in_ms);
        }
    }
}
