//! From records, replies and events to lines a stranger can read.

use super::Script;
use weft_core::error::Rejection;
use weft_core::event::{Event, Fact};
use weft_core::record::dedup::What;
use weft_core::record::execution::{AfterFailure, Execution, Hold, Holds, Next, State};
use weft_core::record::worker::Body;
use weft_core::record::{Attempt, Key, Record};
use weft_core::reply::{Cancelled, Children, Claimed, Expired, RecordedStep, Reply, StepValue};
use weft_core::time::Time;

pub fn time(time: Time) -> String {
    let (seconds, ms) = (time.ms() / 1000, time.ms() % 1000);
    if ms == 0 { format!("{seconds}s") } else { format!("{seconds}.{ms:03}s") }
}

fn opt_time(at: Option<Time>) -> String {
    at.map_or("none".into(), time)
}

pub fn key(script: &Script, key: Key) -> String {
    match key {
        Key::Execution(id) => script.name(id),
        Key::Attempt(id, index) => format!("{}#{index}", script.name(id)),
        Key::Continuation(id, work) => format!("{} {}", work.timer().name(), script.name(id)),
        Key::Dedup(..) => "dedup".into(),
        Key::DeadLetter(..) => "dead letter".into(),
        Key::Node(..) => "node".into(),
        Key::BulkJob(..) => "bulk job".into(),
        Key::Step(id, number) => format!("{} step {number}", script.name(id)),
        Key::Worker(..) => "worker".into(),
        Key::ApiKey(_, id) => format!("key {id}"),
        Key::Audit(_, number) => format!("audit {number}"),
        Key::Register(_, subject) => subject.name().into(),
        Key::Flow(_) => "flow".into(),
        Key::Edge(id, number) => format!("{} edge {number}", script.name(id)),
        Key::Tombstone(id) => format!("{} stone", script.name(id)),
    }
}

pub fn record(script: &Script, at: Key) -> String {
    let name = key(script, at);
    match script.world.record(at) {
        None => format!("{name} gone"),
        Some(Record::Execution(execution)) => format!("{name} {}", self::execution(&execution)),
        Some(Record::Attempt(attempt)) => format!("{name} {}", self::attempt(&attempt)),
        Some(Record::Continuation(continuation)) => format!("{name} left: {:?}", continuation.body.rest),
        Some(Record::Dedup(dedup)) => {
            let what = match &dedup.body.what {
                What::Request { .. } => "reply kept".to_owned(),
                What::Flow { .. } => "key of a flow".to_owned(),
                What::Step { number } => format!("name of step {number}"),
                What::Key { execution, purged: None } => format!("key of {}", script.name(*execution)),
                What::Key { execution, purged: Some(_) } => format!("key of {}, purged", script.name(*execution)),
            };
            format!("{name} {what}, until {}", opt_time(dedup.body.expires_at))
        }
        Some(Record::DeadLetter(letter)) => format!("{name} {}", letter.body.error),
        Some(Record::Step(step)) => {
            let (body, value) = (&step.body, String::from_utf8_lossy(step.value()));
            format!("{name} {}={} attempt={}", body.name, shorten(&value), body.attempt)
        }
        Some(Record::Worker(worker)) => format!("{name} {}", self::worker(&worker.body)),
        Some(Record::BulkJob(job)) => format!("{name} {:?}", job.body),
        Some(Record::ApiKey(key)) => format!("{name} {}", key.summary()),
        Some(Record::Audit(entry)) => {
            let act = &entry.body.act;
            format!("{name} {} {} {} {}", act.principal, act.verb, act.change, act.result)
        }
        Some(Record::Register(_)) => name,
        Some(Record::Flow(flow)) => format!("{name} {}", flow.public_state().name()),
        Some(Record::Edge(edge)) => format!("{name} {}", edge.state()),
        Some(Record::Tombstone(stone)) => format!("{name} {}", stone.body.outcome.name()),
        Some(Record::Node(node)) => format!("{name} {} seen={}", node.body.name, time(node.body.seen_at)),
    }
}

