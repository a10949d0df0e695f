//! Reasons why an execution is not running, in words and as facts.

use serde_json::{Value, json};
use weft_core::record::execution::{Outcome, Progress, PublicState};
use weft_core::text::Text;
use weft_core::{ExecutionId, Time};
use weft_engine::{EndedMember, NoWorker, Obstacle, Retry};

/// For people, for programs, and what ends it.
pub fn told(obstacle: &Obstacle, now: Time) -> (String, Value, Option<&'static str>) {
    match obstacle {
        Obstacle::Done { outcome, reason, by, at, attempt, failure, ended, closed } => {
            let text = format!("it has ended: {} ({})", outcome.name(), reason.name());
            let mut text = with_failure(text, failure.as_ref());
            if let Some(ended) = ended {
                text = format!("{text}; {}", by_group(ended));
            }
            let detail = json!({
                "outcome": outcome.name(),
                "reason": reason.name(),
                "by": **by,
                "at": at.ms(),
                "attempt": attempt,
                "failure": failure.as_ref().map(failed),
                "ended_by": ended.as_ref().map(group_of),
                "flow_state": closed,
            });
            match (closed, outcome) {
                (Some(state), _) => (format!("{text}; its flow is {state} and takes no replays"), detail, None),
                // By itself it would be skipped again.
                (None, Outcome::Skipped) => (text, detail, Some("replay of its upstreams")),
                (None, _) => (text, detail, Some("replay")),
            }
        }
        Obstacle::Running { worker, instance, epoch, attempt, expires_at, progress } => {
            let left = span(expires_at.since(now));
            let detail = json!({
                "worker": **worker,
                "instance": **instance,
                "epoch": epoch,
                "attempt": attempt,
                "expires_at": expires_at.ms(),
                "progress": progress.as_ref().map(|it| json!({
                    "percent": it.percent, "message": it.message.as_deref(), "at": it.at.ms(),
                })),
            });
            (format!("`{instance}` has it{}; its lease lasts {left} more", so_far(progress.as_ref())), detail, None)
        }
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
        Obstacle::Children { total, waiting, unfinished, needed, met, timeout_at } => {
            let detail = json!({
                "rule": rule(*needed, *total),
                "needed": needed,
                "met": met,
                "waiting": waiting,
                "total": total,
                "unfinished": unfinished.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "timeout_at": timeout_at.map(Time::ms),
            });
            let left = needed.saturating_sub(*met);
            (format!("it waits for {left} of {waiting} unfinished children"), detail, Some("children, time"))
        }
        Obstacle::Dependencies { sealed, pending, upstreams, groups } => {
            let upstream = |(key, id, state): &(Text, ExecutionId, Option<PublicState>)| json!({ "key": **key, "execution": id.to_string(), "public_state": state.map(|state| state.name()) });
            let group = |(name, verdict): &(Text, &str)| json!({ "name": **name, "verdict": verdict });
            let detail = json!({
                "sealed": sealed,
                "pending": pending,
                "upstreams": upstreams.iter().map(upstream).collect::<Vec<_>>(),
                "groups": groups.iter().map(group).collect::<Vec<_>>(),
            });
            let clears = if *sealed { "upstreams" } else { "seal, upstreams" };
            (depends(*sealed, *pending, upstreams), detail, Some(clears))
        }
        Obstacle::Flow { flow, state } => (
            format!("its flow is {state} and lets nobody start"),
            json!({ "flow": flow.to_string(), "state": state }),
            None,
        ),
        Obstacle::NotBefore { until, why, last, retry, workers } => {
            let left = span(until.since(now));
            let text = match retry {
                Some(retry) => retrying(retry, &left),
                None => format!("it waits {left} more ({})", why.name().replace('_', " ")),
            };
            let failure = retry.as_ref().and_then(|retry| retry.failure.as_ref());
            let failure = failure.map(failed);
            let detail = json!({
                "until": until.ms(),
                "why": why.name(),
                "last": last.map(|cause| cause.name()),
                "retry": retry.as_ref().map(|retry| retry.number),
                "retries_max": retry.as_ref().map(|retry| retry.max),
                "failure": failure,
                "workers": workers,
            });
            (text, detail, Some("time, reschedule"))
        }
        Obstacle::DeadlineDue { at } => (
            "its deadline has passed; it expires at once".to_string(),
            json!({ "at": at.ms() }),
            Some("engine, at once"),
        ),
        Obstacle::NoWorker(which) => no_worker(which, now),
        Obstacle::Behind { count, exact } => (
            format!(
                "{}{count} claimable {}",
                if *exact { "" } else { "at least " },
                if *count == 1 { "one comes first" } else { "ones come first" }
            ),
            json!({ "count": count, "exact": exact }),
            Some("queue"),
        ),
        Obstacle::Claimable { worker, seen_at, doubtful } => {
            let seen = format!("{} ago", span(now.since(*seen_at)));
            let text = match doubtful {
                true => format!("if worker {worker} still lives: it was last seen {seen}"),
                false => format!("worker {worker}, last seen {seen}, could make it"),
            };
            let text = format!("the next matching claim takes it, {text}");
            (text, json!({ "worker": **worker, "seen_at": seen_at.ms() }), None)
        }
        Obstacle::Trouble { scanner, fails, next_try_at, last_error, parked, given_up } => {
            let failed = format!("`{scanner}` failed on it {}: {last_error}", times(*fails));
            let detail = json!({
                "scanner": **scanner,
                "fails": fails,
                "next_try_at": given_up.is_none().then(|| next_try_at.ms()),
                "last_error": **last_error,
                "parked": parked.map(|id| id.to_string()),
                "given_up_by": given_up.as_ref().map(|it| &*it.by),
                "given_up_at": given_up.as_ref().map(|it| it.at.ms()),
                "reason": given_up.as_ref().map(|it| &*it.reason),
            });
            let left = span(next_try_at.since(now));
            match (given_up, parked) {
                (Some(it), _) => (format!("{failed}; {} gave it up{}", it.by, because(&it.reason)), detail, None),
                (None, Some(id)) => (
                    format!("{failed}; it is parked as {id}, and tried again in {left}"),
                    detail,
                    Some("time, retry, discard"),
                ),
                (None, None) => (format!("{failed}; it is tried again in {left}"), detail, Some("time")),
            }
        }
    }
}

