//! Writing the records of one kind: prepared statements, one per set of changed columns, made when first needed.
//!
//! The usual write is one statement. Only a write that meets a large part, or a row that is not as announced, takes more.

use crate::ddl::LARGE_BYTES;
use crate::sql;
use bytes::Bytes;
use rusqlite::{Connection, ErrorCode, Result, Statement};
use std::collections::BTreeMap;
use weft_core::change::Body;
use weft_core::schema::{Kind, PartMask, Table, Value};

/// Which row, and which commit writes it.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    pub partition: u16,
    pub id: &'a [u8],
    pub revision: &'a [u8; 16],
}

/// Facets that an update writes, one bit each.
type Moved = u32;

/// Statements that are kept for updates of one kind. What is done every day needs a few dozen.
const UPDATES_MAX: usize = 256;

pub struct Records<'c> {
    connection: &'c Connection,
    table: &'static Table,
    insert: Statement<'c>,
    insert_rows: Statement<'c>,
    delete_small: Statement<'c>,
    delete: Statement<'c>,
    stamp: Statement<'c>,
    updates: BTreeMap<(Moved, u16), Statement<'c>>,
    updates_large: BTreeMap<u16, Statement<'c>>,
    large: LargeParts<'c>,
}

impl<'c> Records<'c> {
    pub fn new(connection: &'c Connection, kind: Kind) -> Result<Self> {
        let table = kind.table();
        Ok(Self {
            connection,
            table,
            insert: connection.prepare(&sql::insert(table, 1))?,
            insert_rows: connection.prepare(&sql::insert(table, sql::ROWS))?,
            delete_small: connection.prepare(&sql::delete_small(table))?,
            delete: connection.prepare(&sql::delete(table))?,
            stamp: connection.prepare(&sql::stamp(table))?,
            updates: BTreeMap::new(),
            updates_large: BTreeMap::new(),
            large: LargeParts::new(connection, kind)?,
        })
    }

    /// The commit that wrote the row last, if there is a row.
    pub fn revision(&mut self, partition: u16, id: &[u8]) -> Result<Option<[u8; 16]>> {
        let mut rows = self.stamp.query((partition, id))?;
        rows.next()?.map(|row| row.get(0)).transpose()
    }

