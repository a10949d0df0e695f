//! Reading records: one `MGET` of the head and all parts, which is as of one moment.

use crate::batch;
use crate::keys::PartitionKeys;
use bytes::Bytes;
use redis::{Cmd, RedisWrite, Value};
use weft_core::PartitionId;
use weft_core::record::Key;
use weft_core::schema::{Kind, PartMask};
use weft_store::{Error, Found, Read};

/// The numbers of the parts after the first that a mask asks of a kind.
pub fn other_parts(kind: Kind, mask: PartMask) -> impl Iterator<Item = u8> {
    (1..kind.table().parts.len() as u8).filter(move |part| mask.has(*part))
}

/// Appends the names of what a record with these parts is read from: always part 0, because it has the revision.
pub fn write_names(names: &PartitionKeys, kind: Kind, key: &[u8], mask: PartMask, command: &mut Cmd) {
    let mut name = Vec::new();
    for part in std::iter::once(0).chain(other_parts(kind, mask)) {
        name.clear();
        names.write_part_of(kind as u8, key, part, &mut name);
        command.write_arg(&name);
    }
}

/// Puts a record together out of the values under its names, in the order of `write_names`.
pub fn found(kind: Kind, mask: PartMask, values: &mut impl Iterator<Item = Value>) -> Result<Option<Found>, Error> {
    let first = values.next();
    let others: Vec<(u8, Option<Value>)> = other_parts(kind, mask).map(|part| (part, values.next())).collect();
    let first = match first {
        Some(Value::BulkString(bytes)) => Bytes::from(bytes),
        Some(Value::Nil) => return Ok(None),
        _ => return Err(unexpected()),
    };
    let damaged = || Error::refused("a stored record has no revision where it should be");
    let (revision, part) = batch::first_part(&first).ok_or_else(damaged)?;
    let mut parts = Vec::new();
    if let Some(part) = part.filter(|_| mask.has(0)) {
        parts.push((0, first.slice_ref(part)));
    }
    for (part, value) in others {
        match value {
            Some(Value::BulkString(bytes)) => parts.push((part, Bytes::from(bytes))),
            Some(Value::Nil) => {}
            _ => return Err(unexpected()),
        }
    }
    Ok(Some(Found { revision, parts }))
}

pub fn unexpected() -> Error {
    Error::refused("the server answered something else than was asked for")
}

pub fn command(names: &PartitionKeys, partition: PartitionId, keys: &[(Key, PartMask)]) -> Cmd {
    let mut command = Cmd::with_capacity(2 + keys.len() * 2, 64 + keys.len() * 96);
    command.arg("MGET").write_arg(&names.head());
    // Nothing of another partition is here; the same bytes would name another record.
    for (key, mask) in keys.iter().filter(|(key, _)| key.partition() == partition) {
        write_names(names, key.kind(), key.to_bytes().as_slice(), *mask, &mut command);
    }
    command
}

pub fn answer(partition: PartitionId, keys: &[(Key, PartMask)], reply: Value) -> Result<Read, Error> {
    let Value::Array(values) = reply else { return Err(unexpected()) };
    let mut values = values.into_iter();
    let head = batch::head(values.next().as_ref());
    let head = head.ok_or_else(|| Error::refused("the head of the partition is damaged"))?;
    let one = |(key, mask): &(Key, PartMask)| match key.partition() == partition {
        true => found(key.kind(), *mask, &mut values),
        false => Ok(None),
    };
    Ok(Read { head, found: keys.iter().map(one).collect::<Result<_, _>>()? })
}
