//! Walks over sorted sets and the feed of one partition.
//!
//! With parts it takes two steps: the entries, then one look at the entries and their records together. An entry that
//! has gone in between is left out, so every entry is shown with its record as of one moment. All keys of the second
//! step are named beforehand, so a slot on its way to another server cannot hide a record.

use crate::keys::PartitionKeys;
use crate::members;
use crate::order::{self, Column};
use crate::primary::Request;
use crate::reader::{found, unexpected, write_names};
use crate::route::Router;
use crate::verdict;
use bytes::Bytes;
use futures_util::future::try_join_all;
use redis::{Cmd, RedisWrite, Value};
use std::sync::Arc;
use uuid::Uuid;
use weft_core::schema::{Kind, PartMask, Value as Facet};
use weft_core::{CommitId, PartitionId};
use weft_store::{Entry, Error, Found, Page, Place, Range, Scan, Target, merge};

/// One partition's answer: a page per range.
pub async fn scan(
    router: &Arc<Router>,
    names: &PartitionKeys,
    partition: PartitionId,
    scan: &Scan,
) -> Result<Vec<Page>, Error> {
    let walk = Walk { router, names, partition, scan, columns: order::columns(scan.target) };
    match scan.target {
        Target::Feed => try_join_all(scan.ranges.iter().map(|range| walk.feed_page(range))).await,
        _ => walk.pages().await,
    }
}

/// Joins what each partition answered. Bytes that encode no place come first: they have no place among the others, and the
/// last entry of a page is where the next one begins.
pub fn merged(mut partitions: Vec<Vec<Page>>, scan: &Scan) -> Vec<Page> {
    let mut raw = vec![Vec::new(); scan.ranges.len()];
    for pages in &mut partitions {
        for (page, raw) in pages.iter_mut().zip(&mut raw) {
            raw.extend(page.entries.extract_if(.., |entry| is_raw(scan.target, &entry.place)));
        }
    }
    let mut pages = merge::merge_all(partitions, scan.limit, scan.descending);
    for (page, raw) in pages.iter_mut().zip(raw) {
        page.entries.splice(0..0, raw);
    }
    pages
}

/// Whether the key of the place is bytes that encode no place of the target.
fn is_raw(target: Target, place: &Place) -> bool {
    place.columns.len() < target.columns()
}

struct Walk<'a> {
    router: &'a Arc<Router>,
    names: &'a PartitionKeys,
    partition: PartitionId,
    scan: &'a Scan,
    columns: Vec<Column>,
}

/// A page of members, not looked at yet.
struct Raw {
    members: Vec<Vec<u8>>,
    more: bool,
}