fn worker(body: &Body) -> String {
    let owed = body.owed.map_or(String::new(), |owed| format!(" owed={:?} before={}", owed.end, owed.before));
    let (session, state, seen) = (body.session, body.state.name(), time(body.last_seen_at));
    format!("{} {state} session={session} seen={seen}{owed}", body.instance)
}

fn execution(execution: &Execution) -> String {
    let hot = &execution.hot;
    let state = match &hot.state {
        State::Ready { since, next, .. } => format!("ready since={} next={}", time(*since), self::next(next)),
        State::Delayed { until, why, next } => {
            format!("delayed until={} why={} next={}", time(*until), why.name(), self::next(next))
        }
        State::Blocked { holds, not_before, next, .. } => {
            let not_before =
                not_before.map_or(String::new(), |(at, why)| format!(" not_before={}({})", time(at), why.name()));
            format!("blocked holds={}{not_before} next={}", self::holds(holds), self::next(next))
        }
        State::Active { lease, timeout_due, cancel, parked } => {
            let mut text = format!("active worker={} expires={}", lease.worker, time(lease.expires_at));
            if let Some(due) = timeout_due {
                text += &format!(" timeout={}", time(*due));
            }
            if let Some(cancel) = cancel {
                text += &format!(" cancel={}({}) kill={}", cancel.by, cancel.reason, opt_time(cancel.kill_at));
            }
            if !parked.is_empty() {
                text += &format!(" parked={}", self::holds(parked));
            }
            text
        }
        State::Done { outcome, reason, by, attempt, purge_at, .. } => format!(
            "done {} reason={} by={by} attempt={} purge={}",
            outcome.name(),
            reason.name(),
            attempt.map_or("none".into(), |index| index.to_string()),
            opt_time(*purge_at)
        ),
    };
    let mut text = format!("{state} epoch={} attempts={}", hot.epoch, hot.attempts);
    for (name, count) in [("retries", hot.retries_used), ("reclaims", hot.reclaims), ("replays", hot.replays)] {
        if count > 0 {
            text += &format!(" {name}={count}");
        }
    }
    if hot.steps.count() > 0 {
        text += &format!(" steps={}({} bytes)", hot.steps.count(), hot.steps.bytes);
    }
    if let Some(progress) = &hot.progress {
        let percent = progress.percent.map_or(String::new(), |percent| format!(" {percent}%"));
        text += &format!("{percent} {}", progress.message.as_deref().unwrap_or_default());
    }
    if let Some(open) = hot.open.as_ref().filter(|open| open.state.is_paused()) {
        let left = open.timeout_left_ms.map_or("no timeout".into(), |ms| format!("{ms} ms left"));
        text += &format!(" paused=#{} {left}", open.index);
    }
    text
}

fn next(next: &Next) -> String {
    match next {
        Next::First => "first".into(),
        Next::Retry { of } => format!("retry#{of}"),
        Next::Reclaim { of, cause } => format!("reclaim#{of}({})", cause.name()),
        Next::Replay { of, .. } => format!("replay#{}", of.map_or("none".into(), |of| of.to_string())),
        Next::Resume => "resume".into(),
    }
}

fn holds(holds: &Holds) -> String {
    let names: Vec<String> = holds
        .iter()
        .map(|hold| match hold {
            Hold::Operator { reason, .. } => format!("operator({reason})"),
            Hold::Dependencies { unresolved, sealed } => format!("dependencies({unresolved}, sealed {sealed})"),
            Hold::Children(hold) => {
                format!("children({} of {}, met {}, unmet {})", hold.needed, hold.children.len(), hold.met, hold.unmet)
            }
        })
        .collect();
    names.join("+")
}

fn attempt(attempt: &Attempt) -> String {
    let mut text = format!("{} {} active={}ms", attempt.kind.name(), attempt.state.name(), attempt.active_ms);
    if let Some(failure) = &attempt.failure {
        text += &format!(" category={}", failure.category);
    }
    if let Some(result) = attempt.result() {
        text += &format!(" result={}", String::from_utf8_lossy(result));
    }
    let causes: Vec<&str> = attempt.leases.iter().filter_map(|lease| lease.cause).map(|cause| cause.name()).collect();
    text + &format!(" leases={}", causes.join(","))
}

