//! Outcomes that a server would not take as they are, and those of handlers that were told to stop.

use std::marker::PhantomData;
use std::time::Duration;
use tokio::sync::oneshot;
use weft_sdk::api::execution::PublicState;
use weft_sdk::client::Run;
use weft_sdk::test::Harness;
use weft_sdk::{Codec, Coded, Ctx, Failure, Json, NoResult, Worker};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const DAY: u64 = 86_400;

/// Ends as its input says.
async fn ends(Json(how): Json<String>) -> Result<(), Failure> {
    Err(match how.as_str() {
        "after" => Failure::retry_after(secs(2 * DAY)).category("billing").message("closed for two days"),
        "message" => Failure::permanent("ü".repeat(5_000)).category("billing"),
        "reason" => Failure::cancelled("r".repeat(5_000)),
        "delay" => Failure::delay(secs(20 * 365 * DAY)),
        "detail" => Failure::permanent("see detail").category("billing").detail(&"d".repeat(100 << 10)),
        "category" => Failure::permanent("who?").category("no such user, sorry"),
        "reserved" => Failure::permanent("too late").category("deadline"),
        other => Failure::permanent(other),
    })
}

async fn ended(how: &str) -> (Harness, Run) {
    let harness = Harness::new().await;
    harness.worker(|worker| worker.handle("ends", ends));
    let run = harness.submit("ends", how).max_retries(1).await.unwrap();
    harness.advance(secs(5)).await;
    (harness, run)
}

