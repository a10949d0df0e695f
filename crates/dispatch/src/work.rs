//! What workers ask.

use crate::execution::cancelled;
use crate::notice::notices;
use crate::rejection::problem;
use crate::submit::when;
use crate::{Acting, Answer, Caller, Dispatch, execution_id, no_batch_id, request_id, sent, text, view};
use bytes::Bytes;
use tokio::sync::Notify;
use weft_api::operation::{NoQuery, Scope};
use weft_api::work as wire;
use weft_api::{Args, Batch, Item, Payload, Problem, Reply, Results};
use weft_core::command::{self, ChildrenRule, Fence, RetryWish, Step};
use weft_core::error::Rejection;
use weft_core::record::execution::AfterFailure;
use weft_core::reply::{ChildOutcome, Children, Claimed, Input, InputValue, Renewed};
use weft_core::text::Text;
use weft_core::{ExecutionId, Time};
use weft_engine::client::Completed;
use weft_engine::{
    Answered, Cancellation, Claim, Client, Completion, Delaying, Failing, LaneMode, LaneWish, Renewal, Settle, Settled,
    Waiting,
};

type Plain<B> = Args<[String; 0], NoQuery, B>;

impl Acting<'_> {
    /// Claims; the wait ends early when `left` is told.
    pub async fn claim(&self, args: Plain<wire::Claim>, left: &Notify) -> Result<Answer, Problem> {
        let request_id = request_id(&args, args.body.request_id.as_ref())?;
        let client = self.client()?;
        let mut body = args.body;
        self.check_single(&client, &mut body).await?;
        let mut claim = Claim::new(body.worker, body.instance);
        claim.session = body.session;
        claim.lanes = body.lanes.map(|lanes| lanes.into_iter().map(lane_wish).collect());
        claim.lane_mode = match body.lane_mode {
            Some(wire::LaneMode::Strict) => LaneMode::Strict,
            Some(wire::LaneMode::Weighted) | None => LaneMode::Weighted,
        };
        claim.kinds = body.kinds.map(|kinds| kinds.into_iter().map(Text::from).collect());
        claim.capabilities = body.capabilities.map(|tokens| tokens.into_iter().map(Text::from).collect());
        claim.max = body.max.map_or(claim.max, |max| max as usize);
        claim.wait_ms = body.wait_ms.unwrap_or(claim.wait_ms);
        claim.lease_ms = body.lease_ms.unwrap_or_else(|| self.engine.lease_ms());
        claim.max_bytes = body.max_bytes.map_or(claim.max_bytes, |max| max as usize);
        claim.execution = body.execution.as_deref().map(execution_id).transpose()?;
        claim.request_id = request_id;
        let came_at = self.engine.now();
        let single = claim.execution.map(|_| claim.clone());
        let reply = match (client.claim_until(claim, left).await, single) {
            (Err(Rejection::NotClaimable { public_state }), Some(claim)) => {
                let refused = problem(Rejection::NotClaimable { public_state });
                // Why not is what the same check says; an execution that is gone meanwhile has no reasons.
                let reasons = client.explain_claim(&claim).await.unwrap_or_default();
                let codes: Vec<&str> = reasons.iter().map(|reason| reason.code()).collect();
                return Err(refused.field("reasons", codes));
            }
            (reply, _) => reply.map_err(problem)?,
        };
        let waited_ms = reply.executions.iter().map(|claimed| claimed.at.since(came_at)).min().unwrap_or(0);
        let claimed = wire::Claimed {
            executions: reply.executions.into_iter().map(task).collect(),
            notices: notices(reply.told.notices, self.engine.now()),
            missed: reply.told.missed,
            more: reply.more,
            draining: reply.draining,
            waited_ms,
        };
        Ok(Answer { replayed: reply.repeated, ..Reply::Claim(claimed).into() })
    }

    /// A claim of one execution by its id takes no options that are about choosing one.
    async fn check_single(&self, client: &Client, body: &mut wire::Claim) -> Result<(), Problem> {
        let Some(id) = &body.execution else {
            return match body.ignore_capabilities {
                true => Err(Problem::invalid("ignore_capabilities", "is for a claim of one `execution`")),
                false => Ok(()),
            };
        };
        let given = [
            ("lanes", body.lanes.is_some()),
            ("lane_mode", body.lane_mode.is_some()),
            ("max", body.max.is_some_and(|max| max != 1)),
            ("wait_ms", body.wait_ms.is_some_and(|ms| ms > 0)),
            ("max_bytes", body.max_bytes.is_some()),
            ("capabilities", body.ignore_capabilities && body.capabilities.is_some()),
        ];
        if let Some((field, _)) = given.into_iter().find(|(_, given)| *given) {
            return Err(Problem::invalid(field, "has no effect on a claim of one `execution`; leave it out"));
        }
        if body.ignore_capabilities {
            self.caller.needs(Scope::Operate)?;
            let view = client.get(execution_id(id)?).await.map_err(problem)?;
            body.capabilities = Some(view.execution.spec.capabilities.tokens().map(str::to_string).collect());
        }
        Ok(())
    }

    pub async fn renew(&self, args: Plain<Batch<wire::RenewItem>>) -> Result<Answer, Problem> {
        no_batch_id(&args)?;
        let items = sent(args.body.items, args.unreadable)?;
        let client = self.client()?;
        let (good, refused) = split(items.map(|item| renewal(item?)));
        let (answers, told) = client.renew_told(good).await;
        let answers = answers.into_iter().map(|answer| answer.map(|it| renewed(it.value)));
        let Results { results } = self.join(refused, answers);
        let notices = notices(told.notices, self.engine.now());
        Ok(Reply::Renew(wire::RenewReply { results, notices, missed: told.missed }).into())
    }

    pub async fn complete(&self, args: Plain<Batch<wire::CompleteItem>>) -> Result<Answer, Problem> {
        no_batch_id(&args)?;
        let items = sent(args.body.items, args.unreadable)?;
        let client = self.client()?;
        let (good, refused) = split(items.map(|item| completion(item?)));
        let answers = client.complete_batch(good).await.into_iter();
        let answers = answers.map(|answer| answer.map(|it| completed(it.value, it.repeated)));
        Ok(Reply::Complete(self.join(refused, answers)).into())
    }

    pub async fn fail(&self, args: Plain<Batch<wire::FailItem>>) -> Result<Answer, Problem> {
        no_batch_id(&args)?;
        let items = sent(args.body.items, args.unreadable)?;
        let client = self.client()?;
        let (good, refused) = split(items.map(|item| failing(item?)));
        let answers = client.fail_batch(good).await.into_iter();
        Ok(Reply::Fail(self.join(refused, answers.map(|answer| answer.map(|it| failed(it.value, it.repeated))))).into())
    }
}

