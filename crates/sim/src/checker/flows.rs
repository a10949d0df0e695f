//! Flows after every commit: totals against a recount, groups against their edges, nobody started too early, nothing
//! decided twice.

use super::Judge;
use std::collections::{BTreeMap, BTreeSet};
use weft_core::event::{Event, Fact};
use weft_core::flow::{evaluate, recount, recount_purged};
use weft_core::record::continuation::Work;
use weft_core::record::execution::{Execution, Hold, HoldKey, State};
use weft_core::record::flow::{Flow, Purging, Remaining, State as FlowState, Summary};
use weft_core::record::member::GroupState;
use weft_core::record::{Edge, Key, Record};
use weft_core::{ExecutionId, FlowId};
use weft_store::memory::Committed;

/// Whether the edges of a member that waits for them are known; `None` if it does not wait.
pub(super) fn sealed(execution: &Execution) -> Option<bool> {
    let State::Blocked { holds, .. } = &execution.hot.state else { return None };
    match holds.get(HoldKey::Dependencies) {
        Some(Hold::Dependencies { sealed, .. }) => Some(*sealed),
        _ => None,
    }
}

impl Judge {
    /// Everything about the flows that a commit touched. To be called when all its writes have been taken.
    pub(super) fn check_flows(&mut self, commit: &Committed<'_>, events: &[Event]) {
        self.check_purged(events);
        self.check_flow_events(events);
        let mut flows: BTreeSet<FlowId> = BTreeSet::new();
        for write in &commit.batch.writes {
            match (write.key, self.records.get(&write.key).map(|seen| &seen.record)) {
                (Key::Flow(id), _) => flows.extend([id]),
                (_, Some(Record::Execution(execution))) => flows.extend(execution.member().map(|member| member.flow)),
                (_, Some(Record::Edge(edge))) => flows.extend([edge.body.flow]),
                _ => {}
            }
        }
        for id in flows {
            let Some(Record::Flow(flow)) = self.record(&Key::Flow(id)).cloned() else { continue };
            let going = matches!(flow.hot.purging, Some(Purging::Whole { .. }));
            if flow.hot.building.is_none() && !going {
                for what in self.wrong_in(&flow) {
                    self.violation(what.0, format!("{id}: {}", what.1));
                }
            }
        }
    }

    /// FL-201: a member goes after the end of its flow, be it in the same commit.
    fn check_purged(&mut self, events: &[Event]) {
        for (id, flow) in std::mem::take(&mut self.facts.members_purged) {
            let over = match self.record(&Key::Flow(flow)) {
                Some(Record::Flow(flow)) => flow.is_done() || flow.hot.purging.is_some(),
                _ => true,
            };
            let ends = |event: &Event| matches!(&event.fact, Fact::FlowFinished { flow: ended, .. } if *ended == flow);
            if !(over || self.facts.flows_done.contains(&flow) || events.iter().any(ends)) {
                self.violation("FL-201", format!("{id} was purged before its flow was done"));
            }
        }
    }

    /// FL-33: a group is decided once per opening; FL: one `finished` per end of a flow.
    fn check_flow_events(&mut self, events: &[Event]) {
        for event in events {
            match &event.fact {
                Fact::GroupImpossible { .. } => self.sometimes("group impossible"),
                Fact::FlowRepaired { flow, .. } => {
                    self.violation("SR-71", format!("the totals of {flow} were repaired"))
                }
                Fact::ScannerRepaired { scanner, flow, .. } => {
                    self.violation("SR-71", format!("`{scanner}` repaired {flow}"))
                }
                Fact::FlowReopened { .. } => self.sometimes("flow reopened"),
                Fact::FlowFinished { flow, .. } => {
                    let flow = *flow;
                    let open = self.facts.flows_done.insert(flow);
                    if !open {
                        self.violation("FL-231", format!("{flow} was finished twice without being reopened"));
                    }
                }
                _ => {}
            }
            if let Fact::FlowReopened { flow, .. } = &event.fact {
                self.facts.flows_done.remove(flow);
            }
        }
    }

    fn wrong_in(&self, flow: &Flow) -> Vec<(&'static str, String)> {
        let mut wrong = Vec::new();
        let of_flow = |execution: &&Execution| execution.member().is_some_and(|member| member.flow == flow.id);
        let members: BTreeMap<ExecutionId, &Execution> =
            self.executions().filter(of_flow).map(|execution| (execution.id, execution)).collect();
        let edges: Vec<&Edge> = self.edges_of(flow.id);
        let mut counted = Summary::default();
        members.values().for_each(|execution| recount(execution, &mut counted));
        for seen in self.records.values() {
            if let Record::Tombstone(stone) = &seen.record
                && stone.body.flow == flow.id
            {
                recount_purged(stone, &mut counted);
            }
        }
        let summary = &flow.summary;
        let told = |it: &Summary| (it.by_state, it.total_members, it.failures, it.members_neutral, it.members_purged);
        if told(&counted) != told(summary) {
            wrong.push(("FL-230", format!("totals {:?}, counted {:?}", told(summary), told(&counted))));
        }
        let pending = edges.iter().filter(|edge| edge.body.resolved.is_none()).count() as u64;
        if (edges.len() as u64, pending) != (summary.edges_total, summary.edges_pending) {
            let what = format!("edges {} and {} pending, not {}", summary.edges_total, summary.edges_pending, pending);
            wrong.push(("FL-230", what));
        }
        self.check_outcome(flow, &members, &mut wrong);
        self.check_edges(&members, &edges, &mut wrong);
        wrong
    }

