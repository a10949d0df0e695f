//! Connections that break, sessions that are ended, servers that stop: what is answered is the truth.

use crate::records::{P0, P1, applied, apply, batch, get, head, insert, key, mint};
use crate::server::{DEADLINE, at, name, open_fresh, options, soon, sql, until, with};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_postgres::Client;
use weft_core::change::{Batch, Head};
use weft_core::{CommitId, PartitionId};
use weft_store::{Outcome, Resolution, Store};
use weft_store_postgres::PostgresStore;

/// Asks until the store answers.
async fn resolve(store: &PostgresStore, partition: PartitionId, id: CommitId) -> Resolution {
    until("an answer to resolve", async || store.resolve(partition, id).await.ok()).await
}

async fn head_of(store: &PostgresStore, partition: PartitionId) -> Head {
    let read = async || store.read(partition, Vec::new()).await.ok();
    until("the head", read).await.head
}

async fn is_there(store: &PostgresStore, partition: PartitionId, number: u64, id: CommitId) -> bool {
    let wanted = vec![(key(partition, number), weft_core::schema::PartMask::NONE)];
    let read = until("a read", async || store.read(partition, wanted.clone()).await.ok()).await;
    read.found[0].as_ref().is_some_and(|found| found.revision == id)
}

#[derive(Default, Debug)]
struct Seen {
    applied: u64,
    not_applied: u64,
    unknown: u64,
    unknown_applied: u64,
}

/// Commits one record after another and compares every answer with what is there, until told to stop.
async fn write_and_look(store: &PostgresStore, partition: PartitionId, stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let sent = batch(head_of(store, partition).await, vec![insert(key(partition, number), &[7; 200])]);
        let id = sent.id;
        let expected = match store.commit(partition, sent.clone()).await {
            Outcome::Applied { .. } => {
                seen.applied += 1;
                true
            }
            Outcome::NotApplied { .. } => {
                seen.not_applied += 1;
                false
            }
            Outcome::Unknown { .. } => {
                seen.unknown += 1;
                let resolution = resolve(store, partition, id).await;
                let was_applied = matches!(resolution, Resolution::Applied { .. });
                seen.unknown_applied += u64::from(was_applied);
                was_applied
            }
            Outcome::Conflict { .. } | Outcome::Lost { .. } => panic!("nobody else writes here"),
        };
        assert_eq!(is_there(store, partition, number, id).await, expected, "{seen:?}");
    }
    seen
}

async fn end_sessions(client: &Client, program: &str) {
    let sql = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1 and pid <> \
               pg_backend_pid()";
    client.query(sql, &[&program]).await.unwrap();
}

#[tokio::test]
async fn rl_53_sessions_that_are_ended_under_load_leave_answers_that_are_true() {
    let program = name();
    let store =
        PostgresStore::open(with(&program, &format!("application_name={program}")).partitions(2)).await.unwrap();
    let stop = AtomicBool::new(false);
    let client = sql().await;
    let end_them = async {
        let mut before = store.stats().applied;
        until("outcomes that are unknown", async || {
            // Only sessions that got something done are ended, so that there is load.
            let now = store.stats().applied;
            if now > before {
                before = now;
                end_sessions(&client, &program).await;
            }
            (store.stats().unknown >= 8).then_some(())
        })
        .await;
        stop.store(true, Ordering::Relaxed);
    };
    let writers = (write_and_look(&store, P0, &stop), write_and_look(&store, P1, &stop));
    let (one, two, ()) = tokio::join!(writers.0, writers.1, end_them);
    assert!(one.unknown + two.unknown >= 8, "{one:?} {two:?}");
    assert!(one.applied + two.applied > 0, "{one:?} {two:?}");
}

#[tokio::test]
async fn a_session_that_was_ended_while_idle_is_replaced_before_anything_is_sent() {
    let program = name();
    let store =
        PostgresStore::open(with(&program, &format!("application_name={program}")).partitions(1)).await.unwrap();
    apply(&store, P0, vec![insert(key(P0, 1), b"x")]).await;
    let client = sql().await;
    end_sessions(&client, &program).await;
    let gone = "select count(*) from pg_stat_activity where application_name = $1 and query <> 'listen'";
    until("the end of the sessions", async || {
        end_sessions(&client, &program).await;
        (client.query_one(gone, &[&program]).await.unwrap().get::<_, i64>(0) == 0).then_some(())
    })
    .await;
    let connections = store.stats().connections;
    let before = head_of(&store, P0).await;
    applied(store.commit(P0, batch(before, vec![insert(key(P0, 2), b"x")])).await);
    assert!(store.stats().connections > connections);
    assert_eq!(store.stats().unknown, 0);
}

