//! What a running member asks of its own flow, under the fence of its lease. Which flow that is follows from the member.

use super::{grown, nearest, request, some, view};
use crate::rejection::problem;
use crate::steer::{answered, expected};
use crate::work::fenced;
use crate::{Acting, Answer, request_id, text};
use bytes::Bytes;
use weft_api::flow as wire;
use weft_api::operation::{NoQuery, Raw};
use weft_api::{Args, Code, Problem, Reply};
use weft_core::command::{Fence, Payload, Within};
use weft_core::error::Rejection;
use weft_core::flow::member_id;
use weft_core::record::execution::Outcome;
use weft_core::{ExecutionId, FlowId};
use weft_engine::Client;
use weft_engine::flow::{Declaring, Growing, Sealing};

type Plain<B> = Args<[String; 0], NoQuery, B>;

/// The flow of a running member.
struct Own {
    client: Client,
    flow: FlowId,
    within: Within,
    request_id: Option<Bytes>,
}

/// What every call of a member names: its execution, its fence, and by what a repeat is known.
struct Named<'a> {
    execution: &'a str,
    lease: Option<&'a str>,
    epoch: Option<u64>,
    request_id: Option<&'a String>,
}

impl Acting<'_> {
    async fn own<B>(&self, args: &Plain<B>, named: Named<'_>) -> Result<Own, Problem> {
        let request_id = request_id(args, named.request_id)?;
        let expected = expected(args.if_match.as_deref())?;
        let (id, client) = self.one(named.execution).await?;
        let fence = fenced(named.lease, named.epoch)?.ok_or_else(|| problem(Rejection::FenceRequired))?;
        let execution = client.get(id).await.map_err(problem)?.execution;
        let Some(flow) = execution.member().map(|member| member.flow) else {
            return Err(Problem {
                detail: "the execution is no member of a flow".into(),
                ..problem(Rejection::FlowNotFound)
            });
        };
        Ok(Own { client: client.expecting(expected), flow, within: Some((id, fence)), request_id })
    }

    pub async fn add_own_members(&self, args: Plain<wire::AddOwnMembers>) -> Result<Answer, Problem> {
        let body = &args.body;
        let (lease, request_id) = (body.lease.as_deref(), body.request_id.as_ref());
        let named = Named { execution: &body.execution, lease, epoch: body.epoch, request_id };
        let it = self.own(&args, named).await?;
        let body = args.body;
        let growing = Growing {
            members: request::members(body.members, self.engine.policy(), self.around.trace.as_deref())?,
            edges: request::edges(body.edges)?,
            seal: body.seal.unwrap_or(true),
            expected_revision: body.expected_revision,
            within: it.within,
            request_id: it.request_id,
            ..Growing::new(it.flow)
        };
        some("members", growing.members.len())?;
        let keys = growing.members.iter().map(|member| member.key.to_string()).collect();
        let answer = answered(it.client.grow_flow(growing).await, |it| Reply::AddOwnMembers(grown(it)));
        nearest::of_flow(&it.client, it.flow, keys, answer).await
    }

    pub async fn add_own_edges(&self, args: Plain<wire::AddOwnEdges>) -> Result<Answer, Problem> {
        let body = &args.body;
        let (lease, request_id) = (body.lease.as_deref(), body.request_id.as_ref());
        let named = Named { execution: &body.execution, lease, epoch: body.epoch, request_id };
        let it = self.own(&args, named).await?;
        let growing = Growing {
            edges: request::edges(args.body.edges)?,
            expected_revision: args.body.expected_revision,
            within: it.within,
            request_id: it.request_id,
            ..Growing::new(it.flow)
        };
        some("edges", growing.edges.len())?;
        let answer = answered(it.client.grow_flow(growing).await, |it| Reply::AddOwnEdges(grown(it)));
        nearest::of_flow(&it.client, it.flow, Vec::new(), answer).await
    }

    pub async fn seal_own_members(&self, args: Plain<wire::SealOwnMembers>) -> Result<Answer, Problem> {
        let body = &args.body;
        let (lease, request_id) = (body.lease.as_deref(), body.request_id.as_ref());
        let named = Named { execution: &body.execution, lease, epoch: body.epoch, request_id };
        let it = self.own(&args, named).await?;
        let keys = Some(args.body.keys.into_iter().map(text).collect());
        let sealing = Sealing { keys, within: it.within, request_id: it.request_id, ..Sealing::new(it.flow) };
        answered(it.client.seal_flow(sealing).await, |already| Reply::SealOwnMembers(wire::Sealed { already }))
    }

    pub async fn finish_own_flow(&self, args: Plain<wire::FinishOwnFlow>) -> Result<Answer, Problem> {
        let body = &args.body;
        let (lease, request_id) = (body.lease.as_deref(), body.request_id.as_ref());
        let named = Named { execution: &body.execution, lease, epoch: body.epoch, request_id };
        let it = self.own(&args, named).await?;
        let declaring = Declaring {
            flow: it.flow,
            outcome: request::outcome(args.body.outcome),
            reason: text(args.body.reason),
            within: it.within,
            request_id: it.request_id,
        };
        answered(it.client.finish_flow(declaring).await, |(outcome, done)| {
            Reply::FinishOwnFlow(wire::Finished { outcome: view::outcome(outcome), done })
        })
    }

    /// The bytes that one upstream handed over, as they are. An upstream that ended without a result has none.
    pub async fn read_input(&self, args: Plain<wire::ReadInput>) -> Result<Answer, Problem> {
        let body = args.body;
        let (id, client) = self.one(&body.execution).await?;
        let fence = fenced(body.lease.as_deref(), body.epoch)?.ok_or_else(|| problem(Rejection::FenceRequired))?;
        let from = match &body.upstream {
            None => None,
            Some(key) => {
                let execution = client.get(id).await.map_err(problem)?.execution;
                execution.member().map(|member| member_id(member.flow, key))
            }
        };
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = client.held_input(id, fence, &body.name, after).await.map_err(problem)?;
            let meant = page.values.into_iter().filter(|(upstream, ..)| from.is_none_or(|from| from == *upstream));
            found.extend(meant.map(|(.., value)| value));
            after = page.next;
            if after.is_none() || found.len() > 1 {
                break;
            }
        }
        if found.len() > 1 && from.is_none() {
            let why = format!("is missing: several members hand over under `{}`", body.name);
            return Err(Problem::invalid("upstream", why).hint("`upstream` of each input of the claim says which"));
        }
        let Some(value) = found.into_iter().next() else {
            let why = format!("no input `{}` has been handed over to it", body.name);
            return Err(Problem::new(Code::NotFound, why).field("what", "input"));
        };
        let value = value.map(|value| crate::view::payload(&value.bytes, value.content_type.as_ref()));
        Ok(Reply::ReadInput(Raw(value)).into())
    }

    pub async fn read_inputs(&self, args: Plain<wire::ReadInputs>) -> Result<Answer, Problem> {
        let body = args.body;
        let (id, client) = self.one(&body.execution).await?;
        let fence: Fence =
            fenced(body.lease.as_deref(), body.epoch)?.ok_or_else(|| problem(Rejection::FenceRequired))?;
        let page = client.held_input(id, fence, &body.name, body.after).await.map_err(problem)?;
        let item = |(execution, outcome, value): &(ExecutionId, Outcome, Option<Payload>)| wire::InputRead {
            execution: execution.to_string(),
            outcome: crate::view::outcome(*outcome),
            value: value.as_ref().map(|value| crate::view::payload(&value.bytes, value.content_type.as_ref())),
        };
        Ok(Reply::ReadInputs(wire::Inputs { items: page.values.iter().map(item).collect(), next: page.next }).into())
    }
}
