//! The client: typed calls to a server or to an engine in this process.

mod connect;
mod flow;
mod flow_handle;
mod methods;
mod run;
mod submit;

pub use crate::transport::{Notices, Tiding};
pub use connect::Connect;
pub use flow::{Flow, FlowEdge};
pub use flow_handle::{CancellingFlow, FlowHandle};
pub use run::{Cancelling, NoResult, Replaying, Run};
pub use submit::Submission;
pub(crate) use submit::ms;

use crate::Error;
use crate::keyed;
use crate::layer::Retry;
use crate::transport::{Origin, Transport};
use crate::world::World;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tower::{Layer, Service, ServiceExt};
use weft_api::{Args, Call, Operation, Reply};

type Wrap = Arc<dyn Fn(Transport) -> Transport + Send + Sync>;

/// Makes calls. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Client {
    origin: Origin,
    retry: Retry,
    layers: Vec<Wrap>,
    /// The origin with all layers around it.
    transport: Transport,
}

impl Client {
    /// A client of the server at `url`; `http://127.0.0.1:7700` is where `weft dev` listens.
    pub fn connect(url: impl Into<String>) -> Connect {
        Connect::new(url.into())
    }

    /// A client of an engine in this process, in the namespace `default`.
    #[cfg(feature = "embedded")]
    pub fn embedded(engine: weft_engine::Engine) -> Self {
        Self::of(Origin::Embedded(crate::transport::Embedded::new(engine)), Retry::default())
    }

    /// A client whose calls go to this service, whatever it does with them.
    pub fn over<S>(service: S) -> Self
    where
        S: Service<Call, Response = Reply, Error = Error> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        Self::of(Origin::Other(Transport::new(service)), Retry::default())
    }

    pub(crate) fn of(origin: Origin, retry: Retry) -> Self {
        let transport = origin.transport();
        Self { origin, retry, layers: Vec::new(), transport }.wrapped()
    }

    /// Puts every layer around the origin again.
    fn wrapped(mut self) -> Self {
        let retrying = Transport::new(self.retry.layer(self.origin.transport()));
        self.transport = self.layers.iter().fold(retrying, |inner, wrap| wrap(inner));
        self
    }

    /// The same client in another namespace. One over a service of somebody else's stays where it is.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        let namespace = namespace.into();
        self.origin = match self.origin {
            Origin::Http(http) => Origin::Http(http.in_namespace(&namespace)),
            #[cfg(feature = "embedded")]
            Origin::Embedded(embedded) => Origin::Embedded(embedded.in_namespace(namespace)),
            other @ Origin::Other(_) => other,
        };
        self.wrapped()
    }

    /// Who calls an engine in this process, as its records will say. A server knows that by the key, so that this
    /// changes nothing for one.
    #[cfg(feature = "embedded")]
    pub fn principal(mut self, principal: impl Into<String>) -> Self {
        if let Origin::Embedded(embedded) = self.origin {
            self.origin = Origin::Embedded(embedded.called_by(principal.into()));
        }
        self.wrapped()
    }

    /// How calls are repeated.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Retry { world: self.retry.world, ..retry };
        self.wrapped()
    }

    /// The same client without repeats. A call has the time it had, but no more than this.
    pub(crate) fn once(&self, most: Duration) -> Self {
        let timeout = self.retry.timeout.min(most);
        self.clone().retry(Retry::default().times(0).timeout(timeout))
    }

    /// Adds a layer around all others. It sees every call once, with its repeats inside.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Transport> + Send + Sync + 'static,
        L::Service: Service<Call, Response = Reply, Error = Error> + Clone + Send + Sync + 'static,
        <L::Service as Service<Call>>::Future: Send + 'static,
    {
        self.layers.push(Arc::new(move |inner| Transport::new(layer.layer(inner))));
        self.wrapped()
    }

    /// Where keys, jitter and the time of day come from.
    #[cfg(feature = "test")]
    pub(crate) fn in_world(mut self, world: World) -> Self {
        self.retry.world = world;
        self.wrapped()
    }

    pub(crate) fn world(&self) -> &World {
        &self.retry.world
    }

    /// Opens the stream of what a worker process should know about the leases it holds: cancels, lost leases, drains. It
    /// goes on after the number `last` that was heard before, if it is given. None if the calls go to a service of
    /// somebody else's, which has no such stream. A worker listens by itself; this is for whoever writes another.
    ///
    /// Notices are hints: a stream may end and miss some, and whoever holds a lease learns the same from its next
    /// renewal or heartbeat.
    pub async fn notices(&self, instance: &str, last: Option<u64>) -> Result<Option<Notices>, Error> {
        let time = self.retry.timeout;
        let gone = |_| Err(Error::no_answer(format!("there was no answer within {time:?}")));
        tokio::time::timeout(time, self.origin.notices(instance, last)).await.unwrap_or_else(gone)
    }

    /// Reads a page of the server that is no operation, such as `/readyz` or `/metrics`, once: its status, whatever that
    /// is, and its text. Nothing if there is no server.
    pub async fn page(&self, path: &str) -> Result<Option<(u16, String)>, Error> {
        let Origin::Http(http) = &self.origin else { return Ok(None) };
        match tokio::time::timeout(self.retry.timeout, http.page(path)).await {
            Ok(page) => page.map(Some),
            Err(_) => Err(Error::no_answer(format!("`{}` gave no answer in time", http.url()))),
        }
    }

    /// The address of the server, if there is one.
    pub fn url(&self) -> Option<&str> {
        match &self.origin {
            Origin::Http(http) => Some(http.url()),
            #[cfg(feature = "embedded")]
            Origin::Embedded(_) => None,
            Origin::Other(_) => None,
        }
    }

    /// Makes one call of any operation.
    pub async fn call<O: Operation>(&self, args: Args<O::Path, O::Query, O::Body>) -> Result<O::Reply, Error> {
        reply_of::<O>(self.dispatch(O::call(args)).await?)
    }

    /// Makes one call that bears no key but the one that the caller gave. The call must not be sent twice.
    pub(crate) async fn call_as_it_is<O: Operation>(
        &self,
        args: Args<O::Path, O::Query, O::Body>,
    ) -> Result<O::Reply, Error> {
        reply_of::<O>(self.transport.clone().oneshot(O::call(args)).await?)
    }

    /// Makes one call, whatever it is.
    pub async fn dispatch(&self, mut call: Call) -> Result<Reply, Error> {
        let minted = keyed::mint(&mut call, self.world());
        let mut reply = self.transport.clone().oneshot(call).await?;
        minted.own(&mut reply);
        Ok(reply)
    }
}

fn reply_of<O: Operation>(reply: Reply) -> Result<O::Reply, Error> {
    O::reply(reply).ok_or_else(|| Error::Decode {
        message: format!("the reply to `{}` is one to something else", O::SPEC.id),
        source: None,
    })
}

/// Waits before something that failed `failures` times in a row is tried again.
pub(crate) async fn pause(failures: u32, error: &Error, world: &World) {
    tokio::time::sleep(back_off(failures, error.retry_after_ms(), world)).await;
}

/// How long: up to 50 ms, doubling, up to 5 s, and never less than the server said.
pub(crate) fn back_off(failures: u32, at_least_ms: Option<u64>, world: &World) -> Duration {
    let bound = 50_u64.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(5_000);
    // Half of it is certain, so that many who fail together neither hammer nor meet again.
    let ms = bound / 2 + world.up_to(bound / 2);
    Duration::from_millis(ms.max(at_least_ms.unwrap_or(0)))
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.url().unwrap_or("embedded"))
    }
}
