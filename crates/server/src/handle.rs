//! One request, from its headers to its reply. The order of checks is fixed: where it comes from, whose key it has, how
//! often that key calls, what it may do, how large the body is, and only then what it asks.

use crate::access;
use crate::app::{App, Shared};
use crate::auth::{self, Good, Waiting};
use crate::drain::stopping;
use crate::{body, docs, reply};
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, IF_MATCH, IF_NONE_MATCH, ORIGIN};
use http::{HeaderMap, HeaderName};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use weft_api::operation::Wire;
use weft_api::{Call, Code, Item, NAMESPACE_DEFAULT, Problem, Reply, Scope, Spec, from_raw, payload};
use weft_core::command::{Origin, Principal, Scopes};
use weft_core::record::api_key::{RateClass, Reach};
use weft_core::text::Text;
use weft_dispatch::{Answer, Around, Caller};

pub const NAMESPACE: HeaderName = HeaderName::from_static("weft-namespace");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// How long a call may take that does not wait for anything.
const CALL_MAX: Duration = Duration::from_secs(30);
const URI_MAX: usize = 16 << 10;

/// Which operation was called, with the parts of its path.
pub struct Incoming {
    pub spec: &'static Spec,
    pub path: Vec<String>,
}

/// Where a request came from; put into its extensions by the listener.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// Somebody who may call, as far as the key goes.
pub struct Known {
    pub caller: Caller,
    pub good: Option<Good>,
}

pub async fn call(app: &App, incoming: Incoming, request: Request) -> Response {
    let begun = Instant::now();
    let shared = &app.shared;
    let id = request_id(request.headers());
    let method = request.method().clone();
    let mut name = String::from("-");
    let result = answer(shared, &incoming, request, &id, &mut name).await;
    let mut response = match result {
        Ok(response) => response,
        Err(problem) => reply::problem(&Problem { request_id: Some(id.clone()), ..problem }),
    };
    reply::finish(&mut response, &id, app.engine().now().ms());
    let (status, took) = (response.status().as_u16(), begun.elapsed());
    shared.metrics.request(method.as_str(), incoming.spec.path, status, took);
    let line = access::Line {
        method: method.as_str(),
        route: incoming.spec.path,
        status,
        took,
        principal: &name,
        request_id: &id,
    };
    line.write();
    response
}

async fn answer(
    shared: &Shared,
    incoming: &Incoming,
    request: Request,
    id: &str,
    name: &mut String,
) -> Result<Response, Problem> {
    let spec = incoming.spec;
    let (parts, body) = request.into_parts();
    check_uri(&parts.uri)?;
    let known = identify(shared, &parts.headers, peer(&parts.extensions), id).await?;
    *name = known.caller.name.to_string();
    let _in_flight = shared.drain.enter()?;
    if let Err(problem) = known.caller.may(spec) {
        shared.metrics.refused("scope");
        note_refusal(shared, &known.caller, spec.id, problem.code);
        return Err(problem);
    }
    known.caller.chosen()?;
    let bytes = body::read(&parts.headers, body, shared.body_max(spec.body_max)).await?;
    let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).map(str::to_string);
    let wire = Wire {
        path: incoming.path.clone(),
        query: parts.uri.query().unwrap_or_default().to_string(),
        body: bytes,
        idempotency_key: header(&parts.headers, &IDEMPOTENCY_KEY)?,
        if_match: header(&parts.headers, &IF_MATCH)?.map(|tag| tag.trim_matches('"').to_string()),
    };
    let (call, raw) = match from_raw(spec.id, &wire, kind.clone()) {
        Some(call) => (call?, true),
        None => {
            check_json(spec, &wire, kind.as_deref())?;
            (Call::from_wire(spec.id, wire)?, false)
        }
    };
    let around = Around { trace: header(&parts.headers, &TRACEPARENT)? };
    let answer = carry_out(shared, &known, call, &around).await?;
    if spec.tag == "keys"
        && let (Some(keyring), Some(key)) = (&shared.keyring, incoming.path.first())
    {
        keyring.forget(key);
    }
    if raw && let Some(body) = single(&answer.reply)? {
        return Ok(reply::bytes(200, body.into(), Some(payload::JSON)));
    }
    if let (Some(revision), Some(tag)) = (&answer.revision, header(&parts.headers, &IF_NONE_MATCH)?)
        && tag.trim_matches('"') == revision
    {
        return Ok(reply::bytes(304, bytes::Bytes::new(), None));
    }
    Ok(reply::answer(&answer, spec.status, &parts.headers))
}

