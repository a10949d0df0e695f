//! Flows: what `weft flow get` and `weft flow list` show.

use super::id::{short, short_all};
use super::time::{age, ago, ahead, span};
use super::{NONE, count, cut, plain};
use crate::terminal::{Paint, Table};
use weft_api::flow::{CompletionPolicy, FailurePolicy, Flow, Growth, PublicFlowState, Summary};

/// Letters of a reason that is not asked for by itself.
const REASON_MAX: usize = 200;

/// The name of a state in its colour.
pub fn state(state: PublicFlowState, paint: Paint) -> String {
    let name = state.name();
    match state {
        PublicFlowState::Completed => paint.green(name),
        PublicFlowState::Failed => paint.red(name),
        PublicFlowState::Running => paint.blue(name),
        PublicFlowState::Cancelled | PublicFlowState::Ending | PublicFlowState::Blocked => paint.yellow(name),
        PublicFlowState::Open => name.to_owned(),
    }
}

/// The card of a flow: a heading, then a line per subject that there is something to say about.
pub fn card(flow: &Flow, now: u64, paint: Paint) -> String {
    let heading: Vec<&str> =
        [&flow.id, &flow.kind, &flow.namespace].into_iter().chain(&flow.name).map(String::as_str).collect();
    let mut lines = vec![paint.bold(&heading.into_iter().map(plain).collect::<Vec<_>>().join("   "))];
    let mut line = |subject: &str, text: String| {
        if !text.is_empty() {
            lines.push(format!("{}{text}", paint.dim(&format!("{subject:<10}"))));
        }
    };
    line("state", format!("{}, {}", state(flow.public_flow_state, paint), done(flow)));
    line("decided", decided(flow));
    line("members", members(&flow.summary));
    line("against", against(flow));
    line("edges", edges(&flow.summary));
    line("rules", rules(flow, now));
    line("times", times(flow, now));
    line("tags", flow.tags.iter().map(|(key, value)| plain(&format!("{key}={value}"))).collect::<Vec<_>>().join(" "));
    line(
        "usage",
        flow.summary.usage.iter().map(|(key, sum)| plain(&format!("{key}={sum}"))).collect::<Vec<_>>().join(" "),
    );
    line("next", next(flow));
    lines.join("\n")
}

/// `running, 7 of 9 done: 1 active, 1 waiting, 7 completed`.
pub fn standing(flow: &Flow, paint: Paint) -> String {
    format!("{}, {}: {}", state(flow.public_flow_state, paint), done(flow), members(&flow.summary))
}

/// `failed after 4.1s, 9 of 9 done: 8 completed, 1 failed (all_terminal)`.
pub fn ending(flow: &Flow, paint: Paint) -> String {
    let after = flow.duration_ms.map(|ms| format!(" after {}", span(ms))).unwrap_or_default();
    let why = decided(flow);
    let why = match flow.public_flow_state {
        PublicFlowState::Completed => String::new(),
        _ if why.is_empty() => why,
        _ => format!(" ({why})"),
    };
    let state = state(flow.public_flow_state, paint);
    format!("{state}{after}, {}: {}{why}", done(flow), members(&flow.summary))
}

/// `7 of 9 done`.
fn done(flow: &Flow) -> String {
    let total = flow.summary.total_members;
    format!("{} of {total} done", total.saturating_sub(flow.live))
}

/// `1 active, 7 completed`: states in which there is a member.
fn members(summary: &Summary) -> String {
    let by_state = [
        (summary.members_active, "active"),
        (summary.members_waiting, "waiting"),
        (summary.members_delayed, "delayed"),
        (summary.members_rate_limited, "rate_limited"),
        (summary.members_held, "held"),
        (summary.members_waiting_children, "waiting_children"),
        (summary.members_suspended, "suspended"),
        (summary.members_completed, "completed"),
        (summary.members_failed, "failed"),
        (summary.members_cancelled, "cancelled"),
        (summary.members_expired, "expired"),
        (summary.members_skipped, "skipped"),
    ];
    let there: Vec<String> =
        by_state.into_iter().filter(|(count, _)| *count > 0).map(|(count, state)| format!("{count} {state}")).collect();
    if there.is_empty() { "no members".to_owned() } else { there.join(", ") }
}

fn against(flow: &Flow) -> String {
    match flow.summary.failures {
        0 => String::new(),
        failures => format!("{}; `weft flow members {} --against`", count(failures.into(), "member"), short(&flow.id)),
    }
}

