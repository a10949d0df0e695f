//! Scans of all partitions of which some give no answer.

use crate::engine::Shared;
use crate::runtime;
use futures_util::future::join_all;
use std::collections::BTreeSet;
use weft_core::PartitionId;
use weft_store::merge::merge_all;
use weft_store::{Error, Page, Scan};

/// Scans all partitions in one call, or if that fails each by itself. Returns the pages of those that answer, and which do
/// not; fails if none does. A call without an answer is waited for as long as the store does.
pub(crate) async fn scan_all(shared: &Shared, scan: Scan) -> Result<(Vec<Page>, BTreeSet<PartitionId>), Error> {
    scan_with(shared, scan, None).await
}

/// `scan_all` in which a call fails that has no answer after `wait_ms`: it takes twice that at most.
pub(crate) async fn scan_within(
    shared: &Shared,
    wait_ms: u64,
    scan: Scan,
) -> Result<(Vec<Page>, BTreeSet<PartitionId>), Error> {
    scan_with(shared, scan, Some(wait_ms)).await
}

async fn scan_with(
    shared: &Shared,
    scan: Scan,
    wait_ms: Option<u64>,
) -> Result<(Vec<Page>, BTreeSet<PartitionId>), Error> {
    let failure = match call(shared, None, scan.clone(), wait_ms).await {
        Ok(pages) => return Ok((pages, BTreeSet::new())),
        Err(error) => error,
    };
    let partitions = || (0..shared.description.partitions).map(PartitionId);
    let answers = join_all(partitions().map(|partition| call(shared, Some(partition), scan.clone(), wait_ms))).await;
    let silent = partitions().zip(&answers).filter(|(_, answer)| answer.is_err()).map(|(partition, _)| partition);
    let silent: BTreeSet<PartitionId> = silent.collect();
    let pages: Vec<Vec<Page>> = answers.into_iter().flatten().collect();
    match pages.is_empty() {
        true => Err(failure),
        false => Ok((merge_all(pages, scan.limit, scan.descending), silent)),
    }
}

async fn call(
    shared: &Shared,
    partition: Option<PartitionId>,
    scan: Scan,
    wait_ms: Option<u64>,
) -> Result<Vec<Page>, Error> {
    let answer = shared.store.scan(partition, scan);
    let Some(wait_ms) = wait_ms else { return answer.await };
    let answer = runtime::timeout(&*shared.runtime, wait_ms, answer).await;
    answer.unwrap_or_else(|| Err(Error::unavailable("no answer in time")))
}
