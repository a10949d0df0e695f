//! What a handler ends with, and what becomes of it.

use super::failure::{Failure, Kind};
use super::limits;
use crate::client::ms;
use crate::payload::{self, Codec};
use bytes::Bytes;
use serde::Serialize;
use weft_api::Payload;
use weft_api::work::{RetryWish, Settle, SettleVerb};

/// How a task ended. Layers around handlers see it.
#[derive(Debug)]
pub enum Outcome {
    Completed(Option<Payload>),
    Failed(Failure),
}

impl Outcome {
    pub fn is_success(&self) -> bool {
        matches!(self, Outcome::Completed(_))
    }

    pub(crate) fn of<R: IntoResult, E: Into<Failure>>(ended: Result<R, E>) -> Self {
        match ended.map_err(Into::into).and_then(IntoResult::into_result) {
            Ok(result) => Outcome::Completed(result),
            Err(failure) => Outcome::Failed(failure),
        }
    }

    /// The item that tells the server, if anything is to be told.
    pub(crate) fn settle(self) -> Option<Settle> {
        let failure = match self {
            Outcome::Completed(result) => {
                return Some(Settle { verb: SettleVerb::Complete, result, ..Settle::default() });
            }
            Outcome::Failed(failure) => failure,
        };
        Some(match failure.kind {
            Kind::Retry => fail(failure, RetryWish::Policy),
            Kind::After(after) => fail(failure, RetryWish::AfterMs(ms(after))),
            Kind::Never => fail(failure, RetryWish::Never),
            Kind::Cancelled => cancel(&failure.message),
            Kind::Delay(delay) => {
                if delay > limits::DELAY_MAX {
                    tracing::warn!(?delay, longest = ?limits::DELAY_MAX, "a delay is too long; the longest is taken");
                }
                let delay_ms = Some(ms(delay.min(limits::DELAY_MAX)));
                Settle { verb: SettleVerb::Delay, delay_ms, ..Settle::default() }
            }
            // Told by what is no longer so: the same attempt goes on elsewhere.
            Kind::Told => hand_back(),
            Kind::Pause | Kind::Lost => return None,
        })
    }
}

/// A failure as the server takes it. What had to be changed for that is said in its message.
fn fail(failure: Failure, retry: RetryWish) -> Settle {
    let mut notes = Vec::new();
    let given = failure.category.unwrap_or_else(|| "application".to_string());
    let category = limits::category(&given);
    if category != given {
        notes.push(format!("the category was `{}`", limits::cut(given, limits::CATEGORY_MAX)));
    }
    let detail = failure.detail.filter(|detail| {
        let fits = detail.bytes.len() <= limits::FAILURE_DETAIL_MAX;
        if !fits {
            notes.push(format!("a detail of {} bytes was left out", detail.bytes.len()));
        }
        fits
    });
    let longest = ms(limits::RETRY_AFTER_MAX);
    let retry = match retry {
        RetryWish::AfterMs(after) if after > longest => {
            notes.push(format!("a retry after {}h was asked for, the longest is 24h", after / 3_600_000));
            RetryWish::AfterMs(longest)
        }
        retry => retry,
    };
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
    let message = limits::cut(failure.message, limits::FAILURE_MESSAGE_MAX - notes.len()) + &notes;
    Settle {
        verb: SettleVerb::Fail,
        category: Some(category),
        message: Some(message),
        detail,
        retry: Some(retry),
        ..Settle::default()
    }
}

/// Hands work back: another worker, or this one, goes on with the same attempt.
pub(crate) fn hand_back() -> Settle {
    Settle { verb: SettleVerb::Delay, delay_ms: Some(0), ..Settle::default() }
}

pub(crate) fn cancel(reason: &str) -> Settle {
    let reason = limits::cut(reason.to_string(), limits::REASON_MAX);
    Settle { verb: SettleVerb::Cancel, reason: Some(reason), ..Settle::default() }
}

/// What may be the result of a handler.
pub trait IntoResult {
    fn into_result(self) -> Result<Option<Payload>, Failure>;
}

/// A value as JSON: an input that a handler takes, or a result that it gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResult for Json<T> {
    fn into_result(self) -> Result<Option<Payload>, Failure> {
        payload::json(&self.0).map(Some).map_err(|error| Failure::permanent(error.to_string()).category("result"))
    }
}

/// A value in the format `C`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coded<C, T>(pub T, pub std::marker::PhantomData<C>);

impl<C: Codec, T: Serialize> IntoResult for Coded<C, T> {
    fn into_result(self) -> Result<Option<Payload>, Failure> {
        let encoded = payload::encode::<C, T>(&self.0);
        encoded.map(Some).map_err(|error| Failure::permanent(error.to_string()).category("result"))
    }
}

impl IntoResult for () {
    fn into_result(self) -> Result<Option<Payload>, Failure> {
        Ok(None)
    }
}

impl IntoResult for Payload {
    fn into_result(self) -> Result<Option<Payload>, Failure> {
        Ok(Some(self))
    }
}

impl IntoResult for Option<Payload> {
    fn into_result(self) -> Result<Option<Payload>, Failure> {
        Ok(self)
    }
}

impl IntoResult for Bytes {
    fn into_result(self) -> Result<Option<Payload>, Failure> {
        Ok(Some(Payload::new(self, None)))
    }
}

impl IntoResult for String {
    fn into_result(self) -> Result<Option<Payload>, Failure> {
        Ok(Some(Payload::text(self)))
    }
}
