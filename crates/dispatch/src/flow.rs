//! What clients and operators ask of flows. Reads are in `read`, what running members ask of their own flow in `own`.

mod explain;
mod nearest;
mod own;
mod read;
mod replay;
mod request;
pub mod view;

use crate::execution::same_key;
use crate::rejection::{invalid_id, problem};
use crate::steer::{answered, expected};
use crate::{Acting, Answer, request_id, text};
use bytes::Bytes;
use weft_api::execution as x;
use weft_api::flow as wire;
use weft_api::operation::{NoBody, NoQuery};
use weft_api::{Args, Problem, Reply};
use weft_core::error::Rejection;
use weft_core::flow::member_id;
use weft_core::reply::{FlowGrown, FlowSubmitted};
use weft_core::{CommitId, FlowId};
use weft_engine::Client;
use weft_engine::flow::{Declaring, Ended, FlowCancellation, FlowChange, Growing, Sealing};

type One<B> = Args<[String; 1], NoQuery, B>;

/// Which flow a call is about, and under which conditions it counts.
struct Asked {
    client: Client,
    id: FlowId,
    request_id: Option<Bytes>,
    expected: Option<CommitId>,
}

/// The document says so.
const _: () = assert!(weft_core::limits::FLOW_GROW_MAX == 1_500);

impl Acting<'_> {
    /// The flow that a call names, and a client in its namespace. One that the caller may not see is unknown.
    async fn one_flow(&self, id: &str) -> Result<(FlowId, Client), Problem> {
        let id = flow_id(id)?;
        let namespace = match self.caller.chosen()? {
            Some(namespace) => namespace.clone(),
            None => {
                let found = self.engine.namespace_of_flow(id).await.map_err(problem)?;
                let unknown = || problem(Rejection::FlowNotFound);
                found.filter(|namespace| self.caller.reach.holds(namespace)).ok_or_else(unknown)?
            }
        };
        Ok((id, self.engine.client_as(self.caller.principal(namespace))))
    }

    /// Verbs of the client count only for the revision that the call names.
    async fn asked<Q, B>(&self, args: &Args<[String; 1], Q, B>, field: Option<&String>) -> Result<Asked, Problem> {
        let request_id = request_id(args, field)?;
        let expected = expected(args.if_match.as_deref())?;
        let (id, client) = self.one_flow(&args.path[0]).await?;
        Ok(Asked { client: client.expecting(expected), id, request_id, expected })
    }

    pub async fn submit_flow(&self, args: Args<[String; 0], NoQuery, wire::SubmitFlow>) -> Result<Answer, Problem> {
        let client = self.client()?;
        let key = same_key(args.idempotency_key, args.body.idempotency_key.clone())?;
        let body = wire::SubmitFlow { idempotency_key: key, ..args.body };
        let keys: Vec<String> = body.members.iter().map(|member| member.key.clone()).collect();
        let flow = request::flow(body, self.engine.policy(), self.around.trace.as_deref())?;
        let refused = |rejection| nearest::among(problem(rejection), &keys);
        let submitted = client.submit_flow(flow).await.map_err(refused)?.value;
        let existed = submitted.duplicate;
        let reply = Reply::SubmitFlow(self::submitted(submitted, keys));
        Ok(Answer { existed, replayed: existed, ..reply.into() })
    }

    pub async fn add_members(&self, args: One<wire::AddMembers>) -> Result<Answer, Problem> {
        let it = self.asked(&args, args.body.request_id.as_ref()).await?;
        let body = args.body;
        let growing = Growing {
            members: request::members(body.members, self.engine.policy(), self.around.trace.as_deref())?,
            edges: request::edges(body.edges)?,
            seal: body.seal.unwrap_or(true),
            expected_revision: body.expected_revision,
            request_id: it.request_id,
            ..Growing::new(it.id)
        };
        some("members", growing.members.len())?;
        let keys = growing.members.iter().map(|member| member.key.to_string()).collect();
        let answer = answered(it.client.grow_flow(growing).await, |it| Reply::AddMembers(grown(it)));
        nearest::of_flow(&it.client, it.id, keys, answer).await
    }

    pub async fn add_edges(&self, args: One<wire::AddEdges>) -> Result<Answer, Problem> {
        let it = self.asked(&args, args.body.request_id.as_ref()).await?;
        let body = args.body;
        let growing = Growing {
            edges: request::edges(body.edges)?,
            expected_revision: body.expected_revision,
            request_id: it.request_id,
            ..Growing::new(it.id)
        };
        some("edges", growing.edges.len())?;
        let answer = answered(it.client.grow_flow(growing).await, |it| Reply::AddEdges(grown(it)));
        nearest::of_flow(&it.client, it.id, Vec::new(), answer).await
    }

    pub async fn seal_flow(&self, args: One<wire::Seal>) -> Result<Answer, Problem> {
        let it = self.asked(&args, args.body.request_id.as_ref()).await?;
        let keys = args.body.keys.map(|keys| keys.into_iter().map(text).collect());
        let sealing = Sealing { keys, request_id: it.request_id, ..Sealing::new(it.id) };
        let answer = answered(it.client.seal_flow(sealing).await, |already| Reply::SealFlow(wire::Sealed { already }));
        nearest::of_flow(&it.client, it.id, Vec::new(), answer).await
    }

    pub async fn finish_flow(&self, args: One<wire::Finish>) -> Result<Answer, Problem> {
        let it = self.asked(&args, args.body.request_id.as_ref()).await?;
        let declaring = Declaring {
            flow: it.id,
            outcome: request::outcome(args.body.outcome),
            reason: text(args.body.reason),
            within: None,
            request_id: it.request_id,
        };
        answered(it.client.finish_flow(declaring).await, |(outcome, done)| {
            Reply::FinishFlow(wire::Finished { outcome: view::outcome(outcome), done })
        })
    }

    pub async fn cancel_flow(&self, args: One<wire::CancelFlow>) -> Result<Answer, Problem> {
        let it = self.asked(&args, args.body.request_id.as_ref()).await?;
        let body = args.body;
        let cancellation = FlowCancellation {
            remaining: request::cancelling(&body)?,
            wait_ms: body.wait_ms.unwrap_or(0),
            request_id: it.request_id,
            expected_revision: it.expected,
            ..FlowCancellation::new(it.id, body.reason)
        };
        answered(it.client.cancel_flow(cancellation).await, |it| Reply::CancelFlow(cancelled(it)))
    }

    pub async fn change_flow(&self, args: One<wire::ChangeFlow>) -> Result<Answer, Problem> {
        let it = self.asked(&args, args.body.request_id.as_ref()).await?;
        let body = args.body;
        let change = FlowChange {
            flow: it.id,
            set: body.set.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
            remove: body.remove.into_iter().map(text).collect(),
            growth: body.growth.map(request::growth),
            reason: text(body.reason),
            request_id: it.request_id,
            expected_revision: it.expected,
        };
        answered(it.client.change_flow(change).await, |(tags, growth)| {
            Reply::ChangeFlow(wire::FlowChanged { tags: crate::view::tags(&tags), growth: view::growth(growth) })
        })
    }

    pub async fn purge_flow(&self, args: Args<[String; 1], x::PurgeQuery, NoBody>) -> Result<Answer, Problem> {
        let it = self.asked(&args, None).await?;
        let reason = args.query.reason.unwrap_or_default();
        let purged = it.client.purge_flow(it.id, reason, it.request_id).await;
        answered(purged, |()| Reply::PurgeFlow(x::Purging { purging: true }))
    }
}

