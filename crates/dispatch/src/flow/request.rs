//! Flows from the wire to the engine: graphs and policies.

use crate::execution::mode;
use crate::submit::{submission, when};
use crate::text;
use weft_api::Problem;
use weft_api::execution::{CancelMode as WireMode, Forever, Keep};
use weft_api::flow as wire;
use weft_core::command::{CancelMode, NewGroup};
use weft_core::record::edge::On;
use weft_core::record::execution::Policy;
use weft_core::record::flow::{CompletionPolicy, FailurePolicy, FlowOutcome, Growth, Mode, Remaining};
use weft_core::record::member::{GroupPolicy, MAIN, Then};
use weft_engine::flow::{Edge, FlowSubmission, Member};

/// The flow that a request asks for, on top of the engine's defaults.
pub fn flow(body: wire::SubmitFlow, defaults: &Policy, trace: Option<&str>) -> Result<FlowSubmission, Problem> {
    let trace = body.trace.as_deref().or(trace);
    let mut flow = FlowSubmission::new(body.kind);
    flow.name = body.name.map(text);
    flow.tags = body.tags.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
    flow.failure = body.failure_policy.map_or(Ok(flow.failure), failure)?;
    if let Some(policy) = body.completion_policy {
        flow.completion = completion(policy)?;
    }
    flow.growth = body.growth.map_or(flow.growth, growth);
    flow.seal = body.seal.unwrap_or(true);
    flow.seal_by_ms = body.seal_by_ms;
    flow.deadline = when("deadline_in_ms", body.deadline_in_ms, "deadline_at", body.deadline_at)?;
    flow.retention_ms = match body.retention_ms {
        Some(Keep::Ms(ms)) => Some(ms),
        Some(Keep::Word(Forever::Forever)) => None,
        None => flow.retention_ms,
    };
    flow.idempotency_key = body.idempotency_key.map(bytes::Bytes::from);
    flow.idempotency_ttl_ms = body.idempotency_ttl_ms.unwrap_or(flow.idempotency_ttl_ms);
    flow.trace = trace.map(Into::into);
    flow.members = members(body.members, defaults, trace)?;
    flow.edges = edges(body.edges)?;
    Ok(flow)
}

pub fn members(members: Vec<wire::NewMember>, defaults: &Policy, trace: Option<&str>) -> Result<Vec<Member>, Problem> {
    let each = |(at, given): (usize, wire::NewMember)| {
        let key = given.key.clone();
        member(given, defaults, trace)
            .map_err(|problem| inside(&format!("members[{at}]"), problem).field("keys", vec![key]))
    };
    members.into_iter().enumerate().map(each).collect()
}

fn member(mut given: wire::NewMember, defaults: &Policy, trace: Option<&str>) -> Result<Member, Problem> {
    let groups = std::mem::take(&mut given.groups);
    let (key, critical) = (given.key.clone(), given.critical.unwrap_or(true));
    let groups = groups.into_iter().enumerate().map(|(at, given)| {
        let joined = join(given.policy, given.then).map_err(|problem| inside(&format!("groups[{at}]"), problem));
        joined.map(|(policy, then)| NewGroup { name: text(given.name), policy, then })
    });
    let groups = groups.collect::<Result<_, Problem>>()?;
    let submission = submission(given.submit(), defaults, trace)?;
    Ok(Member { critical, groups, ..Member::new(key, submission) })
}

pub fn edges(edges: Vec<wire::NewEdge>) -> Result<Vec<Edge>, Problem> {
    let each = |(at, given): (usize, wire::NewEdge)| {
        let keys = vec![given.from.clone(), given.to.clone()];
        edge(given).map_err(|problem| inside(&format!("edges[{at}]"), problem).field("keys", keys))
    };
    edges.into_iter().enumerate().map(each).collect()
}

fn edge(given: wire::NewEdge) -> Result<Edge, Problem> {
    let policy = match (given.policy, given.then) {
        (Some(policy), then) => Some(join(policy, then)?),
        (None, Some(_)) => return Err(Problem::invalid("then", "is given without `policy`, which it belongs to")),
        (None, None) => None,
    };
    Ok(Edge {
        group: given.group.map_or_else(|| MAIN.into(), text),
        policy,
        on: match given.on.unwrap_or_default() {
            wire::On::Success => On::Success,
            wire::On::Failure => On::Failure,
            wire::On::Any => On::Any,
        },
        input: given.input.map(text),
        ..Edge::new(given.from, given.to)
    })
}

