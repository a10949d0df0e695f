//! What is opened, what is refused and with which words.

use crate::records::{P0, P1, apply, head, insert, key};
use crate::schema;
use crate::server::{fresh, name, options, sql, with};
use weft_core::change::Head;
use weft_store::{Level, Resolution, Store};
use weft_store_postgres::{Migrate, OpenError, Options, PostgresStore, drop_schema, migrate};

async fn refusal(options: Options) -> OpenError {
    match PostgresStore::open(options).await {
        Err(error) => error,
        Ok(_) => panic!("the store was opened"),
    }
}

#[tokio::test]
async fn a_store_is_made_once_and_found_again() {
    let options = fresh().partitions(5);
    let first = PostgresStore::open(options.clone()).await.unwrap();
    apply(&first, P0, vec![insert(key(P0, 1), b"x")]).await;
    let again = PostgresStore::open(options.partitions(0).migrate(Migrate::Check)).await.unwrap();
    assert_eq!(again.id(), first.id());
    assert_eq!(again.describe().partitions, 5);
    assert!(crate::records::get(&again, key(P0, 1)).await.is_some());
    assert_eq!(PostgresStore::open(fresh()).await.unwrap().describe().partitions, 16);
}

#[tokio::test]
async fn ops_24_without_leave_to_migrate_an_empty_schema_is_refused() {
    let options = fresh().partitions(2);
    let checked = options.clone().migrate(Migrate::Check);
    let error = refusal(checked.clone()).await;
    assert!(matches!(error, OpenError::Absent { .. }), "{error}");
    assert!(error.to_string().contains("run `weft migrate --store URL`"), "{error}");

    let plan = migrate(&checked, true).await.unwrap();
    assert_eq!((plan.found, plan.steps.len(), plan.done), (None, 1, false));
    refusal(checked.clone()).await;
    let plan = migrate(&checked, false).await.unwrap();
    assert_eq!((plan.found, plan.steps.len(), plan.done), (None, 1, true));
    PostgresStore::open(checked.clone()).await.unwrap();
    let plan = migrate(&checked, false).await.unwrap();
    assert_eq!((plan.found, plan.steps.len(), plan.done), (Some(plan.format), 0, false));
}

#[tokio::test]
async fn ops_23_another_format_is_refused_by_its_number() {
    let schema = name();
    PostgresStore::open(options(&schema).partitions(1)).await.unwrap();
    let set = async |format: &str| {
        let update = format!("update {schema}.meta set value = '{format}' where key = 'format'");
        sql().await.batch_execute(&update).await.unwrap();
    };
    set("99").await;
    let error = refusal(options(&schema)).await;
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error}");
    set("0").await;
    for migrate in [Migrate::Check, Migrate::Auto] {
        let error = refusal(options(&schema).migrate(migrate)).await;
        assert!(matches!(error, OpenError::Older { found: 0, .. }), "{error}");
    }
    set("many").await;
    let error = refusal(options(&schema)).await;
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
}

#[tokio::test]
async fn ops_24_a_store_of_the_first_format_is_upgraded_and_goes_on() {
    let schema = name();
    let store = PostgresStore::open(options(&schema).partitions(2)).await.unwrap();
    let last = apply(&store, P0, vec![insert(key(P0, 1), b"kept")]).await;
    drop(store);
    let made = schema::shape(&schema).await;
    let later = "steps executions_by_holder workers bulk_jobs api_keys api_keys_by_name audit registers executions_live flows \
                 edges tombstones";
    let drops: String = later.split(' ').map(|table| format!("drop table {schema}.{table};")).collect();
    let columns = ["holder", "flow", "member_no", "live_in", "member", "inlets"];
    let drop_columns = columns.map(|column| format!("alter table {schema}.executions drop column {column};")).concat();
    let back = format!(
        "{drops} {drop_columns} alter table {schema}.partitions drop column last; update {schema}.meta set value = '1' \
         where key = 'format'"
    );
    sql().await.batch_execute(&back).await.unwrap();
    let error = refusal(options(&schema).migrate(Migrate::Check)).await;
    assert!(matches!(error, OpenError::Older { found: 1, .. }), "{error}");
    let plan = migrate(&options(&schema), true).await.unwrap();
    assert_eq!((plan.found, plan.steps.len(), plan.done), (Some(1), 3, false));

    let store = PostgresStore::open(options(&schema)).await.unwrap();
    assert_eq!(schema::shape(&schema).await, made, "an upgraded store has what a new one has");
    assert_eq!(head(&store, P0).await, last, "the head names the commit it came from");
    assert_eq!(head(&store, P1).await, Head::default());
    let next = apply(&store, P0, vec![insert(key(P0, 2), b"new")]).await;
    assert_eq!(next.position, last.position.next());
}

