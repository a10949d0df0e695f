//! Notices as server-sent events.

use crate::kit::*;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use serde_json::json;

/// The stream of a worker process, read event by event.
pub struct Events {
    body: hyper::body::Incoming,
    text: String,
}

impl Events {
    pub async fn of(server: &Server, instance: &str, key: Option<&str>) -> Self {
        Self::after(server, instance, key, None).await
    }

    /// After the event with this id.
    async fn after(server: &Server, instance: &str, key: Option<&str>, last: Option<&str>) -> Self {
        let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = http::Request::get(format!("/v1/workers/{instance}/notices"))
            .header("host", "localhost")
            .header("accept", "text/event-stream");
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let request = request.body(Empty::<bytes::Bytes>::new()).unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body(), text: String::new() }
    }

    /// The next event; none at the end.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let event = event.to_string();
                self.text = rest.to_string();
                return Some(event);
            }
            let frame = within(self.body.frame()).await?.unwrap();
            if let Some(data) = frame.data_ref() {
                self.text.push_str(std::str::from_utf8(data).unwrap());
            }
        }
    }
}

#[tokio::test]
async fn api_14_a_worker_is_told_of_a_cancel_and_of_the_end() {
    let mut server = Server::dev().await;
    let mut http = server.http().await;
    let mut events = Events::of(&server, "pool-1", None).await;
    assert_eq!(events.next().await.as_deref(), Some("retry: 2000"));
    let id = http.submit(json!({ "kind": "mail" })).await;
    http.claim().await;
    http.post(&format!("/v1/executions/{id}/cancel"), json!({ "reason": "enough" })).await.good();
    let event = events.next().await.unwrap();
    let (number, notice) = read(&event);
    assert_eq!((&notice["kind"], &notice["execution"]), (&json!("cancelled"), &json!(id)));
    assert_eq!((&notice["reason"], &notice["no"].to_string()), (&json!("enough"), &number));
    assert!(notice["by"].is_string(), "{notice}");
    server.begin_stop();
    let mut last = String::new();
    while let Some(event) = events.next().await {
        last = event;
    }
    assert_eq!(last, "event: bye\ndata: {}");
}

/// The id of an event, and the notice in it.
fn read(event: &str) -> (String, serde_json::Value) {
    let rest = event.strip_prefix("event: notice\nid: ").unwrap_or_else(|| panic!("{event}"));
    let (number, data) = rest.split_once("\ndata: ").unwrap_or_else(|| panic!("{event}"));
    (number.to_string(), serde_json::from_str(data).unwrap())
}

#[tokio::test]
async fn sd_59_a_stream_goes_on_after_the_last_event_and_a_gap_is_told() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let mut events = Events::of(&server, "pool-1", None).await;
    let register = json!({ "worker": "pool", "instance": "pool-1", "boot_id": "a" });
    http.post("/v1/workers", register).await.good();
    http.post("/v1/workers/drain", json!({ "instance": "pool-1", "reason": "x" })).await.good();
    http.post("/v1/workers/undrain", json!({ "instance": "pool-1" })).await.good();
    events.next().await;
    let (first, notice) = read(&events.next().await.unwrap());
    assert_eq!(notice["kind"], "drain");
    let (second, notice) = read(&events.next().await.unwrap());
    assert_eq!(notice["kind"], "undrain");
    let mut again = Events::after(&server, "pool-1", None, Some(&first)).await;
    again.next().await;
    assert_eq!(read(&again.next().await.unwrap()).0, second);
    for last in ["7", "99999999999999999", "not a number"] {
        let mut elsewhere = Events::after(&server, "pool-1", None, Some(last)).await;
        elsewhere.next().await;
        assert_eq!(elsewhere.next().await.unwrap(), "event: missed\ndata: {\"missed\":true}", "{last}");
    }
}

#[tokio::test]
async fn sd_57_replies_of_claim_heartbeat_and_renew_carry_notices() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let register = json!({ "worker": "pool", "instance": "pool-1", "boot_id": "a" });
    http.post("/v1/workers", register).await.good();
    let mut tasks = Vec::new();
    for _ in 0..4 {
        http.submit(json!({ "kind": "mail" })).await;
        tasks.push(http.claim().await);
    }
    let claim = json!({ "worker": "pool", "instance": "pool-1", "wait_ms": 30000 });
    let renew = json!({ "items": [tasks[3].held(json!({}))] });
    let calls = [("/v1/work/claim", claim), ("/v1/workers/pool-1/heartbeat", json!({})), ("/v1/work/renew", renew)];
    let mut numbers = Vec::new();
    for (task, (path, body)) in tasks.iter().zip(calls) {
        http.post(&format!("/v1/executions/{}/revoke", task.execution()), json!({ "reason": "x" })).await.good();
        http.post(&format!("/v1/executions/{}/cancel", task.execution()), json!({ "reason": "x" })).await.good();
        let reply = http.post(path, body).await.good();
        let [notice] = &reply["notices"].as_array().unwrap()[..] else { panic!("{path}: {reply}") };
        assert_eq!((&notice["kind"], &notice["cause"]), (&json!("lease_lost"), &json!("revoked")), "{path}");
        assert_eq!(notice["execution"], task.execution());
        numbers.push(notice["no"].as_u64().unwrap());
    }
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
}

#[tokio::test]
async fn api_14_notices_come_as_events_or_not_at_all() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let json = [("accept", "application/json")];
    http.call_with("GET", "/v1/workers/a/notices", &json!(null), &json).await.refused(406, "not_acceptable");
}
