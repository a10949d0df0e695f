//! A partition whose store call failed, and when it is probed. Other partitions are not affected.

use std::collections::BTreeMap;
use weft_core::Time;

const PAUSE_MS: u64 = 1_000;
const PAUSE_MAX_MS: u64 = 10_000;
/// A probe that has not ended after this time no longer keeps the next one from beginning.
const PROBE_MS: u64 = 10_000;

/// Lets one probe at a time through, after pauses that grow as long as probes fail. Times are of the node's clock.
pub(super) struct Aside {
    pause_ms: u64,
    probe_at: Time,
    /// When the probe that is under way began.
    probing: Option<Time>,
    /// The last failed pass of each scanner, by its number among those here.
    failures: BTreeMap<usize, u32>,
    last_failure: u32,
}

impl Aside {
    pub fn new(clock: Time) -> Self {
        let probe_at = clock + PAUSE_MS;
        Self { pause_ms: PAUSE_MS, probe_at, probing: None, failures: BTreeMap::new(), last_failure: 0 }
    }

    /// When the next probe may begin.
    pub fn probe_at(&self) -> Time {
        self.probing.map_or(self.probe_at, |began| began + PROBE_MS)
    }

    pub fn begin_probe(&mut self, clock: Time) {
        self.probing = Some(clock);
    }

    /// A probe has failed: the next one begins later.
    pub fn probe_failed(&mut self, clock: Time) {
        self.pause_ms = (self.pause_ms * 2).min(PAUSE_MAX_MS);
        self.probe_at = clock + self.pause_ms;
        self.probing = None;
    }

    /// A pass of this scanner has failed.
    pub fn failed(&mut self, scanner: usize) {
        self.last_failure += 1;
        self.failures.insert(scanner, self.last_failure);
    }

    /// The place of a scanner among those that wait to probe: one that has not failed is first, then the one whose failure is
    /// the longest ago. The calls of one scanner may fail while those of all others would succeed.
    pub fn turn(&self, scanner: usize) -> u32 {
        self.failures.get(&scanner).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sr_17_probes_come_after_a_second_and_then_less_and_less_often_down_to_every_ten() {
        let mut clock = Time::from_ms(5_000);
        let mut aside = Aside::new(clock);
        for pause_ms in [1_000, 2_000, 4_000, 8_000, 10_000, 10_000] {
            assert_eq!(aside.probe_at(), clock + pause_ms);
            clock = aside.probe_at();
            aside.begin_probe(clock);
            assert_eq!(aside.probe_at(), clock + PROBE_MS, "one at a time");
            clock = clock + 300;
            aside.probe_failed(clock);
        }
    }

    #[test]
    fn sr_17_scanners_probe_in_turn() {
        let mut aside = Aside::new(Time::from_ms(5_000));
        let first = |aside: &Aside| [0, 1, 2].into_iter().min_by_key(|scanner| aside.turn(*scanner)).unwrap();
        let mut probes = Vec::new();
        for _ in 0..6 {
            let scanner = first(&aside);
            aside.failed(scanner);
            probes.push(scanner);
        }
        assert_eq!(probes, [0, 1, 2, 0, 1, 2]);
    }
}
