//! Calls that wait: for work, for an end; and callers that do not wait for them.

use crate::kit::*;
use serde_json::json;
use std::time::Instant;

fn waiting(server: &Server) -> u64 {
    server.level("weft_claims_waiting")
}

#[tokio::test]
async fn api_13_a_claim_that_waits_is_answered_as_soon_as_there_is_work() {
    let server = Server::dev().await;
    let mut worker = server.http().await;
    let claim = tokio::spawn(async move {
        let claim = json!({ "worker": "pool", "instance": "pool-1", "wait_ms": 60000 });
        worker.post("/v1/work/claim", claim).await.good()
    });
    until("the claim waits", || waiting(&server) == 1).await;
    let began = Instant::now();
    let id = server.http().await.submit(json!({ "kind": "mail" })).await;
    let claimed = within(claim).await.unwrap();
    assert_eq!(claimed["executions"][0]["execution"], json!(id));
    assert!(began.elapsed() < PATIENCE);
    until("nobody waits", || waiting(&server) == 0).await;
}

#[tokio::test]
async fn api_13_an_empty_claim_is_answered_when_its_time_is_up() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let claim = json!({ "worker": "pool", "instance": "pool-1", "wait_ms": 100 });
    let claimed = http.post("/v1/work/claim", claim).await.good();
    assert_eq!((claimed["executions"].as_array().unwrap().len(), &claimed["draining"]), (0, &json!(false)));
}

#[tokio::test]
async fn api_13_a_caller_that_goes_away_is_given_nothing() {
    let server = Server::dev().await;
    for _ in 0..20 {
        let mut gone = server.http().await;
        let claim = tokio::spawn(async move {
            let claim = json!({ "worker": "pool", "instance": "gone", "wait_ms": 60000 });
            gone.post("/v1/work/claim", claim).await
        });
        until("the claim waits", || waiting(&server) == 1).await;
        // Dropping the client closes its connection, in the very moment in which there is work.
        let mut http = server.http().await;
        claim.abort();
        let id = http.submit(json!({ "kind": "mail" })).await;
        let task = http.claim().await;
        assert_eq!(task.execution(), id);
        assert_eq!(task.0["attempt"]["index"], 0, "nothing was lost on the way: {}", task.0);
        http.post("/v1/work/complete", json!({ "items": [task.held(json!({}))] })).await.good();
        until("nobody waits", || waiting(&server) == 0).await;
    }
}

#[tokio::test]
async fn api_13_a_read_waits_for_the_end() {
    let server = Server::dev().await;
    let (mut http, mut reader) = (server.http().await, server.http().await);
    let id = http.submit(json!({ "kind": "mail" })).await;
    let path = format!("/v1/executions/{id}");
    let early = http.get(&format!("{path}/result")).await;
    assert_eq!(early.refused(409, "execution_not_terminal")["fields"]["public_state"], "waiting");
    let read =
        tokio::spawn(async move { reader.get(&format!("{path}?wait_ms=60000&until=done&include=result")).await });
    until("the read waits", || server.level("weft_http_in_flight") == 1).await;
    let task = http.claim().await;
    let item = task.held(json!({ "result": { "json": 17 } }));
    http.post("/v1/work/complete", json!({ "items": [item] })).await.good();
    let read = within(read).await.unwrap().good();
    assert_eq!((&read["public_state"], &read["result"]), (&json!("completed"), &json!({ "json": 17 })));
}

#[tokio::test]
async fn api_30_too_many_calls_of_one_key_that_wait_are_refused() {
    let server = Server::keyed_with(engine().await, |options| options.waiting_per_key_max = 1).await;
    let key = server.key(weft_core::command::Scopes::WORK, &["shop"]);
    let (mut first, mut second) = (server.http_as(&key).await, server.http_as(&key).await);
    let claim = json!({ "worker": "pool", "instance": "pool-1", "wait_ms": 60000 });
    let asked = claim.clone();
    let waits = tokio::spawn(async move { first.post("/v1/work/claim", asked).await });
    until("the claim waits", || waiting(&server) == 1).await;
    let refused = second.post("/v1/work/claim", claim).await;
    refused.refused(429, "rate_limited");
    assert!(refused.header("retry-after").is_some());
    waits.abort();
}

#[tokio::test]
async fn api_30_a_stream_does_not_take_the_place_of_a_call_that_waits() {
    let few = |options: &mut weft_server::Options| {
        options.waiting_per_key_max = 1;
        options.streams_per_key_max = 1;
    };
    let server = Server::keyed_with(engine().await, few).await;
    let key = server.key(weft_core::command::Scopes::WORK, &["shop"]);
    let _events = crate::notices::Events::of(&server, "pool-1", Some(&key)).await;
    let mut http = server.http_as(&key).await;
    let claim = json!({ "worker": "pool", "instance": "pool-1", "wait_ms": 10 });
    http.post("/v1/work/claim", claim).await.good();
    http.get("/v1/workers/pool-2/notices").await.refused(429, "rate_limited");
}

#[tokio::test]
async fn api_56_a_request_whose_caller_left_is_counted() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let id = http.submit(json!({ "kind": "mail" })).await;
    let mut gone = server.http().await;
    let read = tokio::spawn(async move { gone.get(&format!("/v1/executions/{id}?wait_ms=60000")).await });
    until("the read waits", || server.level("weft_http_in_flight") == 1).await;
    read.abort();
    let line = "weft_http_requests_total{method=\"GET\",route=\"/v1/executions/{execution}\",status=\"499\"} 1";
    until("it is counted", || server.app.metrics_text().contains(line)).await;
}
