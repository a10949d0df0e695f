//! Places as bytes whose order is the order of the places, and ranges of a scan as bounds among such bytes.
//!
//! A column is encoded so that it ends by itself: an integer as eight bytes, text and bytes with an end mark and with
//! their NULs escaped. The key follows as it is. So a prefix of columns is a prefix of bytes, and nothing else is.

use bytes::Bytes;
use std::sync::Arc;
use weft_core::schema::{IndexId, Type, Value};
use weft_store::{Place, Range, Target};

/// Stands for a NUL inside a value; greater than `END`, so that a value comes after its own beginnings.
const ESCAPED: u8 = 0xff;
const END: u8 = 0x01;
const SIGN: u64 = 1 << 63;

/// A column of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    ty: Type,
    nullable: bool,
}

/// The columns of a target; none for records, and the feed has none of its own either.
pub fn columns(target: Target) -> Vec<Column> {
    match target {
        Target::Index(index) => index_columns(index),
        Target::Due => vec![Column { ty: Type::Int, nullable: false }; 3],
        Target::Records(_) | Target::Feed => Vec::new(),
    }
}

fn index_columns(index: IndexId) -> Vec<Column> {
    let index = index.get();
    let facets = index.kind.table().facets;
    let column = |at: &usize| Column { ty: facets[*at].ty, nullable: facets[*at].nullable && index.when != Some(*at) };
    index.facets.iter().map(column).collect()
}

/// Appends a value of a column; false if the column can have no such value.
pub fn encode(column: Column, value: &Value, out: &mut Vec<u8>) -> bool {
    if column.nullable {
        out.push(u8::from(!value.is_null()));
    }
    match (column.ty, value) {
        (_, Value::Null) => return column.nullable,
        (Type::Int, Value::Int(number)) => out.extend_from_slice(&(*number as u64 ^ SIGN).to_be_bytes()),
        (Type::Text, Value::Text(text)) => escape(text.as_bytes(), out),
        (Type::Bytes, Value::Bytes(bytes)) => escape(bytes, out),
        _ => return false,
    }
    true
}

fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        out.push(*byte);
        if *byte == 0 {
            out.push(ESCAPED);
        }
    }
    out.extend_from_slice(&[0, END]);
}

fn encode_all<'a>(columns: &[Column], values: impl Iterator<Item = &'a Value>, out: &mut Vec<u8>) -> bool {
    columns.iter().zip(values).all(|(column, value)| encode(*column, value, out))
}

/// The member of a place; `None` if a column can have no such value.
pub fn member<'a>(columns: &[Column], values: impl Iterator<Item = &'a Value>, key: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(columns.len() * 10 + key.len());
    encode_all(columns, values, &mut bytes).then(|| {
        bytes.extend_from_slice(key);
        bytes
    })
}

/// The place of a member; `None` for bytes that no place encodes to.
pub fn place(columns: &[Column], member: &[u8]) -> Option<Place> {
    let mut rest = member;
    let values: Option<Vec<Value>> = columns.iter().map(|column| decode(*column, &mut rest)).collect();
    Some(Place { columns: values?, key: Bytes::copy_from_slice(rest) })
}

fn decode(column: Column, rest: &mut &[u8]) -> Option<Value> {
    if column.nullable {
        let (mark, more) = rest.split_first()?;
        *rest = more;
        if *mark == 0 {
            return Some(Value::Null);
        }
    }
    Some(match column.ty {
        Type::Int => {
            let (number, more) = rest.split_first_chunk::<8>()?;
            *rest = more;
            Value::Int((u64::from_be_bytes(*number) ^ SIGN) as i64)
        }
        Type::Text => Value::Text(Arc::from(String::from_utf8(unescape(rest)?).ok()?)),
        Type::Bytes => Value::Bytes(Bytes::from(unescape(rest)?)),
    })
}

fn unescape(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let nul = rest.iter().position(|byte| *byte == 0)?;
        bytes.extend_from_slice(&rest[..nul]);
        let mark = *rest.get(nul + 1)?;
        *rest = &rest[nul + 2..];
        match mark {
            END => return Some(bytes),
            ESCAPED => bytes.push(0),
            _ => return None,
        }
    }
}

/// One end of a walk, as `ZRANGE … BYLEX` takes it.
pub type Bound = Vec<u8>;

/// The lower and the upper end of a range; `None` if nothing can lie between them.
pub fn bounds(columns: &[Column], range: &Range, descending: bool) -> Option<(Bound, Bound)> {
    let mut low = Vec::new();
    if !encode_all(columns, range.prefix.iter(), &mut low) {
        return None;
    }
    let mut last = low.clone();
    if let (Some(until), Some(column)) = (&range.until, columns.get(range.prefix.len()))
        && !encode(*column, until, &mut last)
    {
        return None;
    }
    let high = beyond(last);
    let after = match &range.after {
        Some(place) => Some(member(columns, place.columns.iter(), &place.key)?),
        None => None,
    };
    Some(match after {
        Some(after) if descending && high.as_ref().is_none_or(|high| after < *high) => {
            (inclusive(low), marked(b'(', &after))
        }
        Some(after) if !descending && after >= low => (marked(b'(', &after), exclusive(high)),
        _ => (inclusive(low), exclusive(high)),
    })
}

