//! What a command sees below the open batch: the commit that is on its way, then the cache.

use super::cache::Cache;
use super::commit::Flying;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use weft_core::ExecutionId;
use weft_core::record::Key;
use weft_core::schema::{IndexId, Value};
use weft_core::tx::{Base, CHILDREN_SCAN_MAX, Lookup};
use weft_store::{Place, Range, Scan, Target};

pub struct View<'a> {
    pub cache: &'a Cache,
    pub flying: Option<&'a Flying>,
    pub children: &'a ChildLists,
}

/// Children that were scanned for the open batch, by parent and the child they come after.
pub type ChildLists = BTreeMap<(ExecutionId, Option<ExecutionId>), Vec<ExecutionId>>;

impl Base for View<'_> {
    fn get(&self, key: &Key) -> Lookup<'_> {
        match self.flying.and_then(|flying| flying.get(key)) {
            Some(lookup) => lookup,
            None => self.cache.get(key),
        }
    }

    fn children(&self, parent: ExecutionId) -> Option<Vec<ExecutionId>> {
        self.list(parent, None)
    }

    fn children_after(&self, parent: ExecutionId, after: ExecutionId) -> Option<Vec<ExecutionId>> {
        self.list(parent, Some(after))
    }
}

impl View<'_> {
    /// What the store showed, with what the commit on its way adds.
    fn list(&self, parent: ExecutionId, after: Option<ExecutionId>) -> Option<Vec<ExecutionId>> {
        let stored = self.children.get(&(parent, after))?;
        let mut all: BTreeSet<ExecutionId> = stored.iter().copied().collect();
        all.extend(self.flying.into_iter().flat_map(|flying| flying.children_of(parent)));
        Some(all.into_iter().filter(|child| after.is_none_or(|after| *child > after)).collect())
    }
}

/// Finds the children of an execution, one more than a command looks at.
pub fn children_scan(parent: ExecutionId, after: Option<ExecutionId>) -> Scan {
    let prefix = vec![Value::bytes(parent.uuid().as_bytes())];
    let after =
        after.map(|child| Place { columns: prefix.clone(), key: Bytes::copy_from_slice(child.uuid().as_bytes()) });
    Scan {
        target: Target::Index(IndexId::Children),
        ranges: vec![Range { prefix, after, until: None }],
        limit: CHILDREN_SCAN_MAX + 1,
        descending: false,
        parts: None,
    }
}
