//! What clients and operators ask of one execution: each call names it in its path, may be repeated under its request id,
//! and may be bound to the revision its caller has seen.

use crate::execution::{cancelled, mode};
use crate::rejection::problem;
use crate::submit::when;
use crate::{Acting, Answer, request_id, text, view};
use bytes::Bytes;
use weft_api::execution as wire;
use weft_api::operation::{NoBody, NoQuery};
use weft_api::{Args, Code, Moment, Problem, Reply, Scope};
use weft_core::command::{DeadlineWish, Downstream, Steps, When};
use weft_core::error::Rejection;
use weft_core::record::execution::Deadline;
use weft_core::{CommitId, ExecutionId};
use weft_engine::{
    Answered, Cancellation, Client, ForceCompleting, ForceFailing, Holding, Prioritising, Purging, Releasing,
    Replaying, Rescheduling, Revoking, Tagging,
};

type One<B> = Args<[String; 1], NoQuery, B>;

/// Which execution a call is about, and under which conditions it counts.
struct Steered {
    client: Client,
    id: ExecutionId,
    request_id: Option<Bytes>,
    expected_revision: Option<CommitId>,
}

impl Acting<'_> {
    async fn steered<Q, B>(&self, args: &Args<[String; 1], Q, B>, field: Option<&String>) -> Result<Steered, Problem> {
        let request_id = request_id(args, field)?;
        let expected_revision = expected(args.if_match.as_deref())?;
        let (id, client) = self.one(&args.path[0]).await?;
        Ok(Steered { client, id, request_id, expected_revision })
    }

    pub async fn cancel(&self, args: One<wire::Cancel>) -> Result<Answer, Problem> {
        let it = self.steered(&args, args.body.request_id.as_ref()).await?;
        let body = args.body;
        let cancellation = Cancellation {
            mode: mode(body.mode, body.grace_ms)?,
            cascade: body.cascade.unwrap_or(true),
            request_id: it.request_id,
            expected_revision: it.expected_revision,
            ..Cancellation::new(it.id, body.reason)
        };
        let answer = it.client.cancel(cancellation).await;
        answered(answer, |cancel| Reply::CancelExecution(cancelled(cancel)))
    }

    pub async fn replay(&self, args: One<wire::Replay>) -> Result<Answer, Problem> {
        let it = self.steered(&args, args.body.request_id.as_ref()).await?;
        let body = args.body;
        if body.ignore_dependencies {
            self.caller.needs(Scope::Operate)?;
        }
        let replaying = Replaying {
            deadline: deadline(body.deadline_in_ms, body.deadline_at, body.no_deadline)?,
            delay_ms: body.delay_ms,
            priority: body.priority,
            steps: steps(body.steps),
            downstream: downstream(body.downstream),
            ignore_dependencies: body.ignore_dependencies,
            request_id: it.request_id,
            expected_revision: it.expected_revision,
            ..Replaying::new(it.id, body.reason)
        };
        answered(it.client.replay(replaying).await, |(state, replays)| {
            Reply::ReplayExecution(wire::Replayed { public_state: view::state(state), replays })
        })
    }

    pub async fn reschedule(&self, args: One<wire::Reschedule>) -> Result<Answer, Problem> {
        let it = self.steered(&args, args.body.request_id.as_ref()).await?;
        let start = start(&args.body)?;
        let rescheduling = Rescheduling {
            reason: text(args.body.reason),
            request_id: it.request_id,
            expected_revision: it.expected_revision,
            ..Rescheduling::new(it.id, start)
        };
        answered(it.client.reschedule(rescheduling).await, |(old, new)| {
            Reply::RescheduleExecution(wire::Rescheduled { old: old.ms(), new: new.ms() })
        })
    }

    pub async fn set_priority(&self, args: One<wire::Priority>) -> Result<Answer, Problem> {
        let it = self.steered(&args, args.body.request_id.as_ref()).await?;
        let new = args.body.priority;
        let prioritising = Prioritising {
            reason: text(args.body.reason),
            request_id: it.request_id,
            expected_revision: it.expected_revision,
            ..Prioritising::new(it.id, new)
        };
        answered(it.client.change_priority(prioritising).await, |old| {
            Reply::SetPriority(wire::PriorityChanged { old, new, changed: old != new })
        })
    }

    pub async fn set_tags(&self, args: One<wire::TagChange>) -> Result<Answer, Problem> {
        let it = self.steered(&args, args.body.request_id.as_ref()).await?;
        let body = args.body;
        let tagging = Tagging {
            set: body.set.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
            remove: body.remove.into_iter().map(text).collect(),
            reason: text(body.reason),
            request_id: it.request_id,
            expected_revision: it.expected_revision,
            ..Tagging::new(it.id)
        };
        answered(it.client.set_tags(tagging).await, |tags| Reply::SetTags(wire::Tags { tags: view::tags(&tags) }))
    }

    pub async fn hold(&self, args: One<wire::HoldRequest>) -> Result<Answer, Problem> {
        let it = self.steered(&args, args.body.request_id.as_ref()).await?;
        let holding = Holding {
            revoke: args.body.revoke,
            request_id: it.request_id,
            expected_revision: it.expected_revision,
            ..Holding::new(it.id, args.body.reason)
        };
        answered(it.client.hold(holding).await, |changed| Reply::HoldExecution(wire::Held { changed }))
    }

    pub async fn release(&self, args: One<wire::Release>) -> Result<Answer, Problem> {
        let it = self.steered(&args, args.body.request_id.as_ref()).await?;
        let releasing = Releasing {
            reason: text(args.body.reason),
            request_id: it.request_id,
            expected_revision: it.expected_revision,
            ..Releasing::new(it.id)
        };
        answered(it.client.release(releasing).await, |released| {
            let public_state = view::state(released.public_state);
            Reply::ReleaseExecution(wire::Released { changed: released.changed, public_state })
        })
    }

    pub async fn revoke(&self, args: One<wire::Revoke>) -> Result<Answer, Problem> {
        let it = self.steered(&args, args.body.request_id.as_ref()).await?;
        let body = args.body;
        let revoking = Revoking {
            expected_epoch: body.expected_epoch,
            hold: body.hold,
            request_id: it.request_id,
            expected_revision: it.expected_revision,
            ..Revoking::new(it.id, body.reason)
        };
        answered(it.client.revoke(revoking).await, |revoked| {
            Reply::RevokeExecution(wire::Revoked { epoch: revoked.epoch, already: revoked.already })
        })
    }

    pub async fn force_complete(&self, args: One<wire::ForceComplete>) -> Result<Answer, Problem> {
        let it = self.steered(&args, args.body.request_id.as_ref()).await?;
        let (result, content_type) = crate::work::parts(args.body.result);
        let forcing = ForceCompleting {
            result,
            content_type,
            request_id: it.request_id,
            expected_revision: it.expected_revision,
            ..ForceCompleting::new(it.id, args.body.reason)
        };
        answered(it.client.force_complete(forcing).await, |outcome| {
            Reply::ForceComplete(wire::Forced { outcome: view::outcome(outcome) })
        })
    }

    pub async fn force_fail(&self, args: One<wire::ForceFail>) -> Result<Answer, Problem> {
        let it = self.steered(&args, args.body.request_id.as_ref()).await?;
        let forcing = ForceFailing {
            request_id: it.request_id,
            expected_revision: it.expected_revision,
            ..ForceFailing::new(it.id, args.body.message, args.body.reason)
        };
        answered(it.client.force_fail(forcing).await, |outcome| {
            Reply::ForceFail(wire::Forced { outcome: view::outcome(outcome) })
        })
    }

    pub async fn purge(&self, args: Args<[String; 1], wire::PurgeQuery, NoBody>) -> Result<Answer, Problem> {
        let it = self.steered(&args, None).await?;
        let purging = Purging {
            reason: text(args.query.reason.unwrap_or_default()),
            request_id: it.request_id,
            expected_revision: it.expected_revision,
            ..Purging::new(it.id)
        };
        answered(it.client.purge(purging).await, |()| Reply::PurgeExecution(wire::Purging { purging: true }))
    }
}

