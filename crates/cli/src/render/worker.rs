//! Workers and what they hold.

use super::id::short_all;
use super::time::{age, ago};
use super::{NONE, plain};
use crate::terminal::{Paint, Table};
use weft_api::worker::{HeldLease, Worker, WorkerState};

pub fn table(workers: &[Worker], now: u64, paint: Paint) -> String {
    let mut table = Table::left(&["INSTANCE", "POOL", "STATE", "LANES", "BUSY", "SEEN", "VERSION", "NOTE"]);
    for worker in workers {
        table.row(vec![
            plain(&worker.instance),
            plain(&worker.worker),
            state(worker.state, paint),
            list(&worker.lanes),
            busy(worker, now),
            age(now.saturating_sub(worker.last_seen_at)),
            worker.version.as_deref().map_or(NONE.to_owned(), plain),
            note(worker, now),
        ]);
    }
    table.render(paint)
}

pub fn list(names: &[String]) -> String {
    match names.is_empty() {
        true => NONE.to_owned(),
        false => plain(&names.join(",")),
    }
}

/// `12/16`: what it does of what it can do at once. Of a process that is silent nothing is known.
pub fn busy(worker: &Worker, now: u64) -> String {
    match (worker.capacity, worker.free) {
        _ if is_silent(worker, now) || worker.state == WorkerState::Dead => NONE.to_owned(),
        (Some(capacity), Some(free)) => format!("{}/{capacity}", capacity.saturating_sub(free)),
        (Some(capacity), None) => format!("?/{capacity}"),
        (None, _) => NONE.to_owned(),
    }
}

/// Whether a process has not been seen for two thirds of its ttl. A live one is written as seen every third of the ttl, so it
/// is probably gone, although it counts as dead only later. Drained processes are never silent.
fn is_silent(worker: &Worker, now: u64) -> bool {
    matches!(worker.state, WorkerState::Active | WorkerState::Draining)
        && now.saturating_sub(worker.last_seen_at) > worker.ttl_ms / 3 * 2
}

fn note(worker: &Worker, now: u64) -> String {
    let because = |reason: &str| if reason.is_empty() { String::new() } else { format!(": {}", plain(reason)) };
    let silent = is_silent(worker, now).then(|| format!("silent for {}", age(now.saturating_sub(worker.last_seen_at))));
    let dead = worker.dead.as_ref().map(|dead| match &dead.reason {
        Some(reason) => format!("given up{}", because(reason)),
        None => format!("silent for {}", age(now.saturating_sub(worker.last_seen_at))),
    });
    let drained =
        worker.drain.as_ref().map(|drain| format!("drained by {}{}", plain(&drain.by), because(&drain.reason)));
    silent.into_iter().chain(dead).chain(drained).collect::<Vec<_>>().join(", ")
}

pub fn state(state: WorkerState, paint: Paint) -> String {
    match state {
        WorkerState::Active => paint.green("active"),
        WorkerState::Draining => paint.yellow("draining"),
        WorkerState::Drained => paint.yellow("drained"),
        WorkerState::Dead => paint.red("dead"),
    }
}

/// One worker with the executions that it holds.
pub fn card(worker: &Worker, leases: &[HeldLease], now: u64, paint: Paint) -> String {
    let mut lines =
        vec![paint.bold(&[&worker.instance, &worker.worker, &worker.namespace].map(|text| plain(text)).join("   "))];
    let mut line = |subject: &str, text: String| {
        if !text.is_empty() && text != NONE {
            lines.push(format!("{}{text}", paint.dim(&format!("{subject:<10}"))));
        }
    };
    let note = note(worker, now);
    let note = if note.is_empty() { note } else { format!(", {note}") };
    line("state", format!("{}{note}", state(worker.state, paint)));
    line("lanes", list(&worker.lanes));
    line("kinds", worker.kinds.as_deref().map(list).unwrap_or_default());
    line("offers", list(&worker.capabilities));
    line("busy", busy(worker, now));
    line("times", format!("registered {}, seen {}", ago(worker.registered_at, now), ago(worker.last_seen_at, now)));
    line(
        "build",
        [&worker.version, &worker.host].into_iter().flatten().map(|text| plain(text)).collect::<Vec<_>>().join(" on "),
    );
    line(
        "labels",
        worker.labels.iter().map(|(key, value)| plain(&format!("{key}={value}"))).collect::<Vec<_>>().join(" "),
    );
    if !leases.is_empty() {
        lines.push(String::new());
        lines.push(held(leases, now, paint));
    }
    lines.join("\n")
}

