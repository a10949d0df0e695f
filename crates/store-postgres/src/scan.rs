//! Walking over indexes, timers, records and the feed: one statement per range, no offset, always along an index.

use crate::column::Param;
use crate::ddl::{for_walks, is_narrow_table, type_name};
use crate::link::{Link, Step};
use crate::sql::{Stmt, part_columns, parts_of};
use crate::verdict;
use bytes::Bytes;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use tokio_postgres::types::Type;
use tokio_postgres::{Error, Row};
use uuid::Uuid;
use weft_core::schema::{Kind, PartMask, Table, Value};
use weft_core::{CommitId, PartitionId};
use weft_store::{Entry, Found, Page, Place, Range, Scan, Target, merge};

/// Which clauses a range needs; ranges that need the same ones share a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    target: Target,
    /// One partition, or the first entries of each.
    everywhere: bool,
    prefix: usize,
    after: bool,
    until: bool,
    descending: bool,
    parts: Option<PartMask>,
}

impl Hash for Walk {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let target = match self.target {
            Target::Index(index) => (0, index as u8),
            Target::Records(kind) => (1, kind as u8),
            Target::Due => (2, 0),
            Target::Feed => (3, 0),
        };
        let flags = [self.everywhere, self.after, self.until, self.descending];
        (target, self.prefix, flags, self.parts).hash(state);
    }
}

/// What a target is in SQL: where its entries are, and in which columns.
struct Shape {
    table: &'static str,
    /// Its order is that of an index with the condition of `for_walks`, not that of the primary key.
    indexed: bool,
    when: Option<&'static str>,
    /// Name and type.
    columns: Vec<(&'static str, &'static str)>,
    key: &'static str,
    /// Where the records are if not in the table of the entries.
    beside: Option<&'static Table>,
}

fn shape(target: Target) -> Shape {
    let plain = |table, columns, key| Shape { table, indexed: false, when: None, columns, key, beside: None };
    match target {
        Target::Due => plain("due", vec![("timer", "bigint"), ("at", "bigint"), ("kind", "bigint")], "id"),
        Target::Feed => Shape { indexed: true, ..plain("feed", vec![("seq", "bigint")], "commit_id") },
        Target::Records(kind) => plain(kind.table().name, Vec::new(), "id"),
        Target::Index(id) => {
            let index = id.get();
            let table = index.kind.table();
            let columns = index.facets.iter().map(|at| (table.facets[*at].name, type_name(table.facets[*at].ty)));
            let columns: Vec<_> = columns.collect();
            match is_narrow_table(index) {
                true => Shape { beside: Some(table), ..plain(index.name, columns, "id") },
                false => Shape {
                    indexed: !columns.is_empty(),
                    when: index.when.map(|at| table.facets[at].name),
                    ..plain(table.name, columns, "id")
                },
            }
        }
    }
}

impl Walk {
    /// Parameters: the partition unless it is everywhere, prefix, the place to go on after without its prefix, until,
    /// limit. Columns: partition, those of the place, then revision and parts if asked for.
    pub fn text(&self) -> String {
        let mut numbers = 1..;
        let mut number = move || numbers.next().unwrap_or(0);
        if !self.everywhere {
            return self.page("$1::smallint", {
                number();
                &mut number
            });
        }
        let page = self.page("p.id", &mut number);
        format!("select s.* from partitions p cross join lateral ({page}) s")
    }

    /// The page of one partition, whose number is the expression `home`.
    fn page(&self, home: &str, number: &mut impl FnMut() -> i32) -> String {
        let Shape { table, indexed, when, columns, key, beside } = shape(self.target);
        let (prefix, rest) = columns.split_at(self.prefix);
        let (beyond, direction) = if self.descending { ("<", " desc") } else { (">", "") };
        let mut conditions = vec![format!("w.partition = {home}")];
        conditions.extend(indexed.then(|| for_walks("w.")));
        conditions.extend(prefix.iter().map(|(name, ty)| format!("w.{name} = ${}::{ty}", number())));
        if self.after {
            conditions.push(self.beyond(rest, key, beyond, number));
        }
        if self.until
            && let Some((name, ty)) = rest.first()
        {
            conditions.push(format!("w.{name} <= ${}::{ty}", number()));
        }
        if let Some(when) = when {
            conditions.push(format!("w.{when} is not null"));
        }
        let order = |alias: &str| {
            let names = rest.iter().map(|(name, _)| *name).chain([key]);
            let order: Vec<String> = names.map(|name| format!("{alias}{name}{direction}")).collect();
            order.join(", ")
        };
        let names = |alias: &str| -> String {
            let names = columns.iter().map(|(name, _)| *name).chain([key]);
            let names: Vec<String> = names.map(|name| format!("{alias}{name}")).collect();
            names.join(", ")
        };
        let found = if beside.is_some() { String::new() } else { self.found_columns("w.") };
        let walk = format!(
            "select w.partition, {}{found} from {table} w where {} order by {} limit ${}::bigint",
            names("w."),
            conditions.join(" and "),
            order("w."),
            number()
        );
        match beside.filter(|_| self.parts.is_some()) {
            None => walk,
            Some(table) => format!(
                "select e.partition, {}{} from ({walk}) e left join lateral (select * from {} where partition = \
                 e.partition and id = e.id limit 1) t on true order by {}",
                names("e."),
                self.found_columns("t."),
                table.name,
                order("e.")
            ),
        }
    }

