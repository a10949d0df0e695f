//! Failing: a failed attempt is retried, or ends the execution. A timeout of the attempt takes the same way.

use super::fence::{self, Verb};
use super::finish::{self, End};
use super::settle::{self, Requeue};
use super::submit::validate_payload;
use super::{backoff, emit, steps, visible};
use crate::command::{Fail, Payload, Principal, RetryWish};
use crate::error::Rejection;
use crate::event::Fact;
use crate::flow;
use crate::limits::{BACKOFF_MS_MAX, CATEGORY_MAX, FAILURE_DETAIL_MAX, FAILURE_MESSAGE_MAX, Limits};
use crate::record::attempt::{AttemptState, Failure};
use crate::record::execution::{AfterFailure, LeaseEnd, Next, Outcome, Reason, State, Why};
use crate::record::{Content, Execution};
use crate::reply::Reply;
use crate::schema::PartMask;
use crate::text::{Text, check_range, check_text, check_token};
use crate::time::Time;
use crate::tx::{Stop, Tx};

/// Categories that only the engine gives.
const RESERVED: [&str; 5] = ["deadline", "reclaim_limit", "operator", "budget", "suspension_timeout"];

pub fn validate(cmd: &Fail, limits: &Limits) -> Result<(), Rejection> {
    check_token("category", &cmd.category, CATEGORY_MAX)?;
    if RESERVED.contains(&&*cmd.category) {
        return Err(Rejection::invalid("category", "is one that only the engine gives"));
    }
    check_text("message", &cmd.message, FAILURE_MESSAGE_MAX)?;
    validate_payload("detail", &cmd.detail, FAILURE_DETAIL_MAX)?;
    steps::validate(&cmd.steps, Payload::len_of(&cmd.detail), limits)?;
    match cmd.retry {
        RetryWish::AfterMs(ms) => check_range("retry", ms, 0, BACKOFF_MS_MAX),
        RetryWish::Policy | RetryWish::Never => Ok(()),
    }
}

pub fn fail(tx: &mut Tx<'_>, who: &Principal, cmd: &Fail) -> Result<Reply, Stop> {
    let mut execution = visible(tx, who, cmd.id, PartMask::NONE)?;
    if let Some(reply) = fence::admit(tx, &execution, cmd.fence, Verb::Fail)? {
        return Ok(reply);
    }
    steps::record(tx, &mut execution, &cmd.steps)?;
    if let Some(open) = &mut execution.hot.open {
        open.set_detail(cmd.detail.as_ref().map(|detail| detail.bytes.clone()));
    }
    let failing = Failing {
        category: cmd.category.clone(),
        message: cmd.message.clone(),
        detail: Content::of(cmd.detail.as_ref().map(|detail| &detail.content_type)),
        wish: cmd.retry,
        entropy: cmd.entropy,
        timed_out: false,
    };
    let after = after_failure(tx, execution, failing, &who.name)?;
    Ok(Reply::Failed { after, repeated: false })
}

/// A failure of the running attempt.
pub(super) struct Failing {
    pub category: Text,
    pub message: Text,
    pub detail: Content,
    pub wish: RetryWish,
    pub entropy: u64,
    /// The attempt's time ran out; the worker said nothing.
    pub timed_out: bool,
}

/// Ends the running attempt as failed and decides what follows.
pub(super) fn after_failure(
    tx: &mut Tx<'_>,
    mut execution: Execution,
    failing: Failing,
    by: &Text,
) -> Result<AfterFailure, Stop> {
    // A cancel that was asked for comes before the end of the flow, as it does for a lease that is lost.
    let asked = matches!(&execution.hot.state, State::Active { cancel: Some(_), .. });
    let closed = if asked { None } else { flow::decide::closed_for(tx, &execution)? };
    let after = match closed {
        Some(_) => AfterFailure::Ended { outcome: Outcome::Cancelled, reason: Reason::Flow },
        None => decide(&execution, &failing, tx.now()),
    };
    let lease = if failing.timed_out { LeaseEnd::TimedOut } else { LeaseEnd::Failed(after) };
    let mut failure =
        Failure { category: failing.category, message: failing.message, retry_at: None, detail: failing.detail };
    match after {
        AfterFailure::Retry { retry_at, retries_left } => {
            failure.retry_at = Some(retry_at);
            execution.hot.retries_used += 1;
            let (category, message) = (failure.category.clone(), failure.message.clone());
            emit(tx, &execution, by, Fact::RetryScheduled { category, message, retry_at, retries_left });
            let of = execution.hot.attempts - 1;
            let requeue = Requeue {
                lease,
                attempt: AttemptState::Failed,
                failure: Some(failure),
                hold: None,
                not_before: Some((retry_at, Why::RetryBackoff)),
                next: Next::Retry { of },
            };
            settle::requeue(tx, execution, requeue)?;
        }
        AfterFailure::Ended { outcome, reason } => {
            let (by, cascade) = match &execution.hot.state {
                State::Active { cancel: Some(cancel), .. } => {
                    (cancel.by.clone(), cancel.cascade.then(|| cancel.reason.clone()))
                }
                _ => match &closed {
                    Some(ending) => (ending.by.clone(), Some(ending.cause.reason())),
                    None => (by.clone(), None),
                },
            };
            let attempt = AttemptState::Failed;
            let end = End { outcome, reason, by, attempt, failure: Some(failure), lease, cascade };
            finish::finish(tx, execution, end)?;
        }
    }
    Ok(after)
}

/// The first row that applies: cancel requested, not retryable, retries used up, no time left, retry.
fn decide(execution: &Execution, failing: &Failing, now: Time) -> AfterFailure {
    let (hot, retry) = (&execution.hot, &execution.spec.policy.retry);
    if let State::Active { cancel: Some(cancel), .. } = &hot.state {
        return AfterFailure::Ended { outcome: Outcome::Cancelled, reason: cancel.why };
    }
    let ended = |reason| match failing.timed_out {
        true => AfterFailure::Ended { outcome: Outcome::Expired, reason: Reason::AttemptTimeout },
        false => AfterFailure::Ended { outcome: Outcome::Failed, reason },
    };
    let category = &failing.category;
    let excluded =
        retry.never_on.contains(category) || !(retry.retry_on.is_empty() || retry.retry_on.contains(category));
    if failing.wish == RetryWish::Never || excluded {
        return ended(Reason::NotRetryable);
    }
    if hot.retries_used >= retry.max_retries {
        return ended(Reason::RetriesExhausted);
    }
    let wait_ms = match failing.wish {
        RetryWish::AfterMs(ms) => ms,
        _ => backoff::retry_ms(retry, hot.retries_used, failing.entropy),
    };
    let retry_at = now + wait_ms;
    if hot.deadline_at.is_some_and(|deadline| retry_at >= deadline) {
        return ended(Reason::NoTimeForRetry);
    }
    AfterFailure::Retry { retry_at, retries_left: retry.max_retries - hot.retries_used - 1 }
}