    /// Writes whole rows. Those that are there already are replaced with all their parts.
    pub fn insert_all(&mut self, rows: &[(Row<'_>, &Body)]) -> Result<()> {
        let (many, few) = rows.as_chunks::<{ sql::ROWS }>();
        for rows in many {
            let small = rows.iter().all(|(_, body)| large_of(body).is_empty());
            if !small || !self.insert_together(rows)? {
                rows.iter().try_for_each(|(row, body)| self.insert(*row, body))?;
            }
        }
        few.iter().try_for_each(|(row, body)| self.insert(*row, body))
    }

    /// False if a row was there already: then each has to be looked at.
    fn insert_together(&mut self, rows: &[(Row<'_>, &Body); sql::ROWS]) -> Result<bool> {
        let columns = 4 + self.table.facets.len() + self.table.parts.len();
        for (at, (row, body)) in rows.iter().enumerate() {
            bind_insert(&mut self.insert_rows, at * columns, self.table, *row, body, PartMask::NONE)?;
        }
        match self.insert_rows.raw_execute() {
            Ok(_) => Ok(true),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes a whole row. One that is there already is replaced with all its parts.
    fn insert(&mut self, row: Row<'_>, body: &Body) -> Result<()> {
        match self.insert_fresh(row, body) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                self.delete(row.partition, row.id)?;
                self.insert_fresh(row, body)
            }
            done => done,
        }
    }

    fn insert_fresh(&mut self, row: Row<'_>, body: &Body) -> Result<()> {
        let large = large_of(body);
        bind_insert(&mut self.insert, 0, self.table, row, body, large)?;
        self.insert.raw_execute()?;
        if large.is_empty() { Ok(()) } else { self.large.put(row, body, large) }
    }

    /// Writes the facets that differ from `old` and the parts in `body`; all facets that move if `old` is not known. A row
    /// that is not there is inserted.
    pub fn update(&mut self, row: Row<'_>, old: &[Value], body: &Body) -> Result<()> {
        let mask = body.parts.iter().fold(PartMask::NONE, |mask, (part, _)| mask.with(PartMask::of(*part)));
        if !large_of(body).is_empty() {
            return self.update_large(row, body, mask);
        }
        let mut moved = moved(self.table, old, body);
        if self.updates.len() >= UPDATES_MAX && !self.updates.contains_key(&(moved, mask.0)) {
            moved = moving(self.table);
        }
        let statement = match self.updates.entry((moved, mask.0)) {
            std::collections::btree_map::Entry::Occupied(found) => found.into_mut(),
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(self.connection.prepare(&sql::update(self.table, moved, mask))?)
            }
        };
        bind_row(statement, 0, row)?;
        bind_changes(statement, 4, body, moved, mask, PartMask::NONE)?;
        match statement.raw_execute()? {
            0 => self.update_large(row, body, mask),
            _ => Ok(()),
        }
    }

    /// An update in which a part is large, was large, or whose row is absent.
    fn update_large(&mut self, row: Row<'_>, body: &Body, mask: PartMask) -> Result<()> {
        let Some(before) = self.large_before(row)? else { return self.insert_fresh(row, body) };
        let large = large_of(body);
        self.large.drop_parts(row, before.without(large), mask)?;
        self.large.put(row, body, large)?;
        let statement = match self.updates_large.entry(mask.0) {
            std::collections::btree_map::Entry::Occupied(found) => found.into_mut(),
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(self.connection.prepare(&sql::update_large(self.table, moving(self.table), mask))?)
            }
        };
        bind_row(statement, 0, row)?;
        statement.raw_bind_parameter(4, before.without(mask).with(large).0)?;
        bind_changes(statement, 5, body, moving(self.table), mask, large)?;
        statement.raw_execute()?;
        Ok(())
    }

    fn large_before(&mut self, row: Row<'_>) -> Result<Option<PartMask>> {
        let mut rows = self.stamp.query((row.partition, row.id))?;
        rows.next()?.map(|row| row.get(1).map(PartMask)).transpose()
    }

    /// Removes the row with all its parts, if there is one.
    pub fn delete(&mut self, partition: u16, id: &[u8]) -> Result<()> {
        if self.delete_small.execute((partition, id))? == 0 && self.delete.execute((partition, id))? > 0 {
            self.large.drop_all(partition, id)?;
        }
        Ok(())
    }
}

/// The side table, as one kind of record uses it.
struct LargeParts<'c> {
    kind: u8,
    put: Statement<'c>,
    drop: Statement<'c>,
    drop_all: Statement<'c>,
}

impl<'c> LargeParts<'c> {
    fn new(connection: &'c Connection, kind: Kind) -> Result<Self> {
        Ok(Self {
            kind: kind as u8,
            put: connection.prepare(sql::LARGE_PUT)?,
            drop: connection.prepare(sql::LARGE_DROP)?,
            drop_all: connection.prepare(sql::LARGE_DROP_ALL)?,
        })
    }

    fn put(&mut self, row: Row<'_>, body: &Body, large: PartMask) -> Result<()> {
        for (part, bytes) in &body.parts {
            if let Some(bytes) = bytes.as_ref().filter(|_| large.has(*part)) {
                self.put.execute((row.partition, row.id, self.kind, part, bytes.as_ref()))?;
            }
        }
        Ok(())
    }

    /// Drops the parts that are written and were large.
    fn drop_parts(&mut self, row: Row<'_>, large: PartMask, written: PartMask) -> Result<()> {
        for part in (0..16).filter(|part| large.has(*part) && written.has(*part)) {
            self.drop.execute((row.partition, row.id, self.kind, part))?;
        }
        Ok(())
    }