/// Runs the call, unless too many wait, the server stops or it takes too long.
async fn carry_out(shared: &Shared, known: &Known, call: Call, around: &Around) -> Result<Answer, Problem> {
    let spec = call.spec();
    let wait = wait_of(&call);
    let _waiting = match wait {
        Duration::ZERO => None,
        _ => Some(take_seat(shared, known)?),
    };
    // A claim that waits is let go by the engine, which knows whether it has been given something.
    let may_be_left = wait > Duration::ZERO && spec.id != "claim";
    let work = shared.dispatch.call(&known.caller, call, around);
    let limit = CALL_MAX + wait;
    tokio::select! {
        biased;
        answer = tokio::time::timeout(limit, work) => answer.unwrap_or_else(|_| {
            let problem = Problem::new(Code::Unavailable, "could not learn in time whether it happened");
            Err(problem.retry_after(1_000).field("outcome_unknown", spec.changes()))
        }),
        () = shared.drain.begun(), if may_be_left => Err(stopping()),
    }
}

/// Counts a call that waits, on this node and of its key.
fn take_seat(shared: &Shared, known: &Known) -> Result<(Option<Waiting>, crate::metrics::Seat), Problem> {
    let Some(seat) = shared.metrics.wait(shared.options.waiting_max) else {
        shared.metrics.refused("busy");
        return Err(Problem::new(Code::Busy, "too many calls wait on this node").retry_after(1_000));
    };
    let Some(good) = &known.good else { return Ok((None, seat)) };
    match good.state.wait(shared.options.waiting_per_key_max) {
        Some(waiting) => Ok((Some(waiting), seat)),
        None => {
            shared.metrics.refused("rate");
            Err(Problem::new(Code::RateLimited, "too many calls of this key wait").retry_after(1_000))
        }
    }
}

fn wait_of(call: &Call) -> Duration {
    let ms = match call {
        Call::Claim(args) => args.body.wait_ms,
        Call::GetExecution(args) => args.query.wait_ms,
        Call::GetResult(args) => args.query.wait_ms,
        _ => None,
    };
    Duration::from_millis(ms.unwrap_or(0).min(60_000))
}

/// The raw form of a batch has one item, and the answer to it is the answer.
fn single(reply: &Reply) -> Result<Option<Vec<u8>>, Problem> {
    fn first<T: serde::Serialize>(results: &weft_api::Results<T>) -> Result<Option<Vec<u8>>, Problem> {
        match results.results.first() {
            Some(Item::Ok(value)) => Ok(Some(serde_json::to_vec(value).expect("handle: wire types are JSON"))),
            Some(Item::Error(problem)) => Err((**problem).clone()),
            None => Err(Problem::new(Code::Internal, "a call was not answered")),
        }
    }
    match reply {
        Reply::Complete(results) => first(results),
        Reply::Fail(results) => first(results),
        _ => Ok(None),
    }
}

