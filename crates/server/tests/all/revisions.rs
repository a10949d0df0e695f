//! Revisions: what was read, and calls that count only for that.

use crate::kit::*;
use http::Request;
use serde_json::{Value, json};

#[tokio::test]
async fn api_12_a_call_bound_to_a_revision_counts_only_for_that() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let id = http.submit(json!({ "kind": "mail" })).await;
    let path = format!("/v1/executions/{id}");
    let read = http.get(&path).await;
    let tag = read.header("etag").unwrap().to_string();
    assert_eq!(tag, format!("\"{}\"", read.good()["revision"].as_str().unwrap()));
    let same = http.send(Request::get(&path).header("if-none-match", &tag), "").await;
    assert_eq!((same.status, same.header("etag"), same.body.len()), (304, Some(tag.as_str()), 0));
    let listed = http.get("/v1/executions").await.good();
    assert_eq!(listed["items"][0]["revision"], read.json()["revision"]);
    let priority = format!("{path}/priority");
    let change = json!({ "priority": 7 });
    http.call_with("PUT", &priority, &change, &[("if-match", &tag)]).await.good();
    let late = json!({ "priority": 9 });
    http.call_with("PUT", &priority, &late, &[("if-match", &tag)]).await.refused(412, "revision_mismatch");
    http.call_with("PUT", &priority, &late, &[("if-match", "\"nonsense\"")]).await.refused(412, "revision_mismatch");
    let changed = http.send(Request::get(&path).header("if-none-match", &tag), "").await;
    assert_eq!(changed.good()["priority"], 7);
    http.call_with("PUT", &priority, &late, &[("if-match", "*")]).await.good();
    let end = http.call_with("DELETE", &path, &Value::Null, &[("if-match", &tag)]).await;
    assert!(end.status == 409 || end.status == 412, "{end:?}");
}

#[tokio::test]
async fn api_12_a_list_of_revisions_matches_if_one_of_them_does() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let id = http.submit(json!({ "kind": "mail" })).await;
    let path = format!("/v1/executions/{id}");
    let old = http.get(&path).await.header("etag").unwrap().to_string();
    let priority = format!("{path}/priority");
    http.call("PUT", &priority, &json!({ "priority": 1 })).await.good();
    let new = http.get(&path).await.header("etag").unwrap().to_string();
    let none = format!("{old}, \"nonsense\"");
    let change = json!({ "priority": 2 });
    http.call_with("PUT", &priority, &change, &[("if-match", &none)]).await.refused(412, "revision_mismatch");
    for one in [format!("{old}, {new}"), format!("\"a\",{},\"b\"", "*")] {
        http.call_with("PUT", &priority, &change, &[("if-match", &one)]).await.good();
    }
    assert_eq!(http.get(&path).await.good()["priority"], 2);
    http.call_with("PUT", &priority, &change, &[("if-match", " , ")]).await.refused(400, "invalid_argument");
}

#[tokio::test]
async fn api_12_attempts_and_steps_have_revisions_too() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let id = http.submit(json!({ "kind": "mail" })).await;
    let task = http.claim().await;
    let step = json!({ "steps": [{ "name": "fetch", "value": { "json": 1 } }] });
    http.post("/v1/work/steps", task.held(step)).await.good();
    for path in [format!("/v1/executions/{id}/attempts/0"), format!("/v1/executions/{id}/steps/fetch")] {
        let tag = http.get(&path).await.header("etag").unwrap().to_string();
        let same = http.send(Request::get(&path).header("if-none-match", &tag), "").await;
        assert_eq!(same.status, 304, "{path}");
    }
    let attempt = format!("/v1/executions/{id}/attempts/0");
    let open = http.get(&attempt).await.header("etag").unwrap().to_string();
    http.post("/v1/work/complete", json!({ "items": [task.held(json!({}))] })).await.good();
    assert_ne!(http.get(&attempt).await.header("etag"), Some(open.as_str()));
}

#[tokio::test]
async fn api_12_a_worker_is_read_with_its_revision() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let register = |lane: &str| json!({ "worker": "pool", "instance": "pool-1", "boot_id": "a", "lanes": [lane] });
    http.post("/v1/workers", register("one")).await.good();
    let path = "/v1/workers/pool-1";
    let tag = http.get(path).await.header("etag").unwrap().to_string();
    let same = http.send(Request::get(path).header("if-none-match", &tag), "").await;
    assert_eq!((same.status, same.header("etag"), same.body.len()), (304, Some(tag.as_str()), 0));
    http.post("/v1/workers", register("two")).await.good();
    let changed = http.send(Request::get(path).header("if-none-match", &tag), "").await;
    assert_eq!(changed.good()["lanes"], json!(["two"]));
    assert_ne!(changed.header("etag"), Some(tag.as_str()));
}
