//! The parameters of a statement, written into its message straight from the batch: no column is gathered first.

use crate::sort::{DueRow, Row, Seen};
use bytes::{BufMut, BytesMut};
use std::error::Error;
use tokio_postgres::types::{IsNull, ToSql, Type};
use uuid::Uuid;
use weft_core::record::KeyBytes;
use weft_core::schema::Value;

/// One parameter.
#[derive(Clone, Copy, Debug)]
pub enum Param<'a> {
    Int2(i16),
    Int8(Option<i64>),
    Uuid(Uuid),
    Text(&'a str),
    Bytes(Option<&'a [u8]>),
    /// A value of a facet.
    Value(&'a Value),
    Keys(&'a [KeyBytes]),
    Ints(&'a [i64]),
    /// The same bytes in so many rows.
    Same(&'a [u8], usize),
    Ids(&'a [Row<'a>]),
    Facet(&'a [Row<'a>], usize),
    Part(&'a [Row<'a>], u8),
    SeenIds(&'a [Seen]),
    SeenRevisions(&'a [Seen]),
    DueTimers(&'a [DueRow<'a>]),
    DueTimes(&'a [DueRow<'a>]),
    DueKinds(&'a [DueRow<'a>]),
    DueIds(&'a [DueRow<'a>]),
}

impl ToSql for Param<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match *self {
            Param::Int2(number) => out.put_i16(number),
            Param::Int8(Some(number)) => out.put_i64(number),
            Param::Int8(None) | Param::Bytes(None) => return Ok(IsNull::Yes),
            Param::Uuid(uuid) => out.put_slice(uuid.as_bytes()),
            Param::Text(text) => out.put_slice(text.as_bytes()),
            Param::Bytes(Some(bytes)) => out.put_slice(bytes),
            Param::Value(value) => return Ok(put_value(out, value)),
            Param::Keys(keys) => array(out, &Type::BYTEA, keys, |out, key| put_bytes(out, key.as_slice())),
            Param::Ints(numbers) => array(out, &Type::INT8, numbers, |out, number| put_i64(out, *number)),
            Param::Same(bytes, count) => array(out, &Type::BYTEA, &vec![(); count], |out, ()| put_bytes(out, bytes)),
            Param::Ids(rows) => array(out, &Type::BYTEA, rows, |out, row| put_bytes(out, row.id.as_slice())),
            Param::Facet(rows, at) => array(out, &element(ty), rows, |out, row| put_value(out, &row.facets[at])),
            Param::Part(rows, part) => array(out, &Type::BYTEA, rows, |out, row| put_part(out, row, part)),
            Param::SeenIds(seen) => array(out, &Type::BYTEA, seen, |out, seen| put_bytes(out, seen.id.as_slice())),
            Param::SeenRevisions(seen) => array(out, &Type::UUID, seen, |out, seen| match seen.revision {
                Some(revision) => put_bytes(out, revision.0.as_bytes()),
                None => IsNull::Yes,
            }),
            Param::DueTimers(rows) => array(out, &Type::INT2, rows, |out, row| put_i16(out, row.timer)),
            Param::DueTimes(rows) => array(out, &Type::INT8, rows, |out, row| put_i64(out, row.at)),
            Param::DueKinds(rows) => array(out, &Type::INT2, rows, |out, row| put_i16(out, row.kind)),
            Param::DueIds(rows) => array(out, &Type::BYTEA, rows, |out, row| put_bytes(out, row.id())),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        // The statements are ours and cast each parameter, so there is no second opinion to ask for.
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

/// The type of the elements of an array of facets.
fn element(ty: &Type) -> Type {
    match *ty {
        Type::INT8_ARRAY => Type::INT8,
        Type::TEXT_ARRAY => Type::TEXT,
        _ => Type::BYTEA,
    }
}

/// One dimension counted from 1: the layout in which the server reads an array.
fn array<T>(out: &mut BytesMut, element: &Type, items: &[T], mut put: impl FnMut(&mut BytesMut, &T) -> IsNull) {
    out.put_i32(1);
    let has_null = out.len();
    out.put_i32(0);
    out.put_u32(element.oid());
    out.put_i32(i32::try_from(items.len()).unwrap_or(i32::MAX));
    out.put_i32(1);
    for item in items {
        let len = out.len();
        out.put_i32(-1);
        match put(out, item) {
            IsNull::Yes => out[has_null..has_null + 4].copy_from_slice(&1_i32.to_be_bytes()),
            IsNull::No => {
                let size = i32::try_from(out.len() - len - 4).unwrap_or(i32::MAX);
                out[len..len + 4].copy_from_slice(&size.to_be_bytes());
            }
        }
    }
}

fn put_value(out: &mut BytesMut, value: &Value) -> IsNull {
    match value {
        Value::Null => return IsNull::Yes,
        Value::Int(number) => out.put_i64(*number),
        Value::Text(text) => out.put_slice(text.as_bytes()),
        Value::Bytes(bytes) => out.put_slice(bytes),
    }
    IsNull::No
}

fn put_part(out: &mut BytesMut, row: &Row<'_>, part: u8) -> IsNull {
    match row.parts.iter().find(|(number, _)| *number == part) {
        Some((_, Some(bytes))) => put_bytes(out, bytes),
        _ => IsNull::Yes,
    }
}

fn put_bytes(out: &mut BytesMut, bytes: &[u8]) -> IsNull {
    out.put_slice(bytes);
    IsNull::No
}

fn put_i16(out: &mut BytesMut, number: i16) -> IsNull {
    out.put_i16(number);
    IsNull::No
}

fn put_i64(out: &mut BytesMut, number: i64) -> IsNull {
    out.put_i64(number);
    IsNull::No
}
