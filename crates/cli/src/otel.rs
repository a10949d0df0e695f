//! Sends traces by OTLP, as protobuf over HTTP, to `otel.endpoint`. Spans are sampled and gathered by the SDK and sent
//! from its own thread; a collector that is away costs traces and nothing else.

use anyhow::{Context, Result};
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tracing::{Level, Span};
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt};
use tracing_subscriber::filter::{Filtered, Targets};
use tracing_subscriber::{Layer as _, Registry};
use weft_api::trace;
use weft_config::{Settings, keys};

const TIMEOUT: Duration = Duration::from_secs(10);
/// A collector answers with next to nothing.
const ANSWER_MAX: usize = 64 << 10;

pub type Layer = Filtered<OpenTelemetryLayer<Registry, SdkTracer>, Targets, Registry>;

/// Sends what was gathered when it is dropped.
pub struct Guard(Option<SdkTracerProvider>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(provider) = self.0.take()
            && let Err(error) = provider.shutdown()
        {
            tracing::warn!(%error, "could not send the last traces");
        }
    }
}

/// Nothing can be told of a collector before something is sent.
pub fn check(_: &Settings) -> Result<()> {
    Ok(())
}

/// Whoever asks for traces gets them.
pub fn warn(_: &Settings) {}

/// Makes traces from here on if there is somewhere to send them.
pub fn start(settings: &Settings) -> Result<(Option<Layer>, Guard)> {
    let Some(endpoint) = settings.get(keys::OTEL_ENDPOINT) else { return Ok((None, Guard(None))) };
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(Client::new()?)
        .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
        .with_timeout(TIMEOUT)
        .build()
        .with_context(|| format!("cannot send traces to `{endpoint}`"))?;
    // A trace that began elsewhere was sampled there, or not.
    let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(settings.get(keys::OTEL_SAMPLE))));
    let resource = Resource::builder().with_service_name(settings.get(keys::OTEL_SERVICE)).build();
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_sampler(sampler)
        .with_resource(resource)
        .build();
    trace::propagate(trace::Propagation { adopt, context });
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("weft")).with_location(false);
    let own = ["weft", "weft_server", "weft_dispatch", "weft_engine", "weft_sdk"];
    let own: Targets = own.into_iter().map(|target| (target, Level::DEBUG)).collect();
    Ok((Some(layer.with_filter(own)), Guard(Some(provider))))
}

/// Without the layer there is no trace to be part of.
fn adopt(span: &Span, traceparent: &str) {
    let carrier = HashMap::from([(trace::TRACEPARENT.to_string(), traceparent.to_string())]);
    let _ = span.set_parent(TraceContextPropagator::new().extract(&carrier));
}

fn context(span: &Span) -> Option<String> {
    let mut carrier = HashMap::new();
    TraceContextPropagator::new().inject_context(&span.context(), &mut carrier);
    carrier.remove(trace::TRACEPARENT)
}

/// Sends one request at a time on a connection of its own. It is called by the thread that gathers spans, which runs no
/// tasks: so it has a runtime of its own.
struct Client {
    /// There until it is dropped.
    runtime: Option<Runtime>,
    trust: Arc<weft_tls::Trust>,
}

impl Client {
    fn new() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { runtime: Some(runtime), trust: Arc::new(weft_tls::Trust::system()) })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may be dropped where nothing may block.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

type Sending<'a> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'a>>;

impl HttpClient for Client {
    fn send_bytes<'a, 'b>(&'a self, request: Request<Bytes>) -> Sending<'b>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let runtime = self.runtime.as_ref().ok_or("the client is gone")?;
            runtime.block_on(async { tokio::time::timeout(TIMEOUT, send(&self.trust, request)).await })?
        })
    }
}

/// A connection in the clear, or one whose other end has shown its certificate.
trait Link: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Link for T {}

async fn send(trust: &weft_tls::Trust, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let (mut parts, body) = request.into_parts();
    let authority = parts.uri.authority().ok_or("the address of the collector names no host")?.clone();
    let secure = parts.uri.scheme() == Some(&http::uri::Scheme::HTTPS);
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_string();
    let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    let link: Box<dyn Link> = match secure {
        false => Box::new(stream),
        true => {
            let name = rustls::pki_types::ServerName::try_from(host)?;
            Box::new(tokio_rustls::TlsConnector::from(trust.config()?).connect(name, stream).await?)
        }
    };
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(link)).await?;
    let connection = tokio::spawn(connection);
    parts.headers.insert(http::header::HOST, authority.as_str().parse()?);
    parts.uri = parts.uri.path_and_query().map_or("/", |path| path.as_str()).parse()?;
    let (parts, body) = sender.send_request(Request::from_parts(parts, Full::new(body))).await?.into_parts();
    let body = Limited::new(body, ANSWER_MAX).collect().await?.to_bytes();
    connection.abort();
    Ok(Response::from_parts(parts, body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use tracing_subscriber::layer::SubscriberExt;
    use weft_config::Sources;

    /// A collector that takes one request, and its address.
    fn collector() -> (String, std::thread::JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let taking = std::thread::spawn(move || {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let mut length = 0;
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
            body
        });
        (address, taking)
    }

    #[test]
    fn ops_11_a_trace_goes_on_from_one_process_to_the_next() {
        let (address, taking) = collector();
        let flags = vec![("otel-endpoint".to_string(), address), ("otel-sample".to_string(), "1".to_string())];
        let settings = Settings::load(Sources { flags, ..Sources::default() }).unwrap();
        let (layer, guard) = start(&settings).unwrap();
        let trace_id = "0af7651916cd43dd8448eb211c80319c";
        let trace_bytes: u128 = u128::from_str_radix(trace_id, 16).unwrap();
        let given = format!("00-{trace_id}-b7ad6b7169203331-01");
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            assert_eq!(trace::current(), None, "nothing goes on yet");
            let span = tracing::info_span!(target: "weft_server", "request");
            trace::adopt(&span, &given);
            let handed_on = span.in_scope(trace::current).expect("the request is in a trace");
            assert!(handed_on.starts_with(&format!("00-{trace_id}-")) && handed_on != given, "{handed_on}");
            span.in_scope(|| drop(tracing::debug_span!(target: "weft_engine", "command", verb = "submit")));
        });
        drop(guard);
        let sent = taking.join().unwrap();
        let has = |bytes: &[u8]| sent.windows(bytes.len()).any(|window| window == bytes);
        assert!(has(b"request") && has(b"command") && has(b"submit"));
        assert!(has(&trace_bytes.to_be_bytes()));
    }
}
