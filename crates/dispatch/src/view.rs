//! From the engine's views to the wire's. Every field is named here once.

use crate::flow::view as flow;
use std::collections::BTreeMap;
use weft_api::Payload;
use weft_api::execution as wire;
use weft_api::work;
use weft_core::derive::dimensions;
use weft_core::record::attempt::{self, Attempt};
use weft_core::record::execution::{self as core, Execution, Hold, State};
use weft_core::record::trouble::Failing;
use weft_core::reply::{RecordedStep, StepValue};
use weft_core::text::Text;
use weft_core::{CommitId, ExecutionId, ParkedId, Time};
use weft_engine::{Explanation, HistoryEntry, Obstacle};

pub fn state(state: core::PublicState) -> wire::PublicState {
    use core::PublicState as From;
    use wire::PublicState as To;
    match state {
        From::Waiting => To::Waiting,
        From::Delayed => To::Delayed,
        From::Held => To::Held,
        From::WaitingChildren => To::WaitingChildren,
        From::RateLimited => To::RateLimited,
        From::Active => To::Active,
        From::Suspended => To::Suspended,
        From::Completed => To::Completed,
        From::Failed => To::Failed,
        From::Cancelled => To::Cancelled,
        From::Expired => To::Expired,
        From::Skipped => To::Skipped,
    }
}

pub fn core_state(state: wire::PublicState) -> core::PublicState {
    core::PublicState::from_name(state.name()).expect("view: both sides have the same states")
}

pub fn outcome(outcome: core::Outcome) -> wire::Outcome {
    match outcome {
        core::Outcome::Success => wire::Outcome::Success,
        core::Outcome::Failed => wire::Outcome::Failed,
        core::Outcome::Cancelled => wire::Outcome::Cancelled,
        core::Outcome::Expired => wire::Outcome::Expired,
        core::Outcome::Skipped => wire::Outcome::Skipped,
    }
}

pub fn payload(bytes: &bytes::Bytes, content_type: Option<&Text>) -> Payload {
    Payload::new(bytes.clone(), content_type.map(|kind| kind.to_string()))
}

