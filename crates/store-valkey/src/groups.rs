//! What a batch does to keys: which parts are set, rewritten and deleted, and what was seen of the records before.
//!
//! The groups are those of the table at the top of `weft.lua`.

use crate::keys::PartitionKeys;
use crate::members::{Delta, PLANS, Strings};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use weft_core::change::{Batch, Body, Change, Write};
use weft_core::record::Key;
use weft_core::schema::{IndexId, Kind, Value};
use weft_core::{CommitId, PartitionId};
use weft_store::Target;

pub const REVISION_BYTES: usize = 16;

/// Records whose revision was seen, by the part that holds it.
#[derive(Default)]
pub struct Seen {
    pub names: Strings,
    pub revisions: Vec<u8>,
    pub keys: Vec<Key>,
}

pub enum Part<'a> {
    /// Part 0 follows the revision; the rest stand alone.
    First(Option<&'a [u8]>),
    Other(&'a [u8]),
}

pub struct Groups<'a> {
    pub names: &'a PartitionKeys,
    partition: PartitionId,
    batch: &'a Batch,
    /// What was seen of each record and is not in a group yet.
    open: HashMap<Key, Option<CommitId>>,
    twice: Vec<(Key, Option<CommitId>)>,
    pub set: Strings,
    pub set_values: Vec<Part<'a>>,
    pub set_seen: Seen,
    pub set_seen_values: Vec<Part<'a>>,
    pub touched: Seen,
    pub only: Seen,
    pub deleted_seen: Seen,
    pub deleted: Strings,
    kinds: [Delta; Kind::ALL.len()],
    indexes: [Delta; IndexId::ALL.len()],
    pub due: Delta,
}

impl<'a> Groups<'a> {
    pub fn new(names: &'a PartitionKeys, partition: PartitionId, batch: &'a Batch) -> Self {
        let mut open = HashMap::with_capacity(batch.reads.len());
        let mut twice = Vec::new();
        for (key, revision) in &batch.reads {
            match open.entry(*key) {
                Entry::Vacant(place) => drop(place.insert(*revision)),
                Entry::Occupied(_) => twice.push((*key, *revision)),
            }
        }
        Self {
            names,
            partition,
            batch,
            open,
            twice,
            set: Strings::default(),
            set_values: Vec::new(),
            set_seen: Seen::default(),
            set_seen_values: Vec::new(),
            touched: Seen::default(),
            only: Seen::default(),
            deleted_seen: Seen::default(),
            deleted: Strings::default(),
            kinds: Default::default(),
            indexes: Default::default(),
            due: Delta::default(),
        }
    }

    pub fn write(&mut self, write: &'a Write) {
        let key = &write.key;
        match &write.what {
            Change::Insert(body) => {
                self.first_part(key, body.first_part().flatten());
                self.other_parts(key, body, false);
                self.kind(key.kind()).come.push_with(|out| out.extend_from_slice(key.to_bytes().as_slice()));
                self.indexes(key, None, Some(&body.facets));
            }
            Change::Update { old, body } => {
                match body.first_part() {
                    Some(part) => self.first_part(key, part),
                    None => self.touch(key),
                }
                self.other_parts(key, body, true);
                self.indexes(key, Some(old), Some(&body.facets));
            }
            Change::Delete { old } => {
                self.delete(key);
                self.kind(key.kind()).gone.push_with(|out| out.extend_from_slice(key.to_bytes().as_slice()));
                self.indexes(key, old.as_deref(), None);
            }
        }
        for due in &write.due_remove {
            self.due.remove_due(*due, key);
        }
        for due in &write.due_add {
            self.due.add_due(*due, key);
        }
    }

    fn kind(&mut self, kind: Kind) -> &mut Delta {
        let place = Kind::ALL.iter().position(|other| *other == kind);
        &mut self.kinds[place.expect("kinds: all of them are listed")]
    }

    fn first_part(&mut self, key: &Key, part: Option<&'a [u8]>) {
        let seen = self.open.remove(key);
        add_seen(&mut self.set_seen, self.names, key, seen);
        self.set_seen_values.push(Part::First(part));
    }

    fn touch(&mut self, key: &Key) {
        let seen = self.open.remove(key);
        add_seen(&mut self.touched, self.names, key, seen);
    }

