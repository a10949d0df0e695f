//! What callers hand in about flows, as builders: `FlowSubmission::new("etl").member("a", load).edge("a", "b")`.

use crate::request::Submission;
use bytes::Bytes;
use std::collections::BTreeMap;
use weft_core::command::{NewEdge, NewFlow, NewGroup, NewMember, When, Within};
use weft_core::error::Rejection;
use weft_core::limits;
use weft_core::record::edge::On;
use weft_core::record::execution::Policy;
use weft_core::record::flow::{CompletionPolicy, FailurePolicy, FlowOutcome, Growth, Mode, Remaining};
use weft_core::record::member::{GroupPolicy, MAIN, Then};
use weft_core::text::Text;
use weft_core::{ExecutionId, FlowId, PartitionId, Time};

/// A member to be: an execution under a key of its flow.
#[derive(Clone, Debug)]
pub struct Member {
    pub key: Text,
    pub critical: bool,
    pub groups: Vec<NewGroup>,
    pub submission: Submission,
}

impl Member {
    pub fn new(key: impl Into<Text>, submission: Submission) -> Self {
        Self { key: key.into(), critical: true, groups: Vec::new(), submission }
    }

    /// A bad end of it does not count against the flow.
    pub fn uncritical(mut self) -> Self {
        self.critical = false;
        self
    }

    /// Gives its default group of edges a policy.
    pub fn join(self, policy: GroupPolicy, then: Then) -> Self {
        self.group(MAIN, policy, then)
    }

    pub fn group(mut self, name: impl Into<Text>, policy: GroupPolicy, then: Then) -> Self {
        self.groups.push(NewGroup { name: name.into(), policy, then });
        self
    }

    pub(super) fn command(self, default: &Policy) -> Result<NewMember, Rejection> {
        // The id of a member follows from its flow and key; this one is not used.
        let id = ExecutionId::new(PartitionId(0), uuid::Uuid::nil());
        let submit = self.submission.command(id, default)?;
        let submit = weft_core::command::Submit { id: None, ..submit };
        Ok(NewMember { key: self.key, critical: self.critical, groups: self.groups, submit })
    }
}

/// An edge: `to` waits for the end of `from`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    pub from: Text,
    pub to: Text,
    pub group: Text,
    pub policy: Option<(GroupPolicy, Then)>,
    pub on: On,
    pub input: Option<Text>,
}

impl Edge {
    pub fn new(from: impl Into<Text>, to: impl Into<Text>) -> Self {
        let (from, to) = (from.into(), to.into());
        Self { from, to, group: MAIN.into(), policy: None, on: On::Success, input: None }
    }

    pub fn on(mut self, on: On) -> Self {
        self.on = on;
        self
    }

    pub fn group(mut self, group: impl Into<Text>) -> Self {
        self.group = group.into();
        self
    }

    /// Hands the end of `from` to `to` under this name.
    pub fn input(mut self, name: impl Into<Text>) -> Self {
        self.input = Some(name.into());
        self
    }

    pub(super) fn command(self) -> NewEdge {
        let Edge { from, to, group, policy, on, input } = self;
        NewEdge { from, to, group, policy, on, input }
    }
}

/// A flow to be. Everything but the kind has a default.
#[derive(Clone, Debug)]
pub struct FlowSubmission {
    pub kind: Text,
    pub name: Option<Text>,
    pub tags: BTreeMap<Text, Text>,
    pub failure: FailurePolicy,
    pub completion: CompletionPolicy,
    pub growth: Growth,
    pub seal: bool,
    pub seal_by_ms: Option<u64>,
    pub deadline: Option<When>,
    /// `None` keeps it for ever.
    pub retention_ms: Option<u64>,
    pub idempotency_key: Option<Bytes>,
    pub idempotency_ttl_ms: u64,
    pub request_id: Option<Bytes>,
    pub trace: Option<Text>,
    pub members: Vec<Member>,
    pub edges: Vec<Edge>,
}

impl FlowSubmission {
    pub fn new(kind: impl Into<Text>) -> Self {
        Self {
            kind: kind.into(),
            name: None,
            tags: BTreeMap::new(),
            failure: FailurePolicy::Isolate,
            completion: CompletionPolicy::AllTerminal,
            growth: Growth::Dynamic,
            seal: true,
            seal_by_ms: None,
            deadline: None,
            retention_ms: Some(limits::RETENTION_MS_DEFAULT),
            idempotency_key: None,
            idempotency_ttl_ms: limits::DAY_MS,
            request_id: None,
            trace: None,
            members: Vec::new(),
            edges: Vec::new(),
        }
    }

    pub fn member(mut self, key: impl Into<Text>, submission: Submission) -> Self {
        self.members.push(Member::new(key, submission));
        self
    }

    pub fn with(mut self, member: Member) -> Self {
        self.members.push(member);
        self
    }

