//! A store that has no room left.

use crate::kit::*;
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;
use weft_engine::{Config, Engine, TokioRuntime};
use weft_server::Options;
use weft_store_sqlite::SqliteStore;

/// Waits until `/readyz` answers with this status, and returns why the node is not ready.
async fn readiness(http: &mut Http, status: u16) -> serde_json::Value {
    let began = Instant::now();
    loop {
        let ready = http.get("/readyz").await;
        if ready.status == status {
            return ready.json()["why"].clone();
        }
        assert!(began.elapsed() < PATIENCE, "{ready:?}");
    }
}

#[tokio::test]
async fn ops_30_a_full_disk_is_named_and_the_node_not_ready_until_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weft.db");
    let options = weft_store_sqlite::Options { bytes_max: Some(2 << 20), ..weft_store_sqlite::Options::new(path) };
    let store = Arc::new(SqliteStore::open(options).unwrap());
    let runtime = Arc::new(TokioRuntime::current());
    let engine = Engine::open_on(store.clone(), Config::default(), runtime).await.unwrap();
    let server = Server::start(engine, Options::dev()).await;
    let mut http = server.http().await;
    readiness(&mut http, 200).await;
    let heavy = json!({ "kind": "mail", "input": { "text": "x".repeat(100_000) } });
    let mut made = 0;
    let refused = loop {
        let answer = http.post("/v1/executions", heavy.clone()).await;
        if answer.status != 201 {
            break answer.refused(503, "busy");
        }
        made += 1;
        assert!(made < 100, "the file grew past its limit");
    };
    assert_eq!(refused["fields"]["cause"], "store_full", "{refused}");
    assert!(refused["detail"].as_str().unwrap().contains("the store is full"), "{refused}");
    let began = Instant::now();
    loop {
        let why = readiness(&mut http, 503).await;
        // A disk that is slow for a moment is named too.
        if why == json!(["store_full"]) {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{why}");
    }
    assert_eq!(http.get("/v1/executions/count").await.good()["total"], made, "reads go on");
    store.set_bytes_max(64 << 20).await.unwrap();
    // Nobody sends work to a node that is not ready: it finds out by itself.
    readiness(&mut http, 200).await;
    http.post("/v1/executions", heavy).await.good();
}
