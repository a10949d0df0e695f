//! Submitting executions and steering them.

use crate::rejection::problem;
use crate::submit::submission;
use crate::view;
use crate::work::{join, split};
use crate::{Acting, Answer, check_batch, execution_id, no_batch_id, request_id};
use weft_api::execution as wire;
use weft_api::operation::NoQuery;
use weft_api::{Args, Batch, Problem, Reply};
use weft_core::command::{CancelMode, DeadlineWish, When};
use weft_core::limits::GRACE_DEFAULT_MS;
use weft_core::record::execution::Deadline;
use weft_core::reply::{Cancelled, Submitted};
use weft_core::Time;
use weft_engine::{Cancellation, Replaying};

impl Acting<'_> {
    pub async fn submit(&self, args: Args<[String; 0], NoQuery, wire::Submit>) -> Result<Answer, Problem> {
        let client = self.client()?;
        let key = same_key(args.idempotency_key, args.body.idempotency_key.clone())?;
        let body = wire::Submit { idempotency_key: key, ..args.body };
        let submission = submission(body, self.engine.policy(), self.around.trace.as_deref())?;
        let submitted = client.submit(submission).await.map_err(problem)?;
        let existed = submitted.duplicate;
        Ok(Answer { existed, replayed: existed, ..Reply::SubmitExecution(self::submitted(submitted)).into() })
    }

    pub async fn submit_many(&self, args: Args<[String; 0], NoQuery, wire::SubmitBatch>) -> Result<Answer, Problem> {
        no_batch_id(&args)?;
        check_batch(args.body.items.len())?;
        let client = self.client()?;
        let (defaults, trace) = (self.engine.policy(), self.around.trace.as_deref());
        let (good, refused) = split(args.body.items.into_iter().map(|item| submission(item, defaults, trace)));
        let answers = client.submit_batch(good).await.into_iter();
        Ok(Reply::SubmitExecutions(join(refused, answers.map(|answer| answer.map(submitted)))).into())
    }

    pub async fn cancel(&self, args: Args<[String; 1], NoQuery, wire::Cancel>) -> Result<Answer, Problem> {
        let (id, client) = self.one(&args.path[0]).await?;
        let request_id = request_id(&args, args.body.request_id.as_ref())?;
        let body = args.body;
        let mut cancellation = Cancellation::new(id, body.reason);
        cancellation.mode = mode(body.mode, body.grace_ms)?;
        cancellation.cascade = body.cascade.unwrap_or(true);
        cancellation.request_id = request_id;
        let answer = client.cancel(cancellation).await.map_err(problem)?;
        Ok(Reply::CancelExecution(cancelled(answer)).into())
    }

    pub async fn cancel_many(&self, args: Args<[String; 0], NoQuery, Batch<wire::CancelItem>>) -> Result<Answer, Problem> {
        no_batch_id(&args)?;
        check_batch(args.body.items.len())?;
        let client = self.client()?;
        let items = args.body.items.into_iter().map(|item| {
            let mut cancellation = Cancellation::new(execution_id(&item.execution)?, item.reason);
            cancellation.mode = mode(item.mode, item.grace_ms)?;
            cancellation.cascade = item.cascade.unwrap_or(true);
            cancellation.request_id = item.request_id.map(bytes::Bytes::from);
            Ok(cancellation)
        });
        let (good, refused) = split(items);
        let answers = client.cancel_batch(good).await.into_iter();
        Ok(Reply::CancelExecutions(join(refused, answers.map(|answer| answer.map(cancelled)))).into())
    }

    pub async fn replay(&self, args: Args<[String; 1], NoQuery, wire::Replay>) -> Result<Answer, Problem> {
        let (id, client) = self.one(&args.path[0]).await?;
        let request_id = request_id(&args, args.body.request_id.as_ref())?;
        let body = args.body;
        let deadline = crate::submit::when("deadline_in_ms", body.deadline_in_ms, "deadline_at", body.deadline_at)?;
        let mut replaying = Replaying::new(id, body.reason);
        replaying.deadline = match (deadline, body.no_deadline) {
            (Some(_), true) => return Err(Problem::invalid("no_deadline", "and a new deadline exclude each other")),
            (Some(When::At(at)), false) => DeadlineWish::New(Deadline::At(at)),
            (Some(When::InMs(ms)), false) => DeadlineWish::New(Deadline::InMs(ms)),
            (None, true) => DeadlineWish::None,
            (None, false) => DeadlineWish::Keep,
        };
        replaying.delay_ms = body.delay_ms;
        replaying.priority = body.priority;
        replaying.request_id = request_id;
        let (state, replays) = client.replay(replaying).await.map_err(problem)?;
        Ok(Reply::ReplayExecution(wire::Replayed { public_state: view::state(state), replays }).into())
    }
}

/// The key of a submission, from the header or the body.
fn same_key(header: Option<String>, field: Option<String>) -> Result<Option<String>, Problem> {
    match (header, field) {
        (Some(header), Some(field)) if header != field => {
            Err(Problem::invalid("idempotency_key", "and the header `Idempotency-Key` differ; give one"))
        }
        (header, field) => Ok(field.or(header)),
    }
}

fn mode(mode: Option<wire::CancelMode>, grace_ms: Option<u64>) -> Result<CancelMode, Problem> {
    match (mode, grace_ms) {
        (Some(wire::CancelMode::Graceful), grace_ms) => {
            Ok(CancelMode::Graceful { grace_ms: grace_ms.unwrap_or(GRACE_DEFAULT_MS) })
        }
        (_, Some(_)) => Err(Problem::invalid("grace_ms", "has an effect only with the mode `graceful`")),
        (Some(wire::CancelMode::Immediate) | None, None) => Ok(CancelMode::Immediate),
    }
}

pub fn cancelled(cancelled: Cancelled) -> wire::Cancelled {
    match cancelled {
        Cancelled::Done { already } => wire::Cancelled::Done { already },
        Cancelled::Requested { kill_at } => wire::Cancelled::Requested { kill_at: kill_at.map(Time::ms) },
    }
}

pub fn submitted(submitted: Submitted) -> wire::Submitted {
    wire::Submitted {
        id: submitted.id.to_string(),
        public_state: view::state(submitted.public_state),
        duplicate: submitted.duplicate,
        purged: submitted.purged,
    }
}
