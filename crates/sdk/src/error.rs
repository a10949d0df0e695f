//! Why a call has no reply. Waiting for work or for a result is not among it.

use std::error::Error as StdError;
use weft_api::{Class, Code, Problem};

type Source = Box<dyn StdError + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server has answered, and the answer is no.
    #[error("{0}")]
    Rejected(Box<Problem>),
    /// There was no answer, or none of Weft's.
    #[error("{message}")]
    Transport {
        /// The same call may be answered later.
        retryable: bool,
        message: String,
        /// How long to wait at least before that, if something on the way said so.
        retry_after_ms: Option<u64>,
        source: Option<Source>,
    },
    /// Something arrived that is not what was expected, or a value cannot be written as what it is sent as.
    #[error("{message}")]
    Decode { message: String, source: Option<Source> },
    /// What was set cannot work; nothing was sent.
    #[error("{0}")]
    Config(String),
}

impl Error {
    /// The stable name of the refusal, if it is one.
    pub fn code(&self) -> Option<Code> {
        match self {
            Error::Rejected(problem) => Some(problem.code),
            _ => None,
        }
    }

    /// What to do about the refusal, if it is one.
    pub fn class(&self) -> Option<Class> {
        match self {
            Error::Rejected(problem) => Some(problem.class),
            _ => None,
        }
    }

    /// True if the same call may succeed later, unchanged.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Rejected(problem) => matches!(problem.status, 408 | 429 | 503),
            Error::Transport { retryable, .. } => *retryable,
            Error::Decode { .. } | Error::Config(_) => false,
        }
    }

    /// How long to wait at least before the same call, as the server said.
    pub fn retry_after_ms(&self) -> Option<u64> {
        match self {
            Error::Rejected(problem) => problem.retry_after_ms,
            Error::Transport { retry_after_ms, .. } => *retry_after_ms,
            Error::Decode { .. } | Error::Config(_) => None,
        }
    }

    /// True if the call may have been carried out although it was refused.
    pub(crate) fn is_outcome_unknown(&self) -> bool {
        match self {
            Error::Rejected(problem) => problem.fields.get("outcome_unknown") != Some(&false.into()),
            _ => true,
        }
    }

    /// True if the server's certificate is not trusted, or if the address has `http:` for a port with TLS or the reverse.
    /// A client that has never reached its server needs other settings then.
    pub(crate) fn is_misconfigured(&self) -> bool {
        let mut causes = std::iter::successors(Some(self as &(dyn StdError + 'static)), |&cause| cause.source());
        let is_garbled = |cause: &(dyn StdError + 'static)| cause.downcast_ref().is_some_and(hyper::Error::is_parse);
        weft_tls::is_distrust(self) || weft_tls::is_no_tls(self) || causes.any(is_garbled)
    }

    pub(crate) fn unreachable(message: impl Into<String>, source: impl Into<Source>) -> Self {
        let source = Some(source.into());
        Error::Transport { retryable: true, message: message.into(), retry_after_ms: None, source }
    }

    pub(crate) fn no_answer(message: impl Into<String>) -> Self {
        Error::Transport { retryable: true, message: message.into(), retry_after_ms: None, source: None }
    }

    pub(crate) fn decode(message: impl Into<String>, source: impl Into<Source>) -> Self {
        Error::Decode { message: message.into(), source: Some(source.into()) }
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Error::Rejected(Box::new(problem))
    }
}
