//! What a look at a store tells.

use crate::server::{fresh, name, options, sql, with};
use weft_store::{Finding, Severity};
use weft_store_postgres::{PostgresStore, inspect};

fn find<'a>(findings: &'a [Finding], subject: &str) -> &'a Finding {
    let found = findings.iter().find(|finding| finding.subject == subject);
    found.unwrap_or_else(|| panic!("nothing about {subject} in {findings:?}"))
}

#[tokio::test]
async fn a_sound_store_has_nothing_but_a_powerful_role() {
    let options = fresh().partitions(2);
    PostgresStore::open(options.clone()).await.unwrap();
    let findings = inspect(&options).await;
    for subject in [
        "connection",
        "version",
        "primary",
        "encoding",
        "fsync",
        "full_page_writes",
        "data_sync_retry",
        "synchronous_commit",
        "durability",
        "schema",
        "partitions",
        "connections",
        "dead rows",
        "latency",
    ] {
        assert_eq!(find(&findings, subject).severity, Severity::Fine, "{subject}: {findings:?}");
    }
    assert_eq!(find(&findings, "role").severity, Severity::Warning);
    assert!(find(&findings, "latency").found.contains("ms"));
    find(&findings, "oldest transaction");
    assert!(findings.iter().all(|finding| (finding.severity == Severity::Fine) == finding.advice.is_empty()));
}

#[tokio::test]
async fn what_would_be_refused_is_a_problem_with_its_remedy() {
    let empty = inspect(&fresh()).await;
    assert_eq!(find(&empty, "schema").severity, Severity::Problem);
    assert!(find(&empty, "schema").advice.contains("weft migrate"));

    let schema = name();
    PostgresStore::open(options(&schema).partitions(2)).await.unwrap();
    let weak = inspect(&with(&schema, "options=-c%20synchronous_commit%3Doff&partitions=3")).await;
    assert_eq!(find(&weak, "synchronous_commit").severity, Severity::Problem);
    assert_eq!(find(&weak, "partitions").severity, Severity::Problem);
    let accepted = inspect(&with(&schema, "options=-c%20synchronous_commit%3Doff&accept_data_loss=true")).await;
    assert_eq!(find(&accepted, "synchronous_commit").severity, Severity::Warning);

    let foreign = name();
    let make = format!("create schema {foreign}; create table {foreign}.things (id bigint)");
    sql().await.batch_execute(&make).await.unwrap();
    assert_eq!(find(&inspect(&options(&foreign)).await, "schema").severity, Severity::Problem);
    sql().await.batch_execute(&format!("drop schema {foreign} cascade")).await.unwrap();

    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = weft_store_postgres::Options::from_url(&format!("postgres://x@{free}/x")).unwrap();
    let findings = inspect(&nobody).await;
    assert_eq!((findings.len(), findings[0].severity), (1, Severity::Problem));
}