pub fn flow_id(text: &str) -> Result<FlowId, Problem> {
    text.parse().map_err(|_| invalid_id("f", text))
}

/// A call that adds nothing is a mistake.
fn some(field: &str, len: usize) -> Result<(), Problem> {
    match len {
        0 => Err(Problem::invalid(field, "is empty; give at least one")),
        _ => Ok(()),
    }
}

/// A duplicate has the members of the first, because it was submitted with the same body.
fn submitted(submitted: FlowSubmitted, keys: Vec<String>) -> wire::FlowSubmitted {
    let members = keys.into_iter().map(|key| {
        let id = member_id(submitted.id, &key).to_string();
        (key, id)
    });
    wire::FlowSubmitted {
        id: submitted.id.to_string(),
        members: members.collect(),
        revision: submitted.revision,
        public_flow_state: view::state(submitted.state),
        duplicate: submitted.duplicate,
        purged: submitted.purged,
    }
}

fn grown(grown: FlowGrown) -> wire::Grown {
    let existed = grown.members.iter().filter(|(.., existed)| *existed);
    wire::Grown {
        members_existed: existed.map(|(key, ..)| key.to_string()).collect(),
        members: grown.members.iter().map(|(key, id, _)| (key.to_string(), id.to_string())).collect(),
        edges_existed: grown.edges_existed,
        revision: grown.revision,
    }
}

fn cancelled(Ended { reply, done }: Ended) -> wire::FlowCancelled {
    wire::FlowCancelled {
        public_flow_state: view::state(reply.state),
        outcome: view::outcome(reply.outcome),
        policy: view::cancel_policy(reply.remaining),
        reason: reply.reason.to_string(),
        cancelled: reply.cancelled,
        owed: reply.owed,
        active: reply.active,
        already: reply.already,
        done,
    }
}
