//! Why a flow is not done, in words and as facts.

use super::view;
use crate::obstacle::{failed, quoted, told};
use crate::parked::name;
use serde_json::{Value, json};
use weft_api::execution::{Explanation, Reason};
use weft_api::flow as wire;
use weft_core::Time;
use weft_core::record::flow::{Cause, Flow, FlowOutcome, State};
use weft_engine::flow::{Against, FlowExplanation};

pub fn explanation(explanation: FlowExplanation, now: Time) -> wire::FlowExplanation {
    let reasons = reasons(&explanation, now);
    let flow = &explanation.flow;
    let members = explanation.first.into_iter().map(|(key, id, explanation)| wire::MemberExplanation {
        key: key.to_string(),
        execution: id.to_string(),
        // Which flow and member it is stands around it.
        explanation: Explanation { flow: None, key: None, ..crate::view::explanation(explanation) },
    });
    wire::FlowExplanation {
        id: flow.id.to_string(),
        public_flow_state: view::state(flow.public_state()),
        at: now.ms(),
        done: flow.is_done(),
        reasons,
        live: explanation.live.iter().map(|(state, count)| (state.name().to_string(), *count)).collect(),
        members: members.collect(),
    }
}

fn reasons(it: &FlowExplanation, now: Time) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let mut add = |code: &str, text: String, detail: Value, clears: Option<&str>| {
        let Value::Object(detail) = detail else { unreachable!("explain: its detail is an object") };
        let detail = detail.into_iter().filter(|(_, value)| !value.is_null()).collect();
        reasons.push(Reason { code: code.to_string(), text, detail, clears: clears.map(str::to_string) });
    };
    if let Some((text, detail)) = decided(&it.flow) {
        match &it.flow.hot.state {
            State::Done { outcome, cause, .. } => {
                let (more, clears) = reopened_by(*outcome, cause, it.flow.summary.failures);
                add("done", format!("{text}{more}"), detail, clears);
            }
            _ => add("ending", text, detail, Some("members")),
        }
    }
    if !it.against.is_empty() && !matches!(it.flow.hot.state, State::Done { outcome: FlowOutcome::Completed, .. }) {
        let (text, detail) = against(&it.against, it.flow.summary.failures);
        let open = matches!(it.flow.hot.state, State::Open);
        add("against", text, detail, open.then_some("replay"));
    }
    if let Some(at) = it.unsealed_until {
        let text = "it is not sealed: more members and edges may come".to_string();
        add("unsealed", text, json!({ "cancelled_at": at.ms() }), Some("seal, time"));
    }
    if it.sealing {
        add("sealing", "its members are being sealed".to_string(), json!({}), Some("engine, at once"));
    }
    if it.undeclared {
        let text = "all members have ended, and nobody has declared its outcome".to_string();
        add("undeclared", text, json!({}), Some("finish"));
    }
    if !it.live.is_empty() {
        let total: u32 = it.live.iter().map(|(_, count)| count).sum();
        let each: Vec<String> = it.live.iter().map(|(state, count)| format!("{count} {}", state.name())).collect();
        let verb = if total == 1 { "member lives" } else { "members live" };
        let by_state: Value = it.live.iter().map(|(state, count)| (state.name().to_string(), json!(count))).collect();
        let detail = json!({ "total": total, "by_state": by_state });
        add("members", format!("{total} {verb}: {}", each.join(", ")), detail, Some("members"));
    }
    if it.cancel_owed > 0 {
        let text = format!("{} members have still to be cancelled", it.cancel_owed);
        add("cancel_owed", text, json!({ "count": it.cancel_owed }), Some("engine, members"));
    }
    if it.works > 0 {
        let text = format!("{} pieces of work go on by themselves", it.works);
        add("continuations", text, json!({ "count": it.works }), Some("engine, at once"));
    }
    for (timer, trouble) in &it.trouble {
        let (text, mut detail, clears) = told(trouble, now);
        detail["timer"] = json!(timer);
        add("trouble", text, detail, clears);
    }
    for parked in &it.parked {
        let (body, item) = (&parked.letter.body, parked.item.map(name));
        let text = format!("{} is parked: {}", item.as_deref().unwrap_or("an entry of the due index"), body.error);
        let detail = json!({
            "item": item,
            "parked": parked.id.to_string(),
            "timer": body.timer.name(),
            "since": body.parked_at.ms(),
            "error": *body.error,
        });
        add("parked", text, detail, Some("retry, discard"));
    }
    reasons
}

/// What opens a flow again that has ended, if it can be opened and anything is gained by it.
fn reopened_by(outcome: FlowOutcome, cause: &Cause, failures: u32) -> (&'static str, Option<&'static str>) {
    match (outcome, cause, failures) {
        (FlowOutcome::Completed, ..) => ("", None),
        (FlowOutcome::Cancelled, ..) => ("; it cannot be opened again: submit it anew", None),
        // Those that the end of the flow cancelled do not count against it.
        (FlowOutcome::Failed, _, 0) => ("; no member counts against it", Some("replay of members")),
        (FlowOutcome::Failed, Cause::Deadline, _) => ("", Some("replay, replay of members")),
        (FlowOutcome::Failed, ..) => ("", Some("replay")),
    }
}

/// `2 members count against it: \`load\` failed: smtp "421 try later", \`mail\` expired`
fn against(first: &[Against], failures: u32) -> (String, Value) {
    let each = |it: &Against| match &it.failure {
        Some(failure) => format!("`{}` {}: {}", it.key, it.state.name(), quoted(failure)),
        None => format!("`{}` {}", it.key, it.state.name()),
    };
    let mut named: Vec<String> = first.iter().map(each).collect();
    if failures as usize > first.len() {
        named.push("…".to_string());
    }
    let count = match failures {
        1 => "one member counts against it".to_string(),
        _ => format!("{failures} members count against it"),
    };
    let member = |it: &Against| {
        json!({
            "key": *it.key,
            "execution": it.id.to_string(),
            "public_state": it.state.name(),
            "failure": it.failure.as_ref().map(failed),
        })
    };
    let detail = json!({ "count": failures, "members": first.iter().map(member).collect::<Vec<_>>() });
    (format!("{count}: {}", named.join(", ")), detail)
}

/// Its outcome, if that stands.
fn decided(flow: &Flow) -> Option<(String, Value)> {
    match &flow.hot.state {
        State::Open => None,
        State::Ending(ending) => Some((
            format!("it ends as {} ({}) when its members have", ending.outcome.name(), ending.cause.name()),
            json!({ "outcome": ending.outcome.name(), "cause": ending.cause.name(), "by": *ending.by, "since": ending.since.ms() }),
        )),
        State::Done { outcome, cause, by, at } => Some((
            format!("it has ended: {} ({})", outcome.name(), cause.name()),
            json!({ "outcome": outcome.name(), "cause": cause.name(), "by": **by, "at": at.ms() }),
        )),
    }
}
