//! Replies that are lost, servers that are away, workers that crash.

use crate::between::between;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use weft_sdk::api::execution::{PublicState, Submit};
use weft_sdk::api::{Call, Code, Problem};
use weft_sdk::layer::Retry;
use weft_sdk::test::Harness;
use weft_sdk::worker::TaskService;
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

#[tokio::test(start_paused = true)]
async fn sdk_33_an_outage_longer_than_a_lease_leaves_a_worker_that_rests_and_goes_on() {
    async fn slow(Json(seconds): Json<u64>) -> Result<Json<u64>, Failure> {
        tokio::time::sleep(secs(seconds)).await;
        Ok(Json(seconds))
    }
    let harness = Harness::new().await;
    let (client, away) = switched(harness.client());
    tokio::spawn(Worker::new(client).handle("slow", slow).run());
    let run = harness.submit("slow", &8).await.unwrap();
    harness.advance(secs(2)).await;
    away.store(true, Ordering::SeqCst);
    // Time passes only while nobody is busy, so that a loop which never rests would stop it here.
    harness.advance(secs(60)).await;
    away.store(false, Ordering::SeqCst);
    assert_eq!(run.result::<u64>().await.unwrap(), 8);
    assert_eq!(run.get().await.unwrap().epoch, 2, "the first lease was over");
}

#[tokio::test(start_paused = true)]
async fn sdk_33_a_server_that_is_not_trusted_ends_a_worker_that_has_not_begun_and_no_other() {
    const TRUSTED: u32 = 1;
    const LOST: u32 = 2;
    async fn quick() -> Result<(), Failure> {
        Ok(())
    }
    let (phase, refused) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let harness = Harness::new().await;
    let (now, count) = (phase.clone(), refused.clone());
    let client = between(harness.client(), move |call, inner| {
        let (phase, is_join, is_claim) =
            (now.load(Ordering::SeqCst), call.spec().id == "register_worker", call.spec().id == "claim");
        count.fetch_add(u32::from(is_join && phase != TRUSTED), Ordering::SeqCst);
        async move {
            match phase {
                TRUSTED => inner.dispatch(call).await,
                LOST if is_claim => Err(Problem::new(Code::WorkerNotFound, "gone").into()),
                LOST if !is_join => inner.dispatch(call).await,
                _ => Err(Error::Transport {
                    retryable: true,
                    message: "not trusted".to_string(),
                    retry_after_ms: None,
                    source: Some(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer).into()),
                }),
            }
        }
    });
    let worker = || Worker::new(client.clone()).handle("quick", quick);
    let ended = tokio::time::timeout(secs(60), worker().run()).await.expect("it ends");
    assert_eq!((ended.unwrap_err().to_string().as_str(), refused.load(Ordering::SeqCst)), ("not trusted", 1));

    phase.store(TRUSTED, Ordering::SeqCst);
    tokio::spawn(worker().run());
    harness.submit("quick", &()).await.unwrap().result::<()>().await.unwrap();
    phase.store(LOST, Ordering::SeqCst);
    harness.advance(secs(120)).await;
    assert!(refused.load(Ordering::SeqCst) > 2, "it tries again");
    phase.store(TRUSTED, Ordering::SeqCst);
    harness.submit("quick", &()).await.unwrap().result::<()>().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn sdk_33_while_a_server_cannot_look_for_earlier_leases_a_worker_claims_without_an_id() {
    async fn quick() -> Result<(), Failure> {
        Ok(())
    }
    let refused = Arc::new(AtomicU32::new(0));
    let harness = Harness::new().await;
    let count = refused.clone();
    let client = between(harness.client(), move |call, inner| {
        let is_named = matches!(&call, Call::Claim(args) if args.body.request_id.is_some());
        count.fetch_add(u32::from(is_named), Ordering::SeqCst);
        async move {
            match is_named {
                true => Err(Problem::new(Code::Unavailable, "no answer").field("outcome_unknown", false).into()),
                false => inner.dispatch(call).await,
            }
        }
    });
    let running = tokio::spawn(Worker::new(client).handle("quick", quick).run());
    for _ in 0..30 {
        let run = harness.submit("quick", &()).await.unwrap();
        harness.advance(secs(1)).await;
        assert!(
            !running.is_finished() && run.get().await.unwrap().public_state == PublicState::Completed,
            "{refused:?}"
        );
    }
    assert!((2..=5).contains(&refused.load(Ordering::SeqCst)), "once in ten seconds: {refused:?}");
}

