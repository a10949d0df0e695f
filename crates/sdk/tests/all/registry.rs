//! Workers that operators drain, let go on, or give up.

use std::time::Duration;
use weft_sdk::api::execution::PublicState;
use weft_sdk::api::worker::{DrainTarget, MarkDead};
use weft_sdk::test::Harness;
use weft_sdk::{Failure, Json, Worker};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn long(Json(seconds): Json<u64>) -> Result<Json<u64>, Failure> {
    tokio::time::sleep(secs(seconds)).await;
    Ok(Json(seconds))
}

#[tokio::test(start_paused = true)]
async fn sdk_33_a_worker_that_was_marked_dead_joins_again_and_goes_on() {
    let harness = Harness::new().await;
    let worker = Worker::new(harness.client().clone()).instance("w1").handle("long", long);
    let running = tokio::spawn(worker.run());
    harness.submit("long", &10).await.unwrap();
    harness.advance(secs(2)).await;
    harness.client().mark_worker_dead("w1", MarkDead { reason: "silent".into(), ..MarkDead::default() }).await.unwrap();
    harness.advance(secs(60)).await;
    assert!(!running.is_finished(), "it is nobody's successor but its own");
    let run = harness.submit("long", &1).await.unwrap();
    assert_eq!(run.result::<u64>().await.unwrap(), 1);
}

fn w1(deadline: Option<Duration>) -> DrainTarget {
    DrainTarget {
        instance: Some("w1".into()),
        reason: "deploy".into(),
        deadline_ms: deadline.map(|time| time.as_millis() as u64),
        ..DrainTarget::default()
    }
}

#[tokio::test(start_paused = true)]
async fn sd_57_a_drain_that_is_taken_back_lets_the_worker_claim_again() {
    let harness = Harness::new().await;
    let worker = Worker::new(harness.client().clone()).instance("w1").handle("long", long);
    let handle = worker.handle_on();
    let running = tokio::spawn(worker.run());
    harness.submit("long", &60).await.unwrap();
    harness.advance(secs(2)).await;
    harness.client().drain_workers(w1(None)).await.unwrap();
    harness.advance(secs(2)).await;
    assert!(handle.health().draining);
    let late = harness.submit("long", &1).await.unwrap();
    harness.advance(secs(5)).await;
    assert_eq!(late.get().await.unwrap().public_state, PublicState::Waiting);
    harness.client().undrain_workers(w1(None)).await.unwrap();
    harness.advance(secs(5)).await;
    assert!(!handle.health().draining);
    assert_eq!(late.get().await.unwrap().public_state, PublicState::Completed);
    harness.advance(secs(100)).await;
    assert!(!running.is_finished());
}

#[tokio::test(start_paused = true)]
async fn sdk_35_a_drain_with_a_deadline_hands_back_in_time() {
    let harness = Harness::new().await;
    let worker = Worker::new(harness.client().clone()).instance("w1").drain_timeout(secs(300)).drain_kill(secs(2));
    let running = tokio::spawn(worker.handle("long", long).run());
    let run = harness.submit("long", &600).await.unwrap();
    harness.advance(secs(2)).await;
    harness.client().drain_workers(w1(Some(secs(20)))).await.unwrap();
    harness.advance(secs(15)).await;
    assert!(!running.is_finished(), "there is time yet");
    harness.advance(secs(6)).await;
    assert!(running.is_finished());
    let execution = run.get().await.unwrap();
    assert_eq!((execution.public_state, execution.reclaims), (PublicState::Waiting, 0), "handed back, not taken");
}
