//! A crash after every change that a worker makes, one run each.

use super::Harness;
use crate::Worker;
use std::future::Future;
use std::time::Duration;

/// Longer than leases and the first retries: a worker that crashed is replaced and its work taken up.
const RECOVERY: Duration = Duration::from_secs(600);
const RUNS_MAX: u64 = 1_000;

impl Harness {
    /// Runs `scenario` once undisturbed, and then once for each change the worker makes, with a crash of the worker right
    /// after it, before the worker hears of it. Every run must end in the same state.
    ///
    /// # Panics
    /// If one does not, with the change after which the crash was.
    pub async fn crash_everywhere<F, Fut>(worker: fn(Worker) -> Worker, scenario: F)
    where
        F: Fn(Harness) -> Fut,
        Fut: Future,
    {
        let (expected, changes) = run(worker, &scenario, None).await;
        assert!(changes > 0, "the worker changed nothing, so that there is nothing to crash after");
        assert!(changes <= RUNS_MAX, "{changes} changes are more than can be tried, at most {RUNS_MAX}");
        for change in 1..=changes {
            let (states, _) = run(worker, &scenario, Some(change)).await;
            assert_eq!(states, expected, "with a crash after change {change} of {changes}");
        }
    }
}

async fn run<F: Fn(Harness) -> Fut, Fut: Future>(
    worker: fn(Worker) -> Worker,
    scenario: &F,
    crash_after: Option<u64>,
) -> (Vec<String>, u64) {
    let harness = Harness::new().await;
    if let Some(changes) = crash_after {
        harness.gate().crash_after(changes);
    }
    harness.worker(worker);
    scenario(harness.clone()).await;
    harness.run_until_idle().await;
    harness.advance(RECOVERY).await;
    harness.run_until_idle().await;
    let ended = (harness.states().await, harness.gate().changes());
    harness.engine().shutdown().await;
    ended
}