#[tokio::test(start_paused = true)]
async fn sdk_31_an_outage_does_not_hold_up_short_leases_that_are_claimed_after_it() {
    async fn slow(Json(ms): Json<u64>) -> Result<(), Failure> {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        Ok(())
    }
    let harness = Harness::new().await;
    let (client, away) = switched(harness.client());
    tokio::spawn(Worker::new(client).lease(secs(1)).handle("slow", slow).run());
    let first = [harness.submit("slow", &500).await.unwrap(), harness.submit("slow", &5_000).await.unwrap()];
    harness.advance(Duration::from_millis(200)).await;
    away.store(true, Ordering::SeqCst);
    harness.advance(secs(120)).await;
    let mut epochs = Vec::new();
    for run in &first {
        epochs.push(run.get().await.unwrap().epoch);
    }
    away.store(false, Ordering::SeqCst);
    for (run, epoch) in first.iter().zip(epochs) {
        assert_eq!(run.wait().await.unwrap().epoch, epoch + 1, "the first lease after the outage was kept");
    }
}

#[tokio::test(start_paused = true)]
async fn sdk_30_a_task_that_was_handed_back_as_stale_is_not_claimed_ahead_again_and_again() {
    let harness = Harness::new().await;
    async fn mixed(Json(seconds): Json<u64>) -> Result<(), Failure> {
        tokio::time::sleep(secs(seconds)).await;
        Ok(())
    }
    let worker = Worker::new(harness.client().clone()).concurrency(2).handle("mixed", mixed);
    tokio::spawn(worker.run());
    for _ in 0..20 {
        harness.submit("mixed", &0).await.unwrap();
    }
    harness.run_until_idle().await;
    let client = harness.client();
    let mut runs = Vec::new();
    // Two that fill every permit, and then some that might be claimed ahead.
    for seconds in [100, 100, 0, 0, 0, 0] {
        runs.push(client.submit("mixed", &seconds).await.unwrap());
        harness.advance(Duration::from_millis(2)).await;
    }
    harness.advance(secs(60)).await;
    for run in &runs {
        let execution = run.get().await.unwrap();
        assert!(execution.epoch <= 2, "{execution:?}");
    }
    harness.run_until_idle().await;
    for run in runs {
        assert!(run.get().await.unwrap().public_state.is_terminal());
    }
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "the worker of the harness broke down: no such thing")]
async fn sdk_41_a_worker_that_breaks_down_fails_the_test() {
    let harness = Harness::new().await;
    harness.worker(|worker| {
        let worker = worker.handle("k", async || Ok::<_, Failure>(()));
        worker.layer(tower::layer::layer_fn(|_| -> TaskService { panic!("no such thing") }))
    });
    let run = harness.submit("k", &()).await.unwrap();
    let _ = run.result::<()>().await;
}

#[tokio::test(start_paused = true)]
async fn sdk_41_a_crash_ends_the_process_whose_change_it_follows() {
    async fn quick() -> Result<(), Failure> {
        Ok(())
    }
    async fn slow() -> Result<(), Failure> {
        tokio::time::sleep(secs(8)).await;
        Ok(())
    }
    // Of two workers the one that makes the change is the one that dies: the work of the other goes on under its lease.
    Harness::crash_everywhere(
        |worker| worker.lane("quick").handle("quick", quick),
        |harness| async move {
            harness.worker(|worker| worker.lane("slow").handle("slow", slow));
            let run = harness.submit("slow", &()).lane("slow").await.unwrap();
            harness.submit("quick", &()).lane("quick").await.unwrap();
            run.wait().await.unwrap();
        },
    )
    .await;
}
