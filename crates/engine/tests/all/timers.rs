use crate::kit::*;
use weft_core::limits::WORKER_TTL_MS_DEFAULT;
use weft_core::record::execution::{Outcome, Policy, PublicState, Reason};
use weft_engine::{Cancellation, Claim, Completion, Holding, Notice, Renewal, Submission, Waiting};

#[tokio::test(start_paused = true)]
async fn ex_52_a_lost_lease_requeues_itself_at_its_time() {
    let kit = open().await;
    let id = kit.submit(Submission::new("mail")).await;
    let work = kit.client.claim(worker().lease_ms(1_000)).await.unwrap().executions.remove(0);
    let client = kit.client.clone();
    let began = tokio::time::Instant::now();
    let next = tokio::spawn(async move { client.claim(worker().wait_ms(10_000)).await.unwrap() });
    let again = next.await.unwrap().executions.remove(0);
    assert_eq!((again.id, again.epoch, again.attempt), (id, 2, 1));
    let late = began.elapsed().as_millis() - 1_000;
    assert!(late < 50, "reclaimed {late} ms after the lease ran out");
    assert_eq!(kit.client.complete(Completion::of(&work)).await.unwrap_err().code(), "lease_expired");
    kit.client.complete(Completion::of(&again)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn ex_37_a_renewed_lease_does_not_run_out() {
    let kit = open().await;
    kit.submit(Submission::new("mail")).await;
    let work = kit.client.claim(worker().lease_ms(1_000)).await.unwrap().executions.remove(0);
    for _ in 0..20 {
        pass(600).await;
        assert_eq!(kit.client.renew(Renewal::of(&work)).await.unwrap().expires_in_ms, 1_000);
    }
    kit.client.complete(Completion::of(&work)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn sc_150_two_thousand_leases_that_run_out_together_are_all_requeued() {
    let kit = open().await;
    for _ in 0..2 {
        let items = (0..1000).map(|_| Submission::new("mail")).collect();
        assert!(kit.client.submit_batch(items).await.iter().all(Result::is_ok));
    }
    let mut held = 0;
    while held < 2000 {
        held += kit.client.claim(worker().max(256).lease_ms(1_000)).await.unwrap().executions.len();
    }
    let began = tokio::time::Instant::now();
    let mut again = 0;
    while again < 2000 {
        again += kit.client.claim(worker().max(256).wait_ms(5_000)).await.unwrap().executions.len();
    }
    assert!(began.elapsed().as_millis() < 1_500, "no interval lies between the batches");
}

#[tokio::test(start_paused = true)]
async fn a_delayed_execution_becomes_claimable_at_its_time() {
    let kit = open().await;
    kit.submit(Submission::new("mail").delay_ms(5_000)).await;
    kit.claim_nothing().await;
    let began = tokio::time::Instant::now();
    let reply = kit.client.claim(worker().wait_ms(20_000)).await.unwrap();
    assert_eq!(reply.executions.len(), 1);
    let took = began.elapsed().as_millis();
    assert!((5_000..5_050).contains(&took), "claimed after {took} ms");
}

#[tokio::test(start_paused = true)]
async fn ex_58_the_deadline_ends_it_in_every_state() {
    let kit = open().await;
    let waiting = kit.submit(Submission::new("a").deadline_in_ms(1_000)).await;
    let delayed = kit.submit(Submission::new("b").delay_ms(900).deadline_in_ms(1_000)).await;
    let held = kit.submit(Submission::new("c").deadline_in_ms(1_000)).await;
    kit.client.hold(Holding::new(held, "look first")).await.unwrap();
    let active = kit.submit(Submission::new("d").deadline_in_ms(1_000)).await;
    let work = kit.client.claim(worker().kind("d")).await.unwrap().executions.remove(0);
    for id in [waiting, delayed, held, active] {
        let result = kit.client.result(id, 5_000).await.unwrap();
        assert_eq!((result.outcome, result.reason), (Outcome::Expired, Reason::Deadline));
    }
    assert_eq!(kit.client.complete(Completion::of(&work)).await.unwrap_err().code(), "lease_lost");
}

#[tokio::test(start_paused = true)]
async fn ex_57_an_attempt_that_runs_too_long_fails_and_is_retried() {
    let kit = open().await;
    let policy = Policy { attempt_timeout_ms: Some(500), ..Policy::default() };
    let id = kit.submit(Submission::new("mail").policy(policy)).await;
    let work = kit.claim().await;
    assert_eq!(work.timeout_left_ms, Some(500));
    let other = Claim::new("mailer", "mailer-2").wait_ms(5_000);
    let again = kit.client.claim(other).await.unwrap().executions.remove(0);
    assert_eq!((again.id, again.attempt), (id, 1));
    assert_eq!(again.previous_failure.as_ref().map(|failure| failure.category.as_ref()), Some("timeout"));
}

#[tokio::test(start_paused = true)]
async fn ex_64_the_worker_hears_of_a_cancel_and_is_cut_off_after_the_grace() {
    let kit = open().await;
    let id = kit.submit(Submission::new("mail")).await;
    let mut notices = kit.client.notices("mailer-1");
    let work = kit.claim().await;
    kit.client.cancel(Cancellation::new(id, "changed my mind").graceful(2_000)).await.unwrap();
    assert!(matches!(notices.recv().await, Some(Notice::CancelRequested { execution, .. }) if execution == id));
    let renewed = kit.client.renew(Renewal::of(&work)).await.unwrap();
    assert_eq!(renewed.into_value().cancel.unwrap().reason.as_ref(), "changed my mind");
    let result = kit.client.result(id, 10_000).await.unwrap();
    assert_eq!(result.outcome, Outcome::Cancelled);
    assert!(matches!(notices.recv().await, Some(Notice::Cancelled { execution, .. }) if execution == id));
    assert_eq!(kit.client.complete(Completion::of(&work)).await.unwrap_err().code(), "cancelled");
}

#[tokio::test(start_paused = true)]
async fn ex_81_a_finished_execution_is_purged_at_its_time_and_leaves_nothing() {
    let kit = open().await;
    let short = Policy { retention_ms: Some(1_000), ..Policy::default() };
    let id = kit.submit(Submission::new("mail").policy(short)).await;
    let kept = kit.submit(Submission::new("mail")).await;
    for _ in 0..2 {
        let work = kit.claim().await;
        kit.client.complete(Completion::of(&work)).await.unwrap();
    }
    assert_eq!(kit.client.get(id).await.unwrap().public_state, PublicState::Completed);
    // The trimmer groups its work by the second.
    pass(2_100).await;
    let gone = tokio::time::timeout(std::time::Duration::from_secs(10), async {
        while kit.client.get(id).await.is_ok() {
            pass(50).await;
        }
    });
    gone.await.expect("it is purged");
    assert_eq!(kit.client.get(id).await.unwrap_err().code(), "execution_not_found");
    assert!(kit.client.get(kept).await.is_ok());
    assert_eq!(crate::kit::kept(&kit.store).len(), 2, "one execution and its attempt are left");
}

#[tokio::test(start_paused = true)]
async fn ex_48_a_parent_sleeps_until_its_children_have_ended() {
    let kit = open_with(4, Default::default()).await;
    let parent = kit.submit(Submission::new("parent")).await;
    let work = kit.client.claim(worker().kind("parent")).await.unwrap().executions.remove(0);
    let mut children = Vec::new();
    for n in 0..3 {
        children.push(kit.submit(Submission::new("child").child_of(&work).input(vec![n])).await);
    }
    assert!(children.iter().all(|child| child.partition() == parent.partition()));
    kit.client.wait_children(Waiting::of(&work)).await.unwrap();
    assert_eq!(kit.client.get(parent).await.unwrap().public_state, PublicState::WaitingChildren);
    for _ in 0..3 {
        let child = kit.client.claim(worker().kind("child")).await.unwrap().executions.remove(0);
        let input = child.input.clone().unwrap();
        kit.client.complete(Completion::of(&child).result(input)).await.unwrap();
    }
    let resumed = kit.client.claim(worker().kind("parent")).await.unwrap().executions.remove(0);
    assert!(resumed.resumed);
    let outcome = resumed.children.unwrap();
    let results: Vec<u8> = outcome.children.iter().map(|child| child.result.as_ref().unwrap().bytes[0]).collect();
    assert_eq!(results.len(), 3);
    assert_eq!(results.iter().map(|byte| u32::from(*byte)).sum::<u32>(), 3);
}

#[tokio::test(start_paused = true)]
async fn ex_62_cancelling_a_parent_cancels_all_its_children() {
    let kit = open().await;
    let parent = kit.submit(Submission::new("parent")).await;
    let work = kit.client.claim(worker().kind("parent")).await.unwrap().executions.remove(0);
    let mut children = Vec::new();
    for _ in 0..3 {
        let items = (0..800).map(|_| Submission::new("child").child_of(&work)).collect();
        children.extend(kit.client.submit_batch(items).await.into_iter().map(|answer| answer.unwrap().id));
    }
    kit.client.cancel(Cancellation::new(parent, "all of it")).await.unwrap();
    for child in children {
        let result = kit.client.result(child, 10_000).await.unwrap();
        assert_eq!((result.outcome, result.reason), (Outcome::Cancelled, Reason::Parent));
    }
}

#[tokio::test(start_paused = true)]
async fn sr_57_an_idle_engine_only_looks() {
    let kit = open().await;
    kit.submit(Submission::new("mail").delay_ms(3_600_000)).await;
    let client = kit.client.clone();
    let waiting = tokio::spawn(async move { client.claim(worker().wait_ms(60_000)).await });
    pass(1_000).await;
    let before = kit.engine.stats();
    waiting.await.unwrap().unwrap();
    let idle = kit.engine.stats().since(before);
    // SD-49: that the process which waits was seen is written every third of its ttl.
    assert_eq!(idle.commits, 60_000 / (WORKER_TTL_MS_DEFAULT / 3));
    assert!(idle.store_calls() <= 8 + idle.commits, "a minute of idling made {idle:?}");
    let before = kit.engine.stats();
    linger(30_000).await;
    assert_eq!(kit.engine.stats().since(before).commits, 0, "nobody waits");
}
