//! The ready queues: per lane and class an in-memory window over the ready index, fed by this node's commits and refilled
//! by scans. The windows are a guess: the claim itself checks each execution.
//!
//! A queue's *horizon* is the last place up to which the window is known to hold everything; beyond it the store knows
//! more. No horizon means that the window is the whole queue. A scan cannot see what commits on their way put beyond the
//! horizon: those places are kept aside (`late`) until a scan can have seen them.

use super::cache::Cache;
use crate::request::{ClaimSpec, LaneMode};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Mutex;
use uuid::Uuid;
use weft_core::record::execution::{Execution, State};
use weft_core::record::{Key, Record};
use weft_core::schema::{IndexId, PartMask, Value, execution as schema};
use weft_core::text::{Capabilities, Text};
use weft_core::{ExecutionId, PartitionId};
use weft_store::{Page, Place, Range, Scan, Target};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LaneKey {
    pub namespace: Text,
    pub lane: Text,
}

/// What makes executions of a lane interchangeable for a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    pub kind: Text,
    pub capabilities: Capabilities,
    pub concurrency_key: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueKey {
    pub lane: LaneKey,
    pub class: Class,
}

/// A place in a queue: order, then id.
pub type Rank = (i64, Uuid);

#[derive(Default)]
struct Queue {
    window: BTreeSet<Rank>,
    horizon: Option<Rank>,
    /// Places beyond the horizon, by the batch that put them there, that a scan under way may not see.
    late: VecDeque<(u64, Rank)>,
    scan: Option<Asked>,
}

#[derive(Default)]
struct Lane {
    queues: BTreeMap<Class, Queue>,
    known: Known,
    scan: Option<Asked>,
    /// Place in the sharing between lanes: the smallest goes first.
    pass: u64,
}

/// A scan that is under way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// When it was asked for: an answer to an earlier question is not taken for it.
    pub turn: u64,
    /// It sees at least the batches up to this one.
    pub acked: u64,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Known {
    #[default]
    No,
    /// There may be something: somebody has said so.
    Stirred,
    Discovering,
    /// Since this turn.
    Since(u64),
}

/// Nothing of the queue is known to be in the window.
const NOWHERE: Rank = (i64::MIN, Uuid::nil());
const DISCOVER_LIMIT: usize = 64;
const REFILL_LIMIT: usize = 512;
/// Candidates that are loaded together.
const UPCOMING_MAX: usize = 512;
/// Inputs up to this size are read with the refill, so that a claim needs no read of its own.
const PREFETCH_INPUT_MAX: u64 = 4096;

pub struct Ready {
    lanes: BTreeMap<LaneKey, Lane>,
    window_max: usize,
    /// Running mean of input sizes; unknown at first, and then nothing is prefetched.
    input_mean: Option<u64>,
    /// Lanes that got work since the claims were last served.
    dirty: BTreeSet<LaneKey>,
}

/// How much must be known before a claim is told that there is nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Care {
    /// What this node has seen so far.
    Known,
    /// A look at the store since the claim came in.
    Fresh,
    /// Only what this node was told of: somebody else looks at the store for this claim.
    Told,
}

/// The best candidate for a claim, or what must be known first.
pub enum Best {
    Candidate {
        queue: QueueKey,
        rank: Rank,
    },
    /// These lanes must be looked at, these queues refilled.
    Ask {
        discover: Vec<LaneKey>,
        refill: Vec<QueueKey>,
    },
    Nothing,
}

impl Ready {
    pub fn new(window_max: usize) -> Self {
        Self { lanes: BTreeMap::new(), window_max: window_max.max(1), input_mean: None, dirty: BTreeSet::new() }
    }

    /// Parts that refills load beside the keys.
    pub fn parts(&self) -> PartMask {
        match self.input_mean {
            Some(mean) if mean <= PREFETCH_INPUT_MAX => schema::LIGHT.with(PartMask::of(schema::INPUT)),
            _ => schema::LIGHT,
        }
    }

