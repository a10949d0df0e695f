//! What has been going on lately, by namespace: rates and latencies of the last minutes, and the newest failures. Seen
//! by this node, in its memory, and bounded: who has been silent the longest makes room.

use super::spread::{Latency, Spread};
use super::tally::{Cell, Failure, Tally};
use std::collections::{BTreeMap, VecDeque};
use weft_core::Time;
use weft_core::record::api_key::Reach;
use weft_core::record::execution::Outcome;
use weft_core::text::Text;

const NAMESPACES_MAX: usize = 128;
const LANES_MAX: usize = 100;
const FAILURES_MAX: usize = 50;

/// The last minute in slots of five seconds, the last quarter of an hour in slots of thirty.
const FINE: Grid = Grid { slot_ms: 5_000, slots: 12 };
const COARSE: Grid = Grid { slot_ms: 30_000, slots: 30 };
/// The windows that are told: minutes, and the slots that make them up.
const WINDOWS: [(u32, Grid); 3] =
    [(1, FINE), (5, Grid { slot_ms: COARSE.slot_ms, slots: 10 }), (15, Grid { slot_ms: COARSE.slot_ms, slots: 30 })];

#[derive(Clone, Copy)]
struct Grid {
    slot_ms: u64,
    slots: u64,
}

impl Grid {
    fn slot_at(self, now: Time) -> u64 {
        now.ms() / self.slot_ms
    }

    /// The first slot that still counts.
    fn first(self, now: Time) -> u64 {
        (self.slot_at(now) + 1).saturating_sub(self.slots)
    }

    /// The seconds that the slots up to now cover, of those that the node has seen.
    fn seconds(self, now: Time, since: Time) -> f64 {
        let begin = Time::from_ms(self.first(now) * self.slot_ms).max(since);
        now.since(begin).max(1_000) as f64 / 1_000.0
    }
}

/// What lies in one slot.
trait Sum: Default {
    fn join(&mut self, other: &Self);
}

/// Slots in the order of time; those in which nothing happened are not there.
struct Ring<S> {
    grid: Grid,
    slots: VecDeque<(u64, Box<S>)>,
}

impl<S: Sum> Ring<S> {
    fn new(grid: Grid) -> Self {
        Self { grid, slots: VecDeque::new() }
    }

    /// The slot of `now`. Time does not go back by more than partitions differ: what is late counts as the newest.
    fn at(&mut self, now: Time) -> &mut S {
        let slot = self.grid.slot_at(now);
        if self.slots.back().is_none_or(|(last, _)| *last < slot) {
            self.slots.push_back((slot, Box::default()));
            let first = self.grid.first(now);
            while self.slots.front().is_some_and(|(oldest, _)| *oldest < first) {
                self.slots.pop_front();
            }
        }
        &mut self.slots.back_mut().expect("windows: a slot was just made sure of").1
    }

    fn sum(&self, grid: Grid, now: Time) -> S {
        let mut sum = S::default();
        let first = grid.first(now);
        for (_, slot) in self.slots.iter().filter(|(slot, _)| *slot >= first) {
            sum.join(slot);
        }
        sum
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    submitted: u64,
    claimed: u64,
    completed: u64,
    failed: u64,
    retried: u64,
}

impl Counts {
    fn of(cell: &Cell) -> Self {
        let ended = |outcome: Outcome| u64::from(cell.finished[outcome as usize]);
        Self {
            submitted: cell.submitted.into(),
            claimed: cell.claimed.iter().map(|count| u64::from(*count)).sum(),
            completed: ended(Outcome::Success),
            // Who cancels has what they wanted.
            failed: ended(Outcome::Failed) + ended(Outcome::Expired),
            retried: cell.retried.into(),
        }
    }
}

impl Sum for Counts {
    fn join(&mut self, other: &Self) {
        self.submitted += other.submitted;
        self.claimed += other.claimed;
        self.completed += other.completed;
        self.failed += other.failed;
        self.retried += other.retried;
    }
}

#[derive(Default)]
struct Slot {
    counts: Counts,
    waits: Spread,
    runs: Spread,
    totals: Spread,
}

impl Slot {
    fn add(&mut self, counts: &Counts, cell: &Cell) {
        self.counts.join(counts);
        cell.waits.iter().for_each(|ms| self.waits.add_ms(*ms));
        cell.runs.iter().for_each(|ms| self.runs.add_ms(*ms));
        cell.totals.iter().for_each(|ms| self.totals.add_ms(*ms));
    }
}

impl Sum for Slot {
    fn join(&mut self, other: &Self) {
        self.counts.join(&other.counts);
        self.waits.join(&other.waits);
        self.runs.join(&other.runs);
        self.totals.join(&other.totals);
    }
}

struct Namespace {
    last_at: Time,
    fine: Ring<Slot>,
    coarse: Ring<Slot>,
    lanes: BTreeMap<Text, (Time, Ring<Counts>)>,
    failures: VecDeque<Failure>,
}

impl Namespace {
    fn new() -> Self {
        Self {
            last_at: Time::ZERO,
            fine: Ring::new(FINE),
            coarse: Ring::new(COARSE),
            lanes: BTreeMap::new(),
            failures: VecDeque::new(),
        }
    }
}

/// Rates and latencies of a stretch of time that ends now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    pub minutes: u32,
    pub submitted_per_s: f64,
    pub claimed_per_s: f64,
    pub completed_per_s: f64,
    /// Ended without success.
    pub failed_per_s: f64,
    pub retried_per_s: f64,
    pub queue_wait: Latency,
    pub run: Latency,
    pub end_to_end: Latency,
}