/// Whose request this is: a good key, or anybody on this machine where no keys are asked for.
pub async fn identify(shared: &Shared, headers: &HeaderMap, peer: IpAddr, request: &str) -> Result<Known, Problem> {
    let namespace = header(headers, &NAMESPACE)?.map(Text::from);
    let Some(keyring) = &shared.keyring else {
        check_local(headers)?;
        let origin = Origin { key: "".into(), address: peer.to_string().into(), request: request.into() };
        let principal = Principal {
            origin: Some(std::sync::Arc::new(origin)),
            ..Principal::new("", "dev", Scopes::ALL)
        };
        let fallback = Some(NAMESPACE_DEFAULT.into());
        return Ok(Known { caller: Caller::new(principal, Reach::All, namespace, fallback), good: None });
    };
    let text = header(headers, &AUTHORIZATION)?;
    let text = text.as_deref().and_then(|text| text.strip_prefix("Bearer ").or_else(|| text.strip_prefix("bearer ")));
    let good = match keyring.check(text.map(str::trim)).await {
        Ok(good) => good,
        Err(problem) if problem.code == Code::Unauthorized => {
            shared.metrics.refused("auth");
            let taken = shared.buckets.take(&auth::address_name(peer), shared.options.rates.open, shared.elapsed_ms());
            return Err(taken.err().map_or(problem, too_often));
        }
        Err(problem) => return Err(problem),
    };
    let rate = match auth::rate_class(&good.key) {
        RateClass::Default => Some(shared.options.rates.default),
        RateClass::Worker => Some(shared.options.rates.worker),
        RateClass::None => None,
    };
    if let Some(rate) = rate
        && let Err(ms) = shared.buckets.take(&good.key.id.to_string(), rate, shared.elapsed_ms())
    {
        shared.metrics.refused("rate");
        return Err(too_often(ms));
    }
    let principal = Principal::of_key(&good.key, None, peer.to_string().into(), request.into())
        .expect("auth: no namespace is asked for");
    let reach = good.key.body.namespaces.clone();
    Ok(Known { caller: Caller::new(principal, reach, namespace, None), good: Some(good) })
}

fn too_often(ms: u64) -> Problem {
    Problem::new(Code::RateLimited, format!("could not take the call: too many came; repeat it after {ms} ms"))
        .retry_after(ms)
}

/// A server without keys answers this machine only, and no web page that was led here by its name server.
fn check_local(headers: &HeaderMap) -> Result<(), Problem> {
    let local = |host: &str| {
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        matches!(name, "localhost" | "127.0.0.1" | "::1")
    };
    let refused = |what: &str, value: &str| {
        Problem::new(Code::Forbidden, format!("the {what} `{value}` is not this machine, and this server asks for no keys"))
            .hint("call `localhost`, or run `weft serve`, which asks for keys")
    };
    // HTTP/2 has no such header; there the authority is in the URL, which the listener has checked to be loopback.
    if let Some(host) = header(headers, &HOST)?
        && !local(&host)
    {
        return Err(refused("host", &host));
    }
    if let Some(origin) = header(headers, &ORIGIN)? {
        let host = origin.split_once("://").map_or("", |(_, host)| host);
        if !local(host) {
            return Err(refused("origin", &origin));
        }
    }
    Ok(())
}

fn check_uri(uri: &http::Uri) -> Result<(), Problem> {
    let len = uri.path_and_query().map_or(0, |text| text.as_str().len());
    match len > URI_MAX {
        true => Err(Problem::new(Code::UriTooLong, format!("the URL has {len} bytes, allowed are {URI_MAX}"))),
        false => Ok(()),
    }
}

fn check_json(spec: &Spec, wire: &Wire, kind: Option<&str>) -> Result<(), Problem> {
    if spec.body.is_none() || wire.body.is_empty() {
        return Ok(());
    }
    match kind {
        Some(kind) if payload::is_json(kind) => body::check_depth(&wire.body),
        None => body::check_depth(&wire.body),
        Some(other) => {
            let problem = Problem::new(Code::UnsupportedMediaType, format!("a body of type `{other}` is not taken here"));
            Err(problem.hint("send `Content-Type: application/json`"))
        }
    }
}

