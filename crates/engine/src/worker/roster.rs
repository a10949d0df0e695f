//! What this node knows of worker processes, in memory: fed by their calls, by look-ups and by looks at the registry. A
//! claim asks here. What is known may be some seconds old, and is bounded; no rule about a lease depends on it.

use super::list::only_claims;
use crate::bell::{Bell, Listener};
use crate::engine::Shared;
use crate::hub::{Hub, Seen};
use crate::notices::Notice;
use crate::place;
use crate::request::ClaimSpec;
use futures_util::future;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use weft_core::error::Rejection;
use weft_core::limits::WORKER_TTL_MS_DEFAULT;
use weft_core::record::worker::{Body, State};
use weft_core::record::{Key, Record, Worker};
use weft_core::schema::{Kind, PartMask};
use weft_core::text::{Capabilities, LANE_DEFAULT, Text};
use weft_core::{PartitionId, Time};
use weft_store::{Page, Range, Scan, Target};

/// Processes that are known at a time; others are looked up when they claim in the name of a session, and entered again
/// with every claim if they have none.
const KNOWN_MAX: usize = 10_000;
/// Processes that are entered at a time although no more can be known: names that somebody makes up cost no more.
const STRANGERS_MAX: usize = 64;
const PAGE: usize = 1_000;
/// How old the view of a registry that others write to may be when a claim comes in. Nodes ring when it changes, so
/// this bounds only what got lost.
const REFRESH_MS: u64 = 5_000;
/// How often what a process offers is written when it keeps changing: one with several kinds of claims is no burden.
pub(crate) const CHANGED_EVERY_MS: u64 = 1_000;

#[derive(Default)]
pub(crate) struct Roster {
    state: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    known: BTreeMap<(Text, Text), Known>,
    /// Processes that are being entered because they claim.
    entering: BTreeSet<(Text, Text)>,
    refreshed_at: Option<Time>,
    refreshing: bool,
}

struct Known {
    body: Body,
    /// False if this is only what a claim told, and its entry is on its way.
    entered: bool,
    /// On the node's clock.
    noted_at: Time,
    /// The last call of it here, in store time; what is written lags behind.
    seen_at: Time,
    /// Rung when it may not claim as it did any more.
    stir: Bell,
}

/// How a claim stands.
pub(crate) enum Standing {
    /// Nothing is known about its process.
    Unknown,
    /// More is known elsewhere: it names a session that is not known here.
    LookUp,
    Draining {
        session: Option<u64>,
        stale: bool,
    },
    Free {
        /// Of one that registered.
        session: Option<u64>,
        stirred: Stirred,
        /// It is time to write that it was seen.
        stale: bool,
        offer: Offer,
    },
}

/// Lanes, kinds and capabilities that fill in for what a claim of the process leaves out.
pub(crate) struct Offer {
    pub lanes: Vec<Text>,
    pub kinds: Option<Vec<Text>>,
    pub capabilities: Capabilities,
}

impl Offer {
    /// Offer of a process that is not registered.
    pub fn unknown() -> Self {
        Self { lanes: vec![LANE_DEFAULT.into()], kinds: None, capabilities: Capabilities::default() }
    }

    /// A registered process offers all that it registered. A process that only claims offers the lanes of its entry in the
    /// registry, any kind and no capability.
    pub fn of(body: &Body) -> Self {
        match body.lease_session() {
            Some(_) => {
                Self { lanes: body.lanes.clone(), kinds: body.kinds.clone(), capabilities: body.capabilities.clone() }
            }
            None => Self { lanes: body.lanes.clone(), ..Self::unknown() },
        }
    }
}

/// Notifies a waiting claim of changes of its process.
pub(crate) struct Stirred {
    bell: Option<Listener>,
    /// How often it is written that the process was seen.
    pub seen_every_ms: u64,
}

impl Stirred {
    pub const NEVER: Stirred = Stirred { bell: None, seen_every_ms: WORKER_TTL_MS_DEFAULT / 3 };

