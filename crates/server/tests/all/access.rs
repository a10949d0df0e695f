//! The access log.

use crate::kit::*;
use std::io::Write;
use std::sync::{Arc, Mutex};
use weft_core::command::Scopes;
use weft_server::{Rate, RateClass};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn api_56_a_request_that_is_refused_for_its_rate_is_logged_with_its_principal() {
    let lines = Lines::default();
    let to = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || to.clone()).finish();
    // For all threads: whether a line is written at all is decided once, by whichever test comes to it first.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let slow = Rate { per_s: 1, burst: 1 };
    let server = Server::keyed_with(engine().await, |options| options.rates.default = slow).await;
    let key = server.key_with(Scopes::OPERATE, &["*"], |key| {
        key.rate = RateClass::Default;
        key.name = "shopkeeper".into();
    });
    let mut http = server.http_as(&key).await;
    http.get("/v1/executions").await.good();
    http.get("/v1/executions").await.refused(429, "rate_limited");
    http.get("/metrics").await.refused(429, "rate_limited");
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let is_ours = |line: &&str| line.contains("status=429") && line.contains("principal=\"shopkeeper\"");
    assert_eq!(text.lines().filter(is_ours).count(), 2, "{text}");
}