/// A lane in the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LaneRates {
    pub submitted_per_s: f64,
    pub completed_per_s: f64,
    pub failed_per_s: f64,
}

/// What this node has seen of a namespace lately.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activity {
    /// The last 1, 5 and 15 minutes.
    pub windows: Vec<Window>,
    pub lanes: BTreeMap<Text, LaneRates>,
    /// The newest first.
    pub failures: Vec<Failure>,
}

#[derive(Default)]
pub struct Windows {
    namespaces: BTreeMap<Text, Namespace>,
}

impl Windows {
    pub fn absorb(&mut self, tally: &mut Tally) {
        let now = tally.at;
        for cell in &tally.cells {
            let counts = Counts::of(cell);
            let namespace = self.namespace(&cell.namespace, now);
            namespace.fine.at(now).add(&counts, cell);
            namespace.coarse.at(now).add(&counts, cell);
            if let Some(lane) = lane(&mut namespace.lanes, &cell.lane, now) {
                lane.at(now).join(&counts);
            }
        }
        for (name, failure) in tally.failures.drain(..) {
            let failures = &mut self.namespace(&name, now).failures;
            failures.push_front(failure);
            failures.truncate(FAILURES_MAX);
        }
    }

    fn namespace(&mut self, name: &Text, now: Time) -> &mut Namespace {
        if !self.namespaces.contains_key(name) && self.namespaces.len() >= NAMESPACES_MAX {
            let silent = self.namespaces.iter().min_by_key(|(_, other)| other.last_at).map(|(name, _)| name.clone());
            silent.and_then(|name| self.namespaces.remove(&name));
        }
        let namespace = self.namespaces.entry(name.clone()).or_insert_with(Namespace::new);
        namespace.last_at = now;
        namespace
    }

    /// What was seen of the namespaces within reach, taken together, and of no other. `since` is when the node began to
    /// look.
    pub fn activity(&self, reach: &Reach, now: Time, since: Time) -> Activity {
        let within = || self.namespaces.iter().filter(|(name, _)| reach.holds(name)).map(|(_, namespace)| namespace);
        let windows = WINDOWS.map(|(minutes, grid)| {
            let mut sum = Slot::default();
            for namespace in within() {
                let ring = if grid.slot_ms == FINE.slot_ms { &namespace.fine } else { &namespace.coarse };
                sum.join(&ring.sum(grid, now));
            }
            window(minutes, &sum, grid.seconds(now, since))
        });
        let mut counts: BTreeMap<&Text, Counts> = BTreeMap::new();
        for (lane, (_, ring)) in within().flat_map(|namespace| &namespace.lanes) {
            counts.entry(lane).or_default().join(&ring.sum(FINE, now));
        }
        let seconds = FINE.seconds(now, since);
        let per_s = |count: u64| count as f64 / seconds;
        let lanes = counts.into_iter().map(|(lane, counts)| {
            let rates = LaneRates {
                submitted_per_s: per_s(counts.submitted),
                completed_per_s: per_s(counts.completed),
                failed_per_s: per_s(counts.failed),
            };
            (lane.clone(), rates)
        });
        let lanes = lanes.collect();
        let mut failures: Vec<Failure> = within().flat_map(|namespace| &namespace.failures).cloned().collect();
        failures.sort_by_key(|failure| std::cmp::Reverse(failure.at));
        failures.truncate(FAILURES_MAX);
        Activity { windows: windows.to_vec(), lanes, failures }
    }
}

