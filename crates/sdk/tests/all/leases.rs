//! Leases: kept while handlers run, given up when they end, lost when somebody takes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use weft_sdk::api::execution::{Policy, PublicState};
use weft_sdk::test::Harness;
use weft_sdk::worker::Cause;
use weft_sdk::{Checkpoint, Ctx, Failure, Json, NoResult, State, Worker};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Set when what it is in is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

type Flag = State<Arc<AtomicBool>>;

async fn long(Json(seconds): Json<u64>) -> Result<Json<u64>, Failure> {
    tokio::time::sleep(secs(seconds)).await;
    Ok(Json(seconds))
}

/// Runs for ever, whatever it is told.
async fn stubborn(State(dropped): Flag) -> Result<(), Failure> {
    let _dropped = Dropped(dropped);
    std::future::pending().await
}

/// Ends when it is told to, and says why.
async fn polite(ctx: Ctx) -> Result<(), Failure> {
    let told = ctx.cancelled().await;
    assert_eq!((told.cause, told.reason.as_str()), (Cause::Cancel, "customer left"));
    assert!(told.time_left().is_some_and(|left| left <= secs(60)));
    Err(Failure::retry("never seen"))
}

#[tokio::test(start_paused = true)]
async fn sdk_31_a_long_handler_keeps_its_lease() {
    let harness = Harness::new().await;
    harness.worker(|worker| worker.handle("long", long));
    let run = harness.submit("long", &3_600).await.unwrap();
    assert_eq!(run.result::<u64>().await.unwrap(), 3_600);
    let execution = run.get().await.unwrap();
    assert_eq!((execution.attempts, execution.reclaims, execution.epoch), (1, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn sdk_32_a_lease_begins_when_the_wait_for_work_ends() {
    let harness = Harness::new().await;
    harness.worker(|worker| worker.lease(secs(5)).handle("long", long));
    // The claim waits for longer than the lease and than the time of the attempt.
    harness.advance(secs(20)).await;
    let policy = Policy { attempt_timeout_ms: Some(4_000), ..Policy::default() };
    let run = harness.submit("long", &1).policy(policy).await.unwrap();
    assert_eq!(run.result::<u64>().await.unwrap(), 1);
    let execution = run.get().await.unwrap();
    assert_eq!((execution.attempts, execution.reclaims), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn sdk_4_an_execution_without_time_says_which_time_it_was() {
    let harness = Harness::new().await;
    harness.worker(|worker| worker.handle("long", long));
    let policy = Policy { attempt_timeout_ms: Some(4_000), ..Policy::default() };
    let slow = harness.submit("long", &60).policy(policy).max_retries(0).await.unwrap();
    let late = harness.submit("long", &60).deadline(secs(5)).await.unwrap();
    for (run, expected) in [(slow, "attempt_timeout"), (late, "deadline")] {
        match run.payload().await {
            Err(NoResult::Expired { reason }) => assert_eq!(reason, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn sdk_31_progress_and_checkpoints_ride_on_renewals() {
    async fn tells(ctx: Ctx, Checkpoint(saved): Checkpoint<u32>) -> Result<Json<Option<u32>>, Failure> {
        if ctx.attempt() == 0 {
            ctx.progress(40, "rendering").later();
            ctx.checkpoint(&7).later();
            tokio::time::sleep(secs(60)).await;
            return Err(Failure::retry("lost my place"));
        }
        ctx.tags().set("page", "3").now().await?;
        ctx.progress(80, "almost").now().await?;
        Ok(Json(saved))
    }
    let harness = Harness::new().await;
    harness.worker(|worker| worker.handle("tells", tells));
    let run = harness.submit("tells", &()).await.unwrap();
    harness.advance(secs(20)).await;
    let progress = run.get().await.unwrap().progress.unwrap();
    assert_eq!((progress.percent, progress.message.as_deref()), (Some(40), Some("rendering")));
    assert_eq!(run.result::<Option<u32>>().await.unwrap(), Some(7));
    let execution = run.get().await.unwrap();
    assert_eq!(execution.progress.unwrap().percent, Some(80));
    assert_eq!(execution.tags["page"], "3");
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_survives_a_failure_that_comes_before_the_next_renewal() {
    async fn saves(ctx: Ctx, Checkpoint(saved): Checkpoint<u32>) -> Result<Json<u32>, Failure> {
        if let Some(saved) = saved {
            return Ok(Json(saved));
        }
        ctx.checkpoint(&11).later();
        Err(Failure::retry("at once"))
    }
    let harness = Harness::new().await;
    harness.worker(|worker| worker.handle("saves", saves));
    let run = harness.submit("saves", &()).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 11);
}

#[tokio::test(start_paused = true)]
async fn sdk_34_a_graceful_cancel_reaches_running_code_and_is_acknowledged() {
    let harness = Harness::new().await;
    harness.worker(|worker| worker.handle("polite", polite));
    let run = harness.submit("polite", &()).await.unwrap();
    harness.advance(secs(1)).await;
    run.cancel("customer left").graceful(secs(60)).await.unwrap();
    assert!(matches!(run.payload().await, Err(NoResult::Cancelled { .. })));
    assert!(harness.elapsed() < secs(15), "it did not wait for the grace: {:?}", harness.elapsed());
}

#[tokio::test(start_paused = true)]
async fn sdk_34_code_that_does_not_listen_is_dropped_after_the_grace() {
    let harness = Harness::new().await;
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = dropped.clone();
    harness.worker(move |worker| worker.state(flag.clone()).handle("stubborn", stubborn));
    let run = harness.submit("stubborn", &()).await.unwrap();
    harness.advance(secs(1)).await;
    run.cancel("enough").graceful(secs(20)).await.unwrap();
    harness.advance(secs(15)).await;
    assert!(!dropped.load(Ordering::SeqCst), "it has its grace");
    harness.advance(secs(10)).await;
    assert!(dropped.load(Ordering::SeqCst));
    assert_eq!(run.get().await.unwrap().public_state, PublicState::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn sdk_34_an_immediate_cancel_drops_the_handler_soon_after() {
    let harness = Harness::new().await;
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = dropped.clone();
    harness.worker(move |worker| worker.state(flag.clone()).grace(secs(2)).handle("stubborn", stubborn));
    let run = harness.submit("stubborn", &()).await.unwrap();
    harness.advance(secs(1)).await;
    run.cancel("enough").await.unwrap();
    assert_eq!(run.get().await.unwrap().public_state, PublicState::Cancelled);
    harness.advance(secs(14)).await;
    assert!(dropped.load(Ordering::SeqCst), "a renewal told, and the grace is over");
}

/// Runs one worker until a signal, on an execution that has begun.
async fn drained(harness: &Harness, worker: Worker, after: Duration) {
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(worker.run_until(stopped));
    harness.advance(secs(1)).await;
    stop.send(()).unwrap();
    harness.advance(after).await;
    assert!(running.is_finished(), "the drain is over");
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn sdk_35_a_drain_waits_for_handlers_and_claims_no_more() {
    let harness = Harness::new().await;
    let run = harness.submit("long", &20).await.unwrap();
    let worker = Worker::new(harness.client().clone()).concurrency(1).handle("long", long);
    let late = harness.submit("long", &1).await.unwrap();
    drained(&harness, worker, secs(25)).await;
    assert_eq!(run.get().await.unwrap().public_state, PublicState::Completed);
    let late = late.get().await.unwrap();
    assert_eq!((late.public_state, late.attempts), (PublicState::Waiting, 0));
}

#[tokio::test(start_paused = true)]
async fn sdk_35_what_a_drain_cannot_wait_for_is_handed_back_and_spends_nothing() {
    let harness = Harness::new().await;
    let dropped = Arc::new(AtomicBool::new(false));
    let run = harness.submit("stubborn", &()).await.unwrap();
    let worker = Worker::new(harness.client().clone()).drain_timeout(secs(3)).drain_kill(secs(2));
    drained(&harness, worker.state(dropped.clone()).handle("stubborn", stubborn), secs(6)).await;
    assert!(dropped.load(Ordering::SeqCst));
    let execution = run.get().await.unwrap();
    assert_eq!(execution.public_state, PublicState::Waiting);
    assert_eq!((execution.attempts, execution.retries_used, execution.reclaims), (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn sdk_35_a_handle_drains_and_shows_health() {
    let harness = Harness::new().await;
    harness.submit("long", &5).await.unwrap();
    let worker = Worker::new(harness.client().clone()).handle("long", long);
    let handle = worker.handle_on();
    let running = tokio::spawn(worker.run());
    harness.advance(secs(1)).await;
    assert_eq!((handle.health().running, handle.health().draining), (1, false));
    handle.drain();
    harness.advance(secs(1)).await;
    assert_eq!((handle.health().running, handle.health().draining), (1, true));
    harness.advance(secs(5)).await;
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn sdk_30_no_more_is_claimed_than_can_run() {
    let most = Arc::new(AtomicU32::new(0));
    async fn counts(State((now, most)): State<(Arc<AtomicU32>, Arc<AtomicU32>)>) -> Result<(), Failure> {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(secs(1)).await;
        now.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
    let harness = Harness::new().await;
    let state = (Arc::new(AtomicU32::new(0)), most.clone());
    harness.worker(move |worker| worker.concurrency(3).state(state.clone()).handle("counts", counts));
    for _ in 0..10 {
        harness.submit("counts", &()).await.unwrap();
    }
    harness.advance(Duration::from_millis(500)).await;
    let query = weft_sdk::api::execution::CountQuery { state: vec![PublicState::Active], ..Default::default() };
    assert_eq!(harness.client().count_executions(query).await.unwrap().total, 3);
    harness.run_until_idle().await;
    assert_eq!(most.load(Ordering::SeqCst), 3);
    assert!(harness.elapsed() >= secs(4));
}

#[tokio::test(start_paused = true)]
async fn sdk_30_short_tasks_are_claimed_ahead_and_settled_in_batches() {
    async fn short() -> Result<(), Failure> {
        tokio::task::yield_now().await;
        Ok(())
    }
    let harness = Harness::new().await;
    let client = harness.client();
    for _ in 0..10 {
        let items = (0..100).map(|n| client.submit("short", &n));
        assert!(client.submit_batch(items, false).await.unwrap().iter().all(Result::is_ok));
    }
    let worker = Worker::new(client.clone()).concurrency(16).handle("short", short);
    let handle = worker.handle_on();
    let running = tokio::spawn(worker.run());
    harness.run_until_idle().await;
    let health = handle.health();
    assert_eq!(health.outcomes, 1_000);
    assert!(health.settle_calls <= 250, "{} calls for 1000 outcomes", health.settle_calls);
    handle.drain();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn sdk_33_a_result_that_the_server_does_not_take_is_told_as_a_failure() {
    async fn huge() -> Result<String, Failure> {
        Ok("x".repeat(2 << 20))
    }
    let harness = Harness::new().await;
    harness.worker(|worker| worker.handle("huge", huge));
    let run = harness.submit("huge", &()).await.unwrap();
    match run.payload().await {
        Err(NoResult::Failed { category, message, .. }) => {
            assert_eq!(category, "result");
            assert!(message.contains("payload_too_large"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}