fn times(count: u32) -> String {
    if count == 1 { "once".to_string() } else { format!("{count} times") }
}

/// Which group ended a member, and because of whom.
fn by_group(ended: &EndedMember) -> String {
    match ended {
        EndedMember::Dependency { group, unmet } => {
            let named: Vec<String> = unmet.iter().take(NAMED).map(|(key, _)| format!("`{key}`")).collect();
            let more = if unmet.len() > NAMED { ", …" } else { "" };
            match named.is_empty() {
                true => format!("its group `{group}` cannot be met any more"),
                false => format!("its group `{group}` cannot be met after the end of {}{more}", named.join(", ")),
            }
        }
        EndedMember::Sibling { group, verdict, downstream: (key, _) } => {
            format!("the group `{group}` of `{key}` was {} without it", verdict.name())
        }
    }
}

fn group_of(ended: &EndedMember) -> Value {
    let named = |(key, id): &(Text, ExecutionId)| json!({ "key": **key, "execution": id.to_string() });
    match ended {
        EndedMember::Dependency { group, unmet } => {
            json!({ "kind": "dependency", "group": **group, "unmet": unmet.iter().map(named).collect::<Vec<_>>() })
        }
        EndedMember::Sibling { group, verdict, downstream } => json!({
            "kind": "sibling", "group": **group, "verdict": verdict.name(), "downstream": named(downstream),
        }),
    }
}

/// `it waits for 3 upstreams: \`a\` (active), \`b\` (waiting), …`
fn depends(sealed: bool, pending: u32, upstreams: &[(Text, ExecutionId, Option<PublicState>)]) -> String {
    let named = upstreams.iter().take(NAMED).map(|(key, _, state)| {
        let state = state.map_or("unreadable", |state| state.name());
        format!("`{key}` ({state})")
    });
    let mut named: Vec<String> = named.collect();
    if pending as usize > named.len() {
        named.push("…".to_string());
    }
    let upstreams = match pending {
        1 => "one upstream".to_string(),
        _ => format!("{pending} upstreams"),
    };
    match (sealed, pending) {
        (false, 0) => "it is not sealed: more edges may come".to_string(),
        (false, _) => format!("it is not sealed, and waits for {upstreams} so far: {}", named.join(", ")),
        (true, _) => format!("it waits for {upstreams}: {}", named.join(", ")),
    }
}