async fn failure(how: &str) -> (String, String) {
    match ended(how).await.1.payload().await {
        Err(NoResult::Failed { category, message, .. }) => (category, message),
        other => panic!("{how}: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn sdk_10_a_retry_later_than_a_day_is_tried_after_a_day_and_says_so() {
    let (_harness, run) = ended("after").await;
    let failure = run.get().await.unwrap().failure.unwrap();
    let ended_at = run.attempts().await.unwrap()[0].ended_at.unwrap();
    assert_eq!(failure.retry_at.unwrap() - ended_at, DAY * 1_000);
    assert_eq!(failure.category, "billing");
    assert!(failure.message.contains("closed for two days") && failure.message.contains("24h"), "{}", failure.message);
}

#[tokio::test(start_paused = true)]
async fn sdk_10_a_failure_that_is_too_long_keeps_its_category_and_the_start_of_its_message() {
    let (category, message) = failure("message").await;
    assert_eq!(category, "billing");
    assert!(message.starts_with("üüü") && message.len() <= 4_096, "{} bytes", message.len());
    assert!(message.ends_with("(cut, it had 10000 bytes)"), "{message}");
    let (category, message) = failure("detail").await;
    assert_eq!(category, "billing");
    assert!(message.starts_with("see detail") && message.contains("detail of 102402 bytes"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn sdk_10_a_category_that_is_none_is_made_one_and_the_message_says_so() {
    let (category, message) = failure("category").await;
    assert_eq!(category, "no_such_user__sorry");
    assert!(message.starts_with("who?") && message.contains("`no such user, sorry`"), "{message}");
    let (category, message) = failure("reserved").await;
    assert_eq!(category, "application.deadline");
    assert!(message.starts_with("too late") && message.contains("`deadline`"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn sdk_10_a_cancel_with_a_long_reason_and_a_delay_of_decades_are_taken() {
    let (_harness, run) = ended("reason").await;
    let execution = run.get().await.unwrap();
    assert_eq!((execution.public_state, execution.epoch), (PublicState::Cancelled, 1));
    let (_harness, run) = ended("delay").await;
    let execution = run.get().await.unwrap();
    assert_eq!((execution.public_state, execution.epoch), (PublicState::Delayed, 1));
}

/// Ends as its input says when it is told to stop.
async fn told(ctx: Ctx, Json(how): Json<String>) -> Result<(), Failure> {
    if how == "sleep" {
        ctx.sleep("short", secs(14)).await?;
    }
    if how == "large" {
        ctx.checkpoint(&"c".repeat(300 << 10)).later();
        std::future::pending::<()>().await;
    }
    ctx.cancelled().await;
    Err(match how.as_str() {
        "permanent" => Failure::permanent("broken").category("review"),
        "after" => Failure::retry_after(secs(60)),
        "delay" => Failure::delay(secs(3_600)),
        "cancelled" => Failure::cancelled("not needed"),
        other => Failure::retry(other),
    })
}

#[tokio::test(start_paused = true)]
async fn sdk_35_a_handler_that_decides_its_outcome_while_the_worker_stops_keeps_it() {
    for (how, state, retries_used) in [
        ("permanent", PublicState::Failed, 0),
        ("after", PublicState::Delayed, 1),
        ("delay", PublicState::Delayed, 0),
        ("cancelled", PublicState::Cancelled, 0),
        ("any error", PublicState::Waiting, 0),
        ("sleep", PublicState::Waiting, 0),
        ("large", PublicState::Waiting, 0),
    ] {
        let harness = Harness::new().await;
        let run = harness.submit("told", how).await.unwrap();
        let worker = Worker::new(harness.client().clone()).drain_timeout(secs(2)).drain_kill(secs(2));
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(worker.handle("told", told).run_until(stopped));
        harness.advance(secs(1)).await;
        stop.send(()).unwrap();
        harness.advance(secs(6)).await;
        assert!(running.is_finished(), "{how}");
        let execution = run.get().await.unwrap();
        assert_eq!((execution.public_state, execution.retries_used), (state, retries_used), "{how}");
        assert_eq!((execution.epoch, execution.reclaims), (1, 0), "{how}");
        if how == "delay" {
            assert!(execution.not_before.unwrap() - execution.updated_at >= 3_600_000, "{execution:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ex_43_a_failure_after_a_cancel_stays_on_the_attempt() {
    let harness = Harness::new().await;
    harness.worker(|worker| worker.handle("told", told));
    let run = harness.submit("told", "permanent").await.unwrap();
    harness.advance(secs(1)).await;
    run.cancel("enough").graceful(secs(60)).await.unwrap();
    assert!(matches!(run.payload().await, Err(NoResult::Cancelled { .. })));
    let attempt = run.attempts().await.unwrap().remove(0);
    let failure = attempt.failure.expect("the failure is kept");
    assert_eq!((failure.category.as_str(), failure.message.as_str()), ("review", "broken"));
}

/// JSON, backwards.
struct Backwards;

impl Codec for Backwards {
    const CONTENT_TYPE: &'static str = "application/x-backwards";
    type Error = serde_json::Error;

    fn encode<T: serde::Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Self::Error> {
        serde_json::to_vec(value).map(|bytes| bytes.into_iter().rev().collect())
    }

    fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, Self::Error> {
        serde_json::from_slice(&bytes.iter().rev().copied().collect::<Vec<_>>())
    }
}

#[tokio::test(start_paused = true)]
async fn sdk_6_values_in_another_format_go_there_and_back() {
    async fn double(Coded(n, _): Coded<Backwards, u32>) -> Result<Coded<Backwards, u32>, Failure> {
        Ok(Coded(2 * n, PhantomData))
    }
    let harness = Harness::new().await;
    harness.worker(|worker| worker.handle("double", double));
    let run = harness.client().submit_as::<Backwards, _>("double", &617).await.unwrap();
    assert_eq!(run.result_as::<Backwards, u32>().await.unwrap(), 1_234);
    let payload = run.payload().await.unwrap().unwrap();
    assert_eq!(payload.content_type.as_deref(), Some("application/x-backwards"));
    assert_eq!(payload.bytes, "4321");
    let wrong = run.result_as::<Backwards, String>().await.unwrap_err().to_string();
    assert!(wrong.contains(run.id()) && wrong.contains("application/x-backwards"), "{wrong}");
    let plain = harness.submit("double", &"text").await.unwrap();
    match plain.result_as::<Backwards, u32>().await {
        Err(NoResult::Failed { category, message, .. }) => {
            assert_eq!(category, "decode");
            assert!(message.contains("application/json"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}
