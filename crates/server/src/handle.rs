//! One call, from its headers to its reply. The order of checks is fixed: where it comes from, whose key it has, how
//! often that key calls, what it may do, how large the body is, and only then what it asks.

use crate::app::App;
use crate::budget::Connection;
use crate::claim;
use crate::drain::stopping;
use crate::identify::{Known, header, identify};
use crate::waiting::{Open, Seat, key_lost, take_seat, wait_of};
use crate::{body, query, reply};
use axum::extract::Request;
use axum::response::Response;
use http::header::{CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::time::Duration;
use weft_api::operation::Wire;
use weft_api::{Call, Code, Item, Problem, Reply, Spec, from_raw, payload, trace};
use weft_dispatch::{Answer, Around};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const TRACEPARENT: HeaderName = HeaderName::from_static(trace::TRACEPARENT);
const KEY_MAX: usize = weft_core::limits::KEY_MAX;
/// Revisions that a call may be bound to: each may cost a try.
const TAGS_MAX: usize = 16;
/// What keeps leases alive or ends work: no load of others may hold it up.
const URGENT: [&str; 5] = ["renew", "complete", "fail", "settle", "heartbeat"];
/// How long a call may take that does not wait for anything.
const CALL_MAX: Duration = Duration::from_secs(30);

/// Which operation was called, with the parts of its path.
pub struct Incoming {
    pub spec: &'static Spec,
    /// A path that cannot be read is told to those only who may call.
    pub path: Result<Vec<String>, Problem>,
}

/// Answers the call; `name` is told who calls as soon as that is known.
pub async fn call(app: &App, incoming: Incoming, request: Request, name: &mut String) -> Result<Response, Problem> {
    let shared = &app.shared;
    let spec = incoming.spec;
    let arriving = shared.drain.enter()?;
    let (parts, body) = request.into_parts();
    let (namespace, query) = match query::namespace_of(&parts) {
        Ok((namespace, query)) => (namespace, Ok(query)),
        Err(problem) => (None, Err(problem)),
    };
    let known = identify(shared, &parts, namespace, name).await?;
    let (path, query) = (incoming.path?, query?);
    let target = path.first().map_or("", String::as_str);
    shared.allowed(&known.caller, spec.id, target, known.caller.may(spec).and_then(|()| known.caller.chosen()))?;
    let connection = parts.extensions.get::<Connection>().cloned();
    let mut share = shared.budget.share(connection, URGENT.contains(&spec.id));
    // Not counted while the body arrives: a caller that never sends the rest of its request must not hold up the stop.
    drop(arriving);
    let read = tokio::select! {
        biased;
        read = body::read(&parts.headers, body, shared.body_max(spec.body_max), &mut share) => read,
        () = shared.drain.begun() => Err(stopping()),
    };
    let bytes = read.inspect_err(|problem| match problem.code {
        Code::PayloadTooLarge => shared.metrics.refused("size"),
        Code::Busy => shared.metrics.refused("busy"),
        _ => {}
    })?;
    let _in_flight = shared.drain.enter()?;
    let (query, repeat_id) = query::without_repeat_id(spec, query::with_headers(spec, query, &parts.headers)?)?;
    query::check(&query)?;
    let wire = Wire {
        path: path.clone(),
        query,
        body: bytes,
        idempotency_key: idempotency_key(&parts, spec, repeat_id)?,
        if_match: None,
        big_as_text: reply::wants_big_as_text(&parts.headers)?,
    };
    let answered = carry_out_if(app, &parts, spec, &known, wire).await;
    let (answer, raw) = shared.allowed(&known.caller, spec.id, target, answered)?;
    if spec.tag == "keys"
        && spec.changes()
        && let (Some(keyring), Some(key)) = (&shared.keyring, path.first())
    {
        keyring.distrust(key);
    }
    respond(&parts, spec, answer, raw)
}

/// Carries out the call for the first of the revisions in `If-Match` that is the current one. A call that is refused for
/// another revision has changed nothing, so that the next can be tried.
async fn carry_out_if(
    app: &App,
    parts: &Parts,
    spec: &'static Spec,
    known: &Known,
    wire: Wire,
) -> Result<(Answer, bool), Problem> {
    let mut tags = revisions(&parts.headers)?;
    let last = tags.pop();
    for tag in tags {
        let tried = carry_out_wire(app, parts, spec, known, Wire { if_match: Some(tag), ..wire.clone() }).await;
        if !matches!(&tried, Err(problem) if problem.code == Code::RevisionMismatch) {
            return tried;
        }
    }
    carry_out_wire(app, parts, spec, known, Wire { if_match: last, ..wire }).await
}

/// Reads the call and carries it out; true if it came in its raw form.
async fn carry_out_wire(
    app: &App,
    parts: &Parts,
    spec: &'static Spec,
    known: &Known,
    wire: Wire,
) -> Result<(Answer, bool), Problem> {
    spec.check_conditions(&wire)?;
    let kind = header(&parts.headers, &CONTENT_TYPE)?;
    let (call, raw) = match from_raw(spec.id, &wire, kind.clone()) {
        Some(call) => (call?, true),
        None => {
            check_json(spec, &wire, kind.as_deref())?;
            (Call::from_wire(spec.id, wire)?, false)
        }
    };
    // Where traces are made, what is submitted goes on from this request and not from the one that made it.
    let given = header(&parts.headers, &TRACEPARENT)?;
    let around = Around { trace: trace::current().or(given) };
    Ok((carry_out(app, known, call, around).await?, raw))
}

/// The revisions in `If-Match`, each once.
fn revisions(headers: &HeaderMap) -> Result<Vec<String>, Problem> {
    let mut all = Vec::new();
    for value in headers.get_all(IF_MATCH) {
        let value = value.to_str().map_err(|_| Problem::invalid("If-Match", "is not printable ASCII"))?;
        for tag in value.split(',').map(untagged).filter(|tag| !tag.is_empty()) {
            if !all.iter().any(|known| known == tag) {
                all.push(tag.to_string());
            }
        }
    }
    match all.len() {
        0 if headers.contains_key(IF_MATCH) => Err(Problem::invalid("If-Match", "names no revision")),
        0..=TAGS_MAX => Ok(all),
        len => Err(Problem::invalid("If-Match", format!("has {len} revisions, allowed are {TAGS_MAX}"))),
    }
}

fn respond(parts: &Parts, spec: &Spec, answer: Answer, raw: bool) -> Result<Response, Problem> {
    if raw && let Some(body) = single(&answer.reply)? {
        let mut response = reply::typed(200, body.into(), payload::JSON);
        if is_repeat(&answer.reply) {
            response.headers_mut().insert(reply::REPLAYED, HeaderValue::from_static("true"));
        }
        return Ok(response);
    }
    if let (Some(revision), Some(tags)) = (&answer.revision, header(&parts.headers, &IF_NONE_MATCH)?)
        && tags.split(',').any(|tag| matches!(untagged(tag), "*") || untagged(tag) == revision)
    {
        return Ok(reply::unchanged(revision));
    }
    Ok(reply::answer(&answer, spec))
}

/// What stands in an entity tag. A weak one means the same: a revision is that of one commit.
fn untagged(tag: &str) -> &str {
    let tag = tag.trim();
    tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"')
}

/// Runs the call, unless too many wait, the server stops, its key is taken away or it takes too long.
async fn carry_out(app: &App, known: &Known, call: Call, around: Around) -> Result<Answer, Problem> {
    let shared = &app.shared;
    let spec = call.spec();
    let wait = wait_of(&call);
    let _seat: Option<Seat> = match wait {
        Duration::ZERO => None,
        _ => Some(take_seat(shared, known.good.as_ref(), Open::Call)?),
    };
    let limit = CALL_MAX + wait;
    let work = async {
        match call {
            // A claim that waits is let go by the engine, which knows whether it has been given something.
            Call::Claim(args) => claim::carry_out(app, known.caller.clone(), *args, around).await,
            call => {
                let work = shared.dispatch.call(&known.caller, call, &around);
                tokio::select! {
                    biased;
                    answer = work => answer,
                    () = shared.drain.begun(), if wait > Duration::ZERO => Err(stopping()),
                }
            }
        }
    };
    let work = async {
        tokio::select! {
            biased;
            answer = work => answer,
            problem = key_lost(shared, known, |caller| caller.may(spec)), if wait > Duration::ZERO => Err(problem),
        }
    };
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let problem = Problem::new(Code::Unavailable, "could not learn in time whether it happened");
        Err(problem.retry_after(1_000).field("outcome_unknown", spec.changes()))
    })
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

