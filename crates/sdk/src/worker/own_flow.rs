//! The flow of the member that a handler runs. Growing it again in a later attempt finds what is there; every call counts
//! only under the lease.
//!
//! ```
//! use weft_sdk::{Ctx, Edge, Failure, Inputs, Json, Member, test};
//!
//! async fn list(ctx: Ctx) -> Result<(), Failure> {
//!     let mut growing = ctx.flow()?.add(Member::new("sum", "sum", &()));
//!     for n in 1..=3 {
//!         let key = format!("page-{n}");
//!         growing = growing.add(Member::new(&key, "page", &n)).edge(Edge::new(&key, "sum").input("pages[]"));
//!     }
//!     growing.submit().await?;
//!     Ok(())
//! }
//!
//! async fn page(Json(n): Json<u64>) -> Result<Json<u64>, Failure> {
//!     Ok(Json(n * n))
//! }
//!
//! async fn sum(inputs: Inputs) -> Result<Json<u64>, Failure> {
//!     Ok(Json(inputs.all::<u64>("pages[]").await?.into_iter().sum()))
//! }
//!
//! test::run(|harness| async move {
//!     harness.worker(|worker| worker.handle("list", list).handle("page", page).handle("sum", sum));
//!     let flow = harness.client().flow("crawl").member("list", "list", &()).submit().await.unwrap();
//!     assert_eq!(flow.wait().await.unwrap().summary.members_completed, 5);
//!     assert_eq!(flow.member("sum").await.unwrap().result::<u64>().await.unwrap(), 14);
//! });
//! ```

use super::ctx::Ctx;
use super::failure::Failure;
use crate::flow::{Draft, Edge, Member};
use weft_api::flow::{
    AddOwnEdges, AddOwnMembers, FinishOwnFlow, Finished, FlowOutcome, Grown, NewMember, SealOwnMembers, Sealed,
};
use weft_api::operation::NoQuery;
use weft_api::work::TaskFlow;
use weft_api::{Args, Code, Operation, op};

/// The flow that the execution is a member of.
#[derive(Clone, Copy, Debug)]
pub struct OwnFlow<'a> {
    ctx: &'a Ctx,
    flow: &'a TaskFlow,
}

impl Ctx {
    /// The flow that the execution is a member of; a failure for good if it is in none.
    pub fn flow(&self) -> Result<OwnFlow<'_>, Failure> {
        match &self.claimed().flow {
            Some(flow) => Ok(OwnFlow { ctx: self, flow }),
            None => {
                let message = format!("`{}` is no member of a flow; submit `{}` in one", self.id(), self.kind());
                Err(Failure::permanent(message).category("flow"))
            }
        }
    }

    /// As `fenced`, for calls that are about other executions too: that one of those has ended says nothing of the lease.
    async fn fenced_in_flow<O>(&self, body: O::Body) -> Result<O::Reply, Failure>
    where
        O: Operation<Path = [String; 0], Query = NoQuery>,
        O::Body: Clone,
    {
        self.going()?;
        let mut failures = 0;
        loop {
            let error = match self.client().call::<O>(Args::new([], NoQuery::default(), body.clone())).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            if error.code() == Some(Code::ExecutionTerminal) {
                return Err(error.into());
            }
            if !self.tries_again(&error, &mut failures).await {
                return Err(self.refused(error));
            }
        }
    }
}

impl<'a> OwnFlow<'a> {
    pub fn id(&self) -> &'a str {
        &self.flow.id
    }

    /// The key of the execution in it.
    pub fn key(&self) -> &'a str {
        &self.flow.key
    }

    /// A member for it. A member that is there under the same key is found if it is the same, and refused if not.
    #[expect(clippy::should_implement_trait, reason = "a graph grows by a verb; there is nothing to add up")]
    pub fn add(self, member: Member) -> Growing<'a> {
        self.growing().add(member)
    }

    /// An edge for it, between members that are there.
    pub fn edge(self, edge: Edge) -> Growing<'a> {
        self.growing().edge(edge)
    }

    fn growing(self) -> Growing<'a> {
        Growing { own: self, draft: Draft::default(), sealed: true, expected_revision: None }
    }

    /// Says that all edges to these members are known, so that they may run.
    pub async fn seal<K: Into<String>>(self, keys: impl IntoIterator<Item = K>) -> Result<Sealed, Failure> {
        let claimed = self.ctx.claimed();
        let body = SealOwnMembers {
            execution: claimed.execution.clone(),
            lease: Some(claimed.lease.id.clone()),
            epoch: Some(claimed.lease.epoch),
            keys: keys.into_iter().map(Into::into).collect(),
            request_id: None,
        };
        self.ctx.fenced_in_flow::<op::SealOwnMembers>(body).await
    }

    /// Declares the outcome of a flow that is `declared`. What becomes of this execution is for the flow to say.
    pub async fn finish(self, outcome: FlowOutcome, reason: impl Into<String>) -> Result<Finished, Failure> {
        let claimed = self.ctx.claimed();
        let body = FinishOwnFlow {
            execution: claimed.execution.clone(),
            lease: Some(claimed.lease.id.clone()),
            epoch: Some(claimed.lease.epoch),
            outcome,
            reason: reason.into(),
            request_id: None,
        };
        self.ctx.fenced_in_flow::<op::FinishOwnFlow>(body).await
    }
}

/// Members and edges for the own flow: all of them or none.
#[must_use = "nothing is added before `submit`"]
#[derive(Clone, Debug)]
pub struct Growing<'a> {
    own: OwnFlow<'a>,
    draft: Draft,
    sealed: bool,
    expected_revision: Option<u64>,
}

impl Growing<'_> {
    #[expect(clippy::should_implement_trait, reason = "a graph grows by a verb; there is nothing to add up")]
    pub fn add(mut self, member: Member) -> Self {
        self.draft.member(member);
        self
    }

    /// It may also lead to and from members that are there.
    pub fn edge(mut self, edge: Edge) -> Self {
        self.draft.edge(edge);
        self
    }

    /// More edges to the new members follow: none of them runs before `OwnFlow::seal`.
    pub fn unsealed(mut self) -> Self {
        self.sealed = false;
        self
    }

    /// Refused if the graph has changed since.
    pub fn expected_revision(mut self, revision: u64) -> Self {
        self.expected_revision = Some(revision);
        self
    }

    pub async fn submit(self) -> Result<Grown, Failure> {
        let (ctx, expected_revision) = (self.own.ctx, self.expected_revision);
        let claimed = ctx.claimed();
        let (execution, lease) = (claimed.execution.clone(), Some(claimed.lease.id.clone()));
        let epoch = Some(claimed.lease.epoch);
        let (members, edges) = self.draft.parts()?;
        if members.is_empty() {
            let body = AddOwnEdges { execution, lease, epoch, edges, expected_revision, request_id: None };
            return ctx.fenced_in_flow::<op::AddOwnEdges>(body).await;
        }
        let traced =
            |member: NewMember| NewMember { trace: member.trace.or_else(|| ctx.trace().map(str::to_string)), ..member };
        let members = members.into_iter().map(traced).collect();
        let seal = Some(self.sealed);
        let body = AddOwnMembers { execution, lease, epoch, members, edges, seal, expected_revision, request_id: None };
        ctx.fenced_in_flow::<op::AddOwnMembers>(body).await
    }
}