impl Walk<'_> {
    async fn read(&self, command: &Cmd) -> Result<Value, Error> {
        self.router.call(self.partition, Request::Read(command)).await.map_err(verdict::read_error)
    }

    async fn pages(&self) -> Result<Vec<Page>, Error> {
        let raw = try_join_all(self.scan.ranges.iter().map(|range| self.members(range))).await?;
        let mut pages = self.look(&raw).await?;
        for ((page, raw), range) in pages.iter_mut().zip(&raw).zip(&self.scan.ranges) {
            // Everything on it has gone in between, or names nothing: nobody could go on from an empty page.
            if page.more && page.entries.is_empty() {
                *page = self.page_beyond(range, raw).await?;
            }
        }
        Ok(pages)
    }

    async fn look(&self, raw: &[Raw]) -> Result<Vec<Page>, Error> {
        match self.scan.parts {
            Some(mask) => self.with_parts(raw, mask).await,
            None => Ok(raw.iter().map(|raw| self.page(raw)).collect()),
        }
    }

    async fn page_beyond(&self, range: &Range, raw: &Raw) -> Result<Page, Error> {
        let mut last = raw.members.last().cloned();
        loop {
            let after = match last.take() {
                Some(member) => Some(self.place(&member)),
                None => return Ok(Page::default()),
            };
            let raw = self.members(&Range { after, ..range.clone() }).await?;
            let page = self.look(std::slice::from_ref(&raw)).await?.pop().unwrap_or_default();
            if !page.more || !page.entries.is_empty() {
                return Ok(page);
            }
            last = raw.members.last().cloned();
        }
    }

    async fn members(&self, range: &Range) -> Result<Raw, Error> {
        let limit = self.scan.limit;
        let Some((low, high)) = order::bounds(&self.columns, range, self.scan.descending) else {
            return Ok(Raw { members: Vec::new(), more: false });
        };
        let mut command = redis::cmd("ZRANGE");
        command.write_arg(&self.names.target(self.scan.target));
        match self.scan.descending {
            true => command.arg(high).arg(low).arg("BYLEX").arg("REV"),
            false => command.arg(low).arg(high).arg("BYLEX"),
        };
        command.arg("LIMIT").arg(0).arg(limit + 1);
        let Value::Array(found) = self.read(&command).await? else { return Err(unexpected()) };
        let more = found.len() > limit;
        let member = |value| match value {
            Value::BulkString(member) => Ok(member),
            _ => Err(unexpected()),
        };
        let members = found.into_iter().take(limit).map(member).collect::<Result<_, _>>()?;
        Ok(Raw { members, more })
    }

    /// The place of a member. Bytes that encode no place are the key of a place without columns, which is a bound of a
    /// range like any other.
    fn place(&self, member: &[u8]) -> Place {
        let place = order::place(&self.columns, member);
        place
            .filter(|place| self.scan.target != Target::Due || members::is_due(place))
            .unwrap_or_else(|| Place { columns: Vec::new(), key: Bytes::copy_from_slice(member) })
    }

    fn entry(&self, member: &[u8], found: Option<Found>) -> Entry {
        let place = self.place(member);
        let kind = match self.scan.target {
            _ if is_raw(self.scan.target, &place) => 0,
            Target::Index(index) => index.get().kind as u8,
            Target::Records(kind) => kind as u8,
            Target::Due => match place.columns.last() {
                Some(Facet::Int(kind)) => *kind as u8,
                _ => 0,
            },
            Target::Feed => 0,
        };
        Entry { partition: self.partition, kind, place, found }
    }

    fn page(&self, raw: &Raw) -> Page {
        let entries = raw.members.iter().map(|member| self.entry(member, None));
        Page { entries: entries.filter(|entry| self.is_shown(entry)).collect(), more: raw.more }
    }

    /// Whether the entry names something. Bytes in an index that name no record are passed over: no walk could go on from
    /// them. Those of the due index are shown, because a commit can drop them.
    fn is_shown(&self, entry: &Entry) -> bool {
        !matches!(self.scan.target, Target::Index(_))
            || (!is_raw(self.scan.target, &entry.place) && entry.key().is_some())
    }

    fn kind(&self) -> Option<Kind> {
        match self.scan.target {
            Target::Index(index) => Some(index.get().kind),
            Target::Records(kind) => Some(kind),
            Target::Due | Target::Feed => None,
        }
    }

    /// Looks at entries and records together, and leaves out the entries that have gone.
    async fn with_parts(&self, raw: &[Raw], mask: PartMask) -> Result<Vec<Page>, Error> {
        let kind = self.kind().ok_or_else(|| Error::refused("timers and records are not read together"))?;
        if raw.iter().all(|raw| raw.members.is_empty()) {
            return Ok(raw.iter().map(|raw| self.page(raw)).collect());
        }
        let members = || raw.iter().flat_map(|raw| &raw.members);
        let keys: Vec<Bytes> = members().map(|member| self.place(member).key).collect();
        let per_record = 1 + crate::reader::other_parts(kind, mask).count();
        let mut command = redis::cmd("FCALL_RO");
        command.arg("weft2_look").arg(1 + keys.len() * per_record).write_arg(&self.names.target(self.scan.target));
        for key in &keys {
            write_names(self.names, kind, key, mask, &mut command);
        }
        members().for_each(|member| command.write_arg(member));

        let Value::Array(slices) = self.read(&command).await? else { return Err(unexpected()) };
        let mut values = Vec::with_capacity(keys.len() * (1 + per_record));
        for slice in slices {
            let Value::Array(slice) = slice else { return Err(unexpected()) };
            values.extend(slice);
        }
        if values.len() != keys.len() * (1 + per_record) {
            return Err(unexpected());
        }
        let records = values.split_off(keys.len());
        let (mut there, mut records) = (values.into_iter(), records.into_iter());
        let mut pages = Vec::with_capacity(raw.len());
        for raw in raw {
            let mut page = Page { entries: Vec::with_capacity(raw.members.len()), more: raw.more };
            for member in &raw.members {
                let found = found(kind, mask, &mut records)?;
                let is_there = there.next().is_some_and(|score| score != Value::Nil);
                page.entries.extend(Some(self.entry(member, found)).filter(|entry| is_there && self.is_shown(entry)));
            }
            pages.push(page);
        }
        Ok(pages)
    }

    async fn feed_page(&self, range: &Range) -> Result<Page, Error> {
        let limit = self.scan.limit;
        let Some((first, last)) = feed_bounds(range, self.scan.descending) else { return Ok(Page::default()) };
        let mut command = redis::cmd(if self.scan.descending { "XREVRANGE" } else { "XRANGE" });
        command.write_arg(&self.names.feed());
        match self.scan.descending {
            true => command.arg(last).arg(first),
            false => command.arg(first).arg(last),
        };
        // One beyond the page, and the entry that `after` may name.
        command.arg("COUNT").arg(limit + 2);
        let Value::Array(found) = self.read(&command).await? else { return Err(unexpected()) };
        let entries = found.into_iter().map(|entry| self.feed_entry(entry)).collect::<Result<Vec<_>, _>>()?;
        let beyond = |entry: &Entry| {
            range.after.as_ref().is_none_or(|after| match self.scan.descending {
                true => entry.place < *after,
                false => entry.place > *after,
            })
        };
        let mut entries: Vec<Entry> = entries.into_iter().filter(beyond).collect();
        let more = entries.len() > limit;
        entries.truncate(limit);
        Ok(Page { entries, more })
    }

    fn feed_entry(&self, entry: Value) -> Result<Entry, Error> {
        let damaged = || Error::refused(format!("an entry of the feed of {:?} is damaged", self.partition));
        let (seq, commit, events) = feed_fields(entry).ok_or_else(damaged)?;
        let found = self.scan.parts.map(|mask| {
            let parts = if mask.has(0) && !events.is_empty() { vec![(0, events)] } else { Vec::new() };
            Found { revision: commit, parts }
        });
        let place = Place { columns: vec![Facet::Int(seq)], key: Bytes::copy_from_slice(commit.0.as_bytes()) };
        Ok(Entry { partition: self.partition, kind: 0, place, found })
    }
}

