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
        let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = http::Request::get(format!("/v1/workers/{instance}/notices"))
            .header("host", "localhost")
            .header("accept", "text/event-stream");
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
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
    let data = event.strip_prefix("event: notice\ndata: ").unwrap_or_else(|| panic!("{event}"));
    let notice: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!((&notice["kind"], &notice["execution"]), (&json!("cancelled"), &json!(id)));
    server.begin_stop();
    let mut last = String::new();
    while let Some(event) = events.next().await {
        last = event;
    }
    assert_eq!(last, "event: bye\ndata: {}");
}

#[tokio::test]
async fn api_14_notices_come_as_events_or_not_at_all() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let json = [("accept", "application/json")];
    http.call_with("GET", "/v1/workers/a/notices", &json!(null), &json).await.refused(406, "not_acceptable");
}
