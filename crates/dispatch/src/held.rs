//! What a worker does with work it holds, beside renewing and ending it.

use crate::execution::{cancelled, submitted};
use crate::rejection::problem;
use crate::steer::answered;
use crate::submit;
use crate::work::{
    cancelling, child, delayed, delaying, fenced, held, settled, settling, split, typed, waited, waiting,
};
use crate::{Acting, Answer, execution_id, no_batch_id, request_id, sent, text, view};
use weft_api::execution as x;
use weft_api::operation::NoQuery;
use weft_api::work as wire;
use weft_api::{Args, Batch, Problem, Reply};
use weft_core::error::Rejection;
use weft_engine::{Progressing, Tagging};

type Plain<B> = Args<[String; 0], NoQuery, B>;

impl Acting<'_> {
    pub async fn settle(&self, args: Plain<Batch<wire::Settle>>) -> Result<Answer, Problem> {
        no_batch_id(&args)?;
        let items = sent(args.body.items, args.unreadable)?;
        let client = self.client()?;
        let (good, refused) = split(items.map(|item| settling(item?)));
        let answers = client.settle_batch(good).await.into_iter();
        Ok(Reply::Settle(self.join(refused, answers.map(|answer| answer.map(settled)))).into())
    }

    pub async fn progress(&self, args: Plain<wire::ProgressItem>) -> Result<Answer, Problem> {
        let request_id = request_id(&args, args.body.request_id.as_ref())?;
        let body = args.body;
        let (id, client) = self.one(&body.execution).await?;
        let progress = Progressing {
            id,
            fence: fenced(body.lease.as_deref(), body.epoch)?,
            request_id,
            percent: body.percent,
            message: body.message.map(text),
            checkpoint: body.checkpoint.map(typed),
            renew_ms: body.renew_ms,
        };
        answered(client.progress(progress).await, |expires_in_ms| Reply::Progress(wire::Progressed { expires_in_ms }))
    }

    pub async fn delay(&self, args: Plain<wire::DelayItem>) -> Result<Answer, Problem> {
        let request_id = request_id(&args, args.body.request_id.as_ref())?;
        let (_, client) = self.one(&args.body.execution).await?;
        let mut item = delaying(args.body)?;
        item.request_id = request_id;
        answered(client.delay(item).await, |until| Reply::Delay(delayed(until, false)))
    }

    pub async fn wait_children(&self, args: Plain<wire::WaitChildrenItem>) -> Result<Answer, Problem> {
        let request_id = request_id(&args, args.body.request_id.as_ref())?;
        let (_, client) = self.one(&args.body.execution).await?;
        let mut item = waiting(args.body)?;
        item.request_id = request_id;
        answered(client.wait_children(item).await, |children| Reply::WaitChildren(waited(children, false)))
    }

    pub async fn cancel_held(&self, args: Plain<wire::CancelHeldItem>) -> Result<Answer, Problem> {
        let request_id = request_id(&args, args.body.request_id.as_ref())?;
        let (_, client) = self.one(&args.body.execution).await?;
        let mut item = cancelling(args.body)?;
        item.request_id = request_id;
        answered(client.cancel(item).await, |cancel| Reply::CancelHeld(cancelled(cancel)))
    }

    pub async fn tag_held(&self, args: Plain<wire::TagItem>) -> Result<Answer, Problem> {
        let request_id = request_id(&args, args.body.request_id.as_ref())?;
        let body = args.body;
        let (id, client) = self.one(&body.execution).await?;
        let fence = fenced(body.lease.as_deref(), body.epoch)?.ok_or_else(|| problem(Rejection::FenceRequired))?;
        let tagging = Tagging {
            fence: Some(fence),
            set: body.set.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
            remove: body.remove.into_iter().map(text).collect(),
            request_id,
            ..Tagging::new(id)
        };
        answered(client.set_tags(tagging).await, |tags| Reply::TagHeld(x::Tags { tags: view::tags(&tags) }))
    }

    pub async fn read_children(&self, args: Plain<wire::ReadChildren>) -> Result<Answer, Problem> {
        let body = args.body;
        let (id, client) = self.one(&body.execution).await?;
        let fence = fenced(body.lease.as_deref(), body.epoch)?.ok_or_else(|| problem(Rejection::FenceRequired))?;
        let ids = body.children.iter().map(|id| execution_id(id)).collect::<Result<Vec<_>, _>>()?;
        let children = client.held_children(id, fence, &ids).await.map_err(problem)?;
        Ok(Reply::ReadChildren(wire::ChildrenRead { children: children.iter().map(child).collect() }).into())
    }

    pub async fn spawn_children(&self, args: Plain<wire::SpawnChildren>) -> Result<Answer, Problem> {
        no_batch_id(&args)?;
        let body = args.body;
        let items = sent(body.items, args.unreadable)?;
        let (_, client) = self.one(&body.execution).await?;
        let (id, fence) = held(&body.execution, body.lease.as_deref(), body.epoch)?;
        let fence = fence.ok_or_else(|| problem(Rejection::FenceRequired))?;
        let (defaults, trace) = (self.engine.policy(), self.around.trace.as_deref());
        let items = items.map(|item| {
            let mut submission = submit::child(item?, defaults, trace)?;
            submission.parent = Some((id, fence));
            Ok(submission)
        });
        let (good, refused) = split(items);
        let answers = client.submit_batch(good).await.into_iter();
        Ok(Reply::SpawnChildren(self.join(refused, answers.map(|answer| answer.map(|it| submitted(it.value))))).into())
    }
}
