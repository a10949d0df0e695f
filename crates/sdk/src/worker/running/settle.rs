//! Sending outcomes: all that are known go in one call, while the next ones gather. An outcome is sent again until it is
//! answered or its lease is over.

use super::{Flight, Running, is_fatal};
use crate::Error;
use std::time::Duration;
use tokio::time::Instant;
use weft_api::work::{RetryWish, Settle, SettleVerb, Settled};
use weft_api::{Args, Batch, Class, Code, Problem, Results, op};

/// Outcomes in one call.
const ITEMS_MAX: usize = 500;
/// Bytes of payloads in one call; a single outcome may have more.
const BYTES_MAX: usize = 8 << 20;

#[derive(Default)]
pub struct Settling {
    pub outbox: Vec<Unsent>,
    pub flight: Option<Flight<Results<Settled>>>,
    /// What is in flight, in order.
    pub sent: Vec<Unsent>,
    sent_at: Option<Instant>,
    /// How long calls take, smoothed
    pub took: Duration,
    failures: u32,
    /// Nothing is sent before
    pub after: Option<Instant>,
    /// Fewer items than usual, after a batch was refused as a whole.
    fewer: Option<usize>,
}

pub struct Unsent {
    pub slot: u64,
    pub item: Settle,
    /// It stands for an outcome that was refused; a second refusal is the end.
    pub replaced: bool,
}

impl Unsent {
    fn bytes(&self) -> usize {
        let payloads = [&self.item.result, &self.item.detail, &self.item.checkpoint];
        payloads.into_iter().flatten().map(|payload| payload.bytes.len()).sum()
    }
}

impl Running {
    pub fn settle(&mut self, now: Instant) {
        let settling = &mut self.settling;
        if settling.flight.is_some() || settling.outbox.is_empty() || settling.after.is_some_and(|after| after > now) {
            return;
        }
        settling.after = None;
        let max = settling.fewer.unwrap_or(ITEMS_MAX);
        let mut bytes = 0;
        let fits = |unsent: &&Unsent| {
            bytes += unsent.bytes();
            bytes <= BYTES_MAX
        };
        let count = settling.outbox.iter().take(max).take_while(fits).count().max(1);
        settling.sent = settling.outbox.drain(..count).collect();
        let items = settling.sent.iter().map(|unsent| unsent.item.clone()).collect();
        let client = self.once.clone();
        let args =
            Args { path: [], query: Default::default(), body: Batch { items }, idempotency_key: None, if_match: None };
        settling.flight = Some(Box::pin(async move { client.call::<op::Settle>(args).await }));
        settling.sent_at = Some(now);
        self.control.settled(count);
    }

    pub fn settled(&mut self, reply: Result<Results<Settled>, Error>) -> Result<(), Error> {
        let sent = std::mem::take(&mut self.settling.sent);
        let took = self.settling.sent_at.take().map_or(Duration::ZERO, |at| at.elapsed());
        self.settling.took = (self.settling.took * 7 + took) / 8;
        match reply {
            Ok(reply) => {
                self.settling.failures = 0;
                self.settling.fewer = None;
                let mut answers = reply.results.into_iter();
                let mut later = false;
                for unsent in sent {
                    match answers.next().map(weft_api::Item::into_result) {
                        Some(Ok(_)) => drop(self.held.remove(&unsent.slot)),
                        Some(Err(problem)) if problem.class != Class::Later => self.refused(unsent, &problem),
                        _ => {
                            later = true;
                            self.again(unsent);
                        }
                    }
                }
                if later {
                    self.settle_later(0);
                }
                Ok(())
            }
            Err(error) if is_fatal(&error) => Err(error),
            Err(error) => {
                self.settle_failed(sent, error);
                Ok(())
            }
        }
    }

    fn settle_failed(&mut self, mut sent: Vec<Unsent>, error: Error) {
        tracing::warn!(%error, items = sent.len(), "could not send outcomes");
        self.control.failed(&error);
        match error {
            // A batch that is refused as a whole is taken apart until the one that is to blame stands alone.
            Error::Rejected(problem) if problem.class != Class::Later => match sent.len() {
                1 => sent.into_iter().for_each(|unsent| self.refused(unsent, &problem)),
                many => {
                    self.settling.fewer = Some((many / 2).max(1));
                    sent.into_iter().for_each(|unsent| self.again(unsent));
                }
            },
            error => {
                // What was sent first goes first again.
                sent.retain(|unsent| self.held.contains_key(&unsent.slot));
                sent.append(&mut self.settling.outbox);
                self.settling.outbox = sent;
                self.settle_later(error.retry_after_ms().unwrap_or(0));
            }
        }
    }

    fn settle_later(&mut self, at_least_ms: u64) {
        self.settling.failures += 1;
        let pause = self.back_off(self.settling.failures).max(Duration::from_millis(at_least_ms));
        self.settling.after = Some(Instant::now() + pause);
    }

    fn again(&mut self, unsent: Unsent) {
        // A lease that ran out meanwhile has taken its outcome along.
        if self.held.contains_key(&unsent.slot) {
            self.settling.outbox.push(unsent);
        }
    }

    /// The server does not take this outcome. If the lease is good, it takes another that says so.
    fn refused(&mut self, unsent: Unsent, problem: &Problem) {
        let id = &unsent.item.execution;
        let other = match (unsent.item.verb, problem.code) {
            _ if unsent.replaced => None,
            (SettleVerb::Delay | SettleVerb::WaitChildren, Code::CancelRequested) => {
                Some(super::super::outcome::cancel("a cancel was requested"))
            }
            (SettleVerb::Complete | SettleVerb::Fail, _) if problem.class == Class::Fix => Some(Settle {
                verb: SettleVerb::Fail,
                category: Some("result".to_string()),
                message: Some(format!("the outcome was refused: {problem}")),
                retry: Some(unsent.item.retry.unwrap_or(RetryWish::Never)),
                ..Settle::default()
            }),
            _ => None,
        };
        match (other, self.held.get(&unsent.slot)) {
            (Some(other), Some(held)) => {
                tracing::warn!(execution = id, %problem, "an outcome was refused; another is sent in its place");
                let item = held.fenced(other);
                self.settling.outbox.push(Unsent { slot: unsent.slot, item, replaced: true });
            }
            (_, held) => {
                if held.is_some() {
                    tracing::info!(execution = id, %problem, "an outcome is discarded");
                }
                self.held.remove(&unsent.slot);
            }
        }
    }
}
