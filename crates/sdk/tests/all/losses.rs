//! Replies that are lost, servers that are away, workers that crash.

use crate::between::between;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use weft_sdk::api::execution::Submit;
use weft_sdk::api::{Call, Code, Problem};
use weft_sdk::layer::Retry;
use weft_sdk::test::Harness;
use weft_sdk::{Client, Ctx, Error, Failure, Json, State, Transport, Worker};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn counts(State(calls): State<Arc<AtomicU32>>) -> Result<Json<u32>, Failure> {
    Ok(Json(calls.fetch_add(1, Ordering::SeqCst)))
}

#[tokio::test(start_paused = true)]
async fn sdk_31_a_finished_result_survives_lost_replies() {
    for operation in ["claim", "settle", "record_steps", "register_worker"] {
        let harness = Harness::new().await;
        let calls = Arc::new(AtomicU32::new(0));
        let state = calls.clone();
        async fn steps(ctx: Ctx, State(calls): State<Arc<AtomicU32>>) -> Result<Json<u32>, Failure> {
            ctx.step("once", async || Ok::<_, Failure>(calls.fetch_add(1, Ordering::SeqCst))).await.map(Json)
        }
        harness.lose_next_reply_to(operation);
        harness.worker(move |worker| worker.state(state.clone()).handle("steps", steps));
        let run = harness.submit("steps", &()).await.unwrap();
        assert_eq!(run.result::<u32>().await.unwrap(), 0, "{operation}");
        assert_eq!((run.get().await.unwrap().epoch, calls.load(Ordering::SeqCst)), (1, 1), "{operation}");
    }
}

