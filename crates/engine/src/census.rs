//! How much there is of what: depths of lanes, what is running, what is parked, counted in the store. The store keeps no
//! counts, so these are walks over its indexes; each is bounded, kept for a moment and shared by all who ask meanwhile.

use crate::engine::Shared;
use crate::reads;
use crate::telemetry::lanes::{LANES_MAX, OTHER};
use crate::worker::{self, WorkerFilter};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use uuid::Uuid;
use weft_core::command::{Principal, Scopes};
use weft_core::error::Rejection;
use weft_core::limits::LIST_LIMIT_MAX;
use weft_core::record::execution::{Execution, PublicState, State};
use weft_core::record::{Key, Record};
use weft_core::schema::{IndexId, Kind, PartMask, Timer, Value, execution as schema};
use weft_core::text::Text;
use weft_core::{ExecutionId, PartitionId, Time};
use weft_store::{Entry, Error, Place, Range, Scan, Target};

/// Claimable executions that are counted per lane; a lane that has more shows this many.
pub const READY_PER_LANE_MAX: u64 = 10_000;
/// Claimable executions that are counted in all.
const READY_MAX: usize = 50_000;
/// Executions that are counted per namespace and state, where the state is neither claimable nor active.
pub const WAITING_MAX: usize = 2_000;
/// Active executions that are looked at, of all namespaces together: those whose leases run out first.
pub const ACTIVE_MAX: usize = 2_000;
/// Parked items that are counted, of all scanners together.
const PARKED_MAX: usize = 10_000;
/// Worker processes that are counted per namespace.
const WORKERS_MAX: usize = 2_000;
/// Namespaces that the gauges cover.
const NAMESPACES_MAX: usize = 64;
/// Heads of queues that are read to learn how long they have waited.
const HEADS_MAX: usize = 400;
const PAGE: usize = 1_000;
const READ: usize = 200;
/// How old an answer may be.
const FRESH_MS: u64 = 2_000;
/// How often the gauges are counted at most.
const GAUGES_MS: u64 = 10_000;
/// Namespaces whose answers are kept.
const KEPT_MAX: usize = 128;

/// States that are listed by an index and are no ends.
const LISTED: [PublicState; 5] = [
    PublicState::Delayed,
    PublicState::Held,
    PublicState::WaitingChildren,
    PublicState::RateLimited,
    PublicState::Suspended,
];

/// One lane of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    pub states: BTreeMap<PublicState, u64>,
    /// Since when the head of the lane is claimable.
    pub oldest: Option<Time>,
    /// Sets of capabilities that waiting executions ask for.
    pub capability_sets: BTreeSet<Text>,
}

/// An active execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    pub namespace: Text,
    pub execution: ExecutionId,
    pub kind: Text,
    pub lane: Text,
    pub instance: Text,
    pub attempt: u32,
    /// When it was claimed.
    pub since: Time,
}

/// What is there in one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Depths {
    pub lanes: BTreeMap<Text, Depth>,
    /// The longest running first.
    pub running: Vec<Running>,
    /// The worker processes, by their names.
    pub workers: Vec<Manned>,
}

/// A worker process as far as the depth of lanes is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manned {
    pub state: worker::State,
    pub lanes: Vec<Text>,
}

/// Answers that are still fresh. The lock is held during a walk, so that there is one at a time.
#[derive(Default)]
pub struct Census(tokio::sync::Mutex<Kept>);

#[derive(Default)]
struct Kept {
    namespaces: BTreeMap<Text, (Time, Arc<Depths>)>,
    active: Option<(Time, Arc<[Running]>)>,
}

