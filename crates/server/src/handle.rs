//! One call, from its headers to its reply. The order of checks is fixed: where it comes from, whose key it has, how
//! often that key calls, what it may do, how large the body is, and only then what it asks.

use crate::app::{App, Shared};
use crate::claim;
use crate::drain::stopping;
use crate::identify::{Known, header, identify, namespace_of};
use crate::waiting::{Seat, take_seat, wait_of};
use crate::{body, reply};
use axum::extract::Request;
use axum::response::Response;
use http::HeaderName;
use http::header::{CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH};
use http::request::Parts;
use std::time::Duration;
use weft_api::operation::Wire;
use weft_api::{Call, Code, Item, Problem, Reply, Spec, from_raw, payload};
use weft_dispatch::{Answer, Around};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const KEY_MAX: usize = weft_core::limits::KEY_MAX;
/// How long a call may take that does not wait for anything.
const CALL_MAX: Duration = Duration::from_secs(30);

/// Which operation was called, with the parts of its path.
pub struct Incoming {
    pub spec: &'static Spec,
    pub path: Vec<String>,
}

/// Answers the call; `name` is told who calls as soon as that is known.
pub async fn call(app: &App, incoming: Incoming, request: Request, name: &mut String) -> Result<Response, Problem> {
    let shared = &app.shared;
    let spec = incoming.spec;
    let (parts, body) = request.into_parts();
    let (namespace, query) = namespace_of(&parts)?;
    let known = identify(shared, &parts, namespace).await?;
    *name = known.caller.name.to_string();
    if let Err(problem) = known.caller.may(spec) {
        shared.metrics.refused("scope");
        let target = incoming.path.first().cloned().unwrap_or_default();
        shared.tell_refusal(known.caller.principal("".into()), spec.id, target, problem.code);
        return Err(problem);
    }
    known.caller.chosen()?;
    let bytes = body::read(&parts.headers, body, shared.body_max(spec.body_max)).await?;
    let wire = Wire {
        path: incoming.path.clone(),
        query,
        body: bytes,
        idempotency_key: idempotency_key(&parts, spec)?,
        if_match: header(&parts.headers, &IF_MATCH)?.map(|tag| untagged(&tag).to_string()),
    };
    let kind = header(&parts.headers, &CONTENT_TYPE)?;
    let (call, raw) = match from_raw(spec.id, &wire, kind.clone()) {
        Some(call) => (call?, true),
        None => {
            check_json(spec, &wire, kind.as_deref())?;
            (Call::from_wire(spec.id, wire)?, false)
        }
    };
    let around = Around { trace: header(&parts.headers, &TRACEPARENT)? };
    let answer = carry_out(app, known, call, around).await?;
    if spec.tag == "keys"
        && let (Some(keyring), Some(key)) = (&shared.keyring, incoming.path.first())
    {
        keyring.forget(key);
    }
    respond(&parts, spec, answer, raw)
}

fn respond(parts: &Parts, spec: &Spec, answer: Answer, raw: bool) -> Result<Response, Problem> {
    if raw && let Some(body) = single(&answer.reply)? {
        return Ok(reply::bytes(200, body.into(), Some(payload::JSON)));
    }
    if let (Some(revision), Some(tags)) = (&answer.revision, header(&parts.headers, &IF_NONE_MATCH)?)
        && tags.split(',').any(|tag| matches!(untagged(tag), "*") || untagged(tag) == revision)
    {
        return Ok(reply::unchanged(revision));
    }
    Ok(reply::answer(&answer, spec.status, &parts.headers))
}

/// What stands in an entity tag. For reads a weak one means the same.
fn untagged(tag: &str) -> &str {
    let tag = tag.trim();
    tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"')
}

/// Runs the call, unless too many wait, the server stops or it takes too long.
async fn carry_out(app: &App, known: Known, call: Call, around: Around) -> Result<Answer, Problem> {
    let shared = &app.shared;
    let spec = call.spec();
    let wait = wait_of(&call);
    let _seat: Option<Seat> = match wait {
        Duration::ZERO => None,
        _ => Some(take_seat(shared, known.good.as_ref())?),
    };
    let limit = CALL_MAX + wait;
    let work = async {
        match call {
            // A claim that waits is let go by the engine, which knows whether it has been given something.
            Call::Claim(args) => claim::carry_out(app, known.caller, *args, around).await,
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

/// The `Idempotency-Key` of a call that changes something; others have no use for one.
fn idempotency_key(parts: &Parts, spec: &Spec) -> Result<Option<String>, Problem> {
    let Some(key) = header(&parts.headers, &IDEMPOTENCY_KEY)? else { return Ok(None) };
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

impl Shared {
    /// True if the caller of this request may see what operators see.
    pub async fn is_operator(&self, parts: &Parts) -> Result<bool, Problem> {
        let known = identify(self, parts, None).await?;
        Ok(known.caller.has(weft_api::Scope::Operate))
    }
}
