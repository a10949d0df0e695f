//! Replaying what went wrong in a flow: every member that counts against it, each by the ordinary verb.

use super::One;
use crate::once::{Repeat, once};
use crate::rejection::problem;
use crate::steer::{downstream, expected, steps};
use crate::{Acting, Answer, text};
use weft_api::flow as wire;
use weft_api::operation::Operation;
use weft_api::{Problem, Reply, op};
use weft_core::FlowId;
use weft_core::error::Rejection;
use weft_core::limits::LIST_LIMIT_MAX;
use weft_core::record::flow::{Flow, FlowOutcome, State};
use weft_engine::flow::MemberFilter;
use weft_engine::{Client, Replaying};

/// Members that one call looks at, so that it ends although many are refused.
const MATCHED_MAX: u64 = 10_000;

impl Acting<'_> {
    pub async fn replay_flow(&self, args: One<wire::ReplayFlow>) -> Result<Answer, Problem> {
        let repeat = Repeat::of(op::ReplayFlow::SPEC, &args, args.body.request_id.as_ref())?;
        let expected = expected(args.if_match.as_deref())?;
        let (id, client) = self.one_flow(&args.path[0]).await?;
        let body = args.body;
        once(&client, repeat, async {
            let view = client.flow(id).await.map_err(problem)?;
            if expected.is_some_and(|expected| expected != view.revision) {
                return Err(problem(Rejection::RevisionMismatch { current: Some(view.revision) }));
            }
            refuse_closed(&view.flow)?;
            Ok(Reply::ReplayFlow(replay_all(&client, id, &body).await?))
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

/// Replays as many as one call may. A member that was replayed counts no longer against the flow, so that the next call
/// finds the others.
async fn replay_all(client: &Client, id: FlowId, body: &wire::ReplayFlow) -> Result<wire::FlowReplayed, Problem> {
    let mut told = wire::FlowReplayed::default();
    let mut after = None;
    loop {
        let room = LIST_LIMIT_MAX - told.replayed as usize;
        let filter = MemberFilter { against: Some(true), after, limit: Some(room), ..MemberFilter::default() };
        let page = client.members(id, filter).await.map_err(problem)?;
        for (execution, _) in &page.members {
            let replaying = Replaying {
                delay_ms: body.delay_ms,
                priority: body.priority,
                steps: steps(body.steps),
                downstream: downstream(body.downstream),
                ..Replaying::new(execution.id, text(body.reason.clone()))
            };
            told.matched += 1;
            match client.replay(replaying).await {
                Ok(_) => told.replayed += 1,
                // What is wrong with the call is wrong for all of them.
                Err(wrong @ (Rejection::InvalidArgument { .. } | Rejection::OutOfRange { .. })) => {
                    return Err(problem(wrong));
                }
                Err(refused) => *told.refused.entry(refused.code().to_string()).or_default() += 1,
            }
        }
        after = page.next;
        if after.is_none() || told.replayed as usize >= LIST_LIMIT_MAX || told.matched >= MATCHED_MAX {
            told.more = after.is_some();
            return Ok(told);
        }
    }
}
