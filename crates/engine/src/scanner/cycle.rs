//! Cycles of one scanner: when one ends, and what its line in the log says.

use super::Report;
use crate::telemetry::meters::{Cycle, ScannerMeter};
use std::collections::{BTreeMap, BTreeSet};
use weft_core::{PartitionId, Time};

/// Time between two lines about what a scanner did.
const LINE_EVERY_MS: u64 = 10_000;

/// The cycle that is open, and sums since the last one.
#[derive(Default)]
pub(super) struct Cycles {
    open: Option<Open>,
    processed: u64,
    errors: u64,
    line: Line,
}

struct Open {
    /// On the node's clock.
    began_at: Time,
    /// Partitions whose pass has not ended.
    waits_for: BTreeSet<PartitionId>,
    /// The scanner's own count of each partition whose pass has ended; `None` where it has none.
    backlog: BTreeMap<PartitionId, Option<u64>>,
}

/// Counts since the last log line.
#[derive(Default)]
struct Line {
    at: Option<Time>,
    processed: u64,
    errors: u64,
    cycles: u64,
    elapsed_ms: u64,
}

impl Cycles {
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Opens a cycle that began at `began_at` and ends with the passes over these partitions.
    pub fn begin(&mut self, began_at: Time, waits_for: BTreeSet<PartitionId>, now: Time, meter: &ScannerMeter) {
        meter.cycle_began(now);
        self.open = Some(Open { began_at, waits_for, backlog: BTreeMap::new() });
    }

    /// A pass over the partition has ended.
    pub fn passed(&mut self, partition: PartitionId, report: &Report, backlog: Option<u64>) {
        self.processed += u64::from(report.processed);
        self.errors += u64::from(report.errors);
        if let Some(open) = &mut self.open
            && open.waits_for.remove(&partition)
        {
            open.backlog.insert(partition, backlog);
        }
    }

    /// The partition does not answer: the cycle ends without its pass.
    pub fn leave_out(&mut self, partition: PartitionId) {
        if let Some(open) = &mut self.open
            && open.waits_for.remove(&partition)
        {
            open.backlog.insert(partition, None);
        }
    }

    /// Forgets partitions that are no longer this node's.
    pub fn retain(&mut self, is_mine: impl Fn(PartitionId) -> bool) {
        if let Some(open) = &mut self.open {
            open.waits_for.retain(|partition| is_mine(*partition));
            open.backlog.retain(|partition, _| is_mine(*partition));
        }
    }

    /// Ends the cycle if it waits for no pass. True if it has ended.
    pub fn end(&mut self, scanner: &'static str, clock: Time, now: Time, meter: &ScannerMeter) -> bool {
        let Some(open) = self.open.take_if(|open| open.waits_for.is_empty()) else { return false };
        let took_ms = clock.since(open.began_at);
        let (processed, errors) = (std::mem::take(&mut self.processed), std::mem::take(&mut self.errors));
        meter.cycle_ended(Cycle { ended_at: now, took_ms, processed, errors });
        match sum(open.backlog.values().copied()) {
            Ok(Some(count)) => meter.counted_backlog(count),
            Ok(None) => {}
            Err(()) => tracing::debug!(scanner, "the backlog was not counted in every partition"),
        }
        let line = &mut self.line;
        if processed == 0 && errors == 0 {
            tracing::trace!(scanner, elapsed_ms = took_ms, "idle cycle");
        }
        line.cycles += 1;
        line.elapsed_ms += took_ms;
        line.processed += processed;
        line.errors += errors;
        let is_late = line.at.is_none_or(|at| clock.since(at) >= LINE_EVERY_MS);
        if is_late && (line.processed > 0 || line.errors > 0) {
            let Line { processed, errors, cycles, elapsed_ms, .. } = *line;
            tracing::info!(scanner, processed, errors, cycles, elapsed_ms, "scanned");
            *line = Line { at: Some(clock), ..Line::default() };
        }
        true
    }
}

/// The sum of all counts; `None` if no partition has one, an error if only some have.
fn sum(mut counts: impl Iterator<Item = Option<u64>> + Clone) -> Result<Option<u64>, ()> {
    if counts.clone().all(|count| count.is_none()) {
        return Ok(None);
    }
    let sum = counts.try_fold(0u64, |sum, count| Some(sum.saturating_add(count?)));
    sum.map(Some).ok_or(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sr_40_a_sum_needs_the_count_of_every_partition_and_saturates() {
        for (counts, expected) in [
            (vec![], Ok(None)),
            (vec![None, None], Ok(None)),
            (vec![Some(1), Some(2)], Ok(Some(3))),
            (vec![Some(u64::MAX), Some(2)], Ok(Some(u64::MAX))),
            (vec![None, Some(2), Some(3)], Err(())),
            (vec![Some(1), None, Some(3)], Err(())),
            (vec![Some(1), Some(2), None], Err(())),
        ] {
            assert_eq!(sum(counts.iter().copied()), expected, "{counts:?}");
        }
    }
}
