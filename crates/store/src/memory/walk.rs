//! Turns a range of a scan into the bounds of an ordered map, and cuts pages out of it.

use crate::{Place, Range};
use bytes::Bytes;
use std::ops::Bound;
use std::sync::Arc;
use weft_core::schema::Value;

pub(super) type Bounds<T> = (Bound<T>, Bound<T>);

/// The bounds of `range` among places; `None` if nothing can lie between them.
pub(super) fn places(range: &Range, descending: bool) -> Option<Bounds<Place>> {
    let low = Bound::Included(Place { columns: range.prefix.clone(), key: Bytes::new() });
    let high = match &range.until {
        Some(until) => above(range.prefix.iter().chain([until])),
        None => above(range.prefix.iter()),
    };
    let after = range.after.clone().map(Bound::Excluded);
    let bounds = if descending {
        // Going down from `after`, but never from above the end of the range.
        (low, after.filter(|after| is_below(after, &high)).unwrap_or(high))
    } else {
        (after.filter(|after| is_below(&low, after)).unwrap_or(low), high)
    };
    not_empty(&bounds).then_some(bounds)
}

/// The bounds of `range` among the keys of records, which have no columns.
pub(super) fn keys(range: &Range, descending: bool) -> Option<Bounds<Bytes>> {
    if !range.prefix.is_empty() {
        return None;
    }
    let after = range.after.as_ref().map_or(Bound::Unbounded, |after| Bound::Excluded(after.key.clone()));
    Some(if descending { (Bound::Unbounded, after) } else { (after, Bound::Unbounded) })
}

/// The first entries of a walk, and whether there are others.
pub(super) fn page<I: DoubleEndedIterator>(entries: I, limit: usize, descending: bool) -> (Vec<I::Item>, bool) {
    fn take<T>(mut entries: impl Iterator<Item = T>, limit: usize) -> (Vec<T>, bool) {
        let taken = entries.by_ref().take(limit).collect();
        (taken, entries.next().is_some())
    }
    if descending { take(entries.rev(), limit) } else { take(entries, limit) }
}

/// Just above every place whose columns begin with these.
fn above<'a>(columns: impl Iterator<Item = &'a Value>) -> Bound<Place> {
    let mut columns: Vec<Value> = columns.cloned().collect();
    match columns.pop() {
        Some(last) => {
            columns.push(next(&last));
            Bound::Excluded(Place { columns, key: Bytes::new() })
        }
        None => Bound::Unbounded,
    }
}

/// The smallest value that is greater.
fn next(value: &Value) -> Value {
    match value {
        Value::Null => Value::Int(i64::MIN),
        Value::Int(number) => number.checked_add(1).map_or_else(|| Value::Text(Arc::from("")), Value::Int),
        Value::Text(text) => Value::Text(Arc::from(format!("{text}\0"))),
        Value::Bytes(bytes) => Value::bytes(&[bytes, &[0][..]].concat()),
    }
}

fn is_below(low: &Bound<Place>, high: &Bound<Place>) -> bool {
    match (place_of(low), place_of(high)) {
        (Some(low), Some(high)) => low < high,
        _ => true,
    }
}

/// An ordered map panics on bounds that are the wrong way round.
fn not_empty(bounds: &Bounds<Place>) -> bool {
    is_below(&bounds.0, &bounds.1)
}

fn place_of(bound: &Bound<Place>) -> Option<&Place> {
    match bound {
        Bound::Included(place) | Bound::Excluded(place) => Some(place),
        Bound::Unbounded => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_fits_between_a_value_and_the_next() {
        let ascending = [
            Value::Null,
            Value::Int(i64::MIN),
            Value::Int(-1),
            Value::Int(0),
            Value::Int(i64::MAX),
            Value::Text(Arc::from("")),
            Value::Text(Arc::from("\0")),
            Value::Text(Arc::from("a")),
            Value::Text(Arc::from("a\0")),
            Value::Text(Arc::from("a\u{1}")),
            Value::bytes(&[]),
            Value::bytes(&[0]),
            Value::bytes(&[0xff]),
            Value::bytes(&[0xff, 0]),
        ];
        for pair in ascending.windows(2) {
            assert!(pair[0] < pair[1] && next(&pair[0]) <= pair[1], "{pair:?}");
        }
    }
}
