//! Replaying what went wrong in a flow: every member that counts against it, in one bulk job.

use super::One;
use crate::bulk;
use crate::once::{Repeat, once};
use crate::rejection::problem;
use crate::steer::{deadline, expected, steps};
use crate::{Acting, Answer, text};
use bytes::Bytes;
use weft_api::flow as wire;
use weft_api::operation::Operation;
use weft_api::{Problem, Reply, op};
use weft_core::digest::digest;
use weft_core::error::Rejection;
use weft_core::filter::Filter;
use weft_core::record::flow::{Flow, FlowOutcome, State};
use weft_engine::BulkRequest;

impl Acting<'_> {
    pub async fn replay_flow(&self, args: One<wire::ReplayFlow>) -> Result<Answer, Problem> {
        let repeat = Repeat::of(op::ReplayFlow::SPEC, &args, args.body.request_id.as_ref())?;
        // The job has an id that follows from that of the call: a call that died before its answer was kept finds its job.
        let request_id = repeat.as_ref().map(|repeat| digest(&[b"replay of flow", &repeat.id()]));
        let request_id = request_id.map(|id| Bytes::copy_from_slice(&id));
        let expected = expected(args.if_match.as_deref())?;
        let (id, client) = self.one_flow(&args.path[0]).await?;
        let body = args.body;
        let deadline = deadline(body.deadline_in_ms, body.deadline_at, body.no_deadline)?;
        let steps = steps(body.steps);
        let verb = bulk::replay(text(body.reason), deadline, body.delay_ms, body.priority, steps, body.downstream);
        once(&client, repeat, async {
            let view = client.flow(id).await.map_err(problem)?;
            if expected.is_some_and(|expected| expected != view.revision) {
                return Err(problem(Rejection::RevisionMismatch { current: Some(view.revision) }));
            }
            refuse_closed(&view.flow)?;
            let filter = Filter { flow: Some(id), against: Some(true), ..Filter::default() };
            let request = BulkRequest { request_id, ..BulkRequest::new(filter, verb) };
            let job = client.start_bulk_and_wait(request, body.wait_ms.unwrap_or(0)).await.map_err(problem)?;
            Ok(Reply::ReplayFlow(bulk::job(job)))
        })
        .await
    }
}

/// No replay escapes a cancel. Told once here rather than once per member.
fn refuse_closed(flow: &Flow) -> Result<(), Problem> {
    match &flow.hot.state {
        State::Open | State::Done { outcome: FlowOutcome::Completed | FlowOutcome::Failed, .. } => Ok(()),
        State::Ending(_) | State::Done { .. } => {
            Err(problem(Rejection::FlowClosed { why: flow.public_state().name() }))
        }
    }
}
