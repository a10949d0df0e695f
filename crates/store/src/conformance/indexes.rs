//! Facets become index entries, in byte order.

use super::probe::{P0, Probe, delete, execution, insert, key_of, plain_facets, text};
use crate::{Entry, Place, Range, Store, Target};
use bytes::Bytes;
use weft_core::change::{Body, Change, Write};
use weft_core::record::Key;
use weft_core::schema::{Facet, IndexId, Kind, Type, Value, execution as facet};

/// A value for a facet that differs from the plain one and between `salt`s.
fn value(facet: &Facet, salt: i64) -> Value {
    match facet.ty {
        Type::Int => Value::Int(salt),
        Type::Text => text(&format!("{}-{salt}", facet.name)),
        Type::Bytes => Value::bytes(&salt.to_be_bytes()),
    }
}

fn place(index: IndexId, facets: &[Value], key: Key) -> Place {
    let columns = index.get().facets.iter().map(|at| facets[*at].clone()).collect();
    Place { columns, key: Bytes::copy_from_slice(key.to_bytes().as_slice()) }
}

fn write(key: Key, facets: &[Value], fresh: bool) -> Write {
    let body = Body { facets: facets.to_vec(), parts: vec![(0, Some(Bytes::from_static(b"x")))] };
    let what = if fresh { Change::Insert(body) } else { Change::Update { old: Vec::new(), body } };
    Write { key, what, due_add: Vec::new(), due_remove: Vec::new() }
}

async fn places<S: Store>(probe: &Probe<S>, index: IndexId) -> Vec<Place> {
    let entries = probe.list(P0, Target::Index(index)).await;
    let kind = index.get().kind as u8;
    assert!(
        entries.iter().all(|entry| entry.kind == kind && entry.partition == P0),
        "entries of {index:?} say whose they are"
    );
    entries.into_iter().map(|entry| entry.place).collect()
}

pub(super) async fn every_index_follows_its_facets<S: Store>(probe: &Probe<S>) {
    for index in IndexId::ALL {
        let table = index.get().kind.table();
        let key = key_of(index.get().kind, 5);
        let mut facets: Vec<Value> = table.facets.iter().map(|facet| value(facet, 1)).collect();
        probe.write(P0, vec![write(key, &facets, true)]).await;
        assert_eq!(places(probe, index).await, [place(index, &facets, key)], "{index:?} has the inserted record");

        for (facet, slot) in table.facets.iter().zip(&mut facets).filter(|(facet, _)| !facet.fixed) {
            *slot = value(facet, 2);
        }
        probe.write(P0, vec![write(key, &facets, false)]).await;
        assert_eq!(places(probe, index).await, [place(index, &facets, key)], "{index:?} moves with its facets");

        probe.write(P0, vec![delete(key)]).await;
        assert_eq!(places(probe, index).await, [], "{index:?} forgets a deleted record");
    }
}

pub(super) async fn an_entry_exists_if_its_facet_is_not_null<S: Store>(probe: &Probe<S>) {
    let conditional = IndexId::ALL.into_iter().filter_map(|index| index.get().when.map(|when| (index, when)));
    for (number, (index, when)) in conditional.enumerate() {
        let table = index.get().kind.table();
        let declared = &table.facets[when];
        let key = key_of(index.get().kind, 100 + number as u128);
        let mut facets = plain_facets(index.get().kind);
        probe.write(P0, vec![write(key, &facets, true)]).await;
        assert_eq!(places(probe, index).await, [], "{index:?} leaves out a record without `{}`", declared.name);
        if declared.fixed {
            probe.write(P0, vec![delete(key)]).await;
        }
        // What else the index names is null only where its condition is.
        for at in index.get().facets.iter().filter(|at| table.facets[**at].nullable) {
            facets[*at] = value(&table.facets[*at], 3);
        }
        probe.write(P0, vec![write(key, &facets, declared.fixed)]).await;
        let expected = [place(index, &facets, key)];
        assert_eq!(places(probe, index).await, expected, "{index:?} takes in a record with `{}`", declared.name);
        if !declared.fixed {
            facets[when] = Value::Null;
            probe.write(P0, vec![write(key, &facets, false)]).await;
            assert_eq!(places(probe, index).await, [], "{index:?} lets a record go when `{}` does", declared.name);
        }
        probe.write(P0, vec![delete(key)]).await;
    }
}

