//! Submitting flows.
//!
//! ```
//! use weft_sdk::{Failure, Inputs, Json, test};
//!
//! async fn load(Json(n): Json<u64>) -> Result<Json<u64>, Failure> {
//!     Ok(Json(n * 10))
//! }
//!
//! async fn merge(inputs: Inputs) -> Result<Json<u64>, Failure> {
//!     Ok(Json(inputs.get::<u64>("left").await? + inputs.get::<u64>("right").await?))
//! }
//!
//! test::run(|harness| async move {
//!     harness.worker(|worker| worker.handle("load", load).handle("merge", merge));
//!     let weft = harness.client();
//!     let flow = weft.flow("etl").member("a", "load", &1).member("b", "load", &2).member("join", "merge", &());
//!     let flow = flow.edge("a", "join").input("left").edge("b", "join").input("right").submit().await.unwrap();
//!     assert_eq!(flow.member("join").await.unwrap().result::<u64>().await.unwrap(), 30);
//! });
//! ```

use super::submit::ms;
use super::{Client, FlowHandle};
use crate::Error;
use crate::flow::{Draft, Edge, Member, Node};
use serde::Serialize;
use std::time::Duration;
use weft_api::execution::Keep;
use weft_api::flow::{CompletionPolicy, FailurePolicy, Growth, SubmitFlow};
use weft_api::{Args, Moment, op};

/// A flow to be: members under keys, and edges between them. All of it is submitted in one call, or none.
#[must_use = "nothing is submitted before `submit`"]
#[derive(Clone, Debug)]
pub struct Flow {
    client: Option<Client>,
    body: SubmitFlow,
    draft: Draft,
}

impl Client {
    /// A flow of `kind`.
    pub fn flow(&self, kind: impl Into<String>) -> Flow {
        Flow { client: Some(self.clone()), ..Flow::builder(kind) }
    }
}

impl Flow {
    /// A flow of `kind` that no client has yet: `submit_to` gives it one.
    pub fn builder(kind: impl Into<String>) -> Self {
        let body = SubmitFlow { kind: kind.into(), ..SubmitFlow::default() };
        Self { client: None, body, draft: Draft::default() }
    }

