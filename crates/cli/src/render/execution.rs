//! One execution, whole: what `weft get` shows.

use super::id::short;
use super::time::{ago, ahead, span};
use super::{count, cut, payload, plain, state, state_text};
use crate::terminal::Paint;
use weft_api::execution::{Execution, Failure, Hold, PublicState, Trouble};

/// Letters of a message that is not asked for by itself.
const MESSAGE_MAX: usize = 200;

/// The card of an execution: a heading, then a line per subject that there is something to say about.
pub fn card(execution: &Execution, now: u64, paint: Paint) -> String {
    let heading = [&execution.id, &execution.kind, &execution.lane, &execution.namespace];
    let mut lines = vec![paint.bold(&heading.map(|text| plain(text)).join("   "))];
    let mut line = |subject: &str, text: String| {
        if !text.is_empty() {
            lines.push(format!("{}{text}", paint.dim(&format!("{subject:<10}"))));
        }
    };
    line("state", standing(execution, now, paint));
    line("priority", if execution.priority == 0 { String::new() } else { execution.priority.to_string() });
    line("worker", worker(execution, now));
    line("cancel", cancel(execution, now));
    line("failure", failure_line(execution));
    line("trouble", execution.trouble.iter().map(|it| trouble(it, now)).collect::<Vec<_>>().join(", "));
    line("holds", execution.holds.iter().map(hold).collect::<Vec<_>>().join(", "));
    line("times", times(execution, now));
    line(
        "tags",
        execution.tags.iter().map(|(key, value)| plain(&format!("{key}={value}"))).collect::<Vec<_>>().join(" "),
    );
    line("needs", execution.capabilities.join(" "));
    line("flow", flow(execution));
    line("family", family(execution));
    line("input", execution.input.as_ref().map(payload::line).unwrap_or_default());
    line("result", execution.result.as_ref().map(payload::line).unwrap_or_default());
    line("next", next(execution));
    lines.join("\n")
}

/// `lease_expiry failed 18 times, parked as d_0_…, tried again in 12m: no way`
fn trouble(it: &Trouble, now: u64) -> String {
    let mut parts = vec![format!("{} failed {}", plain(&it.scanner), count(it.fails.into(), "time"))];
    parts.extend(it.parked.as_deref().map(|id| format!("parked as {}", plain(id))));
    parts.extend(it.next_try_at.map(|at| format!("tried again {}", ahead(at, now))));
    parts.extend(it.given_up.as_ref().map(|it| format!("given up by {} ({})", plain(&it.by), plain(&it.reason))));
    format!("{}: {}", parts.join(", "), cut(&plain(&it.last_error), MESSAGE_MAX))
}

/// `active, attempt 1 of up to 6, epoch 1, 40 % rendering`.
fn standing(execution: &Execution, now: u64, paint: Paint) -> String {
    let mut parts = vec![state(execution.public_state, paint)];
    if execution.attempts > 0 && !execution.public_state.is_terminal() {
        parts.push(format!("attempt {} of up to {}", execution.attempts, attempts_max(execution)));
    }
    if let Some(lease) = &execution.lease {
        parts.push(format!("epoch {}", lease.epoch));
    }
    if execution.public_state.is_terminal() {
        parts = vec![state_text(execution.public_state, &ending(execution), paint)];
    }
    if let (PublicState::Delayed, Some(at)) = (execution.public_state, execution.not_before) {
        parts.push(format!("starts {}", ahead(at, now)));
    }
    if execution.replays > 0 {
        parts.push(format!("replay {}", execution.replays));
    }
    parts.extend(progress(execution));
    parts.join(", ")
}

/// Attempts that there can be: lost leases and replays are not counted against the retries.
fn attempts_max(execution: &Execution) -> u32 {
    execution.attempts.max(1 + execution.max_retries + execution.reclaims + execution.replays)
}

/// `40 % rendering`.
pub fn progress(execution: &Execution) -> Option<String> {
    let progress = execution.progress.as_ref().filter(|_| !execution.public_state.is_terminal())?;
    let percent = progress.percent.map(|percent| format!("{percent} %"));
    let parts = percent.into_iter().chain(progress.message.as_deref().map(|text| cut(&plain(text), MESSAGE_MAX)));
    Some(parts.collect::<Vec<_>>().join(" ")).filter(|text| !text.is_empty())
}

