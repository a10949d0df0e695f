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
