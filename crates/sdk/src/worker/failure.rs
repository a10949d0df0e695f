//! How a handler says that it did not succeed.

use crate::payload;
use serde::Serialize;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;
use weft_api::Payload;

/// Why there is no result, and what is to happen. Any error becomes one by `?`: it is retried as the policy of the
/// execution says.
pub struct Failure {
    pub(crate) kind: Kind,
    pub(crate) category: Option<String>,
    pub(crate) message: String,
    pub(crate) detail: Option<Payload>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As the policy says
    Retry,
    After(Duration),
    Never,
    /// The holder cancels
    Cancelled,
    /// The same attempt goes on later
    Delay(Duration),
    /// The lease has ended with the call that made the pause
    Pause,
    /// A call of the context ended because the handler was told to stop
    Told,
    /// The lease is not ours any more, so that nothing can be sent
    Lost,
}

impl Failure {
    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, category: None, message: message.into(), detail: None }
    }

    /// Failed; the policy of the execution says whether and when it is tried again.
    pub fn retry(message: impl Into<String>) -> Self {
        Self::new(Kind::Retry, message)
    }

    /// Failed; tried again after this time, if retries are left.
    pub fn retry_after(after: Duration) -> Self {
        Self::new(Kind::After(after), "")
    }

    /// Failed for good.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::new(Kind::Never, message)
    }

    /// Cancelled by the handler itself, or in answer to a cancel.
    pub fn cancelled(reason: impl Into<String>) -> Self {
        Self::new(Kind::Cancelled, reason)
    }

    /// No failure: the same attempt goes on after this time, from the top and with the recorded steps.
    pub fn delay(delay: Duration) -> Self {
        Self::new(Kind::Delay(delay), "")
    }

    pub(crate) fn pause() -> Self {
        Self::new(Kind::Pause, "the execution pauses")
    }

    pub(crate) fn told(why: impl Into<String>) -> Self {
        Self::new(Kind::Told, why)
    }

    pub(crate) fn lost(why: impl Into<String>) -> Self {
        Self::new(Kind::Lost, why)
    }

    pub(crate) fn decode(message: impl Into<String>) -> Self {
        Self::permanent(message).category("decode")
    }

    /// The category that retry policies and people see; `application` unless given.
    pub fn category(mut self, category: impl Into<String>) -> Self {
        self.category = Some(category.into());
        self
    }

    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Facts for programs, as JSON. What cannot be written as JSON is left out.
    pub fn detail<T: Serialize + ?Sized>(mut self, detail: &T) -> Self {
        self.detail = payload::json(detail).ok();
        self
    }

    /// True for what `sleep` and the `wait_*` calls answer when the execution is handed back: nothing more is sent.
    pub fn is_pause(&self) -> bool {
        self.kind == Kind::Pause
    }

    fn set(mut self, kind: Kind) -> Self {
        if matches!(self.kind, Kind::Retry | Kind::After(_) | Kind::Never) {
            self.kind = kind;
        }
        self
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // Many errors say their cause already.
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = error.source();
        }
        Self::retry(message)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let category = self.category.as_deref().unwrap_or("application");
        write!(f, "Failure({:?}, `{category}`: {})", self.kind, self.message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Says about an error what is to happen, on its way out of a handler: `bank.pay(&order).await.retry_after(secs(30))?`.
/// A pause stays a pause.
pub trait OrFail<T> {
    fn retry_after(self, after: Duration) -> Result<T, Failure>;
    fn permanent(self) -> Result<T, Failure>;
    fn category(self, category: &str) -> Result<T, Failure>;
}

impl<T, E: Into<Failure>> OrFail<T> for Result<T, E> {
    fn retry_after(self, after: Duration) -> Result<T, Failure> {
        self.map_err(|error| error.into().set(Kind::After(after)))
    }

    fn permanent(self) -> Result<T, Failure> {
        self.map_err(|error| error.into().set(Kind::Never))
    }

    fn category(self, category: &str) -> Result<T, Failure> {
        self.map_err(|error| error.into().category(category))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the order was not paid")]
    struct Unpaid(#[source] std::io::Error);

    #[test]
    fn the_causes_of_an_error_are_in_the_message() {
        let failure = Failure::from(Unpaid(std::io::Error::other("connection reset")));
        assert_eq!((failure.kind, &*failure.message), (Kind::Retry, "the order was not paid: connection reset"));
    }

    #[test]
    fn a_pause_cannot_be_made_a_failure() {
        let failure = Err::<(), _>(Failure::pause()).retry_after(Duration::from_secs(1)).permanent().unwrap_err();
        assert!(failure.is_pause());
        let failure = Err::<(), _>(Failure::retry("x")).permanent().unwrap_err();
        assert_eq!(failure.kind, Kind::Never);
    }
}
