//! Records that a command reads if the open batch has not written them: from the commit in flight, then from the cache and
//! the lists that were scanned.

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

/// A list from the one after this execution on; from the start without one.
pub type Rest = (List, Option<ExecutionId>);

/// Lists that were scanned for the open batch. Commits of this node extend them; the head of the partition, which a batch
/// that looked at a list expects, proves that no other commit came in between.
#[derive(Default)]
pub struct Lists {
    known: BTreeMap<Rest, Scanned>,
    /// Scans that have not been answered, with what was added since they began.
    awaited: BTreeMap<Rest, Scanned>,
}

struct Scanned {
    /// The turn in which the scan began.
    turn: u64,
    ids: BTreeSet<ExecutionId>,
}

impl Lists {
    fn get(&self, list: List, after: Option<ExecutionId>) -> Option<&BTreeSet<ExecutionId>> {
        self.known.get(&(list, after)).map(|scanned| &scanned.ids)
    }

    /// Loaded, and not scanned since `turn`.
    pub fn is_older(&self, rest: &Rest, turn: u64) -> bool {
        self.known.get(rest).is_some_and(|scanned| scanned.turn < turn)
    }

    /// A scan begins; false if one is awaited already.
    pub fn begin(&mut self, rest: Rest, turn: u64) -> bool {
        let is_new = !self.awaited.contains_key(&rest);
        self.awaited.entry(rest).or_insert(Scanned { turn, ids: BTreeSet::new() });
        is_new
    }

    /// Forgets the scan that began in this turn, because it failed or was cut short.
    pub fn end(&mut self, rest: &Rest, turn: u64) {
        self.take(rest, turn);
    }

    /// Takes the answer to the scan that began in this turn, unless that was forgotten.
    pub fn found(&mut self, rest: Rest, turn: u64, ids: impl Iterator<Item = ExecutionId>) {
        if let Some(mut scanned) = self.take(&rest, turn) {
            scanned.ids.extend(ids);
            self.known.insert(rest, scanned);
        }
    }

    fn take(&mut self, rest: &Rest, turn: u64) -> Option<Scanned> {
        self.awaited.get(rest).filter(|scanned| scanned.turn == turn)?;
        self.awaited.remove(rest)
    }

    /// Adds what a commit of this node put on lists. A scan that began before its end may not show it.
    pub fn extend(&mut self, listed: &BTreeMap<List, Vec<ExecutionId>>) {
        if listed.is_empty() {
            return;
        }
        for ((list, _), scanned) in self.known.iter_mut().chain(&mut self.awaited) {
            scanned.ids.extend(listed.get(list).into_iter().flatten());
        }
    }

    /// Forgets what scans have shown of these lists.
    pub fn forget(&mut self, rests: &[Rest]) {
        for rest in rests {
            self.known.remove(rest);
        }
    }

    /// The open batch is sealed: the next one scans for itself.
    pub fn begin_batch(&mut self) {
        self.known.clear();
    }

    /// Other nodes may have written since the scans began, without a notice to this node.
    pub fn clear(&mut self) {
        self.known.clear();
        self.awaited.clear();
    }
}

impl Base for View<'_> {
    fn get(&self, key: &Key) -> Lookup<'_> {
        match self.flying.and_then(|flying| flying.get(key)) {
            Some(lookup) => lookup,
            None => self.cache.get(key),
        }
    }

    /// What the store showed, with what the commit on its way adds.
    fn list(&self, list: List, after: Option<ExecutionId>) -> Option<Vec<ExecutionId>> {
        let mut all = self.lists.get(list, after)?.clone();
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