/// The text of a header; one that is no text is refused, not ignored.
fn header(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, Problem> {
    match headers.get(name) {
        None => Ok(None),
        Some(value) => match value.to_str() {
            Ok(text) => Ok(Some(text.to_string())),
            Err(_) => Err(Problem::invalid(name.as_str(), "is not printable ASCII")),
        },
    }
}

/// The id of a request: its own if that is 1 to 128 printable letters, else a fresh one.
pub fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(reply::REQUEST_ID).and_then(|value| value.to_str().ok());
    match given {
        Some(id) if (1..=128).contains(&id.len()) && id.bytes().all(|byte| (0x20..0x7f).contains(&byte)) => id.to_string(),
        _ => {
            let mut bytes = [0; 16];
            // Without randomness the id is still an id: it only tells requests apart for people.
            let _ = getrandom::fill(&mut bytes);
            uuid::Uuid::from_bytes(bytes).simple().to_string()
        }
    }
}

pub fn peer(extensions: &http::Extensions) -> IpAddr {
    extensions.get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0.ip())
}

/// Tells the audit log of a refusal, at most once a second: a failure must not be a way to fill the store.
fn note_refusal(shared: &Shared, caller: &Caller, verb: &'static str, code: Code) {
    let rate = crate::bucket::Rate { per_s: 1, burst: 1 };
    if shared.buckets.take("audit of refusals", rate, shared.elapsed_ms()).is_err() {
        return;
    }
    let (engine, principal) = (shared.dispatch.engine().clone(), caller.principal("".into()));
    tokio::spawn(async move {
        if let Err(rejection) = engine.audit_refusal(&principal, verb, "", code.name()).await {
            tracing::warn!(%rejection, verb, "could not note a refusal in the audit log");
        }
    });
}

/// What the server answers by itself.
#[derive(Clone, Copy)]
pub enum Page {
    Health,
    Ready,
    Metrics,
    Document,
    Docs,
    DocsStyle,
}

pub async fn page(app: &App, page: Page, request: Request<Body>) -> Response {
    let begun = Instant::now();
    let id = request_id(request.headers());
    let (method, path) = (request.method().clone(), request.uri().path().to_string());
    let mut response = match shown(app, page, &request, &id).await {
        Ok(response) => response,
        Err(problem) => reply::problem(&Problem { request_id: Some(id.clone()), ..problem }),
    };
    reply::finish(&mut response, &id, app.engine().now().ms());
    app.shared.metrics.request(method.as_str(), &path, response.status().as_u16(), begun.elapsed());
    response
}

async fn shown(app: &App, page: Page, request: &Request<Body>, id: &str) -> Result<Response, Problem> {
    let shared = &app.shared;
    let identified = || identify(shared, request.headers(), peer(request.extensions()), id);
    match page {
        Page::Health => Ok(reply::bytes(200, "ok\n".into(), Some("text/plain; charset=utf-8"))),
        Page::Ready => {
            let mut readiness = shared.health.readiness(shared.drain.has_begun());
            let status = if readiness.ready { 200 } else { 503 };
            let may_know = identified().await.is_ok_and(|known| known.caller.has(Scope::Operate));
            if !may_know {
                readiness.why.clear();
            }
            let body = serde_json::to_vec(&readiness).expect("handle: readiness is JSON");
            Ok(reply::bytes(status, body.into(), Some(payload::JSON)))
        }
        Page::Metrics => {
            if !shared.options.open_metrics && !identified().await?.caller.has(Scope::Operate) {
                return Err(Problem::new(Code::Forbidden, "metrics need the scope `operate`"));
            }
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            Ok(reply::bytes(200, app.metrics_text().into(), Some(kind)))
        }
        Page::Document => {
            identified().await?;
            Ok(reply::bytes(200, docs::document_text().into(), Some(payload::JSON)))
        }
        Page::Docs => {
            check_open(shared, request)?;
            Ok(docs::page())
        }
        Page::DocsStyle => {
            check_open(shared, request)?;
            Ok(reply::bytes(200, docs::STYLE.into(), Some("text/css; charset=utf-8")))
        }
    }
}

/// Static pages hold no data and need no key, but a server for this machine answers this machine only.
fn check_open(shared: &Shared, request: &Request<Body>) -> Result<(), Problem> {
    if shared.keyring.is_none() { check_local(request.headers()) } else { Ok(()) }
}