    /// For people.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.body.name = Some(name.into());
        self
    }

    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.body.tags.insert(key.into(), value.into());
        self
    }

    /// A second submission with this key never makes a second flow.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.body.idempotency_key = Some(key.into());
        self
    }

    /// It has failed if it has not ended after this time, and its members are cancelled.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.body.deadline_in_ms = Some(ms(deadline));
        self
    }

    /// The same at this time, in milliseconds since 1970.
    pub fn deadline_at(mut self, at_ms: u64) -> Self {
        self.body.deadline_at = Some(Moment(at_ms));
        self
    }

    /// How long it is kept after its end.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.body.retention_ms = Some(Keep::Ms(ms(retention)));
        self
    }

    /// W3C trace context, handed to the workers of its members.
    pub fn trace(mut self, traceparent: impl Into<String>) -> Self {
        self.body.trace = Some(traceparent.into());
        self
    }

    /// What a member that ends badly means for the flow; `isolate` unless given.
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.body.failure_policy = Some(policy);
        self
    }

    /// It has failed when the first member has, and what still lives is cancelled.
    pub fn fail_fast(self) -> Self {
        self.failure_policy(FailurePolicy::FailFast { remaining: None })
    }

    /// It completes whether or not members fail.
    pub fn collect_all(self) -> Self {
        self.failure_policy(FailurePolicy::CollectAll {})
    }

    /// When the outcome is decided; when all have ended unless given.
    pub fn completion_policy(mut self, policy: CompletionPolicy) -> Self {
        self.body.completion_policy = Some(policy);
        self
    }

    /// It ends as this member does, when it does; the others run on.
    pub fn root(self, key: impl Into<String>) -> Self {
        self.completion_policy(CompletionPolicy::Root { key: key.into(), remaining: None })
    }

    /// It has completed when so many members have succeeded; the others are cancelled.
    pub fn threshold(self, successes: u32) -> Self {
        self.completion_policy(CompletionPolicy::Threshold { successes, remaining: None })
    }

    /// It ends when `finish` says so, on its handle or in a member; what still lives is cancelled.
    pub fn declared(self) -> Self {
        self.completion_policy(CompletionPolicy::Declared { remaining: None })
    }

    /// Takes no members and edges once it is sealed.
    pub fn fixed(mut self) -> Self {
        self.body.growth = Some(Growth::Fixed);
        self
    }

    /// Neither the flow nor its members are sealed: nothing runs before `FlowHandle::seal`, which must come within this
    /// time.
    pub fn unsealed(mut self, seal_by: Duration) -> Self {
        self.body.seal = Some(false);
        self.body.seal_by_ms = Some(ms(seal_by));
        self
    }

    /// The member `key`: an execution of `kind` with `input` as JSON.
    pub fn member<T: Serialize + ?Sized>(self, key: impl Into<String>, kind: impl Into<String>, input: &T) -> Self {
        self.with(Member::new(key, kind, input))
    }

    /// A member with more to say about it, such as its lane or how its edges are judged.
    pub fn with(mut self, member: Member) -> Self {
        self.draft.member(member);
        self
    }

    /// An edge between members, given by their keys or as nodes: `to` waits for `from`. What is said next is about it.
    pub fn edge(self, from: impl Into<String>, to: impl Into<String>) -> FlowEdge {
        FlowEdge { flow: self, edge: Edge::new(from, to) }
    }

    /// The member `key` as a node, which knows the type `R` of its result.
    pub fn node<R>(
        &mut self,
        key: impl Into<String>,
        kind: impl Into<String>,
        input: &(impl Serialize + ?Sized),
    ) -> Node<R> {
        self.node_of(Member::new(key, kind, input))
    }

    /// A member with more to say about it as a node.
    pub fn node_of<R>(&mut self, member: Member) -> Node<R> {
        let node = Node::of(&member);
        self.draft.member(member);
        node
    }

    /// Adds an edge.
    pub fn connect(&mut self, edge: Edge) -> &mut Self {
        self.draft.edge(edge);
        self
    }

    /// The request as it would be sent.
    pub fn into_request(self) -> Result<SubmitFlow, Error> {
        let (members, edges) = self.draft.parts()?;
        Ok(SubmitFlow { members, edges, ..self.body })
    }

    /// Submits it. A refusal names the members and edges that are wrong, up to twenty of them.
    pub async fn submit(mut self) -> Result<FlowHandle, Error> {
        match self.client.take() {
            Some(client) => self.submit_to(&client).await,
            None => Err(Error::Config("the flow has no client; submit it by `submit_to(&client)`".to_string())),
        }
    }

    pub async fn submit_to(self, client: &Client) -> Result<FlowHandle, Error> {
        let body = self.into_request()?;
        let submitted = client.call::<op::SubmitFlow>(Args { body, ..Args::default() }).await?;
        Ok(FlowHandle::submitted(client.clone(), submitted))
    }
}

/// A flow to be whose last edge can still be told more.
#[must_use = "nothing is submitted before `submit`"]
#[derive(Clone, Debug)]
pub struct FlowEdge {
    flow: Flow,
    edge: Edge,
}

impl FlowEdge {
    /// As `Edge::input`.
    pub fn input(mut self, name: impl Into<String>) -> Self {
        self.edge = self.edge.input(name);
        self
    }

    /// As `Edge::on_failure`.
    pub fn on_failure(mut self) -> Self {
        self.edge = self.edge.on_failure();
        self
    }

    /// As `Edge::any`.
    pub fn any(mut self) -> Self {
        self.edge = self.edge.any();
        self
    }

    /// As `Edge::group`.
    pub fn group(mut self, name: impl Into<String>) -> Self {
        self.edge = self.edge.group(name);
        self
    }

    /// The flow with this edge.
    pub fn done(mut self) -> Flow {
        self.flow.draft.edge(self.edge);
        self.flow
    }

    pub fn edge(self, from: impl Into<String>, to: impl Into<String>) -> FlowEdge {
        self.done().edge(from, to)
    }

    pub fn member<T: Serialize + ?Sized>(self, key: impl Into<String>, kind: impl Into<String>, input: &T) -> Flow {
        self.done().member(key, kind, input)
    }

    pub fn with(self, member: Member) -> Flow {
        self.done().with(member)
    }

    pub async fn submit(self) -> Result<FlowHandle, Error> {
        self.done().submit().await
    }
}
