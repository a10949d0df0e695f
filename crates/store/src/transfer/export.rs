//! Out of a store, into a file.

use super::format::Writer;
use super::walk::{Walk, heads};
use super::{Error, Fingerprint, Origin, Progress, Step, Summary};
use crate::Store;
use std::io::Write;
use weft_core::PartitionId;

/// Writes every record of the store to `sink`. No node may write meanwhile: a partition that moves on is noticed at the
/// end, and what was written then is worthless. Records that cannot be read are refused by name. Blocks on `sink`.
pub async fn export<S: Store, W: Write>(
    store: &S,
    sink: W,
    master: Option<Fingerprint>,
    progress: Progress<'_>,
) -> Result<Summary, Error> {
    let before = heads(store).await?;
    let origin = Origin { store: store.describe().name.to_owned(), master, heads: before };
    let mut file = Writer::begin(sink, &origin)?;
    let mut summary = Summary::default();
    let mut walk = Walk::new(store);
    while let Some(page) = walk.page().await? {
        for record in &page {
            record.decode()?;
            file.record(record)?;
            summary.add(record);
        }
        progress(Step::Exporting, summary.records(), None);
    }
    let moved = origin.heads.iter().zip(heads(store).await?).position(|(before, after)| *before != after);
    if let Some(partition) = moved {
        return Err(Error::Written { partition: PartitionId(partition as u16) });
    }
    file.end(&summary)?;
    Ok(summary)
}
