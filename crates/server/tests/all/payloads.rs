//! Bytes come back as they went in, in every form.

use crate::kit::*;
use http::Request;
use serde_json::json;

#[tokio::test]
async fn api_5_all_byte_values_go_through_json_and_raw_forms_and_back() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let all: Vec<u8> = (0..=255).collect();
    let base64 = data_encoding::BASE64.encode(&all);
    let as_json = http.submit(json!({ "kind": "a", "input": { "base64": base64, "type": "image/png" } })).await;
    let raw = Request::post("/v1/executions?kind=a").header("content-type", "image/png");
    let as_raw = http.send(raw, all.clone()).await.good()["id"].as_str().unwrap().to_string();
    for id in [&as_json, &as_raw] {
        let bytes = http.get(&format!("/v1/executions/{id}/input")).await;
        assert_eq!((&bytes.body[..], bytes.header("content-type")), (&all[..], Some("image/png")));
        let got = http.get(&format!("/v1/executions/{id}?include=input")).await.good();
        assert_eq!(got["input"], json!({ "base64": base64, "type": "image/png" }));
        let tag = bytes.header("etag").unwrap();
        let again =
            http.send(Request::get(format!("/v1/executions/{id}/input")).header("if-none-match", tag), "").await;
        assert_eq!((again.status, again.body.len()), (304, 0));
    }
    // The result goes the other way round: one in the raw form, one in JSON.
    let task = http.claim().await;
    let lease = &task.0["lease"];
    let path = format!(
        "/v1/work/complete?execution={}&lease={}&epoch={}",
        task.execution(),
        lease["id"].as_str().unwrap(),
        lease["epoch"]
    );
    let done = http.send(Request::post(path).header("content-type", "application/x-thing"), all.clone()).await;
    assert_eq!(done.good()["outcome"], "success");
    let result = http.get(&format!("/v1/executions/{}/result", task.execution())).await;
    assert_eq!((&result.body[..], result.header("content-type")), (&all[..], Some("application/x-thing")));
    let task = http.claim().await;
    let item = task.held(json!({ "result": { "base64": base64 } }));
    let done = http.post("/v1/work/complete", json!({ "items": [item] })).await.good();
    assert_eq!(done["results"][0]["ok"]["outcome"], "success");
    let result = http.get(&format!("/v1/executions/{}/result", task.execution())).await;
    assert_eq!(&result.body[..], &all[..]);
}

#[tokio::test]
async fn api_5_a_number_keeps_every_digit_and_an_object_its_spaces() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let value = r#"{"b" : 1.0000000000000000001,"a":[ ]}"#;
    let body = format!(r#"{{"kind":"a","input":{{"json":{value}}}}}"#);
    let made = http.send(Request::post("/v1/executions").header("content-type", "application/json"), body).await;
    let id = made.good()["id"].as_str().unwrap().to_string();
    assert_eq!(&http.get(&format!("/v1/executions/{id}/input")).await.body[..], value.as_bytes());
    let got = http.get(&format!("/v1/executions/{id}?include=input")).await;
    assert!(String::from_utf8(got.body.to_vec()).unwrap().contains(value));
}

#[tokio::test]
async fn api_6_nothing_and_nothing_in_it_are_not_the_same() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let absent = http.submit(json!({ "kind": "a" })).await;
    let empty = http.submit(json!({ "kind": "a", "input": { "base64": "" } })).await;
    assert_eq!(http.get(&format!("/v1/executions/{absent}/input")).await.status, 204);
    let empty = http.get(&format!("/v1/executions/{empty}/input")).await;
    assert_eq!((empty.status, empty.body.len()), (200, 0));
}

#[tokio::test]
async fn api_7_packed_bodies_are_taken_and_large_replies_packed_for_those_who_can_read_them() {
    use flate2::{Compression, read::GzDecoder, write::GzEncoder};
    use std::io::{Read, Write};
    let server = Server::dev().await;
    let mut http = server.http().await;
    let text: String = (0..20_000).map(|n| format!("{n} ")).collect();
    let body = json!({ "kind": "a", "input": { "text": text } }).to_string();
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(body.as_bytes()).unwrap();
    let submit = Request::post("/v1/executions").header("content-encoding", "gzip");
    let id = http.send(submit, packer.finish().unwrap()).await.good()["id"].as_str().unwrap().to_string();
    let get = Request::get(format!("/v1/executions/{id}/input")).header("accept-encoding", "br, gzip");
    let packed = http.send(get, "").await;
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    let mut unpacked = String::new();
    GzDecoder::new(&packed.body[..]).read_to_string(&mut unpacked).unwrap();
    assert_eq!(unpacked, text);
    assert_eq!(http.get(&format!("/v1/executions/{id}/input")).await.header("content-encoding"), None);
}