/// The smallest bytes that are greater than everything that begins with these; `None` if there are none.
fn beyond(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = bytes.pop() {
        if last < 0xff {
            bytes.push(last + 1);
            return Some(bytes);
        }
    }
    None
}

fn inclusive(low: Vec<u8>) -> Bound {
    if low.is_empty() { b"-".to_vec() } else { marked(b'[', &low) }
}

fn exclusive(high: Option<Vec<u8>>) -> Bound {
    high.map_or_else(|| b"+".to_vec(), |high| marked(b'(', &high))
}

fn marked(mark: u8, bytes: &[u8]) -> Bound {
    let mut bound = Vec::with_capacity(bytes.len() + 1);
    bound.push(mark);
    bound.extend_from_slice(bytes);
    bound
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(ty: Type, nullable: bool) -> BoxedStrategy<Value> {
        let some = match ty {
            Type::Int => prop_oneof![any::<i64>(), -3i64..3].prop_map(Value::Int).boxed(),
            Type::Text => "[\\x00\\x01a-c\\u{ff}é]{0,4}".prop_map(|text| Value::Text(text.into())).boxed(),
            Type::Bytes => {
                let byte = prop_oneof![Just(0u8), Just(1), Just(0xff), any::<u8>()];
                prop::collection::vec(byte, 0..5).prop_map(|bytes| Value::Bytes(bytes.into())).boxed()
            }
        };
        if nullable { prop_oneof![Just(Value::Null), some].boxed() } else { some }
    }

    /// Some columns, and two places in them that often share their beginning.
    fn places() -> impl Strategy<Value = (Vec<Column>, Place, Place)> {
        let ty = prop_oneof![Just(Type::Int), Just(Type::Text), Just(Type::Bytes)];
        let column = (ty, any::<bool>()).prop_map(|(ty, nullable)| Column { ty, nullable });
        prop::collection::vec(column, 0..4).prop_flat_map(|columns| {
            let row = || columns.iter().map(|column| value(column.ty, column.nullable)).collect::<Vec<_>>();
            let key = || prop::collection::vec(any::<u8>(), 0..3);
            (Just(columns.clone()), row(), row(), 0..=columns.len(), key(), key()).prop_map(
                |(columns, first, mut second, shared, key, other)| {
                    second[..shared].clone_from_slice(&first[..shared]);
                    let place = |columns, key: Vec<u8>| Place { columns, key: key.into() };
                    (columns, place(first, key), place(second, other))
                },
            )
        })
    }

    fn encoded(columns: &[Column], place: &Place) -> Vec<u8> {
        member(columns, place.columns.iter(), &place.key).unwrap()
    }

    /// Whether the server would find the member between the bounds.
    fn between(bounds: &(Bound, Bound), member: &[u8]) -> bool {
        let above = match bounds.0.split_first().unwrap() {
            (b'-', _) => true,
            (b'[', low) => member >= low,
            (_, low) => member > low,
        };
        let below = match bounds.1.split_first().unwrap() {
            (b'+', _) => true,
            (b'[', high) => member <= high,
            (_, high) => member < high,
        };
        above && below
    }

    proptest! {
        #[test]
        fn rl_22_the_order_of_members_is_the_order_of_places((columns, a, b) in places()) {
            prop_assert_eq!(a.cmp(&b), encoded(&columns, &a).cmp(&encoded(&columns, &b)));
            prop_assert_eq!(place(&columns, &encoded(&columns, &a)), Some(a));
        }

        #[test]
        fn a_range_finds_what_its_definition_says((columns, entry, other) in places(), depth in 0..4usize,
            with_after: bool, with_until: bool, descending: bool) {
            let depth = depth.min(columns.len());
            let mut after = other.clone();
            after.columns[..depth].clone_from_slice(&entry.columns[..depth]);
            let range = Range {
                prefix: entry.columns[..depth].to_vec(),
                until: other.columns.get(depth).filter(|_| with_until).cloned(),
                after: with_after.then(|| after.clone()),
            };
            let wanted = |place: &Place| {
                let beyond = if descending { *place < after } else { *place > after };
                place.columns[..depth] == range.prefix
                    && range.until.as_ref().is_none_or(|until| place.columns[depth] <= *until)
                    && (!with_after || beyond)
            };
            let bounds = bounds(&columns, &range, descending).unwrap();
            for place in [&entry, &other, &after] {
                prop_assert_eq!(between(&bounds, &encoded(&columns, place)), wanted(place), "{:?} {:?}", range, place);
            }
        }
    }

    #[test]
    fn damaged_members_are_no_places() {
        let columns = columns(Target::Index(IndexId::ByState));
        for member in [&b""[..], b"a", b"a\0", b"a\0\x01", b"a\0\x02b\0\x01", b"\xff\0\x01b\0\x01\0\0\0\0\0\0\0\0k"] {
            assert_eq!(place(&columns, member), None, "{member:?}");
        }
    }
}
