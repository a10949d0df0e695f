//! How each scanner of this node is doing, for operators. Decides nothing.

use crate::census;
use crate::config::{Filter, INTERVAL_MIN_MS};
use crate::engine::Engine;
use crate::runtime;
use crate::telemetry::meters::{Cycle, ScannerMeter};
use weft_core::Time;

/// How late a scanner may be, in addition to two of its intervals, before it counts as late.
const LATE_MS: u64 = 1_000;
/// How long a cycle may be open before it counts as stuck, or three intervals if that is longer.
const STUCK_MS: u64 = 30_000;
/// How long the count of parked items is waited for.
const COUNT_WAIT_MS: u64 = 2_000;

/// A scanner of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannerStatus {
    pub name: &'static str,
    pub condition: Condition,
    pub interval_ms: u64,
    pub filter: Filter,
    /// Partitions of this node.
    pub partitions: usize,
    /// The last cycle that has ended.
    pub last_cycle: Option<Cycle>,
    /// How long ago the oldest known item that is not handled became due.
    pub lag_ms: u64,
    /// How late 99 of 100 handled items were at most, since the node began.
    pub lateness_p99_ms: Option<u64>,
    /// Items that wait, where that is counted.
    pub backlog: Option<u64>,
    /// Items that it has parked, in the whole deployment; `None` if a partition did not answer.
    pub parked: Option<u64>,
    /// Passes that panicked.
    pub restarts: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Ok,
    /// Due items wait for longer than two intervals and a second.
    Late,
    /// The last cycle had errors.
    Failing,
    /// A cycle does not end.
    Stuck,
}

impl Condition {
    fn of(meter: &ScannerMeter, interval_ms: u64, now: Time) -> Self {
        let stuck_ms = STUCK_MS.max(interval_ms.saturating_mul(3));
        if meter.open_since().is_some_and(|since| now.since(since) > stuck_ms) {
            return Condition::Stuck;
        }
        if meter.last_cycle().is_some_and(|cycle| cycle.errors > 0) {
            return Condition::Failing;
        }
        match meter.lag_ms(now) > interval_ms.saturating_mul(2).saturating_add(LATE_MS) {
            true => Condition::Late,
            false => Condition::Ok,
        }
    }
}

impl Engine {
    /// Every scanner of this node, in the order of the list of scanners. Parked items are counted in the store; all else is
    /// known while the store gives no answer.
    pub async fn scanner_status(&self) -> Vec<ScannerStatus> {
        let shared = self.shared();
        let parked = runtime::timeout(&*shared.runtime, COUNT_WAIT_MS, census::parked(shared)).await;
        let parked = parked.and_then(|counted| {
            counted.inspect_err(|error| tracing::warn!(%error, "could not count parked items")).ok()
        });
        let (now, partitions) = (shared.now(), shared.membership.mine().len());
        let status = |scanner: &std::sync::Arc<dyn super::Scanner>| {
            let (name, interval_ms) = (scanner.name(), scanner.interval_ms().max(INTERVAL_MIN_MS));
            let meter = shared.telemetry.scanner(name)?;
            Some(ScannerStatus {
                name,
                condition: Condition::of(meter, interval_ms, now),
                interval_ms,
                filter: scanner.filter().clone(),
                partitions,
                last_cycle: meter.last_cycle(),
                lag_ms: meter.lag_ms(now),
                lateness_p99_ms: meter.lateness.read().percentile_us(99).map(|us| us.div_ceil(1_000)),
                backlog: meter.backlog(),
                parked: parked.as_ref().map(|parked| parked.get(name).copied().unwrap_or(0)),
                restarts: meter.restarts.get(),
            })
        };
        shared.scanners.iter().filter_map(status).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sr_82_a_scanner_is_late_failing_or_stuck_beyond_its_bounds_and_not_at_them() {
        let (meter, at) = (ScannerMeter::default(), Time::from_ms);
        let cycle = |errors| Cycle { ended_at: at(900), took_ms: 5, processed: 3, errors };
        let condition = |meter: &ScannerMeter, now| Condition::of(meter, 15_000, at(now));
        assert_eq!(condition(&meter, 1_000), Condition::Ok);
        meter.expects(Some(at(1_000)));
        assert_eq!((condition(&meter, 32_000), condition(&meter, 32_001)), (Condition::Ok, Condition::Late));
        meter.cycle_ended(cycle(1));
        assert_eq!(condition(&meter, 32_001), Condition::Failing);
        meter.cycle_began(at(1_000));
        assert_eq!((condition(&meter, 46_000), condition(&meter, 46_001)), (Condition::Failing, Condition::Stuck));
        assert_eq!(Condition::of(&meter, 1_000, at(31_001)), Condition::Stuck, "at least 30 s");
        meter.cycle_ended(cycle(0));
        meter.expects(None);
        assert_eq!(condition(&meter, 99_000), Condition::Ok);
    }
}
