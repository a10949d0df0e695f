//! Making responses: the headers that every reply has, and problems.

use crate::identify::header;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body_util::BodyExt;
use weft_api::{Problem, Spec, with_big_as_text};
use weft_dispatch::Answer;

pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub const WEFT_NOW: HeaderName = HeaderName::from_static("weft-now");
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const WEFT_BIG: HeaderName = HeaderName::from_static("weft-big");
const NOSNIFF: HeaderName = HeaderName::from_static("x-content-type-options");

/// An answer of the engine with the status that the operation has for it.
pub fn answer(answer: &Answer, spec: &Spec) -> Response {
    let carried = answer.reply.carry();
    let status = match (&carried.content_type, answer.existed) {
        (None, _) => 204,
        (Some(_), true) => 200,
        (Some(_), false) => spec.status,
    };
    let mut response = match (&carried.content_type, spec.reply) {
        (Some(kind), Some(_)) => typed(status, carried.bytes, kind),
        // Bytes of a caller, whatever they look like.
        (kind, _) => bytes(status, carried.bytes, kind.as_deref()),
    };
    let headers = response.headers_mut();
    if answer.replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    if let Some(revision) = &answer.revision {
        set(headers, ETAG, &format!("\"{revision}\""));
    }
    response
}

pub fn problem(problem: &Problem) -> Response {
    let body = serde_json::to_vec(problem).expect("reply: a problem is JSON");
    let mut response = typed(problem.status, body.into(), "application/problem+json");
    if let Some(ms) = problem.retry_after_ms {
        set(response.headers_mut(), RETRY_AFTER, &ms.div_ceil(1_000).max(1).to_string());
    }
    response
}

/// Marks a reply whose JSON is of our own types.
#[derive(Clone, Copy)]
struct Typed;

/// JSON of our own types.
pub fn typed(status: u16, body: Bytes, content_type: &str) -> Response {
    let mut response = bytes(status, body, Some(content_type));
    response.extensions_mut().insert(Typed);
    response
}

/// True if the caller wants numbers as text that it could not hold otherwise.
pub fn wants_big_as_text(headers: &HeaderMap) -> Result<bool, Problem> {
    match header(headers, &WEFT_BIG)?.as_deref() {
        None => Ok(false),
        Some("text") => Ok(true),
        Some(other) => Err(Problem::invalid("Weft-Big", format!("is `{other}`, allowed is `text`"))),
    }
}

/// Writes numbers beyond 2^53 as text, where they are ours.
pub async fn write_big_as_text(response: &mut Response) {
    if response.extensions().get::<Typed>().is_none() {
        return;
    }
    let whole = match std::mem::take(response.body_mut()).collect().await {
        Ok(all) => all.to_bytes(),
        Err(error) => {
            tracing::warn!(%error, "could not collect a reply");
            return;
        }
    };
    *response.body_mut() = Body::from(with_big_as_text(&whole).map_or(whole, Bytes::from));
}

pub fn bytes(status: u16, body: Bytes, content_type: Option<&str>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(kind) = content_type {
        // A content type that a caller once gave may hold what a header cannot.
        let kind = HeaderValue::from_str(kind).unwrap_or(HeaderValue::from_static("application/octet-stream"));
        response.headers_mut().insert(CONTENT_TYPE, kind);
    }
    response
}

/// What the caller has is still what there is.
pub fn unchanged(revision: &str) -> Response {
    let mut response = bytes(304, Bytes::new(), None);
    set(response.headers_mut(), ETAG, &format!("\"{revision}\""));
    response
}

/// What every reply has.
pub fn finish(response: &mut Response, request_id: &str, now_ms: u64) {
    let headers = response.headers_mut();
    set(headers, REQUEST_ID, request_id);
    headers.insert(WEFT_NOW, HeaderValue::from(now_ms));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(NOSNIFF, HeaderValue::from_static("nosniff"));
}

pub fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
