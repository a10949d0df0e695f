//! Sending outcomes: all that are known go in one call, while the next ones gather. An outcome is sent again until it is
//! answered or its lease is over.

use super::{Flight, Running, is_fatal, may_pass};
use crate::Error;
use crate::worker::{limits, outcome};
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
        if settling.flight.is_some() {
            return;
        }
        if settling.outbox.is_empty() {
            // The pause was for outcomes that are gone: it must neither hold up others nor wake the loop for nothing.
            (settling.after, settling.failures) = (None, 0);
            return;
        }
        if settling.after.is_some_and(|after| after > now) {
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
        let client = self.swift.clone();
        let args = Args::new([], Default::default(), Batch { items });
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
                self.settling.fewer = None;
                let mut answers = reply.results.into_iter();
                let mut no_time: Option<Problem> = None;
                for unsent in sent {
                    let unanswered =
                        || Err(Problem::new(Code::Unavailable, "the server did not answer for the outcome"));
                    match answers.next().map_or_else(unanswered, weft_api::Item::into_result) {
                        Ok(_) => drop(self.held.remove(&unsent.slot)),
                        Err(problem) if !may_pass(&problem) => self.refused(unsent, &problem),
                        Err(problem) => {
                            self.again(unsent);
                            let waits = |problem: &Problem| problem.retry_after_ms.unwrap_or(0);
                            if no_time.as_ref().is_none_or(|other| waits(other) < waits(&problem)) {
                                no_time = Some(problem);
                            }
                        }
                    }
                }
                match no_time.map(Error::from) {
                    None => self.settling.failures = 0,
                    Some(error) => {
                        tracing::warn!(%error, "outcomes were not taken yet");
                        self.control.failed(&error);
                        self.settle_later(&error);
                    }
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
        match &error {
            Error::Rejected(problem) if !may_pass(problem) && sent.len() == 1 => {
                sent.into_iter().for_each(|unsent| self.refused(unsent, problem));
            }
            // A batch that is refused as a whole is taken apart until the one that is to blame stands alone.
            Error::Rejected(problem) if problem.class != Class::Later => {
                self.settling.fewer = Some((sent.len() / 2).max(1));
                sent.into_iter().for_each(|unsent| self.again(unsent));
                if may_pass(problem) {
                    self.settle_later(&error);
                }
            }
            _ => {
                // What was sent first goes first again.
                sent.retain(|unsent| self.held.contains_key(&unsent.slot));
                sent.append(&mut self.settling.outbox);
                self.settling.outbox = sent;
                self.settle_later(&error);
            }
        }
    }

    fn settle_later(&mut self, error: &Error) {
        self.settling.failures += 1;
        let pause = self.back_off(self.settling.failures, error);
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
        let other = if unsent.replaced { None } else { instead(&unsent.item, problem) };
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

/// What is sent in place of a refused outcome: as much of it as cannot be what was refused.
fn instead(refused: &Settle, problem: &Problem) -> Option<Settle> {
    match refused.verb {
        SettleVerb::Delay | SettleVerb::WaitChildren if problem.code == Code::CancelRequested => {
            Some(outcome::cancel("a cancel was requested"))
        }
        _ if problem.class != Class::Fix => None,
        // Its checkpoint is too large; without one it goes back all the same.
        SettleVerb::Delay if refused.checkpoint.is_some() => Some(Settle {
            verb: SettleVerb::Delay,
            delay_ms: refused.delay_ms,
            until_at: refused.until_at,
            ..Settle::default()
        }),
        SettleVerb::Cancel => Some(outcome::cancel("")),
        verb => {
            let said = refused.message.as_deref().filter(|said| !said.is_empty());
            let said = said.map_or_else(String::new, |said| format!("; it was: {said}"));
            let message = limits::cut(format!("the outcome was refused: {problem}{said}"), limits::FAILURE_MESSAGE_MAX);
            let is_category = problem.fields.get("field").is_some_and(|field| field == "category");
            let category = refused.category.clone().filter(|_| !is_category);
            Some(Settle {
                verb: SettleVerb::Fail,
                category: Some(category.unwrap_or_else(|| "result".to_string())),
                message: Some(message),
                retry: Some(match (verb, refused.retry) {
                    (SettleVerb::Complete, _) | (_, Some(RetryWish::Never)) => RetryWish::Never,
                    _ => RetryWish::Policy,
                }),
                ..Settle::default()
            })
        }
    }
}
