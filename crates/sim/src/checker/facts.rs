//! What the commits have shown so far and no later commit can take back: leases, ends, inputs, traces of calls. Only a loss
//! of commits takes back what they showed.

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use weft_core::record::execution::{Execution, LeaseEnd, State};
use weft_core::text::{Capabilities, Text};
use weft_core::{ExecutionId, LeaseId, PartitionId, Time};

#[derive(Clone, Default)]
pub struct Facts {
    /// Every lease ever committed.
    pub leases: BTreeMap<LeaseId, LeaseFact>,
    /// How each lease ended, by execution and epoch.
    pub ends: BTreeMap<(ExecutionId, u64), EndFact>,
    pub inputs: BTreeMap<ExecutionId, Option<Bytes>>,
    pub purged: BTreeSet<ExecutionId>,
    /// Until when its idempotency key is bound, whatever becomes of it.
    pub bound_until: BTreeMap<ExecutionId, Time>,
    /// Executions that were cancelled, failed or forced at some time.
    pub outcomes: BTreeSet<(ExecutionId, &'static str)>,
    pub replays: BTreeMap<ExecutionId, u32>,
    /// Tokens of calls that were seen in a record or an event, with the partition of it.
    pub traces: BTreeMap<Text, PartitionId>,
    /// The number of the step that has a name, by execution and first number of the run.
    pub steps: BTreeMap<(ExecutionId, u32, Text), u32>,
    /// What each worker process offers.
    pub offers: BTreeMap<Text, Offer>,
    pub waiters: BTreeMap<u64, Waiter>,
    /// Flows that were ever committed.
    pub flows: BTreeSet<weft_core::FlowId>,
    /// Flows that are done and were not opened again.
    pub flows_done: BTreeSet<weft_core::FlowId>,
    /// Members that the commit at hand purged.
    pub members_purged: Vec<(ExecutionId, weft_core::FlowId)>,
    /// Store time at which an execution became ready, as long as it is.
    pub ready_since: BTreeMap<ExecutionId, u64>,
}

#[derive(Clone)]
pub struct LeaseFact {
    pub execution: ExecutionId,
    pub epoch: u64,
    /// Generation of the partition at the commit that issued it.
    pub generation: u64,
    pub acquired_ms: u64,
    /// Store time of the commit that ended it.
    pub ended_ms: Option<u64>,
}

#[derive(Clone)]
pub struct EndFact {
    pub lease: LeaseId,
    pub end: LeaseEnd,
    pub at_ms: u64,
}

/// What a worker asks for, in every claim alike.
#[derive(Clone, Debug)]
pub struct Offer {
    pub lanes: Vec<Text>,
    pub kinds: Option<Vec<Text>>,
    pub capabilities: Capabilities,
}

impl Offer {
    pub fn fits(&self, execution: &Execution) -> bool {
        let spec = &execution.spec;
        self.lanes.contains(&spec.lane)
            && self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&spec.kind))
            && self.covers(&spec.capabilities)
    }

    /// Written without the engine's own check: token by token on the joined text.
    fn covers(&self, needed: &Capabilities) -> bool {
        let offered: BTreeSet<&str> = self.capabilities.joined().split(',').collect();
        needed.joined().split(',').filter(|token| !token.is_empty()).all(|token| offered.contains(token))
    }
}

/// A claim that waits on a node.
#[derive(Clone)]
pub struct Waiter {
    pub instance: Text,
    pub since_ms: u64,
    pub until_ms: u64,
}

impl Facts {
    /// Replaces the facts of a partition by those of `then`.
    pub fn go_back(&mut self, partition: PartitionId, then: &Facts, now_ms: u64) {
        let is = |id: &ExecutionId| id.partition() == partition;
        replace(&mut self.leases, &then.leases, |_, fact| is(&fact.execution));
        replace(&mut self.ends, &then.ends, |(id, _), _| is(id));
        replace(&mut self.inputs, &then.inputs, |id, _| is(id));
        replace_in_set(&mut self.purged, &then.purged, is);
        replace(&mut self.bound_until, &then.bound_until, |id, _| is(id));
        replace_in_set(&mut self.outcomes, &then.outcomes, |(id, _)| is(id));
        replace(&mut self.replays, &then.replays, |id, _| is(id));
        replace(&mut self.traces, &then.traces, |_, of| *of == partition);
        replace(&mut self.steps, &then.steps, |(id, _, _), _| is(id));
        replace_in_set(&mut self.flows, &then.flows, |id| id.partition() == partition);
        replace_in_set(&mut self.flows_done, &then.flows_done, |id| id.partition() == partition);
        replace(&mut self.ready_since, &then.ready_since, |id, _| is(id));
        // Whatever is ready in the restored state became ready just now.
        self.ready_since.iter_mut().filter(|(id, _)| is(id)).for_each(|(_, since_ms)| *since_ms = now_ms);
    }

    pub fn is_ready(execution: &Execution) -> bool {
        matches!(execution.hot.state, State::Ready { .. })
    }
}

fn replace<K: Ord + Clone, V: Clone>(
    now: &mut BTreeMap<K, V>,
    then: &BTreeMap<K, V>,
    is_of_partition: impl Fn(&K, &V) -> bool,
) {
    now.retain(|key, value| !is_of_partition(key, value));
    let saved = then.iter().filter(|(key, value)| is_of_partition(key, value));
    now.extend(saved.map(|(key, value)| (key.clone(), value.clone())));
}

fn replace_in_set<K: Ord + Clone>(now: &mut BTreeSet<K>, then: &BTreeSet<K>, is_of_partition: impl Fn(&K) -> bool) {
    now.retain(|key| !is_of_partition(key));
    now.extend(then.iter().filter(|key| is_of_partition(key)).cloned());
}