#[tokio::test]
async fn ops_23_another_number_of_partitions_is_refused() {
    let options = fresh().partitions(3);
    PostgresStore::open(options.clone()).await.unwrap();
    let error = refusal(options.partitions(4)).await;
    assert!(matches!(error, OpenError::Partitions { asked: 4, stored: 3 }), "{error}");
}

#[tokio::test]
async fn a_schema_of_somebody_else_is_neither_used_nor_dropped() {
    for table in ["things (id bigint)", "meta (id bigint)"] {
        let schema = name();
        let make = format!("create schema {schema}; create table {schema}.{table}");
        sql().await.batch_execute(&make).await.unwrap();
        let error = refusal(options(&schema)).await;
        assert!(matches!(error, OpenError::Foreign { .. }), "{table}: {error}");
        let error = drop_schema(&options(&schema)).await.unwrap_err();
        assert!(matches!(error, OpenError::Foreign { .. }), "{table}: {error}");
        sql().await.batch_execute(&format!("drop schema {schema} cascade")).await.unwrap();
    }
}

#[tokio::test]
async fn a_store_that_was_dropped_is_gone() {
    let options = fresh().partitions(1);
    PostgresStore::open(options.clone()).await.unwrap();
    assert!(drop_schema(&options).await.unwrap());
    assert!(!drop_schema(&options).await.unwrap());
    assert!(matches!(refusal(options.migrate(Migrate::Check)).await, OpenError::Absent { .. }));
}

#[tokio::test]
async fn rl_50_a_session_that_acknowledges_too_early_is_refused() {
    let schema = name();
    PostgresStore::open(options(&schema).partitions(1)).await.unwrap();
    let off = "options=-c%20synchronous_commit%3Doff";
    let error = refusal(with(&schema, off)).await;
    assert!(
        matches!(&error, OpenError::Setting { name: "synchronous_commit", found, .. } if found == "off"),
        "{error}"
    );

    let accepted = PostgresStore::open(with(&schema, &format!("{off}&accept_data_loss=true"))).await.unwrap();
    let told = accepted.describe().durability;
    assert_eq!(told.level, Level::Memory);
    assert!(told.can_lose[0].contains("synchronous_commit"), "{told:?}");
    apply(&accepted, P0, vec![insert(key(P0, 1), b"x")]).await;
}

#[tokio::test]
async fn rl_4_the_level_is_taken_from_the_server() {
    let store = PostgresStore::open(fresh().partitions(1)).await.unwrap();
    let told = store.describe().durability;
    assert_eq!((told.level, told.verified), (Level::Local, true));
    assert!(told.acknowledged.contains("flushed") && !told.can_lose.is_empty());
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_from_one_that_refuses() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = refusal(Options::from_url(&format!("postgres://x@{free}/x")).unwrap()).await;
    assert!(matches!(error, OpenError::Connect(_)), "{error}");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://x@{}/x?connect_timeout=200ms", silent.local_addr().unwrap());
    let error = refusal(Options::from_url(&url).unwrap()).await;
    assert!(matches!(error, OpenError::Timeout { .. } | OpenError::Connect(_)), "{error}");
}

/// Such a role owns nothing, may not create anything and cannot migrate.
#[tokio::test]
async fn sec_14_a_role_that_may_only_write_rows_is_enough_for_a_node() {
    let schema = name();
    PostgresStore::open(options(&schema).partitions(2)).await.unwrap();
    let grants = format!(
        "create role {schema} login; grant usage on schema {schema} to {schema};
         grant select, insert, update, delete on all tables in schema {schema} to {schema}"
    );
    sql().await.batch_execute(&grants).await.unwrap();
    let node = PostgresStore::open(with(&schema, &format!("user={schema}"))).await.unwrap();
    apply(&node, P0, vec![insert(key(P0, 1), b"x")]).await;
    let resolved = node.resolve(P0, crate::records::mint()).await.unwrap();
    assert_eq!(resolved, Resolution::NotApplied);
    crate::server::soon("the node listening", node.listening()).await;
    let elsewhere = with(&name(), &format!("user={schema}")).partitions(1);
    assert!(matches!(refusal(elsewhere).await, OpenError::Postgres { .. }));
    sql().await.batch_execute(&format!("drop owned by {schema}; drop role {schema}")).await.unwrap();
}