    fn delete(&mut self, key: &Key) {
        let seen = self.open.remove(key);
        add_seen(&mut self.deleted_seen, self.names, key, seen);
        for part in 1..key.kind().table().parts.len() as u8 {
            self.deleted.push_with(|out| self.names.write_part(key, part, out));
        }
    }

    fn other_parts(&mut self, key: &Key, body: &'a Body, may_exist: bool) {
        for (part, bytes) in body.parts.iter().filter(|(part, _)| *part > 0) {
            match bytes {
                Some(bytes) => {
                    self.set.push_with(|out| self.names.write_part(key, *part, out));
                    self.set_values.push(Part::Other(bytes));
                }
                None if may_exist => self.deleted.push_with(|out| self.names.write_part(key, *part, out)),
                None => {}
            }
        }
    }

    fn indexes(&mut self, key: &Key, old: Option<&[Value]>, new: Option<&[Value]>) {
        let bytes = key.to_bytes();
        for (plan, delta) in PLANS.iter().zip(&mut self.indexes) {
            let same = || old.zip(new).is_some_and(|(old, new)| plan.same_place(old, new));
            if plan.index.kind != key.kind() || same() {
                continue;
            }
            if let Some(old) = old.filter(|old| plan.is_in(old)) {
                delta.gone.push_with(|out| plan.member(old, bytes.as_slice(), out));
            }
            if let Some(new) = new.filter(|new| plan.is_in(new)) {
                delta.come.push_with(|out| plan.member(new, bytes.as_slice(), out));
            }
        }
    }

    /// Takes in the records that are not written.
    pub fn only_seen(&mut self) {
        let rest = self.batch.reads.iter().filter_map(|(key, _)| Some((*key, self.open.remove(key)?)));
        for (key, seen) in rest.chain(self.twice.drain(..)) {
            if key.partition() == self.partition {
                add_seen(&mut self.only, self.names, &key, Some(seen));
            } else if seen.is_some() {
                // No record of another partition is here, so one that was seen differs.
                push_revision(&mut self.only.revisions, Some(seen));
                self.only.names.push_with(|out| out.extend_from_slice(&self.names.nothing()));
                self.only.keys.push(key);
            }
        }
    }

    /// The sorted sets that change, with their names.
    pub fn sorted_sets(&self) -> Vec<(Vec<u8>, &Delta)> {
        let kinds = Kind::ALL.into_iter().zip(&self.kinds).map(|(kind, delta)| (Target::Records(kind), delta));
        let plans = PLANS.iter().map(|plan| Target::Index(plan.index.id));
        let all = kinds.chain(plans.zip(&self.indexes)).chain([(Target::Due, &self.due)]);
        all.filter(|(_, delta)| !delta.is_empty()).map(|(target, delta)| (self.names.target(target), delta)).collect()
    }

    /// The record at a place in the groups W T R X, counted from 1.
    pub fn seen_key(&self, place: i64) -> Option<Key> {
        let groups = [&self.set_seen, &self.touched, &self.only, &self.deleted_seen];
        let place = usize::try_from(place).ok()?.checked_sub(1)?;
        groups.into_iter().flat_map(|seen| &seen.keys).nth(place).copied()
    }
}

trait FirstPart {
    /// What becomes of part 0: left alone, removed or set.
    fn first_part(&self) -> Option<Option<&[u8]>>;
}

impl FirstPart for Body {
    fn first_part(&self) -> Option<Option<&[u8]>> {
        self.parts.iter().find(|(part, _)| *part == 0).map(|(_, bytes)| bytes.as_deref())
    }
}

fn add_seen(group: &mut Seen, names: &PartitionKeys, key: &Key, seen: Option<Option<CommitId>>) {
    group.names.push_with(|out| names.write_part(key, 0, out));
    group.keys.push(*key);
    push_revision(&mut group.revisions, seen);
}

fn push_revision(out: &mut Vec<u8>, seen: Option<Option<CommitId>>) {
    let (mark, bytes) = match seen {
        Some(Some(revision)) => (b'r', *revision.0.as_bytes()),
        Some(None) => (b'a', [0; REVISION_BYTES]),
        None => (b'*', [0; REVISION_BYTES]),
    };
    out.push(mark);
    out.extend_from_slice(&bytes);
}
