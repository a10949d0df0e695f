//! One partition in memory: its records, everything derived from them, its feed and its barred ids.
//!
//! Decides about a commit first and changes things after, so a refused commit leaves no trace. Knows no rule about what
//! the records mean.

use super::walk;
use crate::merge::{self, cut_between_places, directed};
use crate::{Entry, Error, Found, Outcome, Page, Place, Range, Resolution, Scan, Target};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weft_core::change::{Batch, Body, Change, DueEntry, Head, Position, Write};
use weft_core::limits::{BYTES_PER_COMMIT_MAX, RECORDS_PER_COMMIT_MAX};
use weft_core::planted::{self, Defect};
use weft_core::record::Key;
use weft_core::schema::{IndexId, Kind, PartMask, Value};
use weft_core::{CommitId, PartitionId};

/// A record as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The commit that wrote it last.
    pub revision: CommitId,
    pub facets: Vec<Value>,
    pub parts: BTreeMap<u8, Bytes>,
}

impl Stored {
    fn found(&self, mask: PartMask) -> Found {
        let parts = self.parts.iter().filter(|(part, _)| mask.has(**part));
        Found { revision: self.revision, parts: parts.map(|(part, bytes)| (*part, bytes.clone())).collect() }
    }
}

/// What a commit left in the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEntry {
    pub commit: CommitId,
    /// The head as that commit left it.
    pub head: Head,
    /// Empty if the commit had none.
    pub events: Bytes,
}

/// Everything that is in a partition, comparable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump {
    pub head: Head,
    pub records: BTreeMap<Key, Stored>,
    pub indexes: BTreeMap<IndexId, BTreeSet<Place>>,
    pub due: BTreeSet<DueEntry>,
    /// In the order of the commits.
    pub feed: Vec<FeedEntry>,
    pub barred: BTreeSet<CommitId>,
}

#[derive(Clone)]
pub(super) struct Partition {
    id: PartitionId,
    head: Head,
    records: BTreeMap<Kind, BTreeMap<Bytes, Stored>>,
    indexes: BTreeMap<IndexId, BTreeSet<Place>>,
    due: BTreeSet<Place>,
    feed: BTreeMap<Place, FeedEntry>,
    /// Where in the feed each applied commit is.
    applied: BTreeMap<CommitId, Head>,
    barred: BTreeSet<CommitId>,
}

impl Partition {
    pub(super) fn new(id: PartitionId) -> Self {
        Self {
            id,
            head: Head::default(),
            records: Kind::ALL.into_iter().map(|kind| (kind, BTreeMap::new())).collect(),
            indexes: IndexId::ALL.into_iter().map(|index| (index, BTreeSet::new())).collect(),
            due: BTreeSet::new(),
            feed: BTreeMap::new(),
            applied: BTreeMap::new(),
            barred: BTreeSet::new(),
        }
    }

    pub(super) fn id(&self) -> PartitionId {
        self.id
    }

    pub(super) fn head(&self) -> Head {
        self.head
    }

    pub(super) fn record(&self, key: &Key) -> Option<&Stored> {
        let records = self.records.get(&key.kind()).filter(|_| key.partition() == self.id)?;
        records.get(key.to_bytes().as_slice())
    }

    pub(super) fn found(&self, key: &Key, mask: PartMask) -> Option<Found> {
        self.record(key).map(|stored| stored.found(mask))
    }

    /// Decides about a batch, and applies it if nothing speaks against it. `None` beside the outcome of a commit that
    /// was applied before: nothing changed this time.
    pub(super) fn commit(&mut self, batch: &Batch) -> (Outcome, Option<Head>) {
        if self.barred.contains(&batch.id) {
            return (refused("the commit id is barred"), None);
        }
        if let Some(head) = self.applied.get(&batch.id)
            && !planted::on(Defect::CommitRepeated)
        {
            return (Outcome::Applied { head: *head }, None);
        }
        if self.head.has_lost(&batch.expect, self.applied.contains_key(&batch.expect.last)) {
            return (Outcome::Lost { head: self.head }, None);
        }
        if let Some(keys) = self.conflict(batch) {
            return (Outcome::Conflict { keys, head: self.head }, None);
        }
        if batch.writes.len() > RECORDS_PER_COMMIT_MAX || batch.weight() > BYTES_PER_COMMIT_MAX {
            return (refused("the commit is larger than a store has to take"), None);
        }
        if batch.raise.is_some_and(|raise| raise <= self.head.position) {
            return (refused("the commit raises the partition to where it already is"), None);
        }
        if batch.writes.iter().any(|write| write.key.partition() != self.id) {
            return (refused("the commit names a record of another partition"), None);
        }
        self.apply(batch);
        (Outcome::Applied { head: self.head }, Some(self.head))
    }

