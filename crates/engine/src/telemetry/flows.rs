//! What flows did, as the events and writes of applied commits tell, and what scanners found in them.

use super::histogram::Shared;
use crate::stats::Counter;
use std::collections::BTreeMap;
use weft_core::change::{Change, Write};
use weft_core::event::{Event, Fact};
use weft_core::record::execution::{Outcome, Reason};
use weft_core::record::flow::FlowOutcome;
use weft_core::record::member::{EndedBy, GroupState, SiblingResult, SiblingResults};
use weft_core::record::{Key, Record};
use weft_core::reply::Reconciled;
use weft_core::schema::Value;
use weft_core::{ExecutionId, FlowId};

/// What one commit adds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FlowTally {
    /// Outcome and duration of those that are done.
    pub finished: Vec<(FlowOutcome, u64)>,
    /// Policy and verdict of groups.
    pub decided: BTreeMap<(&'static str, &'static str), u64>,
    pub met: u64,
    pub unmet: u64,
    pub skipped: u64,
    /// Siblings that were cancelled, by the verdict that did it.
    pub siblings: BTreeMap<&'static str, u64>,
    /// Those of them, until their records tell the verdict.
    ends: Vec<ExecutionId>,
    /// What became of the siblings that decided groups looked at.
    pub results: SiblingResults,
    /// Flows in which the audit found ended upstreams with pending edges, and how many such upstreams.
    pub mended: Vec<(FlowId, u32)>,
    /// Members that ended, in the order of their events.
    ended: Vec<ExecutionId>,
    /// Edges that the commit resolved; nothing if there are none.
    resolution: Option<Resolution>,
}

/// Edges that one commit resolved, for its log line.
#[derive(Debug, PartialEq, Eq)]
struct Resolution {
    /// The upstream whose end began it; of several, the one that ended first.
    execution: ExecutionId,
    flow: FlowId,
    /// Upstreams of the resolved edges: the one that ended, and those that were skipped because of it.
    upstreams: usize,
    /// Edges of the flows that the commit wrote.
    total: u64,
}

const POLICIES: [&str; 3] = ["all_of", "any_of", "quorum"];

impl FlowTally {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn count(&mut self, event: &Event) {
        let mut decided = |policy: &str, verdict: GroupState| {
            let policy = POLICIES.into_iter().find(|known| *known == policy).unwrap_or("other");
            *self.decided.entry((policy, verdict.name())).or_default() += 1;
        };
        match &event.fact {
            Fact::GroupSatisfied { policy, .. } => decided(policy, GroupState::Satisfied),
            Fact::GroupImpossible { policy, .. } => decided(policy, GroupState::Impossible),
            Fact::FlowFinished { outcome, duration_ms, .. } => self.finished.push((*outcome, *duration_ms)),
            Fact::Finished { outcome: Outcome::Skipped, .. } => self.skipped += 1,
            Fact::Finished { reason: Reason::Sibling, .. } => self.ends.extend(event.execution),
            Fact::ScannerRepaired { flow, items, .. } => self.mended.push((*flow, *items)),
            _ => {}
        }
        if let (Fact::Finished { .. }, Some(_)) = (&event.fact, event.flow) {
            self.ended.extend(event.execution);
        }
    }

    pub fn look_at(&mut self, writes: &[Write], records: &[(Key, Option<Record>)]) {
        const STATE: usize = 3;
        let is =
            |facets: &[Value], state: &str| matches!(facets.get(STATE), Some(Value::Text(text)) if **text == *state);
        let mut upstreams: BTreeMap<ExecutionId, Key> = BTreeMap::new();
        for write in writes {
            let Key::Edge(upstream, _) = write.key else { continue };
            let (fresh, body) = match &write.what {
                Change::Insert(body) => (true, body),
                Change::Update { old, body } => (is(old, "pending"), body),
                Change::Delete { .. } => continue,
            };
            let [met, unmet] = ["met", "unmet"].map(|state| fresh && is(&body.facets, state));
            self.met += u64::from(met);
            self.unmet += u64::from(unmet);
            if met || unmet {
                upstreams.entry(upstream).or_insert(write.key);
            }
        }
        let record = |key: Key| {
            let place = records.binary_search_by_key(&key, |(key, _)| *key).ok()?;
            records[place].1.as_ref()
        };
        for id in std::mem::take(&mut self.ends) {
            if let Some(Record::Execution(execution)) = record(Key::Execution(id))
                && let Some(EndedBy::Sibling { verdict, .. }) = execution.member().and_then(|it| it.cause.as_ref())
            {
                *self.siblings.entry(verdict.name()).or_default() += 1;
            }
        }
        let ended = std::mem::take(&mut self.ended);
        let first = ended.iter().find_map(|id| upstreams.get_key_value(id)).or_else(|| upstreams.first_key_value());
        if let Some((execution, edge)) = first
            && let Some(Record::Edge(edge)) = record(*edge)
        {
            let edges = records.iter().filter_map(|(_, record)| match record {
                Some(Record::Flow(flow)) => Some(flow.summary.edges_total),
                _ => None,
            });
            let (execution, flow, upstreams) = (*execution, edge.body.flow, upstreams.len());
            self.resolution = Some(Resolution { execution, flow, upstreams, total: edges.sum() });
        }
    }
}

/// All that was counted since the node started.
#[derive(Default)]
pub struct FlowMeters {
    pub finished: [Counter; 3],
    pub finish: Shared,
    pub met: Counter,
    pub unmet: Counter,
    pub skipped: Counter,
    pub repairs: Counter,
    /// Upstreams whose end was told by the audit.
    pub mended: Counter,
    results: [Counter; SiblingResult::ALL.len()],
    reconciled: [Counter; 3],
}

impl FlowMeters {
    pub fn applied(&self, tally: &FlowTally) {
        for (outcome, ms) in &tally.finished {
            self.finished[*outcome as usize].add(1);
            self.finish.add_us(ms.saturating_mul(1_000));
        }
        let counts = [
            (&self.met, tally.met),
            (&self.unmet, tally.unmet),
            (&self.skipped, tally.skipped),
            (&self.mended, tally.mended.iter().map(|(_, items)| u64::from(*items)).sum()),
        ];
        let results = self.results.iter().zip(tally.results.map(u64::from));
        for (counter, by) in counts.into_iter().chain(results).filter(|(_, by)| *by > 0) {
            counter.add(by);
        }
        for (flow, upstreams) in &tally.mended {
            let scanner = "dependency_reconciler";
            tracing::warn!(scanner, %flow, upstreams, "edges were pending although their upstream has ended, and are resolved now");
        }
        if let Some(Resolution { execution, flow, upstreams, total }) = &tally.resolution {
            let (resolved, skipped) = (tally.met + tally.unmet, tally.skipped);
            match skipped {
                0 => tracing::debug!(%execution, %flow, upstreams, resolved, total, skipped, "edges resolved"),
                _ => tracing::info!(%execution, %flow, upstreams, resolved, total, skipped, "edges resolved"),
            }
        }
    }

    pub fn reconciled(&self, action: Reconciled) {
        self.reconciled[action as usize].add(1);
    }

    pub fn by_result(&self) -> impl Iterator<Item = (&'static str, u64)> {
        SiblingResult::ALL.into_iter().map(|result| (result.name(), self.results[result as usize].get()))
    }

    pub fn by_action(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Reconciled::ALL.into_iter().map(|action| (action.name(), self.reconciled[action as usize].get()))
    }

    pub fn repaired(&self) {
        self.repairs.add(1);
    }
}