    /// Strictly beyond a place, by comparing whole rows: the form that an index can be entered with.
    fn beyond(&self, rest: &[(&str, &str)], key: &str, beyond: &str, number: &mut impl FnMut() -> i32) -> String {
        let values: Vec<String> = rest.iter().map(|(_, ty)| format!("${}::{ty}", number())).collect();
        let key_value = format!("${}::bytea", number());
        // A place in the feed need not be that of a commit, so its key is compared as bytes. The index is entered by the
        // number, which names one entry.
        let (key, entered) = match (self.target, values.first()) {
            (Target::Feed, Some(seq)) => (format!("uuid_send(w.{key})"), format!("w.seq {beyond}= {seq} and ")),
            (Target::Feed, None) => (format!("uuid_send(w.{key})"), String::new()),
            _ => (format!("w.{key}"), String::new()),
        };
        let names: Vec<String> = rest.iter().map(|(name, _)| format!("w.{name}")).chain([key]).collect();
        let values: Vec<String> = values.into_iter().chain([key_value]).collect();
        format!("{entered}({}) {beyond} ({})", names.join(", "), values.join(", "))
    }

    /// Revision and parts, each behind a comma.
    fn found_columns(&self, alias: &str) -> String {
        let (Some(mask), Some(kind)) = (self.parts, record_kind(self.target)) else {
            let events = self.target == Target::Feed && self.parts.is_some_and(|mask| mask.has(0));
            return if events { format!(", {alias}events") } else { String::new() };
        };
        format!(", {alias}revision{}", part_columns(kind.table(), mask, alias))
    }
}

/// The kind of the records that entries name, where it is always the same.
fn record_kind(target: Target) -> Option<Kind> {
    match target {
        Target::Index(index) => Some(index.get().kind),
        Target::Records(kind) => Some(kind),
        Target::Due | Target::Feed => None,
    }
}

/// Refuses a range that does not fit its target.
pub fn check(target: Target, range: &Range) -> Result<(), weft_store::Error> {
    let columns = target.columns();
    if range.prefix.len() > columns {
        return Err(weft_store::Error::refused("the prefix has more columns than the target"));
    }
    match &range.after {
        Some(after) if after.columns.len() != columns => {
            Err(weft_store::Error::refused("the place to go on after has not all columns of the target"))
        }
        _ => Ok(()),
    }
}

/// One page per range, all asked for in one round trip.
pub async fn pages(
    link: &mut Link,
    partition: Option<PartitionId>,
    scan: &Scan,
) -> Result<Vec<Page>, weft_store::Error> {
    let steps: Vec<Option<Step<'_>>> = scan.ranges.iter().map(|range| step(partition, scan, range)).collect();
    let asked: Vec<bool> = steps.iter().map(Option::is_some).collect();
    let steps: Vec<Step<'_>> = steps.into_iter().flatten().collect();
    link.prepare(&steps).await.map_err(verdict::of_read)?;
    let answers = link.run(&steps).await.map_err(|unsent| verdict::of_read(unsent.0))?;
    let mut answers = answers.into_iter();
    let page = |asked: bool| match asked.then(|| answers.next()).flatten() {
        Some(rows) => rows.and_then(|rows| page(partition, scan, &rows)),
        None => Ok(Page::default()),
    };
    asked.into_iter().map(page).collect::<Result<_, _>>().map_err(verdict::of_read)
}

/// The statement of a range; `None` if no entry can be in it.
fn step<'a>(partition: Option<PartitionId>, scan: &Scan, range: &'a Range) -> Option<Step<'a>> {
    let after = match narrow(range, scan.descending) {
        Ok(after) => after,
        Err(Empty) => return None,
    };
    let until = range.until.as_ref().filter(|_| range.prefix.len() < scan.target.columns());
    let walk = Walk {
        target: scan.target,
        everywhere: partition.is_none(),
        prefix: range.prefix.len(),
        after: after.is_some(),
        until: until.is_some(),
        descending: scan.descending,
        parts: scan.parts,
    };
    let limit = i64::try_from(scan.limit).unwrap_or(i64::MAX).saturating_add(1);
    let home = partition.map(|partition| Param::Int2(partition.0 as i16));
    let beyond = after.iter().flat_map(|after| {
        let rest = after.columns[range.prefix.len()..].iter().map(Param::Value);
        rest.chain([Param::Bytes(Some(&after.key))])
    });
    let params: Vec<_> = home
        .into_iter()
        .chain(range.prefix.iter().map(Param::Value))
        .chain(beyond)
        .chain(until.map(Param::Value))
        .chain([Param::Int8(Some(limit))])
        .collect();
    Some(Step::new(Stmt::Walk(walk), params))
}

