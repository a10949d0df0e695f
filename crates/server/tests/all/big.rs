//! Large numbers, for programs that cannot hold them.

use crate::kit::*;
use serde_json::{Value, json};

const BIG: &[(&str, &str)] = &[("weft-big", "text")];

#[tokio::test]
async fn api_4_whoever_asks_gets_and_gives_large_numbers_as_text() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let huge = u64::MAX - 1;
    let stale = |epoch: Value| json!({ "worker": "a", "instance": "b", "session": epoch });
    // A number is taken as it is; text only from who says so.
    http.post("/v1/work/claim", stale(json!(huge.to_string()))).await.refused(400, "invalid_argument");
    let taken = http.call_with("POST", "/v1/work/claim", &stale(json!(huge.to_string())), BIG).await;
    assert_ne!(taken.code(), "invalid_argument", "{taken:?}");
    let plain = http.post("/v1/work/claim", stale(json!(huge))).await;
    assert_eq!((plain.status, plain.code()), (taken.status, taken.code()));
    let wrong = http.call_with("GET", "/v1/executions", &Value::Null, &[("weft-big", "number")]).await;
    assert_eq!(wrong.refused(400, "invalid_argument")["fields"]["field"], "Weft-Big");
}

#[tokio::test]
async fn api_4_bytes_of_a_caller_are_never_rewritten() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let input = r#"{"n" : 9007199254740993}"#;
    let request = http::Request::post("/v1/executions?kind=mail").header("content-type", "application/json");
    let id = http.send(request, input).await.good()["id"].as_str().unwrap().to_string();
    let raw = http.call_with("GET", &format!("/v1/executions/{id}/input"), &Value::Null, BIG).await;
    assert_eq!(raw.body, input);
    let path = format!("/v1/executions/{id}?include=input");
    let whole = http.call_with("GET", &path, &Value::Null, BIG).await;
    let text = String::from_utf8(whole.body.to_vec()).unwrap();
    assert!(text.contains(&format!(r#""input":{{"json":{input}}}"#)), "{text}");
    // A filter of a bulk job comes back as it was given: a number that is ours.
    let bulk = json!({ "filter": { "lane": "none" }, "verb": "cancel", "max": u64::MAX.to_string() });
    let job = http.call_with("POST", "/v1/bulk", &bulk, BIG).await.good();
    assert_eq!(job["max"], u64::MAX.to_string());
    let job = http.get(&format!("/v1/bulk/{}", job["id"].as_str().unwrap())).await.good();
    assert_eq!(job["max"], u64::MAX);
}
