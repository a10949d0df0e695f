//! More than a node can do.

use crate::kit::*;
use serde_json::{Value, json};
use weft_engine::Config;
use weft_server::Options;

/// Leases that are renewed while others are sent away.
const LEASES: usize = 10_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_31_submitters_are_told_to_come_back_while_workers_keep_their_leases() {
    let config = Config { queue_max: 4, ..Config::default() };
    let server = Server::start(slow_engine(config, 30).await, Options::dev()).await;
    let mut worker = server.http().await;
    let batch = json!({ "items": vec![json!({ "kind": "mail" }); 1_000] });
    for _ in 0..LEASES / 1_000 {
        worker.post("/v1/executions/batch", batch.clone()).await.good();
    }
    let mut held: Vec<Value> = Vec::new();
    while held.len() < LEASES {
        let claim = json!({ "worker": "pool", "instance": "pool-1", "max": 256, "wait_ms": 5000, "lease_ms": 600_000 });
        let claimed = worker.post("/v1/work/claim", claim).await.good();
        held.extend(claimed["executions"].as_array().unwrap().iter().map(|task| Task(task.clone()).held(json!({}))));
    }
    let flood: Vec<_> = (0..100)
        .map(|_| {
            let address = server.address;
            tokio::spawn(async move {
                let mut http = Http::connect(address).await;
                let mut busy = 0;
                for _ in 0..10 {
                    let answer = http.post("/v1/executions", json!({ "kind": "flood", "lane": "flood" })).await;
                    if answer.status == 503 {
                        let problem = answer.refused(503, "busy");
                        assert!(answer.header("retry-after").is_some() && problem["retry_after_ms"].is_number());
                        busy += 1;
                    }
                }
                busy
            })
        })
        .collect();
    for some in held.chunks(1_000) {
        let renewed = worker.post("/v1/work/renew", json!({ "items": some })).await.good();
        let results = renewed["results"].as_array().unwrap();
        assert!(results.iter().all(|result| result["ok"].is_object()), "{renewed}");
    }
    let mut busy = 0;
    for one in flood {
        busy += tokio::time::timeout(3 * PATIENCE, one).await.unwrap().unwrap();
    }
    assert!(busy > 0, "the queue was never full");
}

#[tokio::test]
async fn api_31_one_connection_too_many_is_told_to_come_back() {
    let server = Server::keyed_with(engine().await, |options| options.connections_max = 1).await;
    let mut first = server.http().await;
    assert_eq!(first.get("/healthz").await.status, 200);
    let mut second = server.http().await;
    if let Ok(answer) = second.try_send(http::Request::get("/healthz"), "").await {
        assert_eq!((answer.status, answer.code().as_str()), (503, "busy"));
    }
    assert_eq!(first.get("/healthz").await.status, 200);
}
