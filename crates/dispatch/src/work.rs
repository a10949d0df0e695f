//! What workers ask.

use crate::rejection::problem;
use crate::view;
use crate::{Acting, Answer, check_batch, execution_id, no_batch_id, request_id, text};
use weft_api::operation::NoQuery;
use weft_api::work as wire;
use weft_api::{Args, Batch, Item, Problem, Reply, Results};
use weft_core::ExecutionId;
use weft_core::command::{Fence, RetryWish};
use weft_core::error::Rejection;
use weft_core::reply::{Claimed, Renewed};
use weft_core::text::Text;
use weft_core::Time;
use weft_core::record::execution::AfterFailure;
use weft_engine::{Claim, Completion, Failing, LaneMode, LaneWish, Progressing, Renewal};

type Plain<B> = Args<[String; 0], NoQuery, B>;

impl Acting<'_> {
    pub async fn claim(&self, args: Plain<wire::Claim>) -> Result<Answer, Problem> {
        let request_id = request_id(&args, args.body.request_id.as_ref())?;
        let client = self.client()?;
        let body = args.body;
        let mut claim = Claim::new(body.worker, body.instance);
        claim.lanes = body.lanes.into_iter().map(lane_wish).collect();
        claim.lane_mode = match body.lane_mode {
            Some(wire::LaneMode::Strict) => LaneMode::Strict,
            Some(wire::LaneMode::Weighted) | None => LaneMode::Weighted,
        };
        claim.kinds = body.kinds.map(|kinds| kinds.into_iter().map(Text::from).collect());
        claim.capabilities = body.capabilities.into_iter().map(Text::from).collect();
        claim.max = body.max.map_or(claim.max, |max| max as usize);
        claim.wait_ms = body.wait_ms.unwrap_or(claim.wait_ms);
        claim.lease_ms = body.lease_ms.unwrap_or(claim.lease_ms);
        claim.max_bytes = body.max_bytes.map_or(claim.max_bytes, |max| max as usize);
        claim.execution = body.execution.as_deref().map(execution_id).transpose()?;
        claim.request_id = request_id;
        let reply = client.claim(claim).await.map_err(problem)?;
        let claimed = wire::Claimed {
            executions: reply.executions.into_iter().map(task).collect(),
            notices: Vec::new(),
            more: reply.more,
            draining: reply.draining,
        };
        Ok(Reply::Claim(claimed).into())
    }

    pub async fn renew(&self, args: Plain<Batch<wire::RenewItem>>) -> Result<Answer, Problem> {
        no_batch_id(&args)?;
        check_batch(args.body.items.len())?;
        let client = self.client()?;
        let items = args.body.items.into_iter().map(|item| {
            let (id, fence) = held(&item.execution, item.lease.as_deref(), item.epoch)?;
            Ok(Renewal { id, fence, request_id: None, lease_ms: item.lease_ms })
        });
        let (good, results) = split(items);
        let answers = client.renew_batch(good).await;
        Ok(Reply::Renew(join(results, answers.into_iter().map(|answer| answer.map(renewed)))).into())
    }

    pub async fn complete(&self, args: Plain<Batch<wire::CompleteItem>>) -> Result<Answer, Problem> {
        no_batch_id(&args)?;
        check_batch(args.body.items.len())?;
        let client = self.client()?;
        let (good, results) = split(args.body.items.into_iter().map(completion));
        let answers = client.complete_batch(good).await.into_iter();
        let answers = answers.map(|answer| {
            answer.map(|done| wire::Completed {
                outcome: view::outcome(done.outcome),
                attempt: done.attempt,
                cancel_was_requested: done.cancel_was_requested,
                repeated: done.repeated,
            })
        });
        Ok(Reply::Complete(join(results, answers)).into())
    }

    pub async fn fail(&self, args: Plain<Batch<wire::FailItem>>) -> Result<Answer, Problem> {
        no_batch_id(&args)?;
        check_batch(args.body.items.len())?;
        let client = self.client()?;
        let (good, results) = split(args.body.items.into_iter().map(failing));
        let answers = client.fail_batch(good).await;
        Ok(Reply::Fail(join(results, answers.into_iter().map(|answer| answer.map(failed)))).into())
    }

    pub async fn progress(&self, args: Plain<wire::ProgressItem>) -> Result<Answer, Problem> {
        let request_id = request_id(&args, args.body.request_id.as_ref())?;
        let client = self.client()?;
        let body = args.body;
        let (id, fence) = held(&body.execution, body.lease.as_deref(), body.epoch)?;
        let progress = Progressing {
            id,
            fence,
            request_id,
            percent: body.percent,
            message: body.message.map(text),
            checkpoint: body.checkpoint.map(|checkpoint| checkpoint.bytes),
            renew_ms: body.renew_ms,
        };
        let expires_in_ms = client.progress(progress).await.map_err(problem)?;
        Ok(Reply::Progress(wire::Progressed { expires_in_ms }).into())
    }
}

fn lane_wish(wish: wire::LaneWish) -> LaneWish {
    LaneWish { lane: wish.lane.into(), weight: wish.weight.unwrap_or(1) }
}

