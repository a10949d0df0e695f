//! One flow, as a client sees it.

use super::run::{Calling, WAIT};
use super::submit::ms;
use super::{Client, NoResult, Run, pause};
use crate::Error;
use crate::flow::{Draft, Edge, Member, Node};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::future::IntoFuture;
use std::time::Duration;
use weft_api::bulk::BulkJob;
use weft_api::execution::{CancelMode, Execution};
use weft_api::flow::{
    AddEdges, AddMembers, CancelFlow, CancelPolicy, Finish, Finished, Flow as Stored, FlowCancelled, FlowExplanation,
    FlowOutcome, FlowQuery, FlowSubmitted, Grown, MembersQuery, ReplayFlow, Seal, Sealed, Summary,
};
use weft_api::operation::NoQuery;
use weft_api::{Args, Code, Operation, Problem, op};

/// A handle on a flow. Dropping it changes nothing.
#[derive(Clone, Debug)]
pub struct FlowHandle {
    client: Client,
    id: String,
    /// Of the submission: ids by keys
    members: BTreeMap<String, String>,
    duplicate: bool,
}

impl Client {
    /// A handle on the flow with this id; whether it exists is not asked.
    pub fn flow_by_id(&self, id: impl Into<String>) -> FlowHandle {
        FlowHandle { client: self.clone(), id: id.into(), members: BTreeMap::new(), duplicate: false }
    }
}