/// The depths of a namespace, at most two seconds old.
pub async fn depths(shared: &Shared, namespace: &Text) -> Result<Arc<Depths>, Rejection> {
    let mut kept = shared.census.0.lock().await;
    let clock = shared.runtime.clock();
    if let Some((at, depths)) = kept.namespaces.get(namespace).filter(|(at, _)| clock.since(*at) < FRESH_MS) {
        tracing::trace!(%namespace, age_ms = clock.since(*at), "depths are fresh");
        return Ok(depths.clone());
    }
    let active = active(shared, &mut kept, clock).await.map_err(reads::unavailable)?;
    let mut depths = survey(shared, namespace, &active).await.map_err(reads::unavailable)?;
    depths.workers = workers(shared, namespace).await?;
    let depths = Arc::new(depths);
    if kept.namespaces.len() >= KEPT_MAX {
        kept.namespaces.retain(|_, (at, _)| clock.since(*at) < FRESH_MS);
    }
    if kept.namespaces.len() < KEPT_MAX {
        kept.namespaces.insert(namespace.clone(), (clock, depths.clone()));
    }
    Ok(depths)
}

/// Counts the gauges again in the background, unless that was done a moment ago.
pub fn refresh_gauges(shared: &Arc<Shared>) {
    let clock = shared.runtime.clock();
    let mut gauges = shared.telemetry.gauges();
    if shared.is_closing() || gauges.asked_at.is_some_and(|at| clock.since(at) < GAUGES_MS) {
        return;
    }
    gauges.asked_at = Some(clock);
    drop(gauges);
    let task = shared.clone();
    shared.start(async move {
        if let Err(error) = count_gauges(&task).await {
            tracing::warn!(%error, "could not count executions for the metrics");
        }
    });
}

async fn count_gauges(shared: &Shared) -> Result<(), Rejection> {
    let mut executions: BTreeMap<(Text, PublicState), u64> = BTreeMap::new();
    let mut oldest: BTreeMap<Text, Time> = BTreeMap::new();
    let mut sets: BTreeMap<Text, BTreeSet<Text>> = BTreeMap::new();
    // The names that the counters have, and as many more as the bound leaves room for.
    let mut names = shared.telemetry.lane_names();
    let mut manned: BTreeMap<&'static str, u64> = BTreeMap::new();
    for namespace in reads::namespaces(shared, None, NAMESPACES_MAX).await? {
        let depths = depths(shared, &namespace).await?;
        for worker in &depths.workers {
            *manned.entry(worker.state.name()).or_default() += 1;
        }
        for (lane, depth) in &depths.lanes {
            if names.len() < LANES_MAX {
                names.insert(lane.clone());
            }
            let label = if names.contains(lane) { lane.clone() } else { OTHER.into() };
            for (state, count) in &depth.states {
                *executions.entry((label.clone(), *state)).or_default() += count;
            }
            sets.entry(label.clone()).or_default().extend(depth.capability_sets.iter().cloned());
            if let Some(since) = depth.oldest {
                let known = oldest.entry(label).or_insert(since);
                *known = since.min(*known);
            }
        }
    }
    let parked = parked(shared).await.map_err(reads::unavailable)?;
    let now = shared.now();
    let mut gauges = shared.telemetry.gauges();
    gauges.executions = executions;
    gauges.oldest_ms = oldest.into_iter().map(|(lane, since)| (lane, now.since(since))).collect();
    gauges.capability_sets = sets.into_iter().map(|(lane, sets)| (lane, sets.len() as u64)).collect();
    gauges.parked = Some(parked);
    gauges.workers = manned;
    Ok(())
}

async fn survey(shared: &Shared, namespace: &Text, active: &[Running]) -> Result<Depths, Error> {
    let mut depths = Depths::default();
    ready(shared, namespace, &mut depths).await?;
    for state in LISTED {
        listed(shared, namespace, state, &mut depths).await?;
    }
    depths.running = active.iter().filter(|running| running.namespace == *namespace).cloned().collect();
    for running in &depths.running {
        *depths.lanes.entry(running.lane.clone()).or_default().states.entry(PublicState::Active).or_default() += 1;
    }
    Ok(depths)
}

