//! Every record of a store, partition by partition, in pages of bounded size.

use super::{Error, Progress, Raw, Step, Summary};
use crate::{Place, Range, Scan, Store, Target};
use weft_core::PartitionId;
use weft_core::change::Head;
use weft_core::schema::{Kind, PartMask};

/// Records of one page at most. The first page of a walk is small, because it says how large records are.
const RECORDS_MAX: usize = 512;
const RECORDS_FIRST: usize = 16;

/// Pages are cut so that they hold about this much.
const PAGE_BYTES: usize = 2 << 20;

/// Counts the records of a store and adds up their digests.
pub async fn verify<S: Store>(store: &S, progress: Progress<'_>) -> Result<Summary, Error> {
    let mut summary = Summary::default();
    let mut walk = Walk::new(store);
    while let Some(page) = walk.page().await? {
        page.iter().for_each(|record| summary.add(record));
        progress(Step::Verifying, summary.records(), None);
    }
    Ok(summary)
}

/// The heads of all partitions.
pub(super) async fn heads<S: Store>(store: &S) -> Result<Vec<Head>, Error> {
    let mut heads = Vec::new();
    for partition in 0..store.describe().partitions {
        heads.push(store.read(PartitionId(partition), Vec::new()).await?.head);
    }
    Ok(heads)
}

pub(super) struct Walk<'s, S> {
    store: &'s S,
    partitions: u16,
    partition: u16,
    /// Which of `Kind::ALL`.
    kind: usize,
    after: Option<Place>,
    limit: usize,
}

impl<'s, S: Store> Walk<'s, S> {
    pub(super) fn new(store: &'s S) -> Self {
        let partitions = store.describe().partitions;
        Self { store, partitions, partition: 0, kind: 0, after: None, limit: RECORDS_FIRST }
    }

    /// The next records, all of one partition and kind; `None` at the end.
    pub(super) async fn page(&mut self) -> Result<Option<Vec<Raw>>, Error> {
        while self.partition < self.partitions {
            let Some(kind) = Kind::ALL.get(self.kind).copied() else {
                (self.partition, self.kind) = (self.partition + 1, 0);
                continue;
            };
            let records = self.scan(PartitionId(self.partition), kind).await?;
            if !records.is_empty() {
                return Ok(Some(records));
            }
        }
        Ok(None)
    }

    async fn scan(&mut self, partition: PartitionId, kind: Kind) -> Result<Vec<Raw>, Error> {
        let scan = Scan {
            target: Target::Records(kind),
            ranges: vec![Range { after: self.after.take(), ..Range::default() }],
            limit: self.limit,
            descending: false,
            parts: Some(PartMask::ALL),
        };
        let mut pages = self.store.scan(Some(partition), scan).await?;
        let page = pages.pop().unwrap_or_default();
        match page.entries.last().filter(|_| page.more) {
            Some(last) => self.after = Some(last.place.clone()),
            None => self.kind += 1,
        }
        let mut records = Vec::with_capacity(page.entries.len());
        for entry in page.entries {
            let found = entry.found.ok_or(Error::Written { partition })?;
            let mut parts = found.parts;
            parts.sort_by_key(|(part, _)| *part);
            records.push(Raw { partition, kind, key: entry.place.key, parts });
        }
        self.adapt(&records);
        records.retain(|record| !record.is_derived());
        Ok(records)
    }

    /// Fits the next page to the size of the records on this one.
    fn adapt(&mut self, records: &[Raw]) {
        let bytes = records.iter().map(Raw::bytes).sum::<usize>();
        if !records.is_empty() {
            let fitting = PAGE_BYTES / (bytes / records.len()).max(1);
            self.limit = fitting.clamp(1, RECORDS_MAX.min(self.limit * 4));
        }
    }
}
