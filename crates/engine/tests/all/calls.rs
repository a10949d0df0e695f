//! What calls have in common: request ids, revisions, batches that are mixed or done whole.

use crate::kit::*;
use weft_core::error::Rejection;
use weft_core::record::execution::{AfterFailure, Outcome, PublicState};
use weft_core::reply::{Cancelled, Children};
use weft_engine::*;

#[tokio::test(start_paused = true)]
async fn ex_76_every_verb_tells_that_it_was_a_repeat() {
    let kit = open().await;
    let client = &kit.client;
    /// Makes the call twice with one request id: equal answers, the second as a repeat.
    macro_rules! twice {
        ($verb:ident, $request:expr) => {{
            let request = $request.request_id(concat!("r ", stringify!($verb)));
            let first = client.$verb(request.clone()).await.unwrap();
            let again = client.$verb(request).await.unwrap();
            assert_eq!((first.repeated, again.repeated), (false, true), stringify!($verb));
            assert_eq!(first.value, again.value, stringify!($verb));
            first.into_value()
        }};
    }
    let id = twice!(submit, Submission::new("mail").delay_ms(60_000)).id;
    let (_, new) = twice!(reschedule, Rescheduling::new(id, weft_core::command::When::InMs(0)));
    assert_eq!(client.get(id).await.unwrap().execution.hot.changed_at, new);
    assert_eq!(twice!(change_priority, Prioritising::new(id, 7)), 0);
    assert_eq!(twice!(set_tags, Tagging::new(id).set("a", "b")).len(), 1);
    assert!(twice!(hold, Holding::new(id, "look first")));
    assert_eq!(twice!(release, Releasing::new(id)).public_state, PublicState::Waiting);
    let work = kit.claim().await;
    assert_eq!(twice!(revoke, Revoking::new(id, "mine").epoch(work.epoch)).epoch, work.epoch);
    let work = kit.claim().await;
    twice!(renew, Renewal::of(&work));
    twice!(progress, Progressing::of(&work).percent(3));
    twice!(complete, Completion::of(&work));
    twice!(replay, Replaying::new(id, "again"));
    let work = kit.claim().await;
    twice!(delay, Delaying::of(&work));
    let work = kit.claim().await;
    twice!(fail, Failing::of(&work).never());
    client.replay(Replaying::new(id, "and again")).await.unwrap();
    assert_eq!(twice!(cancel, Cancellation::new(id, "enough")), Cancelled::Done { already: false });
    client.replay(Replaying::new(id, "once more")).await.unwrap();
    let forcing = ForceCompleting::new(id, "by hand").result(&b"{}"[..]).content_type("application/json");
    assert_eq!(twice!(force_complete, forcing), Outcome::Success);
    assert_eq!(client.result(id, 0).await.unwrap().content_type.as_deref(), Some("application/json"));
    client.replay(Replaying::new(id, "to fail")).await.unwrap();
    assert_eq!(twice!(force_fail, ForceFailing::new(id, "no", "by hand")), Outcome::Failed);
    twice!(purge, Purging::new(id));
}

#[tokio::test(start_paused = true)]
async fn ex_22_a_repeat_by_fence_is_told_as_one() {
    let kit = open().await;
    kit.submit(Submission::new("mail")).await;
    let work = kit.claim().await;
    assert!(!kit.client.complete(Completion::of(&work)).await.unwrap().repeated);
    assert!(kit.client.complete(Completion::of(&work)).await.unwrap().repeated);
}

#[tokio::test(start_paused = true)]
async fn ex_76_a_repeated_claim_says_so() {
    let kit = open_with(4, Default::default()).await;
    kit.submit(Submission::new("mail")).await;
    let first = kit.client.claim(worker().request_id("c")).await.unwrap();
    let again = kit.client.claim(worker().request_id("c")).await.unwrap();
    assert_eq!((first.repeated, again.repeated), (false, true));
    assert_eq!(first.executions[0].lease, again.executions[0].lease);
}