/// Counts the ready index, a lane up to its bound, and reads the heads of its queues.
async fn ready(shared: &Shared, namespace: &Text, depths: &mut Depths) -> Result<(), Error> {
    let prefix = vec![Value::text(namespace)];
    let mut after = None;
    let mut looked = 0;
    let mut heads: Vec<(PartitionId, Key)> = Vec::new();
    let (mut queue, mut nth): (Option<Vec<Value>>, u64) = (None, 0);
    while looked < READY_MAX {
        let range = Range { prefix: prefix.clone(), after: after.take(), until: None };
        let (entries, more) = scan(shared, None, IndexId::Ready, range, PAGE, None).await?;
        looked += entries.len().max(1);
        let mut full = None;
        for entry in &entries {
            let [_, Value::Text(lane), ..] = entry.place.columns.as_slice() else { continue };
            let depth = depths.lanes.entry(lane.clone()).or_default();
            let count = depth.states.entry(PublicState::Waiting).or_default();
            if *count >= READY_PER_LANE_MAX {
                full = Some(lane.clone());
                break;
            }
            *count += 1;
            let class = &entry.place.columns[..5];
            if queue.as_deref() != Some(class) {
                (queue, nth) = (Some(class.to_vec()), 0);
                if let Value::Text(set) = &class[3] {
                    depth.capability_sets.insert(set.clone());
                }
            }
            nth += 1;
            // The head of a busy queue is gone before it is read; then one behind it is the oldest.
            if nth.is_power_of_two() && heads.len() < HEADS_MAX {
                heads.extend(entry.key().map(|key| (entry.partition, key)));
            }
        }
        after = match full {
            Some(lane) => Some(after_lane(namespace, &lane)),
            None if !more || entries.is_empty() => break,
            None => entries.last().map(|entry| entry.place.clone()),
        };
    }
    for execution in read(shared, heads).await? {
        if let State::Ready { since, .. } = execution.hot.state {
            let depth = depths.lanes.entry(execution.spec.lane.clone()).or_default();
            depth.oldest = Some(depth.oldest.map_or(since, |oldest| oldest.min(since)));
        }
    }
    Ok(())
}

/// The place behind all entries of a lane: no kind begins with a byte as large.
fn after_lane(namespace: &Text, lane: &Text) -> Place {
    let columns = vec![
        Value::text(namespace),
        Value::text(lane),
        Value::Text("\u{7f}".into()),
        Value::Text("".into()),
        Value::bytes(&[]),
        Value::Int(i64::MAX),
    ];
    Place { columns, key: Bytes::copy_from_slice(Uuid::max().as_bytes()) }
}

/// Counts the executions of one listed state by lane.
async fn listed(shared: &Shared, namespace: &Text, state: PublicState, depths: &mut Depths) -> Result<(), Error> {
    let prefix = vec![Value::text(namespace), Value::Text(state.text())];
    let mut after = None;
    let mut looked = 0;
    while looked < WAITING_MAX {
        let range = Range { prefix: prefix.clone(), after: after.take(), until: None };
        let (entries, more) = scan(shared, None, IndexId::ByState, range, PAGE, Some(schema::LIGHT)).await?;
        looked += entries.len().max(1);
        for execution in entries.iter().filter_map(execution_of) {
            *depths.lanes.entry(execution.spec.lane.clone()).or_default().states.entry(state).or_default() += 1;
        }
        after = entries.last().map(|entry| entry.place.clone());
        if !more || entries.is_empty() {
            break;
        }
    }
    Ok(())
}

/// What is active, by the timers of the leases; the longest running first.
async fn active(shared: &Shared, kept: &mut Kept, clock: Time) -> Result<Arc<[Running]>, Error> {
    if let Some((_, active)) = kept.active.as_ref().filter(|(at, _)| clock.since(*at) < FRESH_MS) {
        return Ok(active.clone());
    }
    let scan = Scan {
        target: Target::Due,
        ranges: vec![Range { prefix: vec![Value::Int(Timer::Lease as i64)], ..Range::default() }],
        limit: ACTIVE_MAX,
        descending: false,
        parts: None,
    };
    let pages = shared.store.scan(None, scan).await?;
    let entries = pages.into_iter().flat_map(|page| page.entries);
    let keys = entries.filter_map(|entry| entry.key().map(|key| (entry.partition, key))).collect();
    let mut running: Vec<Running> = read(shared, keys).await?.iter().filter_map(running_of).collect();
    running.sort_by_key(|running| (running.since, running.execution));
    let active: Arc<[Running]> = running.into();
    kept.active = Some((clock, active.clone()));
    Ok(active)
}

