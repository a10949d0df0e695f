//! What a handler ends with, and what becomes of it.

use super::failure::{Failure, Kind};
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
        let Failure { kind, category, message, detail } = failure;
        let fail = |retry| {
            let category = category.or_else(|| Some("application".to_string()));
            let (message, retry) = (Some(message.clone()), Some(retry));
            Settle { verb: SettleVerb::Fail, category, message, detail, retry, ..Settle::default() }
        };
        Some(match kind {
            Kind::Retry => fail(RetryWish::Policy),
            Kind::After(after) => fail(RetryWish::AfterMs(ms(after))),
            Kind::Never => fail(RetryWish::Never),
            Kind::Cancelled => cancel(&message),
            Kind::Delay(delay) => Settle { verb: SettleVerb::Delay, delay_ms: Some(ms(delay)), ..Settle::default() },
            Kind::Pause | Kind::Lost => return None,
        })
    }
}

/// Hands work back: another worker, or this one, goes on with the same attempt.
pub(crate) fn hand_back() -> Settle {
    Settle { verb: SettleVerb::Delay, delay_ms: Some(0), ..Settle::default() }
}

pub(crate) fn cancel(reason: &str) -> Settle {
    Settle { verb: SettleVerb::Cancel, reason: Some(reason.to_string()), ..Settle::default() }
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
