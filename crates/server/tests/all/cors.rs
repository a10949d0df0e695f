//! Web pages of other origins.

use crate::kit::*;
use http::Request;
use weft_core::command::Scopes;
use weft_server::Origins;

#[tokio::test]
async fn api_53_only_listed_origins_may_call_and_never_with_credentials() {
    let listed = "https://board.example";
    let origins = Origins::parse(&[listed.to_string()], false).unwrap();
    let server = Server::keyed_with(engine().await, |options| options.cors_origins = origins).await;
    let key = server.key(Scopes::SUBMIT, &["shop"]);
    let mut http = server.http().await;
    let ask = |origin: &str| {
        Request::options("/v1/executions").header("origin", origin).header("access-control-request-method", "POST")
    };
    let asked = http.send(ask(listed), "").await;
    assert_eq!(asked.status, 204);
    assert_eq!(asked.header("access-control-allow-origin"), Some(listed));
    assert!(asked.header("access-control-allow-headers").unwrap().contains("idempotency-key"));
    assert!(asked.header("access-control-allow-methods").unwrap().contains("PATCH"));
    assert_eq!(asked.header("access-control-allow-credentials"), None);
    let foreign = http.send(ask("https://evil.example"), "").await;
    foreign.refused(405, "method_not_allowed");
    assert_eq!(foreign.header("access-control-allow-origin"), None);
    http.key = Some(key);
    let called = http.send(Request::get("/v1/executions").header("origin", listed), "").await;
    assert_eq!(called.header("access-control-allow-origin"), Some(listed));
    assert!(called.header("access-control-expose-headers").unwrap().contains("retry-after"));
    let refused = http.send(Request::get("/v1/executions/x").header("origin", listed), "").await;
    assert_eq!(refused.header("access-control-allow-origin"), Some(listed), "a page may read what was wrong");
}

#[tokio::test]
async fn api_53_without_a_list_no_page_may_call() {
    let server = Server::keyed().await;
    let key = server.key(Scopes::SUBMIT, &["shop"]);
    let mut http = server.http_as(&key).await;
    let called = http.send(Request::get("/v1/executions").header("origin", "https://board.example"), "").await;
    assert_eq!((called.status, called.header("access-control-allow-origin")), (200, None));
}
