//! Requests that are wrong: the right problem, the connection stays usable, nothing is stored.

use crate::kit::*;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::Request;
use http::request::Builder;
use serde_json::json;
use std::io::Write;

fn post() -> Builder {
    Request::post("/v1/executions").header("content-type", "application/json")
}

fn flow() -> Builder {
    Request::post("/v1/flows").header("content-type", "application/json")
}

/// A flow with these members and edges.
fn graph(keys: &[&str], edges: &[(&str, &str)]) -> String {
    let members: Vec<_> = keys.iter().map(|key| json!({ "key": key, "kind": "a" })).collect();
    let edges: Vec<_> = edges.iter().map(|(from, to)| json!({ "from": from, "to": to })).collect();
    json!({ "kind": "a", "members": members, "edges": edges }).to_string()
}

fn gzip(bytes: &[u8]) -> Bytes {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap().into()
}

/// JSON that is nested so deeply, the value of the input.
fn nested(depth: usize) -> String {
    // The envelope and the payload object are two.
    let depth = depth - 2;
    format!(r#"{{"kind":"a","input":{{"json":{}{}}}}}"#, "[".repeat(depth), "]".repeat(depth))
}

/// A body of exactly so many bytes.
fn sized(bytes: usize) -> String {
    let empty = json!({ "kind": "a", "input": { "text": "" } }).to_string().len();
    json!({ "kind": "a", "input": { "text": "x".repeat(bytes - empty) } }).to_string()
}

/// The largest body of a submission: one input in base64, and its envelope.
const SUBMIT_MAX: usize = (1usize << 20).div_ceil(3) * 4 + (64 << 10);

/// What it is called, what is sent, and the status and code of the answer.
type Wrong = (&'static str, Builder, Bytes, u16, &'static str);

/// Sends all of them over one connection.
async fn refuse_all(http: &mut Http, wrong: Vec<Wrong>) {
    for (name, request, body, status, code) in wrong {
        let answer = http.send(request, body).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{name}: {answer:?}");
        answer.refused(status, code);
        let counted = http.get("/v1/executions/count").await;
        assert_eq!(counted.good()["total"], 0, "{name} stored something");
        assert_eq!(http.get("/v1/flows").await.good(), json!({ "items": [] }), "{name} stored a flow");
    }
}

#[tokio::test]
async fn api_4_each_malformed_request_gets_its_problem_and_stores_nothing() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let wrong: Vec<Wrong> = vec![
        ("unknown field", post(), r#"{"kind":"a","priorty":1}"#.into(), 400, "invalid_argument"),
        ("unknown field inside", post(), r#"{"kind":"a","policy":{"rety":{}}}"#.into(), 400, "invalid_argument"),
        ("wrong type", post(), r#"{"kind":7}"#.into(), 400, "invalid_argument"),
        ("missing field", post(), "{}".into(), 400, "invalid_argument"),
        (
            "unknown word",
            post(),
            r#"{"kind":"a","policy":{"retry":{"jitter":"much"}}}"#.into(),
            400,
            "invalid_argument",
        ),
        ("field twice", post(), r#"{"kind":"a","kind":"b"}"#.into(), 400, "invalid_argument"),
        ("no JSON", post(), "{".into(), 400, "invalid_json"),
        ("more after the end", post(), r#"{"kind":"a"} x"#.into(), 400, "invalid_json"),
        ("bad UTF-8", post(), Bytes::from_static(b"{\"kind\":\"\xff\"}"), 400, "invalid_json"),
        ("depth 65", post(), nested(65).into(), 400, "invalid_json"),
        ("one byte over", post(), sized(SUBMIT_MAX + 1).into(), 413, "payload_too_large"),
        ("input over", post(), sized(SUBMIT_MAX).into(), 413, "payload_too_large"),
        ("bomb", post().header("content-encoding", "gzip"), gzip(&vec![b' '; 8 << 20]), 413, "payload_too_large"),
        ("no gzip", post().header("content-encoding", "gzip"), "{}".into(), 400, "invalid_argument"),
        ("unknown packing", post().header("content-encoding", "br"), "{}".into(), 415, "unsupported_media_type"),
        (
            "wrong content type",
            Request::post("/v1/executions").header("content-type", "text/xml"),
            "<a/>".into(),
            415,
            "unsupported_media_type",
        ),
        ("33 KiB of headers", post().header("x-long", "x".repeat(33 << 10)), "{}".into(), 431, "headers_too_large"),
        (
            "17 KiB of URL",
            Request::get(format!("/v1/executions?lane={}", "x".repeat(17 << 10))),
            "".into(),
            414,
            "uri_too_long",
        ),
        ("unknown parameter", Request::get("/v1/executions?lan=a"), "".into(), 400, "invalid_argument"),
        ("no limit", Request::get("/v1/executions?limit="), "".into(), 400, "invalid_argument"),
        ("limit without a value", Request::get("/v1/executions?limit"), "".into(), 400, "invalid_argument"),
        ("path that is no text", Request::get("/v1/executions/%FF"), "".into(), 400, "invalid_argument"),
        ("filter that is no text", Request::get("/v1/executions?kind=%FF"), "".into(), 400, "invalid_argument"),
        ("tag that is no text", Request::post("/v1/executions?kind=a&tag=a=%FF"), "x".into(), 400, "invalid_argument"),
        ("namespace that is no text", Request::get("/v1/executions?namespace=%FF"), "".into(), 400, "invalid_argument"),
        ("limit 0", Request::get("/v1/executions?limit=0"), "".into(), 400, "invalid_argument"),
        ("limit 1001", Request::get("/v1/executions?limit=1001"), "".into(), 400, "invalid_argument"),
        ("foreign cursor", Request::get("/v1/executions?cursor=AAAA"), "".into(), 400, "invalid_cursor"),
        ("no id", Request::get("/v1/executions/7"), "".into(), 400, "invalid_id"),
        (
            "wait too long",
            Request::get("/v1/executions/x_0_0198f2c4-7a1e-7b6c-9d20-e5b1a4f3c8d7/result?wait_ms=60001"),
            "".into(),
            400,
            "invalid_argument",
        ),
        (
            "both keys",
            post().header("idempotency-key", "a"),
            r#"{"kind":"a","idempotency_key":"b"}"#.into(),
            400,
            "invalid_argument",
        ),
        (
            "long key",
            post().header("idempotency-key", "x".repeat(257)),
            r#"{"kind":"a"}"#.into(),
            400,
            "invalid_argument",
        ),
        (
            "key of a batch",
            Request::post("/v1/executions/batch").header("idempotency-key", "a"),
            r#"{"items":[{"kind":"a"}]}"#.into(),
            400,
            "invalid_argument",
        ),
        ("empty batch", Request::post("/v1/executions/batch"), r#"{"items":[]}"#.into(), 400, "invalid_argument"),
        (
            "batch of 1001",
            Request::post("/v1/executions/batch"),
            json!({ "items": vec![json!({ "kind": "a" }); 1001] }).to_string().into(),
            400,
            "invalid_argument",
        ),
        (
            "bad namespace",
            post().header("weft-namespace", "Not A Name"),
            r#"{"kind":"a"}"#.into(),
            400,
            "invalid_argument",
        ),
        (
            "key of a read",
            Request::get("/v1/executions").header("idempotency-key", "a"),
            "".into(),
            400,
            "invalid_argument",
        ),
        ("body of a read", Request::get("/v1/executions"), "{}".into(), 400, "invalid_argument"),
        ("unknown raw field", Request::post("/v1/executions?kind=a&lan=b"), "x".into(), 400, "invalid_argument"),
    ];
    refuse_all(&mut http, wrong).await;
    http.send(post(), nested(64)).await.good();
    let told = http.send(post(), r#"{"kind":"a","priorty":1}"#).await.json();
    assert_eq!(
        (told["fields"]["field"].as_str(), told["fields"]["did_you_mean"].as_str()),
        (Some("priorty"), Some("priority"))
    );
}

#[tokio::test]
async fn api_4_each_malformed_request_about_flows_gets_its_problem_and_stores_nothing() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let wrong: Vec<Wrong> = vec![
        (
            "member's unknown field",
            flow(),
            r#"{"kind":"a","members":[{"key":"a","kind":"b","lan":"c"}]}"#.into(),
            400,
            "invalid_argument",
        ),
        (
            "unknown policy",
            flow(),
            r#"{"kind":"a","failure_policy":{"kind":"fail_slow"}}"#.into(),
            422,
            "unknown_policy",
        ),
        ("no member", flow(), r#"{"kind":"a"}"#.into(), 422, "empty_flow"),
        ("member twice", flow(), graph(&["a", "a"], &[]).into(), 422, "duplicate_node"),
        ("member that is not there", flow(), graph(&["a"], &[("a", "b")]).into(), 422, "unknown_node"),
        ("edge to itself", flow(), graph(&["a"], &[("a", "a")]).into(), 422, "self_edge"),
        ("edge twice", flow(), graph(&["a", "b"], &[("a", "b"), ("a", "b")]).into(), 422, "duplicate_edge"),
        ("cycle", flow(), graph(&["a", "b"], &[("a", "b"), ("b", "a")]).into(), 422, "cycle"),
        (
            "bad member",
            flow(),
            r#"{"kind":"a","members":[{"key":"a","kind":"b","priority":9001}]}"#.into(),
            400,
            "invalid_argument",
        ),
        ("criticality of no member", post(), r#"{"kind":"a","critical":true}"#.into(), 400, "invalid_argument"),
        ("no id of a flow", Request::get("/v1/flows/7"), "".into(), 400, "invalid_id"),
        (
            "id of something else",
            Request::get("/v1/flows/x_0_0198f2c4-7a1e-7b6c-9d20-e5b1a4f3c8d7"),
            "".into(),
            400,
            "invalid_id",
        ),
        ("flows by a foreign cursor", Request::get("/v1/flows?cursor=AAAA"), "".into(), 400, "invalid_cursor"),
        ("unknown state of a flow", Request::get("/v1/flows?state=waiting"), "".into(), 400, "invalid_argument"),
    ];
    refuse_all(&mut http, wrong).await;
}

#[tokio::test]
async fn api_3_a_flow_may_be_as_large_as_a_batch_and_no_larger() {
    let server = Server::dev().await;
    let sized = |bytes: usize| {
        let body = |name: &str| json!({ "kind": "a", "name": name }).to_string();
        body(&"x".repeat(bytes - body("").len()))
    };
    let over = server.http().await.send(flow(), sized((16 << 20) + 1)).await;
    assert_eq!(over.refused(413, "payload_too_large")["fields"]["field"], "body");
    let whole = server.http().await.send(flow(), sized(16 << 20)).await;
    assert_eq!(whole.refused(413, "payload_too_large")["fields"]["field"], "name", "it was read");
}

#[tokio::test]
async fn api_4_a_head_that_cannot_be_read_gets_a_problem_too() {
    let server = Server::dev().await;
    let many =
        |count: usize| (0..count).fold(Request::get("/healthz"), |request, n| request.header(format!("x-{n}"), "a"));
    let mut http = server.http().await;
    assert_eq!(http.send(many(400), "").await.status, 200, "many are not too many");
    for (name, request, status, code) in [
        ("many headers", many(3_000), 431, "headers_too_large"),
        ("70 KiB of headers", Request::get("/healthz").header("x", "x".repeat(70 << 10)), 431, "headers_too_large"),
        ("40 KiB of URL", Request::get(format!("/v1/executions?lane={}", "x".repeat(40 << 10))), 414, "uri_too_long"),
    ] {
        let answer = server.http().await.send(request, "").await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{name}: {answer:?}");
        answer.refused(status, code);
    }
    let url = "x".repeat(70 << 10);
    for (sent, status, code) in [
        (format!("GET /{url} HTTP/1.1\r\nhost: localhost\r\n\r\n"), "414", "uri_too_long"),
        (format!("GET /{}{url}", "x".repeat(1 << 20)), "414", "uri_too_long"),
        ("GET /\u{1} HTTP/1.1\r\nhost: localhost\r\n\r\n".to_string(), "400", "invalid_argument"),
        ("nonsense\r\n\r\n".to_string(), "400", "invalid_argument"),
        ("GET /healthz HTTP/1.1\r\n\r\n".to_string(), "400", "invalid_argument"),
    ] {
        let answer = said(&server, &sent).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        assert!(answer.contains("content-type: application/problem+json\r\n"), "{answer}");
        assert!(answer.contains("x-request-id: ") && answer.contains(&format!("\"code\":\"{code}\"")), "{answer}");
    }
}

#[tokio::test]
async fn a_malformed_chunk_is_the_callers_fault_and_is_named() {
    let server = Server::dev().await;
    let head = "POST /v1/executions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    for (chunks, cause) in [
        ("ZZ\r\n{}\r\n0\r\n\r\n".to_string(), "size"),
        (format!("ZZ\r\n{}", "x".repeat(1 << 20)), "size"),
        ("2\r\n{}and more\r\n0\r\n\r\n".to_string(), "chunk body"),
        ("fffffffffffffffff\r\n{}\r\n".to_string(), "overflow"),
    ] {
        let answer = said(&server, &format!("{head}{chunks}")).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("connection: close\r\n"), "{answer}");
        assert!(answer.contains(r#""code":"invalid_argument""#) && answer.contains(r#""field":"body""#), "{answer}");
        assert!(answer.contains(cause), "{cause}: {answer}");
    }
    let cut_off = said(&server, &format!("{head}2\r\n{{")).await;
    assert!(cut_off.starts_with("HTTP/1.1 408 "), "{cut_off}");
}

/// What the server says to these bytes before it is told that no more come.
async fn said(server: &Server, bytes: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let (mut read, mut write) = stream.split();
    let send = async {
        write.write_all(bytes.as_bytes()).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let mut answer = String::new();
    let (_, got) = within(async { tokio::join!(send, read.read_to_string(&mut answer)) }).await;
    got.unwrap();
    answer
}

#[tokio::test]
async fn ex_8_an_option_without_effect_is_refused() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let id = http.submit(json!({ "kind": "mail" })).await;
    http.post("/v1/workers", json!({ "worker": "pool", "instance": "pool-1", "boot_id": "a" })).await.good();
    let claim = json!({ "worker": "pool", "instance": "pool-1", "execution": id });
    let with = |field: &str, value: serde_json::Value| {
        let mut claim = claim.clone();
        claim[field] = value;
        claim
    };
    let mut ignored = with("capabilities", json!(["gpu"]));
    ignored["ignore_capabilities"] = json!(true);
    for (path, body, field) in [
        ("/v1/work/claim", with("max_bytes", json!(5)), "max_bytes"),
        ("/v1/work/claim", ignored, "capabilities"),
        ("/v1/work/claim", json!({ "worker": "pool", "instance": "pool-1", "lanes": [] }), "lanes"),
        ("/v1/work/claim", json!({ "worker": "pool", "instance": "pool-1", "kinds": [] }), "kinds"),
        ("/v1/workers", json!({ "worker": "pool", "instance": "pool-1", "boot_id": "a", "lanes": [] }), "lanes"),
        ("/v1/workers/pool-1/heartbeat", json!({ "session": 1, "renew_ms": 30000 }), "renew_ms"),
        ("/v1/workers/undrain", json!({ "instance": "pool-1", "reason": "x" }), "reason"),
        ("/v1/workers/undrain", json!({ "instance": "pool-1", "deadline_ms": 5 }), "deadline_ms"),
    ] {
        let refused = http.post(path, body).await.refused(400, "invalid_argument");
        assert_eq!(refused["fields"]["field"], field, "{path}");
    }
}

#[tokio::test]
async fn sd_31_a_claim_by_id_is_told_what_its_own_worker_lacks() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let id = http.submit(json!({ "kind": "train", "capabilities": ["gpu"] })).await;
    // Another one could take it.
    let able =
        json!({ "worker": "pool", "instance": "able", "boot_id": "a", "lanes": ["default"], "capabilities": ["gpu"] });
    http.post("/v1/workers", able).await.good();
    let claim = json!({ "worker": "pool", "instance": "poor", "execution": id });
    let refused = http.post("/v1/work/claim", claim).await.refused(409, "not_claimable");
    assert_eq!(refused["fields"]["reasons"], json!(["no_worker"]));
}