pub fn event(script: &Script, event: &Event) -> String {
    let name = event.fact.name().trim_start_matches("execution.");
    let detail = match &event.fact {
        Fact::Finished { outcome, reason, .. } => format!("({} {})", outcome.name(), reason.name()),
        Fact::RetryScheduled { category, retries_left, .. } => format!("({category}, {retries_left} left)"),
        Fact::LeaseLost { reclaims, .. } => format!("(reclaims {reclaims})"),
        _ => String::new(),
    };
    format!("{} {name}{detail}", event.execution.map_or_else(|| subject(&event.fact), |id| script.name(id)))
}

/// What an event is about that is about no execution.
fn subject(fact: &Fact) -> String {
    match fact {
        Fact::WorkerRegistered { instance, .. }
        | Fact::WorkerDraining { instance, .. }
        | Fact::WorkerDrained { instance, .. }
        | Fact::WorkerLost { instance, .. }
        | Fact::WorkerLeft { instance, .. } => instance.to_string(),
        _ => "store".to_owned(),
    }
}

pub fn reply(script: &Script, reply: &Reply) -> String {
    match reply {
        Reply::FlowSubmitted(_)
        | Reply::FlowBuilding { .. }
        | Reply::FlowGrown(_)
        | Reply::FlowSealed { .. }
        | Reply::FlowChecked { .. }
        | Reply::FlowCancelled(_)
        | Reply::FlowFinished { .. }
        | Reply::FlowChanged { .. }
        | Reply::FlowPurging
        | Reply::Verified(_)
        | Reply::Reconciled { .. } => format!("{reply:?}"),
        Reply::Submitted(done) => format!(
            "{} {}{}{}",
            script.name(done.id),
            done.public_state.name(),
            if done.duplicate { " duplicate" } else { "" },
            if done.purged { " purged" } else { "" }
        ),
        Reply::Claimed(claimed) => self::claimed(script, claimed),
        Reply::Renewed(renewed) => {
            let cancel =
                renewed.cancel.as_ref().map_or(String::new(), |cancel| format!(", cancel asked: {}", cancel.reason));
            format!("{} ms{cancel}{}", renewed.expires_in_ms, self::recorded(&renewed.steps))
        }
        Reply::Progressed { expires_in_ms } => format!("{expires_in_ms} ms"),
        Reply::Completed { outcome, attempt, cancel_was_requested, repeated } => format!(
            "{} attempt={attempt}{}{}",
            outcome.name(),
            if *cancel_was_requested { " cancel_was_requested" } else { "" },
            self::repeated(*repeated)
        ),
        Reply::Failed { after, repeated } => format!("{}{}", self::after(after), self::repeated(*repeated)),
        Reply::Delayed { until_at, repeated } => format!("until {}{}", time(*until_at), self::repeated(*repeated)),
        Reply::Children(Children::Decided { verdict }) => format!("decided: {}", verdict.name()),
        Reply::Children(Children::Waiting { waiting, repeated }) => {
            format!("waiting for {waiting}{}", self::repeated(*repeated))
        }
        Reply::Cancelled(Cancelled::Done { already }) => if *already { "already" } else { "cancelled" }.into(),
        Reply::Cancelled(Cancelled::Requested { kill_at }) => format!("requested, kill at {}", opt_time(*kill_at)),
        Reply::Rescheduled { old, new } => format!("{} to {}", time(*old), time(*new)),
        Reply::PriorityChanged { old, new, changed } => format!("{old} to {new} changed={changed}"),
        Reply::Tags(tags) => format!("{tags:?}"),
        Reply::Revoked { epoch, already } => format!("epoch {epoch}{}", if *already { " already" } else { "" }),
        Reply::Held { changed } => format!("changed={changed}"),
        Reply::BulkStarted(id) => format!("bulk job {id}"),
        Reply::Released { changed, public_state } => format!("changed={changed} {}", public_state.name()),
        Reply::Forced { outcome } => outcome.name().into(),
        Reply::Purged => "purged".into(),
        Reply::Replayed { public_state, replays } => format!("{} replays={replays}", public_state.name()),
        Reply::Expired(Expired::Fired) => "fired".into(),
        Reply::Expired(Expired::Stale) => "stale".into(),
        Reply::Expired(Expired::More) => "more".into(),
        Reply::Noted | Reply::Failing(_) => "noted".into(),
        Reply::Retried(retried) => format!("{retried:?}"),
        Reply::Key(key) => key.summary(),
        Reply::KeysExist => "there are keys".into(),
        Reply::KeyRevoked => "revoked".into(),
        Reply::Answer(answer) => if answer.is_some() { "answered" } else { "not answered" }.into(),
        Reply::StepsRecorded(steps) => self::recorded(steps).trim_start().to_owned(),
        Reply::SubmittedAll(all) => {
            let names: Vec<String> = all.iter().map(|done| script.name(done.id)).collect();
            names.join(", ")
        }
        Reply::Worker(body) => self::worker(body),
        Reply::Node { drain } => if drain.is_some() { "draining" } else { "serving" }.into(),
    }
}