/// How many upstreams the sentence names; the detail has more of them.
const NAMED: usize = 3;

/// `retry 2 of 5 in 41s; last failure: smtp "421 try later"`
fn retrying(retry: &Retry, left: &str) -> String {
    with_failure(format!("retry {} of {} in {left}", retry.number, retry.max), retry.failure.as_ref())
}

fn with_failure(text: String, failure: Option<&(Text, Text)>) -> String {
    match failure {
        Some(failure) => format!("{text}; last failure: {}", quoted(failure)),
        None => text,
    }
}

/// `smtp "421 try later"`
pub fn quoted((category, message): &(Text, Text)) -> String {
    if message.is_empty() { category.to_string() } else { format!("{category} \"{message}\"") }
}

pub fn failed((category, message): &(Text, Text)) -> Value {
    json!({ "category": **category, "message": **message })
}

/// `, 40 % rendering`
fn so_far(progress: Option<&Progress>) -> String {
    let Some(progress) = progress else { return String::new() };
    let percent = progress.percent.map(|percent| format!("{percent} %"));
    let parts: Vec<String> = percent.into_iter().chain(progress.message.as_deref().map(str::to_owned)).collect();
    if parts.is_empty() { String::new() } else { format!(", {}", parts.join(" ")) }
}

fn rule(needed: u32, total: u32) -> &'static str {
    match needed {
        _ if needed == total => "all_of",
        1 => "any_of",
        _ => "quorum",
    }
}

fn no_worker(which: &NoWorker, now: Time) -> (String, Value, Option<&'static str>) {
    let clears = Some("worker");
    match which {
        NoWorker::NoneOnLane => ("no worker asks for its lane".to_string(), json!({ "which": "none_on_lane" }), clears),
        NoWorker::NoneForKind => {
            ("no worker of its lane handles its kind".to_string(), json!({ "which": "none_for_kind" }), clears)
        }
        NoWorker::AllDraining => (
            "every worker that fits drains, and takes no more work".to_string(),
            json!({ "which": "all_draining" }),
            clears,
        ),
        NoWorker::AllFull { silent } => {
            let mut text = "every worker that fits is full".to_string();
            if let Some((last, seen_at)) = silent {
                let silent = span(now.since(*seen_at));
                text.push_str(&format!(", if any still lives: `{last}` was last seen {silent} ago"));
            }
            let detail = json!({
                "which": "all_full",
                "last": silent.as_ref().map(|(last, _)| &**last),
                "last_seen_at": silent.as_ref().map(|(_, seen_at)| seen_at.ms()),
            });
            (text, detail, clears)
        }
        NoWorker::AllDead { last, seen_at, lost_at } => {
            let seen = format!("no live worker can take it; `{last}` was last seen {} ago", span(now.since(*seen_at)));
            let lost = lost_at.map(|at| format!(" and lost its lease {} ago", span(now.since(at)))).unwrap_or_default();
            let detail = json!({
                "which": "all_dead",
                "last": **last,
                "last_seen_at": seen_at.ms(),
                "lease_lost_at": lost_at.map(Time::ms),
            });
            (format!("{seen}{lost}"), detail, clears)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ex_75_a_worker_that_was_not_seen_for_long_may_not_live() {
        let (worker, seen_at): (Text, _) = ("mailer-1".into(), Time::from_ms(5_000));
        let said = |obstacle: &Obstacle| told(obstacle, Time::from_ms(80_000)).0;
        let claimable = |doubtful| said(&Obstacle::Claimable { worker: worker.clone(), seen_at, doubtful });
        let seen = ", worker mailer-1, last seen 1m 15s ago, could make it";
        assert_eq!(claimable(false), format!("the next matching claim takes it{seen}"));
        let doubt = ", if worker mailer-1 still lives: it was last seen 1m 15s ago";
        assert_eq!(claimable(true), format!("the next matching claim takes it{doubt}"));
        let full = |silent| said(&Obstacle::NoWorker(NoWorker::AllFull { silent }));
        assert_eq!(full(None), "every worker that fits is full");
        let doubt = ", if any still lives: `mailer-1` was last seen 1m 15s ago";
        assert_eq!(full(Some((worker.clone(), seen_at))), format!("every worker that fits is full{doubt}"));
    }
}