/// The seq, the commit and the events of an entry `[id, ["c", commit, "e", events]]`.
fn feed_fields(entry: Value) -> Option<(i64, CommitId, Bytes)> {
    let Value::Array(entry) = entry else { return None };
    let [Value::BulkString(id), Value::Array(fields)] = <[Value; 2]>::try_from(entry).ok()? else { return None };
    let [_, Value::BulkString(commit), _, Value::BulkString(events)] = <[Value; 4]>::try_from(fields).ok()? else {
        return None;
    };
    let seq = std::str::from_utf8(&id).ok()?.strip_suffix("-0")?.parse().ok()?;
    Some((seq, CommitId(Uuid::from_slice(&commit).ok()?), Bytes::from(events)))
}

/// The first and the last seq that can be in the range.
fn feed_bounds(range: &Range, descending: bool) -> Option<(i64, i64)> {
    let number = |value: &Facet| match value {
        Facet::Int(number) => Some(*number),
        _ => None,
    };
    let (mut first, mut last) = match range.prefix.first() {
        Some(seq) => (number(seq)?, number(seq)?),
        None => (0, range.until.as_ref().map_or(Some(i64::MAX), number)?),
    };
    if let Some(after) = &range.after {
        let seq = after.columns.first().and_then(number)?;
        match descending {
            true => last = last.min(seq),
            false => first = first.max(seq),
        }
    }
    (first >= 0 && first <= last).then_some((first, last))
}