    /// Takes in what a command of `batch` left: a ready execution joins its queue.
    pub fn note(&mut self, execution: &Execution, batch: u64) {
        let State::Ready { order, .. } = &execution.hot.state else { return };
        if let Some(bytes) = execution.hot.input_bytes {
            let mean = self.input_mean.unwrap_or(u64::from(bytes));
            self.input_mean = Some((mean * 15 + u64::from(bytes)) / 16);
        }
        let rank = (*order, execution.id.uuid());
        let key = lane_of(execution);
        if !self.dirty.contains(&key) {
            self.dirty.insert(key.clone());
        }
        let lane = self.lanes.entry(key).or_default();
        if lane.known == Known::No {
            lane.known = Known::Stirred;
        }
        let fresh_horizon = if matches!(lane.known, Known::Since(_)) { None } else { Some(NOWHERE) };
        let queue = lane
            .queues
            .entry(class_of(execution))
            .or_insert_with(|| Queue { horizon: fresh_horizon, ..Queue::default() });
        queue.push(rank, batch, self.window_max);
    }

    /// The first execution, in order, that the claim may take. `turn` is when the claim came in.
    pub fn best(&self, spec: &ClaimSpec, turn: u64, care: Care) -> Best {
        let (mut discover, mut look_again, mut refill) = (Vec::new(), Vec::new(), Vec::new());
        let mut best: Option<(u64, usize, QueueKey, Rank)> = None;
        for (at, wish) in spec.lanes.iter().enumerate() {
            let key = spec.lane_key(wish);
            let Some(lane) = self.lanes.get(&key) else {
                if care != Care::Told {
                    discover.push(key);
                }
                continue;
            };
            let head = lane.head(spec, &key, &mut refill);
            match lane.known {
                Known::No if care == Care::Told && head.is_none() => {}
                Known::No | Known::Stirred => discover.push(key.clone()),
                Known::Discovering if head.is_none() => discover.push(key.clone()),
                Known::Since(since) if head.is_none() && care == Care::Fresh && since < turn => {
                    look_again.push(key.clone())
                }
                Known::Discovering | Known::Since(_) => {}
            }
            let Some((class, rank)) = head else { continue };
            let pass = if spec.mode == LaneMode::Strict { at as u64 } else { lane.pass };
            let better = best.as_ref().is_none_or(|(other, place, ..)| (pass, at) < (*other, *place));
            if better {
                best = Some((pass, at, QueueKey { lane: key, class }, rank));
            }
        }
        match best {
            // What is not known yet may hide something better.
            _ if !refill.is_empty() || !discover.is_empty() => Best::Ask { discover, refill },
            Some((_, _, queue, rank)) => Best::Candidate { queue, rank },
            None if look_again.is_empty() => Best::Nothing,
            None => Best::Ask { discover: look_again, refill },
        }
    }

    /// The best places of every queue that matches the claim, up to `count` of each.
    pub fn upcoming(&self, spec: &ClaimSpec, count: usize) -> Vec<Rank> {
        let lanes = spec.lane_keys().filter_map(|key| self.lanes.get(&key));
        let queues = lanes.flat_map(|lane| lane.queues.iter().filter(|(class, _)| class.matches(spec)));
        queues.flat_map(|(_, queue)| queue.window.iter().take(count)).take(UPCOMING_MAX).copied().collect()
    }

    /// The execution is out of its queue.
    pub fn remove(&mut self, key: &QueueKey, rank: Rank) {
        if let Some(lane) = self.lanes.get_mut(&key.lane)
            && let Some(queue) = lane.queues.get_mut(&key.class)
        {
            queue.window.remove(&rank);
            if queue.window.is_empty() && queue.horizon.is_none() {
                lane.queues.remove(&key.class);
            }
        }
    }

    /// An execution of the lane was taken: the next turn goes to lanes with a smaller pass.
    pub fn charge(&mut self, key: &LaneKey, weight: u32) {
        let floor = self.lanes.iter().filter(|(other, lane)| *other != key && !lane.queues.is_empty());
        let floor = floor.map(|(_, lane)| lane.pass).min().unwrap_or(0);
        if let Some(lane) = self.lanes.get_mut(key) {
            // A lane that was idle earns no credit for it.
            lane.pass = lane.pass.max(floor.saturating_sub(1_000_000)) + 1_000_000 / u64::from(weight.max(1));
        }
    }

    /// Queues whose windows run low, so that the next claim need not wait.
    pub fn running_low(&self) -> Vec<QueueKey> {
        let low = self.window_max / 4;
        let mut keys = Vec::new();
        for (lane_key, lane) in &self.lanes {
            for (class, queue) in &lane.queues {
                let known = queue.horizon.is_some_and(|horizon| horizon != NOWHERE);
                if known && queue.window.len() <= low && queue.scan.is_none() {
                    keys.push(QueueKey { lane: lane_key.clone(), class: class.clone() });
                }
            }
        }
        keys
    }