/// Whether the one item of a raw form was answered before.
fn is_repeat(reply: &Reply) -> bool {
    use weft_api::work::Failed::{Ended, Retry};
    match reply {
        Reply::Complete(results) => matches!(results.results.first(), Some(Item::Ok(done)) if done.repeated),
        Reply::Fail(results) => matches!(
            results.results.first(),
            Some(Item::Ok(Retry { repeated: true, .. } | Ended { repeated: true, .. }))
        ),
        _ => false,
    }
}

/// The `Idempotency-Key` of a call that changes something, or the parameter that is the same; others have no use for one.
fn idempotency_key(parts: &Parts, spec: &Spec, parameter: Option<String>) -> Result<Option<String>, Problem> {
    let key = match (header(&parts.headers, &IDEMPOTENCY_KEY)?, parameter) {
        (Some(header), Some(parameter)) if header != parameter => {
            return Err(Problem::invalid("Idempotency-Key", "and the parameter that means the same differ; give one"));
        }
        (header, parameter) => header.or(parameter),
    };
    let Some(key) = key else { return Ok(None) };
    if !spec.changes() {
        return Err(Problem::invalid("Idempotency-Key", "is not for calls that change nothing"));
    }
    match key.len() {
        1..=KEY_MAX => Ok(Some(key)),
        len => Err(Problem::invalid("Idempotency-Key", format!("has {len} bytes, allowed are 1 to {KEY_MAX}"))),
    }
}

fn check_json(spec: &Spec, wire: &Wire, kind: Option<&str>) -> Result<(), Problem> {
    if wire.body.is_empty() {
        return Ok(());
    }
    if spec.body.is_none() {
        return Err(Problem::invalid("body", "is given, but this call takes none"));
    }
    match kind {
        Some(kind) if !payload::is_json(kind) => {
            let problem =
                Problem::new(Code::UnsupportedMediaType, format!("a body of type `{kind}` is not taken here"));
            Err(problem.hint("send `Content-Type: application/json`"))
        }
        _ => body::check_depth(&wire.body),
    }
}