impl FlowHandle {
    pub(super) fn submitted(client: Client, submitted: FlowSubmitted) -> Self {
        let members = submitted.members.into_iter().collect();
        Self { client, id: submitted.id, members, duplicate: submitted.duplicate }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// The submission named a key that was bound already; this is the flow it stands for.
    pub fn is_duplicate(&self) -> bool {
        self.duplicate
    }

    /// Ids of the members that were submitted with it, by their keys. Those that joined later are not among them.
    pub fn member_ids(&self) -> &BTreeMap<String, String> {
        &self.members
    }

    fn args<Q: Default, B: Default>(&self) -> Args<[String; 1], Q, B> {
        Args { path: [self.id.clone()], ..Args::default() }
    }

    async fn tell<O>(&self, body: O::Body) -> Result<O::Reply, Error>
    where
        O: Operation<Path = [String; 1], Query = NoQuery>,
    {
        self.client.call::<O>(Args::new([self.id.clone()], NoQuery::default(), body)).await
    }

    /// The flow as it is now.
    pub async fn get(&self) -> Result<Stored, Error> {
        self.client.call::<op::GetFlow>(self.args()).await
    }

    /// Exact totals over its members, now.
    pub async fn summary(&self) -> Result<Summary, Error> {
        Ok(self.get().await?.summary)
    }

    /// Why it is not done.
    pub async fn explain(&self) -> Result<FlowExplanation, Error> {
        self.client.call::<op::ExplainFlow>(self.args()).await
    }

    /// Waits until nothing of it lives, however long that takes and whether or not the server is there all the time. How
    /// it ended is in `public_flow_state` and `decided`.
    pub async fn wait(&self) -> Result<Stored, Error> {
        let mut failures = 0;
        loop {
            let query = FlowQuery { wait_ms: Some(ms(WAIT)), until: Some("done".to_string()) };
            match self.client.call::<op::GetFlow>(Args { query, ..self.args() }).await {
                Ok(flow) if flow.public_flow_state.is_terminal() => return Ok(flow),
                Ok(_) => failures = 0,
                Err(error) if error.is_retryable() => {
                    failures += 1;
                    pause(failures, &error, self.client.world()).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// All of its members, in the order they were added.
    pub async fn members(&self) -> Result<Vec<Execution>, Error> {
        let mut all = Vec::new();
        let mut cursor = None;
        loop {
            let (items, next) = self.page(cursor).await?;
            all.extend(items);
            cursor = next;
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    async fn page(&self, cursor: Option<String>) -> Result<(Vec<Execution>, Option<String>), Error> {
        let query = MembersQuery { limit: Some(1_000), cursor, ..MembersQuery::default() };
        let page = self.client.call::<op::ListMembers>(Args { query, ..self.args() }).await?;
        Ok((page.items, page.next_cursor))
    }

    /// The member `key`, whose result can be waited for, also one that joined later; if there is none it is `unknown_node`.
    pub async fn member(&self, key: impl Into<String>) -> Result<Run, Error> {
        let key = key.into();
        if let Some(id) = self.members.get(&key) {
            return Ok(self.client.run(id));
        }
        let query = MembersQuery { key: Some(key.clone()), ..MembersQuery::default() };
        let page = self.client.call::<op::ListMembers>(Args { query, ..self.args() }).await?;
        match page.items.into_iter().next() {
            Some(member) => Ok(self.client.run(member.id)),
            None => {
                let problem = Problem::new(Code::UnknownNode, format!("the flow `{}` has no member `{key}`", self.id));
                Err(problem.field("key", key).into())
            }
        }
    }

    /// Waits for the end of a node and reads its result as JSON.
    pub async fn result<R: DeserializeOwned>(&self, node: &Node<R>) -> Result<R, NoResult> {
        self.member(node).await?.result().await
    }

    /// Adds members, sealed, and edges, which may also end at members that are there. All of them or none.
    pub async fn add(
        &self,
        members: impl IntoIterator<Item = Member>,
        edges: impl IntoIterator<Item = Edge>,
    ) -> Result<Grown, Error> {
        let mut draft = Draft::default();
        members.into_iter().for_each(|member| draft.member(member));
        edges.into_iter().for_each(|edge| draft.edge(edge));
        match draft.parts()? {
            (members, edges) if members.is_empty() => {
                self.tell::<op::AddEdges>(AddEdges { edges, ..AddEdges::default() }).await
            }
            (members, edges) => {
                self.tell::<op::AddMembers>(AddMembers { members, edges, ..AddMembers::default() }).await
            }
        }
    }

    /// Says that all members and edges are there: those that wait for nothing run, and the flow may finish.
    pub async fn seal(&self) -> Result<Sealed, Error> {
        self.tell::<op::SealFlow>(Seal::default()).await
    }

    /// Declares the outcome of a flow that is `declared`.
    pub async fn finish(&self, outcome: FlowOutcome, reason: impl Into<String>) -> Result<Finished, Error> {
        self.tell::<op::FinishFlow>(Finish { outcome, reason: reason.into(), request_id: None }).await
    }

    /// Replays every member that counts against it, in a bulk job that goes on by itself; what was skipped because of them
    /// waits for them again. Waits up to a minute for the end of the job, and answers how far it is then.
    pub async fn replay(&self, reason: impl Into<String>) -> Result<BulkJob, Error> {
        let wait_ms = Some(60_000);
        self.tell::<op::ReplayFlow>(ReplayFlow { reason: reason.into(), wait_ms, ..ReplayFlow::default() }).await
    }

    /// Cancels it, with all its members unless told otherwise, when awaited.
    pub fn cancel(&self, reason: impl Into<String>) -> CancellingFlow {
        let cancel = CancelFlow { reason: reason.into(), ..CancelFlow::default() };
        CancellingFlow { flow: self.clone(), cancel }
    }
}

/// A cancel of a flow. Its members are cancelled at once unless it says otherwise.
#[must_use = "nothing is cancelled before it is awaited"]
pub struct CancellingFlow {
    flow: FlowHandle,
    cancel: CancelFlow,
}

impl CancellingFlow {
    /// Members that run are asked, and have this long to end.
    pub fn graceful(mut self, grace: Duration) -> Self {
        self.cancel.mode = Some(CancelMode::Graceful);
        self.cancel.grace_ms = Some(ms(grace));
        self
    }

    /// Members that run may end their attempt; the others are cancelled.
    pub fn let_active_finish(mut self) -> Self {
        self.cancel.policy = Some(CancelPolicy::LetActiveFinish);
        self
    }

    /// Members run on; nothing is added any more.
    pub fn flow_only(mut self) -> Self {
        self.cancel.policy = Some(CancelPolicy::FlowOnly);
        self
    }

    /// Waits up to this long, a minute at most, until nothing of it lives.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.cancel.wait_ms = Some(ms(wait));
        self
    }
}

impl IntoFuture for CancellingFlow {
    type Output = Result<FlowCancelled, Error>;
    type IntoFuture = Calling<FlowCancelled>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.flow.tell::<op::CancelFlow>(self.cancel).await })
    }
}