fn edges(summary: &Summary) -> String {
    match (summary.edges_total, summary.edges_pending) {
        (0, _) => String::new(),
        (total, 0) => total.to_string(),
        (total, pending) => format!("{total}, {pending} pending"),
    }
}

/// What decided its outcome: `requested by user:ann: wrong file`.
fn decided(flow: &Flow) -> String {
    let Some(decided) = &flow.decided else { return String::new() };
    let mut text = plain(&decided.cause);
    if let Some(member) = &decided.member {
        text.push_str(&format!(" {}", plain(member)));
    }
    text.push_str(&format!(" by {}", plain(&decided.by)));
    if let Some(reason) = decided.reason.as_ref().filter(|reason| !reason.is_empty()) {
        text.push_str(&format!(": {}", cut(&plain(reason), REASON_MAX)));
    }
    text
}

fn rules(flow: &Flow, now: u64) -> String {
    let failure = match flow.failure_policy {
        FailurePolicy::Isolate {} => "isolate",
        FailurePolicy::FailFast { .. } => "fail_fast",
        FailurePolicy::CollectAll {} => "collect_all",
    };
    let completion = match &flow.completion_policy {
        CompletionPolicy::AllTerminal {} => "all_terminal".to_owned(),
        CompletionPolicy::Root { key, .. } => format!("root `{}`", plain(key)),
        CompletionPolicy::Threshold { successes, .. } => format!("threshold {successes}"),
        CompletionPolicy::Declared { .. } => "declared".to_owned(),
    };
    let growth = match flow.growth {
        Growth::Dynamic => "dynamic",
        Growth::Fixed => "fixed",
    };
    let sealed = match (flow.sealed_at, flow.seal_by) {
        (Some(_), _) => "sealed".to_owned(),
        (None, None) => "not sealed".to_owned(),
        (None, Some(at)) => format!("not sealed, cancelled {} if it is not", ahead(at, now)),
    };
    format!("{failure}, {completion}, {growth}, {sealed}")
}

fn times(flow: &Flow, now: u64) -> String {
    let mut parts = vec![format!("submitted {}", ago(flow.created_at, now))];
    parts.extend(flow.summary.first_started_at.map(|at| format!("started {}", ago(at, now))));
    match flow.finished_at {
        Some(at) => parts.push(format!("ended {}", ago(at, now))),
        None => parts.extend(flow.deadline_at.map(|at| format!("deadline {}", ahead(at, now)))),
    }
    parts.extend(flow.duration_ms.map(|ms| format!("{} {}", running(flow), span(ms))));
    parts.extend((flow.reopens > 0).then(|| format!("reopened {}", count(flow.reopens.into(), "time"))));
    parts.join(", ")
}

/// The word before how long it has been going on.
fn running(flow: &Flow) -> &'static str {
    if flow.finished_at.is_some() { "took" } else { "runs for" }
}

/// All its members have ended, and only somebody who declares its outcome ends it.
fn awaits_word(flow: &Flow) -> bool {
    flow.live == 0 && matches!(flow.completion_policy, CompletionPolicy::Declared { .. })
}

/// Commands that make sense now.
fn next(flow: &Flow) -> String {
    let id = short(&flow.id);
    let verbs: &[&str] = match flow.public_flow_state {
        PublicFlowState::Open if flow.sealed_at.is_none() => &["flow graph {}", "flow seal {}"],
        PublicFlowState::Open if awaits_word(flow) => &["flow graph {}", "flow finish {}"],
        PublicFlowState::Open => &["flow graph {}", "explain {}"],
        PublicFlowState::Blocked => &["explain {}", "flow cancel {}"],
        PublicFlowState::Running | PublicFlowState::Ending => &["flow watch {}", "explain {}"],
        PublicFlowState::Failed if flow.summary.failures > 0 => &["flow graph {}", "flow replay {}"],
        // Nothing that it would run again: those that the end of the flow cancelled do not count against it.
        PublicFlowState::Failed => &["flow members {}", "explain {}"],
        // No replay escapes a cancel.
        PublicFlowState::Completed | PublicFlowState::Cancelled => &["flow graph {}"],
    };
    verbs.iter().map(|verb| format!("weft {}", verb.replace("{}", &id))).collect::<Vec<_>>().join(" · ")
}

