//! Connections to a server: plain, or encrypted with the server's certificate checked.

use crate::Error;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::Service;
use weft_tls::Trust;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects to the host and port of an address.
#[derive(Clone)]
pub struct Connector {
    pub trust: Arc<Trust>,
}

/// What the pool of the HTTP client needs to know of a failed connection.
type Connecting = Pin<Box<dyn Future<Output = Result<Link, Error>> + Send>>;

impl Service<http::Uri> for Connector {
    type Response = Link;
    type Error = Error;
    type Future = Connecting;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: http::Uri) -> Connecting {
        let trust = self.trust.clone();
        Box::pin(async move {
            let at = || uri.authority().map_or_else(String::new, ToString::to_string);
            match tokio::time::timeout(CONNECT_TIMEOUT, open(&trust, &uri)).await {
                Ok(opened) => opened,
                Err(_) => Err(Error::no_answer(format!("could not connect to `{}` within 5s", at()))),
            }
        })
    }
}

async fn open(trust: &Trust, uri: &http::Uri) -> Result<Link, Error> {
    let secure = uri.scheme() == Some(&http::uri::Scheme::HTTPS);
    let host = uri.host().unwrap_or_default();
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let unreachable = |error: io::Error| {
        let hint = if error.kind() == io::ErrorKind::ConnectionRefused { "; is the server running?" } else { "" };
        Error::unreachable(format!("could not connect to `{host}:{port}`: {error}{hint}"), error)
    };
    let stream = TcpStream::connect((host, port)).await.map_err(unreachable)?;
    // Requests are written whole; waiting for more to send would only delay them.
    stream.set_nodelay(true).map_err(unreachable)?;
    if !secure {
        return Ok(Link::Plain(TokioIo::new(stream)));
    }
    let config = trust.config().map_err(|error| Error::Config(error.to_string()))?;
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| Error::Config(format!("`{host}` is no name that a certificate could be for")))?;
    match TlsConnector::from(config).connect(name, stream).await {
        Ok(stream) => Ok(Link::Tls(Box::new(TokioIo::new(stream)))),
        Err(error) => {
            let why = weft_tls::advice(&error, "ca_file").unwrap_or_else(|| error.to_string());
            Err(Error::unreachable(format!("could not connect to `{host}:{port}`: {why}"), error))
        }
    }
}

/// One connection.
pub enum Link {
    Plain(TokioIo<TcpStream>),
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Connection for Link {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Link {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Link::Plain(io) => Pin::new(io).poll_read(cx, buf),
            Link::Tls(io) => Pin::new(io).poll_read(cx, buf),
        }
    }
}

impl Write for Link {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Link::Plain(io) => Pin::new(io).poll_write(cx, buf),
            Link::Tls(io) => Pin::new(io).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Link::Plain(io) => Pin::new(io).poll_write_vectored(cx, bufs),
            Link::Tls(io) => Pin::new(io).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Link::Plain(io) => io.is_write_vectored(),
            Link::Tls(io) => io.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Link::Plain(io) => Pin::new(io).poll_flush(cx),
            Link::Tls(io) => Pin::new(io).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Link::Plain(io) => Pin::new(io).poll_shutdown(cx),
            Link::Tls(io) => Pin::new(io).poll_shutdown(cx),
        }
    }
}