#[tokio::test(start_paused = true)]
async fn api_12_a_change_of_what_has_changed_since_is_refused() {
    let kit = open().await;
    let id = kit.submit(Submission::new("mail")).await;
    let seen = kit.client.get(id).await.unwrap().revision;
    assert_eq!(seen.to_string().parse(), Ok(seen), "it can be written down and read back");
    kit.client.hold(Holding::new(id, "x").expected_revision(seen)).await.unwrap();
    let now = kit.client.get(id).await.unwrap().revision;
    let late = kit.client.release(Releasing::new(id).expected_revision(seen)).await;
    assert_eq!(late.unwrap_err(), Rejection::RevisionMismatch { current: Some(now) });
    assert_eq!(kit.client.get(id).await.unwrap().public_state, PublicState::Held);
    kit.client.release(Releasing::new(id).expected_revision(now)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn api_12_of_two_changes_of_one_revision_only_one_goes_through() {
    let store = memory(1).shared();
    let one = Engine::open(store.node_handle(), Default::default()).await.unwrap().client("shop").unwrap();
    let two = Engine::open(store.node_handle(), Default::default()).await.unwrap().client("shop").unwrap();
    let id = one.submit(Submission::new("mail")).await.unwrap().id;
    for priority in 1..20 {
        let seen = one.get(id).await.unwrap().revision;
        let wish = |priority: u32| Prioritising::new(id, priority).expected_revision(seen);
        // Two calls on one node may even share a commit, those of the other come with another.
        let (a, b, c) = tokio::join!(
            one.change_priority(wish(priority * 3)),
            one.change_priority(wish(priority * 3 + 1)),
            two.change_priority(wish(priority * 3 + 2)),
        );
        let through = [&a, &b, &c].iter().filter(|answer| answer.is_ok()).count();
        assert_eq!(through, 1, "{a:?} {b:?} {c:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn sdk_31_work_is_settled_in_different_ways_in_one_call() {
    let kit = open().await;
    let parent = kit.submit(Submission::new("parent")).await;
    let waits = kit.claim().await;
    kit.submit(Submission::new("child").lane("other").child_of(&waits)).await;
    for _ in 0..4 {
        kit.submit(Submission::new("mail")).await;
    }
    let works = kit.client.claim(worker().max(4)).await.unwrap().executions;
    let commits = kit.engine.stats().commits;
    let answers = kit
        .client
        .settle_batch(vec![
            Settle::Complete(Completion::of(&works[0]).step("a", &b"1"[..])),
            Settle::Fail(Failing::of(&works[1]).never()),
            Settle::Complete(Completion::of(&works[1])),
            Settle::Delay(Delaying::of(&works[2]).by_ms(1_000)),
            Settle::WaitChildren(Waiting::of(&waits)),
            Settle::Cancel(Cancellation::new(works[3].id, "not needed").held(&works[3])),
        ])
        .await;
    assert!(matches!(answers[0].as_deref(), Ok(Settled::Completed(_))), "{answers:?}");
    assert!(matches!(answers[1].as_deref(), Ok(Settled::Failed(AfterFailure::Ended { .. }))));
    assert_eq!(answers[2].as_ref().unwrap_err().code(), "execution_terminal");
    assert!(matches!(answers[3].as_deref(), Ok(Settled::Delayed(_))));
    assert!(matches!(answers[4].as_deref(), Ok(Settled::Children(Children::Waiting { waiting: 1, .. }))));
    assert!(matches!(answers[5].as_deref(), Ok(Settled::Cancelled(Cancelled::Done { already: false }))));
    assert_eq!(kit.engine.stats().commits, commits + 1, "one commit");
    assert_eq!(kit.client.get(parent).await.unwrap().public_state, PublicState::WaitingChildren);
}

#[tokio::test(start_paused = true)]
async fn ex_28_a_batch_is_submitted_whole_or_not_at_all() {
    let kit = open_with(8, Default::default()).await;
    let good = || vec![Submission::new("a"), Submission::new("b"), Submission::new("c").delay_ms(1_000)];
    let mut bad = good();
    bad[2] = bad[2].clone().priority(9_001);
    let refused = kit.client.submit_atomic(bad, None).await.unwrap_err();
    assert!(matches!(refused, Rejection::AtItem { index: 2, .. }), "{refused:?}");
    assert_eq!(kit.client.list(ListFilter::default()).await.unwrap().executions.len(), 0);
    let done = kit.client.submit_atomic(good(), Some("batch".into())).await.unwrap();
    let partitions: std::collections::BTreeSet<_> = done.iter().map(|one| one.id.partition()).collect();
    assert_eq!((done.len(), partitions.len()), (3, 1));
    let again = kit.client.submit_atomic(good(), Some("batch".into())).await.unwrap();
    assert_eq!((again.repeated, &again.value), (true, &done.value));
    assert_eq!(kit.client.list(ListFilter::default()).await.unwrap().executions.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn ex_28_items_whose_keys_are_kept_apart_are_refused() {
    let kit = open_with(8, Default::default()).await;
    let keyed = |key: usize| Submission::new("a").idempotency_key(format!("key {key}").into_bytes());
    let home = kit.submit(keyed(0)).await.partition();
    let mut apart = None;
    for key in 1..100 {
        if kit.submit(keyed(key)).await.partition() != home {
            apart = Some(key);
            break;
        }
    }
    let items = vec![Submission::new("x"), keyed(0), keyed(apart.expect("a key of another partition"))];
    let refused = kit.client.submit_atomic(items, None).await.unwrap_err();
    assert!(matches!(refused, Rejection::AtItem { index: 2, .. }), "{refused:?}");
    assert_eq!(refused.code(), "invalid_argument");
    let together = kit.client.submit_atomic(vec![Submission::new("x"), keyed(0)], None).await.unwrap();
    assert_eq!((together[0].id.partition(), together[1].duplicate), (home, true));
}

#[tokio::test(start_paused = true)]
async fn ex_28_the_largest_batch_is_one_commit() {
    let kit = open_with(1, Default::default()).await;
    let keyed = |key: usize| Submission::new("a").idempotency_key(format!("key {key}").into_bytes());
    let commits = kit.engine.stats().commits;
    let done = kit.client.submit_atomic((0..1000).map(keyed).collect(), Some("all".into())).await.unwrap();
    assert_eq!((done.len(), kit.engine.stats().commits), (1000, commits + 1));
    let many = kit.client.submit_atomic((0..1001).map(keyed).collect(), None).await;
    assert_eq!(many.unwrap_err().code(), "invalid_argument");
}

#[tokio::test(start_paused = true)]
async fn sd_31_a_claim_by_id_skips_order_and_lane_and_nothing_else() {
    let kit = open_with(4, Default::default()).await;
    let first = kit.submit(Submission::new("mail").lane("other").priority(1)).await;
    let late = kit.submit(Submission::new("mail").lane("other")).await;
    let one = || worker().execution(late);
    let taken = kit.client.claim(one().request_id("c")).await.unwrap();
    assert_eq!((taken.executions[0].id, taken.repeated), (late, false));
    let again = kit.client.claim(one().request_id("c")).await.unwrap();
    assert_eq!((again.executions[0].lease, again.repeated), (taken.executions[0].lease, true));
    let refused = kit.client.claim(one()).await.unwrap_err();
    assert_eq!(refused, Rejection::NotClaimable { public_state: PublicState::Active });
    kit.client.complete(Completion::of(&taken.executions[0])).await.unwrap();
    let rest = kit.client.claim(worker().lane("other").max(5)).await.unwrap().executions;
    assert_eq!(rest.iter().map(|work| work.id).collect::<Vec<_>>(), [first]);

    let delayed = kit.submit(Submission::new("mail").delay_ms(1_000)).await;
    let held = kit.submit(Submission::new("mail")).await;
    kit.client.hold(Holding::new(held, "x")).await.unwrap();
    let gpu = kit.submit(Submission::new("mail").needs("gpu")).await;
    for (id, state) in [(delayed, PublicState::Delayed), (held, PublicState::Held), (gpu, PublicState::Waiting)] {
        let refused = kit.client.claim(worker().execution(id)).await.unwrap_err();
        assert_eq!(refused, Rejection::NotClaimable { public_state: state });
    }
    assert!(kit.client.claim(worker().execution(gpu).offers("gpu")).await.is_ok());
    let waits = kit.client.claim(worker().execution(held).wait_ms(10)).await.unwrap_err();
    assert_eq!(waits.code(), "invalid_argument");
}
