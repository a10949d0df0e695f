//! Counters and times by lane. The first hundred lanes that a node meets keep their names; the rest are `other`.

use super::histogram::Histogram;
use super::tally::{ATTEMPT_KINDS, Cell, OUTCOMES};
use std::collections::BTreeMap;
use weft_core::text::Text;

pub const LANES_MAX: usize = 100;
pub const OTHER: &str = "other";

#[derive(Clone, Default)]
pub struct LaneMeter {
    pub submitted: u64,
    pub claimed: [u64; ATTEMPT_KINDS.len()],
    pub finished: [u64; OUTCOMES.len()],
    pub retries: u64,
    pub waits: Histogram,
    pub runs: Histogram,
    pub totals: Histogram,
}

impl LaneMeter {
    pub fn add(&mut self, cell: &Cell) {
        self.submitted += u64::from(cell.submitted);
        self.retries += u64::from(cell.retried);
        for (to, from) in self.claimed.iter_mut().zip(cell.claimed) {
            *to += u64::from(from);
        }
        for (to, from) in self.finished.iter_mut().zip(cell.finished) {
            *to += u64::from(from);
        }
        cell.waits.iter().for_each(|ms| self.waits.add_ms(*ms));
        cell.runs.iter().for_each(|ms| self.runs.add_ms(*ms));
        cell.totals.iter().for_each(|ms| self.totals.add_ms(*ms));
    }
}

#[derive(Clone, Default)]
pub struct LaneMeters {
    lanes: BTreeMap<Text, Box<LaneMeter>>,
    other: Option<Box<LaneMeter>>,
}

impl LaneMeters {
    pub fn of(&mut self, lane: &Text) -> &mut LaneMeter {
        if self.lanes.len() >= LANES_MAX && !self.lanes.contains_key(lane) || &**lane == OTHER {
            return self.other.get_or_insert_default();
        }
        self.lanes.entry(lane.clone()).or_default()
    }

    /// The lanes that have kept their names.
    pub fn names(&self) -> impl Iterator<Item = &Text> {
        self.lanes.keys()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &LaneMeter)> {
        let named = self.lanes.iter().map(|(lane, meter)| (&**lane, &**meter));
        named.chain(self.other.as_deref().map(|meter| (OTHER, meter)))
    }
}
