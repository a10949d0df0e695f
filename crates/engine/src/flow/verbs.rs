//! The verbs on flows, in the name of one principal.

use super::edges::{self, EdgeFilter, EdgePage};
use super::explain::{self, FlowExplanation};
use super::members::{self, MemberFilter, MemberPage};
use super::reads::{self, FlowFilter, FlowPage, FlowView, GroupView, InputPage};
use super::request::*;
use crate::client::{Client, Urgency, answered, unexpected};
use crate::place;
use crate::verb::Answered;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_core::command::{self, Call, Command, Fence};
use weft_core::error::Rejection;
use weft_core::flow::plan::Plan;
use weft_core::planted::{self, Defect};
use weft_core::record::flow::{FlowOutcome, Growth, PublicFlowState};
use weft_core::reply::{FlowCancelled, FlowGrown, FlowSubmitted, Reply};
use weft_core::text::Text;
use weft_core::{ExecutionId, FlowId, PartitionId};

/// The answer to a cancel that may have waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub reply: FlowCancelled,
    /// Nothing of the flow lives any more.
    pub done: bool,
}

impl Client {
    /// Makes a flow with its members and edges. A graph that one commit does not hold is written in several, and is seen
    /// only when it is whole.
    pub async fn submit_flow(&self, submission: FlowSubmission) -> Result<Answered<FlowSubmitted>, Rejection> {
        let request_id = submission.request_id.clone();
        let mut flow = submission.command(&self.shared.config.policy)?;
        let partition = self.place_flow(&flow, request_id.as_deref());
        let plan = |flow| Plan::new(flow, &self.shared.config.limits, self.shared.now());
        let mut planned = plan(flow.clone())?;
        if planned.pieces() > 1 && flow.idempotency_key.is_none() && request_id.is_some() {
            // A repeat finds what is there of it by a key that follows from the request.
            flow.idempotency_key = request_id.as_ref().map(|id| self.request_key(id));
            planned = plan(flow)?;
        }
        let whole = planned.pieces() == 1;
        let plan = Arc::new(planned);
        let (mut id, mut from) = (FlowId::new(partition, self.shared.fresh_uuid()), 0);
        if planted::on(Defect::FlowNotStored) {
            let state = PublicFlowState::Running;
            let value = FlowSubmitted { id, members: Vec::new(), revision: 0, state, duplicate: false, purged: false };
            return Ok(Answered { value, repeated: false });
        }
        loop {
            let command = Command::SubmitFlow(command::SubmitFlow { id: Some(id), plan: plan.clone(), from });
            let call = self.call(command, request_id.clone().filter(|_| whole));
            let answer = match self.one(call, Urgency::Normal).await {
                // The key is bound in another partition than its place, because the store was imported.
                Err(Rejection::Elsewhere { partition }) if id.partition() != partition => {
                    id = FlowId::new(partition, self.shared.fresh_uuid());
                    continue;
                }
                answer => answer?,
            };
            match answer.reply {
                Reply::FlowSubmitted(done) => return Ok(Answered { value: *done, repeated: answer.repeated }),
                Reply::FlowBuilding { flow, next } => (id, from) = (flow, next),
                other => return Err(unexpected(other)),
            }
        }
    }

    fn place_flow(&self, flow: &command::NewFlow, request_id: Option<&[u8]>) -> PartitionId {
        let key = flow.idempotency_key.as_deref().or(request_id);
        let named = key.map(|key| place::of_key(&self.shared, &self.principal.namespace, key));
        named.unwrap_or_else(|| self.shared.next_partition(flow.members.len().max(1)))
    }

    fn request_key(&self, id: &Bytes) -> Bytes {
        let digest = weft_core::digest::digest(&[b"request of flow", self.principal.name.as_bytes(), id]);
        Bytes::copy_from_slice(&digest)
    }

    /// Adds members and edges, all of them or none.
    pub async fn grow_flow(&self, growing: Growing) -> Result<Answered<FlowGrown>, Rejection> {
        let default = &self.shared.config.policy;
        let members = growing.members.into_iter().map(|member| member.command(default)).collect::<Result<_, _>>()?;
        let grow = command::GrowFlow {
            flow: growing.flow,
            members,
            edges: growing.edges.into_iter().map(Edge::command).collect(),
            seal: growing.seal,
            expected_revision: growing.expected_revision,
            within: growing.within,
        };
        let call = self.call(Command::GrowFlow(Box::new(grow)), growing.request_id);
        answered(self.one(call, Urgency::Normal).await, |reply| match reply {
            Reply::FlowGrown(grown) => Ok(*grown),
            other => Err(other),
        })
    }

    /// Says that all edges of members are known, or of all and that the flow may finish. True if there was nothing to do.
    pub async fn seal_flow(&self, sealing: Sealing) -> Result<Answered<bool>, Rejection> {
        let Sealing { flow, keys, within, request_id } = sealing;
        let mut checked = None;
        loop {
            let seal = command::SealFlow { flow, keys: keys.clone(), within, checked };
            let answer = self.one(self.call(Command::SealFlow(seal), request_id.clone()), Urgency::Normal).await?;
            match answer.reply {
                Reply::FlowSealed { already, .. } => return Ok(Answered { value: already, repeated: answer.repeated }),
                // All of a large flow is looked at before any of it is sealed.
                Reply::FlowChecked { after } => checked = Some(after),
                other => return Err(unexpected(other)),
            }
        }
    }