    /// Resolves when the claim should look again whether it may wait.
    pub async fn wait(&mut self) {
        match &mut self.bell {
            // The process is not known any more: that is a reason too.
            Some(stirred) => drop(stirred.rung().await),
            None => future::pending().await,
        }
    }
}

/// What claims ask about a process.
#[derive(PartialEq, Eq, Clone, Copy)]
enum Class {
    Free,
    Draining,
    Marked,
    Left,
}

fn class(state: &State) -> Class {
    match state {
        State::Active | State::Dead { marked: None, drain: None, .. } => Class::Free,
        // One that was silent while it drained is told again when it comes back.
        State::Draining(_) | State::Drained(_) | State::Dead { marked: None, drain: Some(_), .. } => Class::Draining,
        State::Dead { marked: Some(_), .. } => Class::Marked,
        State::Left { .. } => Class::Left,
    }
}

impl Known {
    fn new(body: Body, entered: bool, clock: Time) -> Self {
        Self { body, entered, noted_at: clock, seen_at: Time::ZERO, stir: Bell::new() }
    }

    fn stirred(&self) -> Stirred {
        Stirred { bell: Some(self.stir.listen()), seen_every_ms: self.body.seen_every_ms() }
    }
}

/// Whether the process is entered with what this claim of it offers.
fn offers(body: &Body, spec: &ClaimSpec) -> bool {
    body.worker == spec.worker
        && body.capabilities == spec.capabilities
        && body.kinds.as_deref() == spec.kinds.as_deref()
        && body.lanes.iter().eq(spec.lanes.iter().map(|wish| &wish.lane))
}

impl Roster {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        // A panic elsewhere leaves only advice behind, which is good at any moment.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Judges a claim by what is known. A caller that gets `stale` must write that the process was seen: this is reported
    /// once.
    pub(super) fn judge(
        &self,
        namespace: &Text,
        instance: &Text,
        session: Option<u64>,
        now: Time,
    ) -> Result<Standing, Rejection> {
        let mut inside = self.lock();
        if inside.known.is_empty() && session.is_none() {
            return Ok(Standing::Unknown);
        }
        let Some(known) = inside.known.get_mut(&(namespace.clone(), instance.clone())) else {
            return Ok(if session.is_some() { Standing::LookUp } else { Standing::Unknown });
        };
        let body = &known.body;
        match session {
            Some(session) if session > body.session => return Ok(Standing::LookUp),
            Some(session) if session < body.session => {
                return Err(Rejection::InstanceSuperseded { session: body.session });
            }
            _ => {}
        }
        match &body.state {
            State::Left { .. } if session.is_some() => return Err(Rejection::WorkerNotFound),
            State::Left { .. } => return Ok(Standing::Unknown),
            State::Dead { at, marked: Some(reason), .. } => {
                return Err(Rejection::WorkerDead { at: *at, reason: reason.clone() });
            }
            _ => {}
        }
        let stale = known.entered && now.since(known.seen_at.max(body.last_seen_at)) >= body.seen_every_ms();
        if stale {
            known.seen_at = now;
        }
        let session = body.lease_session();
        if class(&body.state) == Class::Draining {
            return Ok(Standing::Draining { session, stale });
        }
        Ok(Standing::Free { session, stirred: known.stirred(), stale, offer: Offer::of(body) })
    }