fn held(leases: &[HeldLease], now: u64, paint: Paint) -> String {
    let mut table = Table::left(&["HOLDS", "KIND", "LANE", "ATT", "FOR", "LEASE"]);
    let ids = short_all(leases.iter().map(|lease| lease.execution.as_str()));
    for (lease, id) in leases.iter().zip(ids) {
        table.row(vec![
            id,
            plain(&lease.kind),
            plain(&lease.lane),
            lease.attempt.to_string(),
            age(now.saturating_sub(lease.acquired_at)),
            format!("{} left", age(lease.expires_at.saturating_sub(now))),
        ]);
    }
    table.render(paint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn workers_are_shown_with_their_load() {
        let worker = |instance: &str, state: &str, free: u32| -> Worker {
            let value = json!({"namespace": "shop", "instance": instance, "worker": "mailer", "session": 1, "state": state,
                "lanes": ["mail"], "capabilities": [], "capacity": 16, "free": free, "version": "1.4.0", "labels": {},
                "ttl_ms": 60_000, "registered_at": 0, "last_seen_at": 9_000});
            serde_json::from_value(value).unwrap()
        };
        let workers = [worker("mailer-3@host", "active", 4), worker("mailer-1@host", "draining", 14)];
        assert_eq!(
            table(&workers, 10_000, Paint::PLAIN),
            "INSTANCE       POOL    STATE     LANES  BUSY   SEEN  VERSION  NOTE\n\
             mailer-3@host  mailer  active    mail   12/16  1s    1.4.0\n\
             mailer-1@host  mailer  draining  mail   2/16   1s    1.4.0"
        );
    }

    #[test]
    fn a_worker_that_is_silent_is_shown_so_before_it_counts_as_dead() {
        let worker = |instance: &str, seen_at: u64, dead: serde_json::Value| -> Worker {
            let state = match instance {
                "drained" => "drained",
                _ if dead.is_null() => "active",
                _ => "dead",
            };
            let value = json!({"namespace": "shop", "instance": instance, "worker": "mailer", "session": 1, "state": state,
                "lanes": ["mail"], "capabilities": [], "capacity": 1, "labels": {}, "ttl_ms": 60_000, "registered_at": 0,
                "last_seen_at": seen_at, "dead": dead});
            serde_json::from_value(value).unwrap()
        };
        let given_up = json!({"at": 99_000, "marked": true, "reason": "its host burnt"});
        let workers = [
            worker("fresh", 65_000, json!(null)),
            worker("killed", 55_000, json!(null)),
            worker("drained", 55_000, json!(null)),
            worker("gone", 10_000, json!({"at": 90_000, "marked": false})),
            worker("burnt", 70_000, given_up),
        ];
        assert_eq!(
            table(&workers, 100_000, Paint::PLAIN),
            "INSTANCE  POOL    STATE    LANES  BUSY  SEEN  VERSION  NOTE\n\
             fresh     mailer  active   mail   ?/1   35s   –\n\
             killed    mailer  active   mail   –     45s   –        silent for 45s\n\
             drained   mailer  drained  mail   ?/1   45s   –\n\
             gone      mailer  dead     mail   –     1m    –        silent for 1m\n\
             burnt     mailer  dead     mail   –     30s   –        given up: its host burnt"
        );
    }
}