    pub fn edge(mut self, from: impl Into<Text>, to: impl Into<Text>) -> Self {
        self.edges.push(Edge::new(from, to));
        self
    }

    pub fn link(mut self, edge: Edge) -> Self {
        self.edges.push(edge);
        self
    }

    /// More members and edges follow; nothing starts before it is sealed.
    pub fn unsealed(mut self) -> Self {
        self.seal = false;
        self
    }

    pub fn failure(mut self, policy: FailurePolicy) -> Self {
        self.failure = policy;
        self
    }

    pub fn completion(mut self, policy: CompletionPolicy) -> Self {
        self.completion = policy;
        self
    }

    pub fn tag(mut self, key: impl Into<Text>, value: impl Into<Text>) -> Self {
        self.tags.insert(key.into(), value.into());
        self
    }

    pub fn deadline_in_ms(mut self, ms: u64) -> Self {
        self.deadline = Some(When::InMs(ms));
        self
    }

    pub fn deadline_at(mut self, at: Time) -> Self {
        self.deadline = Some(When::At(at));
        self
    }

    /// A second submission with this key never makes a second flow.
    pub fn idempotency_key(mut self, key: impl Into<Bytes>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// A repeat of this call gets the same answer.
    pub fn request_id(mut self, id: impl Into<Bytes>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    pub(super) fn command(self, default: &Policy) -> Result<NewFlow, Rejection> {
        let members = self.members.into_iter().map(|member| member.command(default)).collect::<Result<_, _>>()?;
        Ok(NewFlow {
            kind: self.kind,
            name: self.name,
            tags: self.tags,
            failure: self.failure,
            completion: self.completion,
            growth: self.growth,
            seal: self.seal,
            seal_by_ms: self.seal_by_ms,
            deadline: self.deadline,
            retention_ms: self.retention_ms,
            idempotency_key: self.idempotency_key,
            idempotency_ttl_ms: self.idempotency_ttl_ms,
            trace: self.trace,
            members,
            edges: self.edges.into_iter().map(Edge::command).collect(),
        })
    }
}

/// Members and edges for a flow that is there.
#[derive(Clone, Debug)]
pub struct Growing {
    pub flow: FlowId,
    pub members: Vec<Member>,
    pub edges: Vec<Edge>,
    /// The edges of the new members are all known.
    pub seal: bool,
    pub expected_revision: Option<u64>,
    /// The running member that grows its own flow.
    pub within: Within,
    pub request_id: Option<Bytes>,
}

impl Growing {
    pub fn new(flow: FlowId) -> Self {
        Self {
            flow,
            members: Vec::new(),
            edges: Vec::new(),
            seal: true,
            expected_revision: None,
            within: None,
            request_id: None,
        }
    }

    pub fn member(mut self, key: impl Into<Text>, submission: Submission) -> Self {
        self.members.push(Member::new(key, submission));
        self
    }

    pub fn edge(mut self, from: impl Into<Text>, to: impl Into<Text>) -> Self {
        self.edges.push(Edge::new(from, to));
        self
    }
}

#[derive(Clone, Debug)]
pub struct Sealing {
    pub flow: FlowId,
    /// These members; without any all of them, and then the flow.
    pub keys: Option<Vec<Text>>,
    pub within: Within,
    pub request_id: Option<Bytes>,
}

impl Sealing {
    pub fn new(flow: FlowId) -> Self {
        Self { flow, keys: None, within: None, request_id: None }
    }
}

#[derive(Clone, Debug)]
pub struct FlowCancellation {
    pub flow: FlowId,
    pub remaining: Remaining,
    pub reason: Text,
    /// How long to wait until nothing of it lives.
    pub wait_ms: u64,
    pub request_id: Option<Bytes>,
    pub expected_revision: Option<weft_core::CommitId>,
}

impl FlowCancellation {
    /// Everything that lives is cancelled at once.
    pub fn new(flow: FlowId, reason: impl Into<Text>) -> Self {
        Self {
            flow,
            remaining: Remaining::Cancel(Mode::Immediate),
            reason: reason.into(),
            wait_ms: 0,
            request_id: None,
            expected_revision: None,
        }
    }

    pub fn remaining(mut self, remaining: Remaining) -> Self {
        self.remaining = remaining;
        self
    }

    pub fn wait_ms(mut self, ms: u64) -> Self {
        self.wait_ms = ms;
        self
    }
}

#[derive(Clone, Debug)]
pub struct Declaring {
    pub flow: FlowId,
    pub outcome: FlowOutcome,
    pub reason: Text,
    pub within: Within,
    pub request_id: Option<Bytes>,
}

#[derive(Clone, Debug)]
pub struct FlowChange {
    pub flow: FlowId,
    pub set: BTreeMap<Text, Text>,
    pub remove: Vec<Text>,
    pub growth: Option<Growth>,
    pub reason: Text,
    pub request_id: Option<Bytes>,
    pub expected_revision: Option<weft_core::CommitId>,
}