    /// A process that never registered was let in to claim: whether it is to be entered, or again, and in how many
    /// milliseconds. Whoever is told so does it, and ends it with `end_entry`; meanwhile nobody else is told.
    pub fn begin_entry(&self, spec: &ClaimSpec, now: Time, clock: Time) -> (Option<u64>, Stirred) {
        let key = (spec.namespace.clone(), spec.instance.clone());
        let mut inside = self.lock();
        let is_full = inside.known.len() >= KNOWN_MAX;
        let (wait_ms, stirred) = match inside.known.get(&key) {
            None if is_full && inside.entering.len() >= STRANGERS_MAX => return (None, Stirred::NEVER),
            None if is_full => (0, Stirred::NEVER),
            None => {
                // Changed at no time, so that whatever the registry says about it counts.
                let body = Body { changed_at: Time::ZERO, ..only_claims(&key.0, &key.1, &Seen::of(spec, now)) };
                let known = Known::new(body, false, clock);
                let stirred = known.stirred();
                inside.known.insert(key.clone(), known);
                (0, stirred)
            }
            Some(known) => {
                let (body, stirred) = (&known.body, known.stirred());
                let is_entered = known.entered && !matches!(body.state, State::Left { .. });
                if is_entered && (!body.only_claims() || offers(body, spec)) {
                    return (None, stirred);
                }
                let since = now.since(body.changed_at);
                (if is_entered { CHANGED_EVERY_MS.saturating_sub(since) } else { 0 }, stirred)
            }
        };
        (inside.entering.insert(key).then_some(wait_ms), stirred)
    }

    pub fn end_entry(&self, namespace: &Text, instance: &Text) {
        self.lock().entering.remove(&(namespace.clone(), instance.clone()));
    }

    /// A process was seen that took a lease in this session, 0 if in none; true if it is time to write that.
    pub fn touch(&self, namespace: &Text, instance: &Text, session: u64, now: Time) -> bool {
        let mut inside = self.lock();
        let known = inside.known.get_mut(&(namespace.clone(), instance.clone()));
        let Some(known) = known.filter(|known| known.entered && known.body.lease_session().unwrap_or(0) == session)
        else {
            return false;
        };
        let silent = matches!(known.body.state, State::Dead { marked: None, .. });
        let stale = silent || now.since(known.seen_at.max(known.body.last_seen_at)) >= known.body.seen_every_ms();
        if stale {
            known.seen_at = now;
        }
        stale
    }

    /// Takes what a commit, a look-up or a look at the registry has shown, unless something newer is known; tells the
    /// process what it should know of it.
    pub fn note(&self, hub: &Hub, body: &Body, clock: Time) {
        let key = (body.namespace.clone(), body.instance.clone());
        if matches!(body.state, State::Left { .. }) {
            hub.unsee(&body.namespace, &body.instance);
        }
        let mut inside = self.lock();
        let full = inside.known.len() >= KNOWN_MAX;
        let Some(known) = inside.known.get_mut(&key) else {
            if full && class(&body.state) == Class::Free {
                return;
            }
            inside.known.insert(key, Known::new(body.clone(), true, clock));
            return;
        };
        known.noted_at = clock;
        known.entered = true;
        let (was, is) = (&known.body, body);
        if (is.session, is.changed_at) < (was.session, was.changed_at) {
            return;
        }
        // One that registers after it has claimed is not another one.
        let superseded = is.session > was.session && !was.only_claims();
        let moved = superseded || class(&is.state) != class(&was.state);
        let notice = match &is.state {
            _ if superseded => Some(Notice::Superseded),
            // One that held nothing has drained before anybody here heard that it drains.
            State::Draining(drain) | State::Drained(drain) if class(&was.state) == Class::Free => {
                Some(Notice::Drain { reason: drain.reason.clone(), deadline_at: drain.deadline_at })
            }
            State::Active if class(&was.state) == Class::Draining => Some(Notice::Undrain),
            _ => None,
        };
        known.body = body.clone();
        if moved {
            known.stir.ring();
        }
        drop(inside);
        match notice {
            // A process that listens since its session began is not the one that was superseded.
            Some(Notice::Superseded) => hub.mailboxes.supersede(&body.namespace, &body.instance, body.session_at),
            Some(notice) => hub.mailboxes.notify(&body.namespace, &body.instance, notice),
            None => {}
        }
    }

    /// The record is gone.
    pub fn forget(&self, namespace: &Text, instance: &Text) {
        self.lock().known.remove(&(namespace.clone(), instance.clone()));
    }