    /// The scan that refills a queue; `None` if one is under way.
    pub fn refill(&mut self, key: &QueueKey, asked: Asked) -> Option<Scan> {
        let parts = self.parts();
        let queue = self.lanes.get_mut(&key.lane)?.queues.get_mut(&key.class)?;
        let horizon = queue.horizon?;
        if queue.scan.is_some() {
            return None;
        }
        queue.scan = Some(asked);
        let prefix = queue_prefix(key);
        let after = (horizon != NOWHERE).then(|| {
            let mut columns = prefix.clone();
            columns.push(Value::Int(horizon.0));
            Place { columns, key: Bytes::copy_from_slice(horizon.1.as_bytes()) }
        });
        let limit = REFILL_LIMIT.min(self.window_max);
        Some(ready_scan(Range { prefix, after, until: None }, limit, Some(parts)))
    }

    /// The scan that finds the queues of a lane; `None` if one is under way.
    pub fn discover(&mut self, key: &LaneKey, asked: Asked) -> Option<Scan> {
        let lane = self.lanes.entry(key.clone()).or_default();
        if lane.known == Known::Discovering {
            return None;
        }
        lane.known = Known::Discovering;
        lane.scan = Some(asked);
        let prefix = vec![Value::text(&key.namespace), Value::text(&key.lane)];
        Some(ready_scan(Range { prefix, after: None, until: None }, DISCOVER_LIMIT, None))
    }

    /// Takes a page of a discovery, asked for in `turn`. Answers with the next scan if queues may lie beyond it; `next` is
    /// the turn in which that one is asked for.
    pub fn discovered(&mut self, key: &LaneKey, page: Page, turn: u64, next: u64) -> Option<Scan> {
        let window_max = self.window_max;
        let lane = self.lanes.get_mut(key)?;
        let asked = lane.scan.filter(|asked| asked.turn == turn)?;
        let mut last: Option<(Class, Rank)> = None;
        let mut seen: BTreeMap<Class, BTreeSet<Rank>> = BTreeMap::new();
        for entry in &page.entries {
            if let Some((class, rank)) = read_place(&entry.place) {
                seen.entry(class.clone()).or_default().insert(rank);
                last = Some((class, rank));
            }
        }
        for (class, ranks) in seen {
            let cut = page.more && last.as_ref().is_some_and(|(last, _)| *last == class);
            let queue = lane.queues.entry(class).or_default();
            queue.take_in(ranks, cut, asked.acked, window_max);
        }
        match last {
            Some((class, _)) if page.more => {
                // Jump over the rest of the last queue to the next one.
                lane.scan = Some(Asked { turn: next, ..asked });
                let after = after_class(key, class);
                let prefix = vec![Value::text(&key.namespace), Value::text(&key.lane)];
                return Some(ready_scan(Range { prefix, after: Some(after), until: None }, DISCOVER_LIMIT, None));
            }
            // A page may be cut short; the next claim asks again.
            None if page.more => lane.known = Known::Stirred,
            _ => {
                lane.known = Known::Since(turn);
                // Queues that the scan did not show hold nothing but what commits on their way have put there.
                for queue in lane.queues.values_mut().filter(|queue| queue.horizon == Some(NOWHERE)) {
                    queue.take_in(BTreeSet::new(), false, asked.acked, window_max);
                }
                lane.queues.retain(|_, queue| !queue.window.is_empty() || queue.horizon.is_some());
            }
        }
        lane.scan = None;
        None
    }

    /// Takes the answer to a refill that was asked for in `turn`.
    pub fn refilled(&mut self, key: &QueueKey, page: Page, turn: u64, cache: &Cache) {
        let window_max = self.window_max;
        let Some(lane) = self.lanes.get_mut(&key.lane) else { return };
        let Some(queue) = lane.queues.get_mut(&key.class) else { return };
        let Some(asked) = queue.scan.filter(|asked| asked.turn == turn) else { return };
        queue.scan = None;
        let ranks: BTreeSet<Rank> =
            page.entries.iter().filter_map(|entry| read_place(&entry.place)).map(|(_, rank)| rank).collect();
        queue.take_in(ranks, page.more, asked.acked, window_max);
        if queue.window.is_empty() && queue.horizon.is_none() {
            lane.queues.remove(&key.class);
        }
        for entry in &page.entries {
            if let Some(Record::Execution(execution)) = entry.key().as_ref().and_then(|key| cache.record(key)) {
                let bytes = u64::from(execution.hot.input_bytes.unwrap_or(0));
                self.input_mean = Some((self.input_mean.unwrap_or(bytes) * 15 + bytes) / 16);
            }
        }
    }

