use crate::kit::*;
use weft_core::command::{Fence, Principal, Scopes};
use weft_core::limits;
use weft_core::record::execution::{Policy, Retry};
use weft_core::{ExecutionId, LeaseId, PartitionId};
use weft_engine::{Cancellation, Claim, Completion, ForceFailing, Holding, Progressing, Renewal, Submission};

/// Every refused submission has its code, says the field, and leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn ex_7_bad_submissions_are_refused_and_leave_no_trace() {
    let kit = open().await;
    let before = kit.store.dump(PartitionId(0));
    let policy = |policy: Policy| Submission::new("mail").policy(policy);
    let long = "x".repeat(200);
    let bad = [
        (Submission::new(""), "invalid_argument"),
        (Submission::new("a b"), "invalid_argument"),
        (Submission::new(long.as_str()), "invalid_argument"),
        (Submission::new("mail").lane(""), "invalid_argument"),
        (Submission::new("mail").lane("-x"), "invalid_argument"),
        (Submission::new("mail").lane(long.as_str()), "invalid_argument"),
        (Submission::new("mail").input(vec![0; limits::INPUT_MAX + 1]), "payload_too_large"),
        (Submission::new("mail").priority(9001), "invalid_argument"),
        (Submission::new("mail").needs("a,b"), "invalid_argument"),
        (Submission::new("mail").delay_ms(limits::HORIZON_MS + 1), "invalid_argument"),
        (Submission::new("mail").deadline_at(weft_core::Time::from_ms(5)), "deadline_in_past"),
        (Submission::new("mail").delay_ms(10).deadline_in_ms(5), "invalid_argument"),
        (Submission::new("mail").tag("weft.x", "y"), "invalid_argument"),
        (Submission::new("mail").tag("k", "v".repeat(300)), "payload_too_large"),
        (Submission::new("mail").idempotency_key(&b""[..]), "invalid_argument"),
        (Submission::new("mail").idempotency_key(vec![1; 257]), "payload_too_large"),
        (Submission::new("mail").concurrency_key(&b""[..]), "invalid_argument"),
        (Submission::new("mail").trace("t".repeat(600)), "payload_too_large"),
        (policy(Policy { attempt_timeout_ms: Some(1), ..Policy::default() }), "invalid_argument"),
        (policy(Policy { max_reclaims: 1_000_000, ..Policy::default() }), "invalid_argument"),
        (
            policy(Policy { retry: Retry { max_retries: 5_000, ..Retry::default() }, ..Policy::default() }),
            "invalid_argument",
        ),
    ];
    for (submission, code) in bad {
        let shown = format!("{submission:?}");
        let refusal = kit.client.submit(submission).await.unwrap_err();
        assert_eq!(refusal.code(), code, "{} for {}", refusal, &shown[..shown.len().min(200)]);
    }
    assert_eq!(kit.store.dump(PartitionId(0)), before, "EX-3");
    assert_eq!(kit.store.commits(), 0);
}

#[tokio::test(start_paused = true)]
async fn ex_11_one_bad_item_never_fails_another() {
    let kit = open().await;
    let answers =
        kit.client.submit_batch(vec![Submission::new("good"), Submission::new("b d"), Submission::new("good")]).await;
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    let many = (0..1001).map(|_| Submission::new("good")).collect();
    assert!(kit.client.submit_batch(many).await.iter().all(Result::is_err));
}