    fn drop_all(&mut self, partition: u16, id: &[u8]) -> Result<()> {
        self.drop_all.execute((partition, id, self.kind)).map(drop)
    }
}

fn large_of(body: &Body) -> PartMask {
    let is_large = |bytes: &Option<Bytes>| bytes.as_ref().is_some_and(|bytes| bytes.len() > LARGE_BYTES);
    let large = body.parts.iter().filter(|(_, bytes)| is_large(bytes));
    large.fold(PartMask::NONE, |mask, (part, _)| mask.with(PartMask::of(*part)))
}

/// Binds the first three parameters after `skip`.
fn bind_row(statement: &mut Statement<'_>, skip: usize, row: Row<'_>) -> Result<()> {
    statement.raw_bind_parameter(skip + 1, row.partition)?;
    statement.raw_bind_parameter(skip + 2, row.id)?;
    statement.raw_bind_parameter(skip + 3, &row.revision[..])
}

/// Binds the parameters of one inserted row after `skip` others; parts in `large` as null.
fn bind_insert(
    statement: &mut Statement<'_>,
    skip: usize,
    table: &Table,
    row: Row<'_>,
    body: &Body,
    large: PartMask,
) -> Result<()> {
    bind_row(statement, skip, row)?;
    statement.raw_bind_parameter(skip + 4, large.0)?;
    for (at, value) in body.facets.iter().enumerate() {
        bind_value(statement, skip + 5 + at, value)?;
    }
    let first = skip + 5 + table.facets.len();
    for part in 0..table.parts.len() {
        let bytes = body.parts.iter().find(|(number, _)| usize::from(*number) == part);
        let inline = bytes.and_then(|(number, bytes)| bytes.as_ref().filter(|_| !large.has(*number)));
        bind_bytes(statement, first + part, inline)?;
    }
    Ok(())
}

/// The facets that can change.
fn moving(table: &Table) -> Moved {
    let moves = table.facets.iter().enumerate().filter(|(_, facet)| !facet.fixed);
    moves.fold(0, |moved, (at, _)| moved | 1 << at)
}

/// The facets that do change: naming any other would rewrite its entries in every index for nothing.
fn moved(table: &Table, old: &[Value], body: &Body) -> Moved {
    if old.len() != body.facets.len() {
        return moving(table);
    }
    let pairs = table.facets.iter().zip(old.iter().zip(&body.facets)).enumerate();
    pairs.filter(|(_, (facet, (old, new)))| !facet.fixed && old != new).fold(0, |moved, (at, _)| moved | 1 << at)
}

/// Binds the facets that move and the parts of the mask from parameter `first` on; parts in `large` as null.
fn bind_changes(
    statement: &mut Statement<'_>,
    first: usize,
    body: &Body,
    moved: Moved,
    mask: PartMask,
    large: PartMask,
) -> Result<()> {
    let mut at = first;
    for (_, value) in body.facets.iter().enumerate().filter(|(facet, _)| moved >> facet & 1 == 1) {
        bind_value(statement, at, value)?;
        at += 1;
    }
    for (part, bytes) in &body.parts {
        let below = (mask.0 & ((1 << part) - 1)).count_ones() as usize;
        bind_bytes(statement, at + below, bytes.as_ref().filter(|_| !large.has(*part)))?;
    }
    Ok(())
}

fn bind_bytes(statement: &mut Statement<'_>, at: usize, bytes: Option<&Bytes>) -> Result<()> {
    statement.raw_bind_parameter(at, bytes.map(Bytes::as_ref))
}

pub fn bind_value(statement: &mut Statement<'_>, at: usize, value: &Value) -> Result<()> {
    match value {
        Value::Null => statement.raw_bind_parameter(at, rusqlite::types::Null),
        Value::Int(number) => statement.raw_bind_parameter(at, number),
        Value::Text(text) => statement.raw_bind_parameter(at, &**text),
        Value::Bytes(bytes) => statement.raw_bind_parameter(at, bytes.as_ref()),
    }
}
