//! Declaring the outcome of a flow whose policy leaves that to its members or clients.

use super::callers;
use super::decide::{self, Verdict};
use crate::command::{FinishFlow, Principal};
use crate::error::Rejection;
use crate::limits::REASON_MAX;
use crate::record::flow::{Cause, CompletionPolicy, FlowOutcome, State};
use crate::reply::Reply;
use crate::text::check_text;
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &FinishFlow) -> Result<(), Rejection> {
    if cmd.outcome == FlowOutcome::Cancelled {
        return Err(Rejection::invalid("outcome", "is `completed` or `failed`; cancel the flow to have it cancelled"));
    }
    check_text("reason", &cmd.reason, REASON_MAX)
}

pub fn finish_flow(tx: &mut Tx<'_>, who: &Principal, cmd: &FinishFlow) -> Result<Reply, Stop> {
    let flow = callers(tx, who, cmd.flow, &cmd.within)?;
    let CompletionPolicy::Declared { remaining } = flow.definition.completion else {
        return Err(Rejection::invalid(
            "completion_policy",
            "of this flow decides by itself; only `declared` waits for a word",
        )
        .into());
    };
    match &flow.hot.state {
        State::Open => {}
        State::Ending(ending) => return Ok(Reply::FlowFinished { outcome: ending.outcome, done: false }),
        State::Done { outcome, cause, .. } => {
            return Err(Rejection::FlowTerminal { outcome: *outcome, cause: cause.name() }.into());
        }
    }
    let verdict = Verdict {
        outcome: cmd.outcome,
        cause: Cause::Declared { reason: cmd.reason.clone() },
        remaining,
        by: who.name.clone(),
    };
    let done = flow.summary.live() == 0;
    let flow = decide::end(tx, flow, verdict);
    tx.put_flow(flow);
    Ok(Reply::FlowFinished { outcome: cmd.outcome, done })
}