/// The lost commit waits for the partition in a backend that does not know its client has gone.
#[tokio::test]
async fn rl_12_a_commit_that_was_given_up_is_resolved_though_its_backend_still_runs() {
    let program = name();
    let parameters = format!("application_name={program}");
    let store = PostgresStore::open(with(&program, &parameters).partitions(1)).await.unwrap();
    let other = PostgresStore::open(options(&program)).await.unwrap();
    let before = apply(&store, P0, vec![insert(key(P0, 1), b"x")]).await;
    let holder = sql().await;
    holder.batch_execute(&format!("begin; select id from {program}.partitions for update")).await.unwrap();

    let sent = batch(before, vec![insert(key(P0, 2), b"x")]);
    let id = sent.id;
    let looker = sql().await;
    let waiting = "select count(*) from pg_stat_activity where application_name = $1 and wait_event_type = 'Lock'";
    {
        let commit = store.commit(P0, sent);
        let waits = until("a commit that waits", async || {
            (looker.query_one(waiting, &[&program]).await.unwrap().get::<_, i64>(0) > 0).then_some(())
        });
        tokio::select! {
            outcome = commit => panic!("the partition is held, and the commit was answered with {outcome:?}"),
            () = waits => {}
        }
    }
    let release = async {
        let queued = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' \
                      and query like '%for update%'";
        until("a resolve that waits", async || {
            (looker.query_one(queued, &[]).await.unwrap().get::<_, i64>(0) > 0).then_some(())
        })
        .await;
        holder.batch_execute("rollback").await.unwrap();
    };
    let (resolution, ()) = tokio::join!(resolve(&other, P0, id), release);
    let found = get(&other, key(P0, 2)).await.is_some_and(|found| found.revision == id);
    assert_eq!(matches!(resolution, Resolution::Applied { .. }), found);
    assert_eq!(resolve(&store, P0, id).await, resolution, "asked again, the answer stands");
    apply(&store, P0, vec![insert(key(P0, 3), b"x")]).await;
}