fn recorded(steps: &[RecordedStep]) -> String {
    let show = |recorded: &RecordedStep| {
        let existed = if recorded.existed { "(existed)" } else { "" };
        format!(" {}{existed}", step(&recorded.step))
    };
    steps.iter().map(show).collect()
}

fn step(step: &StepValue) -> String {
    format!("{}={}", step.name, shorten(&String::from_utf8_lossy(&step.bytes)))
}

fn shorten(text: &str) -> String {
    if text.len() > 40 { format!("{} bytes", text.len()) } else { text.to_owned() }
}

fn repeated(repeated: bool) -> &'static str {
    if repeated { " repeated" } else { "" }
}

fn after(after: &AfterFailure) -> String {
    match after {
        AfterFailure::Retry { retry_at, retries_left } => format!("retry at {}, {retries_left} left", time(*retry_at)),
        AfterFailure::Ended { outcome, reason } => format!("{} ({})", outcome.name(), reason.name()),
    }
}

fn claimed(script: &Script, claimed: &Claimed) -> String {
    let mut text = format!("attempt={} {}", claimed.attempt, claimed.attempt_kind.name());
    if claimed.resumed {
        text += " resumed";
    }
    if let Some(failure) = &claimed.previous_failure {
        text += &format!(" after={}", failure.category);
    }
    if let Some(checkpoint) = &claimed.checkpoint {
        text += &format!(" checkpoint={}", String::from_utf8_lossy(&checkpoint.bytes));
    }
    if !claimed.steps.is_empty() || claimed.steps_more {
        let steps: Vec<String> = claimed.steps.iter().map(step).collect();
        text += &format!(" steps={}{}", steps.join(","), if claimed.steps_more { " and more" } else { "" });
    }
    if let Some(children) = &claimed.children {
        let ends: Vec<String> = children
            .children
            .iter()
            .map(|child| {
                format!("{}={}", script.name(child.id), child.outcome.map_or("none", |outcome| outcome.name()))
            })
            .collect();
        text += &format!(" children={}({})", children.verdict.name(), ends.join(","));
    }
    text
}

pub fn refusal(script: &Script, rejection: &Rejection) -> String {
    let detail = match rejection {
        Rejection::StaleLease { current_epoch } => format!(" current={current_epoch}"),
        Rejection::LeaseExpired { at } | Rejection::LeaseRevoked { at, .. } => format!(" at {}", time(*at)),
        Rejection::LeaseLost { cause, at } => format!(" {} at {}", cause.name(), time(*at)),
        Rejection::Cancelled { by, reason, .. } => format!(" by {by} ({reason})"),
        Rejection::ExecutionTerminal { outcome, .. } => format!(" {}", outcome.name()),
        Rejection::ExecutionNotActive { public_state, .. } | Rejection::NotClaimable { public_state } => {
            format!(" {}", public_state.name())
        }
        Rejection::NotAChild { id } => format!(" {}", script.name(*id)),
        Rejection::InvalidArgument { field, .. } => format!(" {field}"),
        _ => String::new(),
    };
    format!("refused {}{detail}", rejection.code())
}
