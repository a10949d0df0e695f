//! Recorded steps, from the call to the store and back.

use crate::kit::*;
use weft_core::limits::{CLAIM_STEPS_MAX, STEP_MAX};
use weft_core::record::execution::Policy;
use weft_engine::{Completion, Delaying, Failing, Recording, Renewal, Replaying, Submission};

fn names(steps: &[weft_core::reply::StepValue]) -> Vec<String> {
    steps.iter().map(|step| format!("{}={}", step.name, String::from_utf8_lossy(&step.bytes))).collect()
}

#[tokio::test(start_paused = true)]
async fn sdk_20_the_first_write_of_a_step_wins() {
    let kit = open_with(4, Default::default()).await;
    let id = kit.submit(Submission::new("mail")).await;
    let work = kit.claim().await;
    let first = Recording::of(&work).typed_step("fetch", &b"one"[..], "text/plain").step("send", &b"two"[..]);
    let first = kit.client.record_steps(first).await.unwrap();
    assert!(first.iter().all(|step| !step.existed));
    let again = kit.client.record_steps(Recording::of(&work).step("fetch", &b"other"[..])).await.unwrap();
    assert_eq!((again[0].existed, &again[0].step), (true, &first[0].step));
    let (read, _) = kit.client.step(id, "fetch").await.unwrap();
    assert_eq!((read.bytes.as_ref(), read.content_type.as_deref(), read.attempt), (&b"one"[..], Some("text/plain"), 0));
    assert_eq!(kit.client.step(id, "nothing").await.unwrap_err().code(), "not_found");
    let stranger = kit.engine.client("other").unwrap();
    assert_eq!(stranger.step(id, "fetch").await.unwrap_err().code(), "execution_not_found");
}

#[tokio::test(start_paused = true)]
async fn sdk_20_two_calls_at_once_record_one_step() {
    let store = memory(1).shared();
    let one = weft_engine::Engine::open(store.node_handle(), Default::default()).await.unwrap().client("shop").unwrap();
    let two = weft_engine::Engine::open(store.node_handle(), Default::default()).await.unwrap().client("shop").unwrap();
    let id = one.submit(Submission::new("mail")).await.unwrap().id;
    let work = one.claim(worker()).await.unwrap().executions.remove(0);
    for round in 0..20 {
        let name = format!("s{round}");
        let (a, b) = tokio::join!(
            one.record_steps(Recording::of(&work).step(name.as_str(), &b"a"[..])),
            two.record_steps(Recording::of(&work).step(name.as_str(), &b"b"[..])),
        );
        let (a, b) = (a.unwrap(), b.unwrap());
        assert!(a[0].existed != b[0].existed, "one of them was first");
        assert_eq!(a[0].step, b[0].step, "both know what was recorded");
    }
    assert_eq!(one.steps(id, None, 100).await.unwrap().steps.len(), 20);
}

#[tokio::test(start_paused = true)]
async fn ex_86_riders_are_written_with_their_verb_and_come_with_the_next_claim() {
    let kit = open().await;
    let id = kit.submit(Submission::new("mail")).await;
    let work = kit.claim().await;
    let renewal = Renewal::of(&work).step("a", &b"1"[..]).percent(40).message("half").checkpoint(&b"c"[..]);
    let renewed = kit.client.renew(renewal).await.unwrap();
    assert!(!renewed.steps[0].existed);
    let progress = kit.client.get(id).await.unwrap().execution.hot.progress.unwrap();
    assert_eq!((progress.percent, progress.message.as_deref()), (Some(40), Some("half")));
    kit.client.delay(Delaying::of(&work).step("b", &b"2"[..])).await.unwrap();
    let work = kit.claim().await;
    assert_eq!(work.checkpoint.as_ref().unwrap().bytes.as_ref(), b"c");
    assert_eq!(names(&work.steps), ["a=1", "b=2"]);
    kit.client.fail(Failing::of(&work).after_ms(0).step("c", &b"3"[..])).await.unwrap();
    let work = kit.client.claim(worker().wait_ms(1_000)).await.unwrap().executions.remove(0);
    let big = Completion::of(&work).step("big", vec![0; STEP_MAX + 1]);
    assert_eq!(kit.client.complete(big).await.unwrap_err().code(), "payload_too_large");
    kit.client.complete(Completion::of(&work).step("d", &b"4"[..])).await.unwrap();
    let page = kit.client.steps(id, None, 10).await.unwrap();
    assert_eq!((names(&page.steps), page.more), (vec!["a=1".into(), "b=2".into(), "c=3".into(), "d=4".into()], false));
}