#[tokio::test(start_paused = true)]
async fn sdk_3_a_repeat_by_the_client_itself_is_no_duplicate() {
    let harness = Harness::new().await;
    let calls = Arc::new(AtomicU32::new(0));
    // The reply to every first try is lost.
    let client = between(harness.client(), move |call, inner| {
        let is_first = calls.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
        async move {
            let reply = inner.dispatch(call).await?;
            if is_first { Err(Problem::new(Code::RequestTimeout, "too slow").into()) } else { Ok(reply) }
        }
    });
    assert!(!client.submit("k", &1).await.unwrap().is_duplicate());
    let known = client.submit("k", &1).idempotency_key("order-17").await.unwrap();
    assert!(known.is_duplicate(), "whoever names a key is told that it was bound");
    let items = [client.submit("k", &2), client.submit("k", &1).idempotency_key("order-17")];
    let runs = client.submit_batch(items, false).await.unwrap();
    let duplicates: Vec<_> = runs.iter().map(|run| run.as_ref().unwrap().is_duplicate()).collect();
    assert_eq!(duplicates, [false, true]);
    let raw = Submit { kind: "k".into(), ..Submit::default() };
    assert!(!client.submit_execution(raw).await.unwrap().duplicate);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_crashed_is_followed_by_another() {
    let harness = Harness::new().await;
    async fn slow(Json(n): Json<u32>) -> Result<Json<u32>, Failure> {
        tokio::time::sleep(secs(10)).await;
        Ok(Json(n))
    }
    harness.worker(|worker| worker.handle("slow", slow));
    let run = harness.submit("slow", &5).await.unwrap();
    harness.advance(secs(5)).await;
    harness.crash_worker().await;
    assert_eq!(run.result::<u32>().await.unwrap(), 5);
    assert_eq!(run.get().await.unwrap().reclaims, 1);
    let events = harness.events().join("\n");
    assert!(events.contains("slow execution.lease_lost") && events.contains("by worker-2"), "{events}");
}

/// A client whose server can be switched off.
fn switched(client: &Client) -> (Client, Arc<AtomicBool>) {
    let away = Arc::new(AtomicBool::new(false));
    let (inner, switch) = (client.clone().retry(Retry::default().times(0)), away.clone());
    let service = tower::service_fn(move |call: Call| {
        let (inner, away) = (inner.clone(), switch.clone());
        async move {
            let gone = || Error::Transport {
                retryable: true,
                message: "connection refused".to_string(),
                retry_after_ms: None,
                source: None,
            };
            if away.load(Ordering::SeqCst) {
                return Err(gone());
            }
            let reply = inner.dispatch(call).await;
            // A reply that is on its way when the server goes is lost.
            if away.load(Ordering::SeqCst) { Err(gone()) } else { reply }
        }
    });
    (Client::over(Transport::new(service)), away)
}

#[tokio::test(start_paused = true)]
async fn sdk_33_a_server_that_is_away_for_a_while_costs_nothing_that_was_finished() {
    async fn slow(State(calls): State<Arc<AtomicU32>>) -> Result<Json<u32>, Failure> {
        tokio::time::sleep(secs(8)).await;
        Ok(Json(calls.fetch_add(1, Ordering::SeqCst)))
    }
    let harness = Harness::new().await;
    let (client, away) = switched(harness.client());
    let calls = Arc::new(AtomicU32::new(0));
    let worker = Worker::new(client.clone()).state(calls.clone()).handle("slow", slow);
    let handle = worker.handle_on();
    tokio::spawn(worker.run());
    let run = harness.submit("slow", &()).await.unwrap();
    harness.advance(secs(2)).await;
    away.store(true, Ordering::SeqCst);
    harness.advance(secs(15)).await;
    assert!(handle.health().last_error.is_some_and(|error| error.contains("connection refused")));
    away.store(false, Ordering::SeqCst);
    let waiting = client.run(run.id());
    assert_eq!(waiting.result::<u32>().await.unwrap(), 0);
    assert_eq!(run.get().await.unwrap().epoch, 1, "the first lease was good for it");
    let again = harness.submit("slow", &()).await.unwrap();
    assert_eq!(again.result::<u32>().await.unwrap(), 1, "the worker goes on");
}

#[tokio::test(start_paused = true)]
async fn sdk_5_a_wait_survives_a_server_that_goes_away() {
    let harness = Harness::new().await;
    let (client, away) = switched(harness.client());
    let run = client.submit("late", &()).await.unwrap();
    let waiting = tokio::spawn(async move { run.result::<u32>().await });
    harness.advance(secs(1)).await;
    away.store(true, Ordering::SeqCst);
    harness.advance(secs(300)).await;
    away.store(false, Ordering::SeqCst);
    let calls = Arc::new(AtomicU32::new(4));
    harness.worker(move |worker| worker.state(calls.clone()).handle("late", counts));
    assert_eq!(waiting.await.unwrap().unwrap(), 4);
}

#[tokio::test(start_paused = true)]
async fn sdk_32_a_lease_that_ran_out_here_ends_its_handler_whatever_the_network_says() {
    let harness = Harness::new().await;
    let (client, away) = switched(harness.client());
    let told = Arc::new(AtomicBool::new(false));
    async fn listens(ctx: Ctx, State(told): State<Arc<AtomicBool>>) -> Result<(), Failure> {
        let cancellation = ctx.cancelled().await;
        assert_eq!(cancellation.cause, weft_sdk::worker::Cause::LeaseLost);
        told.store(true, Ordering::SeqCst);
        Ok(())
    }
    let worker = Worker::new(client).state(told.clone()).handle("listens", listens);
    tokio::spawn(worker.run());
    harness.submit("listens", &()).await.unwrap();
    harness.advance(secs(1)).await;
    away.store(true, Ordering::SeqCst);
    harness.advance(secs(28)).await;
    assert!(!told.load(Ordering::SeqCst), "the lease is good for 30 seconds");
    harness.advance(secs(2)).await;
    assert!(told.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn sdk_33_only_what_cannot_get_better_ends_a_worker() {
    for code in [Code::Unauthorized, Code::Forbidden, Code::InstanceSuperseded] {
        let refuse = move |_: Call| std::future::ready(Err(Error::from(Problem::new(code, "no"))));
        let worker = Worker::new(Client::over(tower::service_fn(refuse))).handle("k", async || Ok::<_, Failure>(()));
        assert_eq!(worker.run().await.unwrap_err().code(), Some(code));
    }
    let harness = Harness::new().await;
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let inner = harness.client().clone().retry(Retry::default().times(0));
    // The first ten calls of whatever kind are refused for reasons that pass.
    let service = tower::service_fn(move |call: Call| {
        let (inner, no) = (inner.clone(), counted.fetch_add(1, Ordering::SeqCst));
        async move {
            match no {
                0..5 => Err(Error::from(Problem::new(Code::Busy, "full").retry_after(1_000))),
                5..10 => Err(Error::from(Problem::new(Code::Unavailable, "store"))),
                _ => inner.dispatch(call).await,
            }
        }
    });
    let worker = Worker::new(Client::over(service)).state(calls).handle("counts", counts);
    tokio::spawn(worker.run());
    let run = harness.submit("counts", &()).await.unwrap();
    run.result::<u32>().await.unwrap();
    assert!(harness.elapsed() >= secs(5), "the time that the server named was kept");
}

#[tokio::test(start_paused = true)]
async fn a_stale_task_that_was_claimed_ahead_goes_to_others() {
    let harness = Harness::new().await;
    async fn mixed(Json(seconds): Json<u64>) -> Result<(), Failure> {
        tokio::time::sleep(secs(seconds)).await;
        Ok(())
    }
    let worker = Worker::new(harness.client().clone()).concurrency(1).prefetch(4).handle("mixed", mixed);
    tokio::spawn(worker.run());
    for _ in 0..5 {
        harness.submit("mixed", &0).await.unwrap();
    }
    harness.run_until_idle().await;
    let client = harness.client();
    let items = [client.submit("mixed", &100), client.submit("mixed", &0), client.submit("mixed", &0)];
    let runs = client.submit_batch(items, false).await.unwrap();
    harness.advance(secs(2)).await;
    let other = Worker::new(client.clone()).handle("mixed", mixed);
    tokio::spawn(other.run());
    harness.advance(secs(2)).await;
    for run in &runs[1..] {
        let execution = run.as_ref().unwrap().get().await.unwrap();
        assert!(execution.public_state.is_terminal(), "{execution:?}");
        assert_eq!(execution.retries_used, 0);
    }
}