impl Dispatch {
    /// Hands work back that was claimed for a caller who went away: others get it at once, as if nothing had happened.
    pub async fn give_back(&self, caller: &Caller, claimed: wire::Claimed) {
        for task in claimed.executions {
            let (Ok(id), Ok(lease)) = (task.execution.parse(), task.lease.id.parse()) else { continue };
            let client = self.engine.client_as(caller.principal(task.namespace.into()));
            let item = Delaying::new(id, Fence { lease, epoch: task.lease.epoch });
            if let Err(rejection) = client.delay(item).await {
                // Its lease runs out by itself.
                tracing::debug!(%rejection, execution = %id, "could not hand work back that nobody waits for");
            }
        }
    }
}

fn lane_wish(wish: wire::LaneWish) -> LaneWish {
    LaneWish { lane: wish.lane.into(), weight: wish.weight.unwrap_or(1) }
}

/// The execution that a fenced item names, with its fence if both parts are given.
pub fn held(id: &str, lease: Option<&str>, epoch: Option<u64>) -> Result<(ExecutionId, Option<Fence>), Problem> {
    Ok((execution_id(id)?, fenced(lease, epoch)?))
}

/// The fence, if both parts of it are given.
pub fn fenced(lease: Option<&str>, epoch: Option<u64>) -> Result<Option<Fence>, Problem> {
    let (Some(lease), Some(epoch)) = (lease, epoch) else { return Ok(None) };
    let lease = lease.parse().map_err(|_| problem(Rejection::InvalidId { expected: "l" }).field("got", lease))?;
    Ok(Some(Fence { lease, epoch }))
}

/// Bytes and content type, as the engine keeps them.
pub fn parts(payload: Option<Payload>) -> (Option<Bytes>, Option<Text>) {
    match payload {
        Some(payload) => (Some(payload.bytes), payload.content_type.map(Text::from)),
        None => (None, None),
    }
}

/// A payload as the engine keeps it.
pub fn typed(payload: Payload) -> command::Payload {
    command::Payload { bytes: payload.bytes, content_type: payload.content_type.map(Text::from) }
}

