//! Why an execution is not running.

use super::time::{ahead, clock};
use super::{plain, state};
use crate::terminal::Paint;
use weft_api::execution::{Explanation, Reason};

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
        lines.extend(ends(reason).map(|ends| format!("  {} {ends}", paint.dim("ends"))));
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

/// Who could take it when its time has come.
fn after(reason: &Reason) -> Option<String> {
    Some(match reason.detail.get("workers")?.as_u64()? {
        0 => "no worker matches".to_owned(),
        1 => "1 worker matches".to_owned(),
        count => format!("{count} workers match"),
    })
}

/// What ends a reason, in words that a person can act on.
fn ends(reason: &Reason) -> Option<String> {
    let ways = reason.clears.as_deref()?.split(", ").filter(|way| !way.is_empty() && *way != "at once");
    let ways: Vec<String> = ways
        .map(|way| match way {
            "time" => "by itself when the time comes".to_owned(),
            "engine" => "by itself, at once".to_owned(),
            "worker" => "when a worker that fits asks for work".to_owned(),
            "queue" => "when those were claimed".to_owned(),
            "children" => "when they have ended".to_owned(),
            "release" | "replay" | "reschedule" => format!("by `weft {way}`"),
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
}
