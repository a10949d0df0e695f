//! The entries of sorted sets that come and go with a commit, worked out from the facets before and after.

use crate::order::{self, Column};
use std::sync::LazyLock;
use weft_core::Time;
use weft_core::change::DueEntry;
use weft_core::record::Key;
use weft_core::schema::{Due, Index, IndexId, Value};
use weft_store::{Place, Target};

/// An index with facets, ready to encode its members.
pub struct Plan {
    pub index: &'static Index,
    columns: Vec<Column>,
}

pub static PLANS: LazyLock<Vec<Plan>> = LazyLock::new(|| {
    let with_facets = IndexId::ALL.into_iter().filter(|index| !index.get().facets.is_empty());
    with_facets.map(|id| Plan { index: id.get(), columns: order::columns(Target::Index(id)) }).collect()
});
static DUE_COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| order::columns(Target::Due));

impl Plan {
    pub fn is_in(&self, facets: &[Value]) -> bool {
        self.index.when.is_none_or(|facet| !facets[facet].is_null())
    }

    pub fn same_place(&self, old: &[Value], new: &[Value]) -> bool {
        self.is_in(old) == self.is_in(new) && self.index.facets.iter().all(|at| old[*at] == new[*at])
    }

    pub fn member(&self, facets: &[Value], key: &[u8], out: &mut Vec<u8>) {
        for (column, at) in self.columns.iter().zip(self.index.facets) {
            let fits = order::encode(*column, &facets[*at], out);
            debug_assert!(fits, "a facet of {:?} is not what the schema declares", self.index.id);
        }
        out.extend_from_slice(key);
    }
}

/// Byte strings one after the other.
#[derive(Default)]
pub struct Strings {
    pub bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Strings {
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

/// What goes from one sorted set and what comes.
#[derive(Default)]
pub struct Delta {
    pub gone: Strings,
    pub come: Strings,
}

impl Delta {
    pub fn is_empty(&self) -> bool {
        self.gone.len() == 0 && self.come.len() == 0
    }

    pub fn remove_due(&mut self, due: Due, key: &Key) {
        self.gone
            .push_with(|out| due_member(due.timer as u8, due.at, key.kind() as u8, key.to_bytes().as_slice(), out));
    }

    pub fn add_due(&mut self, due: Due, key: &Key) {
        self.come
            .push_with(|out| due_member(due.timer as u8, due.at, key.kind() as u8, key.to_bytes().as_slice(), out));
    }

    pub fn drop_entry(&mut self, entry: &DueEntry) {
        self.gone.push_with(|out| due_member(entry.timer, entry.at, entry.kind, &entry.key, out));
    }
}

/// The member of an entry of the due index.
pub fn due_entry(entry: &DueEntry) -> Vec<u8> {
    let mut member = Vec::new();
    due_member(entry.timer, entry.at, entry.kind, &entry.key, &mut member);
    member
}

/// Timers have numbers from 1 on. An entry of number 0 stands for bytes in the set that encode no place: its key is those
/// bytes.
const RAW: u8 = 0;

/// Whether a place of the due index is one that an entry encodes to.
pub fn is_due(place: &Place) -> bool {
    let byte = |value: &Value, least: u8| matches!(value, Value::Int(number) if (least.into()..=255).contains(number));
    match place.columns.as_slice() {
        [timer, Value::Int(at), kind] => byte(timer, RAW + 1) && *at >= 0 && byte(kind, 0),
        _ => false,
    }
}

fn due_member(timer: u8, at: Time, kind: u8, key: &[u8], out: &mut Vec<u8>) {
    if timer == RAW {
        return out.extend_from_slice(key);
    }
    let values = [Value::Int(timer.into()), Value::Int(at.as_i64()), Value::Int(kind.into())];
    for (column, value) in DUE_COLUMNS.iter().zip(&values) {
        order::encode(*column, value, out);
    }
    out.extend_from_slice(key);
}
