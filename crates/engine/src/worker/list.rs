//! Reads of the registry.

use super::roster::workers_of;
use super::{Body, State, WorkerFilter, WorkerPage};
use crate::engine::Shared;
use crate::hub::Seen;
use crate::place;
use crate::reads::{self, unavailable};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use weft_core::command::Principal;
use weft_core::error::Rejection;
use weft_core::limits;
use weft_core::record::{Record, Worker};
use weft_core::schema::{IndexId, PartMask, Value};
use weft_core::text::{Text, check_range, check_token};
use weft_core::{CommitId, Time};
use weft_store::{Place, Range, Scan, Target};

/// Records that one page, or one explanation, looks at.
const LOOK_MAX: usize = 4_000;
const PAGE: usize = 1_000;

/// One worker process, whether it registered or only claims. One whose first claim came in here just now counts before
/// it is entered.
pub(crate) async fn get(
    shared: &Shared,
    who: &Principal,
    instance: &Text,
) -> Result<(Body, Option<CommitId>), Rejection> {
    let key = place::of_worker(shared, &who.namespace, instance).key();
    if let Some((Record::Worker(worker), revision)) = reads::read_revised(shared, key, PartMask::ALL).await? {
        return Ok((worker.body, Some(revision)));
    }
    let seen = shared.hub.worker(&who.namespace, instance, shared.now());
    let entering = seen.map(|seen| (only_claims(&who.namespace, instance, &seen), None));
    entering.ok_or(Rejection::WorkerNotFound)
}

/// One page by the names of the processes; those whose entry is on its way from this node too.
pub(crate) async fn list(shared: &Shared, who: &Principal, filter: &WorkerFilter) -> Result<WorkerPage, Rejection> {
    let limit = filter.limit.unwrap_or(limits::LIST_LIMIT_DEFAULT);
    check_range("limit", limit as u64, 1, limits::LIST_LIMIT_MAX as u64)?;
    let mut cursor = filter.cursor.as_deref().map(Text::from);
    if let Some(cursor) = &cursor {
        check_token("cursor", cursor, limits::WORKER_MAX).map_err(|_| Rejection::InvalidCursor)?;
    }
    let mut claiming = shared.hub.workers(&who.namespace, shared.now());
    claiming.retain(|(_, seen)| seen.session.is_none());
    let mut page = WorkerPage::default();
    let mut looked = 0;
    loop {
        let (found, more) = walk(shared, &who.namespace, cursor.as_ref(), PAGE).await?;
        looked += found.len();
        let end = found.last().map(|worker| worker.body.instance.clone()).filter(|_| more);
        let registered: BTreeSet<&Text> = found.iter().map(|worker| &worker.body.instance).collect();
        let others = claiming.iter().filter(|(instance, _)| {
            cursor.as_ref().is_none_or(|cursor| instance > cursor)
                && end.as_ref().is_none_or(|end| instance <= end)
                && !registered.contains(instance)
        });
        let others = others.map(|(instance, seen)| only_claims(&who.namespace, instance, seen));
        let mut bodies: Vec<Body> = others.chain(found.iter().map(|worker| worker.body.clone())).collect();
        bodies.sort_by(|one, other| one.instance.cmp(&other.instance));
        for body in bodies.into_iter().filter(|body| matches(filter, body)) {
            if page.workers.len() == limit {
                page.next_cursor = page.workers.last().map(|last| last.instance.to_string());
                return Ok(page);
            }
            page.workers.push(body);
        }
        match end {
            None => return Ok(page),
            Some(end) if looked >= LOOK_MAX => {
                page.next_cursor = Some(end.to_string());
                return Ok(page);
            }
            Some(end) => cursor = Some(end),
        }
    }
}

/// The worker processes of a namespace after one of them, and whether there are more.
async fn walk(
    shared: &Shared,
    namespace: &Text,
    after: Option<&Text>,
    limit: usize,
) -> Result<(Vec<Worker>, bool), Rejection> {
    let prefix = vec![Value::text(namespace)];
    let after = after.map(|instance| Place {
        columns: vec![Value::text(namespace), Value::text(instance)],
        // Beyond every key: a name is that of one process only.
        key: Bytes::from_static(&[0xff; 32]),
    });
    let scan = Scan {
        target: Target::Index(IndexId::Workers),
        ranges: vec![Range { prefix, after, until: None }],
        limit,
        descending: false,
        parts: Some(PartMask::ALL),
    };
    let page = shared.store.scan(None, scan).await.map_err(unavailable)?.pop().unwrap_or_default();
    Ok((workers_of(&page).collect(), page.more))
}

fn matches(filter: &WorkerFilter, body: &Body) -> bool {
    let is = |wanted: &Option<Text>, got: Option<&Text>| wanted.as_ref().is_none_or(|wanted| got == Some(wanted));
    is(&filter.worker, Some(&body.worker))
        && is(&filter.version, body.version.as_ref())
        && filter.lane.as_ref().is_none_or(|lane| body.lanes.contains(lane))
        && filter.kind.as_ref().is_none_or(|kind| body.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind)))
        && filter.capability.as_ref().is_none_or(|token| body.capabilities.tokens().any(|other| other == &**token))
        && filter.state.as_ref().is_none_or(|state| **state == *body.state.name())
        && filter.label.as_ref().is_none_or(|(key, value)| body.labels.get(key) == Some(value))
}