/// How an execution ended: `failed after 3 attempts: smtp "550 no such user" (not_retryable)`.
pub fn ending(execution: &Execution) -> String {
    let mut text = execution.public_state.name().to_owned();
    if execution.attempts > 0 {
        text.push_str(&format!(" after {}", count(execution.attempts.into(), "attempt")));
    }
    if let Some(finished) = execution.finished_at {
        text.push_str(&format!(" in {}", span(finished.saturating_sub(execution.created_at))));
    }
    if execution.public_state == PublicState::Completed {
        return text;
    }
    if let Some(failure) = execution.failure.as_ref().filter(|_| execution.public_state == PublicState::Failed) {
        text.push_str(&format!(": {}", failure_text(failure)));
    }
    if let Some(ended) = execution.ended.as_ref().filter(|_| execution.public_state == PublicState::Cancelled) {
        text.push_str(&format!(" by {}", plain(&ended.by)));
    }
    if let Some(ended) = execution.ended.as_ref().filter(|ended| !ended.reason.is_empty()) {
        text.push_str(&format!(" ({})", cut(&plain(&ended.reason), MESSAGE_MAX)));
    }
    text
}

/// `smtp "550 no such user"`.
pub fn failure_text(failure: &Failure) -> String {
    match failure.message.is_empty() {
        true => plain(&failure.category),
        false => format!("{} \"{}\"", plain(&failure.category), cut(&plain(&failure.message), MESSAGE_MAX)),
    }
}

fn failure_line(execution: &Execution) -> String {
    // The ending of a failed one says it already.
    let failure = execution.failure.as_ref().filter(|_| execution.public_state != PublicState::Failed);
    failure.map(|failure| format!("of the last attempt: {}", failure_text(failure))).unwrap_or_default()
}

fn worker(execution: &Execution, now: u64) -> String {
    let Some(lease) = &execution.lease else { return String::new() };
    let left = match lease.expires_at.saturating_sub(now) {
        0 => "lease over".to_owned(),
        left => format!("lease {} left", super::time::age(left)),
    };
    format!("{}, {left}", plain(&lease.instance))
}

fn cancel(execution: &Execution, now: u64) -> String {
    let Some(cancel) = &execution.cancel else { return String::new() };
    let reason = if cancel.reason.is_empty() { String::new() } else { format!(": {}", plain(&cancel.reason)) };
    let kill = cancel.kill_at.map(|at| format!(", ends it {}", ahead(at, now))).unwrap_or_default();
    format!("asked for {} by {}{reason}{kill}", ago(cancel.requested_at, now), plain(&cancel.by))
}

/// `operator (by user:ann: bank down)`.
pub fn hold(hold: &Hold) -> String {
    let mut about = Vec::new();
    about.extend(hold.waiting.map(|waiting| format!("{waiting} not ended")));
    about.extend(hold.by.as_ref().map(|by| format!("by {}", plain(by))));
    about.extend(hold.reason.as_ref().filter(|reason| !reason.is_empty()).map(|reason| plain(reason)));
    match about.is_empty() {
        true => hold.kind.clone(),
        false => format!("{} ({})", hold.kind, about.join(": ")),
    }
}

fn times(execution: &Execution, now: u64) -> String {
    let mut parts = vec![format!("submitted {}", ago(execution.created_at, now))];
    parts.extend(execution.first_started_at.map(|at| format!("started {}", ago(at, now))));
    match execution.finished_at {
        Some(at) => {
            parts.push(format!("ended {}", ago(at, now)));
            parts.extend(execution.purge_at.map(|at| format!("kept until {} UTC", super::time::utc(at))));
        }
        None => parts.extend(execution.deadline_at.map(|at| format!("deadline {}", ahead(at, now)))),
    }
    parts.join(", ")
}

fn family(execution: &Execution) -> String {
    let parent = execution.parent.as_ref().map(|parent| format!("child of {parent}"));
    let children = (execution.children > 0).then(|| match execution.children {
        1 => "1 child".to_owned(),
        children => format!("{children} children"),
    });
    parent.into_iter().chain(children).collect::<Vec<_>>().join(", ")
}

/// `member \`merge\` of f_7_…`.
fn flow(execution: &Execution) -> String {
    let member = execution.flow.as_ref();
    member.map(|member| format!("member `{}` of {}", plain(&member.key), plain(&member.id))).unwrap_or_default()
}

