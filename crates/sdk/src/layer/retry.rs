//! Sending a call again. Safe for every call, because each carries a key or a fence by which the server knows a repeat.

use crate::Error;
use crate::keyed::wait_of;
use crate::transport::Answering;
use crate::world::World;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tower::{Layer, Service, ServiceExt};
use weft_api::{Call, Reply};

/// How often and how long a call is tried: what may succeed later is sent again after a random time that grows, or after
/// the time that the server named, until the call's time is over.
#[derive(Clone, Debug)]
pub struct Retry {
    pub(crate) times: u32,
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
    pub(crate) timeout: Duration,
    pub(crate) world: World,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            times: 5,
            first: Duration::from_millis(50),
            longest: Duration::from_secs(5),
            timeout: Duration::from_secs(30),
            world: World::of_system(),
        }
    }
}

impl Retry {
    /// Repeats after the first try; 5 unless set, 0 for none.
    pub fn times(mut self, times: u32) -> Self {
        self.times = times;
        self
    }

    /// The time of a whole call with its repeats, beside what it asks the server to wait; 30 seconds unless set. One try
    /// takes half of it at most, if there are repeats.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The wait before the `no`th repeat: anything up to a bound that doubles.
    fn pause(&self, no: u32, error: &Error) -> Duration {
        let bound = self.first.saturating_mul(1 << no.min(16)).min(self.longest);
        let jittered = Duration::from_millis(self.world.up_to(bound.as_millis() as u64));
        jittered.max(Duration::from_millis(error.retry_after_ms().unwrap_or(0)))
    }
}

impl<S> Layer<S> for Retry {
    type Service = Retrying<S>;

    fn layer(&self, inner: S) -> Retrying<S> {
        Retrying { retry: self.clone(), inner }
    }
}

#[derive(Clone, Debug)]
pub struct Retrying<S> {
    retry: Retry,
    inner: S,
}

impl<S> Service<Call> for Retrying<S>
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
        let (retry, inner) = (self.retry.clone(), self.inner.clone());
        Box::pin(async move {
            let wait = wait_of(&call);
            let until = Instant::now() + retry.timeout + wait;
            // A connection that hangs takes half of the time at most, so that there is some for another.
            let one = wait + if retry.times == 0 { retry.timeout } else { retry.timeout / 2 };
            let mut repeats = 0;
            loop {
                let time = one.min(until.saturating_duration_since(Instant::now()));
                let error = match timeout(time, inner.clone().oneshot(call.clone())).await {
                    Ok(Ok(reply)) => return Ok(reply),
                    Ok(Err(error)) => error,
                    Err(_) => Error::no_answer(format!("there was no answer within {time:?}")),
                };
                let pause = retry.pause(repeats, &error);
                if !error.is_retryable() || repeats >= retry.times || Instant::now() + pause >= until {
                    return Err(error);
                }
                tracing::debug!(operation = call.spec().id, %error, ?pause, "a call is sent again");
                repeats += 1;
                sleep(pause).await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use weft_api::{Args, Code, Operation, Problem, op};

    fn version() -> Call {
        op::GetVersion::call(Args::default())
    }

    /// How often a call that is always answered so was sent, and how long that took.
    async fn tries(retry: Retry, answer: fn() -> Error) -> (u32, Duration) {
        let count = Arc::new(AtomicU32::new(0));
        let counted = count.clone();
        let service = tower::service_fn(move |_: Call| {
            counted.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Err::<Reply, _>(answer()))
        });
        let began = Instant::now();
        retry.layer(service).oneshot(version()).await.unwrap_err();
        (count.load(Ordering::SeqCst), began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn sdk_3_what_may_succeed_later_is_sent_again_five_times() {
        assert_eq!(tries(Retry::default(), || Error::no_answer("gone")).await.0, 6);
        assert_eq!(tries(Retry::default(), || Problem::new(Code::Busy, "full").into()).await.0, 6);
    }

    #[tokio::test(start_paused = true)]
    async fn sdk_3_a_refusal_is_never_sent_again() {
        for code in [Code::InvalidArgument, Code::StaleLease, Code::ExecutionTerminal, Code::Internal] {
            assert!(!Error::from(Problem::new(code, "no")).is_retryable(), "{}", code.name());
        }
        assert_eq!(tries(Retry::default(), || Problem::new(Code::StaleLease, "no").into()).await.0, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn sdk_3_the_time_that_the_server_names_is_waited_but_never_past_the_deadline() {
        let patient = Retry::default().times(2);
        let (sent, took) = tries(patient, || Problem::new(Code::RateLimited, "slow").retry_after(7_000).into()).await;
        assert_eq!((sent, took), (3, Duration::from_secs(14)));
        let hasty = Retry::default().timeout(Duration::from_secs(10));
        let (sent, took) = tries(hasty, || Problem::new(Code::RateLimited, "slow").retry_after(7_000).into()).await;
        assert_eq!((sent, took), (2, Duration::from_secs(7)));
    }

    #[tokio::test(start_paused = true)]
    async fn sdk_3_a_try_that_hangs_leaves_time_for_another() {
        let hangs = Arc::new(AtomicU32::new(1));
        let service = tower::service_fn(move |_: Call| {
            let is_hung = hangs.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
            async move {
                if is_hung {
                    std::future::pending::<()>().await;
                }
                Err::<Reply, Error>(Problem::new(Code::StaleLease, "an answer").into())
            }
        });
        let began = Instant::now();
        let error = Retry::default().layer(service).oneshot(version()).await.unwrap_err();
        assert_eq!(error.code(), Some(Code::StaleLease), "{error}");
        assert!(began.elapsed() < Duration::from_secs(16), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn sdk_3_a_call_that_waits_has_that_much_more_time() {
        let service = tower::service_fn(|_: Call| std::future::pending::<Result<Reply, Error>>());
        let mut call = op::GetExecution::call(Args { path: ["x".to_string()], ..Args::default() });
        let Call::GetExecution(args) = &mut call else { panic!() };
        args.query.wait_ms = Some(20_000);
        let began = Instant::now();
        let error = Retry::default().layer(service).oneshot(call).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        assert_eq!(began.elapsed(), Duration::from_secs(50));
    }
}
