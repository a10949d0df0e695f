//! What a commit is told to inside the node: callers that wait for a change, workers that hold a lease, the scanner
//! runner. Everything here is a hint from memory; nothing depends on its arrival.

use crate::request::ClaimSpec;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use tokio::sync::{Notify, mpsc, oneshot};
use weft_core::record::execution::EndCause;
use weft_core::schema::Timer;
use weft_core::text::{Capabilities, Text};
use weft_core::{ExecutionId, PartitionId, Time};

/// Something a worker should know about a lease it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The execution is cancelled: stop and discard.
    Cancelled { execution: ExecutionId, epoch: u64 },
    /// Finish, save a checkpoint or cancel within the time.
    CancelRequested { execution: ExecutionId, epoch: u64, reason: Text, kill_at: Option<Time> },
    /// The lease is gone: stop and discard.
    LeaseLost { execution: ExecutionId, epoch: u64, cause: EndCause },
    /// Take no more work; what is left at the deadline goes to others.
    Drain { reason: Text, deadline_at: Option<Time> },
    /// Take work again.
    Undrain,
    /// Another process has taken the name of this one: exit.
    Superseded,
    /// The node shuts down; leases are unaffected.
    NodeStopping,
}

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

/// How long a silent worker counts as live.
pub const WORKER_TTL_MS: u64 = 60_000;
const WORKERS_MAX: usize = 10_000;

#[derive(Default)]
pub struct Hub {
    state: Mutex<State>,
    /// Rung when a timer is armed earlier than the runner knows, and at shutdown.
    pub due: Notify,
}

/// A worker process that listens, and since when.
struct Listener {
    tell: mpsc::UnboundedSender<Notice>,
    since: Time,
}

type Subscribers = BTreeMap<(Text, Text), Listener>;

/// A caller that waits for something to happen to an execution.
struct Wait {
    /// For its end, and for nothing less.
    end: bool,
    tell: oneshot::Sender<()>,
}

#[derive(Default)]
struct State {
    waits: BTreeMap<ExecutionId, Vec<Wait>>,
    notices: Subscribers,
    hints: BTreeMap<(Timer, PartitionId), Time>,
    /// When the due index should be looked at, on the node's clock.
    look_by: Option<Time>,
    workers: BTreeMap<(Text, Text), Seen>,
    notices_sent: [u64; Notice::KINDS.len()],
}

impl Notice {
    /// The names of all kinds; a notice's number is its place here.
    const KINDS: [&'static str; 7] =
        ["cancelled", "cancel_requested", "lease_lost", "node_stopping", "drain", "undrain", "superseded"];

    const fn number(&self) -> usize {
        match self {
            Notice::Cancelled { .. } => 0,
            Notice::CancelRequested { .. } => 1,
            Notice::LeaseLost { .. } => 2,
            Notice::NodeStopping => 3,
            Notice::Drain { .. } => 4,
            Notice::Undrain => 5,
            Notice::Superseded => 6,
        }
    }
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves only hints behind, which are good at any moment.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Resolves when the execution ends on this node, or never.
    pub fn end_of(&self, id: ExecutionId) -> oneshot::Receiver<()> {
        self.wait(id, true)
    }

    /// Resolves when the execution changes on this node, or never.
    pub fn change_of(&self, id: ExecutionId) -> oneshot::Receiver<()> {
        self.wait(id, false)
    }

    fn wait(&self, id: ExecutionId, end: bool) -> oneshot::Receiver<()> {
        let (tell, told) = oneshot::channel();
        let mut state = self.lock();
        let waiting = state.waits.entry(id).or_default();
        waiting.retain(|other| !other.tell.is_closed());
        waiting.push(Wait { end, tell });
        told
    }

    /// True if anybody waits for a change or a notice: then commits are worth telling.
    pub fn is_listened_to(&self) -> bool {
        let state = self.lock();
        !state.waits.is_empty() || !state.notices.is_empty()
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

    /// Drops the entry of a caller that stopped waiting.
    pub fn forget_wait(&self, id: ExecutionId) {
        let mut state = self.lock();
        if let Some(waiting) = state.waits.get_mut(&id) {
            waiting.retain(|other| !other.tell.is_closed());
            if waiting.is_empty() {
                state.waits.remove(&id);
            }
        }
    }

    pub fn subscribe(&self, namespace: Text, instance: Text, now: Time) -> mpsc::UnboundedReceiver<Notice> {
        let (tell, told) = mpsc::unbounded_channel();
        self.lock().notices.insert((namespace, instance), Listener { tell, since: now });
        told
    }

    pub fn notify(&self, namespace: &Text, instance: &Text, notice: Notice) {
        let mut state = self.lock();
        let key = (namespace.clone(), instance.clone());
        let number = notice.number();
        match state.notices.get(&key).map(|listener| listener.tell.send(notice)) {
            Some(Ok(())) => state.notices_sent[number] += 1,
            Some(Err(_)) => drop(state.notices.remove(&key)),
            None => {}
        }
    }

    pub fn notify_all(&self, notice: &Notice) {
        let mut state = self.lock();
        state.notices.retain(|_, listener| listener.tell.send(notice.clone()).is_ok());
        let told = state.notices.len() as u64;
        state.notices_sent[notice.number()] += told;
    }

    /// Another session of the process began at `since`: whoever listens from before is told, and no longer listens.
    pub fn supersede(&self, namespace: &Text, instance: &Text, since: Time) {
        let mut state = self.lock();
        let key = (namespace.clone(), instance.clone());
        if state.notices.get(&key).is_some_and(|listener| listener.since < since)
            && let Some(listener) = state.notices.remove(&key)
        {
            let _ = listener.tell.send(Notice::Superseded);
            state.notices_sent[Notice::Superseded.number()] += 1;
        }
    }

    /// A timer of `partition` is due at `at`, or later than something known.
    pub fn hint(&self, timer: Timer, partition: PartitionId, at: Time) {
        let mut state = self.lock();
        let earliest = state.hints.values().min().copied();
        let known = state.hints.entry((timer, partition)).or_insert(at);
        *known = (*known).min(at);
        drop(state);
        if earliest.is_none_or(|earliest| at < earliest) {
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

    pub fn hints(&self) -> Vec<((Timer, PartitionId), Time)> {
        self.lock().hints.iter().map(|(key, at)| (*key, *at)).collect()
    }

    /// Forgets a hint before its scan begins: what is committed from now on hints again.
    pub fn take_hint(&self, timer: Timer, partition: PartitionId) -> Option<Time> {
        self.lock().hints.remove(&(timer, partition))
    }

    pub fn seen(&self, spec: &ClaimSpec, now: Time) {
        let mut state = self.lock();
        if state.workers.len() >= WORKERS_MAX {
            state.workers.retain(|_, seen| now.since(seen.at) < WORKER_TTL_MS);
        }
        let key = (spec.namespace.clone(), spec.instance.clone());
        let seen = Seen {
            session: spec.session,
            worker: spec.worker.clone(),
            lanes: spec.lanes.iter().map(|wish| wish.lane.clone()).collect(),
            kinds: spec.kinds.clone(),
            capabilities: spec.capabilities.clone(),
            at: now,
        };
        state.workers.insert(key, seen);
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

    /// How many notices of each kind were handed to workers.
    pub fn notices_sent(&self) -> [(&'static str, u64); Notice::KINDS.len()] {
        let sent = self.lock().notices_sent;
        std::array::from_fn(|number| (Notice::KINDS[number], sent[number]))
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