/// The ring of a lane; none if there are too many lanes that are as busy.
fn lane<'a>(
    lanes: &'a mut BTreeMap<Text, (Time, Ring<Counts>)>,
    name: &Text,
    now: Time,
) -> Option<&'a mut Ring<Counts>> {
    if !lanes.contains_key(name) && lanes.len() >= LANES_MAX {
        lanes.retain(|_, (last_at, _)| now.since(*last_at) < FINE.slot_ms * FINE.slots);
        if lanes.len() >= LANES_MAX {
            return None;
        }
    }
    let (last_at, ring) = lanes.entry(name.clone()).or_insert_with(|| (now, Ring::new(FINE)));
    *last_at = now;
    Some(ring)
}

fn window(minutes: u32, slot: &Slot, seconds: f64) -> Window {
    let per_s = |count: u64| count as f64 / seconds;
    let Counts { submitted, claimed, completed, failed, retried } = slot.counts;
    Window {
        minutes,
        submitted_per_s: per_s(submitted),
        claimed_per_s: per_s(claimed),
        completed_per_s: per_s(completed),
        failed_per_s: per_s(failed),
        retried_per_s: per_s(retried),
        queue_wait: slot.waits.latency(),
        run: slot.runs.latency(),
        end_to_end: slot.totals.latency(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(namespace: &str, lane: &str, at_ms: u64, total_ms: u64) -> Tally {
        let mut cell = Cell::new(namespace.into(), lane.into());
        cell.submitted = 1;
        cell.finished[0] = 1;
        cell.totals.push(total_ms);
        Tally { at: Time::from_ms(at_ms), cells: vec![cell], ..Tally::default() }
    }

    fn only(namespace: &str) -> Reach {
        Reach::Some([namespace.into()].into())
    }

    #[test]
    fn rates_are_those_of_the_last_minutes_and_fade() {
        let mut windows = Windows::default();
        // One a second for ten minutes.
        for second in 0..600 {
            windows.absorb(&mut ended("shop", "mail", second * 1_000, 250));
        }
        let at = |ms: u64| windows.activity(&only("shop"), Time::from_ms(ms), Time::ZERO);
        let now = at(599_999);
        for (window, count) in now.windows.iter().zip([60, 300, 600]) {
            assert_eq!(window.end_to_end.count, count, "of {} minutes", window.minutes);
            assert!((window.completed_per_s - 1.0).abs() < 0.02, "{window:?}");
            assert_eq!(window.end_to_end.p99_ms, 239.5, "the middle of the bucket of 224 to 255");
        }
        assert!((now.lanes["mail"].submitted_per_s - 1.0).abs() < 0.02);
        let later = at(599_999 + 60_000);
        assert_eq!(later.windows[0].completed_per_s, 0.0);
        assert_eq!(later.windows[1].end_to_end.count, 240);
        assert_eq!(at(599_999 + 901_000).windows[2], Window { minutes: 15, ..Window::default() });
    }

    #[test]
    fn the_rates_of_a_young_node_are_those_of_its_life() {
        let mut windows = Windows::default();
        let began = Time::from_ms(1_000_000);
        for second in 0..10 {
            windows.absorb(&mut ended("shop", "mail", 1_000_000 + second * 1_000, 1));
        }
        let activity = windows.activity(&only("shop"), began + 10_000, began);
        assert!(activity.windows.iter().all(|window| window.submitted_per_s == 1.0), "{activity:?}");
    }

    #[test]
    fn a_namespace_sees_nothing_of_another() {
        let mut windows = Windows::default();
        windows.absorb(&mut ended("shop", "mail", 1_000, 5));
        windows.absorb(&mut ended("bank", "wire", 1_000, 5));
        let shop = windows.activity(&only("shop"), Time::from_ms(2_000), Time::ZERO);
        assert_eq!(shop.lanes.keys().map(|lane| &**lane).collect::<Vec<_>>(), ["mail"]);
        assert_eq!(shop.windows[0].end_to_end.count, 1);
        assert_eq!(windows.activity(&only("nobody"), Time::from_ms(2_000), Time::ZERO).windows[0].end_to_end.count, 0);
    }

    #[test]
    fn names_are_bounded_and_the_silent_make_room() {
        let mut windows = Windows::default();
        for number in 0..NAMESPACES_MAX as u64 + 10 {
            windows.absorb(&mut ended(&format!("n{number}"), "l", number, 1));
        }
        assert_eq!(windows.namespaces.len(), NAMESPACES_MAX);
        assert!(!windows.namespaces.contains_key("n9") && windows.namespaces.contains_key("n10"));
        for number in 0..LANES_MAX as u64 + 10 {
            windows.absorb(&mut ended("n10", &format!("l{number}"), 500, 1));
        }
        assert_eq!(windows.namespaces["n10"].lanes.len(), LANES_MAX);
        windows.absorb(&mut ended("n10", "late", 100_000, 1));
        assert_eq!(windows.namespaces["n10"].lanes.len(), 1, "those that were silent for a minute have gone");
    }
}
