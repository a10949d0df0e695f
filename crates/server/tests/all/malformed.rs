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

#[tokio::test]
async fn api_4_each_malformed_request_gets_its_problem_and_stores_nothing() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let wrong: Vec<(&str, Builder, Bytes, u16, &str)> = vec![
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
    for (name, request, body, status, code) in wrong {
        let answer = http.send(request, body).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{name}: {answer:?}");
        answer.refused(status, code);
        let counted = http.try_send(Request::get("/v1/executions/count"), "").await;
        let mut counted = match counted {
            Ok(counted) => counted,
            // What was not read of a body that is too large ends the connection; the next one is good.
            Err(_) => {
                assert_eq!(status, 413, "{name} ended the connection");
                http = server.http().await;
                http.get("/v1/executions/count").await
            }
        };
        counted.headers.clear();
        assert_eq!(counted.good()["total"], 0, "{name} stored something");
    }
    http.send(post(), nested(64)).await.good();
    let told = http.send(post(), r#"{"kind":"a","priorty":1}"#).await.json();
    assert_eq!(
        (told["fields"]["field"].as_str(), told["fields"]["did_you_mean"].as_str()),
        (Some("priorty"), Some("priority"))
    );
}
