//! A time for each call, beside what it asks the server to wait.

use crate::Error;
use crate::keyed::wait_of;
use crate::transport::Answering;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::{Layer, Service};
use weft_api::{Call, Reply};

/// Gives up a call after this time. The call may have been carried out all the same; its repeat tells.
#[derive(Clone, Copy, Debug)]
pub struct Timeout(pub Duration);

impl<S> Layer<S> for Timeout {
    type Service = Timed<S>;

    fn layer(&self, inner: S) -> Timed<S> {
        Timed { time: self.0, inner }
    }
}

#[derive(Clone, Debug)]
pub struct Timed<S> {
    time: Duration,
    inner: S,
}

impl<S> Service<Call> for Timed<S>
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
        let time = self.time + wait_of(&call);
        let answer = self.inner.call(call);
        Box::pin(async move {
            let gone = |_| Err(Error::no_answer(format!("there was no answer within {time:?}")));
            tokio::time::timeout(time, answer).await.unwrap_or_else(gone)
        })
    }
}
