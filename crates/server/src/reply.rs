//! Making responses: the headers that every reply has, and problems.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use weft_api::Problem;
use weft_dispatch::Answer;

pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub const WEFT_NOW: HeaderName = HeaderName::from_static("weft-now");
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const NOSNIFF: HeaderName = HeaderName::from_static("x-content-type-options");

/// An answer of the engine with the status that the operation has for it.
pub fn answer(answer: &Answer, status: u16) -> Response {
    let carried = answer.reply.carry();
    let status = match (&carried.content_type, answer.existed) {
        (None, _) => 204,
        (Some(_), true) => 200,
        (Some(_), false) => status,
    };
    let mut response = bytes(status, carried.bytes, carried.content_type.as_deref());
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
    let mut response = bytes(problem.status, body.into(), Some("application/problem+json"));
    if let Some(ms) = problem.retry_after_ms {
        set(response.headers_mut(), RETRY_AFTER, &ms.div_ceil(1_000).max(1).to_string());
    }
    response
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
