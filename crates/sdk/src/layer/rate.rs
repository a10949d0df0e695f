//! No more calls a second than wanted: those above wait for their turn.

use crate::Error;
use crate::transport::Answering;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tower::{Layer, Service, ServiceExt};
use weft_api::{Call, Reply};

/// At most so many calls a second, evenly, with a burst of as many as fit into a tenth of a second.
#[derive(Clone, Debug)]
pub struct RateLimit {
    every: Duration,
    burst: Duration,
    /// When the next call would be due if calls came as fast as they may.
    next: Arc<Mutex<Option<Instant>>>,
}

impl RateLimit {
    /// # Panics
    /// If it is 0.
    pub fn per_second(calls: u32) -> Self {
        assert!(calls > 0, "a rate of no calls at all lets nothing through");
        Self { every: Duration::from_secs(1) / calls, burst: Duration::from_millis(100), next: Arc::default() }
    }

    /// Takes a turn, and says when it is.
    fn turn(&self) -> Instant {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let due = next.map_or(now, |next| next.max(now - self.burst.min(Duration::from_secs(1))));
        *next = Some(due + self.every);
        due
    }
}

impl<S> Layer<S> for RateLimit {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited { limit: self.clone(), inner }
    }
}

#[derive(Clone, Debug)]
pub struct Limited<S> {
    limit: RateLimit,
    inner: S,
}

impl<S> Service<Call> for Limited<S>
where
    S: Service<Call, Response = Reply, Error = Error> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Reply;
    type Error = Error;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Answering {
        let (due, inner) = (self.limit.turn(), self.inner.clone());
        Box::pin(async move {
            sleep_until(due).await;
            inner.oneshot(call).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_api::{Args, Operation, op};

    #[tokio::test(start_paused = true)]
    async fn sdk_2_calls_above_the_rate_wait_for_their_turn() {
        let service = tower::service_fn(|_: Call| std::future::ready(Err::<Reply, _>(Error::no_answer("x"))));
        let limited = RateLimit::per_second(10).layer(service);
        let began = Instant::now();
        for _ in 0..21 {
            let call = op::GetVersion::call(Args::default());
            assert!(limited.clone().oneshot(call).await.is_err());
        }
        assert_eq!(began.elapsed(), Duration::from_secs(2));
    }
}
