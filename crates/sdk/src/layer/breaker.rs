//! Not calling a server that does not answer. After some failures in a row calls are refused at once, until a trial call
//! succeeds. A trial that is dropped before it is answered frees its place, so that the breaker cannot stay open for ever.

use crate::Error;
use crate::transport::Answering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt};
use weft_api::{Call, Reply};

#[derive(Clone, Debug)]
pub struct CircuitBreaker {
    failures_max: u32,
    rest: Duration,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    /// Calls are refused until then; afterwards one is tried.
    open_until: Option<Instant>,
    /// The trial is on its way.
    trying: bool,
}

impl CircuitBreaker {
    /// Opens after so many failures in a row and tries again after `rest`.
    pub fn new(failures_max: u32, rest: Duration) -> Self {
        Self { failures_max: failures_max.max(1), rest, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of a call that may be made.
    fn enter(&self) -> Result<Place, Error> {
        let mut state = self.state();
        let Some(until) = state.open_until else { return Ok(Place { breaker: self.clone(), is_trial: false }) };
        if state.trying || until > Instant::now() {
            let message = format!("the last {} calls had no answer; the next is tried soon", state.failures);
            return Err(Error::no_answer(message));
        }
        state.trying = true;
        Ok(Place { breaker: self.clone(), is_trial: true })
    }
}

/// One call on its way.
struct Place {
    breaker: CircuitBreaker,
    is_trial: bool,
}

impl Place {
    fn leave(self, failed: bool) {
        let breaker = &self.breaker;
        let mut state = breaker.state();
        if !failed {
            (state.failures, state.open_until) = (0, None);
        } else {
            state.failures += 1;
            if state.failures >= breaker.failures_max {
                state.open_until = Some(Instant::now() + breaker.rest);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_trial {
            self.breaker.state().trying = false;
        }
    }
}

impl<S> Layer<S> for CircuitBreaker {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { breaker: self.clone(), inner }
    }
}

#[derive(Clone, Debug)]
pub struct Guarded<S> {
    breaker: CircuitBreaker,
    inner: S,
}

impl<S> Service<Call> for Guarded<S>
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
        let (breaker, inner) = (self.breaker.clone(), self.inner.clone());
        Box::pin(async move {
            let place = breaker.enter()?;
            let answer = inner.oneshot(call).await;
            // A refusal is an answer: the server is there.
            place.leave(matches!(answer, Err(Error::Transport { .. })));
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use weft_api::{Args, Operation, op};

    fn version() -> Call {
        op::GetVersion::call(Args::default())
    }

    #[tokio::test(start_paused = true)]
    async fn sdk_2_a_dropped_trial_frees_its_place() {
        let (sent, hangs) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, hang) = (sent.clone(), hangs.clone());
        let service = tower::service_fn(move |_: Call| {
            counted.fetch_add(1, Ordering::SeqCst);
            let hangs = hang.load(Ordering::SeqCst);
            async move {
                if hangs {
                    std::future::pending::<()>().await;
                }
                Err::<Reply, _>(Error::no_answer("gone"))
            }
        });
        let guarded = CircuitBreaker::new(3, Duration::from_secs(10)).layer(service);
        for _ in 0..5 {
            guarded.clone().oneshot(version()).await.unwrap_err();
        }
        assert_eq!(sent.load(Ordering::SeqCst), 3, "the last two were refused here");
        tokio::time::advance(Duration::from_secs(11)).await;
        hangs.store(true, Ordering::SeqCst);
        let trial = tokio::time::timeout(Duration::from_secs(1), guarded.clone().oneshot(version())).await;
        assert!(trial.is_err(), "the trial hangs and is dropped");
        hangs.store(false, Ordering::SeqCst);
        guarded.clone().oneshot(version()).await.unwrap_err();
        assert_eq!(sent.load(Ordering::SeqCst), 5, "another trial was let through");
        guarded.clone().oneshot(version()).await.unwrap_err();
        assert_eq!(sent.load(Ordering::SeqCst), 5, "it failed, so that the breaker rests again");
    }
}
