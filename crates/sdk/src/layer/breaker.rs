//! Not calling a server that does not answer. After some failures in a row calls are refused at once, until a trial call
//! succeeds. A trial that is dropped before it is answered frees its place, and one that takes its time, such as a claim
//! that waits for work, shares it, so that the breaker stays open for no longer than it must.

use crate::Error;
use crate::transport::Answering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt};
use weft_api::{Call, Reply};

/// How long a trial is the only one.
const ALONE: Duration = Duration::from_secs(1);

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
    /// When the trial began that is on its way.
    trying: Option<Instant>,
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
        let Some(until) = state.open_until else { return Ok(Place { breaker: self.clone(), trial: None }) };
        let now = Instant::now();
        if until > now || state.trying.is_some_and(|began| began + ALONE > now) {
            let message = format!("the last {} calls had no answer; the next is tried soon", state.failures);
            return Err(Error::no_answer(message));
        }
        state.trying = Some(now);
        Ok(Place { breaker: self.clone(), trial: Some(now) })
    }
}

/// One call on its way.
struct Place {
    breaker: CircuitBreaker,
    /// When it began, if it is a trial
    trial: Option<Instant>,
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
        let mut state = self.breaker.state();
        // A later trial may have its place by now.
        if self.trial.is_some() && state.trying == self.trial {
            state.trying = None;
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

    #[tokio::test(start_paused = true)]
    async fn sdk_2_a_trial_that_waits_does_not_keep_other_calls_out() {
        let is_away = Arc::new(AtomicBool::new(true));
        let away = is_away.clone();
        let service = tower::service_fn(move |call: Call| {
            let (is_away, waits) = (away.load(Ordering::SeqCst), call.spec().id == "claim");
            async move {
                if !is_away && waits {
                    tokio::time::sleep(Duration::from_secs(30)).await;
                }
                let answer = if is_away { Error::no_answer("gone") } else { Error::Config("an answer".to_string()) };
                Err::<Reply, _>(answer)
            }
        });
        let guarded = CircuitBreaker::new(1, Duration::from_secs(10)).layer(service);
        guarded.clone().oneshot(version()).await.unwrap_err();
        tokio::time::advance(Duration::from_secs(11)).await;
        is_away.store(false, Ordering::SeqCst);
        let claim = tokio::spawn(guarded.clone().oneshot(op::Claim::call(Args::default())));
        tokio::task::yield_now().await;
        let is_let_in = |answer: Error| matches!(answer, Error::Config(_));
        assert!(!is_let_in(guarded.clone().oneshot(version()).await.unwrap_err()), "one trial at a time");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(is_let_in(guarded.clone().oneshot(version()).await.unwrap_err()), "the first takes its time");
        assert!(is_let_in(guarded.clone().oneshot(version()).await.unwrap_err()), "the server has answered");
        assert!(is_let_in(claim.await.unwrap().unwrap_err()));
    }
}