pub fn steps(steps: Vec<wire::NewStep>) -> Vec<Step> {
    let step = |step: wire::NewStep| Step {
        name: step.name.into(),
        bytes: step.value.bytes,
        content_type: step.value.content_type.map(Text::from),
    };
    steps.into_iter().map(step).collect()
}

fn own_id(request_id: Option<String>) -> Option<Bytes> {
    request_id.map(Bytes::from)
}

fn renewal(item: wire::RenewItem) -> Result<Renewal, Problem> {
    let (id, fence) = held(&item.execution, item.lease.as_deref(), item.epoch)?;
    let progress = item.progress.unwrap_or_default();
    Ok(Renewal {
        id,
        fence,
        request_id: None,
        lease_ms: item.lease_ms,
        percent: progress.percent,
        message: progress.message.map(text),
        checkpoint: item.checkpoint.map(typed),
        steps: steps(item.steps),
    })
}

pub fn completion(item: wire::CompleteItem) -> Result<Completion, Problem> {
    let (id, fence) = held(&item.execution, item.lease.as_deref(), item.epoch)?;
    let (result, content_type) = parts(item.result);
    Ok(Completion { id, fence, request_id: own_id(item.request_id), result, content_type, steps: steps(item.steps) })
}

pub fn failing(item: wire::FailItem) -> Result<Failing, Problem> {
    let (id, fence) = held(&item.execution, item.lease.as_deref(), item.epoch)?;
    Ok(Failing {
        id,
        fence,
        request_id: own_id(item.request_id),
        category: item.category.map_or_else(|| "application".into(), Text::from),
        message: item.message.into(),
        detail: item.detail.map(typed),
        retry: match item.retry {
            None | Some(wire::RetryWish::Policy) => RetryWish::Policy,
            Some(wire::RetryWish::Never) => RetryWish::Never,
            Some(wire::RetryWish::AfterMs(ms)) => RetryWish::AfterMs(ms),
        },
        steps: steps(item.steps),
    })
}

pub fn delaying(item: wire::DelayItem) -> Result<Delaying, Problem> {
    let (id, fence) = held(&item.execution, item.lease.as_deref(), item.epoch)?;
    let until = when("delay_ms", item.delay_ms, "until_at", item.until_at)?;
    Ok(Delaying {
        id,
        fence,
        request_id: own_id(item.request_id),
        until: until.ok_or_else(|| Problem::invalid("delay_ms", "is missing; give it, or `until_at`"))?,
        checkpoint: item.checkpoint.map(typed),
        steps: steps(item.steps),
    })
}

pub fn waiting(item: wire::WaitChildrenItem) -> Result<Waiting, Problem> {
    let (id, fence) = held(&item.execution, item.lease.as_deref(), item.epoch)?;
    let children = item.children.map(|ids| ids.iter().map(|id| execution_id(id)).collect());
    Ok(Waiting {
        id,
        fence,
        request_id: own_id(item.request_id),
        children: children.transpose()?,
        rule: match item.rule {
            None | Some(wire::ChildrenRule::AllOf {}) => ChildrenRule::AllOf,
            Some(wire::ChildrenRule::AnyOf {}) => ChildrenRule::AnyOf,
            Some(wire::ChildrenRule::Quorum { k }) => ChildrenRule::Quorum(k),
        },
        timeout_ms: item.timeout_ms,
        checkpoint: item.checkpoint.map(typed),
    })
}

/// A cancel by the holder: without its fence it is one by nobody.
pub fn cancelling(item: wire::CancelHeldItem) -> Result<Cancellation, Problem> {
    let (id, fence) = held(&item.execution, item.lease.as_deref(), item.epoch)?;
    let fence = Some(fence.ok_or_else(|| problem(Rejection::FenceRequired))?);
    Ok(Cancellation { fence, request_id: own_id(item.request_id), ..Cancellation::new(id, item.reason) })
}

pub fn settling(item: wire::Settle) -> Result<Settle, Problem> {
    let verb = item.verb().map_err(|field| Problem::invalid(field, "does not belong to this verb"))?;
    Ok(match verb {
        wire::Settling::Complete(item) => Settle::Complete(completion(item)?),
        wire::Settling::Fail(item) => Settle::Fail(failing(item)?),
        wire::Settling::Delay(item) => Settle::Delay(delaying(item)?),
        wire::Settling::WaitChildren(item) => Settle::WaitChildren(waiting(item)?),
        wire::Settling::Cancel(item) => Settle::Cancel(cancelling(item)?),
    })
}

