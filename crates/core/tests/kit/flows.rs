//! Flows for tests: graphs in one line, members by their keys, and the invariants of a flow after every commit.

use super::World;
use super::calls::{self, ann, call, fence};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weft_core::change::{Batch, DueEntry};
use weft_core::command::*;
use weft_core::error::Rejection;
use weft_core::flow::plan::Plan;
use weft_core::flow::{evaluate, member_id, recount};
use weft_core::id::{ExecutionId, FlowId};
use weft_core::record::continuation::Work;
use weft_core::record::edge::On;
use weft_core::record::execution::{Execution, Hold, HoldKey, State};
use weft_core::record::flow::{CompletionPolicy, FailurePolicy, Flow, Growth, Purging, Summary};
use weft_core::record::member::{GroupPolicy, GroupState, MAIN, Then};
use weft_core::record::{Edge, Key, Record};
use weft_core::reply::{Claimed, FlowSubmitted, Reply, Verified};
use weft_core::schema::Timer;
use weft_core::time::Time;

pub fn blank_flow() -> NewFlow {
    NewFlow {
        kind: "etl".into(),
        name: None,
        tags: BTreeMap::new(),
        failure: FailurePolicy::Isolate,
        completion: CompletionPolicy::AllTerminal,
        growth: Growth::Dynamic,
        seal: true,
        seal_by_ms: None,
        deadline: None,
        retention_ms: Some(86_400_000),
        idempotency_key: None,
        idempotency_ttl_ms: 86_400_000,
        trace: None,
        members: Vec::new(),
        edges: Vec::new(),
    }
}

pub fn member(key: &str) -> NewMember {
    let mut submit = calls::submit();
    submit.policy.retry.max_retries = 0;
    NewMember { key: key.into(), critical: true, groups: Vec::new(), submit }
}

/// An edge as `a>b`; `a!>b` on failure, `a*>b` on any end, `a>b@g` in a group, `a>b=x` with a name.
pub fn edge(text: &str) -> NewEdge {
    let (from, rest) = text.split_once('>').expect("an edge");
    let (rest, input) = rest.split_once('=').map_or((rest, None), |(rest, input)| (rest, Some(input)));
    let (to, group) = rest.split_once('@').unwrap_or((rest, MAIN));
    let (from, on) = match (from.strip_suffix('!'), from.strip_suffix('*')) {
        (Some(from), _) => (from, On::Failure),
        (_, Some(from)) => (from, On::Any),
        _ => (from, On::Success),
    };
    NewEdge { from: from.into(), to: to.into(), group: group.into(), policy: None, on, input: input.map(Into::into) }
}

/// Members and edges of a line like `a b c a>c b>c`.
pub fn graph(line: &str) -> (Vec<NewMember>, Vec<NewEdge>) {
    let (edges, members): (Vec<&str>, Vec<&str>) = line.split_whitespace().partition(|word| word.contains('>'));
    (members.into_iter().map(member).collect(), edges.into_iter().map(edge).collect())
}

/// Gives the group of a member a policy.
pub fn policy(flow: &mut NewFlow, key: &str, group: &str, policy: GroupPolicy, then: Then) {
    let member = flow.members.iter_mut().find(|member| *member.key == *key).expect("a member");
    member.groups.push(NewGroup { name: group.into(), policy, then });
}

impl World {
    pub fn fresh_flow(&mut self) -> FlowId {
        let uuid = self.fresh();
        FlowId::new(super::PARTITION, uuid)
    }

    pub fn try_flow(&mut self, line: &str, change: impl FnOnce(&mut NewFlow)) -> Result<FlowSubmitted, Rejection> {
        let (members, edges) = graph(line);
        let mut flow = NewFlow { members, edges, ..blank_flow() };
        change(&mut flow);
        self.submit_flow(flow)
    }

    pub fn submit_flow(&mut self, flow: NewFlow) -> Result<FlowSubmitted, Rejection> {
        let plan = Arc::new(Plan::new(flow, &self.limits, self.now)?);
        let (mut id, mut from) = (self.fresh_flow(), 0);
        loop {
            let command = Command::SubmitFlow(SubmitFlow { id: Some(id), plan: plan.clone(), from });
            match self.run(command)? {
                Reply::FlowSubmitted(done) => return Ok(*done),
                Reply::FlowBuilding { flow, next } => (id, from) = (flow, next),
                other => panic!("{other:?}"),
            }
        }
    }

    /// A flow of this line.
    pub fn flow_of(&mut self, line: &str, change: impl FnOnce(&mut NewFlow)) -> FlowId {
        self.try_flow(line, change).unwrap_or_else(|refused| panic!("{line}: {refused}")).id
    }