/// The deadline that a replay brings.
pub fn deadline(in_ms: Option<u64>, at: Option<Moment>, none: bool) -> Result<DeadlineWish, Problem> {
    Ok(match (when("deadline_in_ms", in_ms, "deadline_at", at)?, none) {
        (Some(_), true) => return Err(Problem::invalid("no_deadline", "and a new deadline exclude each other")),
        (Some(When::At(at)), false) => DeadlineWish::New(Deadline::At(at)),
        (Some(When::InMs(ms)), false) => DeadlineWish::New(Deadline::InMs(ms)),
        (None, true) => DeadlineWish::None,
        (None, false) => DeadlineWish::Keep,
    })
}

pub fn steps(steps: Option<wire::StepsOnReplay>) -> Steps {
    match steps {
        Some(wire::StepsOnReplay::Keep) => Steps::Keep,
        Some(wire::StepsOnReplay::Clear) | None => Steps::Clear,
    }
}

pub fn downstream(downstream: Option<wire::Downstream>) -> Downstream {
    match downstream {
        Some(wire::Downstream::Keep) => Downstream::Keep,
        Some(wire::Downstream::Reopen) | None => Downstream::Reopen,
    }
}

pub fn start(body: &wire::Reschedule) -> Result<When, Problem> {
    let start = when("delay_ms", body.delay_ms, "start_at", body.start_at)?;
    start.ok_or_else(|| Problem::invalid("delay_ms", "is missing; give it, or `start_at`"))
}

/// The engine's answer as a reply, and whether it is a repeated one.
pub fn answered<T>(answer: Result<Answered<T>, Rejection>, reply: impl FnOnce(T) -> Reply) -> Result<Answer, Problem> {
    let Answered { value, repeated } = answer.map_err(problem)?;
    Ok(Answer { replayed: repeated, ..reply(value).into() })
}

/// The revision that `If-Match` asks for. What is no revision of this deployment cannot match.
pub fn expected(if_match: Option<&str>) -> Result<Option<CommitId>, Problem> {
    let Some(tag) = if_match.filter(|tag| *tag != "*") else { return Ok(None) };
    let unknown = |_| {
        Problem::new(Code::RevisionMismatch, "`If-Match` names no revision that it had")
            .hint("take the `ETag` of the read before")
    };
    tag.parse().map(Some).map_err(unknown)
}