#[tokio::test]
async fn a_commit_that_is_dropped_anywhere_leaves_nothing_for_the_next() {
    let store = open_fresh(1).await;
    apply(&store, P0, vec![insert(key(P0, 1), b"x")]).await;
    for steps in 0..12 {
        let number = 100 + steps;
        let sent = batch(head(&store, P0).await, vec![insert(key(P0, number), b"x")]);
        let id = sent.id;
        let give_up = async {
            for _ in 0..steps {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            _ = store.commit(P0, sent) => {}
            () = give_up => {}
        }
        let resolution = resolve(&store, P0, id).await;
        let found = get(&store, key(P0, number)).await.is_some();
        assert_eq!(matches!(resolution, Resolution::Applied { .. }), found);
        apply(&store, P0, vec![insert(key(P0, 1000 + steps), b"x")]).await;
    }
}

#[tokio::test]
async fn rl_52_a_commit_with_a_warning_is_unknown() {
    let schema = name();
    let store = PostgresStore::open(options(&schema).partitions(1)).await.unwrap();
    let before = apply(&store, P0, vec![insert(key(P0, 1), b"x")]).await;
    let warn = format!(
        "create function {schema}.warn() returns trigger language plpgsql as $$ begin raise warning 'canceling the wait \
         for synchronous replication'; return null; end $$;
         create constraint trigger warn after insert on {schema}.feed deferrable initially deferred for each row execute \
         function {schema}.warn()"
    );
    sql().await.batch_execute(&warn).await.unwrap();
    let sent = batch(before, vec![insert(key(P0, 2), b"x")]);
    let id = sent.id;
    let outcome = store.commit(P0, sent).await;
    assert!(matches!(&outcome, Outcome::Unknown { source } if source.to_string().contains("canceling")), "{outcome:?}");
    sql().await.batch_execute(&format!("drop trigger warn on {schema}.feed")).await.unwrap();
    assert!(matches!(resolve(&store, P0, id).await, Resolution::Applied { .. }));
}

#[tokio::test]
async fn rl_51_an_error_of_the_commit_itself_is_not_taken_for_success() {
    let schema = name();
    let store = PostgresStore::open(options(&schema).partitions(1)).await.unwrap();
    let before = apply(&store, P0, vec![insert(key(P0, 1), b"x")]).await;
    let fail = format!(
        "create function {schema}.fail() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$;
         create constraint trigger fail after insert on {schema}.feed deferrable initially deferred for each row execute \
         function {schema}.fail()"
    );
    sql().await.batch_execute(&fail).await.unwrap();
    let sent = batch(before, vec![insert(key(P0, 2), b"x")]);
    let id = sent.id;
    let outcome = store.commit(P0, sent).await;
    assert!(matches!(outcome, Outcome::Unknown { .. }), "{outcome:?}");
    assert_eq!(resolve(&store, P0, id).await, Resolution::NotApplied);
    assert_eq!(get(&store, key(P0, 2)).await, None);
}

#[tokio::test]
async fn rl_55_a_partition_that_is_held_refuses_in_time_and_the_others_go_on() {
    let schema = name();
    let store = PostgresStore::open(options(&schema).partitions(2)).await.unwrap();
    let before = head(&store, P0).await;
    let holder = sql().await;
    holder.batch_execute(&format!("begin; select id from {schema}.partitions where id = 0 for update")).await.unwrap();
    let sent = batch(before, vec![insert(key(P0, 1), b"x")]);
    let beside = async {
        for number in 0..5 {
            apply(&store, P1, vec![insert(key(P1, number), b"x")]).await;
        }
    };
    let (outcome, ()) = tokio::join!(store.commit(P0, sent), beside);
    let Outcome::NotApplied { retry_after_ms, source } = outcome else { panic!("{outcome:?}") };
    assert!(retry_after_ms > 0 && source.to_string().contains("55P03"), "{source}");
    holder.batch_execute("rollback").await.unwrap();
    apply(&store, P0, vec![insert(key(P0, 1), b"x")]).await;
}

/// Everything the server does not take is not applied, and the session goes on.
#[tokio::test]
async fn a_batch_that_the_server_refuses_is_not_applied() {
    let store = open_fresh(1).await;
    // Its connection counts too, and comes when it comes.
    soon("the node listening", store.listening()).await;
    let before = apply(&store, P0, vec![insert(key(P0, 1), b"x")]).await;
    let mut write = insert(key(P0, 2), b"x");
    let weft_core::change::Change::Insert(body) = &mut write.what else { unreachable!() };
    body.facets[0] = weft_core::schema::Value::Text("nul\0".into());
    let outcome = store.commit(P0, batch(before, vec![write])).await;
    assert!(
        matches!(&outcome, Outcome::NotApplied { source, .. } if source.to_string().contains("22021")),
        "{outcome:?}"
    );
    let connections = store.stats().connections;
    applied(store.commit(P0, batch(before, vec![insert(key(P0, 2), b"x")])).await);
    assert_eq!(store.stats().connections, connections);
}

#[tokio::test]
async fn rl_10_a_server_that_stops_and_comes_back_has_kept_what_it_acknowledged() {
    let server = weft_servers::Postgres::start().unwrap();
    let store = PostgresStore::open(at(&server.url(), "weft", "call_timeout=2s").partitions(2)).await.unwrap();
    let mut acknowledged = 0;
    for number in 0..20 {
        apply(&store, P0, vec![insert(key(P0, number), b"x")]).await;
        acknowledged += 1;
    }
    let before = head(&store, P0).await;
    server.kill().unwrap();
    let lost = batch(before, vec![insert(key(P0, 100), b"x")]);
    let outcome = store.commit(P0, lost.clone()).await;
    assert!(matches!(outcome, Outcome::NotApplied { .. } | Outcome::Unknown { .. }), "{outcome:?}");
    assert!(store.read(P0, Vec::new()).await.is_err());
    assert!(store.resolve(P0, lost.id).await.is_err());
    server.restart().unwrap();
    let resolution = resolve(&store, P0, lost.id).await;
    let found = get(&store, key(P0, 100)).await.is_some();
    assert_eq!(matches!(resolution, Resolution::Applied { .. }), found);
    for number in 0..acknowledged {
        assert!(get(&store, key(P0, number)).await.is_some(), "{number} was acknowledged");
    }
    apply(&store, P0, vec![insert(key(P0, 200), b"x")]).await;
    soon("the node listening again", store.listening()).await;
}

/// With the server frozen, a commit is carried out after its sender has gone.
#[tokio::test]
async fn rl_12_a_frozen_server_makes_an_outcome_unknown_and_resolve_settles_it() {
    let server = weft_servers::Postgres::start().unwrap();
    let store = PostgresStore::open(at(&server.url(), "weft", "call_timeout=500ms").partitions(2)).await.unwrap();
    let before = apply(&store, P0, vec![insert(key(P0, 1), b"x")]).await;
    server.pause().unwrap();
    let sent = batch(before, vec![insert(key(P0, 2), b"x")]);
    let outcome = store.commit(P0, sent.clone()).await;
    assert!(matches!(outcome, Outcome::Unknown { .. }), "{outcome:?}");
    assert!(store.resolve(P0, sent.id).await.is_err());
    server.resume().unwrap();
    let resolution = resolve(&store, P0, sent.id).await;
    let found = get(&store, key(P0, 2)).await.is_some();
    assert_eq!(matches!(resolution, Resolution::Applied { .. }), found);
    let now = head_of(&store, P0).await;
    let again = store.commit(P0, Batch { expect: now, ..sent }).await;
    match (resolution, again) {
        (Resolution::Applied { position }, Outcome::Applied { head }) => assert_eq!(head.position, position),
        (Resolution::NotApplied, Outcome::NotApplied { .. }) => {}
        other => panic!("{other:?}"),
    }
    let unknown = store.resolve(P0, mint()).await.unwrap();
    assert_eq!(unknown, Resolution::NotApplied);
    tokio::time::timeout(DEADLINE, apply(&store, P0, vec![insert(key(P0, 3), b"x")])).await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), store.now()).await.unwrap().unwrap();
}
