//! What surrounds every request, whatever it asks: limits of its head, its id, CORS, a panic that must not spread, the
//! headers of every reply, the access log and its measure.

use crate::app::App;
use crate::identify::{Peer, RequestId};
use crate::{access, cors, leftover, pack, reply};
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use futures_util::FutureExt;
use http::header::HOST;
use http::{HeaderMap, Method, Version};
use http_body::Body as _;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};
use tracing::Instrument;
use weft_api::{Code, Problem, trace};

const URI_MAX: usize = 16 << 10;
/// Names and values together.
pub const HEADERS_MAX: usize = 32 << 10;

/// Answers a request by `answer`, which is told where to put the name of the caller.
pub async fn around(
    app: &App,
    route: &str,
    mut request: Request,
    answer: impl AsyncFnOnce(Request, &mut String) -> Result<Response, Problem>,
) -> Response {
    let shared = &app.shared;
    let _entered = shared.metrics.enter();
    let id = request_id(request.headers());
    request.extensions_mut().insert(RequestId(id.as_str().into()));
    let method = request.method().clone();
    let mut asked = Asked::new(app, method.clone(), route, id.clone());
    let origin = shared.origins().allowed(request.headers());
    let preflight = cors::is_preflight(&method, request.headers());
    let packing = pack::wanted(request.headers());
    let big_as_text = reply::wants_big_as_text(request.headers());
    let leftover = leftover::lend(&mut request);
    let path = request.uri().path();
    let span = tracing::info_span!("request", %method, route, path, request_id = id, status = tracing::field::Empty);
    if let Some(traceparent) = request.headers().get(trace::TRACEPARENT).and_then(|value| value.to_str().ok()) {
        trace::adopt(&span, traceparent);
    }
    let result = if preflight && origin.is_some() {
        Ok(reply::bytes(204, Bytes::new(), None))
    } else {
        match check_head(&request).and(big_as_text.as_ref().map(|_| ()).map_err(Problem::clone)) {
            Err(problem) => Err(problem),
            // A panic is a fault of ours; it ends this request and nothing else.
            Ok(()) => AssertUnwindSafe(answer(request, &mut asked.name).instrument(span.clone()))
                .catch_unwind()
                .await
                .unwrap_or_else(|_| {
                    tracing::error!(request_id = id, route, "a request ended in a panic");
                    Err(Problem::new(
                        Code::Internal,
                        "the request could not be answered because of a fault of the server",
                    ))
                }),
        }
    };
    let mut response =
        result.unwrap_or_else(|problem| reply::problem(&Problem { request_id: Some(id.clone()), ..problem }));
    if matches!(big_as_text, Ok(true)) {
        reply::write_big_as_text(&mut response).await;
    }
    if let Some(packing) = packing {
        pack::pack(&mut response, packing).await;
    }
    if let Some(leftover) = leftover {
        leftover.settle(&mut response, shared.drain.has_begun()).await;
    }
    reply::finish(&mut response, &id, app.engine().now().ms());
    if let Some(origin) = origin {
        cors::allow(&mut response, origin, preflight);
    }
    let status = response.status().as_u16();
    span.record("status", status);
    asked.answered(status, response.body().size_hint().exact());
    response
}

/// A request that is being answered. It is measured and has its line in the access log once, also if whoever asked does
/// not wait for the answer.
struct Asked<'a> {
    app: &'a App,
    method: Method,
    route: &'a str,
    id: String,
    begun: Instant,
    /// Of the caller, when it is known.
    name: String,
    told: bool,
}

/// What stands for the status of an answer that nobody waited for.
const CLIENT_LEFT: u16 = 499;

impl<'a> Asked<'a> {
    fn new(app: &'a App, method: Method, route: &'a str, id: String) -> Self {
        Self { app, method, route, id, begun: Instant::now(), name: "-".to_owned(), told: false }
    }

    fn answered(&mut self, status: u16, bytes: Option<u64>) {
        self.told = true;
        let took = self.begun.elapsed();
        self.app.shared.metrics.request(self.method.as_str(), self.route, status, took);
        let (method, route) = (self.method.as_str(), self.route);
        access::Line { method, route, status, took, bytes, principal: &self.name, request_id: &self.id }.write();
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.told {
            self.answered(CLIENT_LEFT, None);
        }
    }
}

fn check_head(request: &Request) -> Result<(), Problem> {
    let uri = request.uri().path_and_query().map_or(0, |text| text.as_str().len());
    if uri > URI_MAX {
        let problem = Problem::new(Code::UriTooLong, format!("the URL has {uri} bytes, allowed are {URI_MAX}"));
        return Err(problem.field("limit", URI_MAX).field("got", uri));
    }
    let headers: usize = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if headers > HEADERS_MAX {
        let detail = format!("the headers have {headers} bytes, allowed are {HEADERS_MAX}");
        return Err(Problem::new(Code::HeadersTooLarge, detail).field("limit", HEADERS_MAX).field("got", headers));
    }
    check_host(request)
}