/// Flows as a table.
pub fn table(flows: &[Flow], now: u64, paint: Paint) -> String {
    let mut table = Table::left(&["ID", "KIND", "NAME", "STATE", "DONE", "AGE", "TOOK", "MEMBERS"]);
    let ids = short_all(flows.iter().map(|flow| flow.id.as_str()));
    for (flow, id) in flows.iter().zip(ids) {
        let total = flow.summary.total_members;
        table.row(vec![
            id,
            plain(&flow.kind),
            flow.name.as_deref().map_or(NONE.to_owned(), plain),
            state(flow.public_flow_state, paint),
            format!("{}/{total}", total.saturating_sub(flow.live)),
            age(now.saturating_sub(flow.created_at)),
            flow.duration_ms.map_or(NONE.to_owned(), span),
            members(&flow.summary),
        ]);
    }
    table.render(paint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn flow(change: Value) -> Flow {
        let mut summary = serde_json::to_value(Summary::default()).unwrap();
        for (name, value) in
            [("total_members", 9), ("members_completed", 7), ("members_active", 1), ("members_waiting", 1)]
        {
            summary[name] = json!(value);
        }
        let mut value = json!({
            "id": "f_7_0192f3c1-6b1e-7c55-9a40-5d2f6d51c0aa", "namespace": "shop", "kind": "etl", "tags": {"day": "mon"},
            "creator": "user:ann", "public_flow_state": "running", "failure_policy": {"kind": "isolate"},
            "completion_policy": {"kind": "all_terminal"}, "growth": "dynamic", "sealed_at": 1, "revision": 1, "reopens": 0,
            "summary": summary, "live": 2, "duration_ms": 4_100, "retention_ms": 1_000, "created_at": 100_000,
            "updated_at": 100_000, "etag": "1",
        });
        for (key, field) in change.as_object().unwrap() {
            value[key] = field.clone();
        }
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_flow_is_shown_with_its_totals_and_its_rules() {
        assert_eq!(
            card(&flow(json!({})), 112_000, Paint::PLAIN),
            "f_7_0192f3c1-6b1e-7c55-9a40-5d2f6d51c0aa   etl   shop\n\
             state     running, 7 of 9 done\n\
             members   1 active, 1 waiting, 7 completed\n\
             rules     isolate, all_terminal, dynamic, sealed\n\
             times     submitted 12s ago, runs for 4.1s\n\
             tags      day=mon\n\
             next      weft flow watch …51c0aa · weft explain …51c0aa"
        );
    }

    #[test]
    fn an_ending_says_what_decided_it() {
        let ended = flow(json!({"public_flow_state": "cancelled", "live": 0, "decided": {"outcome": "cancelled",
            "cause": "requested", "reason": "wrong\u{1b}file", "by": "user:ann", "at": 1, "done": true}}));
        assert_eq!(
            ending(&ended, Paint::PLAIN),
            "cancelled after 4.1s, 9 of 9 done: 1 active, 1 waiting, 7 completed (requested by user:ann: wrong\\u001bfile)"
        );
    }

    #[test]
    fn what_a_card_proposes_can_be_done() {
        let last = |state: &str, failures: u32| {
            let mut flow = flow(json!({ "public_flow_state": state }));
            flow.summary.failures = failures;
            card(&flow, 112_000, Paint::PLAIN).lines().last().unwrap().to_owned()
        };
        assert!(last("failed", 1).ends_with("weft flow replay …51c0aa"), "{}", last("failed", 1));
        for state in ["cancelled", "completed", "failed"] {
            assert!(!last(state, 0).contains("replay"), "{}", last(state, 0));
        }
        let open = |change: Value| {
            let mut fields = json!({"public_flow_state": "open"});
            fields.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            let card = card(&flow(fields), 112_000, Paint::PLAIN);
            card.lines().last().unwrap().to_owned()
        };
        let declared = json!({"kind": "declared", "remaining": {"kind": "cancel"}});
        for (change, wanted) in [
            (json!({"sealed_at": null}), "weft flow seal …51c0aa"),
            (json!({}), "weft explain …51c0aa"),
            (json!({"completion_policy": declared, "live": 0}), "weft flow finish …51c0aa"),
            (json!({"completion_policy": declared}), "weft explain …51c0aa"),
        ] {
            assert!(open(change.clone()).ends_with(wanted), "{change}: {}", open(change.clone()));
        }
    }

    #[test]
    fn flows_are_listed_with_how_far_they_are() {
        assert_eq!(
            table(&[flow(json!({}))], 112_000, Paint::PLAIN),
            "ID       KIND  NAME  STATE    DONE  AGE  TOOK  MEMBERS\n\
             …51c0aa  etl   –     running  7/9   12s  4.1s  1 active, 1 waiting, 7 completed"
        );
    }
}