pub fn settled(answer: Answered<Settled>) -> wire::Settled {
    match answer.value {
        Settled::Completed(done) => wire::Settled::Complete(completed(done, answer.repeated)),
        Settled::Failed(after) => wire::Settled::Fail(failed(after, answer.repeated)),
        Settled::Delayed(until) => wire::Settled::Delay(delayed(until, answer.repeated)),
        Settled::Children(children) => wire::Settled::WaitChildren(waited(children, answer.repeated)),
        Settled::Cancelled(cancel) => wire::Settled::Cancel(cancelled(cancel)),
    }
}

fn completed(done: Completed, repeated: bool) -> wire::Completed {
    wire::Completed {
        outcome: view::outcome(done.outcome),
        attempt: done.attempt,
        cancel_was_requested: done.cancel_was_requested,
        repeated,
    }
}

pub fn delayed(until: Time, repeated: bool) -> wire::Delayed {
    wire::Delayed { until_at: until.ms(), repeated }
}

pub fn waited(children: Children, repeated: bool) -> wire::WaitingChildren {
    match children {
        Children::Decided { verdict } => wire::WaitingChildren::Decided { verdict: verdict.name().to_string() },
        Children::Waiting { waiting, .. } => wire::WaitingChildren::Waiting { waiting, repeated },
    }
}

fn failed(after: AfterFailure, repeated: bool) -> wire::Failed {
    match after {
        AfterFailure::Retry { retry_at, retries_left } => {
            wire::Failed::Retry { retry_at: retry_at.ms(), retries_left, repeated }
        }
        AfterFailure::Ended { outcome, reason } => {
            wire::Failed::Ended { outcome: view::outcome(outcome), reason: reason.name().to_string(), repeated }
        }
    }
}

fn renewed(renewed: Renewed) -> wire::Renewed {
    wire::Renewed {
        expires_in_ms: renewed.expires_in_ms,
        timeout_left_ms: renewed.timeout_left_ms,
        cancel: renewed
            .cancel
            .map(|cancel| wire::CancelNotice { reason: cancel.reason.to_string(), kill_in_ms: cancel.kill_in_ms }),
        steps: renewed.steps.iter().map(view::recorded).collect(),
    }
}

pub fn child(child: &ChildOutcome) -> wire::ChildOutcome {
    let payload = |result: &command::Payload| view::payload(&result.bytes, result.content_type.as_ref());
    wire::ChildOutcome {
        execution: child.id.to_string(),
        outcome: child.outcome.map(view::outcome),
        result: child.result.as_ref().map(payload),
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
            generation: work.generation,
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
            children: children.children.iter().map(child).collect(),
        }),
        steps: wire::Steps { items: work.steps.iter().map(view::step).collect(), more: work.steps_more },
        flow: work.flow.map(|(id, key)| wire::TaskFlow { id: id.to_string(), key: key.to_string() }),
        inputs: work.inputs.iter().map(input).collect(),
        inputs_missing: work.inputs_missing.iter().map(|name| name.to_string()).collect(),
    }
}

fn input(input: &Input) -> wire::TaskInput {
    let (value, handle, purged) = match &input.value {
        InputValue::None => (None, None, false),
        InputValue::Inline(value) => (Some(view::payload(&value.bytes, value.content_type.as_ref())), None, false),
        InputValue::Handle { bytes } => (None, Some(wire::InputHandle { bytes: *bytes }), false),
        InputValue::Purged => (None, None, true),
    };
    wire::TaskInput {
        name: input.name.to_string(),
        upstream: input.upstream.to_string(),
        execution: input.id.to_string(),
        outcome: view::outcome(input.outcome),
        value,
        handle,
        purged,
        failure: input.failure.as_ref().map(|(category, message)| wire::InputFailure {
            category: category.to_string(),
            message: message.to_string(),
        }),
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

impl Acting<'_> {
    /// Puts the engine's answers between the refusals, in the order of the batch. Every problem names the request.
    pub fn join<T>(
        &self,
        refused: Vec<Option<Problem>>,
        mut answers: impl Iterator<Item = Result<T, Rejection>>,
    ) -> Results<T> {
        let request = self.caller.origin.as_ref().map(|origin| origin.request.to_string());
        let named = |problem: Problem| Problem { request_id: request.clone().filter(|id| !id.is_empty()), ..problem };
        let unanswered = || Err(Rejection::internal("an item was not answered"));
        let results = refused.into_iter().map(|refused| match refused {
            Some(problem) => Err(problem),
            None => answers.next().unwrap_or_else(unanswered).map_err(problem),
        });
        Results { results: results.map(|result| Item::of(result.map_err(named))).collect() }
    }
}