/// A group and what follows from its decision, which has to be said where both are likely.
fn join(policy: wire::GroupPolicy, then: Option<wire::Then>) -> Result<(GroupPolicy, Then), Problem> {
    let policy = match policy {
        wire::GroupPolicy::AllOf {} => GroupPolicy::AllOf,
        wire::GroupPolicy::AnyOf {} => GroupPolicy::AnyOf,
        wire::GroupPolicy::Quorum { k } => GroupPolicy::Quorum(k),
    };
    let then = match then {
        Some(wire::Then::LetRun {}) => Then::LetRun,
        Some(wire::Then::CancelRemaining { mode, grace_ms }) => Then::CancelRemaining(ending("then", mode, grace_ms)?),
        None if policy == GroupPolicy::AllOf => Then::LetRun,
        None => {
            let why = format!("is missing: of `{}` some upstreams may still run when it is decided", policy.name());
            return Err(Problem::invalid("then", why).hint("say `let_run` or `cancel_remaining`"));
        }
    };
    Ok((policy, then))
}

fn ending(field: &str, how: Option<WireMode>, grace_ms: Option<u64>) -> Result<Mode, Problem> {
    match mode(how, grace_ms).map_err(|problem| inside(field, problem))? {
        CancelMode::Immediate => Ok(Mode::Immediate),
        CancelMode::Graceful { grace_ms } => Ok(Mode::Graceful { grace_ms }),
    }
}

fn remaining(given: Option<wire::Remaining>, default: Remaining) -> Result<Remaining, Problem> {
    Ok(match given {
        None => default,
        Some(wire::Remaining::LetRun {}) => Remaining::LetRun,
        Some(wire::Remaining::FinishActive {}) => Remaining::FinishActive,
        Some(wire::Remaining::Cancel { mode, grace_ms }) => Remaining::Cancel(ending("remaining", mode, grace_ms)?),
    })
}

const CANCEL: Remaining = Remaining::Cancel(Mode::Immediate);

fn failure(policy: wire::FailurePolicy) -> Result<FailurePolicy, Problem> {
    let within = |problem| inside("failure_policy", problem);
    Ok(match policy {
        wire::FailurePolicy::Isolate {} => FailurePolicy::Isolate,
        wire::FailurePolicy::CollectAll {} => FailurePolicy::CollectAll,
        wire::FailurePolicy::FailFast { remaining: given } => {
            FailurePolicy::FailFast { remaining: remaining(given, CANCEL).map_err(within)? }
        }
    })
}

fn completion(policy: wire::CompletionPolicy) -> Result<CompletionPolicy, Problem> {
    let within = |problem| inside("completion_policy", problem);
    Ok(match policy {
        wire::CompletionPolicy::AllTerminal {} => CompletionPolicy::AllTerminal,
        wire::CompletionPolicy::Root { key, remaining: given } => {
            CompletionPolicy::Root { key: text(key), remaining: remaining(given, Remaining::LetRun).map_err(within)? }
        }
        wire::CompletionPolicy::Threshold { successes, remaining: given } => {
            CompletionPolicy::Threshold { successes, remaining: remaining(given, CANCEL).map_err(within)? }
        }
        wire::CompletionPolicy::Declared { remaining: given } => {
            CompletionPolicy::Declared { remaining: remaining(given, CANCEL).map_err(within)? }
        }
    })
}

pub fn growth(growth: wire::Growth) -> Growth {
    match growth {
        wire::Growth::Dynamic => Growth::Dynamic,
        wire::Growth::Fixed => Growth::Fixed,
    }
}

pub fn outcome(outcome: wire::FlowOutcome) -> FlowOutcome {
    match outcome {
        wire::FlowOutcome::Completed => FlowOutcome::Completed,
        wire::FlowOutcome::Failed => FlowOutcome::Failed,
        wire::FlowOutcome::Cancelled => FlowOutcome::Cancelled,
    }
}

