//! Scans of all partitions of which some give no answer.

use crate::engine::Shared;
use futures_util::future::join_all;
use std::collections::BTreeSet;
use weft_core::PartitionId;
use weft_store::merge::merge_all;
use weft_store::{Error, Page, Scan};

/// Scans all partitions in one call, or if that fails each by itself. Returns the pages of those that answer, and which do
/// not; fails if none does.
pub(crate) async fn scan_all(shared: &Shared, scan: Scan) -> Result<(Vec<Page>, BTreeSet<PartitionId>), Error> {
    let failure = match shared.store.scan(None, scan.clone()).await {
        Ok(pages) => return Ok((pages, BTreeSet::new())),
        Err(error) => error,
    };
    let partitions = || (0..shared.description.partitions).map(PartitionId);
    let answers = join_all(partitions().map(|partition| shared.store.scan(Some(partition), scan.clone()))).await;
    let silent = partitions().zip(&answers).filter(|(_, answer)| answer.is_err()).map(|(partition, _)| partition);
    let silent: BTreeSet<PartitionId> = silent.collect();
    let pages: Vec<Vec<Page>> = answers.into_iter().flatten().collect();
    match pages.is_empty() {
        true => Err(failure),
        false => Ok((merge_all(pages, scan.limit, scan.descending), silent)),
    }
}
