//! Bodies that nobody reads: the connection stays good, or its caller is told that it does not.

use crate::kit::*;
use http::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weft_core::command::Scopes;

#[tokio::test]
async fn a_refusal_before_the_body_was_read_leaves_the_connection_usable() {
    let server = Server::keyed().await;
    let mut http = server.http().await;
    let post = |path: &str| Request::post(path).header("content-type", "application/json");
    let body = "x".repeat(1 << 20);
    let forbidden = server.key(Scopes::SUBMIT, &["shop"]);
    for (path, key, status) in [
        ("/v1/executions", None, 401),
        ("/v1/work/claim", Some(&forbidden), 403),
        ("/v1/nowhere", None, 404),
        ("/healthz", None, 405),
        ("/v1/executions/count", None, 405),
    ] {
        http.key = key.cloned();
        let answer = http.send(post(path), body.clone()).await;
        assert_eq!((answer.status, answer.header("connection")), (status, None), "{path} {answer:?}");
        assert_eq!(http.get("/healthz").await.status, 200, "{path}");
    }
    http.key = Some(forbidden);
    for over in [1, 1000] {
        http.send(post("/v1/executions"), " ".repeat((1usize << 20).div_ceil(3) * 4 + (64 << 10) + over))
            .await
            .refused(413, "payload_too_large");
        assert_eq!(http.get("/healthz").await.status, 200);
    }
}

#[tokio::test]
async fn a_body_that_is_far_too_large_is_answered_and_its_connection_said_to_end() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let answer = http.send(Request::post("/v1/executions"), vec![b' '; 8 << 20]).await;
    answer.refused(413, "payload_too_large");
    assert_eq!(answer.header("connection"), Some("close"));
}

#[tokio::test]
async fn a_body_that_is_sent_on_demand_is_not_asked_for_to_be_thrown_away() {
    let server = Server::keyed().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /v1/executions HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("connection: close"), "{answer}");
}

#[tokio::test]
async fn api_3_a_body_of_one_byte_more_than_the_limit_is_refused() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let padded = |size: usize| format!(r#"{{"kind":"a"}}{}"#, " ".repeat(size - 12));
    let limit = (1 << 20) + (64 << 10);
    let post = || Request::post("/v1/executions").header("content-type", "application/json");
    http.send(post(), padded(limit)).await.good();
    let refused = http.send(post(), padded(limit + 1)).await.refused(413, "payload_too_large");
    assert_eq!(
        (refused["fields"]["limit"].as_u64(), refused["fields"]["got"].as_u64()),
        (Some(1_114_112), Some(1_114_113))
    );
    assert_eq!(http.get("/v1/executions/count").await.good()["total"], 1);
}
