//! A server that asks for no keys answers its own machine only.

use crate::kit::*;
use http::Request;
use serde_json::json;
use weft_server::{App, ListenError, Listener, Options};

#[tokio::test]
async fn api_26_a_foreign_host_or_origin_is_refused() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let (own, own_with_tls) = (format!("http://{}", server.address), format!("https://{}", server.address));
    for (name, value, good) in [
        ("host", "localhost:7700", true),
        ("host", "LOCALHOST", true),
        ("host", "[::1]:7700", true),
        ("host", "evil.example", false),
        ("host", "127.0.0.1.evil.example", false),
        ("origin", own.as_str(), true),
        ("origin", own_with_tls.as_str(), false),
        ("origin", "http://localhost:3000", false),
        ("origin", "http://127.0.0.1:3000", false),
        ("origin", "http://127.0.0.1", false),
        ("origin", "https://evil.example", false),
        ("origin", "null", false),
    ] {
        for path in ["/v1/executions", "/docs", "/metrics", "/v1/openapi.json", "/v1/workers/a/notices?x=1"] {
            let answer = http.send(Request::get(path).header(name, value), "").await;
            assert_eq!(answer.status == 403, !good, "{name}: {value} {path} {answer:?}");
        }
    }
    for page in ["https://evil.example", "http://localhost:3000"] {
        let submit = Request::post("/v1/executions").header("origin", page);
        let refused = http.send(submit, json!({ "kind": "mail" }).to_string()).await.refused(403, "forbidden");
        let (detail, hint) = (refused["detail"].to_string(), refused["hint"].to_string());
        assert!(detail.contains(page) && detail.contains(&own) && hint.contains("server.cors_origins"), "{refused}");
    }
    assert_eq!(http.get("/v1/executions/count").await.good()["total"], 0, "nothing was stored");
}

#[tokio::test]
async fn api_26_a_server_without_keys_listens_on_this_machine_only() {
    let app = App::new(engine().await, Options::dev());
    let open = Listener::bind(&app, ([0, 0, 0, 0], 0).into(), None).await;
    assert!(matches!(open, Err(ListenError::Open { .. })));
}

#[tokio::test]
async fn api_23_without_a_header_the_default_namespace_is_meant() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let id = http.submit(json!({ "kind": "mail" })).await;
    assert_eq!(http.get(&format!("/v1/executions/{id}")).await.good()["namespace"], "default");
    let shop =
        http.call_with("POST", "/v1/executions", &json!({ "kind": "mail" }), &[("weft-namespace", "shop")]).await;
    let shop = shop.good()["id"].as_str().unwrap().to_string();
    http.get(&format!("/v1/executions/{shop}")).await.refused(404, "execution_not_found");
    let found = http.get(&format!("/v1/executions/{shop}?namespace=shop")).await.good();
    assert_eq!(found["namespace"], "shop");
    let names = http.get("/v1/namespaces").await.good();
    assert_eq!((&names["items"][0]["name"], &names["items"][1]["name"]), (&json!("default"), &json!("shop")));
    let both = http.call_with("GET", "/v1/executions?namespace=a", &json!(null), &[("weft-namespace", "b")]).await;
    both.refused(400, "invalid_argument");
}

#[tokio::test]
async fn api_53_a_page_that_is_listed_may_call_a_server_without_keys() {
    let page = "http://localhost:3000";
    let options =
        Options { cors_origins: weft_server::Origins::parse(&[page.to_string()], true).unwrap(), ..Options::dev() };
    let server = Server::start(engine().await, options).await;
    let mut http = server.http().await;
    let answer = http.send(Request::get("/v1/executions").header("origin", page), "").await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some(page)));
    let other = http.send(Request::get("/v1/executions").header("origin", "https://evil.example"), "").await;
    other.refused(403, "forbidden");
}