    pub fn refill_failed(&mut self, key: &QueueKey) {
        if let Some(queue) = self.lanes.get_mut(&key.lane).and_then(|lane| lane.queues.get_mut(&key.class)) {
            queue.scan = None;
        }
    }

    /// There may be work in the lane of which this node has not heard. A look under way may have missed it.
    pub fn stir(&mut self, key: &LaneKey) {
        let lane = self.lanes.entry(key.clone()).or_default();
        lane.known = Known::Stirred;
        lane.scan = None;
    }

    /// All lanes must be looked at again, windows included. That there may be something in them stays known: claims
    /// wait that look at nothing of which they were not told.
    pub fn clear(&mut self) {
        for lane in self.lanes.values_mut() {
            *lane = Lane { known: Known::Stirred, pass: lane.pass, ..Lane::default() };
        }
    }

    /// Scans that begin from now on see the batches up to `acked`.
    pub fn acknowledged(&mut self, acked: u64) {
        for lane in self.lanes.values_mut() {
            let discovering = lane.scan.map_or(acked, |asked| asked.acked);
            for queue in lane.queues.values_mut() {
                let seen = queue.scan.map_or(acked, |asked| asked.acked).min(discovering);
                while queue.late.front().is_some_and(|(batch, _)| *batch <= seen) {
                    queue.late.pop_front();
                }
            }
        }
    }

    /// Lanes that got work since this was last asked.
    pub fn take_dirty(&mut self) -> BTreeSet<LaneKey> {
        std::mem::take(&mut self.dirty)
    }

    /// Best place per lane, for the node's choice between partitions.
    fn heads(&self) -> BTreeMap<LaneKey, Rank> {
        let first = |queue: &Queue| queue.window.first().or(queue.late.front().map(|(_, rank)| rank)).copied();
        let head = |lane: &Lane| lane.queues.values().filter_map(first).min();
        self.lanes.iter().filter_map(|(key, lane)| head(lane).map(|rank| (key.clone(), rank))).collect()
    }
}

impl Lane {
    /// The best place among the queues that match; queues that must be refilled first go to `refill`.
    fn head(&self, spec: &ClaimSpec, key: &LaneKey, refill: &mut Vec<QueueKey>) -> Option<(Class, Rank)> {
        let mut best: Option<(&Class, Rank)> = None;
        for (class, queue) in &self.queues {
            if !class.matches(spec) {
                continue;
            }
            match (queue.first(), queue.horizon) {
                (Some(rank), _) => {
                    if best.is_none_or(|(_, other)| rank < other) {
                        best = Some((class, rank));
                    }
                }
                (None, Some(_)) => refill.push(QueueKey { lane: key.clone(), class: class.clone() }),
                (None, None) => {}
            }
        }
        best.map(|(class, rank)| (class.clone(), rank))
    }
}

impl Class {
    fn matches(&self, spec: &ClaimSpec) -> bool {
        let kind = spec.kinds.as_ref().is_none_or(|kinds| kinds.contains(&self.kind));
        kind && self.capabilities.is_subset_of(&spec.capabilities)
    }
}

impl Queue {
    /// The best place, if the window is known to begin with it.
    fn first(&self) -> Option<Rank> {
        let first = *self.window.first()?;
        match self.horizon {
            Some(horizon) if first > horizon => None,
            _ => Some(first),
        }
    }

    fn push(&mut self, rank: Rank, batch: u64, window_max: usize) {
        if self.horizon.is_some_and(|horizon| rank > horizon) {
            self.late.push_back((batch, rank));
            return;
        }
        self.window.insert(rank);
        self.cut(batch, window_max);
    }

    /// Keeps the window within its bound; what is cut lies beyond the horizon.
    fn cut(&mut self, batch: u64, window_max: usize) {
        while self.window.len() > window_max
            && let Some(rank) = self.window.pop_last()
        {
            self.late.push_back((batch, rank));
            self.horizon = self.window.last().copied();
        }
    }