    /// The records that differ if the batch is in conflict; none if the head alone is the reason.
    fn conflict(&self, batch: &Batch) -> Option<Vec<Key>> {
        let holds = batch.expect.is_at(&self.head);
        if batch.expect.position.generation != self.head.position.generation
            || batch.now < self.head.now
            || (batch.strict && !holds)
        {
            return Some(Vec::new());
        }
        let fast = batch.fast && (holds || planted::on(Defect::FastPathThoughSeqMoved));
        if fast || planted::on(Defect::CommitIgnoresRevisions) {
            return None;
        }
        let differs = |(key, seen): &&(Key, Option<CommitId>)| self.record(key).map(|found| found.revision) != *seen;
        let keys: Vec<Key> = batch.reads.iter().filter(differs).map(|(key, _)| *key).collect();
        (!keys.is_empty()).then_some(keys)
    }

    fn apply(&mut self, batch: &Batch) {
        let position = batch.raise.unwrap_or(self.head.position.next());
        self.head = Head { position, last: batch.id, now: batch.now };
        // Drops go first: a timer that is armed again in the same commit stays armed.
        for entry in &batch.due_drops {
            self.due.remove(&due_place(entry));
        }
        for write in &batch.writes {
            self.write(batch.id, write);
        }
        let entry = FeedEntry { commit: batch.id, head: self.head, events: batch.feed.clone() };
        self.feed.insert(feed_place(self.head.position, batch.id), entry);
        self.applied.insert(batch.id, self.head);
    }

    fn write(&mut self, id: CommitId, write: &Write) {
        let key = write.key;
        let bytes = Bytes::copy_from_slice(key.to_bytes().as_slice());
        let records = self.records.entry(key.kind()).or_default();
        let (old_facets, old_parts) = records.remove(&bytes).map(|old| (old.facets, old.parts)).unzip();
        let new = match &write.what {
            Change::Insert(body) => Some(stored(id, body, BTreeMap::new())),
            Change::Update { body, .. } => Some(stored(id, body, old_parts.unwrap_or_default())),
            Change::Delete { .. } => None,
        };
        for index in key.kind().table().indexes {
            let entries = self.indexes.entry(index.id).or_default();
            if let Some(place) = old_facets.as_ref().and_then(|old| index_place(index.id, old, &bytes)) {
                entries.remove(&place);
            }
            if let Some(place) = new.as_ref().and_then(|new| index_place(index.id, &new.facets, &bytes)) {
                entries.insert(place);
            }
        }
        if let Some(new) = new {
            records.insert(bytes, new);
        }
        for due in &write.due_remove {
            self.due.remove(&due_place(&DueEntry::new(*due, key)));
        }
        for due in &write.due_add {
            self.due.insert(due_place(&DueEntry::new(*due, key)));
        }
    }

    /// Where the commit is, or bars its id. The first bar moves `seq` on and leaves nothing in the feed.
    pub(super) fn resolve(&mut self, id: CommitId) -> Resolution {
        if let Some(head) = self.applied.get(&id) {
            return Resolution::Applied { position: head.position };
        }
        if !planted::on(Defect::ResolveDoesNotBar) && self.barred.insert(id) {
            self.head.position.seq += 1;
        }
        Resolution::NotApplied
    }

    pub(super) fn scan(&self, scan: &Scan) -> Result<Vec<Page>, Error> {
        scan.ranges.iter().map(|range| self.page(scan, range)).collect()
    }

    fn page(&self, scan: &Scan, range: &Range) -> Result<Page, Error> {
        check_prefix(scan, range)?;
        let (entries, more) = match scan.target {
            Target::Index(index) => {
                let kind = index.get().kind;
                let (places, more) = places(&self.indexes[&index], scan, range);
                (places.into_iter().map(|place| self.entry(kind, place.clone(), scan)).collect(), more)
            }
            Target::Records(kind) => self.records_page(kind, scan, range),
            Target::Due => {
                let (places, more) = places(&self.due, scan, range);
                (places.into_iter().map(|place| self.due_entry(place)).collect(), more)
            }
            Target::Feed => self.feed_page(scan, range),
        };
        Ok(Page { entries, more })
    }

