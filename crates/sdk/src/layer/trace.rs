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