    /// Ends a flow. Waits for its members if asked to, and answers with the numbers of that moment.
    pub async fn cancel_flow(&self, cancellation: FlowCancellation) -> Result<Answered<Ended>, Rejection> {
        let FlowCancellation { flow, remaining, reason, wait_ms, request_id, expected_revision } = cancellation;
        weft_core::text::check_range("wait_ms", wait_ms, 0, weft_core::limits::CLAIM_WAIT_MAX_MS)?;
        let command = Command::CancelFlow(command::CancelFlow { flow, remaining, reason });
        let call = Call { expected_revision, ..self.call(command, request_id) };
        let answer = answered(self.one(call, Urgency::Urgent).await, |reply| match reply {
            Reply::FlowCancelled(cancelled) => Ok(cancelled),
            other => Err(other),
        })?;
        let (mut reply, repeated) = (answer.value, answer.repeated);
        if wait_ms > 0 && !reply.state.is_terminal() {
            let view = self.wait_flow(flow, None, wait_ms).await?;
            let summary = &view.flow.summary;
            use weft_core::record::execution::PublicState;
            reply.state = view.flow.public_state();
            reply.owed = summary.cancel_owed;
            reply.cancelled = summary.of(PublicState::Cancelled);
            reply.active = summary.of(PublicState::Active);
        }
        let done = reply.state.is_terminal();
        Ok(Answered { value: Ended { reply, done }, repeated })
    }

    /// Declares the outcome of a flow that waits for one; true if nothing of it lived.
    pub async fn finish_flow(&self, declaring: Declaring) -> Result<Answered<(FlowOutcome, bool)>, Rejection> {
        let Declaring { flow, outcome, reason, within, request_id } = declaring;
        let call = self.call(Command::FinishFlow(command::FinishFlow { flow, outcome, reason, within }), request_id);
        answered(self.one(call, Urgency::Normal).await, |reply| match reply {
            Reply::FlowFinished { outcome, done } => Ok((outcome, done)),
            other => Err(other),
        })
    }

    /// Changes tags, and stops growth; answers both as they are now.
    pub async fn change_flow(
        &self,
        change: FlowChange,
    ) -> Result<Answered<(Arc<BTreeMap<Text, Text>>, Growth)>, Rejection> {
        let FlowChange { flow, set, remove, growth, reason, request_id, expected_revision } = change;
        let command = Command::ChangeFlow(Box::new(command::ChangeFlow { flow, set, remove, growth, reason }));
        let call = Call { expected_revision, ..self.call(command, request_id) };
        answered(self.one(call, Urgency::Normal).await, |reply| match reply {
            Reply::FlowChanged { tags, growth } => Ok((tags, growth)),
            other => Err(other),
        })
    }

    /// Removes a flow that is done, with all that belongs to it, whatever its retention says.
    pub async fn purge_flow(
        &self,
        flow: FlowId,
        reason: impl Into<Text>,
        request_id: Option<Bytes>,
    ) -> Result<Answered<()>, Rejection> {
        let command = Command::PurgeFlow(command::PurgeFlow { flow, reason: reason.into() });
        answered(self.one(self.call(command, request_id), Urgency::Normal).await, |reply| match reply {
            Reply::FlowPurging => Ok(()),
            other => Err(other),
        })
    }

    pub async fn flow(&self, id: FlowId) -> Result<FlowView, Rejection> {
        reads::get(&self.shared, &self.principal, id).await
    }

    /// Waits up to `wait_ms` until it is done, or in the state `until`, and answers how it stands then.
    pub async fn wait_flow(
        &self,
        id: FlowId,
        until: Option<PublicFlowState>,
        wait_ms: u64,
    ) -> Result<FlowView, Rejection> {
        reads::wait(&self.shared, &self.principal, id, until, wait_ms).await
    }

    pub async fn flows(&self, filter: FlowFilter) -> Result<FlowPage, Rejection> {
        reads::list(&self.shared, &self.principal, filter).await
    }

    /// Members in the order they were added, or by their keys.
    pub async fn members(&self, flow: FlowId, filter: MemberFilter) -> Result<MemberPage, Rejection> {
        members::members(&self.shared, &self.principal, flow, filter).await
    }

    /// One member by its key.
    pub async fn member(&self, flow: FlowId, key: &str) -> Result<crate::ExecutionView, Rejection> {
        reads::get(&self.shared, &self.principal, flow).await?;
        let view = self.get(weft_core::flow::member_id(flow, key)).await?;
        // The key of a child is an id, and ids of other flows look the same.
        match view.execution.member() {
            Some(member) if member.flow == flow => Ok(view),
            _ => Err(Rejection::ExecutionNotFound),
        }
    }

    /// Edges, member by member.
    pub async fn edges(&self, flow: FlowId, filter: EdgeFilter) -> Result<EdgePage, Rejection> {
        edges::edges(&self.shared, &self.principal, flow, filter).await
    }

    pub async fn group(&self, flow: FlowId, key: &str, name: &str) -> Result<GroupView, Rejection> {
        reads::group(&self.shared, &self.principal, flow, key, name).await
    }

    /// Why a flow is not done.
    pub async fn explain_flow(&self, id: FlowId) -> Result<FlowExplanation, Rejection> {
        explain::explain(self, id).await
    }

    /// The inputs under one name, for the holder of the lease: those that did not come with the claim too.
    pub async fn held_input(
        &self,
        id: ExecutionId,
        fence: Fence,
        name: &str,
        after: Option<u32>,
    ) -> Result<InputPage, Rejection> {
        self.principal.scopes.need(command::Scopes::WORK, "work")?;
        reads::input(&self.shared, &self.principal, id, fence, name, after).await
    }
}
