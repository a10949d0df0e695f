//! Reasons why an execution is not running, in words and as facts.

use serde_json::{Value, json};
use weft_core::Time;
use weft_core::text::Text;
use weft_engine::{NoWorker, Obstacle};

/// For people, for programs, and what ends it.
pub fn told(obstacle: &Obstacle, now: Time) -> (String, Value, Option<&'static str>) {
    match obstacle {
        Obstacle::Done { outcome, reason, by, at, attempt } => (
            format!("it has ended: {} ({})", outcome.name(), reason.name()),
            json!({ "outcome": outcome.name(), "reason": reason.name(), "by": **by, "at": at.ms(), "attempt": attempt }),
            Some("replay"),
        ),
        Obstacle::Running { worker, instance, epoch, expires_at } => (
            format!("`{instance}` has it; its lease lasts {} more", span(expires_at.since(now))),
            json!({ "worker": **worker, "instance": **instance, "epoch": epoch, "expires_at": expires_at.ms() }),
            None,
        ),
        Obstacle::CancelRequested { reason, by, kill_at } => (
            format!("a cancel was requested by {by}{}", because(reason)),
            json!({ "reason": **reason, "by": **by, "kill_at": kill_at.map(Time::ms) }),
            Some("time"),
        ),
        Obstacle::RequeueDue { lapsed_at } => (
            "its lease has run out; it goes back to the queue at once".to_string(),
            json!({ "lapsed_at": lapsed_at.ms() }),
            Some("engine, at once"),
        ),
        Obstacle::OperatorHold { by, reason, at } => (
            format!("{by} holds it{}", because(reason)),
            json!({ "by": **by, "reason": **reason, "at": at.ms() }),
            Some("release"),
        ),
        Obstacle::Children { waiting, needed, timeout_at } => (
            format!("it waits for {needed} of {waiting} unfinished children"),
            json!({ "waiting": waiting, "needed": needed, "timeout_at": timeout_at.map(Time::ms) }),
            Some("children, time"),
        ),
        Obstacle::NotBefore { until, why, last } => (
            format!("it waits {} more ({})", span(until.since(now)), why.name().replace('_', " ")),
            json!({ "until": until.ms(), "why": why.name(), "last": last.map(|cause| cause.name()) }),
            Some("time, reschedule"),
        ),
        Obstacle::DeadlineDue { at } => (
            "its deadline has passed; it expires at once".to_string(),
            json!({ "at": at.ms() }),
            Some("engine, at once"),
        ),
        Obstacle::NoWorker(which) => no_worker(which),
        Obstacle::Behind { count, exact } => (
            format!(
                "{}{count} claimable {}",
                if *exact { "" } else { "at least " },
                if *count == 1 { "one comes first" } else { "ones come first" }
            ),
            json!({ "count": count, "exact": exact }),
            Some("queue"),
        ),
        Obstacle::Claimable => ("the next matching claim takes it".to_string(), json!({}), None),
        Obstacle::Trouble { scanner, fails, next_try_at, last_error, parked } => (
            format!(
                "`{scanner}` failed on it {fails} times: {last_error}{}",
                if *parked { "; it is parked" } else { "" }
            ),
            json!({ "scanner": **scanner, "fails": fails, "next_try_at": next_try_at.ms(), "last_error": **last_error, "parked": parked }),
            Some("time, retry, discard"),
        ),
    }
}

fn no_worker(which: &NoWorker) -> (String, Value, Option<&'static str>) {
    let clears = Some("worker");
    match which {
        NoWorker::NoneOnLane => ("no worker asks for its lane".to_string(), json!({ "which": "none_on_lane" }), clears),
        NoWorker::NoneForKind => {
            ("no worker of its lane handles its kind".to_string(), json!({ "which": "none_for_kind" }), clears)
        }
        NoWorker::MissingCapabilities { nearest, missing } => (
            format!("no worker offers what it needs; `{nearest}` lacks `{}`", missing.join("`, `")),
            json!({ "which": "missing_capabilities", "nearest": **nearest, "missing": missing.iter().map(|token| &**token).collect::<Vec<_>>() }),
            clears,
        ),
    }
}

fn because(reason: &Text) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}

/// A duration as people say it: two units at most.
fn span(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0 => format!("{ms}ms"),
        1..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}