    /// Joins what a scan showed that saw the batches up to `acked`; with `more` there is something behind its last entry.
    fn take_in(&mut self, ranks: BTreeSet<Rank>, more: bool, acked: u64, window_max: usize) {
        let reached = ranks.last().copied().max(self.horizon);
        self.horizon = if more { reached.or(Some(NOWHERE)) } else { None };
        self.window.extend(ranks);
        let horizon = self.horizon;
        let near = |rank: &Rank| horizon.is_none_or(|horizon| *rank <= horizon);
        self.window
            .extend(self.late.iter().filter(|(batch, rank)| *batch > acked && near(rank)).map(|(_, rank)| *rank));
        if horizon.is_none() {
            self.late.clear();
        }
        let newest = self.late.back().map_or(acked + 1, |(batch, _)| *batch).max(acked + 1);
        self.cut(newest, window_max);
    }
}

fn lane_of(execution: &Execution) -> LaneKey {
    LaneKey { namespace: execution.spec.namespace.clone(), lane: execution.spec.lane.clone() }
}

fn class_of(execution: &Execution) -> Class {
    Class {
        kind: execution.spec.kind.clone(),
        capabilities: execution.spec.capabilities.clone(),
        concurrency_key: execution.spec.concurrency_key.clone().unwrap_or_default(),
    }
}

/// Where the entries of a queue are in the ready index.
pub fn queue_prefix(key: &QueueKey) -> Vec<Value> {
    vec![
        Value::text(&key.lane.namespace),
        Value::text(&key.lane.lane),
        Value::text(&key.class.kind),
        Value::text(key.class.capabilities.joined()),
        Value::Bytes(key.class.concurrency_key.clone()),
    ]
}

fn ready_scan(range: Range, limit: usize, parts: Option<PartMask>) -> Scan {
    Scan { target: Target::Index(IndexId::Ready), ranges: vec![range], limit, descending: false, parts }
}

/// The place behind all entries of a class.
pub fn after_class(lane: &LaneKey, class: Class) -> Place {
    let mut columns = queue_prefix(&QueueKey { lane: lane.clone(), class });
    columns.push(Value::Int(i64::MAX));
    Place { columns, key: Bytes::copy_from_slice(Uuid::max().as_bytes()) }
}

/// The class of an entry of the ready index.
pub fn class_of_place(place: &Place) -> Option<Class> {
    read_place(place).map(|(class, _)| class)
}

/// Class and rank of an entry of the ready index.
fn read_place(place: &Place) -> Option<(Class, Rank)> {
    let [_, _, Value::Text(kind), Value::Text(capabilities), Value::Bytes(concurrency_key), Value::Int(order)] =
        place.columns.as_slice()
    else {
        return None;
    };
    let class = Class {
        kind: kind.clone(),
        capabilities: Capabilities::from_joined(capabilities.clone()),
        concurrency_key: concurrency_key.clone(),
    };
    Some((class, (*order, Uuid::from_slice(&place.key).ok()?)))
}

/// The execution at a place of a partition's queue.
pub fn execution_at(partition: PartitionId, rank: Rank) -> Key {
    Key::Execution(ExecutionId::new(partition, rank.1))
}

/// What the partitions of a node know about their best work, so that a claim begins where the best one is.
#[derive(Default)]
pub struct Heads(Mutex<BTreeMap<PartitionId, BTreeMap<LaneKey, Rank>>>);

impl Heads {
    pub fn publish(&self, partition: PartitionId, ready: &Ready) {
        let mut heads = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        heads.insert(partition, ready.heads());
    }

    /// The partitions that are known to have work for the claim: those of this node first, best work first.
    pub fn order(&self, spec: &ClaimSpec, is_mine: impl Fn(PartitionId) -> bool) -> Vec<PartitionId> {
        let heads = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let best = |lanes: &BTreeMap<LaneKey, Rank>| spec.lane_keys().filter_map(|key| lanes.get(&key).copied()).min();
        let known = heads.iter().filter_map(|(partition, lanes)| Some((best(lanes)?, *partition)));
        let mut order: Vec<(bool, Rank, PartitionId)> =
            known.map(|(rank, partition)| (!is_mine(partition), rank, partition)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, _, partition)| partition).collect()
    }
}
