//! Why an execution is not running, and a flow not done.

use super::time::{ahead, clock};
use super::{flow, plain, state};
use crate::terminal::Paint;
use weft_api::execution::{Explanation, Reason};
use weft_api::flow::FlowExplanation;

/// The state and the first reason on one line; each further reason below, with what ends it.
pub fn text(explanation: &Explanation, paint: Paint) -> String {
    let head = state(explanation.public_state, paint);
    let until = explanation.next_time.map(|at| format!(" {} (at {} UTC)", ahead(at, explanation.at), clock(at)));
    let mut lines = Vec::new();
    for (at, reason) in explanation.reasons.iter().enumerate() {
        let text = match at {
            0 => format!("{head}: {}", plain(&reason.text)),
            _ => format!("also: {}", plain(&reason.text)),
        };
        lines.push(text);
        lines.extend(ends(reason, "weft").map(|ends| format!("  {} {ends}", paint.dim("ends"))));
        lines.extend(after(reason).map(|after| format!("  {} {after}", paint.dim("after that"))));
    }
    if explanation.reasons.is_empty() {
        lines.push(match explanation.running {
            true => format!("{head}: it is running"),
            false => format!("{head}: nothing holds it back"),
        });
    }
    if let Some(until) = until {
        lines.push(format!("{}{until}", paint.dim("next")));
    }
    lines.join("\n")
}

/// The same of an execution by itself: of a member, with the flow that it is a member of.
pub fn alone(explanation: &Explanation, paint: Paint) -> String {
    let text = text(explanation, paint);
    match (&explanation.flow, &explanation.key) {
        (Some(flow), Some(key)) => format!("{text}\n{} `{}` of {}", paint.dim("member"), plain(key), plain(flow)),
        _ => text,
    }
}

/// The reasons of a flow, then each of its live members that is told of, by its key.
pub fn flow_text(told: &FlowExplanation, paint: Paint) -> String {
    let head = flow::state(told.public_flow_state, paint);
    let mut lines = Vec::new();
    for (at, reason) in told.reasons.iter().enumerate() {
        let before = if at == 0 { head.as_str() } else { "also" };
        lines.push(format!("{before}: {}", plain(&reason.text)));
        lines.extend(ends(reason, "weft flow").map(|ends| format!("  {} {ends}", paint.dim("ends"))));
    }
    if told.reasons.is_empty() {
        lines.push(if told.done { format!("{head}: it is done") } else { format!("{head}: nothing holds it back") });
    }
    for member in &told.members {
        let why = text(&member.explanation, paint);
        lines.push(format!("{}  {}", paint.bold(&plain(&member.key)), why.replace('\n', "\n  ")));
    }
    let live: u64 = told.live.values().map(|count| u64::from(*count)).sum();
    if let more @ 1.. = live.saturating_sub(told.members.len() as u64) {
        lines
            .push(format!("… and {more} more that have not ended; `weft flow members {}`", super::id::short(&told.id)));
    }
    lines.join("\n")
}

/// Who could take it when its time has come.
fn after(reason: &Reason) -> Option<String> {
    Some(match reason.detail.get("workers")?.as_u64()? {
        0 => "no worker matches".to_owned(),
        1 => "1 worker matches".to_owned(),
        count => format!("{count} workers match"),
    })
}

/// What ends a reason, in words that a person can act on. `verbs` is what stands before a verb that does.
fn ends(reason: &Reason, verbs: &str) -> Option<String> {
    let ways = reason.clears.as_deref()?.split(", ").filter(|way| !way.is_empty() && *way != "at once");
    let ways: Vec<String> = ways
        .map(|way| match way {
            "time" => "by itself when the time comes".to_owned(),
            "engine" => "by itself, at once".to_owned(),
            "worker" => "when a worker that fits asks for work".to_owned(),
            "queue" => "when those were claimed".to_owned(),
            "children" | "members" | "upstreams" => "when they have ended".to_owned(),
            "seal" => "by `weft flow seal`".to_owned(),
            "replay of members" => "by `weft replay MEMBER` of those that are to run again".to_owned(),
            "replay of its upstreams" => "by `weft replay UPSTREAM`, which lets it wait again".to_owned(),
            "retry" => "by `weft scanners parked retry`".to_owned(),
            "discard" => "by `weft scanners parked discard`".to_owned(),
            "finish" => "by `weft flow finish`".to_owned(),
            "release" | "replay" | "reschedule" | "cancel" => format!("by `{verbs} {way}`"),
            other => format!("by {}", plain(other)),
        })
        .collect();
    (!ways.is_empty()).then(|| ways.join(", or "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_reason_is_told_with_what_ends_it() {
        let told = json!({"public_state": "delayed", "at": 1_794_860_059_000_u64, "running": false, "next_time": 1_794_860_100_000_u64,
        "reasons": [
            {"code": "not_before", "text": "retry 2 of 5", "detail": {"workers": 2}, "clears": "time, reschedule"},
            {"code": "no_worker", "text": "no worker asks for lane `mail`", "detail": {}},
        ]});
        assert_eq!(
            text(&serde_json::from_value(told).unwrap(), Paint::PLAIN),
            "delayed: retry 2 of 5\n  ends by itself when the time comes, or by `weft reschedule`\n  after that 2 workers match\nalso: no worker asks for lane `mail`\nnext in 41s (at 20:15:00 UTC)"
        );
    }

    #[test]
    fn a_member_by_itself_is_told_with_its_flow() {
        let told = json!({"public_state": "skipped", "at": 1, "running": false, "flow": "f_7_0192", "key": "merge",
            "reasons": [{"code": "done", "text": "it has ended", "detail": {}, "clears": "replay of its upstreams"}]});
        assert_eq!(
            alone(&serde_json::from_value(told).unwrap(), Paint::PLAIN),
            "skipped: it has ended\n  ends by `weft replay UPSTREAM`, which lets it wait again\nmember `merge` of f_7_0192"
        );
    }

    #[test]
    fn a_flow_is_told_with_its_members_and_how_many_more_there_are() {
        let waits = json!({"public_state": "waiting_children", "at": 1, "running": false,
            "reasons": [{"code": "dependency", "text": "it waits for `a`", "detail": {}, "clears": "seal, upstreams"}]});
        let told = json!({"id": "f_7_0192f3c1-6b1e-7c55-9a40-5d2f6d51c0aa", "public_flow_state": "running", "at": 1,
            "done": false, "live": {"waiting": 2, "waiting_children": 1},
            "reasons": [{"code": "members", "text": "3 members live", "detail": {}, "clears": "members"}],
            "members": [{"key": "merge", "execution": "x", "explanation": waits}]});
        assert_eq!(
            flow_text(&serde_json::from_value(told).unwrap(), Paint::PLAIN),
            "running: 3 members live\n  ends when they have ended\n\
             merge  waiting_children: it waits for `a`\n    ends by `weft flow seal`, or when they have ended\n\
             … and 2 more that have not ended; `weft flow members …51c0aa`"
        );
    }
}
