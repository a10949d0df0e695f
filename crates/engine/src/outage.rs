//! Scans of all partitions of which some give no answer.

use crate::engine::Shared;
use crate::runtime;
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weft_core::{PartitionId, Time};
use weft_store::merge::merge_all;
use weft_store::{Error, Page, Scan};

/// How long a scan may take before other partitions are served without it.
const ANSWER_MS: u64 = 1_000;
/// How long a partition that gave no answer is left out of scans of all: not as long as claims wait for the next look.
const LEFT_OUT_MS: u64 = 4_000;

/// Partitions that gave no answer, and until when scans of all leave them out, on the node's clock.
#[derive(Default)]
pub(crate) struct Outages(Mutex<BTreeMap<PartitionId, Time>>);

impl Outages {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PartitionId, Time>> {
        // Losing an entry costs one call that waits for an answer in vain.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Partitions that are left out now.
    pub fn at(&self, clock: Time) -> BTreeSet<PartitionId> {
        let mut outages = self.lock();
        outages.retain(|_, until| *until > clock);
        outages.keys().copied().collect()
    }

    fn note(&self, silent: &[PartitionId], clock: Time) {
        self.lock().extend(silent.iter().map(|partition| (*partition, clock + LEFT_OUT_MS)));
    }
}

/// Scans all partitions in one call, or each by itself if that call fails or takes longer than a second. Returns the pages of
/// those that answer, and which do not. If none does, the outcome is that of the joint call, however long that takes.
pub(crate) async fn scan_all(shared: &Shared, scan: Scan) -> Result<(Vec<Page>, BTreeSet<PartitionId>), Error> {
    let (runtime, count) = (&*shared.runtime, shared.description.partitions);
    let joint = shared.store.scan(None, scan.clone());
    futures_util::pin_mut!(joint);
    if count == 1 {
        return Ok((joint.await?, BTreeSet::new()));
    }
    let mut left_out = shared.outages.at(runtime.clock());
    let mut ended = None;
    if left_out.is_empty() {
        ended = runtime::timeout(runtime, ANSWER_MS, &mut joint).await;
        if let Some(Ok(pages)) = ended {
            return Ok((pages, left_out));
        }
    }
    let asked: Vec<PartitionId> =
        (0..count).map(PartitionId).filter(|partition| !left_out.contains(partition)).collect();
    let ask = |partition: &PartitionId| {
        let found = shared.store.scan(Some(*partition), scan.clone());
        runtime::timeout(runtime, ANSWER_MS, found)
    };
    let answers: Vec<_> = join_all(asked.iter().map(ask)).await;
    // A partition that refuses at once costs nothing to ask again.
    let hung = asked.iter().zip(&answers).filter(|(_, answer)| answer.is_none()).map(|(partition, _)| *partition);
    let hung: Vec<PartitionId> = hung.collect();
    let failed = asked.iter().zip(&answers).filter(|(_, answer)| !matches!(answer, Some(Ok(_))));
    let failed: Vec<PartitionId> = failed.map(|(partition, _)| *partition).collect();
    let pages: Vec<Vec<Page>> = answers.into_iter().flatten().flatten().collect();
    if pages.is_empty() {
        let pages = match ended {
            Some(ended) => ended,
            None => joint.await,
        };
        return Ok((pages?, BTreeSet::new()));
    }
    shared.outages.note(&hung, runtime.clock());
    left_out.extend(failed);
    Ok((merge_all(pages, scan.limit, scan.descending), left_out))
}
