//! Sockets: accepting, speaking HTTP/1.1 and HTTP/2 with times that are set, and stopping in order.

use crate::app::App;
use crate::handle::Peer;
use crate::routes::router;
use crate::tls::Identity;
use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower::ServiceExt;

const HEADER_TIME: Duration = Duration::from_secs(10);
const HEADERS_MAX: usize = 32 << 10;
const STREAMS_MAX: u32 = 256;
const RESETS_MAX: usize = 100;
/// How often the certificate files are looked at.
const REFRESH: Duration = Duration::from_secs(10);

/// Why a server could not listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("cannot listen on {address}: {why}")]
    Bind { address: SocketAddr, why: std::io::Error },
    #[error("cannot listen on {address}: this server asks for no keys, so only this machine may reach it; use 127.0.0.1")]
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
}

impl Listener {
    pub async fn bind(app: &App, address: SocketAddr, identity: Option<Identity>) -> Result<Self, ListenError> {
        if app.is_dev() && !address.ip().is_loopback() {
            return Err(ListenError::Open { address });
        }
        let socket = TcpListener::bind(address).await.map_err(|why| ListenError::Bind { address, why })?;
        Ok(Self { app: app.clone(), socket, identity: identity.map(Arc::new) })
    }

    /// The address, with the port that was found if none was given.
    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)))
    }

    /// Serves until `stop`, then stops in order: no new calls, those that wait are let go, the others are answered.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Stopped {
        let router = router(self.app.clone());
        self.run_with(router, stop).await
    }

    /// The same for a router of the caller's, which should have Weft's in it.
    pub async fn run_with(self, router: Router, stop: impl Future<Output = ()>) -> Stopped {
        let graceful = GracefulShutdown::new();
        let connections = Arc::new(Semaphore::new(self.app.shared.options.connections_max));
        let builder = builder();
        let mut stop = std::pin::pin!(stop);
        let mut refresh = tokio::time::interval(REFRESH);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                _ = refresh.tick(), if self.identity.is_some() => self.refresh(),
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, peer)) => {
                        let Ok(permit) = connections.clone().try_acquire_owned() else {
                            // Over the bound a connection is closed at once: the caller sees it and comes back.
                            self.app.shared.metrics.refused("busy");
                            continue;
                        };
                        let (router, identity) = (router.clone(), self.identity.clone());
                        let (builder, watcher) = (builder.clone(), graceful.watcher());
                        tokio::spawn(async move {
                            serve(stream, peer, router, identity, builder, watcher).await;
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
        drop(self.socket);
        let shared = &self.app.shared;
        shared.drain.begin();
        self.app.engine().drain();
        let clean = shared.drain.wait(shared.options.drain).await;
        // What has been answered is on its way; connections that only idle are closed.
        let closed = tokio::time::timeout(Duration::from_secs(1), graceful.shutdown()).await.is_ok();
        if clean && (closed || shared.drain.in_flight() == 0) { Stopped::Clean } else { Stopped::Cut }
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
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIME).max_buf_size(HEADERS_MAX + (8 << 10)).keep_alive(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADERS_MAX as u32)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .keep_alive_interval(Duration::from_secs(30));
    builder
}

async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    identity: Option<Arc<Identity>>,
    builder: Builder<TokioExecutor>,
    watcher: hyper_util::server::graceful::Watcher,
) {
    // Replies are written whole: waiting to fill a packet only makes them late.
    let _ = stream.set_nodelay(true);
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        router.clone().oneshot(request.map(axum::body::Body::new))
    });
    let ended = match identity {
        None => watcher.watch(builder.serve_connection(TokioIo::new(stream), service).into_owned()).await,
        Some(identity) => {
            let accept = tokio_rustls::TlsAcceptor::from(identity.config()).accept(stream);
            match tokio::time::timeout(HEADER_TIME, accept).await {
                Ok(Ok(stream)) => watcher.watch(builder.serve_connection(TokioIo::new(stream), service).into_owned()).await,
                Ok(Err(_)) | Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, %peer, "a connection ended");
    }
}
