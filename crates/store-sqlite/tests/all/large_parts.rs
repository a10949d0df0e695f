//! Parts that live beside their row.

use crate::records::{P0, apply, delete, folder, get, insert, key, open, update};
use bytes::Bytes;
use rusqlite::Connection;
use weft_core::schema::{Kind, PartMask};
use weft_store::{Range, Scan, Store, Target};
use weft_store_sqlite::SqliteStore;

const THRESHOLD: usize = 1024;

fn bytes(len: usize) -> Option<Bytes> {
    Some(Bytes::from(vec![0x42; len]))
}

fn beside(store: &SqliteStore) -> Vec<(u8, usize)> {
    let connection = Connection::open(store.path()).unwrap();
    let mut statement = connection.prepare("select part, length(bytes) from large_parts order by id, part").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as usize)));
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

async fn lengths(store: &SqliteStore) -> Vec<(u8, usize)> {
    let found = get(store, key(P0, 1)).await.unwrap();
    found.parts.iter().map(|(part, bytes)| (*part, bytes.len())).collect()
}

#[tokio::test]
async fn a_part_moves_out_of_its_row_and_back_as_it_grows_and_shrinks() {
    let folder = folder();
    let store = open(&folder);
    let id = key(P0, 1);
    apply(&store, vec![insert(id, &[(0, bytes(10)), (4, bytes(THRESHOLD + 1)), (5, bytes(THRESHOLD))])]).await;
    assert_eq!(beside(&store), [(4, 1025)]);
    assert_eq!(lengths(&store).await, [(0, 10), (4, 1025), (5, 1024)]);

    apply(&store, vec![update(id, &[(0, bytes(20))])]).await;
    assert_eq!(beside(&store), [(4, 1025)], "an update of the hot part leaves it where it is");

    apply(&store, vec![update(id, &[(5, bytes(9000)), (0, bytes(30))])]).await;
    assert_eq!(beside(&store), [(4, 1025), (5, 9000)]);

    apply(&store, vec![update(id, &[(4, bytes(7)), (5, bytes(2000))])]).await;
    assert_eq!(beside(&store), [(5, 2000)]);
    assert_eq!(lengths(&store).await, [(0, 30), (4, 7), (5, 2000)]);

    apply(&store, vec![update(id, &[(5, None)])]).await;
    assert_eq!(beside(&store), []);
    assert_eq!(lengths(&store).await, [(0, 30), (4, 7)]);
}

#[tokio::test]
async fn a_record_takes_its_large_parts_with_it() {
    let folder = folder();
    let store = open(&folder);
    apply(&store, vec![insert(key(P0, 1), &[(4, bytes(5000))]), insert(key(P0, 2), &[(4, bytes(6000))])]).await;
    apply(&store, vec![delete(key(P0, 1))]).await;
    assert_eq!(beside(&store), [(4, 6000)]);
    apply(&store, vec![insert(key(P0, 2), &[(0, bytes(5))])]).await;
    assert_eq!(beside(&store), [], "a record that is written anew loses the parts it had");
}

#[tokio::test]
async fn a_scan_returns_large_parts_like_others() {
    let folder = folder();
    let store = open(&folder);
    apply(&store, vec![insert(key(P0, 1), &[(0, bytes(5)), (4, bytes(5000))])]).await;
    let target = Target::Records(Kind::Execution);
    let parts = Some(PartMask::of(4));
    let scan = Scan { target, ranges: vec![Range::default()], limit: 5, descending: false, parts };
    let pages = store.scan(Some(P0), scan).await.unwrap();
    let found = pages[0].entries[0].found.as_ref().unwrap();
    assert_eq!(found.parts, [(4, bytes(5000).unwrap())]);
}
