//! Walking over indexes, timers, records and the feed: one statement per range, no offset, always along an index.

use crate::sql::parts_of;
use crate::table::bind_value;
use bytes::Bytes;
use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, Connection, Error, Result, Row};
use std::cmp::Ordering;
use weft_core::schema::{PartMask, Value};
use weft_core::{CommitId, PartitionId};
use weft_store::{Entry, Found, Place, Range, Scan, Target};

/// What a target is in SQL.
struct Shape {
    table: &'static str,
    index: Option<&'static str>,
    when: Option<&'static str>,
    columns: Vec<&'static str>,
    key: &'static str,
}

fn shape(target: Target) -> Shape {
    let plain = |table, columns, key| Shape { table, index: None, when: None, columns, key };
    match target {
        Target::Due => plain("due", vec!["timer", "at", "kind"], "id"),
        Target::Feed => plain("feed", vec!["seq"], "commit_id"),
        Target::Records(kind) => plain(kind.table().name, Vec::new(), "id"),
        Target::Index(id) => {
            let index = id.get();
            let table = index.kind.table();
            let facet = |at: &usize| table.facets[*at].name;
            let columns: Vec<_> = index.facets.iter().map(facet).collect();
            // An index without facets is the order of the keys, which the primary key has.
            let own = (!columns.is_empty()).then_some(index.name);
            Shape { table: table.name, index: own, when: index.when.as_ref().map(facet), columns, key: "id" }
        }
    }
}

/// Which clauses a range needs; ranges that need the same ones share a statement.
struct Clauses {
    prefix: usize,
    after: bool,
    until: bool,
    descending: bool,
    parts: Option<PartMask>,
}

/// Parameters: partition, prefix, the place to go on after without its prefix, until, limit.
fn statement(target: Target, clauses: &Clauses) -> String {
    let Shape { table, index, when, columns, key } = shape(target);
    let (prefix, rest) = columns.split_at(clauses.prefix);
    let tail: Vec<&str> = rest.iter().copied().chain([key]).collect();
    let (beyond, direction) = if clauses.descending { ("<", " desc") } else { (">", "") };

    let selected: Vec<String> =
        columns.iter().chain([&key]).map(|column| (*column).to_owned()).chain(found_columns(target, clauses)).collect();
    let mut sql = format!("select {} from {table}", selected.join(", "));
    if let Some(index) = index {
        // Not a hint: the statement cannot be prepared if the index does not serve it.
        sql += &format!(" indexed by {index}");
    }
    sql += " where partition = ?";
    for column in prefix {
        sql += &format!(" and {column} = ?");
    }
    if clauses.after {
        sql += &format!(" and ({}) {beyond} ({})", tail.join(", "), vec!["?"; tail.len()].join(", "));
    }
    if clauses.until {
        sql += &format!(" and {} <= ?", tail[0]);
    }
    if let Some(when) = when {
        sql += &format!(" and {when} is not null");
    }
    let order: Vec<String> = tail.iter().map(|column| format!("{column}{direction}")).collect();
    sql + &format!(" order by {} limit ?", order.join(", "))
}

/// Revision, large, parts: what `found` reads behind the columns of the place.
fn found_columns(target: Target, clauses: &Clauses) -> Vec<String> {
    let (Some(mask), target) = (clauses.parts, target) else { return Vec::new() };
    let kind = match target {
        Target::Due => return Vec::new(),
        Target::Feed if mask.has(0) => return ["commit_id", "0", "events"].map(str::to_owned).into(),
        Target::Feed => return ["commit_id", "0"].map(str::to_owned).into(),
        Target::Records(kind) => kind,
        Target::Index(index) => index.get().kind,
    };
    let parts = parts_of(kind.table(), mask).map(|part| kind.table().parts[usize::from(part)]);
    ["revision", "large"].into_iter().chain(parts).map(str::to_owned).collect()
}

/// The first `limit` entries of a range in one partition.
pub fn entries(
    connection: &Connection,
    partition: PartitionId,
    scan: &Scan,
    range: &Range,
    limit: usize,
) -> Result<Vec<Entry>> {
    let after = match narrow(range, scan.descending) {
        Ok(after) => after,
        Err(Empty) => return Ok(Vec::new()),
    };
    let columns = scan.target.columns();
    let until = range.until.as_ref().filter(|_| range.prefix.len() < columns);
    let clauses = Clauses {
        prefix: range.prefix.len(),
        after: after.is_some(),
        until: until.is_some(),
        descending: scan.descending,
        parts: scan.parts.filter(|_| scan.target != Target::Due),
    };
    let mut statement = connection.prepare_cached(&statement(scan.target, &clauses))?;
    bind(&mut statement, partition, range, after, until, limit)?;
    let mut rows = statement.raw_query();
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(entry(connection, partition, scan.target, clauses.parts, row)?);
    }
    Ok(entries)
}

