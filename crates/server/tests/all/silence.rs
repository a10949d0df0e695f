//! Connections on which nothing is said, and those on which something is awaited.

use crate::kit::*;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weft_server::{Options, Silence};

const HEAD: Duration = Duration::from_millis(150);
const IDLE: Duration = Duration::from_millis(800);
/// Longer than any test has patience.
const NEVER: Duration = Duration::from_secs(600);

async fn server(head: Duration, idle: Duration) -> Server {
    Server::start(engine().await, Options { silence: Silence { head, idle }, ..Options::dev() }).await
}

/// How long the server leaves a connection open after `bytes`; what it answers is read.
async fn open_for(server: &Server, bytes: &[u8]) -> Duration {
    // Before the server can have begun to count.
    let began = Instant::now();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    // Closed or reset: it is gone either way.
    let _ = within(stream.read_to_end(&mut answer)).await;
    began.elapsed()
}

#[tokio::test]
async fn api_52_a_connection_without_a_request_is_closed_after_the_time_of_a_head() {
    let server = server(HEAD, NEVER).await;
    for bytes in ["", "P", "PRI * HT", "GET /heal", "GET /healthz HTTP/1.1\r\nhost: local"] {
        let open = open_for(&server, bytes.as_bytes()).await;
        assert!(open >= HEAD, "{bytes}: {open:?}");
    }
}

const WHOLE: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[tokio::test]
async fn api_52_a_connection_that_was_used_is_closed_after_the_longer_time() {
    let server = server(HEAD, IDLE).await;
    let open = open_for(&server, WHOLE).await;
    assert!(open >= IDLE, "{open:?}");
}

#[tokio::test]
async fn api_52_the_next_request_has_the_time_of_a_head_from_its_first_byte() {
    let server = server(HEAD, NEVER).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(WHOLE).await.unwrap();
    let mut answer = [0; 4096];
    assert!(within(stream.read(&mut answer)).await.unwrap() > 0);
    let more = tokio::time::timeout(2 * HEAD, stream.read(&mut answer)).await;
    assert!(more.is_err(), "it stays open between requests: {more:?}");
    let began = Instant::now();
    stream.write_all(b"GET /heal").await.unwrap();
    let _ = within(stream.read_to_end(&mut Vec::new())).await;
    assert!(began.elapsed() >= HEAD, "{:?}", began.elapsed());
}

#[tokio::test]
async fn api_52_nothing_is_cut_while_a_call_waits() {
    let server = server(HEAD, IDLE).await;
    let mut http = server.http().await;
    let claim = json!({ "worker": "pool", "instance": "pool-1", "wait_ms": 1000 });
    assert_eq!(http.post("/v1/work/claim", claim).await.good()["draining"], false);
    assert_eq!(http.get("/healthz").await.status, 200, "and the connection is good afterwards");
    let mut events = crate::notices::Events::of(&server, "pool-1", None).await;
    assert_eq!(events.next().await.as_deref(), Some("retry: 2000"));
    let end = tokio::time::timeout(2 * IDLE, events.next()).await;
    assert!(end.is_err(), "the stream ended: {end:?}");
}

#[tokio::test]
async fn api_52_http_2_is_closed_when_no_request_came_for_the_longer_time() {
    let server = server(HEAD, IDLE).await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let mut ended = tokio::spawn(connection);
    let url = format!("http://{}/healthz", server.address);
    for _ in 0..3 {
        let early = tokio::time::timeout(2 * HEAD, &mut ended).await;
        assert!(early.is_err(), "it stays open between requests: {early:?}");
        let request = http::Request::get(&url).body(Full::<bytes::Bytes>::default()).unwrap();
        let response = within(sender.send_request(request)).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "ok\n");
    }
    let began = Instant::now();
    let _ = within(ended).await.unwrap();
    assert!(began.elapsed() >= IDLE / 2, "{:?}", began.elapsed());
}