#[tokio::test(start_paused = true)]
async fn ex_9_unknown_foreign_and_impossible_ids() {
    let kit = open().await;
    let id = kit.submit(Submission::new("mail")).await;
    let unknown = ExecutionId::new(PartitionId(0), uuid::Uuid::from_u128(7));
    let beyond = ExecutionId::new(PartitionId(9), uuid::Uuid::from_u128(7));
    assert_eq!(kit.client.get(unknown).await.unwrap_err().code(), "execution_not_found");
    assert_eq!(kit.client.get(beyond).await.unwrap_err().code(), "invalid_id");
    assert_eq!(kit.client.cancel(Cancellation::new(beyond, "x")).await.unwrap_err().code(), "invalid_id");
    assert_eq!(kit.client.cancel(Cancellation::new(unknown, "x")).await.unwrap_err().code(), "execution_not_found");
    let other = kit.engine.client("other").unwrap();
    assert_eq!(other.get(id).await.unwrap_err().code(), "execution_not_found");
    assert_eq!(other.cancel(Cancellation::new(id, "x")).await.unwrap_err().code(), "execution_not_found");
    assert!(other.claim(worker()).await.unwrap().executions.is_empty());
    assert!(kit.engine.client("").is_err());
    assert!(kit.engine.client("a b").is_err());
}

#[tokio::test(start_paused = true)]
async fn fences_that_are_not_current_change_nothing() {
    let kit = open().await;
    let id = kit.submit(Submission::new("mail")).await;
    let nobody = Fence { lease: LeaseId::new(PartitionId(0), uuid::Uuid::from_u128(1)), epoch: 1 };
    let refused = kit.client.complete(Completion::new(id, nobody)).await.unwrap_err();
    assert_eq!(refused.code(), "execution_not_active");
    let work = kit.claim().await;
    assert_eq!(kit.client.complete(Completion::new(id, nobody)).await.unwrap_err().code(), "stale_lease");
    let wrong = Fence { lease: work.lease, epoch: work.epoch + 1 };
    assert_eq!(kit.client.renew(Renewal::new(id, wrong)).await.unwrap_err().code(), "stale_lease");
    let none = Completion { fence: None, ..Completion::of(&work) };
    assert_eq!(kit.client.complete(none).await.unwrap_err().code(), "fence_required");
    assert_eq!(kit.client.progress(Progressing::of(&work)).await.unwrap_err().code(), "invalid_argument");
    let big = Completion::of(&work).result(vec![0; limits::RESULT_MAX + 1]);
    assert_eq!(kit.client.complete(big).await.unwrap_err().code(), "payload_too_large");
    kit.client.complete(Completion::of(&work)).await.unwrap();
    assert_eq!(kit.client.cancel(Cancellation::new(id, "late")).await.unwrap_err().code(), "execution_terminal");
}

#[tokio::test(start_paused = true)]
async fn bad_claims_say_what_is_wrong() {
    let kit = open().await;
    let bad = [
        Claim::new("", "i"),
        Claim::new("w", ""),
        worker().max(0),
        worker().max(257),
        worker().wait_ms(60_001),
        worker().lease_ms(99),
        worker().lease_ms(3_600_001),
        worker().lane("no good"),
        worker().kind("no good"),
        worker().offers("a,b"),
        worker().request_id(&b""[..]),
    ];
    for claim in bad {
        assert_eq!(kit.client.claim(claim.clone()).await.unwrap_err().code(), "invalid_argument", "{claim:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn sec_5_scopes_are_checked_before_anything_is_read() {
    let kit = open().await;
    let id = kit.submit(Submission::new("mail")).await;
    let as_scopes = |scopes| kit.engine.client_as(Principal::new("shop", "key", scopes));
    let worker_only = as_scopes(Scopes::WORK);
    assert_eq!(worker_only.submit(Submission::new("mail")).await.unwrap_err().code(), "forbidden");
    assert_eq!(worker_only.hold(Holding::new(id, "x")).await.unwrap_err().code(), "forbidden");
    assert_eq!(worker_only.cancel(Cancellation::new(id, "x")).await.unwrap_err().code(), "fence_required");
    let submit_only = as_scopes(Scopes::SUBMIT);
    assert_eq!(submit_only.claim(worker()).await.unwrap_err().code(), "forbidden");
    assert_eq!(submit_only.force_fail(ForceFailing::new(id, "x", "y")).await.unwrap_err().code(), "forbidden");
}