/// Commands that make sense now.
fn next(execution: &Execution) -> String {
    let id = short(&execution.id);
    let verbs: &[&str] = match execution.public_state {
        PublicState::Active => &["get {} --watch", "cancel {}"],
        PublicState::Held => &["explain {}", "release {}"],
        PublicState::Completed => &["result {}", "history {}"],
        // Whether it takes a replay depends on its upstreams, and on its flow.
        PublicState::Cancelled | PublicState::Skipped if execution.flow.is_some() => &["explain {}", "history {}"],
        PublicState::Failed | PublicState::Expired | PublicState::Cancelled | PublicState::Skipped => {
            &["get {} --attempts", "replay {}"]
        }
        _ => &["explain {}", "cancel {}"],
    };
    verbs.iter().map(|verb| format!("weft {}", verb.replace("{}", &id))).collect::<Vec<_>>().join(" · ")
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// An active execution, with whatever `change` says differently.
    pub fn execution(change: Value) -> Execution {
        let mut value = json!({
            "id": "x_7_0192f3c1-6b1e-7c55-9a40-5d2f6d3c9e01", "namespace": "shop", "lane": "mail", "kind": "invoice.send",
            "priority": 0, "tags": {"customer": "acme"}, "capabilities": [], "public_state": "active",
            "dimensions": {"phase": "", "ownership": "", "eligibility": "", "blocking_reason": "", "outcome": "",
                "attempt_state": "", "cancellation": ""},
            "holds": [], "creator": "user:ann", "attempts": 1, "retries_used": 0, "max_retries": 5, "reclaims": 0,
            "replays": 0, "epoch": 1, "children": 0, "steps": 0, "created_at": 100_000, "first_started_at": 101_000,
            "changed_at": 101_000, "updated_at": 101_000, "revision": "1",
        });
        let fields = value.as_object_mut().unwrap();
        for (key, field) in change.as_object().unwrap() {
            fields.insert(key.clone(), field.clone());
        }
        serde_json::from_value(value).unwrap()
    }

    pub const PLAIN: Paint = Paint::PLAIN;

    #[test]
    fn an_active_execution_is_shown_with_its_worker_and_its_progress() {
        let shown = execution(json!({
            "lease": {"id": "l", "worker": "mailer", "instance": "mailer-3@host", "epoch": 1, "acquired_at": 101_000,
                "expires_at": 133_000},
            "progress": {"percent": 40, "message": "rendering", "at": 110_000},
            "deadline_at": 3_700_000,
        }));
        assert_eq!(
            card(&shown, 112_000, PLAIN),
            "x_7_0192f3c1-6b1e-7c55-9a40-5d2f6d3c9e01   invoice.send   mail   shop\n\
             state     active, attempt 1 of up to 6, epoch 1, 40 % rendering\n\
             worker    mailer-3@host, lease 21s left\n\
             times     submitted 12s ago, started 11s ago, deadline in 59m 48s\n\
             tags      customer=acme\n\
             next      weft get …3c9e01 --watch · weft cancel …3c9e01"
        );
    }

    #[test]
    fn a_member_is_shown_with_its_flow_and_no_replay_that_may_be_refused() {
        let member = json!({"id": "f_7_0192", "key": "merge", "number": 2, "critical": true});
        let card = card(&execution(json!({"public_state": "skipped", "flow": member})), 112_000, PLAIN);
        assert!(card.contains("\nflow      member `merge` of f_7_0192\n"), "{card}");
        assert!(card.ends_with("next      weft explain …3c9e01 · weft history …3c9e01"), "{card}");
    }

    #[test]
    fn an_ending_says_why() {
        let failed = execution(json!({
            "public_state": "failed", "attempts": 3, "finished_at": 104_100,
            "failure": {"category": "smtp", "message": "550 no such user"},
            "ended": {"outcome": "failed", "reason": "not_retryable", "by": "worker", "at": 1, "attempt": 3},
        }));
        assert_eq!(ending(&failed), "failed after 3 attempts in 4.1s: smtp \"550 no such user\" (not_retryable)");
        let done = execution(json!({
            "public_state": "completed", "finished_at": 100_340,
            "ended": {"outcome": "success", "reason": "completed", "by": "worker", "at": 1},
        }));
        assert_eq!(ending(&done), "completed after 1 attempt in 340ms");
    }

    #[test]
    fn a_priority_a_replay_and_the_reason_of_a_cancel_are_told() {
        let shown = execution(json!({
            "priority": 500, "replays": 1, "public_state": "cancelled", "finished_at": 104_000,
            "ended": {"outcome": "cancelled", "reason": "client", "by": "user:ann", "at": 1},
            "cancel": {"reason": "customer left", "by": "user:ann", "requested_at": 104_000},
        }));
        let card = card(&shown, 112_000, PLAIN);
        for line in [
            "state     cancelled after 1 attempt in 4.0s by user:ann (client), replay 1",
            "priority  500",
            "cancel    asked for 8s ago by user:ann: customer left",
        ] {
            assert!(card.lines().any(|told| told == line), "{line} is missing in\n{card}");
        }
    }

    #[test]
    fn text_of_workers_cannot_paint_the_terminal() {
        let shown = execution(json!({"progress": {"message": "\u{1b}[31mred", "at": 1}}));
        assert!(!card(&shown, 0, PLAIN).contains('\x1b'));
    }
}
