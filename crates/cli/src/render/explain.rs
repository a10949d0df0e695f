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
        lines.extend(clears(reason).map(|clears| format!("  {} {clears}", paint.dim("until"))));
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

fn clears(reason: &Reason) -> Option<String> {
    reason.clears.as_deref().map(plain).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_reason_is_told_with_what_ends_it() {
        let told = json!({"public_state": "delayed", "at": 1_794_860_059_000_u64, "running": false, "next_time": 1_794_860_100_000_u64,
        "reasons": [
            {"code": "delay", "text": "retry 2 of 5", "detail": {}, "clears": "the time comes"},
            {"code": "no_worker", "text": "no worker asks for lane `mail`", "detail": {}},
        ]});
        assert_eq!(
            text(&serde_json::from_value(told).unwrap(), Paint::PLAIN),
            "delayed: retry 2 of 5\n  until the time comes\nalso: no worker asks for lane `mail`\nnext in 41s (at 20:15:00 UTC)"
        );
    }
}
