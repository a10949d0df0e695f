//! Workers that operators drain, let go on, or give up.

use crate::between::between;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use weft_sdk::api::execution::PublicState;
use weft_sdk::api::worker::{DrainTarget, MarkDead, UndrainTarget};
use weft_sdk::api::{Call, Code, Problem, Reply};
use weft_sdk::test::Harness;
use weft_sdk::{Failure, Json, State, Worker};

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
    let w1 = UndrainTarget { instance: Some("w1".into()), ..UndrainTarget::default() };
    harness.client().undrain_workers(w1).await.unwrap();
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

#[tokio::test(start_paused = true)]
async fn sdk_33_a_worker_that_drains_and_cannot_join_again_rests() {
    let harness = Harness::new().await;
    let joins = Arc::new(AtomicU32::new(0));
    let client = between(harness.client(), move |call, inner| {
        let is_again = matches!(call, Call::RegisterWorker(_)) && joins.fetch_add(1, Ordering::SeqCst) > 0;
        async move {
            match is_again {
                true => Err(Problem::new(Code::Unavailable, "not now").into()),
                false => inner.dispatch(call).await,
            }
        }
    });
    let worker = Worker::new(client).instance("w1").grace(secs(300)).drain_timeout(secs(100)).handle("long", long);
    let handle = worker.handle_on();
    let running = tokio::spawn(worker.run());
    harness.submit("long", &60).await.unwrap();
    harness.advance(secs(2)).await;
    harness.client().mark_worker_dead("w1", MarkDead { reason: "silent".into(), ..MarkDead::default() }).await.unwrap();
    harness.advance(secs(20)).await;
    handle.drain();
    harness.advance(secs(60)).await;
    assert!(running.is_finished(), "its handler has ended");
}

#[tokio::test(start_paused = true)]
async fn sdk_34_a_gap_that_is_told_during_a_heartbeat_makes_another_one_follow() {
    let harness = Harness::new().await;
    let beats: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let (noted, time) = (beats.clone(), harness.clone());
    let client = between(harness.client(), move |call, inner| {
        let (noted, time) = (noted.clone(), time.clone());
        async move {
            if matches!(call, Call::Heartbeat(_)) {
                noted.lock().unwrap().push(time.elapsed());
                tokio::time::sleep(secs(5)).await;
            }
            let mut reply = inner.dispatch(call).await?;
            // One gap, while the first heartbeat is on its way.
            if let Reply::Renew(renewed) = &mut reply {
                renewed.missed = noted.lock().unwrap().len() == 1;
            }
            Ok(reply)
        }
    });
    tokio::spawn(Worker::new(client).instance("w1").lease(secs(3)).handle("long", long).run());
    harness.submit("long", &60).await.unwrap();
    harness.advance(secs(30)).await;
    let beats = beats.lock().unwrap();
    let gap = beats[1] - beats[0];
    assert!(gap >= secs(5) && gap < secs(6), "the second follows the first at once: {beats:?}");
}

#[tokio::test(start_paused = true)]
async fn sdk_35_a_heartbeat_that_was_sent_before_a_drain_does_not_take_it_back() {
    let harness = Harness::new().await;
    let beating = Arc::new(Notify::new());
    let began = beating.clone();
    let client = between(harness.client(), move |call, inner| {
        let (is_beat, began) = (matches!(call, Call::Heartbeat(_)), began.clone());
        async move {
            let reply = inner.dispatch(call).await;
            if is_beat {
                began.notify_one();
                tokio::time::sleep(secs(3)).await;
            }
            reply
        }
    });
    let worker = Worker::new(client).instance("w1").handle("long", long);
    let handle = worker.handle_on();
    tokio::spawn(worker.run());
    harness.submit("long", &100).await.unwrap();
    beating.notified().await;
    harness.client().drain_workers(w1(None)).await.unwrap();
    harness.advance(secs(1)).await;
    assert!(handle.health().draining, "a notice told");
    harness.advance(secs(4)).await;
    assert!(handle.health().draining, "the heartbeat knew nothing of it");
}

#[tokio::test(start_paused = true)]
async fn sdk_35_the_deadline_of_a_drain_is_kept_whatever_time_it_is_here() {
    let harness = Harness::new().await;
    let client = between(harness.client(), |call, inner| async move {
        let mut reply = inner.dispatch(call).await?;
        match &mut reply {
            Reply::Heartbeat(beat) => {
                beat.notices.clear();
                if let Some(drain) = &mut beat.drain {
                    // As by a server whose clock is far behind.
                    drain.deadline_at = Some(1);
                }
            }
            Reply::Claim(claimed) => claimed.notices.clear(),
            Reply::Renew(renewed) => renewed.notices.clear(),
            _ => {}
        }
        Ok(reply)
    });
    let worker = Worker::new(client).instance("w1").drain_timeout(secs(300)).drain_kill(secs(2));
    let running = tokio::spawn(worker.handle("long", long).run());
    let run = harness.submit("long", &600).await.unwrap();
    harness.advance(secs(2)).await;
    harness.client().drain_workers(w1(Some(secs(60)))).await.unwrap();
    harness.advance(secs(40)).await;
    assert!(!running.is_finished(), "there is time yet");
    harness.advance(secs(21)).await;
    assert!(running.is_finished());
    assert_eq!(run.get().await.unwrap().reclaims, 0, "handed back, not taken");
}

