//! Finding ready work that this node has not heard of: one look at the ready index of all partitions for a lane, shared
//! by all claims that ask for it meanwhile.
//!
//! Work that this node commits reaches its waiting claims by itself, and other nodes ring. A look is for what was there
//! before, and for rings that got lost.

use crate::engine::Shared;
use crate::outage;
use crate::partition::{Class, LaneKey, after_class, class_of_place};
use crate::scanner::watch;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::oneshot;
use weft_core::schema::{IndexId, Value};
use weft_core::{PartitionId, Time};
use weft_store::{Error, Range, Scan, Target, Wake};

/// Entries of one page. A class that fills it is passed over after the first: one of its entries is as good as another.
const PAGE: usize = 64;
/// Pages of one look: so many classes may hide the next.
const PAGES_MAX: usize = 64;
/// A claim that begins to wait asks for a look unless one found nothing so recently: then work comes with a ring.
const RECENT_MS: u64 = 1_000;

/// The partitions in which a lane has ready work, as far as a look has shown.
type Found = Result<BTreeSet<PartitionId>, Error>;

#[derive(Default)]
pub struct Lanes(Mutex<State>);

#[derive(Default)]
struct State {
    /// Lanes to look at, with those who wait for the answer.
    asked: BTreeMap<LaneKey, Vec<oneshot::Sender<Found>>>,
    /// A task works on them.
    looking: bool,
    /// When a look last began that found nothing in the lane, on the node's clock.
    empty_at: BTreeMap<LaneKey, Time>,
    /// Claims that wait, by lane.
    waiting: BTreeMap<LaneKey, usize>,
}

impl Lanes {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves questions that nobody answers: their askers are told that the look failed.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// True if a claim of this node waits for the lane.
    pub fn is_waited_for(&self, lane: &LaneKey) -> bool {
        self.lock().waiting.contains_key(lane)
    }

    fn looked(&self, lane: &LaneKey, clock: Time, empty: bool) {
        let mut state = self.lock();
        state.empty_at.retain(|_, at| clock.since(*at) < RECENT_MS);
        match empty {
            true => state.empty_at.insert(lane.clone(), clock),
            false => state.empty_at.remove(lane),
        };
    }

    fn begin_wait(&self, lanes: &[LaneKey]) {
        let mut state = self.lock();
        for lane in lanes {
            *state.waiting.entry(lane.clone()).or_default() += 1;
        }
    }

    fn end_wait(&self, lanes: &[LaneKey]) {
        let mut state = self.lock();
        for lane in lanes {
            if let Some(count) = state.waiting.get_mut(lane) {
                *count -= 1;
                if *count == 0 {
                    state.waiting.remove(lane);
                }
            }
        }
    }
}

/// Counts a claim as waiting for its lanes until it is dropped.
pub struct Vigil {
    shared: Arc<Shared>,
    lanes: Vec<LaneKey>,
}

impl Vigil {
    pub fn keep(shared: &Arc<Shared>, lanes: Vec<LaneKey>) -> Self {
        shared.lanes.begin_wait(&lanes);
        Self { shared: shared.clone(), lanes }
    }

    /// Has the lanes looked at unless a look found nothing a moment ago.
    pub fn look(&self) {
        let clock = self.shared.runtime.clock();
        let stale: Vec<LaneKey> = {
            let state = self.shared.lanes.lock();
            let recent = |lane: &LaneKey| state.empty_at.get(lane).is_some_and(|at| clock.since(*at) < RECENT_MS);
            self.lanes.iter().filter(|lane| !recent(lane)).cloned().collect()
        };
        for lane in stale {
            // Whoever waits is woken by what the look finds.
            drop(look(&self.shared, lane));
        }
    }
}

impl Drop for Vigil {
    fn drop(&mut self) {
        self.shared.lanes.end_wait(&self.lanes);
    }
}

/// Looks at all lanes that are waited for, at intervals: rings may have been lost.
pub async fn recheck(shared: Arc<Shared>) {
    loop {
        let closed = shared.closed.notified();
        if shared.is_closing() {
            return;
        }
        futures_util::pin_mut!(closed);
        futures_util::future::select(closed, shared.runtime.sleep(shared.config.recheck_ms)).await;
        let waited: Vec<LaneKey> = shared.lanes.lock().waiting.keys().cloned().collect();
        for lane in waited {
            drop(look(&shared, lane));
        }
    }
}

/// Asks for a look that begins from now on. The claims that wait in the partitions it finds are woken.
pub fn look(shared: &Arc<Shared>, lane: LaneKey) -> oneshot::Receiver<Found> {
    let (tell, told) = oneshot::channel();
    let mut state = shared.lanes.lock();
    state.asked.entry(lane).or_default().push(tell);
    if !state.looking {
        state.looking = true;
        drop(state);
        let task = shared.clone();
        shared.start(async move { look_at_all(&task).await });
    }
    told
}

async fn look_at_all(shared: &Arc<Shared>) {
    loop {
        let (lane, tell) = {
            let mut state = shared.lanes.lock();
            let Some(asked) = state.asked.pop_first() else {
                state.looking = false;
                return;
            };
            asked
        };
        let clock = shared.runtime.clock();
        let found = find(shared, &lane).await;
        shared.lanes.looked(&lane, clock, matches!(&found, Ok((found, true)) if found.is_empty()));
        let found = found.map(|(found, _)| found);
        if let Err(error) = &found {
            tracing::warn!(lane = %lane.lane, %error, "could not look for ready work");
        }
        for partition in found.iter().flatten() {
            let wake =
                Wake { partition: *partition, lanes: vec![(lane.namespace.clone(), lane.lane.clone())], due: None };
            // If the hint is lost the next look finds the work again.
            watch::pass_on(shared, wake);
        }
        for tell in tell {
            // The claim may have been served meanwhile.
            let _ = tell.send(found.clone());
        }
    }
}

/// For every class of work in the lane at least one partition that has some, and whether all partitions answered.
async fn find(shared: &Shared, lane: &LaneKey) -> Result<(BTreeSet<PartitionId>, bool), Error> {
    let prefix = vec![Value::text(&lane.namespace), Value::text(&lane.lane)];
    let (mut found, mut is_whole) = (BTreeSet::new(), true);
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let scan = Scan {
            target: Target::Index(IndexId::Ready),
            ranges: vec![Range { prefix: prefix.clone(), after, until: None }],
            limit: PAGE,
            descending: false,
            parts: None,
        };
        let (mut pages, silent) = outage::scan_all(shared, scan).await?;
        is_whole &= silent.is_empty();
        let Some(page) = pages.pop() else { break };
        found.extend(page.entries.iter().map(|entry| entry.partition));
        let last: Option<Class> = page.entries.last().and_then(|entry| class_of_place(&entry.place));
        match last.filter(|_| page.more) {
            Some(class) => after = Some(after_class(lane, class)),
            None => break,
        }
    }
    Ok((found, is_whole))
}