    /// True if the registry is to be looked at now; then the caller does.
    fn begin_refresh(&self, clock: Time) -> bool {
        let mut inside = self.lock();
        let fresh = inside.refreshed_at.is_some_and(|at| clock.since(at) < REFRESH_MS);
        if fresh || inside.refreshing {
            return false;
        }
        inside.refreshing = true;
        true
    }

    fn end_refresh(&self, clock: Time) {
        let mut inside = self.lock();
        inside.refreshing = false;
        inside.refreshed_at = Some(clock);
    }

    /// Forgets those of `gone` that were not heard of since `started`. One whose entry is on its way is not gone.
    fn forget_missing(&self, started: Time, gone: impl Fn(&Text, &Text) -> bool) {
        let mut inside = self.lock();
        let Inside { known, entering, .. } = &mut *inside;
        known.retain(|key, known| known.noted_at >= started || entering.contains(key) || !gone(&key.0, &key.1));
    }
}

/// Looks at the registry in the background, if others write to it and it was not looked at for a while.
pub(crate) fn keep_fresh(shared: &Arc<Shared>) {
    let clock = shared.runtime.clock();
    if shared.description.exclusive || !shared.roster.begin_refresh(clock) {
        return;
    }
    let shared = shared.clone();
    shared.clone().start(async move {
        refresh(&shared, None).await;
        shared.roster.end_refresh(shared.runtime.clock());
    });
}

/// Another node has changed the registry of one partition.
pub(crate) fn rung(shared: &Arc<Shared>, partition: PartitionId) {
    let shared = shared.clone();
    shared.clone().start(async move { refresh(&shared, Some(partition)).await });
}

/// Reads the registry of a partition, or all of it.
pub(crate) async fn refresh(shared: &Shared, partition: Option<PartitionId>) {
    let started = shared.runtime.clock();
    let mut seen = BTreeSet::new();
    let mut after = None;
    while seen.len() < KNOWN_MAX {
        let scan = Scan {
            target: Target::Records(Kind::Worker),
            ranges: vec![Range { prefix: Vec::new(), after, until: None }],
            limit: PAGE,
            descending: false,
            parts: Some(PartMask::ALL),
        };
        let page = match shared.store.scan(partition, scan).await {
            Ok(mut pages) => pages.pop().unwrap_or_default(),
            Err(error) => {
                tracing::warn!(%error, "could not read the registry of workers");
                return;
            }
        };
        for worker in workers_of(&page) {
            seen.insert(worker.key());
            shared.roster.note(&shared.hub, &worker.body, shared.runtime.clock());
        }
        after = page.entries.into_iter().last().filter(|_| page.more).map(|last| last.place);
        if after.is_none() {
            shared.roster.forget_missing(started, |namespace, instance| {
                let name = place::of_worker(shared, namespace, instance);
                partition.is_none_or(|partition| partition == name.partition) && !seen.contains(&name.key())
            });
            return;
        }
    }
}

/// The processes on a page of the registry.
pub(crate) fn workers_of(page: &Page) -> impl Iterator<Item = Worker> {
    page.entries.iter().filter_map(|entry| {
        let (key, found) = (entry.key()?, entry.found.as_ref()?);
        match Record::decode(key, &found.parts, PartMask::ALL) {
            Ok(Record::Worker(worker)) => Some(*worker),
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(?key, %error, "the record of a worker does not decode");
                None
            }
        }
    })
}

/// The process as the store has it.
pub(crate) async fn read(shared: &Shared, namespace: &Text, instance: &Text) -> Result<Option<Worker>, Rejection> {
    let key = place::of_worker(shared, namespace, instance).key();
    read_key(shared, key).await
}

pub(crate) async fn read_key(shared: &Shared, key: Key) -> Result<Option<Worker>, Rejection> {
    match crate::reads::read_one(shared, key, PartMask::ALL).await? {
        Some(Record::Worker(worker)) => Ok(Some(*worker)),
        _ => Ok(None),
    }
}
