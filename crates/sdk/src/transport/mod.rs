//! How a call reaches what carries it out: one service from a call to its reply, whatever is behind it.

mod connect;
#[cfg(feature = "embedded")]
mod embedded;
mod http;
mod notices;

#[cfg(feature = "embedded")]
pub use embedded::Embedded;
pub use http::Http;
pub use notices::{Notices, Tiding};

use crate::Error;
use std::future::Future;
use std::pin::Pin;
use tower::util::BoxCloneSyncService;
use weft_api::{Call, Reply};

/// The one dispatch point: every call of a client goes through one of these, and layers are wrapped around it.
pub type Transport = BoxCloneSyncService<Call, Reply, Error>;

pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send>>;

tokio::task_local! {
    /// The trace of the execution whose handler runs.
    static TRACE: String;
}

/// Runs something whose calls belong to this trace.
pub(crate) async fn traced<F: Future>(trace: Option<String>, run: F) -> F::Output {
    match trace {
        Some(trace) => TRACE.scope(trace, run).await,
        None => run.await,
    }
}

/// The trace that a call of this task belongs to: that of what goes on now where traces are made, else as it was given.
fn traceparent() -> Option<String> {
    weft_api::trace::current().or_else(|| TRACE.try_with(Clone::clone).ok())
}

/// What carries out the calls of a client.
#[derive(Clone)]
pub enum Origin {
    Http(Http),
    #[cfg(feature = "embedded")]
    Embedded(Embedded),
    Other(Transport),
}

impl Origin {
    pub fn transport(&self) -> Transport {
        match self {
            Origin::Http(http) => Transport::new(http.clone()),
            #[cfg(feature = "embedded")]
            Origin::Embedded(embedded) => Transport::new(embedded.clone()),
            Origin::Other(transport) => transport.clone(),
        }
    }
}
