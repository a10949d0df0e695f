//! Sockets: accepting, speaking HTTP/1.1 and HTTP/2 with times that are set, and stopping in order.

use crate::app::App;
use crate::around::{HEADERS_MAX, fresh_id, last_words};
use crate::connection::{Activity, Answering, Observed, Silence};
use crate::identify::{Peer, Subject};
use crate::routes::{metrics_router, router};
use crate::tls::{self, Identity};
use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use bytes::Bytes;
use http::uri::Scheme;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower::ServiceExt;

/// Twice what is allowed is still read, so that a caller is told in words that it is too much.
const HEAD_READ: usize = 2 * HEADERS_MAX;
/// Room for each of them is made for every request.
const HEADERS_COUNT_MAX: usize = 512;
const STREAMS_MAX: u32 = 256;
const RESETS_MAX: usize = 100;
/// How often the certificate files are looked at.
const REFRESH: Duration = Duration::from_secs(10);
/// How long answers may take on their way out when the server stops.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why a server could not listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("cannot listen on {address}: {why}")]
    Bind { address: SocketAddr, why: std::io::Error },
    #[error(
        "cannot listen on {address}: this server asks for no keys, so only this machine may reach it; use 127.0.0.1"
    )]
    Open { address: SocketAddr },
}

/// How a server stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Every call was answered.
    Clean,
    /// Some calls took longer than the server may take to stop.
    Cut,
}

/// A socket that callers can already reach.
pub struct Listener {
    app: App,
    socket: TcpListener,
    identity: Option<Arc<Identity>>,
    router: Router,
}

impl Listener {
    pub async fn bind(app: &App, address: SocketAddr, identity: Option<Identity>) -> Result<Self, ListenError> {
        Self::bind_with(app, address, identity, router(app.clone())).await
    }

    /// For metrics and health only, which need no key here: whoever can reach the address may read them.
    pub async fn bind_metrics(app: &App, address: SocketAddr) -> Result<Self, ListenError> {
        Self::bind_with(app, address, None, metrics_router(app.clone())).await
    }

    /// The same for a router of the caller's, which should have Weft's in it.
    pub async fn bind_with(
        app: &App,
        address: SocketAddr,
        identity: Option<Identity>,
        router: Router,
    ) -> Result<Self, ListenError> {
        if app.is_dev() && !address.ip().is_loopback() {
            return Err(ListenError::Open { address });
        }
        let socket = TcpListener::bind(address).await.map_err(|why| ListenError::Bind { address, why })?;
        Ok(Self { app: app.clone(), socket, identity: identity.map(Arc::new), router })
    }

    /// The address, with the port that was found if none was given.
    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)))
    }

    /// The certificate of this listener, to be read again when its files are known to have changed.
    pub fn identity(&self) -> Option<Arc<Identity>> {
        self.identity.clone()
    }

    /// Serves until `stop`, then stops in order: no new calls, those that wait are let go, the others are answered. The
    /// engine is left running; its owner shuts it down afterwards.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Stopped {
        let graceful = GracefulShutdown::new();
        let connections = Arc::new(Semaphore::new(self.app.shared.options.connections_max));
        tokio::select! {
            biased;
            () = stop => {}
            () = self.accept(&graceful, &connections) => {}
        }
        let shared = &self.app.shared;
        // Workers hear that the node stops before their streams end.
        self.app.engine().drain();
        shared.drain.begin();
        // Who comes now is told that the node stops, instead of finding nobody.
        let clean = tokio::select! {
            biased;
            clean = shared.drain.wait(shared.options.drain) => clean,
            () = self.accept(&graceful, &connections) => false,
        };
        drop(self.socket);
        // What has been answered is on its way; connections that only idle are closed.
        let closed = tokio::time::timeout(LAST_WORDS, graceful.shutdown()).await.is_ok();
        if clean && (closed || shared.drain.in_flight() == 0) { Stopped::Clean } else { Stopped::Cut }
    }

    /// Takes connections for ever.
    async fn accept(&self, graceful: &GracefulShutdown, connections: &Arc<Semaphore>) {
        let builder = builder();
        let mut refresh = tokio::time::interval(REFRESH);
        loop {
            tokio::select! {
                biased;
                _ = refresh.tick(), if self.identity.is_some() => self.refresh(),
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, peer)) => {
                        let Ok(permit) = connections.clone().try_acquire_owned() else {
                            self.app.shared.metrics.refused("busy");
                            tokio::spawn(turn_away(self.app.clone(), stream, self.identity.is_none()));
                            continue;
                        };
                        let connection = Connection {
                            app: self.app.clone(),
                            peer,
                            router: self.router.clone(),
                            builder: builder.clone(),
                            watcher: graceful.watcher(),
                        };
                        let identity = self.identity.clone();
                        tokio::spawn(async move {
                            connection.accept(stream, identity).await;
                            drop(permit);
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "could not accept a connection");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
            }
        }
    }

    fn refresh(&self) {
        let Some(identity) = &self.identity else { return };
        match identity.refresh() {
            Ok(true) => tracing::info!("the certificate was read again"),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "could not read the certificate again; the old one stays"),
        }
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // Silence is timed by the connection, which can tell a request that is slow to come from one that is not there.
    builder.http1().header_read_timeout(None).max_buf_size(HEAD_READ).max_headers(HEADERS_COUNT_MAX).keep_alive(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_READ as u32)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .keep_alive_interval(Duration::from_secs(30));
    builder
}