/// What a cancel does to members. How a worker is asked is a question only where workers lose their work.
pub fn cancelling(body: &wire::CancelFlow) -> Result<Remaining, Problem> {
    let policy = body.policy.unwrap_or(wire::CancelPolicy::CancelAll);
    let given = [("mode", body.mode.is_some()), ("grace_ms", body.grace_ms.is_some())];
    match (policy, given.into_iter().find(|(_, given)| *given)) {
        (wire::CancelPolicy::CancelAll, _) => match mode(body.mode, body.grace_ms)? {
            CancelMode::Immediate => Ok(CANCEL),
            CancelMode::Graceful { grace_ms } => Ok(Remaining::Cancel(Mode::Graceful { grace_ms })),
        },
        (_, Some((field, _))) => Err(Problem::invalid(field, "has an effect only with the policy `cancel_all`")),
        (wire::CancelPolicy::LetActiveFinish, None) => Ok(Remaining::FinishActive),
        (wire::CancelPolicy::FlowOnly, None) => Ok(Remaining::LetRun),
    }
}

/// A problem of one part of a request, named by its place in the whole.
fn inside(place: &str, mut problem: Problem) -> Problem {
    let Some(field) = problem.fields.get("field").and_then(|field| field.as_str()).map(str::to_string) else {
        return problem;
    };
    let whole = format!("{place}.{field}");
    problem.detail = problem.detail.replacen(&format!("`{field}`"), &format!("`{whole}`"), 1);
    problem.field("field", whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(body: Value) -> Result<FlowSubmission, Problem> {
        flow(serde_json::from_value(body).expect("a good body"), &Policy::default(), None)
    }

    #[test]
    fn a_flow_has_the_defaults_of_the_specification() {
        let flow = read(json!({ "kind": "etl", "members": [{ "key": "a", "kind": "load" }] })).expect("it is good");
        assert!(flow.seal && flow.members[0].critical);
        assert_eq!((flow.failure, flow.growth), (FailurePolicy::Isolate, Growth::Dynamic));
        let root = read(json!({ "kind": "etl", "completion_policy": { "kind": "root", "key": "a" } })).expect("good");
        assert_eq!(root.completion, CompletionPolicy::Root { key: "a".into(), remaining: Remaining::LetRun });
        let fast = read(json!({ "kind": "etl", "failure_policy": { "kind": "fail_fast" } })).expect("good");
        assert_eq!(fast.failure, FailurePolicy::FailFast { remaining: CANCEL });
    }

    #[test]
    fn what_is_wrong_inside_a_graph_is_named_by_its_place() {
        let any_of = json!({ "kind": "any_of" });
        for (body, field, keys) in [
            (
                json!({ "kind": "etl", "members": [{ "key": "a", "kind": "load", "groups": [{ "policy": any_of }] }] }),
                "members[0].groups[0].then",
                json!(["a"]),
            ),
            (
                json!({ "kind": "etl", "members": [
                    { "key": "a", "kind": "load" }, { "key": "b", "kind": "load", "delay_ms": 1, "start_at": 1 },
                ] }),
                "members[1].start_at",
                json!(["b"]),
            ),
            (
                json!({ "kind": "etl", "edges": [{ "from": "a", "to": "b", "then": { "kind": "let_run" } }] }),
                "edges[0].then",
                json!(["a", "b"]),
            ),
            (
                json!({ "kind": "etl", "failure_policy": { "kind": "fail_fast", "remaining": { "kind": "cancel", "grace_ms": 3 } } }),
                "failure_policy.remaining.grace_ms",
                Value::Null,
            ),
        ] {
            let refused = read(body).expect_err("it is refused");
            assert_eq!(refused.fields["field"], field);
            assert!(refused.detail.contains(&format!("`{field}`")), "{}", refused.detail);
            assert_eq!(refused.fields.get("keys").cloned().unwrap_or_default(), keys);
        }
    }

    #[test]
    fn ex_8_how_to_ask_workers_is_refused_where_none_is_asked() {
        for policy in [wire::CancelPolicy::LetActiveFinish, wire::CancelPolicy::FlowOnly] {
            let body = wire::CancelFlow { policy: Some(policy), grace_ms: Some(5), ..Default::default() };
            assert_eq!(cancelling(&body).expect_err("it is refused").fields["field"], "grace_ms");
        }
        let graceful = wire::CancelFlow { mode: Some(WireMode::Graceful), grace_ms: Some(5), ..Default::default() };
        assert_eq!(cancelling(&graceful), Ok(Remaining::Cancel(Mode::Graceful { grace_ms: 5 })));
    }
}
