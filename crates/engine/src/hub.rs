//! What a commit is told to inside the node: callers that wait for a change, workers that hold a lease, the scanner
//! runner. Everything here is a hint from memory; nothing depends on its arrival.

use crate::notices::Mailboxes;
use crate::request::ClaimSpec;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use tokio::sync::{Notify, mpsc, oneshot};
use weft_core::record::Audit;
use weft_core::record::worker::Body;
use weft_core::schema::Timer;
use weft_core::text::{Capabilities, Text};
use weft_core::{ExecutionId, PartitionId, Time};

/// A worker process that claimed lately, as `explain` needs it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Of one that registered; its record tells more.
    pub session: Option<u64>,
    pub worker: Text,
    pub lanes: Vec<Text>,
    pub kinds: Option<std::sync::Arc<[Text]>>,
    pub capabilities: Capabilities,
    pub at: Time,
}

impl Seen {
    pub fn of(spec: &ClaimSpec, now: Time) -> Self {
        Self {
            session: spec.session,
            worker: spec.worker.clone(),
            lanes: spec.lanes.iter().map(|wish| wish.lane.clone()).collect(),
            kinds: spec.kinds.clone(),
            capabilities: spec.capabilities.clone(),
            at: now,
        }
    }

    /// Whether both claimed the same, whenever that was.
    pub fn offers_like(&self, other: &Seen) -> bool {
        self.worker == other.worker
            && self.lanes == other.lanes
            && self.kinds == other.kinds
            && self.capabilities == other.capabilities
    }
}

impl From<Body> for Seen {
    fn from(body: Body) -> Self {
        Self {
            session: body.lease_session(),
            worker: body.worker,
            lanes: body.lanes,
            kinds: body.kinds.map(Into::into),
            capabilities: body.capabilities,
            at: body.last_seen_at,
        }
    }
}

/// How long a silent worker counts as live.
pub const WORKER_TTL_MS: u64 = 60_000;
const WORKERS_MAX: usize = 10_000;
/// Looking through all of them costs something, and the next claim of a stranger may be a moment away.
const PRUNE_EVERY_MS: u64 = 1_000;

#[derive(Default)]
pub struct Hub {
    state: Mutex<State>,
    pub mailboxes: Mailboxes,
    /// Who copies the audit log.
    audits: Mutex<Option<mpsc::UnboundedSender<Audit>>>,
    /// Rung when a timer is armed earlier than the runner knows, and at shutdown.
    pub due: Notify,
}

/// A caller's wait. It leaves nothing behind, however it ends.
pub struct Waiting<'a> {
    hub: &'a Hub,
    id: ExecutionId,
    told: oneshot::Receiver<()>,
}

impl Waiting<'_> {
    pub async fn told(&mut self) {
        // Nobody tells any more: whoever waits looks again.
        let _ = (&mut self.told).await;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.told.close();
        self.hub.forget_waits(self.id);
    }
}

/// A caller that waits for something to happen to an execution.
struct Wait {
    /// For its end, and for nothing less.
    end: bool,
    tell: oneshot::Sender<()>,
}

#[derive(Default)]
struct State {
    waits: BTreeMap<ExecutionId, Vec<Wait>>,
    /// The earliest due time of each timer and partition that was committed since the runner last took them.
    hints: BTreeMap<(Timer, PartitionId), Time>,
    /// Store time until which the runner sleeps: only an earlier due time wakes it.
    rests_until: Time,
    /// When the due index should be looked at, on the node's clock.
    look_by: Option<Time>,
    workers: BTreeMap<(Text, Text), Seen>,
    pruned_at: Time,
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves only hints behind, which are good at any moment.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Entries of the audit log from here on, as they are committed by this node. The last who asks gets them.
    pub fn audited(&self) -> mpsc::UnboundedReceiver<Audit> {
        let (tell, told) = mpsc::unbounded_channel();
        *self.audits.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(tell);
        told
    }

    /// Nobody copies the audit log any more.
    pub fn stop_audited(&self) {
        *self.audits.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
    }

    /// An entry of the audit log was committed.
    pub fn audit(&self, entry: &Audit) {
        let mut audits = self.audits.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if audits.as_ref().is_some_and(|tell| tell.send(entry.clone()).is_err()) {
            *audits = None;
        }
    }

