//! Recorded steps: read by anybody who may see the execution, recorded and read by the worker that holds it.

use crate::cursor::Bound;
use crate::once::{Repeat, once};
use crate::read::limit;
use crate::rejection::problem;
use crate::work::{fenced, steps};
use crate::{Acting, Answer, view};
use weft_api::operation::{NoBody, NoQuery, Operation};
use weft_api::page::PageQuery;
use weft_api::work as wire;
use weft_api::{Args, Page, Problem, Reply, op};
use weft_core::error::Rejection;
use weft_core::limits::{LIST_LIMIT_MAX, STEPS_PER_CALL_MAX};
use weft_core::text::check_range;
use weft_engine::Recording;

type Plain<B> = Args<[String; 0], NoQuery, B>;

impl Acting<'_> {
    pub async fn steps(&self, args: Args<[String; 1], PageQuery, NoBody>) -> Result<Answer, Problem> {
        let (id, client) = self.one(&args.path[0]).await?;
        let bound = Bound::new("list_steps", &args.path[0], &());
        let limit = limit(args.query.limit)?;
        let after = match &args.query.cursor {
            Some(cursor) => Some(bound.open(cursor)?.parse().map_err(|_| problem(Rejection::InvalidCursor))?),
            None => None,
        };
        let page = client.steps(id, after, limit).await.map_err(problem)?;
        let last = page.steps.last().filter(|_| page.more);
        let next_cursor = last.map(|step| bound.seal(&step.number.to_string()));
        let items = page.steps.iter().map(view::step).collect();
        Ok(Reply::ListSteps(Page { items, next_cursor }).into())
    }

    pub async fn step(&self, args: Args<[String; 2], NoQuery, NoBody>) -> Result<Answer, Problem> {
        let (id, client) = self.one(&args.path[0]).await?;
        let (step, revision) = client.step(id, &args.path[1]).await.map_err(problem)?;
        Ok(Answer { revision: Some(revision.to_string()), ..Reply::GetStep(view::step(&step)).into() })
    }

    /// A repeat needs no request id: the first of a name stays, and is answered. With one it is told that it is a repeat.
    pub async fn record_steps(&self, args: Plain<wire::RecordSteps>) -> Result<Answer, Problem> {
        let repeat = Repeat::of(op::RecordSteps::SPEC, &args, args.body.request_id.as_ref())?;
        let body = args.body;
        check_range("steps", body.steps.len() as u64, 1, STEPS_PER_CALL_MAX as u64).map_err(problem)?;
        let (id, client) = self.one(&body.execution).await?;
        let fence = fenced(body.lease.as_deref(), body.epoch)?;
        let recording = Recording { id, fence, request_id: None, steps: steps(body.steps) };
        once(&client, repeat, async {
            let recorded = client.record_steps(recording).await.map_err(problem)?;
            let steps = recorded.value.iter().map(view::recorded).collect();
            Ok(Reply::RecordSteps(wire::RecordedSteps { steps }))
        })
        .await
    }

    pub async fn read_steps(&self, args: Plain<wire::ReadSteps>) -> Result<Answer, Problem> {
        let body = args.body;
        let (id, client) = self.one(&body.execution).await?;
        let fence = fenced(body.lease.as_deref(), body.epoch)?.ok_or_else(|| problem(Rejection::FenceRequired))?;
        let limit = limit(Some(body.limit.unwrap_or(LIST_LIMIT_MAX as u32)))?;
        let page = client.held_steps(id, fence, body.after, limit).await.map_err(problem)?;
        let items = page.steps.iter().map(view::step).collect();
        Ok(Reply::ReadSteps(wire::Steps { items, more: page.more }).into())
    }
}