fn bind(
    statement: &mut CachedStatement<'_>,
    partition: PartitionId,
    range: &Range,
    after: Option<&Place>,
    until: Option<&Value>,
    limit: usize,
) -> Result<()> {
    statement.raw_bind_parameter(1, partition.0)?;
    let mut at = 2;
    for value in range.prefix.iter().chain(after.into_iter().flat_map(|after| &after.columns[range.prefix.len()..])) {
        bind_value(statement, at, value)?;
        at += 1;
    }
    if let Some(after) = after {
        statement.raw_bind_parameter(at, after.key.as_ref())?;
        at += 1;
    }
    if let Some(until) = until {
        bind_value(statement, at, until)?;
        at += 1;
    }
    statement.raw_bind_parameter(at, i64::try_from(limit).unwrap_or(i64::MAX))
}

/// No entry can be in the range.
struct Empty;

/// The place to go on after, if it lies within the prefix. One before it changes nothing; beyond it nothing is left.
fn narrow(range: &Range, descending: bool) -> std::result::Result<Option<&Place>, Empty> {
    let Some(after) = &range.after else { return Ok(None) };
    let order = after.columns[..range.prefix.len()].cmp(&range.prefix);
    match if descending { order.reverse() } else { order } {
        Ordering::Less => Ok(None),
        Ordering::Equal => Ok(Some(after)),
        Ordering::Greater => Err(Empty),
    }
}

fn entry(
    connection: &Connection,
    partition: PartitionId,
    target: Target,
    parts: Option<PartMask>,
    row: &Row<'_>,
) -> Result<Entry> {
    let width = target.columns();
    let columns: Vec<Value> = (0..width).map(|at| value(row, at)).collect::<Result<_>>()?;
    let key = Bytes::copy_from_slice(row.get_ref(width)?.as_blob()?);
    let kind = match (target, columns.last()) {
        (Target::Index(index), _) => index.get().kind as u8,
        (Target::Records(kind), _) => kind as u8,
        (Target::Due, Some(Value::Int(kind))) => *kind as u8,
        (Target::Due | Target::Feed, _) => 0,
    };
    let found = match (parts, target) {
        (Some(mask), Target::Feed) => Some(found_in_feed(row, width + 1, mask)?),
        (Some(mask), _) => Some(found(connection, (partition, kind, &key), mask, row, width + 1)?),
        (None, _) => None,
    };
    Ok(Entry { partition, kind, place: Place { columns, key }, found })
}

fn found_in_feed(row: &Row<'_>, first: usize, mask: PartMask) -> Result<Found> {
    let events = if mask.has(0) { row.get_ref(first + 2)?.as_blob_or_null()? } else { None };
    let parts = events.map(|events| (0, Bytes::copy_from_slice(events))).into_iter().collect();
    Ok(Found { revision: revision(row, first)?, parts })
}

/// A record from the columns revision, large and the parts of the mask. Large parts are fetched from beside the row.
pub fn found(
    connection: &Connection,
    (partition, kind, id): (PartitionId, u8, &[u8]),
    mask: PartMask,
    row: &Row<'_>,
    first: usize,
) -> Result<Found> {
    let table = weft_core::schema::Kind::from_u8(kind).ok_or(Error::InvalidQuery)?.table();
    let large = PartMask(row.get(first + 1)?);
    let mut parts = Vec::new();
    for (at, part) in parts_of(table, mask).enumerate() {
        if large.has(part) {
            let mut read = connection.prepare_cached(crate::sql::LARGE_READ)?;
            let bytes: Vec<u8> = read.query_row((partition.0, id, kind, part), |row| row.get(0))?;
            parts.push((part, Bytes::from(bytes)));
        } else if let Some(bytes) = row.get_ref(first + 2 + at)?.as_blob_or_null()? {
            parts.push((part, Bytes::copy_from_slice(bytes)));
        }
    }
    Ok(Found { revision: revision(row, first)?, parts })
}

fn revision(row: &Row<'_>, at: usize) -> Result<CommitId> {
    Ok(CommitId(uuid::Uuid::from_bytes(row.get(at)?)))
}

fn value(row: &Row<'_>, at: usize) -> Result<Value> {
    let found = row.get_ref(at)?;
    Ok(match found {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Text(_) => Value::Text(found.as_str()?.into()),
        ValueRef::Blob(bytes) => Value::bytes(bytes),
        ValueRef::Real(_) => return Err(Error::InvalidColumnType(at, "facet".into(), found.data_type())),
    })
}

#[cfg(test)]
mod tests;
