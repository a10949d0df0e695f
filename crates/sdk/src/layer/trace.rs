//! Telling of calls as spans and events. Payloads and keys never appear.

use crate::Error;
use crate::transport::Answering;
use std::task::{Context, Poll};
use tokio::time::Instant;
use tower::{Layer, Service};
use tracing::Instrument;
use weft_api::{Call, Reply};

/// A span for each call, and an event when it has failed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trace;

impl<S> Layer<S> for Trace {
    type Service = Traced<S>;

    fn layer(&self, inner: S) -> Traced<S> {
        Traced { inner }
    }
}

#[derive(Clone, Debug)]
pub struct Traced<S> {
    inner: S,
}

impl<S> Service<Call> for Traced<S>
where
    S: Service<Call, Response = Reply, Error = Error>,
    S::Future: Send + 'static,
{
    type Response = Reply;
    type Error = Error;
    type Future = Answering;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> Answering {
        let operation = call.spec().id;
        let span = tracing::debug_span!("call", operation);
        let began = Instant::now();
        let answer = span.in_scope(|| self.inner.call(call));
        let tell = async move {
            let answer = answer.await;
            let ms = began.elapsed().as_millis() as u64;
            match &answer {
                Ok(_) => tracing::debug!(ms, "answered"),
                Err(error) => tracing::debug!(ms, %error, "not answered"),
            }
            answer
        };
        Box::pin(tell.instrument(span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt;
    use std::sync::{Arc, Mutex};
    use tower::ServiceExt;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};
    use weft_api::{Args, Operation, op};

    /// What was told, one line each.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            self.0 += &format!(" {}={value:?}", field.name());
        }
    }

    impl Subscriber for Lines {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target().starts_with("weft_sdk::layer")
        }

        fn new_span(&self, span: &Attributes<'_>) -> Id {
            let mut line = Line(span.metadata().name().to_string());
            span.record(&mut line);
            self.0.lock().unwrap().push(line.0);
            Id::from_u64(1)
        }

        fn event(&self, event: &Event<'_>) {
            let mut line = Line("event".to_string());
            event.record(&mut line);
            self.0.lock().unwrap().push(line.0);
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[tokio::test(start_paused = true)]
    async fn sdk_2_a_call_is_told_as_a_span_with_its_end_and_without_what_it_carries() {
        let lines = Lines::default();
        let _quiet = tracing::subscriber::set_default(lines.clone());
        let service = tower::service_fn(|_: Call| async {
            tokio::time::sleep(std::time::Duration::from_millis(7)).await;
            Err::<Reply, _>(Error::no_answer("gone"))
        });
        let body = weft_api::execution::Submit {
            kind: "mail".to_string(),
            input: Some(weft_api::Payload::text("a secret")),
            ..Default::default()
        };
        let call = op::SubmitExecution::call(Args { body, ..Args::default() });
        Trace.layer(service).oneshot(call).await.unwrap_err();
        let lines = lines.0.lock().unwrap();
        assert_eq!(*lines, ["call operation=\"submit_execution\"", "event message=not answered ms=7 error=gone",]);
    }
}