#[tokio::test(start_paused = true)]
async fn sdk_35_a_drain_ends_although_the_server_never_takes_the_last_outcome() {
    for (lease, most) in [(secs(10), secs(20)), (secs(3_600), secs(40))] {
        let harness = Harness::new().await;
        let client = between(harness.client(), |call, inner| async move {
            match call {
                Call::Settle(_) => Err(Problem::new(Code::Busy, "never").into()),
                call => inner.dispatch(call).await,
            }
        });
        let worker = Worker::new(client).lease(lease).drain_timeout(secs(3)).drain_kill(secs(2));
        let worker = worker.handle("long", long);
        let handle = worker.handle_on();
        let running = tokio::spawn(worker.run());
        harness.submit("long", &3).await.unwrap();
        harness.advance(secs(1)).await;
        handle.drain();
        harness.advance(most).await;
        assert!(running.is_finished(), "{lease:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn sdk_35_a_drain_finds_what_an_unanswered_claim_was_granted() {
    let harness = Harness::new().await;
    let claims = Arc::new(AtomicU32::new(0));
    let client = between(harness.client(), move |call, inner| {
        let is_lost = matches!(call, Call::Claim(_)) && claims.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            let reply = inner.dispatch(call).await;
            match is_lost {
                true => Err(Problem::new(Code::Unavailable, "the reply is lost").retry_after(20_000).into()),
                false => reply,
            }
        }
    });
    let run = harness.submit("long", &1).await.unwrap();
    let worker = Worker::new(client).handle("long", long);
    let handle = worker.handle_on();
    let running = tokio::spawn(worker.run());
    harness.advance(secs(1)).await;
    assert_eq!(run.get().await.unwrap().public_state, PublicState::Active);
    handle.drain();
    harness.advance(secs(1)).await;
    assert!(running.is_finished());
    harness.worker(|worker| worker.handle("long", long));
    assert_eq!(run.result::<u64>().await.unwrap(), 1);
    assert_eq!(run.get().await.unwrap().attempts, 1, "it was handed back, and not taken away by the goodbye");
}

/// Set when what it is in is dropped.
#[derive(Clone, Default)]
struct Dropped(Arc<AtomicBool>);

struct Guard(Dropped);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn sdk_33_a_worker_that_cannot_go_on_drops_its_handlers_before_it_says_goodbye() {
    async fn forever(State(dropped): State<Dropped>) -> Result<(), Failure> {
        let _guard = Guard(dropped);
        std::future::pending().await
    }
    let harness = Harness::new().await;
    let (dropped, at_goodbye) = (Dropped::default(), Arc::new(AtomicBool::new(false)));
    let (seen, noted) = (dropped.clone(), at_goodbye.clone());
    let client = between(harness.client(), move |call, inner| {
        if matches!(call, Call::DeregisterWorker(_)) {
            noted.store(seen.0.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        async move {
            match call {
                Call::Renew(_) => Err(Problem::new(Code::Unauthorized, "the key was revoked").into()),
                call => inner.dispatch(call).await,
            }
        }
    });
    let running = tokio::spawn(Worker::new(client).state(dropped).handle("forever", forever).run());
    harness.submit("forever", &()).await.unwrap();
    harness.advance(secs(30)).await;
    assert_eq!(running.await.unwrap().unwrap_err().code(), Some(Code::Unauthorized));
    assert!(at_goodbye.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn sdk_36_two_workers_of_one_process_have_instances_of_their_own() {
    async fn who(ctx: weft_sdk::Ctx, Json(seconds): Json<u64>) -> Result<Json<String>, Failure> {
        tokio::time::sleep(secs(seconds)).await;
        Ok(Json(ctx.lane().to_string()))
    }
    let harness = Harness::new().await;
    let client = harness.client();
    let workers = ["one", "two"].map(|lane| {
        let worker = Worker::new(client.clone()).lane(lane).handle("who", who);
        tokio::spawn(worker.run())
    });
    let runs = [("one", 50), ("two", 50)].map(|(lane, seconds)| client.submit("who", &seconds).lane(lane));
    let runs = client.submit_batch(runs, false).await.unwrap();
    harness.advance(secs(40)).await;
    let listed = client.list_workers(Default::default()).await.unwrap().items;
    let here = format!("-{}-", std::process::id());
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert!(listed.iter().all(|worker| worker.instance.contains(&here)), "{listed:?}");
    assert_ne!(listed[0].instance, listed[1].instance);
    assert!(workers.iter().all(|worker| !worker.is_finished()), "neither took the place of the other");
    for (run, lane) in runs.into_iter().zip(["one", "two"]) {
        assert_eq!(run.unwrap().result::<String>().await.unwrap(), lane);
    }
}