    fn edges_of(&self, flow: FlowId) -> Vec<&Edge> {
        let edges = self.records.values().filter_map(|seen| match &seen.record {
            Record::Edge(edge) if edge.body.flow == flow => Some(&**edge),
            _ => None,
        });
        edges.collect()
    }

    /// The pieces of work that are left, and how many of them are groups that owe cancels.
    fn works_of(&self, members: &BTreeMap<ExecutionId, &Execution>) -> (u32, u32) {
        let owed = members.values().filter_map(|it| it.member()).flat_map(|member| &member.groups);
        let owed = owed.filter(|group| group.owed.is_some()).count();
        let keys = members.keys().flat_map(|id| [Work::Resolve, Work::Reopen].map(|work| Key::Continuation(*id, work)));
        ((owed + keys.filter(|key| self.records.contains_key(key)).count()) as u32, owed as u32)
    }

    fn check_outcome(
        &self,
        flow: &Flow,
        members: &BTreeMap<ExecutionId, &Execution>,
        wrong: &mut Vec<(&'static str, String)>,
    ) {
        let (works, owing) = self.works_of(members);
        if (works, owing) != (flow.hot.works, flow.hot.owing) {
            let (knows, groups) = (flow.hot.works, flow.hot.owing);
            let what = format!("{works} pieces of work are left, {owing} of groups; it knows of {knows} and {groups}");
            wrong.push(("FL-233", what));
        }
        let live = members.values().filter(|it| !it.is_done());
        match &flow.hot.state {
            FlowState::Done { .. } if flow.summary.live() > 0 => {
                wrong.push(("FL-231", format!("it is done and {} members live", flow.summary.live())));
            }
            FlowState::Ending(ending) => {
                let owed = live.filter(|it| match ending.remaining {
                    Remaining::Cancel(_) => true,
                    Remaining::FinishActive => !matches!(it.hot.state, State::Active { .. }),
                    Remaining::LetRun => ending.unsealed && sealed(it) == Some(false),
                });
                let owed = owed.count() as u32;
                if owed != flow.summary.cancel_owed {
                    wrong.push(("FL-143", format!("{owed} are owed a cancel, it says {}", flow.summary.cancel_owed)));
                }
            }
            _ => {}
        }
    }

    fn check_edges(
        &self,
        members: &BTreeMap<ExecutionId, &Execution>,
        edges: &[&Edge],
        wrong: &mut Vec<(&'static str, String)>,
    ) {
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
            let Some(upstream) = members.get(&edge.upstream) else { continue };
            if let (Some(from), Some(to)) = (upstream.member(), downstream.member())
                && from.rank >= to.rank
            {
                wrong.push(("FL-222", format!("`{}` is not before `{}`", from.key, to.key)));
            }
            let covered = self.records.contains_key(&Key::Continuation(upstream.id, Work::Resolve));
            if edge.body.resolved.is_none() && upstream.is_done() && !covered {
                wrong.push(("FL-226", format!("an edge of {} is pending though it has ended", upstream.id)));
            }
        }
        for execution in members.values() {
            let Some(member) = execution.member() else { continue };
            for (at, group) in member.groups.iter().enumerate() {
                let seen = counts.get(&(execution.id, at as u8)).copied().unwrap_or_default();
                if seen != (group.n, group.met, group.unmet) {
                    wrong.push(("FL-225", format!("`{}` of `{}` counts otherwise: {seen:?}", group.name, member.key)));
                }
                let verdict = evaluate(true, group.policy.needed(group.n), group.n, group.met, group.unmet);
                let waits = sealed(execution) == Some(true) && group.state == GroupState::Pending;
                if waits && verdict != GroupState::Pending {
                    wrong.push(("FL-227", format!("`{}` of `{}` is decided and waits", group.name, member.key)));
                }
            }
        }
    }

    /// Flows that are not done though all faults are over.
    pub fn unfinished_flows(&self) -> Vec<String> {
        let flows = self.records.values().filter_map(|seen| match &seen.record {
            Record::Flow(flow) if !flow.is_done() => Some(format!("{} {:?}", flow.id, flow.hot)),
            _ => None,
        });
        flows.take(3).collect()
    }
}