#[tokio::test]
async fn api_7_every_reply_of_a_size_worth_it_is_packed() {
    use flate2::read::GzDecoder;
    use std::io::Read;
    let server = Server::dev().await;
    let mut http = server.http().await;
    for n in 0..5 {
        http.submit(json!({ "kind": "a", "tags": { "n": n.to_string() } })).await;
    }
    for path in ["/v1/executions", "/v1/openapi.json", "/docs", "/metrics"] {
        let packed = http.send(Request::get(path).header("accept-encoding", "gzip, deflate"), "").await;
        assert_eq!((packed.header("content-encoding"), packed.header("vary")), (Some("gzip"), Some("accept-encoding")));
        let mut unpacked = Vec::new();
        GzDecoder::new(&packed.body[..]).read_to_end(&mut unpacked).unwrap();
        assert!(unpacked.len() > packed.body.len(), "{path}");
        let plain = http.send(Request::get(path).header("accept-encoding", "gzip;q=0"), "").await;
        assert_eq!(plain.header("content-encoding"), None, "{path}");
        if path != "/metrics" {
            assert_eq!(plain.body, unpacked, "{path}");
        }
    }
    let packed = http.send(Request::get("/docs").header("accept-encoding", "gzip, zstd"), "").await;
    assert_eq!(packed.header("content-encoding"), Some("zstd"));
    assert_eq!(zstd::decode_all(&packed.body[..]).unwrap(), http.get("/docs").await.body);
    let small = http.send(Request::get("/healthz").header("accept-encoding", "gzip"), "").await;
    assert_eq!(small.header("content-encoding"), None);
}

#[tokio::test]
async fn api_6_fields_of_the_raw_form_may_be_headers() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let submit = Request::post("/v1/executions?priority=7")
        .header("weft-kind", "mail")
        .header("weft-lane", "bulk")
        .header("weft-priority", "7")
        .header("weft-tag", "a=b & c")
        .header("weft-tag", "d=e")
        .header("content-type", "image/png");
    let id = http.send(submit, "bytes").await.good()["id"].as_str().unwrap().to_string();
    let got = http.get(&format!("/v1/executions/{id}?include=tags")).await.good();
    assert_eq!((&got["kind"], &got["lane"], &got["priority"]), (&json!("mail"), &json!("bulk"), &json!(7)));
    assert_eq!(got["tags"], json!({ "a": "b & c", "d": "e" }));
    assert_eq!(&http.get(&format!("/v1/executions/{id}/input")).await.body[..], b"bytes");
    let refused = [
        Request::post("/v1/executions?kind=a").header("weft-kind", "b"),
        Request::post("/v1/executions").header("weft-kind", "a").header("weft-lan", "b"),
        Request::post("/v1/executions?kind=a&idempotency_key=k").header("idempotency-key", "other"),
    ];
    for request in refused {
        http.send(request, "bytes").await.refused(400, "invalid_argument");
    }
    let mut ids = Vec::new();
    for request in [
        Request::post("/v1/executions?kind=a&idempotency_key=order%2017"),
        Request::post("/v1/executions?kind=a").header("idempotency-key", "order 17"),
        Request::post("/v1/executions?kind=a").header("weft-idempotency-key", "order 17"),
    ] {
        ids.push(http.send(request, "bytes").await.good()["id"].clone());
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[tokio::test]
async fn ex_6_checkpoints_and_failure_details_come_back_as_what_they_were() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let id = http.submit(json!({ "kind": "a" })).await;
    let task = http.claim().await;
    assert_eq!(task.0["lease"]["generation"], 0, "RL-5: it goes before the epoch");
    let picture = json!({ "base64": "iVBORw==", "type": "image/png" });
    http.post("/v1/work/progress", task.held(json!({ "checkpoint": picture }))).await.good();
    let saved = http.get(&format!("/v1/executions/{id}/checkpoint")).await;
    assert_eq!((&saved.body[..], saved.header("content-type")), (&b"\x89PNG"[..], Some("image/png")));
    let looks_like_json = json!({ "text": "17" });
    let fail = task.held(json!({ "message": "no", "detail": looks_like_json, "retry": { "after_ms": 0 } }));
    for repeated in [json!(null), json!(true)] {
        let failed = http.post("/v1/work/fail", json!({ "items": [fail] })).await.good();
        assert_eq!(failed["results"][0]["ok"]["retries_left"], 2);
        assert_eq!(failed["results"][0]["ok"]["repeated"], repeated, "EX-22");
    }
    let next = http.claim().await;
    assert_eq!(next.0["checkpoint"]["value"], picture);
    let attempt = http.get(&format!("/v1/executions/{id}/attempts/0")).await;
    assert_eq!(attempt.good()["failure"]["detail"], looks_like_json);
    let listed = http.get(&format!("/v1/executions/{id}/attempts")).await.good();
    assert_eq!(
        listed["items"][0]["failure"],
        json!({ "category": "application", "message": "no", "retry_at": listed["items"][0]["failure"]["retry_at"] })
    );
    let listed = http.get(&format!("/v1/executions/{id}/attempts?include=detail&limit=1")).await.good();
    assert_eq!(listed["items"][0]["failure"]["detail"], looks_like_json);
    assert!(listed["next_cursor"].is_string());
    let delay = next.held(json!({ "delay_ms": 0 }));
    let settled = json!({ "items": [{ "verb": "delay", "execution": delay["execution"], "lease": delay["lease"], "epoch": delay["epoch"], "delay_ms": 0 }] });
    for repeated in [json!(null), json!(true)] {
        let answer = http.post("/v1/work/settle", settled.clone()).await.good();
        assert_eq!(answer["results"][0]["ok"]["repeated"], repeated, "{answer}");
    }
}