/// No entry can be in the range.
struct Empty;

/// The place to go on after, if it lies within the prefix. One before it changes nothing; beyond it nothing is left.
fn narrow(range: &Range, descending: bool) -> Result<Option<&Place>, Empty> {
    let Some(after) = &range.after else { return Ok(None) };
    let order = after.columns[..range.prefix.len()].cmp(&range.prefix);
    match if descending { order.reverse() } else { order } {
        Ordering::Less => Ok(None),
        Ordering::Equal => Ok(Some(after)),
        Ordering::Greater => Err(Empty),
    }
}

fn page(partition: Option<PartitionId>, scan: &Scan, rows: &[Row]) -> Result<Page, Error> {
    let entries: Vec<Entry> = rows.iter().map(|row| entry(scan, row)).collect::<Result<_, _>>()?;
    match partition {
        Some(_) => Ok(cut(entries, scan.limit)),
        None => Ok(merge::merge(by_partition(entries, scan), scan.limit, scan.descending)),
    }
}

fn cut(mut entries: Vec<Entry>, limit: usize) -> Page {
    let more = entries.len() > limit;
    entries.truncate(limit);
    Page { entries, more }
}

/// What each partition answered. The server may mix partitions, so each page is put in order here.
fn by_partition(mut entries: Vec<Entry>, scan: &Scan) -> Vec<Page> {
    let directed = |order: Ordering| if scan.descending { order.reverse() } else { order };
    entries.sort_by(|a, b| a.partition.cmp(&b.partition).then(directed(a.place.cmp(&b.place))));
    let mut pages: Vec<Page> = Vec::new();
    let mut rest = entries.into_iter().peekable();
    while let Some(first) = rest.next() {
        let home = first.partition;
        let mut own = vec![first];
        while let Some(entry) = rest.next_if(|entry| entry.partition == home) {
            own.push(entry);
        }
        pages.push(cut(own, scan.limit));
    }
    pages
}

fn entry(scan: &Scan, row: &Row) -> Result<Entry, Error> {
    let width = scan.target.columns();
    let home: i16 = row.try_get(0)?;
    let columns: Vec<Value> = (1..=width).map(|at| value(row, at)).collect::<Result<_, _>>()?;
    let key = match scan.target {
        Target::Feed => Bytes::copy_from_slice(row.try_get::<_, Uuid>(width + 1)?.as_bytes()),
        _ => Bytes::copy_from_slice(row.try_get(width + 1)?),
    };
    let kind = match (record_kind(scan.target), columns.last()) {
        (Some(kind), _) => kind as u8,
        (None, Some(Value::Int(kind))) if scan.target == Target::Due => *kind as u8,
        _ => 0,
    };
    let found = match (scan.parts, record_kind(scan.target)) {
        (Some(mask), Some(kind)) => found(row, width + 2, kind.table(), mask)?,
        (Some(mask), None) if scan.target == Target::Feed => Some(found_in_feed(row, width + 1, mask)?),
        _ => None,
    };
    Ok(Entry { partition: PartitionId(home as u16), kind, place: Place { columns, key }, found })
}

fn found_in_feed(row: &Row, key: usize, mask: PartMask) -> Result<Found, Error> {
    let events: Option<&[u8]> = if mask.has(0) { row.try_get(key + 1)? } else { None };
    let parts = events.map(|events| (0, Bytes::copy_from_slice(events))).into_iter().collect();
    Ok(Found { revision: CommitId(row.try_get(key)?), parts })
}

/// A record from the columns revision and the parts of the mask; `None` if there was none to join.
pub fn found(row: &Row, first: usize, table: &Table, mask: PartMask) -> Result<Option<Found>, Error> {
    let Some(revision) = row.try_get::<_, Option<Uuid>>(first)? else { return Ok(None) };
    let mut parts = Vec::new();
    for (at, part) in parts_of(table, mask).enumerate() {
        if let Some(bytes) = row.try_get::<_, Option<&[u8]>>(first + 1 + at)? {
            parts.push((part, Bytes::copy_from_slice(bytes)));
        }
    }
    Ok(Some(Found { revision: CommitId(revision), parts }))
}

fn value(row: &Row, at: usize) -> Result<Value, Error> {
    Ok(match *row.columns()[at].type_() {
        Type::INT2 => Value::Int(row.try_get::<_, i16>(at)?.into()),
        Type::INT8 => Value::Int(row.try_get(at)?),
        Type::TEXT => Value::Text(row.try_get::<_, &str>(at)?.into()),
        _ => Value::bytes(row.try_get(at)?),
    })
}

#[cfg(test)]
mod tests;