pub fn tags(tags: &BTreeMap<Text, Text>) -> BTreeMap<String, String> {
    tags.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// Everything of an execution but its payloads.
pub fn execution(execution: &Execution, revision: CommitId, now: Time) -> wire::Execution {
    let (spec, hot) = (&execution.spec, &execution.hot);
    let dimensions = dimensions(execution, now);
    let (lease, cancel) = match &hot.state {
        State::Active { lease, cancel, .. } => (Some(self::lease(lease)), cancel.as_ref().map(self::cancel)),
        _ => (None, None),
    };
    let (ended, purge_at) = match &hot.state {
        State::Done { outcome, reason, by, at, attempt, purge_at } => {
            let ended = wire::Ended {
                outcome: self::outcome(*outcome),
                reason: reason.name().to_string(),
                by: by.to_string(),
                at: at.ms(),
                attempt: *attempt,
            };
            (Some(ended), *purge_at)
        }
        _ => (None, None),
    };
    let not_before = match &hot.state {
        State::Delayed { until, .. } => Some(until.ms()),
        State::Blocked { not_before, .. } => not_before.map(|(until, _)| until.ms()),
        _ => None,
    };
    wire::Execution {
        id: execution.id.to_string(),
        namespace: spec.namespace.to_string(),
        lane: spec.lane.to_string(),
        kind: spec.kind.to_string(),
        priority: hot.priority,
        tags: tags(execution.tags()),
        capabilities: spec.capabilities.tokens().map(str::to_string).collect(),
        public_state: state(execution.public_state()),
        dimensions: wire::Dimensions {
            phase: dimensions.phase.name().to_string(),
            ownership: dimensions.ownership.name().to_string(),
            eligibility: dimensions.eligibility.name().to_string(),
            blocking_reason: dimensions.blocking_reason.name().to_string(),
            outcome: dimensions.outcome_name().to_string(),
            attempt_state: dimensions.attempt_state.name().to_string(),
            cancellation: dimensions.cancellation.name().to_string(),
        },
        holds: holds(&hot.state),
        creator: spec.creator.to_string(),
        attempts: hot.attempts,
        retries_used: hot.retries_used,
        max_retries: spec.policy.retry.max_retries,
        reclaims: hot.reclaims,
        replays: hot.replays,
        epoch: hot.epoch,
        lease,
        cancel,
        progress: hot.progress.as_ref().map(progress),
        finished_at: ended.as_ref().map(|ended| ended.at),
        ended,
        failure: None,
        parent: spec.parent.map(|id| id.to_string()),
        flow: execution.member().map(|member| flow::membership(member)),
        children: hot.children,
        steps: hot.steps.count(),
        concurrency_key: spec.concurrency_key.as_ref().map(key),
        policy: None,
        trace: spec.trace.as_ref().map(|trace| trace.to_string()),
        created_at: hot.created_at.ms(),
        first_started_at: hot.first_started_at.map(Time::ms),
        not_before,
        deadline_at: hot.deadline_at.map(Time::ms),
        changed_at: hot.changed_at.ms(),
        updated_at: hot.updated_at.ms(),
        purge_at: purge_at.map(Time::ms),
        trouble: execution.trouble().into_iter().flat_map(|it| &it.items).map(|it| trouble(execution.id, it)).collect(),
        revision: revision.to_string(),
        input: None,
        result: None,
        checkpoint: None,
        attempt_list: None,
    }
}

/// A key is bytes of any kind: text where it is text.
fn key(bytes: &bytes::Bytes) -> Payload {
    let is_text = std::str::from_utf8(bytes).is_ok();
    Payload::new(bytes.clone(), is_text.then(|| weft_api::payload::TEXT.to_string()))
}

pub fn policy(policy: &core::Policy) -> wire::Policy {
    let words = |words: &[Text]| Some(words.iter().map(|word| word.to_string()).collect());
    let retry = &policy.retry;
    wire::Policy {
        retry: Some(wire::Retry {
            max_retries: Some(retry.max_retries),
            backoff: Some(match retry.backoff {
                core::Backoff::Fixed { delay_ms } => wire::Backoff::Fixed { delay_ms },
                core::Backoff::Exponential { initial_ms, max_ms, multiplier_thousandths } => {
                    let multiplier = f64::from(multiplier_thousandths) / 1_000.0;
                    wire::Backoff::Exponential { initial_ms, max_ms, multiplier }
                }
            }),
            jitter: Some(match retry.jitter {
                core::Jitter::None => wire::Jitter::None,
                core::Jitter::Equal => wire::Jitter::Equal,
                core::Jitter::Full => wire::Jitter::Full,
            }),
            retry_on: words(&retry.retry_on),
            never_on: words(&retry.never_on),
        }),
        attempt_timeout_ms: policy.attempt_timeout_ms,
        max_reclaims: Some(policy.max_reclaims),
        max_replays: Some(policy.max_replays),
        retention_ms: Some(policy.retention_ms.map_or(wire::Keep::Word(wire::Forever::Forever), wire::Keep::Ms)),
        idempotency_ttl_ms: Some(policy.idempotency_ttl_ms),
    }
}

fn trouble(id: ExecutionId, item: &Failing) -> wire::Trouble {
    wire::Trouble {
        scanner: item.scanner.to_string(),
        timer: item.timer.name().to_string(),
        fails: item.fails,
        first_at: item.first_at.ms(),
        last_at: item.last_at.ms(),
        last_error: item.last_error.to_string(),
        next_try_at: item.given_up.is_none().then(|| item.next_try_at.ms()),
        parked: item.letter.map(|letter| ParkedId::new(id.partition(), letter).to_string()),
        given_up: item.given_up.as_ref().map(|it| wire::GivenUp {
            by: it.by.to_string(),
            reason: it.reason.to_string(),
            at: it.at.ms(),
        }),
    }
}

fn holds(state: &State) -> Vec<wire::Hold> {
    let holds = match state {
        State::Blocked { holds, .. } => holds,
        State::Active { parked, .. } => parked,
        _ => return Vec::new(),
    };
    let of = |hold: &Hold| match hold {
        Hold::Operator { by, reason, at } => wire::Hold {
            kind: "operator".to_string(),
            by: Some(by.to_string()),
            reason: Some(reason.to_string()),
            at: Some(at.ms()),
            waiting: None,
        },
        Hold::Dependencies { unresolved, .. } => wire::Hold {
            kind: "dependencies".to_string(),
            by: None,
            reason: None,
            at: None,
            waiting: Some(*unresolved),
        },
        Hold::Children(hold) => wire::Hold {
            kind: "children".to_string(),
            by: None,
            reason: None,
            at: None,
            waiting: Some((hold.children.len() as u32).saturating_sub(hold.met + hold.unmet)),
        },
    };
    holds.iter().map(of).collect()
}

fn lease(lease: &core::Lease) -> wire::Lease {
    wire::Lease {
        id: lease.id.to_string(),
        worker: lease.worker.to_string(),
        instance: lease.instance.to_string(),
        epoch: lease.epoch,
        acquired_at: lease.acquired_at.ms(),
        expires_at: lease.expires_at.ms(),
    }
}

fn cancel(cancel: &core::Cancel) -> wire::CancelState {
    wire::CancelState {
        reason: cancel.reason.to_string(),
        by: cancel.by.to_string(),
        requested_at: cancel.requested_at.ms(),
        kill_at: cancel.kill_at.map(Time::ms),
    }
}

pub fn progress(progress: &core::Progress) -> wire::Progress {
    wire::Progress {
        percent: progress.percent,
        message: progress.message.as_ref().map(|message| message.to_string()),
        at: progress.at.ms(),
    }
}

pub fn failure(failure: &attempt::Failure) -> wire::Failure {
    wire::Failure {
        category: failure.category.to_string(),
        message: failure.message.to_string(),
        retry_at: failure.retry_at.map(Time::ms),
        detail: None,
    }
}

pub fn checkpoint(checkpoint: &core::Checkpoint) -> wire::Checkpoint {
    wire::Checkpoint {
        value: payload(&checkpoint.bytes, checkpoint.content_type.as_ref()),
        attempt: checkpoint.attempt,
        at: checkpoint.at.ms(),
    }
}

/// An attempt with its payloads, which must have been read.
pub fn attempt(attempt: &Attempt) -> wire::Attempt {
    let failed = attempt.failure.as_ref().map(|failed| {
        let detail = attempt.detail().map(|bytes| payload(bytes, failed.detail.content_type()));
        wire::Failure { detail, ..failure(failed) }
    });
    let result = attempt.result().map(|bytes| payload(bytes, attempt.content_type.as_ref()));
    wire::Attempt { failure: failed, result, ..run(attempt) }
}

/// An attempt without its payloads.
pub fn run(attempt: &Attempt) -> wire::Attempt {
    let episode = |episode: &attempt::Episode| wire::Episode {
        epoch: episode.epoch,
        lease: episode.lease.to_string(),
        worker: episode.worker.to_string(),
        instance: episode.instance.to_string(),
        from: episode.from.ms(),
        to: episode.to.map(Time::ms),
        cause: episode.cause.map(|cause| cause.name().to_string()),
    };
    wire::Attempt {
        index: attempt.index,
        kind: attempt.kind.name().to_string(),
        state: attempt.state.name().to_string(),
        previous: attempt.previous,
        why: attempt.why.as_ref().map(|why| why.to_string()),
        started_at: attempt.started_at.ms(),
        ended_at: attempt.ended_at.map(Time::ms),
        active_ms: attempt.active_ms,
        timeout_left_ms: attempt.timeout_left_ms,
        failure: attempt.failure.as_ref().map(failure),
        result: None,
        leases: attempt.leases.iter().map(episode).collect(),
        leases_dropped: attempt.leases_dropped,
    }
}

pub fn history(entry: HistoryEntry) -> wire::HistoryEntry {
    let text = |text: Option<Text>| text.map(|text| text.to_string());
    wire::HistoryEntry {
        at: entry.at.ms(),
        what: entry.what.to_string(),
        attempt: entry.attempt,
        epoch: entry.epoch,
        worker: text(entry.worker),
        by: text(entry.by),
        reason: text(entry.reason),
    }
}

pub fn explanation(explanation: Explanation) -> wire::Explanation {
    wire::Explanation {
        public_state: state(explanation.public_state),
        at: explanation.at.ms(),
        running: explanation.running,
        reasons: explanation.reasons.iter().map(|obstacle| reason(obstacle, explanation.at)).collect(),
        flow: explanation.member.as_ref().map(|member| member.flow.to_string()),
        key: explanation.member.as_ref().map(|member| member.key.to_string()),
        next_time: explanation.next_time.map(Time::ms),
    }
}

fn reason(obstacle: &Obstacle, now: Time) -> wire::Reason {
    let (text, detail, clears) = crate::obstacle::told(obstacle, now);
    let serde_json::Value::Object(detail) = detail else { unreachable!("obstacle: its detail is an object") };
    wire::Reason {
        code: obstacle.code().to_string(),
        text,
        detail: detail.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        clears: clears.map(str::to_string),
    }
}

pub fn step(step: &StepValue) -> work::Step {
    work::Step {
        name: step.name.to_string(),
        value: payload(&step.bytes, step.content_type.as_ref()),
        attempt: step.attempt,
        at: step.at.ms(),
        no: step.number,
    }
}

/// What stands under a name; the value only if it is not the caller's own.
pub fn recorded(recorded: &RecordedStep) -> work::RecordedStep {
    let step = &recorded.step;
    work::RecordedStep {
        name: step.name.to_string(),
        existed: recorded.existed,
        value: recorded.existed.then(|| payload(&step.bytes, step.content_type.as_ref())),
    }
}