/// A request that came over a socket says once which host it means. HTTP/2 says so in the URL, HTTP/1.0 need not.
fn check_host(request: &Request) -> Result<(), Problem> {
    let named = request.headers().get_all(HOST).iter().count();
    let must = request.version() == Version::HTTP_11 && request.extensions().get::<Peer>().is_some();
    match named {
        0 if must => Err(Problem::invalid("Host", "is missing; HTTP/1.1 asks for it")),
        0 | 1 => Ok(()),
        _ => Err(Problem::invalid("Host", "is given twice")),
    }
}

/// Why a head was no request.
#[derive(Clone, Copy, Debug)]
pub enum Unreadable {
    Line,
    Headers,
    Syntax,
}

/// The whole reply, in bytes, to a head that could not be read. The connection ends with it.
pub fn unreadable(app: &App, what: Unreadable) -> Bytes {
    let id = fresh_id();
    let problem = match what {
        Unreadable::Line => {
            let detail = format!("the URL has more than {URI_MAX} bytes");
            Problem::new(Code::UriTooLong, detail).field("limit", URI_MAX)
        }
        Unreadable::Headers => {
            let detail = format!("the headers have more than {HEADERS_MAX} bytes, or are too many");
            Problem::new(Code::HeadersTooLarge, detail).field("limit", HEADERS_MAX)
        }
        Unreadable::Syntax => Problem::new(Code::InvalidArgument, "the bytes that came are not a request of HTTP"),
    };
    app.shared.metrics.request("-", "unknown", problem.status, Duration::ZERO);
    let line = access::Line {
        method: "-",
        route: "unknown",
        status: problem.status,
        took: Duration::ZERO,
        bytes: None,
        principal: "-",
        request_id: &id,
    };
    line.write();
    last_words(app, id, problem)
}

/// A problem as a whole reply of HTTP/1.1, for a connection that ends with it and on which there was no request.
pub fn last_words(app: &App, id: String, problem: Problem) -> Bytes {
    let problem = Problem { request_id: Some(id.clone()), ..problem };
    let mut response = reply::problem(&problem);
    reply::finish(&mut response, &id, app.engine().now().ms());
    let body = serde_json::to_vec(&problem).expect("around: a problem is JSON");
    let mut bytes = format!("HTTP/1.1 {}\r\n", response.status()).into_bytes();
    for (name, value) in response.headers() {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(format!("connection: close\r\ncontent-length: {}\r\n\r\n", body.len()).as_bytes());
    bytes.extend_from_slice(&body);
    bytes.into()
}

/// The id of a request: its own if that is 1 to 128 printable letters, else a fresh one.
/// The id of something that was no request and could not bring one.
pub fn fresh_id() -> String {
    request_id(&HeaderMap::new())
}

fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(reply::REQUEST_ID).and_then(|value| value.to_str().ok());
    match given {
        Some(id) if (1..=128).contains(&id.len()) && id.bytes().all(|byte| (0x20..0x7f).contains(&byte)) => {
            id.to_string()
        }
        _ => {
            let mut bytes = [0; 16];
            // Without randomness the id is still an id: it only tells requests apart for people.
            let _ = getrandom::fill(&mut bytes);
            uuid::Uuid::from_bytes(bytes).simple().to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::Options;
    use axum::body::Body;
    use http_body_util::BodyExt;
    use std::sync::Arc;
    use weft_engine::{Config, Engine};
    use weft_store::MemoryStore;

    #[tokio::test]
    async fn sec_18_a_panic_ends_its_own_request_and_nothing_else() {
        let clock = || weft_core::Time::from_ms(1_700_000_000_000);
        let engine = Engine::open(MemoryStore::new(1, Arc::new(clock)), Config::default()).await.unwrap();
        let app = App::new(engine, Options::dev());
        let request = || Request::new(Body::empty());
        let response = around(&app, "/here", request(), async |_, _| panic!("a secret of ours")).await;
        assert_eq!(response.status(), 500);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let problem: Problem = serde_json::from_slice(&body).unwrap();
        assert_eq!(problem.code, Code::Internal);
        assert!(problem.request_id.is_some() && !problem.detail.contains("secret"));
        let response = around(&app, "/here", request(), async |_, _| Ok(reply::bytes(200, "".into(), None))).await;
        assert_eq!(response.status(), 200);
    }
}
