//! What an explanation says of worker processes: those that fit, their room, and whether they still live.

use crate::kit::*;
use weft_core::limits::WORKER_TTL_MS_DEFAULT as WORKER_TTL_MS;
use weft_engine::worker::{Heartbeat, Registration, State, WorkerTarget};
use weft_engine::{Claim, Explanation, NoWorker, Obstacle, Submission};

#[tokio::test(start_paused = true)]
async fn ex_75_explain_counts_registered_workers() {
    let kit = open_with(4, Default::default()).await;
    let id = kit.submit(Submission::new("mail").lane("bulk").needs("gpu")).await;
    let codes = async || {
        let Explanation { reasons, .. } = kit.client.explain(id).await.unwrap();
        reasons.iter().map(|reason| reason.code()).collect::<Vec<_>>()
    };
    assert_eq!(codes().await, ["no_worker"]);
    let registration = Registration::new("trainer", "t1", "a").lane("bulk").offers("gpu");
    kit.client.register(registration).await.unwrap();
    assert_eq!(codes().await, ["claimable"]);
    let why = async || kit.client.explain(id).await.unwrap().reasons;
    // How much is free is written when something is written anyway.
    pass(WORKER_TTL_MS / 3).await;
    kit.client.heartbeat(Heartbeat { free: Some(0), ..Heartbeat::new("t1") }).await.unwrap();
    kit.client.drain(WorkerTarget::Instance("t1".into()), "deploy", None).await.unwrap();
    assert_eq!(why().await, [Obstacle::NoWorker(NoWorker::AllDraining)]);
    kit.client.undrain(WorkerTarget::Instance("t1".into())).await.unwrap();
    let full = |silent| vec![Obstacle::NoWorker(NoWorker::AllFull { silent })];
    assert_eq!(why().await, full(None));
    let seen_at = kit.client.worker("t1").await.unwrap().last_seen_at;
    linger(WORKER_TTL_MS * 2 / 3 + 1_000).await;
    assert_eq!(why().await, full(Some(("t1".into(), seen_at))), "it may be gone");
}

#[tokio::test(start_paused = true)]
async fn ex_75_explain_counts_on_nobody_who_lost_the_lease_and_was_not_seen_since() {
    let kit = open_with(4, Default::default()).await;
    let registration = || Registration::new("mailer", "mailer-1", "a");
    let session = kit.client.register(registration()).await.unwrap().worker.session;
    let id = kit.submit(Submission::new("mail")).await;
    let seen_at = kit.engine.now();
    kit.client.claim(worker().session(session)).await.unwrap();
    let why = async |id| kit.client.explain(id).await.unwrap().reasons;
    linger(31_000).await;
    let silent = |lost_at| NoWorker::AllDead { last: "mailer-1".into(), seen_at, lost_at };
    let lost = [Obstacle::NoWorker(silent(Some(seen_at + 30_000)))];
    assert_eq!(
        (why(id).await, &kit.client.explain_for(id, "mailer-1").await.unwrap().reasons[..]),
        (lost.to_vec(), &lost[..])
    );
    assert_eq!(kit.client.worker("mailer-1").await.unwrap().state, State::Active, "SD-49: not silent for its ttl yet");
    kit.client.register(registration()).await.unwrap();
    let [Obstacle::Claimable { worker, seen_at, doubtful: false }] = &why(id).await[..] else { panic!("it is back") };
    assert_eq!((&**worker, *seen_at), ("mailer-1", kit.engine.now()));
    linger(90_000).await;
    assert_eq!(kit.client.worker("mailer-1").await.unwrap().state.name(), "dead");
    let seen_at = kit.client.worker("mailer-1").await.unwrap().last_seen_at;
    let dead = NoWorker::AllDead { last: "mailer-1".into(), seen_at, lost_at: None };
    assert_eq!(why(id).await, [Obstacle::NoWorker(dead)]);
}

#[tokio::test(start_paused = true)]
async fn ex_75_a_worker_that_was_not_seen_for_two_thirds_of_its_ttl_is_in_doubt() {
    let kit = open_with(4, Default::default()).await;
    kit.client.register(Registration::new("mailer", "mailer-1", "a").lane("default").ttl_ms(15_000)).await.unwrap();
    let id = kit.submit(Submission::new("mail")).await;
    let doubtful = async || match &kit.client.explain(id).await.unwrap().reasons[..] {
        [Obstacle::Claimable { doubtful, .. }] => *doubtful,
        reasons => panic!("{reasons:?}"),
    };
    linger(9_000).await;
    assert!(!doubtful().await);
    linger(2_000).await;
    assert!(doubtful().await, "though it never held the execution");
    kit.client.register(Registration::new("mailer", "mailer-2", "a").lane("default")).await.unwrap();
    assert!(!doubtful().await, "another one lives");
}

#[tokio::test(start_paused = true)]
async fn ex_73_explain_answers_for_one_worker() {
    let kit = open_with(4, Default::default()).await;
    let id = kit.submit(Submission::new("mail").lane("bulk").needs("gpu")).await;
    for (instance, lane, token) in [("good", "bulk", "gpu"), ("poor", "bulk", "cpu"), ("off", "other", "gpu")] {
        let registration = Registration::new("pool", instance, "a").lane(lane).offers(token);
        kit.client.register(registration).await.unwrap();
    }
    let reasons = async |instance: &str| kit.client.explain_for(id, instance).await.unwrap().reasons;
    assert!(matches!(reasons("good").await[..], [Obstacle::Claimable { .. }]));
    let missing = NoWorker::MissingCapabilities { nearest: "poor".into(), missing: vec!["gpu".into()] };
    assert_eq!(reasons("poor").await, [Obstacle::NoWorker(missing)]);
    assert_eq!(reasons("off").await, [Obstacle::NoWorker(NoWorker::NoneOnLane)]);
    kit.client.drain(WorkerTarget::Instance("good".into()), "deploy", None).await.unwrap();
    assert_eq!(reasons("good").await, [Obstacle::NoWorker(NoWorker::AllDraining)]);
    let unknown = kit.client.explain_for(id, "nobody").await;
    assert_eq!(unknown.unwrap_err().code(), "worker_not_found");
    kit.client.claim(Claim::new("pool", "claims").lane("bulk").offers("gpu").max(1).wait_ms(0)).await.unwrap();
    assert!(matches!(reasons("good").await[..], [Obstacle::Running { .. }]), "whoever is asked about");
}
