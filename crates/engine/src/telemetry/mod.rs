//! What a node does, in numbers: counters and histograms of bounded label sets, and what went on lately by namespace. It
//! is fed by commits that were applied, by claims, by renewals and by the store; it never decides anything, and nothing
//! of it is stored.

pub mod family;
pub mod flows;
pub mod histogram;
pub mod lanes;
pub mod meters;
mod readings;
pub mod spread;
pub mod tally;
pub mod windows;

pub use family::{FAMILIES, Family, Kind, Reading, Readings, Sample};
pub(crate) use readings::read;
pub use spread::Latency;
pub use tally::Failure;
pub use windows::{Activity, LaneRates, Window};

use crate::stats::Counter;
use flows::FlowMeters;
use lanes::LaneMeters;
use meters::{Claims, Commits, Gauges, Renewals, ScannerMeter, StoreMeters};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use tally::Tally;
use weft_core::record::api_key::Reach;
use weft_core::text::Text;
use weft_core::{ParkedId, PartitionId, Time};
use windows::Windows;

/// The numbers of one node.
pub struct Telemetry {
    book: Mutex<Book>,
    pub claims: Claims,
    pub renewals: Renewals,
    pub commits: Commits,
    pub misses: Counter,
    pub hits: Counter,
    pub reruns: Counter,
    pub violations: Counter,
    pub store: StoreMeters,
    pub flows: FlowMeters,
    scanners: BTreeMap<&'static str, ScannerMeter>,
    cache_bytes: Vec<AtomicU64>,
    gauges: Mutex<Gauges>,
}

/// What is counted per event, one commit at a time.
#[derive(Default)]
struct Book {
    lanes: LaneMeters,
    leases_lost: BTreeMap<&'static str, u64>,
    handoffs: u64,
    /// Groups by policy and verdict, and siblings that these cancelled.
    decided: BTreeMap<(&'static str, &'static str), u64>,
    siblings: BTreeMap<&'static str, u64>,
    windows: Windows,
}

impl Telemetry {
    pub fn new(partitions: u16, scanners: impl Iterator<Item = &'static str>) -> Self {
        Self {
            book: Mutex::default(),
            claims: Claims::default(),
            renewals: Renewals::default(),
            commits: Commits::default(),
            misses: Counter::default(),
            hits: Counter::default(),
            reruns: Counter::default(),
            violations: Counter::default(),
            store: StoreMeters::default(),
            flows: FlowMeters::default(),
            scanners: scanners.map(|name| (name, ScannerMeter::default())).collect(),
            cache_bytes: (0..partitions).map(|_| AtomicU64::new(0)).collect(),
            gauges: Mutex::default(),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // A panic elsewhere leaves numbers that are short of one commit.
        self.book.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn gauges(&self) -> MutexGuard<'_, Gauges> {
        self.gauges.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes what an applied commit adds up to.
    pub fn applied(&self, mut tally: Tally) {
        self.flows.applied(&tally.flows);
        for (item, parked) in tally.parked.iter().filter_map(|parked| Some((parked.item()?, parked))) {
            let (scanner, letter) = (&*parked.body.scanner, ParkedId::new(parked.partition, parked.uuid));
            let (failures, error) = (parked.body.fails, &*parked.body.error);
            tracing::error!(scanner, ?item, failures, %letter, error, "an item is parked");
        }
        if tally.is_empty() && tally.lost.is_empty() && tally.flows.is_empty() {
            return;
        }
        let mut book = self.book();
        for cell in &tally.cells {
            book.lanes.of(&cell.lane).add(cell);
        }
        for cause in &tally.lost {
            *book.leases_lost.entry(cause.name()).or_default() += 1;
        }
        book.handoffs += u64::from(tally.handoffs);
        for (decided, count) in &tally.flows.decided {
            *book.decided.entry(*decided).or_default() += count;
        }
        for (verdict, count) in &tally.flows.siblings {
            *book.siblings.entry(verdict).or_default() += count;
        }
        book.windows.absorb(&mut tally);
    }

    /// What was seen of one namespace lately. `since` is when the node began to look.
    pub fn activity(&self, reach: &Reach, now: Time, since: Time) -> Activity {
        self.book().windows.activity(reach, now, since)
    }

    /// The lanes that are told by name.
    pub fn lane_names(&self) -> BTreeSet<Text> {
        self.book().lanes.names().cloned().collect()
    }

    /// The meters of all scanners, by their names.
    pub fn scanners(&self) -> impl Iterator<Item = (&'static str, &ScannerMeter)> {
        self.scanners.iter().map(|(name, meter)| (*name, meter))
    }

    /// The meter of a scanner.
    pub fn scanner(&self, name: &str) -> Option<&ScannerMeter> {
        self.scanners.get(name)
    }

    pub fn cached(&self, partition: PartitionId, bytes: usize) {
        if let Some(gauge) = self.cache_bytes.get(usize::from(partition.0)) {
            gauge.store(bytes as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::tally::Cell;
    use super::*;

    #[test]
    fn ops_10_the_lanes_beyond_the_first_hundred_are_other() {
        let telemetry = Telemetry::new(1, std::iter::empty());
        for number in 0..150 {
            let mut cell = Cell::new("shop".into(), format!("lane-{number:03}").into());
            cell.submitted = 2;
            telemetry.applied(Tally { cells: vec![cell], ..Tally::default() });
        }
        let book = telemetry.book();
        let shown: Vec<(String, u64)> =
            book.lanes.iter().map(|(lane, meter)| (lane.to_string(), meter.submitted)).collect();
        assert_eq!(shown.len(), lanes::LANES_MAX + 1);
        assert_eq!(shown.iter().find(|(lane, _)| lane == "other").map(|(_, count)| *count), Some(100));
        assert_eq!(shown.iter().map(|(_, count)| count).sum::<u64>(), 300);
    }
}