/// The execution that a fenced item names, with its fence if both parts are given.
fn held(id: &str, lease: Option<&str>, epoch: Option<u64>) -> Result<(ExecutionId, Option<Fence>), Problem> {
    let id = execution_id(id)?;
    let (Some(lease), Some(epoch)) = (lease, epoch) else { return Ok((id, None)) };
    let lease = lease.parse().map_err(|_| problem(Rejection::InvalidId { expected: "l" }).field("got", lease))?;
    Ok((id, Some(Fence { lease, epoch })))
}

fn completion(item: wire::CompleteItem) -> Result<Completion, Problem> {
    let (id, fence) = held(&item.execution, item.lease.as_deref(), item.epoch)?;
    let (result, content_type) = match item.result {
        Some(payload) => (Some(payload.bytes), payload.content_type.map(Text::from)),
        None => (None, None),
    };
    Ok(Completion { id, fence, request_id: item.request_id.map(bytes::Bytes::from), result, content_type })
}

fn failing(item: wire::FailItem) -> Result<Failing, Problem> {
    let (id, fence) = held(&item.execution, item.lease.as_deref(), item.epoch)?;
    Ok(Failing {
        id,
        fence,
        request_id: item.request_id.map(bytes::Bytes::from),
        category: item.category.map_or_else(|| "application".into(), Text::from),
        message: item.message.into(),
        detail: item.detail.map(|detail| detail.bytes),
        retry: match item.retry {
            None | Some(wire::RetryWish::Policy) => RetryWish::Policy,
            Some(wire::RetryWish::Never) => RetryWish::Never,
            Some(wire::RetryWish::AfterMs(ms)) => RetryWish::AfterMs(ms),
        },
    })
}

fn failed(after: AfterFailure) -> wire::Failed {
    match after {
        AfterFailure::Retry { retry_at, retries_left } => wire::Failed::Retry { retry_at: retry_at.ms(), retries_left },
        AfterFailure::Ended { outcome, reason } => {
            wire::Failed::Ended { outcome: view::outcome(outcome), reason: reason.name().to_string() }
        }
    }
}

fn renewed(renewed: Renewed) -> wire::Renewed {
    wire::Renewed {
        expires_in_ms: renewed.expires_in_ms,
        timeout_left_ms: renewed.timeout_left_ms,
        cancel: renewed.cancel.map(|cancel| wire::CancelNotice {
            reason: cancel.reason.to_string(),
            kill_in_ms: cancel.kill_in_ms,
        }),
    }
}

fn task(work: Claimed) -> wire::Task {
    wire::Task {
        execution: work.id.to_string(),
        namespace: work.namespace.to_string(),
        lane: work.lane.to_string(),
        kind: work.kind.to_string(),
        priority: work.priority,
        tags: view::tags(&work.tags),
        trace: work.trace.map(|trace| trace.to_string()),
        input: work.input.map(|bytes| view::payload(&bytes, work.content_type.as_ref())),
        lease: wire::TaskLease {
            id: work.lease.to_string(),
            epoch: work.epoch,
            expires_in_ms: work.expires_in_ms,
        },
        attempt: wire::TaskAttempt {
            index: work.attempt,
            kind: work.attempt_kind.name().to_string(),
            resumed: work.resumed,
            previous: work.previous_failure.as_ref().map(view::failure),
        },
        timeout_left_ms: work.timeout_left_ms,
        deadline_at: work.deadline_at.map(Time::ms),
        retries_left: work.retries_left,
        checkpoint: work.checkpoint.as_ref().map(view::checkpoint),
        children: work.children.map(|children| wire::ChildrenOutcome {
            verdict: children.verdict.name().to_string(),
            children: children
                .children
                .into_iter()
                .map(|child| wire::ChildOutcome {
                    execution: child.id.to_string(),
                    outcome: child.outcome.map(view::outcome),
                    result: child.result.as_ref().map(view::untyped),
                })
                .collect(),
        }),
        steps: wire::Steps::default(),
    }
}

/// Items that can be asked of the engine, and for each item of the batch whether it is one of them.
pub fn split<T>(items: impl Iterator<Item = Result<T, Problem>>) -> (Vec<T>, Vec<Option<Problem>>) {
    let mut good = Vec::new();
    let mut refused = Vec::new();
    for item in items {
        match item {
            Ok(item) => {
                good.push(item);
                refused.push(None);
            }
            Err(problem) => refused.push(Some(problem)),
        }
    }
    (good, refused)
}

/// Puts the engine's answers between the refusals, in the order of the batch.
pub fn join<T>(refused: Vec<Option<Problem>>, answers: impl Iterator<Item = Result<T, Rejection>>) -> Results<T> {
    let mut answers = answers;
    let unanswered = || Err(Rejection::internal("an item was not answered"));
    let results = refused.into_iter().map(|refused| match refused {
        Some(problem) => Item::of(Err(problem)),
        None => Item::of(answers.next().unwrap_or_else(unanswered).map_err(problem)),
    });
    Results { results: results.collect() }
}
