//! How a call reaches what carries it out: one service from a call to its reply, whatever is behind it.

mod connect;
#[cfg(feature = "embedded")]
mod embedded;
mod http;
mod notices;

#[cfg(feature = "embedded")]
pub use embedded::Embedded;
pub use http::Http;
pub use notices::Notices;

use crate::Error;
use std::future::Future;
use std::pin::Pin;
use tower::util::BoxCloneSyncService;
use weft_api::{Call, Reply};

/// The one dispatch point: every call of a client goes through one of these, and layers are wrapped around it.
pub type Transport = BoxCloneSyncService<Call, Reply, Error>;

pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send>>;

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
