//! From a rejection of the core to a problem of the API. The code is the same word; the facts become fields.

use serde_json::json;
use weft_api::{Code, Problem};
use weft_core::error::Rejection;
use weft_core::flow::problem::{Problem as Wrong, Wrong as Fault};
use weft_core::text::Text;
use weft_core::{ExecutionId, FlowId};

/// When to ask again for a record that only a newer version can read: an upgrade takes a while.
const NEWER_RETRY_MS: u64 = 10_000;

/// The rejection as a caller sees it.
pub fn problem(rejection: Rejection) -> Problem {
    if let Rejection::AtItem { index, rejection } = rejection {
        let inner = problem(*rejection);
        let detail = format!("item {index}: {}", inner.detail);
        return Problem { detail, ..inner }.field("item", index);
    }
    let code = Code::from_name(rejection.code()).unwrap_or(Code::Internal);
    let detail = match &rejection {
        // What is wrong inside is for the log, not for the caller.
        Rejection::Internal { .. } => "an invariant would have been broken; nothing was changed".to_string(),
        other => other.to_string(),
    };
    let problem = Problem::new(code, detail);
    match rejection {
        Rejection::InvalidArgument { field, .. } => problem.field("field", field),
        Rejection::OutOfRange { field, min, max, got } => {
            problem.field("field", field).field("min", min).field("max", max).field("got", got)
        }
        Rejection::PayloadTooLarge { field, limit, got } => {
            problem.field("field", field).field("limit", limit).field("got", got)
        }
        Rejection::InvalidId { expected } => problem.field("expected", expected),
        Rejection::Forbidden { needs } => problem.field("needs", vec![needs]),
        Rejection::NotAChild { id } => problem.field("execution", id.to_string()),
        Rejection::LeaseExpired { at } => problem.field("at", at.ms()).hint(STOP),
        Rejection::LeaseRevoked { at, reason } => {
            problem.field("at", at.ms()).field("reason", reason.to_string()).hint(STOP)
        }
        Rejection::LeaseLost { cause, at } => problem.field("at", at.ms()).field("cause", cause.name()).hint(STOP),
        Rejection::Cancelled { at, reason, by } => {
            problem.field("at", at.ms()).field("reason", reason.to_string()).field("by", by.to_string()).hint(STOP)
        }
        Rejection::StaleLease { current_epoch } => problem.field("current_epoch", current_epoch).hint(STOP),
        Rejection::ExecutionNotActive { public_state, epoch } => {
            problem.field("public_state", public_state.name()).field("epoch", epoch)
        }
        Rejection::AttemptNotFound => problem.field("what", "attempt"),
        Rejection::StepNotFound => problem.field("what", "step"),
        Rejection::BulkNotFound => problem.field("what", "job"),
        Rejection::NodeNotFound => problem.field("what", "node").hint("`weft nodes` lists those that live"),
        Rejection::WorkerDead { at, reason } => {
            problem.field("at", at.ms()).field("reason", reason.to_string()).hint(STOP)
        }
        Rejection::InstanceSuperseded { session } => problem.field("session", session).hint(STOP),
        Rejection::DeadLetterNotFound => {
            problem.field("what", "parked item").hint("`weft scanners parked` lists those that there are")
        }
        Rejection::ExecutionTerminal { outcome, reason, epoch, attempt } => problem
            .field("outcome", outcome.name())
            .field("reason", reason.name())
            .field("epoch", epoch)
            .field("attempt", attempt),
        Rejection::ExecutionNotTerminal { public_state, previous } => {
            let problem = problem.field("public_state", public_state.name());
            match previous {
                Some((outcome, attempt)) => {
                    problem.field("previous_outcome", outcome.name()).field("previous_attempt", attempt)
                }
                None => problem,
            }
        }
        Rejection::NotDelayed { public_state } | Rejection::NotClaimable { public_state } => {
            problem.field("public_state", public_state.name())
        }
        Rejection::CancelRequested { kill_in_ms } => problem.field("kill_in_ms", kill_in_ms),
        Rejection::IdempotencyMismatch { existing } => problem.field("existing", existing.map(|id| id.to_string())),
        Rejection::ReplayLimit { max } => problem.field("max", max),
        Rejection::LimitExceeded { what, max } => problem.field("what", what).field("max", max),
        Rejection::RevisionMismatch { current } => problem.field("current", current.map(|id| id.to_string())),
        Rejection::GroupNotFound => problem.field("what", "group"),
        Rejection::FlowClosed { why } => problem.field("state", why).hint(match why {
            "fixed" => "submit another flow; this one was told to stay as it is",
            "cancelled" | "ending" => "submit another flow; no replay escapes the end of this one",
            _ => "replay one of its members, which opens it again, or submit another flow",
        }),
        Rejection::FlowTerminal { outcome, cause } => problem.field("outcome", outcome.name()).field("cause", cause),
        Rejection::FlowNotTerminal { state } => problem.field("state", state).hint("cancel it, or wait for its end"),
        Rejection::GroupDecided { verdict } => problem.field("verdict", verdict.name()),
        Rejection::DownstreamBegun => problem.hint("add the edge before the downstream is claimed"),
        Rejection::StillImpossible { edges } => {
            let edge = |(from, to): &(Text, Text)| json!({ "from": **from, "to": **to });
            problem
                .field("edges", edges.iter().map(edge).collect::<Vec<_>>())
                .hint("replay the upstreams, or an operator replays it with `ignore_dependencies`")
        }
        Rejection::FlowRevisionMismatch { current } => problem.field("current", current),
        Rejection::BadGraph { problems } => graph(problem, &problems),
        Rejection::GraphTooLarge { visited } => problem.field("visited", visited),
        Rejection::UnknownPolicy { what } => problem.field("what", &*what),
        Rejection::Busy { retry_after_ms, cause } => problem.retry_after(retry_after_ms).field("cause", cause.name()),
        Rejection::NewerFormat { .. } => {
            problem.retry_after(NEWER_RETRY_MS).hint("ask a node of the newer version, or upgrade this one")
        }
        Rejection::Unavailable { retry_after_ms, outcome_unknown } => {
            problem.retry_after(retry_after_ms).field("outcome_unknown", outcome_unknown)
        }
        Rejection::DeadlineInPast
        | Rejection::FenceRequired
        | Rejection::ExecutionNotFound
        | Rejection::FlowNotFound
        | Rejection::WorkerNotFound
        | Rejection::KeyNotFound
        | Rejection::NameTaken
        | Rejection::InvalidCursor
        | Rejection::AtItem { .. }
        | Rejection::Elsewhere { .. }
        | Rejection::Internal { .. } => problem,
    }
}

