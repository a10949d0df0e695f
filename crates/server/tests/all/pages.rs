//! What the server answers by itself.

use crate::kit::*;
use http::Request;
use weft_core::command::Scopes;
use weft_server::Listener;

#[tokio::test]
async fn api_27_health_and_readiness_need_no_key() {
    let server = Server::keyed().await;
    let mut http = server.http().await;
    let health = http.get("/healthz").await;
    assert_eq!((health.status, &health.body[..]), (200, &b"ok\n"[..]));
    loop {
        let ready = http.get("/readyz").await;
        if ready.status == 200 {
            assert_eq!(ready.json(), serde_json::json!({ "ready": true }));
            break;
        }
        assert_eq!(ready.json(), serde_json::json!({ "ready": false, "why": ["starting"] }));
    }
}

#[tokio::test]
async fn api_27_a_node_that_is_not_ready_says_why_in_a_word_and_more_to_operators() {
    let server = Server::keyed_with(cut_off_engine().await, |_| {}).await;
    let mut http = server.http().await;
    let word = loop {
        let ready = http.get("/readyz").await;
        assert_eq!(ready.status, 503);
        if ready.json()["why"] != serde_json::json!(["starting"]) {
            break ready.json();
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(word, serde_json::json!({ "ready": false, "why": ["store"] }));
    http.key = Some(server.key(Scopes::OPERATE, &["*"]));
    let why = http.get("/readyz").await.json()["why"][0].as_str().unwrap().to_string();
    assert!(why.starts_with("store_"), "{why}");
}

#[tokio::test]
async fn ops_10_a_body_that_is_too_large_is_counted() {
    let server = Server::keyed().await;
    let mut http = server.http().await;
    http.key = Some(server.key(Scopes::OPERATE, &["*"]));
    let large = Request::post("/v1/bulk?namespace=shop").header("content-type", "application/json");
    assert_eq!(http.send(large, "x".repeat(2 << 20)).await.status, 413);
    let mut http = server.http().await;
    http.key = Some(server.key(Scopes::OPERATE, &["*"]));
    let metrics = String::from_utf8(http.get("/metrics").await.body.to_vec()).unwrap();
    assert!(metrics.contains("weft_http_refused_total{why=\"size\"} 1"), "{metrics}");
}

#[tokio::test]
async fn api_27_metrics_need_operate_or_a_listener_of_their_own() {
    let server = Server::keyed().await;
    let mut http = server.http().await;
    http.get("/metrics").await.refused(401, "unauthorized");
    http.key = Some(server.key(Scopes::SUBMIT, &["shop"]));
    http.get("/metrics").await.refused(403, "forbidden");
    http.key = Some(server.key(Scopes::OPERATE, &["shop"]));
    let narrow = http.get("/metrics").await.refused(403, "forbidden");
    assert!(narrow["hint"].as_str().unwrap().contains("`*`"), "{narrow}");
    http.key = Some(server.key(Scopes::OPERATE, &["*"]));
    let metrics = http.get("/metrics").await;
    assert_eq!(metrics.status, 200);
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    assert!(text.contains("weft_http_requests_total{") && text.ends_with("# EOF\n"), "{text}");
    let apart = Listener::bind_metrics(&server.app, ([127, 0, 0, 1], 0).into()).await.unwrap();
    let apart = Server::run(server.app.clone(), apart);
    let mut http = apart.http().await;
    assert_eq!(http.get("/metrics").await.status, 200);
    http.get("/v1/executions").await.refused(404, "route_not_found");
}

#[tokio::test]
async fn api_17_replies_are_neither_cached_nor_guessed_at_and_pages_load_nothing_from_elsewhere() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    for path in ["/v1/executions", "/nowhere", "/docs", "/healthz", "/v1/openapi.json"] {
        let answer = http.send(Request::get(path).header("x-request-id", "mine"), "").await;
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("x-request-id"), Some("mine"), "{path}");
        assert!(answer.header("weft-now").unwrap().parse::<u64>().unwrap() > 1_600_000_000_000, "{path}");
    }
    let root = http.get("/").await;
    assert_eq!((root.status, root.header("location")), (307, Some("/docs")));
    let docs = http.get("/docs").await;
    assert_eq!(docs.header("x-frame-options"), Some("DENY"));
    assert!(docs.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    let text = String::from_utf8(docs.body.to_vec()).unwrap();
    assert!(text.contains("submit_execution") && !text.contains("<script"));
    assert!(!text.contains("https://") && !text.contains("http://"), "nothing comes from elsewhere");
    assert_eq!(http.get("/docs/page.css").await.status, 200);
}

#[tokio::test]
async fn api_8_an_id_that_is_no_good_is_replaced() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let long = "x".repeat(129);
    for given in ["", long.as_str()] {
        let answer = http.send(Request::get("/healthz").header("x-request-id", given), "").await;
        let id = answer.header("x-request-id").unwrap();
        assert!(id.len() == 32 && id != given, "{id}");
    }
}
