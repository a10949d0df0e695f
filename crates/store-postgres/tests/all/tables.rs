//! What the tables look like to somebody who queries them, and to the server that keeps them.

use crate::records::{P0, P1, applied, apply, batch, head, insert, key, update};
use crate::server::{fresh, open_fresh, sql, until};
use weft_core::Time;
use weft_core::change::{Batch, Change, Head, Write};
use weft_core::schema::{Due, Timer, Value, execution};
use weft_store::Store;
use weft_store_postgres::PostgresStore;

#[tokio::test]
async fn people_can_count_executions_by_lane_and_state() {
    let options = fresh().partitions(2);
    let store = PostgresStore::open(options.clone()).await.unwrap();
    for (partition, number, state) in [(P0, 1, "ready"), (P0, 2, "active"), (P1, 3, "ready")] {
        let mut write = insert(key(partition, number), b"");
        let Change::Insert(body) = &mut write.what else { unreachable!() };
        (body.facets[execution::LANE], body.facets[execution::STATE]) =
            (Value::Text("mail".into()), Value::Text(state.into()));
        apply(&store, partition, vec![write]).await;
    }
    let query = format!("select lane, state, count(*) from {}.executions group by 1, 2 order by 1, 2", options.schema);
    let rows = sql().await.query(&query, &[]).await.unwrap();
    let rows: Vec<(String, String, i64)> = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    assert_eq!(rows, [("mail".into(), "active".into(), 1), ("mail".into(), "ready".into(), 2)]);
}

/// An entry comes, moves and goes, and yet no update of the record touches an index of its table. There are as few updates
/// as fit on a page: other tests may keep the server from cleaning it up.
#[tokio::test]
async fn rl_57_updates_of_executions_are_heap_only() {
    let options = fresh().partitions(1);
    let store = PostgresStore::open(options.clone()).await.unwrap();
    let one = key(P0, 1);
    apply(&store, P0, vec![insert(one, &[1; 150])]).await;
    let ready = |number: i64| if number % 2 == 0 { Value::Null } else { Value::Int(number) };
    for number in 1..=12 {
        let mut write = update(one, &[number as u8; 150]);
        let Change::Update { old, body } = &mut write.what else { unreachable!() };
        old[execution::READY_ORDER] = ready(number - 1);
        body.facets[execution::READY_ORDER] = ready(number);
        apply(&store, P0, vec![write]).await;
    }
    drop(store);
    let client = sql().await;
    let counts =
        "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where schemaname = $1 and relname = 'executions'";
    let (updated, heap_only) = until("the statistics of the table", async || {
        let row = client.query_one(counts, &[&options.schema]).await.unwrap();
        let counts: (i64, i64) = (row.get(0), row.get(1));
        (counts.0 >= 12).then_some(counts)
    })
    .await;
    assert_eq!((updated, heap_only), (12, 12));
    let left = format!("select count(*) from {}.executions_ready", options.schema);
    assert_eq!(client.query_one(&left, &[]).await.unwrap().get::<_, i64>(0), 0);
}

/// Damage, or an older program, may leave an entry that nobody knows of; it must not keep its record from being written.
#[tokio::test]
async fn an_entry_that_is_there_already_is_kept() {
    let options = fresh().partitions(1);
    let store = PostgresStore::open(options.clone()).await.unwrap();
    let one = key(P0, 1);
    let schema = &options.schema;
    let id = "decode(lpad('1', 32, '0'), 'hex')";
    let left = format!(
        "insert into {schema}.due values (0, 4, 70, 1, {id});
         insert into {schema}.executions_by_claim values (0, 'claim', {id})"
    );
    sql().await.batch_execute(&left).await.unwrap();
    let mut write = insert(one, b"x");
    write.due_add = vec![Due { timer: Timer::Until, at: Time::from_ms(70) }];
    let Change::Insert(body) = &mut write.what else { unreachable!() };
    body.facets[execution::CLAIM_REF] = Value::bytes(b"claim");
    for fast in [true, false] {
        let before = head(&store, P0).await;
        let sent = Batch { fast, ..batch(before, vec![write.clone()]) };
        applied(store.commit(P0, sent).await);
        let gone = Write { due_add: Vec::new(), ..insert(one, b"") };
        apply(&store, P0, vec![Write { what: Change::Delete { old: None }, ..gone }]).await;
    }
    let entries =
        format!("select (select count(*) from {schema}.due) + (select count(*) from {schema}.executions_by_claim)");
    assert_eq!(sql().await.query_one(&entries, &[]).await.unwrap().get::<_, i64>(0), 2);
}

#[tokio::test]
async fn statistics_count_what_was_done() {
    let store = open_fresh(2).await;
    apply(&store, P0, vec![insert(key(P0, 1), b"a"), insert(key(P0, 2), b"b")]).await;
    let stale = Batch { strict: true, ..batch(Head::default(), Vec::new()) };
    store.commit(P0, stale).await;
    let stats = store.stats();
    assert_eq!((stats.applied, stats.checked, stats.conflicts, stats.unknown), (1, 0, 1, 0));
}

#[tokio::test]
async fn a_partition_that_is_not_there_is_refused() {
    let store = open_fresh(2).await;
    let beyond = weft_core::PartitionId(2);
    assert!(store.read(beyond, Vec::new()).await.unwrap_err().to_string().contains("no partition"));
    let outcome = store.commit(beyond, batch(head(&store, P0).await, Vec::new())).await;
    assert!(matches!(outcome, weft_store::Outcome::NotApplied { .. }), "{outcome:?}");
    assert!(store.resolve(beyond, crate::records::mint()).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_floor_verifies_what_it_wrote_and_cleans_up() {
    let options = fresh();
    let floor = weft_store_postgres::floor::floor(&options, 300, 128, 64, 2).await.unwrap();
    assert_eq!(floor.lifecycles, 384);
    assert!(floor.lifecycles_per_s > 0.0 && floor.commit_ms > 0.0);
    let left = "select count(*) from pg_namespace where nspname like $1 || '%'";
    assert_eq!(sql().await.query_one(left, &[&options.schema]).await.unwrap().get::<_, i64>(0), 0);
}
