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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;
    use tower::ServiceExt;
    use weft_api::{Args, Operation, op};

    #[tokio::test(start_paused = true)]
    async fn sdk_2_a_call_has_its_time_beside_what_it_asks_the_server_to_wait() {
        let service = tower::service_fn(|_: Call| std::future::pending::<Result<Reply, Error>>());
        let timed = Timeout(Duration::from_secs(5)).layer(service);
        let mut waits = op::GetExecution::call(Args { path: ["x".to_string()], ..Args::default() });
        let Call::GetExecution(args) = &mut waits else { panic!("it is the call that was made") };
        args.query.wait_ms = Some(20_000);
        for (call, seconds) in [(op::GetVersion::call(Args::default()), 5), (waits, 25)] {
            let began = Instant::now();
            let error = timed.clone().oneshot(call).await.unwrap_err();
            assert!(error.is_retryable(), "{error}");
            assert_eq!(began.elapsed(), Duration::from_secs(seconds));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn sdk_2_an_answer_in_time_passes_as_it_is() {
        let service = tower::service_fn(|_: Call| std::future::ready(Err::<Reply, _>(Error::Config("its".into()))));
        let call = op::GetVersion::call(Args::default());
        let error = Timeout(Duration::from_secs(5)).layer(service).oneshot(call).await.unwrap_err();
        assert!(matches!(error, Error::Config(_)), "{error}");
    }
}
