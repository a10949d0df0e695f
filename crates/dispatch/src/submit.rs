//! Submissions, from the wire to the engine.

use weft_api::execution as wire;
use weft_api::{Moment, Problem};
use weft_core::Time;
use weft_core::command::When;
use weft_core::record::execution::{Backoff, Jitter, Policy};
use weft_core::text::Text;
use weft_engine::Submission;

/// The child of running work that a request asks for.
pub fn child(mut submit: wire::Submit, defaults: &Policy, trace: Option<&str>) -> Result<Submission, Problem> {
    let (flow, critical) = (submit.flow.take(), submit.critical.take());
    if let (Some(wire::OwnFlow::None), Some(_)) = (flow, critical) {
        return Err(Problem::invalid("critical", "has no effect on a child that joins no flow; leave it out"));
    }
    let mut submission = submission(submit, defaults, trace)?;
    submission.outside = flow.is_some();
    submission.uncritical = critical == Some(false);
    Ok(submission)
}

/// The submission that a request asks for, on top of the engine's defaults.
pub fn submission(submit: wire::Submit, defaults: &Policy, trace: Option<&str>) -> Result<Submission, Problem> {
    for (field, given) in [("flow", submit.flow.is_some()), ("critical", submit.critical.is_some())] {
        if given {
            let problem = Problem::invalid(field, "is of children of running work only");
            return Err(problem.hint("`POST /v1/flows` makes members of a flow"));
        }
    }
    let mut submission = Submission::new(submit.kind);
    if let Some(lane) = submit.lane {
        submission.lane = lane.into();
    }
    if let Some(input) = submit.input {
        submission.input = Some(input.bytes);
        submission.content_type = input.content_type.map(Text::from);
    }
    submission.priority = submit.priority;
    submission.capabilities = submit.capabilities.into_iter().map(Text::from).collect();
    submission.tags = submit.tags.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
    submission.idempotency_key = submit.idempotency_key.map(bytes::Bytes::from);
    submission.start = when("delay_ms", submit.delay_ms, "start_at", submit.start_at)?;
    submission.deadline = when("deadline_in_ms", submit.deadline_in_ms, "deadline_at", submit.deadline_at)?;
    submission.policy = submit.policy.map(|policy| merged(policy, defaults)).transpose()?;
    submission.concurrency_key = submit.concurrency_key.map(|key| key.bytes);
    submission.trace = submit.trace.or_else(|| trace.map(str::to_string)).map(Text::from);
    Ok(submission)
}

/// A time given as a duration or absolutely, never both.
pub fn when(
    in_name: &'static str,
    in_ms: Option<u64>,
    at_name: &'static str,
    at: Option<Moment>,
) -> Result<Option<When>, Problem> {
    match (in_ms, at) {
        (Some(_), Some(_)) => {
            Err(Problem::invalid(at_name, format!("and `{in_name}` say the same thing twice; give one")))
        }
        (Some(ms), None) => Ok(Some(When::InMs(ms))),
        (None, Some(at)) => Ok(Some(When::At(time(at)))),
        (None, None) => Ok(None),
    }
}

/// A time of a request as the engine counts it.
pub fn time(at: Moment) -> Time {
    Time::from_ms(at.0)
}

fn merged(wire: wire::Policy, defaults: &Policy) -> Result<Policy, Problem> {
    let mut policy = defaults.clone();
    if let Some(retry) = wire.retry {
        let into = &mut policy.retry;
        into.max_retries = retry.max_retries.unwrap_or(into.max_retries);
        if let Some(backoff) = retry.backoff {
            into.backoff = self::backoff(backoff)?;
        }
        into.jitter = match retry.jitter {
            Some(wire::Jitter::None) => Jitter::None,
            Some(wire::Jitter::Equal) => Jitter::Equal,
            Some(wire::Jitter::Full) => Jitter::Full,
            None => into.jitter,
        };
        let words = |words: Vec<String>| words.into_iter().map(Text::from).collect();
        into.retry_on = retry.retry_on.map_or_else(|| into.retry_on.clone(), words);
        into.never_on = retry.never_on.map_or_else(|| into.never_on.clone(), words);
    }
    policy.attempt_timeout_ms = wire.attempt_timeout_ms.or(policy.attempt_timeout_ms);
    policy.max_reclaims = wire.max_reclaims.unwrap_or(policy.max_reclaims);
    policy.max_replays = wire.max_replays.unwrap_or(policy.max_replays);
    policy.retention_ms = match wire.retention_ms {
        Some(wire::Keep::Ms(ms)) => Some(ms),
        Some(wire::Keep::Word(wire::Forever::Forever)) => None,
        None => policy.retention_ms,
    };
    policy.idempotency_ttl_ms = wire.idempotency_ttl_ms.unwrap_or(policy.idempotency_ttl_ms);
    Ok(policy)
}

fn backoff(backoff: wire::Backoff) -> Result<Backoff, Problem> {
    match backoff {
        wire::Backoff::Fixed { delay_ms } => Ok(Backoff::Fixed { delay_ms }),
        wire::Backoff::Exponential { initial_ms, max_ms, multiplier } => {
            let thousandths = multiplier * 1_000.0;
            // Three decimals are exact; more would be cut, which nobody asked for.
            if !(1_000.0..=10_000.0).contains(&thousandths) || (thousandths - thousandths.round()).abs() > 1e-6 {
                let why = format!("is {multiplier}, allowed are 1 to 10 with at most three decimals");
                return Err(Problem::invalid("policy.retry.backoff.multiplier", why));
            }
            Ok(Backoff::Exponential { initial_ms, max_ms, multiplier_thousandths: thousandths.round() as u32 })
        }
    }
}
