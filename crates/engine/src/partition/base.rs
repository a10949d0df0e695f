//! What a command sees below the open batch: the commit that is on its way, then the cache.

use super::cache::Cache;
use super::commit::Flying;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use weft_core::ExecutionId;
use weft_core::record::Key;
use weft_core::tx::{Base, LIST_SCAN_MAX, List, Lookup};
use weft_store::{Place, Range, Scan, Target};

pub struct View<'a> {
    pub cache: &'a Cache,
    pub flying: Option<&'a Flying>,
    pub lists: &'a Lists,
}

/// What was scanned for the open batch, by the list and the one it comes after.
pub type Lists = BTreeMap<(List, Option<ExecutionId>), Vec<ExecutionId>>;

impl Base for View<'_> {
    fn get(&self, key: &Key) -> Lookup<'_> {
        match self.flying.and_then(|flying| flying.get(key)) {
            Some(lookup) => lookup,
            None => self.cache.get(key),
        }
    }

    /// What the store showed, with what the commit on its way adds.
    fn list(&self, list: List, after: Option<ExecutionId>) -> Option<Vec<ExecutionId>> {
        let stored = self.lists.get(&(list, after))?;
        let mut all: BTreeSet<ExecutionId> = stored.iter().copied().collect();
        all.extend(self.flying.into_iter().flat_map(|flying| flying.listed_in(list)));
        Some(all.into_iter().filter(|id| after.is_none_or(|after| *id > after)).collect())
    }
}

/// Finds what is on a list, one more than a command looks at.
pub fn list_scan(list: List, after: Option<ExecutionId>) -> Scan {
    let (index, prefix) = list.index();
    let after = list.beyond(after).map(|(columns, key)| Place { columns, key: Bytes::copy_from_slice(&key) });
    Scan {
        target: Target::Index(index),
        ranges: vec![Range { prefix, after, until: None }],
        limit: LIST_SCAN_MAX + 1,
        descending: false,
        parts: None,
    }
}
