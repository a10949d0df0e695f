//! Counting calls. What is done with the numbers is the application's.

use crate::Error;
use crate::transport::Answering;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tower::{Layer, Service};
use weft_api::{Call, Reply};

/// Counts of each operation. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    counts: Arc<Mutex<BTreeMap<&'static str, Measured>>>,
}

/// What calls of one operation came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    pub calls: u64,
    /// Refused, or without an answer
    pub failed: u64,
    pub time: Duration,
}

impl Meter {
    /// By the name of the operation.
    pub fn measured(&self) -> BTreeMap<&'static str, Measured> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, operation: &'static str, failed: bool, time: Duration) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let measured = counts.entry(operation).or_default();
        measured.calls += 1;
        measured.failed += u64::from(failed);
        measured.time += time;
    }
}

impl<S> Layer<S> for Meter {
    type Service = Metered<S>;

    fn layer(&self, inner: S) -> Metered<S> {
        Metered { meter: self.clone(), inner }
    }
}

#[derive(Clone, Debug)]
pub struct Metered<S> {
    meter: Meter,
    inner: S,
}

impl<S> Service<Call> for Metered<S>
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
        let (meter, operation, began) = (self.meter.clone(), call.spec().id, Instant::now());
        let answer = self.inner.call(call);
        Box::pin(async move {
            let answer = answer.await;
            meter.note(operation, answer.is_err(), began.elapsed());
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower::ServiceExt;
    use weft_api::{Args, Operation, Payload, op};

    #[tokio::test(start_paused = true)]
    async fn sdk_2_calls_are_counted_by_their_operation_with_their_time_and_failures() {
        let service = tower::service_fn(|call: Call| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            match call {
                Call::GetInput(_) => Ok(Reply::GetInput(weft_api::operation::Raw(Some(Payload::text("x"))))),
                _ => Err(Error::no_answer("gone")),
            }
        });
        let meter = Meter::default();
        let metered = meter.clone().layer(service);
        let input = || op::GetInput::call(Args { path: ["x".to_string()], ..Args::default() });
        for call in [input(), op::GetVersion::call(Args::default()), input()] {
            let _ = metered.clone().oneshot(call).await;
        }
        let of = |calls, failed, ms| Measured { calls, failed, time: Duration::from_millis(ms) };
        let expected = [("get_input", of(2, 0, 40)), ("get_version", of(1, 1, 20))];
        assert_eq!(meter.measured(), BTreeMap::from(expected));
    }
}
