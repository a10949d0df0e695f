use crate::kit::*;
use std::sync::Arc;
use weft_core::error::Rejection;
use weft_core::record::execution::{AfterFailure, Outcome, Policy, PublicState, Retry};
use weft_engine::{Completion, Config, Engine, Failing, ListFilter, Renewal, Submission, TokioRuntime};
use weft_store::faulty::Faults;

#[tokio::test(start_paused = true)]
async fn ex_41_what_is_submitted_is_claimed_and_completed() {
    let kit = open().await;
    let id = kit.submit(Submission::new("mail").input(&b"order 17"[..]).tag("customer", "acme")).await;
    let work = kit.claim().await;
    assert_eq!((work.id, work.input.as_deref(), work.epoch, work.attempt), (id, Some(&b"order 17"[..]), 1, 0));
    assert_eq!(work.tags.get("customer").map(|value| value.as_ref()), Some("acme"));
    let done = kit.client.complete(Completion::of(&work).result(&b"sent"[..])).await.unwrap();
    assert_eq!((done.outcome, done.repeated), (Outcome::Success, false));
    let again = kit.client.complete(Completion::of(&work).result(&b"other"[..])).await.unwrap();
    assert!(again.repeated, "EX-22: the repeat gets the first reply");
    let result = kit.client.result(id, 0).await.unwrap();
    assert_eq!(result.bytes.as_deref(), Some(&b"sent"[..]));
    kit.engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn sd_28_a_waiting_worker_gets_a_submission_in_its_own_commit() {
    let kit = open().await;
    let client = kit.client.clone();
    let waiting = tokio::spawn(async move { client.claim(worker().wait_ms(30_000)).await });
    pass(10).await;
    let before = kit.store.commits();
    let id = kit.submit(Submission::new("mail")).await;
    let got = waiting.await.unwrap().unwrap();
    assert_eq!(got.executions[0].id, id);
    assert_eq!(kit.store.commits() - before, 1, "submit and lease are one commit");
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_together_share_a_commit() {
    let kit = open().await;
    kit.submit(Submission::new("warm")).await;
    let before = kit.engine.stats();
    let submits = (0..200).map(|n| kit.client.submit(Submission::new("mail").priority(n)));
    let answers = futures_util::future::join_all(submits).await;
    assert!(answers.iter().all(|answer| answer.is_ok()));
    let commits = kit.engine.stats().since(before).commits;
    assert!(commits < 20, "200 submissions took {commits} commits");
}

#[tokio::test(start_paused = true)]
async fn ex_43_a_failed_attempt_is_retried_after_its_backoff() {
    let kit = open().await;
    let retry = Retry { max_retries: 1, jitter: weft_core::record::execution::Jitter::None, ..Retry::default() };
    let id = kit.submit(Submission::new("mail").policy(Policy { retry, ..Policy::default() })).await;
    let work = kit.claim().await;
    let after = kit.client.fail(Failing::of(&work).message("no route")).await.unwrap();
    assert!(matches!(after.value, AfterFailure::Retry { retries_left: 0, .. }));
    kit.claim_nothing().await;
    let client = kit.client.clone();
    let waiting = tokio::spawn(async move { client.claim(worker().wait_ms(5_000)).await.unwrap() });
    let work = waiting.await.unwrap().executions.remove(0);
    assert_eq!((work.id, work.attempt, work.epoch), (id, 1, 2));
    assert_eq!(work.previous_failure.as_ref().map(|failure| failure.message.as_ref()), Some("no route"));
    let after = kit.client.fail(Failing::of(&work)).await.unwrap();
    assert!(matches!(after.value, AfterFailure::Ended { outcome: Outcome::Failed, .. }));
    assert_eq!(kit.client.get(id).await.unwrap().public_state, PublicState::Failed);
}

#[tokio::test(start_paused = true)]
async fn ex_77_one_idempotency_key_makes_one_execution() {
    let kit = open_with(4, Default::default()).await;
    let submits = (0..20).map(|_| kit.client.submit(Submission::new("mail").idempotency_key(&b"order-17"[..])));
    let answers = futures_util::future::join_all(submits).await;
    let ids: std::collections::BTreeSet<_> = answers.iter().map(|answer| answer.as_ref().unwrap().id).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(answers.iter().filter(|answer| !answer.as_ref().unwrap().duplicate).count(), 1);
    let other = Submission::new("mail").idempotency_key(&b"order-17"[..]).priority(5);
    assert_eq!(kit.client.submit(other).await.unwrap_err().code(), "idempotency_mismatch");
}

#[tokio::test(start_paused = true)]
async fn shutdown_answers_what_waits_and_keeps_what_was_acknowledged() {
    let kit = open().await;
    let id = kit.submit(Submission::new("mail").lane("other")).await;
    let client = kit.client.clone();
    let waiting = tokio::spawn(async move { client.claim(worker().wait_ms(60_000)).await });
    pass(5).await;
    kit.engine.shutdown().await;
    assert!(waiting.await.unwrap().unwrap().draining);
    assert_eq!(kit.client.submit(Submission::new("mail")).await.unwrap_err().code(), "unavailable");
    let again = Engine::open(kit.store.clone(), Default::default()).await.unwrap();
    let client = again.client("shop").unwrap();
    assert_eq!(client.get(id).await.unwrap().public_state, PublicState::Waiting);
    assert_eq!(client.claim(worker().lane("other")).await.unwrap().executions[0].id, id);
}

/// The store can be opened again: nothing of an engine that was shut down and dropped still holds it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_store_is_let_go_before_shutdown_is_over() {
    for _ in 0..200 {
        let store = Arc::new(memory(8));
        let runtime = Arc::new(TokioRuntime::current());
        let engine = Engine::open_on(store.clone(), Config::default(), runtime).await.unwrap();
        engine.shutdown().await;
        drop(engine);
        assert_eq!(Arc::strong_count(&store), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_mailbox_answers_busy_and_does_not_hold_up_who_ends_work() {
    let config = Config { queue_max: 8, ..Config::default() };
    let (_store, faulty, engine) = open_faulty(Faults::default(), config).await;
    let client = engine.client("shop").unwrap();
    client.submit(Submission::new("mail")).await.unwrap();
    let work = client.claim(worker()).await.unwrap().executions.remove(0);

    // A store that takes its time, and more calls at once than may wait.
    faulty.set_faults(Faults { before_ms: (500, 500), ..Faults::default() });
    let before = engine.stats();
    let submits = futures_util::future::join_all((0..100).map(|_| client.submit(Submission::new("mail"))));
    let (submitted, completed) = tokio::join!(submits, client.complete(Completion::of(&work)));
    completed.expect("what ends work has a mailbox of its own");
    let refused: Vec<_> = submitted.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert!(
        refused.iter().all(|refusal| matches!(refusal, Rejection::Busy { retry_after_ms: 1.., .. })),
        "{refused:?}"
    );
    assert_eq!(engine.stats().since(before).busy, refused.len() as u64);
    let accepted = submitted.len() - refused.len();
    assert!((8..100).contains(&accepted), "{accepted} of 100 were accepted");
    let counted: u64 = client.count(ListFilter::default()).await.unwrap().values().sum();
    assert_eq!(counted, accepted as u64 + 1, "a refused submission leaves nothing");
}

#[tokio::test(start_paused = true)]
async fn ex_37_many_leases_are_renewed_and_completed_in_one_commit_each() {
    let kit = open().await;
    for _ in 0..100 {
        kit.submit(Submission::new("mail")).await;
    }
    let held = kit.client.claim(worker().max(100)).await.unwrap().executions;
    assert_eq!(held.len(), 100);
    pass(100).await;
    let before = kit.store.commits();
    let renewed = kit.client.renew_batch(held.iter().map(Renewal::of).collect()).await;
    assert!(renewed.iter().all(Result::is_ok));
    assert_eq!(kit.store.commits() - before, 1);
    let completed = kit.client.complete_batch(held.iter().map(Completion::of).collect()).await;
    assert!(completed.iter().all(Result::is_ok));
    assert_eq!(kit.store.commits() - before, 2);
}