fn running_of(execution: &Execution) -> Option<Running> {
    let lease = execution.lease()?;
    Some(Running {
        namespace: execution.spec.namespace.clone(),
        execution: execution.id,
        kind: execution.spec.kind.clone(),
        lane: execution.spec.lane.clone(),
        instance: lease.instance.clone(),
        attempt: execution.hot.open.as_ref().map_or(0, |open| open.index),
        since: lease.acquired_at,
    })
}

/// The worker processes of a namespace, those that only claim from this node among them.
async fn workers(shared: &Shared, namespace: &Text) -> Result<Vec<Manned>, Rejection> {
    let who = Principal::new(namespace.clone(), "engine", Scopes::ENGINE);
    let mut manned = Vec::new();
    let mut filter = WorkerFilter { limit: Some(LIST_LIMIT_MAX), ..WorkerFilter::default() };
    while manned.len() < WORKERS_MAX {
        let page = worker::list(shared, &who, &filter).await?;
        manned.extend(page.workers.into_iter().map(|body| Manned { state: body.state, lanes: body.lanes }));
        filter.cursor = page.next_cursor;
        if filter.cursor.is_none() {
            break;
        }
    }
    Ok(manned)
}

/// How many dead letters there are, by scanner.
pub(crate) async fn parked(shared: &Shared) -> Result<BTreeMap<Text, u64>, Error> {
    let mut parked = BTreeMap::new();
    let light = Kind::DeadLetter.table().light;
    let mut after = None;
    for _ in 0..PARKED_MAX / PAGE {
        let range = Range { after, ..Range::default() };
        let (entries, more) = scan(shared, None, IndexId::DeadLetters, range, PAGE, Some(light)).await?;
        for entry in &entries {
            let (Some(key), Some(found)) = (entry.key(), &entry.found) else { continue };
            if let Ok(Record::DeadLetter(letter)) = Record::decode(key, &found.parts, light) {
                *parked.entry(letter.body.scanner.clone()).or_default() += 1;
            }
        }
        after = entries.into_iter().last().map(|entry| entry.place).filter(|_| more);
        if after.is_none() {
            break;
        }
    }
    Ok(parked)
}

async fn scan(
    shared: &Shared,
    partition: Option<PartitionId>,
    index: IndexId,
    range: Range,
    limit: usize,
    parts: Option<PartMask>,
) -> Result<(Vec<Entry>, bool), Error> {
    let scan = Scan { target: Target::Index(index), ranges: vec![range], limit, descending: false, parts };
    let page = shared.store.scan(partition, scan).await?.pop().unwrap_or_default();
    Ok((page.entries, page.more))
}

/// The executions behind these keys that are still there, a few hundred per call.
async fn read(shared: &Shared, keys: Vec<(PartitionId, Key)>) -> Result<Vec<Execution>, Error> {
    let executions = read_records(shared, keys, schema::LIGHT).await?.into_iter().filter_map(|record| match record {
        Record::Execution(execution) => Some(*execution),
        _ => None,
    });
    Ok(executions.collect())
}

async fn read_records(shared: &Shared, keys: Vec<(PartitionId, Key)>, parts: PartMask) -> Result<Vec<Record>, Error> {
    let mut by_partition: BTreeMap<PartitionId, Vec<(Key, PartMask)>> = BTreeMap::new();
    for (partition, key) in keys {
        by_partition.entry(partition).or_default().push((key, parts));
    }
    let mut records = Vec::new();
    for (partition, keys) in by_partition {
        for some in keys.chunks(READ) {
            let found = shared.store.read(partition, some.to_vec()).await?.found;
            for ((key, parts), found) in some.iter().zip(found) {
                records.extend(found.and_then(|found| Record::decode(*key, &found.parts, *parts).ok()));
            }
        }
    }
    Ok(records)
}

fn execution_of(entry: &Entry) -> Option<Execution> {
    match Record::decode(entry.key()?, &entry.found.as_ref()?.parts, schema::LIGHT) {
        Ok(Record::Execution(execution)) => Some(*execution),
        _ => None,
    }
}