    pub fn flow(&self, id: FlowId) -> Flow {
        match self.record(Key::Flow(id)) {
            Some(Record::Flow(flow)) => *flow,
            _ => panic!("{id} is there"),
        }
    }

    pub fn member(&self, flow: FlowId, key: &str) -> Execution {
        self.execution(member_id(flow, key))
    }

    /// The public state of a member.
    pub fn state(&self, flow: FlowId, key: &str) -> &'static str {
        self.member(flow, key).public_state().name()
    }

    /// The public states of several.
    pub fn states(&self, flow: FlowId, keys: &str) -> Vec<&'static str> {
        keys.split_whitespace().map(|key| self.state(flow, key)).collect()
    }

    pub fn flow_state(&self, flow: FlowId) -> &'static str {
        self.flow(flow).public_state().name()
    }

    pub fn claim_member(&mut self, flow: FlowId, key: &str) -> Claimed {
        self.claim(member_id(flow, key))
    }

    pub fn complete_member(&mut self, flow: FlowId, key: &str) {
        let claimed = self.claim_member(flow, key);
        self.run(calls::complete(claimed.id, fence(&claimed), Some(b"done"))).expect("a good completion");
    }

    /// Fails it for good.
    pub fn fail_member(&mut self, flow: FlowId, key: &str) {
        let claimed = self.claim_member(flow, key);
        self.run(calls::fail(claimed.id, fence(&claimed))).expect("a good failure");
    }

    pub fn edges_of(&self, flow: FlowId) -> Vec<Edge> {
        let edges = self.records.keys().filter(|key| matches!(key, Key::Edge(..)));
        let edges = edges.filter_map(|key| match self.record(*key) {
            Some(Record::Edge(edge)) if edge.body.flow == flow => Some(*edge),
            _ => None,
        });
        edges.collect()
    }

    pub fn members_of(&self, flow: FlowId) -> Vec<Execution> {
        let of_flow = |execution: &Execution| execution.member().is_some_and(|member| member.flow == flow);
        self.executions().filter(of_flow).collect()
    }

    pub fn grow(&mut self, flow: FlowId, line: &str) -> Result<Reply, Rejection> {
        let (members, edges) = graph(line);
        let grow = GrowFlow { flow, members, edges, seal: true, expected_revision: None, within: None };
        self.run(Command::GrowFlow(Box::new(grow)))
    }

    /// Seals all members and then the flow, as the engine does: a large flow is looked at in several calls.
    pub fn seal_flow(&mut self, flow: FlowId) -> Result<Reply, Rejection> {
        let mut checked = None;
        loop {
            match self.run(Command::SealFlow(SealFlow { flow, keys: None, within: None, checked }))? {
                Reply::FlowChecked { after } => checked = Some(after),
                reply => return Ok(reply),
            }
        }
    }

    /// The members as a store shows them, added up.
    pub fn recount(&self, flow: FlowId) -> Summary {
        let mut counted = Summary::default();
        self.members_of(flow).iter().for_each(|execution| recount(execution, &mut counted));
        for key in self.records.keys() {
            if matches!(key, Key::Tombstone(_))
                && let Some(Record::Tombstone(stone)) = self.record(*key)
                && stone.body.flow == flow
            {
                weft_core::flow::recount_purged(&stone, &mut counted);
            }
        }
        counted
    }

    /// Whether a member that cannot be read was given up: nobody knows its edges.
    fn has_given_up(&self, flow: FlowId) -> bool {
        let of_flow =
            |key: &Key| matches!(self.record(*key), Some(Record::Tombstone(stone)) if stone.body.flow == flow);
        let is_left = |key: &&Key| matches!(key, Key::Tombstone(id) if self.records.contains_key(&Key::Execution(*id)));
        self.records.keys().filter(is_left).any(of_flow)
    }

    pub fn verify_flow(&mut self, flow: FlowId, due: Time) -> Result<Verified, Rejection> {
        let (change_no, counted) = (self.flow(flow).summary.change_no, Box::new(self.recount(flow)));
        let edges = !self.has_given_up(flow);
        let command = Command::VerifyFlow(VerifyFlow { flow, due, change_no, counted, edges, now: self.now });
        match self.call(&Call { principal: Principal::engine(), ..call(command) })? {
            Reply::Verified(verified) => Ok(verified),
            other => panic!("{other:?}"),
        }
    }

    pub fn audit_flow(&mut self, flow: FlowId, due: Time) -> Result<Reply, Rejection> {
        let pending = self.edges_of(flow).into_iter().filter(|edge| edge.body.resolved.is_none());
        let mut ended: Vec<(ExecutionId, u32)> =
            pending.map(|edge| (edge.upstream, edge.number)).filter(|(id, _)| self.execution(*id).is_done()).collect();
        ended.dedup_by_key(|(id, _)| *id);
        let command = Command::AuditFlow(AuditFlow { flow, due, ended });
        self.call(&Call { principal: Principal::engine(), ..call(command) })
    }

    /// Checks all flows that the commit touched; very large ones now and then.
    pub(super) fn check_flows(&self, batch: &Batch) {
        if self.planted {
            return;
        }
        let flows: BTreeSet<FlowId> = batch
            .writes
            .iter()
            .filter_map(|write| match (write.key, self.record(write.key)) {
                (Key::Flow(id), Some(_)) => Some(id),
                (_, Some(Record::Execution(execution))) => execution.member().map(|member| member.flow),
                _ => None,
            })
            .collect();
        for id in flows {
            let flow = self.flow(id);
            if flow.summary.total_members < 500 || self.commits.is_multiple_of(40) {
                self.check_flow(&flow);
            }
        }
    }

    fn check_flow(&self, flow: &Flow) {
        let id = flow.id;
        if flow.hot.building.is_some() || matches!(flow.hot.purging, Some(Purging::Whole { .. })) {
            return;
        }
        assert_eq!(flow.public_state().is_terminal(), flow.is_done(), "FL-171 {id}");
        let counted = self.recount(id);
        assert_eq!(counted.by_state, flow.summary.by_state, "FL-230 {id}");
        assert_eq!(counted.total_members, flow.summary.total_members, "FL-230 {id}");
        assert_eq!(counted.failures, flow.summary.failures, "FL-230 {id}");
        assert_eq!(counted.members_neutral, flow.summary.members_neutral, "FL-230 {id}");
        assert_eq!(counted.members_purged, flow.summary.members_purged, "FL-230 {id}");
        let of_members = (counted.edges_total, counted.edges_pending);
        assert_eq!(of_members, (flow.summary.edges_total, flow.summary.edges_pending), "FL-180 {id}");
        let members: BTreeMap<ExecutionId, Execution> =
            self.members_of(id).into_iter().map(|execution| (execution.id, execution)).collect();
        let unsealed = members.values().filter(|execution| sealed(execution) == Some(false)).count();
        assert_eq!(unsealed as u32, flow.hot.unsealed, "FL-56 {id}");
        let edges = self.edges_of(id);
        assert_eq!(edges.len() as u64, flow.summary.edges_total, "FL-230 {id}");
        let pending = edges.iter().filter(|edge| edge.body.resolved.is_none()).count();
        assert_eq!(pending as u64, flow.summary.edges_pending, "FL-230 {id}");
        let owing = members
            .values()
            .flat_map(|it| &it.member().expect("a member").groups)
            .filter(|it| it.owed.is_some())
            .count();
        let works =
            members.keys().flat_map(|id| [Work::Resolve, Work::Reopen].map(|work| Key::Continuation(*id, work)));
        let works = works.filter(|key| self.records.contains_key(key)).count();
        assert_eq!(((owing + works) as u32, owing as u32), (flow.hot.works, flow.hot.owing), "FL-233 {id}");
        assert!(!flow.is_done() || flow.hot.works == 0, "FL-231 {id}");
        self.check_edges(&members, &edges);
        assert_eq!(self.stuck(id), "", "FL-234 {id}");
    }

    /// The keys of live members that nothing would ever bring forward.
    pub fn stuck(&self, flow: FlowId) -> String {
        let edges = self.edges_of(flow);
        let stuck = |execution: &Execution| match &execution.hot.state {
            State::Ready { .. } | State::Done { .. } => false,
            State::Active { .. } => !self.is_armed(execution.key(), Timer::Lease),
            State::Delayed { .. } => !self.is_armed(execution.key(), Timer::Until),
            State::Blocked { holds, .. } => holds.iter().any(|hold| !self.has_lifter(flow, execution, hold, &edges)),
        };
        let is_leaving = self.is_armed(Key::Flow(flow), Timer::FlowEnding);
        let members = self.members_of(flow).into_iter().filter(|execution| !is_leaving && stuck(execution));
        let mut keys: Vec<String> = members.map(|it| it.member().expect("a member").key.to_string()).collect();
        keys.sort();
        keys.join(" ")
    }

    fn is_armed(&self, key: Key, timer: Timer) -> bool {
        let bytes = key.to_bytes();
        let is_of = |entry: &DueEntry| entry.kind == key.kind() as u8 && entry.key == bytes.as_slice();
        self.due.iter().any(|entry| entry.timer() == Some(timer) && is_of(entry))
    }

    /// Whether somebody is there who may lift the hold.
    fn has_lifter(&self, flow: FlowId, execution: &Execution, hold: &Hold, edges: &[Edge]) -> bool {
        let lives = |id: ExecutionId| self.records.contains_key(&Key::Execution(id)) && !self.execution(id).is_done();
        let works = |id: ExecutionId| {
            let works = [Work::Resolve, Work::Reopen].map(|work| Key::Continuation(id, work));
            works.iter().any(|key| self.records.contains_key(key))
        };
        match hold {
            Hold::Operator { .. } => true,
            Hold::Children(wait) => {
                wait.children.iter().any(|id| lives(*id)) || self.is_armed(execution.key(), Timer::ChildrenTimeout)
            }
            Hold::Dependencies { sealed: false, .. } => {
                [Timer::SealBy, Timer::FlowSeal].into_iter().any(|timer| self.is_armed(Key::Flow(flow), timer))
            }
            Hold::Dependencies { .. } => {
                let pending = |it: &&Edge| it.body.downstream == execution.id && it.body.resolved.is_none();
                edges.iter().filter(pending).any(|edge| lives(edge.upstream) || works(edge.upstream))
            }
        }
    }

    fn check_edges(&self, members: &BTreeMap<ExecutionId, Execution>, edges: &[Edge]) {
        let mut counts: BTreeMap<(ExecutionId, u8), (u32, u32, u32)> = BTreeMap::new();
        for edge in edges {
            let Some(downstream) = members.get(&edge.body.downstream) else { continue };
            let count = counts.entry((downstream.id, edge.body.group)).or_default();
            count.0 += 1;
            match edge.body.resolved {
                Some(end) if end.met => count.1 += 1,
                Some(_) => count.2 += 1,
                None => {}
            }
            if let Some(upstream) = members.get(&edge.upstream) {
                let ranks = (upstream.member().expect("a member").rank, downstream.member().expect("a member").rank);
                assert!(ranks.0 < ranks.1, "FL-222 {edge:?} {ranks:?}");
                let covered = self.records.contains_key(&Key::Continuation(upstream.id, Work::Resolve));
                let open = edge.body.resolved.is_none() && upstream.is_done() && !covered;
                assert!(!open, "FL-226 {edge:?} of {:?}", upstream.hot.state);
            }
        }
        for execution in members.values() {
            let member = execution.member().expect("a member");
            for (at, group) in member.groups.iter().enumerate() {
                let seen = counts.get(&(execution.id, at as u8)).copied().unwrap_or_default();
                assert_eq!(seen, (group.n, group.met, group.unmet), "FL-225 {} of {}", group.name, member.key);
                let k = group.policy.needed(group.n);
                if group.state == GroupState::Pending && sealed(execution) == Some(true) {
                    let now = evaluate(true, k, group.n, group.met, group.unmet);
                    assert_eq!(now, GroupState::Pending, "FL-33 {} of {} is decided", group.name, member.key);
                }
                let holds = match group.state {
                    GroupState::Pending => true,
                    GroupState::Satisfied => group.waived || group.met >= k,
                    GroupState::Impossible => group.unmet > group.n - k,
                };
                assert!(holds, "FL-225 {} of {} is {:?}: {group:?}", group.name, member.key, group.state);
            }
        }
    }

    /// Runs continuations and timers that are due now, until nothing is left.
    pub fn run_on(&mut self) {
        self.scan();
    }

    /// A call in the name of a running member.
    pub fn within(&mut self, claimed: &Claimed, line: &str) -> Result<Reply, Rejection> {
        let (members, edges) = graph(line);
        let flow = claimed.flow.as_ref().expect("a member").0;
        let within = Some((claimed.id, fence(claimed)));
        let grow = GrowFlow { flow, members, edges, seal: true, expected_revision: None, within };
        self.call(&Call { principal: ann(), ..call(Command::GrowFlow(Box::new(grow))) })
    }
}

/// Whether the edges of a member that waits for them are known; `None` if it does not wait.
fn sealed(execution: &Execution) -> Option<bool> {
    let State::Blocked { holds, .. } = &execution.hot.state else { return None };
    match holds.get(HoldKey::Dependencies) {
        Some(Hold::Dependencies { sealed, .. }) => Some(*sealed),
        _ => None,
    }
}
