//! Submitting executions, one or many, and cancelling many.

use crate::rejection::problem;
use crate::submit::submission;
use crate::view;
use crate::work::split;
use crate::{Acting, Answer, execution_id, no_batch_id, sent};
use weft_api::execution as wire;
use weft_api::operation::NoQuery;
use weft_api::{Args, Batch, Item, Problem, Reply, Results};
use weft_core::Time;
use weft_core::command::CancelMode;
use weft_core::limits::GRACE_DEFAULT_MS;
use weft_core::reply::{Cancelled, Submitted};
use weft_engine::Cancellation;

impl Acting<'_> {
    pub async fn submit(&self, args: Args<[String; 0], NoQuery, wire::Submit>) -> Result<Answer, Problem> {
        let client = self.client()?;
        let key = same_key(args.idempotency_key, args.body.idempotency_key.clone())?;
        let body = wire::Submit { idempotency_key: key, ..args.body };
        let submission = submission(body, self.engine.policy(), self.around.trace.as_deref())?;
        let submitted = client.submit(submission).await.map_err(problem)?;
        let existed = submitted.duplicate;
        Ok(Answer { existed, replayed: existed, ..Reply::SubmitExecution(self::submitted(submitted.value)).into() })
    }

    pub async fn submit_many(&self, args: Args<[String; 0], NoQuery, wire::SubmitBatch>) -> Result<Answer, Problem> {
        no_batch_id(&args)?;
        let items = sent(args.body.items, args.unreadable)?;
        if args.body.atomic {
            return self.submit_together(items).await;
        }
        let client = self.client()?;
        let (defaults, trace) = (self.engine.policy(), self.around.trace.as_deref());
        let (good, refused) = split(items.map(|item| submission(item?, defaults, trace)));
        let answers = client.submit_batch(good).await.into_iter();
        Ok(Reply::SubmitExecutions(self.join(refused, answers.map(|answer| answer.map(|it| submitted(it.value)))))
            .into())
    }

    /// All of them or none: the first that is refused refuses the call.
    async fn submit_together(
        &self,
        items: impl Iterator<Item = Result<wire::Submit, Problem>>,
    ) -> Result<Answer, Problem> {
        let client = self.client()?;
        let (defaults, trace) = (self.engine.policy(), self.around.trace.as_deref());
        let items = items.enumerate().map(|(index, item)| {
            let item = item.and_then(|item| submission(item, defaults, trace));
            item.map_err(|problem| problem.field("item", index))
        });
        let items = items.collect::<Result<Vec<_>, Problem>>()?;
        let all = client.submit_atomic(items, None).await.map_err(problem)?;
        let results = all.value.into_iter().map(|one| Item::Ok(submitted(one))).collect();
        Ok(Reply::SubmitExecutions(Results { results }).into())
    }

    pub async fn cancel_many(
        &self,
        args: Args<[String; 0], NoQuery, Batch<wire::CancelItem>>,
    ) -> Result<Answer, Problem> {
        no_batch_id(&args)?;
        let items = sent(args.body.items, args.unreadable)?;
        let client = self.client()?;
        let items = items.map(|item| {
            let item = item?;
            let mut cancellation = Cancellation::new(execution_id(&item.execution)?, item.reason);
            cancellation.mode = mode(item.mode, item.grace_ms)?;
            cancellation.cascade = item.cascade.unwrap_or(true);
            cancellation.request_id = item.request_id.map(bytes::Bytes::from);
            Ok(cancellation)
        });
        let (good, refused) = split(items);
        let answers = client.cancel_batch(good).await.into_iter();
        Ok(Reply::CancelExecutions(self.join(refused, answers.map(|answer| answer.map(|it| cancelled(it.value)))))
            .into())
    }
}

/// The key of a submission, from the header or the body.
pub fn same_key(header: Option<String>, field: Option<String>) -> Result<Option<String>, Problem> {
    match (header, field) {
        (Some(header), Some(field)) if header != field => {
            Err(Problem::invalid("idempotency_key", "and the header `Idempotency-Key` differ; give one"))
        }
        (header, field) => Ok(field.or(header)),
    }
}

pub fn mode(mode: Option<wire::CancelMode>, grace_ms: Option<u64>) -> Result<CancelMode, Problem> {
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