/// Tells one that is too many to come back, if it can be told without a handshake.
async fn turn_away(app: App, mut stream: TcpStream, plain: bool) {
    if !plain {
        return;
    }
    let problem = weft_api::Problem::new(weft_api::Code::Busy, "too many connections to this node").retry_after(1_000);
    let words = last_words(&app, fresh_id(), problem);
    let told = async {
        stream.write_all(&words).await?;
        stream.shutdown().await
    };
    // One that does not listen is closed all the same.
    let _ = tokio::time::timeout(Duration::from_secs(1), told).await;
}

/// What it takes to serve one connection.
struct Connection {
    app: App,
    peer: SocketAddr,
    router: Router,
    builder: Builder<TokioExecutor>,
    watcher: Watcher,
}

impl Connection {
    async fn accept(self, stream: TcpStream, identity: Option<Arc<Identity>>) {
        // Replies are written whole: waiting to fill a packet only makes them late.
        let _ = stream.set_nodelay(true);
        let Some(identity) = identity else { return self.serve(stream, Scheme::HTTP, None).await };
        let handshake = tokio_rustls::TlsAcceptor::from(identity.config()).accept(stream);
        if let Ok(Ok(stream)) = tokio::time::timeout(self.silence().head, handshake).await {
            let subject = stream.get_ref().1.peer_certificates().and_then(<[_]>::first).and_then(tls::subject);
            self.serve(stream, Scheme::HTTPS, subject.map(Subject)).await;
        }
    }

    fn silence(&self) -> Silence {
        self.app.shared.options.silence
    }

    async fn serve(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        scheme: Scheme,
        subject: Option<Subject>,
    ) {
        let (silence, activity) = (self.silence(), Activity::new());
        let Self { app, peer, router, builder, watcher } = self;
        let io = TokioIo::new(Observed::new(stream, app.clone(), activity.clone()));
        let (proxies, seen) = (app.shared.options.proxies.clone(), activity.clone());
        let bodies = app.shared.budget.connection();
        let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
            let answering = seen.answering();
            let client = proxies.client(peer, request.headers());
            request.extensions_mut().insert(Peer(client));
            request.extensions_mut().insert(scheme.clone());
            if let Some(subject) = &subject {
                request.extensions_mut().insert(subject.clone());
            }
            request.extensions_mut().insert(seen.clone());
            request.extensions_mut().insert(bodies.clone());
            let answer = router.clone().oneshot(request.map(Body::new));
            async move { Ok::<_, Infallible>(answer.await?.map(|body| Counted { body, _answering: answering })) }
        });
        tokio::select! {
            biased;
            ended = watcher.watch(builder.serve_connection(io, service).into_owned()) => {
                if let Err(error) = ended {
                    tracing::debug!(%error, %peer, "a connection ended");
                }
            }
            () = activity.is_silent(silence) => tracing::debug!(%peer, "a connection said nothing for too long"),
        }
    }
}

/// The body of a reply: as long as it lasts the request is being answered.
struct Counted {
    body: Body,
    _answering: Answering,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