    /// The ordered set that a scan of this target walks over; `None` for records and the feed.
    fn places(&self, target: Target) -> Option<&BTreeSet<Place>> {
        match target {
            Target::Index(index) => Some(&self.indexes[&index]),
            Target::Due => Some(&self.due),
            Target::Records(_) | Target::Feed => None,
        }
    }

    fn entry(&self, kind: Kind, place: Place, scan: &Scan) -> Entry {
        let stored = || self.records[&kind].get(&place.key);
        let found = scan.parts.and_then(|mask| stored().map(|stored| stored.found(mask)));
        Entry { partition: self.id, kind: kind as u8, place, found }
    }

    fn records_page(&self, kind: Kind, scan: &Scan, range: &Range) -> (Vec<Entry>, bool) {
        let Some(bounds) = walk::keys(range, scan.descending) else { return (Vec::new(), false) };
        let (keys, more) = walk::page(self.records[&kind].range(bounds), scan.limit, scan.descending);
        let place = |key: &Bytes| Place { columns: Vec::new(), key: key.clone() };
        (keys.into_iter().map(|(key, _)| self.entry(kind, place(key), scan)).collect(), more)
    }

    fn due_entry(&self, place: &Place) -> Entry {
        let kind = match place.columns.last() {
            Some(Value::Int(kind)) => *kind as u8,
            _ => 0,
        };
        Entry { partition: self.id, kind, place: place.clone(), found: None }
    }

    fn feed_page(&self, scan: &Scan, range: &Range) -> (Vec<Entry>, bool) {
        let Some(bounds) = walk::places(range, scan.descending) else { return (Vec::new(), false) };
        let (found, more) = walk::page(self.feed.range(bounds), scan.limit, scan.descending);
        let entry = |(place, entry): (&Place, &FeedEntry)| {
            let found = scan.parts.map(|mask| {
                let has_events = mask.has(0) && !entry.events.is_empty();
                let parts = has_events.then(|| (0, entry.events.clone())).into_iter().collect();
                Found { revision: entry.commit, parts }
            });
            Entry { partition: self.id, kind: 0, place: place.clone(), found }
        };
        (found.into_iter().map(entry).collect(), more)
    }

    /// Adds an entry of the due index as damage or an older program might have left it.
    pub(super) fn insert_due(&mut self, entry: &DueEntry) {
        self.due.insert(due_place(entry));
    }

    pub(super) fn dump(&self) -> Dump {
        let key = |kind: Kind, bytes: &Bytes| {
            Key::from_bytes(self.id, kind, bytes).expect("memory: records are stored under the bytes of a key")
        };
        let records = self
            .records
            .iter()
            .flat_map(|(kind, records)| records.iter().map(move |(bytes, stored)| (key(*kind, bytes), stored.clone())));
        Dump {
            head: self.head,
            records: records.collect(),
            indexes: self.indexes.clone(),
            due: self.due.iter().map(due_of_place).collect(),
            feed: self.feed.values().cloned().collect(),
            barred: self.barred.clone(),
        }
    }
}

/// A scan of all partitions as `merge::merge_all` gives it. Every node looks at the timers of all partitions all the time:
/// only entries that are in the page are copied.
pub(super) fn scan_all(partitions: &[Partition], scan: &Scan) -> Result<Vec<Page>, Error> {
    if !matches!(scan.target, Target::Index(_) | Target::Due) {
        let pages: Result<Vec<_>, _> = partitions.iter().map(|partition| partition.scan(scan)).collect();
        return Ok(merge::merge_all(pages?, scan.limit, scan.descending));
    }
    scan.ranges.iter().map(|range| page_of_all(partitions, scan, range)).collect()
}

fn page_of_all(partitions: &[Partition], scan: &Scan, range: &Range) -> Result<Page, Error> {
    check_prefix(scan, range)?;
    let Some((low, high)) = walk::places(range, scan.descending) else { return Ok(Page::default()) };
    let mut found: Vec<(&Place, &Partition)> = Vec::new();
    for partition in partitions {
        let Some(places) = partition.places(scan.target) else { continue };
        let places = places.range::<Place, _>((low.as_ref(), high.as_ref())).map(|place| (place, partition));
        // One more than the page can hold of it shows that there is more.
        let most = scan.limit.saturating_add(1);
        if scan.descending { found.extend(places.rev().take(most)) } else { found.extend(places.take(most)) }
    }
    found.sort_by(|(a, of), (b, other)| directed(scan.descending, (a, of.id).cmp(&(b, other.id))));
    let cut = cut_between_places(&found, scan.limit, |(place, _)| place);
    let entry = |(place, partition): &(&Place, &Partition)| match scan.target {
        Target::Index(index) => partition.entry(index.get().kind, (*place).clone(), scan),
        _ => partition.due_entry(place),
    };
    Ok(Page { entries: found[..cut].iter().map(entry).collect(), more: cut < found.len() })
}

