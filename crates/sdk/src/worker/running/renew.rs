//! Keeping leases: all of them in one call, when a third of the shortest has passed.

use super::held::Phase;
use super::{Flight, Running, is_fatal};
use crate::Error;
use crate::client::ms;
use crate::worker::report::Riders;
use crate::worker::token::Cause;
use tokio::time::Instant;
use weft_api::work::{RenewItem, Renewed};
use weft_api::{Args, Batch, Class, Code, Results, op};

/// Leases in one call; what is over goes with the next one, at once.
const ITEMS_MAX: usize = 1_000;

#[derive(Default)]
pub struct Renewing {
    pub flight: Option<Flight<Results<Renewed>>>,
    sent: Vec<(u64, Riders)>,
    sent_at: Option<Instant>,
    pub at: Option<Instant>,
    failures: u32,
}

impl Running {
    /// A lease wants to be renewed at `at`.
    pub fn renew_by(&mut self, at: Instant) {
        self.renewing.at = Some(self.renewing.at.map_or(at, |old| old.min(at)));
    }

    pub fn renew(&mut self, now: Instant) {
        if self.renewing.flight.is_some() || self.renewing.at.is_none_or(|at| at > now) {
            return;
        }
        self.renewing.at = None;
        let mut items = Vec::new();
        for (slot, held) in &self.held {
            if held.lost || held.ctx.is_paused() {
                continue;
            }
            // With more than fit into one call, those go first that were renewed longest ago.
            if self.held.len() > ITEMS_MAX && held.ctx.lease_left() > held.ctx.lease() * 5 / 6 {
                continue;
            }
            if items.len() == ITEMS_MAX {
                break;
            }
            let claimed = held.ctx.claimed();
            let riders = match held.phase {
                Phase::Running { .. } => held.ctx.riders().take(),
                _ => Riders::default(),
            };
            items.push(RenewItem {
                execution: claimed.execution.clone(),
                lease: Some(claimed.lease.id.clone()),
                epoch: Some(claimed.lease.epoch),
                lease_ms: Some(ms(self.settings.lease)),
                progress: riders.progress.clone(),
                checkpoint: riders.checkpoint.clone(),
                steps: Vec::new(),
            });
            self.renewing.sent.push((*slot, riders));
        }
        if items.is_empty() {
            return;
        }
        let client = self.once.clone();
        self.renewing.sent_at = Some(now);
        let args =
            Args { path: [], query: Default::default(), body: Batch { items }, idempotency_key: None, if_match: None };
        self.renewing.flight = Some(Box::pin(async move { client.call::<op::Renew>(args).await }));
    }

    pub fn renewed(&mut self, reply: Result<Results<Renewed>, Error>) -> Result<(), Error> {
        let now = Instant::now();
        let sent_at = self.renewing.sent_at.take().unwrap_or(now);
        let sent = std::mem::take(&mut self.renewing.sent);
        let results = match reply {
            Ok(reply) => reply.results,
            Err(error) if is_fatal(&error) => return Err(error),
            Err(error) => {
                tracing::warn!(%error, leases = sent.len(), "could not renew leases");
                self.control.failed(&error);
                self.renewing.failures += 1;
                for (slot, riders) in sent {
                    if let Some(held) = self.held.get(&slot) {
                        held.ctx.riders().put_back(riders);
                    }
                }
                let pause = self.back_off(self.renewing.failures);
                self.renew_by(now + pause);
                return Ok(());
            }
        };
        self.renewing.failures = 0;
        let has_more = self.held.len() > ITEMS_MAX;
        for ((slot, riders), result) in sent.into_iter().zip(results) {
            match result.into_result() {
                Ok(renewed) => self.renewed_one(slot, sent_at, &renewed),
                Err(problem) if problem.code == Code::Cancelled => self.lost(slot, Cause::Cancel, &problem.detail),
                Err(problem) if matches!(problem.class, Class::Stop | Class::Conflict) => {
                    self.lost(slot, Cause::LeaseLost, &problem.to_string());
                }
                Err(problem) => {
                    // A rider that is refused refuses the renewal with it; the next one goes without.
                    let execution = self.held.get(&slot).map(|held| held.ctx.id());
                    tracing::warn!(?execution, %problem, "a lease was not renewed");
                    if problem.class == Class::Later
                        && let Some(held) = self.held.get(&slot)
                    {
                        held.ctx.riders().put_back(riders);
                    }
                    let pause = self.back_off(1);
                    self.renew_by(now + pause);
                }
            }
        }
        if has_more {
            self.renew_by(now);
        }
        Ok(())
    }

    fn renewed_one(&mut self, slot: u64, sent_at: Instant, renewed: &Renewed) {
        let Some(held) = self.held.get_mut(&slot) else { return };
        held.ctx.renewed(sent_at, renewed.expires_in_ms);
        let next = sent_at + std::time::Duration::from_millis(renewed.expires_in_ms) / 3;
        self.renew_by(next);
        if let Some(cancel) = &renewed.cancel {
            self.cancel_requested(slot, &cancel.reason, cancel.kill_in_ms);
        }
    }
}