/// A process that only claims, as far as its claims tell about it.
pub(crate) fn only_claims(namespace: &Text, instance: &Text, seen: &Seen) -> Body {
    Body {
        namespace: namespace.clone(),
        instance: instance.clone(),
        worker: seen.worker.clone(),
        boot_id: "".into(),
        session: 0,
        session_at: seen.at,
        state: State::Active,
        lanes: seen.lanes.clone(),
        kinds: seen.kinds.as_ref().map(|kinds| kinds.to_vec()),
        capabilities: seen.capabilities.clone(),
        capacity: None,
        free: None,
        version: None,
        host: None,
        labels: BTreeMap::new(),
        ttl_ms: limits::WORKER_TTL_MS_DEFAULT,
        registered_at: seen.at,
        last_seen_at: seen.at,
        changed_at: seen.at,
        owed: None,
        look_at: None,
    }
}

/// A process that could take work, if not now then when something has changed about it.
pub(crate) struct Taker {
    pub instance: Text,
    pub seen: Seen,
    pub ability: Ability,
    /// When the next sign of life of the process is due in the registry.
    pub overdue_at: Time,
    /// From when on it is in doubt whether the process lives, if it is not seen before.
    pub doubtful_at: Time,
    /// When a lease of the process ran out, if it was not seen since.
    pub lost_at: Option<Time>,
}

/// The better one first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ability {
    Free,
    /// It had no room when it last said how much.
    Full,
    Draining,
    Dead,
}

impl Taker {
    pub fn of(body: Body) -> Self {
        let ability = match &body.state {
            State::Active if body.free == Some(0) => Ability::Full,
            State::Active => Ability::Free,
            State::Draining(_) | State::Drained(_) | State::Left { .. } => Ability::Draining,
            State::Dead { .. } => Ability::Dead,
        };
        let (overdue_at, doubtful_at) = (body.last_seen_at + body.seen_every_ms(), body.doubtful_at());
        Self {
            instance: body.instance.clone(),
            seen: Seen::from(body),
            ability,
            overdue_at,
            doubtful_at,
            lost_at: None,
        }
    }

    /// A process as a claim of it describes it.
    pub fn claiming(instance: Text, seen: Seen) -> Self {
        let every_ms = limits::WORKER_TTL_MS_DEFAULT / 3;
        let (overdue_at, doubtful_at) = (seen.at + every_ms, seen.at + 2 * every_ms);
        Self { instance, seen, ability: Ability::Free, overdue_at, doubtful_at, lost_at: None }
    }

    pub fn is_doubtful(&self, now: Time) -> bool {
        self.doubtful_at < now
    }

    /// A lease of the process ran out. The process counts as dead if it was not seen since and its sign of life is overdue.
    pub fn lose(&mut self, lost_at: Time, now: Time) {
        if self.seen.at < lost_at && self.overdue_at <= now {
            (self.ability, self.lost_at) = (Ability::Dead, Some(lost_at));
        }
    }
}

/// The processes of a namespace: those that claimed here lately and those that are registered, dead ones too.
pub(crate) async fn takers(shared: &Shared, namespace: &Text) -> Result<Vec<Taker>, Rejection> {
    let now = shared.now();
    let claiming = shared.hub.workers(namespace, now).into_iter();
    let claiming = claiming.map(|(instance, seen)| Taker::claiming(instance, seen));
    let mut takers: BTreeMap<Text, Taker> = claiming.map(|taker| (taker.instance.clone(), taker)).collect();
    let (mut after, mut looked) = (None, 0);
    loop {
        let (found, more) = walk(shared, namespace, after.as_ref(), PAGE).await?;
        looked += found.len();
        after = found.last().map(|worker| worker.body.instance.clone()).filter(|_| more && looked < LOOK_MAX);
        for Worker { body, .. } in found {
            let claimed_at = takers.get(&body.instance).map(|taker| taker.seen.at);
            match &body.state {
                // What it claims with is newer than what it registered with.
                State::Active if claimed_at.is_some_and(|at| at >= body.last_seen_at) => {
                    let every_ms = body.seen_every_ms();
                    takers.entry(body.instance.clone()).and_modify(|taker| {
                        (taker.overdue_at, taker.doubtful_at) =
                            (taker.seen.at + every_ms, taker.seen.at + 2 * every_ms);
                    });
                }
                State::Left { .. } => drop(takers.remove(&body.instance)),
                _ => {
                    let is_silent = claimed_at.is_none() && body.silent_at() <= now;
                    let mut taker = Taker::of(body);
                    if is_silent {
                        taker.ability = Ability::Dead;
                    }
                    takers.insert(taker.instance.clone(), taker);
                }
            }
        }
        if after.is_none() {
            return Ok(takers.into_values().collect());
        }
    }
}