fn check_prefix(scan: &Scan, range: &Range) -> Result<(), Error> {
    match range.prefix.len() > scan.target.columns() {
        true => Err(Error::refused("the prefix has more columns than the target")),
        false => Ok(()),
    }
}

fn stored(id: CommitId, body: &Body, mut parts: BTreeMap<u8, Bytes>) -> Stored {
    for (part, bytes) in &body.parts {
        match bytes {
            Some(bytes) => parts.insert(*part, bytes.clone()),
            None => parts.remove(part),
        };
    }
    Stored { revision: id, facets: body.facets.clone(), parts }
}

/// Where a record with these facets is in an index; `None` if it is not in there.
fn index_place(index: IndexId, facets: &[Value], key: &Bytes) -> Option<Place> {
    let index = index.get();
    if index.when.is_some_and(|facet| facets[facet].is_null()) {
        return None;
    }
    let columns: Vec<Value> = index.facets.iter().map(|facet| facets[*facet].clone()).collect();
    // No store in SQL could step past such an entry, so that the yardstick does not take it either.
    assert!(!columns.iter().any(Value::is_null), "memory: `{}` would have an entry with a null", index.name);
    Some(Place { columns, key: key.clone() })
}

fn due_place(entry: &DueEntry) -> Place {
    let columns = vec![Value::Int(entry.timer.into()), Value::Int(entry.at.as_i64()), Value::Int(entry.kind.into())];
    Place { columns, key: entry.key.clone() }
}

fn due_of_place(place: &Place) -> DueEntry {
    let number = |column: usize| match place.columns[column] {
        Value::Int(number) => number as u64,
        _ => unreachable!("memory: the due index has three integers"),
    };
    DueEntry {
        timer: number(0) as u8,
        at: weft_core::Time::from_ms(number(1)),
        kind: number(2) as u8,
        key: place.key.clone(),
    }
}

fn feed_place(position: Position, id: CommitId) -> Place {
    Place { columns: vec![Value::Int(position.seq as i64)], key: Bytes::copy_from_slice(id.0.as_bytes()) }
}

fn places<'a>(set: &'a BTreeSet<Place>, scan: &Scan, range: &Range) -> (Vec<&'a Place>, bool) {
    match walk::places(range, scan.descending) {
        Some(bounds) => walk::page(set.range(bounds), scan.limit, scan.descending),
        None => (Vec::new(), false),
    }
}

fn refused(why: &'static str) -> Outcome {
    Outcome::NotApplied { retry_after_ms: 0, source: Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(why)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_of_all_partitions_is_what_merging_their_pages_gives() {
        let mut partitions: Vec<Partition> = (0..3).map(|id| Partition::new(PartitionId(id))).collect();
        // Some places are in one partition, some in all of them.
        for (number, partition) in partitions.iter_mut().enumerate() {
            for step in 0..7 {
                let at = weft_core::Time::from_ms(if step % 2 == 0 { step } else { 10 * step + number as u64 });
                partition.insert_due(&DueEntry { timer: 1, at, kind: 1, key: Bytes::from_static(b"k") });
            }
        }
        for limit in 0..25 {
            for (descending, after) in [(false, None), (true, None), (false, Some(2)), (true, Some(50))] {
                let after = after.map(|at| Place {
                    columns: vec![Value::Int(1), Value::Int(at), Value::Int(1)],
                    key: Bytes::from_static(b"k"),
                });
                let range = Range { prefix: vec![Value::Int(1)], after, until: None };
                let scan = Scan { target: Target::Due, ranges: vec![range], limit, descending, parts: None };
                let pages = partitions.iter().map(|partition| partition.scan(&scan).expect("it is a good scan"));
                let merged = merge::merge_all(pages.collect(), limit, descending);
                assert_eq!(scan_all(&partitions, &scan).expect("it is a good scan"), merged, "{scan:?}");
            }
        }
    }
}