#[tokio::test(start_paused = true)]
async fn sdk_23_a_replay_clears_steps_unless_it_keeps_them() {
    let kit = open().await;
    let id = kit.submit(Submission::new("mail")).await;
    let work = kit.claim().await;
    kit.client.complete(Completion::of(&work).step("a", &b"1"[..])).await.unwrap();
    kit.client.replay(Replaying::new(id, "go on").keep_steps()).await.unwrap();
    let work = kit.claim().await;
    assert_eq!(names(&work.steps), ["a=1"]);
    kit.client.complete(Completion::of(&work)).await.unwrap();
    kit.client.replay(Replaying::new(id, "anew")).await.unwrap();
    let work = kit.claim().await;
    assert!(work.steps.is_empty() && !work.steps_more);
    assert_eq!(kit.client.step(id, "a").await.unwrap_err().code(), "not_found");
    let recorded = kit.client.record_steps(Recording::of(&work).step("a", &b"2"[..])).await.unwrap();
    assert!(!recorded[0].existed);
    assert_eq!(names(&kit.client.steps(id, None, 10).await.unwrap().steps), ["a=2"]);
}

#[tokio::test(start_paused = true)]
async fn sdk_24_what_a_claim_does_not_bring_is_read_by_its_holder_page_by_page() {
    let kit = open().await;
    let id = kit.submit(Submission::new("mail")).await;
    let work = kit.claim().await;
    let total = CLAIM_STEPS_MAX as usize + 50;
    for from in (0..total).step_by(250) {
        let steps = (from..total.min(from + 250))
            .fold(Recording::of(&work), |steps, n| steps.step(format!("s{n:04}"), n.to_string().into_bytes()));
        kit.client.record_steps(steps).await.unwrap();
    }
    kit.client.delay(Delaying::of(&work)).await.unwrap();
    let stale = weft_core::command::Fence { lease: work.lease, epoch: work.epoch };
    let work = kit.claim().await;
    assert_eq!((work.steps.len(), work.steps_more), (CLAIM_STEPS_MAX as usize, true));
    let fence = weft_core::command::Fence { lease: work.lease, epoch: work.epoch };
    let mut all = work.steps.clone();
    loop {
        let page = kit.client.held_steps(id, fence, all.last().map(|step| step.number), 20).await.unwrap();
        all.extend(page.steps);
        if !page.more {
            break;
        }
    }
    let expected: Vec<String> = (0..total).map(|n| format!("s{n:04}={n}")).collect();
    assert_eq!(names(&all), expected);
    assert_eq!(kit.client.held_steps(id, stale, None, 20).await.unwrap_err().code(), "stale_lease");
    assert_eq!(kit.client.steps(id, None, 0).await.unwrap_err().code(), "invalid_argument");
}

#[tokio::test(start_paused = true)]
async fn sdk_24_a_page_of_large_steps_is_short_and_never_empty() {
    let kit = open().await;
    let id = kit.submit(Submission::new("mail")).await;
    let work = kit.claim().await;
    for n in 0..20 {
        kit.client.record_steps(Recording::of(&work).step(format!("s{n}"), vec![n; STEP_MAX])).await.unwrap();
    }
    let page = kit.client.steps(id, None, 100).await.unwrap();
    assert_eq!((page.steps.len(), page.more), (16, true), "4 MiB");
    let rest = kit.client.steps(id, Some(15), 100).await.unwrap();
    assert_eq!((rest.steps.len(), rest.more), (4, false));
}

#[tokio::test(start_paused = true)]
async fn ex_81_a_purge_leaves_no_step_behind() {
    let kit = open().await;
    let policy = Policy { retention_ms: Some(1_000), ..Policy::default() };
    kit.submit(Submission::new("mail").policy(policy)).await;
    let work = kit.claim().await;
    let steps = (0..200).fold(Recording::of(&work), |steps, n| steps.step(format!("s{n}"), vec![n]));
    kit.client.record_steps(steps).await.unwrap();
    kit.client.complete(Completion::of(&work)).await.unwrap();
    linger(5_000).await;
    assert_eq!(kept(&kit.store), []);
}