/// Inserts one execution per value in a scrambled order and expects them back as given.
async fn expect_order<S: Store>(
    probe: &Probe<S>,
    index: IndexId,
    at: usize,
    ordered: &[Value],
    when: &[(usize, Value)],
) {
    let count = ordered.len();
    for step in 0..count {
        // A stride that is prime to every count used here visits each value once.
        let number = (step * 7 + 3) % count;
        let facets: Vec<_> = when.iter().cloned().chain([(at, ordered[number].clone())]).collect();
        // Keys run against the order, so that a store which sorts by key alone is found out.
        probe.write(P0, vec![insert(execution(P0, (count - number) as u128), &facets, &[])]).await;
    }
    let column = index.get().facets.iter().position(|facet| *facet == at).expect("the index has the facet");
    let prefix: Vec<Value> = probe.list(P0, Target::Index(index)).await[0].place.columns[..column].to_vec();
    let column_of = |entry: &Entry| entry.place.columns[column].clone();
    for descending in [false, true] {
        let range = Range { prefix: prefix.clone(), ..Range::default() };
        let mut found = super::walk(&probe.store, Some(P0), Target::Index(index), range, 4, descending).await;
        if descending {
            found.reverse();
        }
        let found: Vec<Value> = found.iter().map(column_of).collect();
        assert_eq!(
            found,
            ordered,
            "{index:?} in order of `{}`, descending: {descending}",
            Kind::Execution.table().facets[at].name
        );
    }
    for (number, until) in ordered.iter().enumerate() {
        let range = Range { prefix: prefix.clone(), until: Some(until.clone()), after: None };
        let found = probe.page(P0, Target::Index(index), range, 1000).await.entries;
        let found: Vec<Value> = found.iter().map(column_of).collect();
        assert_eq!(found, ordered[..=number], "{index:?} until {until:?} takes in {until:?} and nothing above");
    }
}

pub(super) async fn integers_are_in_order_of_value<S: Store>(probe: &Probe<S>) {
    let edges = [
        i64::MIN,
        i64::MIN + 1,
        -(1 << 53) - 1,
        -(1 << 53),
        -256,
        -1,
        0,
        1,
        255,
        256,
        (1 << 53) - 1,
        1 << 53,
        (1 << 53) + 1,
        i64::MAX - 1,
        i64::MAX,
    ];
    expect_order(probe, IndexId::Ready, facet::READY_ORDER, &edges.map(Value::Int), &[]).await;
}

pub(super) async fn text_is_in_order_of_bytes<S: Store>(probe: &Probe<S>) {
    let ordered = [
        "",
        "\u{1}",
        " ",
        "-",
        "0",
        "10",
        "9",
        "A",
        "B",
        "Z",
        "_",
        "a",
        "a\u{1}",
        "a ",
        "a-b",
        "aa",
        "ab",
        "b",
        "z",
        "~",
        "Ä",
        "ä",
        "é",
        "ß",
        "日",
        "\u{fffd}",
        "\u{10ffff}",
    ];
    let mut by_bytes = ordered;
    by_bytes.sort_unstable();
    expect_order(probe, IndexId::ByState, facet::LISTED, &by_bytes.map(text), &[]).await;
}

pub(super) async fn bytes_are_in_order_of_bytes<S: Store>(probe: &Probe<S>) {
    let mut ordered: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    ordered.push(Vec::new());
    ordered.extend(
        [&[0, 0][..], &[0, 0xff], &[0xff, 0], &[0xff, 0xff], b"a\0", b"a\0a", b"aa", &[0x80, 0x7f]].map(Vec::from),
    );
    ordered.sort_unstable();
    let ordered: Vec<Value> = ordered.iter().map(|bytes| Value::bytes(bytes)).collect();
    let ready = [(facet::READY_ORDER, Value::Int(1))];
    expect_order(probe, IndexId::Ready, facet::CONCURRENCY_KEY, &ordered, &ready).await;
    let found = probe.list(P0, Target::Index(IndexId::ByCreated)).await;
    let named = found.iter().filter_map(Entry::key).count();
    assert_eq!(named, ordered.len(), "every record is in every index that wants it, under its key");
}