    /// Told when the execution ends on this node, or never.
    pub fn end_of(&self, id: ExecutionId) -> Waiting<'_> {
        self.wait(id, true)
    }

    /// Told when the execution changes on this node, or never.
    pub fn change_of(&self, id: ExecutionId) -> Waiting<'_> {
        self.wait(id, false)
    }

    fn wait(&self, id: ExecutionId, end: bool) -> Waiting<'_> {
        let (tell, told) = oneshot::channel();
        self.lock().waits.entry(id).or_default().push(Wait { end, tell });
        Waiting { hub: self, id, told }
    }

    /// True if anybody waits for a change of an execution.
    pub fn is_waited_for(&self) -> bool {
        !self.lock().waits.is_empty()
    }

    /// The execution has changed, and perhaps ended.
    pub fn changed(&self, id: ExecutionId, ended: bool) {
        let mut state = self.lock();
        let Some(waiting) = state.waits.remove(&id) else { return };
        let (told, rest): (Vec<Wait>, Vec<Wait>) = waiting.into_iter().partition(|wait| ended || !wait.end);
        if !rest.is_empty() {
            state.waits.insert(id, rest);
        }
        for wait in told {
            // The caller may have stopped waiting.
            let _ = wait.tell.send(());
        }
    }

    /// Drops the entries of callers that stopped waiting.
    fn forget_waits(&self, id: ExecutionId) {
        let mut state = self.lock();
        if let Some(waiting) = state.waits.get_mut(&id) {
            waiting.retain(|other| !other.tell.is_closed());
            if waiting.is_empty() {
                state.waits.remove(&id);
            }
        }
    }

    /// A timer of `partition` is due at `at`.
    pub fn hint(&self, timer: Timer, partition: PartitionId, at: Time) {
        let mut state = self.lock();
        let hinted = state.hints.entry((timer, partition)).or_insert(at);
        *hinted = at.min(*hinted);
        let wakes = at < state.rests_until;
        drop(state);
        if wakes {
            self.due.notify_one();
        }
    }

    /// Notes that the runner sleeps until `until`; wakes it at once if a hint it has not taken is due before.
    pub fn rest(&self, until: Time) {
        let mut state = self.lock();
        state.rests_until = until;
        let wakes = state.hints.values().any(|at| *at < until);
        drop(state);
        if wakes {
            self.due.notify_one();
        }
    }

    /// Another node has armed a timer, or this one got a partition: the due index is to be looked at by then.
    pub fn look_by(&self, clock: Time) {
        let mut state = self.lock();
        let earlier = state.look_by.is_none_or(|known| clock < known);
        if earlier {
            state.look_by = Some(clock);
            drop(state);
            self.due.notify_one();
        }
    }

    pub fn take_look_by(&self) -> Option<Time> {
        self.lock().look_by.take()
    }

    /// Takes the hints since the last call. Until the runner rests again, no hint wakes it.
    pub fn take_hints(&self) -> BTreeMap<(Timer, PartitionId), Time> {
        let mut state = self.lock();
        state.rests_until = Time::ZERO;
        std::mem::take(&mut state.hints)
    }

    /// A process has claimed. Of more than can be kept the new ones are left out: their records tell of them.
    pub fn seen(&self, spec: &ClaimSpec, now: Time) {
        let key = (spec.namespace.clone(), spec.instance.clone());
        let mut state = self.lock();
        if state.workers.len() >= WORKERS_MAX && !state.workers.contains_key(&key) {
            if now.since(state.pruned_at) < PRUNE_EVERY_MS {
                return;
            }
            state.pruned_at = now;
            state.workers.retain(|_, seen| now.since(seen.at) < WORKER_TTL_MS);
            if state.workers.len() >= WORKERS_MAX {
                return;
            }
        }
        state.workers.insert(key, Seen::of(spec, now));
    }

    /// A worker process has gone.
    pub fn unsee(&self, namespace: &Text, instance: &Text) {
        self.lock().workers.remove(&(namespace.clone(), instance.clone()));
    }

    /// One worker process that never registered, if it claimed lately.
    pub fn worker(&self, namespace: &Text, instance: &Text, now: Time) -> Option<Seen> {
        let state = self.lock();
        let seen = state.workers.get(&(namespace.clone(), instance.clone()));
        seen.filter(|seen| seen.session.is_none() && now.since(seen.at) < WORKER_TTL_MS).cloned()
    }

    /// Namespaces in which something claimed lately.
    pub fn namespaces(&self, now: Time) -> BTreeSet<Text> {
        let state = self.lock();
        let live = state.workers.iter().filter(|(_, seen)| now.since(seen.at) < WORKER_TTL_MS);
        live.map(|((owner, _), _)| owner.clone()).collect()
    }

    /// Workers of a namespace that claimed lately, by instance.
    pub fn workers(&self, namespace: &str, now: Time) -> Vec<(Text, Seen)> {
        let state = self.lock();
        let live = state
            .workers
            .iter()
            .filter(|((owner, _), seen)| owner.as_ref() == namespace && now.since(seen.at) < WORKER_TTL_MS);
        live.map(|((_, instance), seen)| (instance.clone(), seen.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_13_a_wait_that_is_dropped_leaves_nothing_behind() {
        let hub = Hub::default();
        let id = ExecutionId::new(PartitionId(0), uuid::Uuid::nil());
        let (one, other) = (hub.end_of(id), hub.change_of(id));
        drop(one);
        assert!(hub.is_waited_for());
        drop(other);
        assert!(!hub.is_waited_for());
    }
}