/// An id that is not one of what is `expected`. The id of a flow where one of an execution is wanted, or the other way
/// round, is told as what it is.
pub fn invalid_id(expected: &'static str, got: &str) -> Problem {
    let refused = problem(Rejection::InvalidId { expected }).field("got", got);
    let (told, hint) = match expected {
        "x" if got.parse::<FlowId>().is_ok() => {
            ("is the id of a flow, not of an execution", format!("`weft flow get {got}`, or `GET /v1/flows/{got}`"))
        }
        "f" if got.parse::<ExecutionId>().is_ok() => {
            ("is the id of an execution, not of a flow", format!("`weft get {got}`, or `GET /v1/executions/{got}`"))
        }
        _ => return refused,
    };
    Problem { detail: format!("`{got}` {told}"), ..refused }.hint(hint)
}

/// Everything that one look at a graph has found, and the facts of the first as if it were alone.
fn graph(problem: Problem, found: &[Wrong]) -> Problem {
    let each = |wrong: &Wrong| {
        json!({
            "code": wrong.code(),
            "path": wrong.path,
            "keys": wrong.keys().iter().map(|key| key.to_string()).collect::<Vec<_>>(),
            "detail": wrong.to_string(),
        })
    };
    let all = problem.field("problems", found.iter().map(each).collect::<Vec<_>>());
    let Some(first) = found.first() else { return all };
    let all = all.field("path", first.path.clone());
    match (&first.wrong, found.len()) {
        (Fault::Limit { what, limit, got }, _) => all.field("what", *what).field("limit", *limit).field("got", *got),
        (Fault::Member { rejection, .. } | Fault::Edge { rejection, .. }, _) => {
            let inner = self::problem((**rejection).clone());
            let all = inner.fields.into_iter().fold(all, |all, (name, value)| all.field(&name, value));
            Problem { hint: inner.hint, ..all }
        }
        (Fault::Cycle { .. }, _) => all.hint("take one of these edges away"),
        (_, 1) => all,
        (_, count) => all.hint(format!("all {count} are under `fields.problems`")),
    }
}

const STOP: &str = "stop work and discard it";
