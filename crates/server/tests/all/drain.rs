//! Stopping under load.

use crate::kit::*;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weft_server::{Options, Stopped};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_54_a_server_that_stops_loses_no_answer_and_lets_waiting_claims_go() {
    let mut server = Server::dev().await;
    let waits: Vec<_> = (0..20)
        .map(|number| {
            let address = server.address;
            tokio::spawn(async move {
                let mut http = Http::connect(address).await;
                let lane = json!([{ "lane": "nothing" }]);
                let claim =
                    json!({ "worker": "p", "instance": format!("p-{number}"), "lanes": lane, "wait_ms": 60000 });
                http.post("/v1/work/claim", claim).await
            })
        })
        .collect();
    let made = Arc::new(AtomicUsize::new(0));
    let submitters: Vec<_> = (0..4)
        .map(|_| {
            let (address, made) = (server.address, made.clone());
            tokio::spawn(async move {
                let mut http = Http::connect(address).await;
                let mut ids = Vec::new();
                loop {
                    let request = http::Request::post("/v1/executions");
                    match http.try_send(request, r#"{"kind":"mail"}"#).await {
                        Ok(answer) if answer.status == 201 => {
                            ids.push(answer.json()["id"].as_str().unwrap().to_string());
                            made.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(answer) => {
                            answer.refused(503, "draining");
                            assert!(answer.header("retry-after").is_some());
                            return ids;
                        }
                        // A connection that idles is closed.
                        Err(_) => return ids,
                    }
                }
            })
        })
        .collect();
    until("all claims wait", || server.level("weft_claims_waiting") == 20).await;
    until("work comes in", || made.load(Ordering::Relaxed) > 100).await;
    assert_eq!(server.stop().await, Stopped::Clean);
    for wait in waits {
        let claimed = within(wait).await.unwrap().good();
        assert_eq!((claimed["executions"].as_array().unwrap().len(), &claimed["draining"]), (0, &json!(true)));
    }
    let client = server.app.engine().client("default").unwrap();
    for submitter in submitters {
        for id in within(submitter).await.unwrap() {
            client.get(id.parse().unwrap()).await.expect("what was acknowledged is there");
        }
    }
    within(server.app.engine().shutdown()).await;
}

#[tokio::test]
async fn api_54_while_it_stops_a_node_says_so() {
    let engine = slow_engine(weft_engine::Config::default(), 300).await;
    let mut server = Server::start(engine, weft_server::Options::dev()).await;
    let (mut busy, mut http) = (server.http().await, server.http().await);
    // A call that is on its way keeps the server from being gone at once.
    let last = tokio::spawn(async move { busy.post("/v1/executions", json!({ "kind": "mail" })).await });
    until("it is on its way", || server.level("weft_http_in_flight") == 1).await;
    server.begin_stop();
    let began = std::time::Instant::now();
    loop {
        let ready = http.get("/readyz").await;
        if ready.status == 503 && ready.json()["why"].to_string().contains("draining") {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{ready:?}");
    }
    http.post("/v1/executions", json!({ "kind": "mail" })).await.refused(503, "draining");
    assert_eq!(within(last).await.unwrap().status, 201);
    assert_eq!(server.stop().await, Stopped::Clean);
}

#[tokio::test]
async fn api_54_a_request_that_was_sent_half_does_not_hold_up_the_stop() {
    let options = Options { drain: Duration::from_secs(15), ..Options::dev() };
    let mut server = Server::start(engine().await, options).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /v1/executions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    until("it is on its way", || server.level("weft_http_in_flight") == 1).await;
    assert_eq!(server.stop().await, Stopped::Clean);
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains(r#""code":"draining""#), "{answer}");
}
