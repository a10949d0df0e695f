//! Backlogs of scanners, counted in the due index of all partitions in one call. A count that one partition does not answer
//! is dropped as a whole, because a partial sum would look like progress.

use crate::engine::Shared;
use std::collections::{BTreeMap, BTreeSet};
use weft_core::codec::DecodeError;
use weft_core::record::{Key, Record};
use weft_core::schema::{PartMask, Timer, Value};
use weft_core::{PartitionId, Time};
use weft_store::{Entry, Page, Range, Scan, Target};

/// Entries of a timer that are counted at most.
const COUNT_MAX: usize = 10_000;
const READ: usize = 200;

/// A scanner and the timers whose entries count as its backlog.
pub(super) struct Backlog {
    pub scanner: &'static str,
    pub timers: &'static [Timer],
}

pub(super) static BACKLOGS: [Backlog; 4] = [
    Backlog { scanner: CANCEL, timers: &[Timer::FlowEnding, Timer::CancelGrace] },
    Backlog { scanner: "edge_cancel_dispatcher", timers: &[Timer::GroupCancel] },
    Backlog {
        scanner: "dependency_reconciler",
        timers: &[
            Timer::Resolve,
            Timer::Reopen,
            Timer::FlowSeal,
            Timer::CancelChildren,
            Timer::Bulk,
            Timer::Purge,
            Timer::FlowPurge,
        ],
    },
    Backlog { scanner: "retention_trimmer", timers: &[Timer::Retention] },
];

const CANCEL: &str = "cancel_reconciler";

/// Why a backlog could not be counted in every partition.
#[derive(Debug, thiserror::Error)]
pub(super) enum Partial {
    #[error("{0}")]
    Store(#[from] weft_store::Error),
    #[error("{0:?} does not decode: {1}")]
    Damaged(Key, DecodeError),
    #[error("the store cut a page short")]
    Cut,
}

impl Backlog {
    /// Whether an entry counts. Retention and grace timers count once they are due; others always, because only a
    /// failed try moves them into the future.
    pub fn counts(timer: Timer, at: Time, now: Time) -> bool {
        at <= now || !matches!(timer, Timer::Retention | Timer::CancelGrace)
    }

    /// Counts what waits now.
    pub async fn count(&self, shared: &Shared, now: Time) -> Result<u64, Partial> {
        let range = |timer: &Timer| Range {
            prefix: vec![Value::Int(*timer as i64)],
            after: None,
            until: (!Self::counts(*timer, Time::MAX, now)).then(|| Value::Int(now.as_i64())),
        };
        let ranges = self.timers.iter().map(range).collect();
        let scan = Scan { target: Target::Due, ranges, limit: COUNT_MAX, descending: false, parts: None };
        let pages = shared.store.scan(None, scan).await?;
        if pages.iter().any(|page| page.more && page.entries.len() < COUNT_MAX) {
            return Err(Partial::Cut);
        }
        match (self.scanner, &pages[..]) {
            (CANCEL, [ending, grace]) => owed_cancels(shared, &ending.entries, &grace.entries).await,
            _ => Ok(pages.iter().fold(0, |sum, page: &Page| sum.saturating_add(page.entries.len() as u64))),
        }
    }
}

/// The members that the flows of these entries owe a cancel, and those executions beside them whose grace is over.
async fn owed_cancels(shared: &Shared, ending: &[Entry], grace: &[Entry]) -> Result<u64, Partial> {
    let mut owed: u64 = 0;
    let mut flows = BTreeSet::new();
    for record in read(shared, ending).await? {
        if let Record::Flow(flow) = record {
            owed = owed.saturating_add(u64::from(flow.summary.cancel_owed));
            flows.insert(flow.id);
        }
    }
    for record in read(shared, grace).await? {
        let counted = matches!(&record, Record::Execution(execution)
            if execution.member().is_some_and(|member| flows.contains(&member.flow)));
        owed = owed.saturating_add(u64::from(!counted));
    }
    Ok(owed)
}

/// The records of the entries that are still there.
async fn read(shared: &Shared, entries: &[Entry]) -> Result<Vec<Record>, Partial> {
    let mut by_partition: BTreeMap<PartitionId, Vec<(Key, PartMask)>> = BTreeMap::new();
    for (partition, key) in entries.iter().filter_map(|entry| Some((entry.partition, entry.key()?))) {
        by_partition.entry(partition).or_default().push((key, key.kind().table().light));
    }
    let mut records = Vec::new();
    for (partition, keys) in by_partition {
        for some in keys.chunks(READ) {
            let found = shared.store.read(partition, some.to_vec()).await?.found;
            for ((key, parts), found) in some.iter().zip(found) {
                let Some(found) = found else { continue };
                let record = Record::decode(*key, &found.parts, *parts);
                records.push(record.map_err(|error| Partial::Damaged(*key, error))?);
            }
        }
    }
    Ok(records)
}
