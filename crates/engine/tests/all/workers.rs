//! The registry of worker processes: sessions, drains, silence, and what becomes of leases.

use crate::kit::*;
use crate::nodes::Node;
use std::collections::BTreeSet;
use weft_core::PartitionId;
use weft_core::command::{Fence, Principal, Scopes, WorkerName};
use weft_core::error::Rejection;
use weft_core::limits::{UNKNOWN_AGE_MS, WORKER_KEEP_MS, WORKER_LOOK_MS, WORKER_TTL_MS_DEFAULT as WORKER_TTL_MS};
use weft_core::reply::Claimed;
use weft_core::text::Text;
use weft_engine::worker::{Heartbeat, Registration, State, WorkerFilter, WorkerTarget};
use weft_engine::{Cancellation, Claim, Client, Completion, Notice, Obstacle, Renewal, Revoking, Submission};

fn fence(work: &Claimed) -> Fence {
    Fence { lease: work.lease, epoch: work.epoch }
}

/// Registers a start of `mailer-1`; answers its session.
async fn start(client: &Client, boot_id: &str) -> u64 {
    let registration = Registration::new("mailer", "mailer-1", boot_id).lane("default");
    client.register(registration).await.expect("a good registration").worker.session
}

fn instance() -> WorkerTarget {
    WorkerTarget::Instance("mailer-1".into())
}

#[tokio::test(start_paused = true)]
async fn sd_51_claims_and_heartbeats_of_an_older_session_are_refused() {
    let kit = open_with(4, Default::default()).await;
    let mut told = kit.client.notices("mailer-1");
    let first = start(&kit.client, "a").await;
    assert_eq!(start(&kit.client, "a").await, first, "the same start keeps its session");
    pass(10).await;
    let second = start(&kit.client, "b").await;
    assert_eq!((first, second), (1, 2));
    let claim = kit.client.claim(worker().session(first)).await;
    assert_eq!(claim.unwrap_err().code(), "instance_superseded");
    let beat = kit.client.heartbeat(Heartbeat::new("mailer-1").session(first)).await;
    assert_eq!(beat.unwrap_err().code(), "instance_superseded");
    assert!(kit.client.claim(worker().session(second)).await.is_ok());
    assert_eq!(told.recv().await, Some(Notice::Superseded));
    assert_eq!(told.recv().await, None, "the older process does not listen for the newer one");
}

#[tokio::test(start_paused = true)]
async fn sd_51_a_claim_that_waits_ends_when_another_session_begins() {
    let kit = open().await;
    let first = start(&kit.client, "a").await;
    let waiting = kit.client.claim(worker().session(first).wait_ms(60_000));
    let (reply, _) = tokio::join!(waiting, async {
        pass(1_000).await;
        start(&kit.client, "b").await
    });
    assert_eq!(reply.unwrap_err().code(), "instance_superseded");
}

#[tokio::test(start_paused = true)]
async fn sd_48_leases_of_an_earlier_start_are_lost_or_kept_as_it_wants() {
    for keep in [false, true] {
        let kit = open_with(4, Default::default()).await;
        let session = start(&kit.client, "a").await;
        let id = kit.submit(Submission::new("mail")).await;
        let work = kit.client.claim(worker().session(session)).await.unwrap().executions.remove(0);
        let again = Registration::new("mailer", "mailer-1", "b");
        let again = if keep { again.keep_leases() } else { again };
        let registered = kit.client.register(again).await.unwrap();
        let held: Vec<_> = registered.leases.iter().map(|lease| (lease.execution, lease.epoch)).collect();
        let hot = kit.client.get(id).await.unwrap().execution.hot;
        match keep {
            true => {
                assert_eq!((held, hot.reclaims), (vec![(id, 1)], 0));
                kit.client.complete(Completion::of(&work)).await.expect("judged by the fence only");
            }
            false => {
                assert_eq!((held, hot.reclaims), (vec![], 1), "EX-52");
                let refused = kit.client.complete(Completion::of(&work)).await;
                assert_eq!(refused.unwrap_err().code(), "lease_expired");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn sd_54_a_draining_worker_is_handed_nothing_and_goes_on_with_what_it_has() {
    let kit = open_with(4, Default::default()).await;
    let session = start(&kit.client, "a").await;
    kit.submit(Submission::new("mail")).await;
    let work = kit.client.claim(worker().session(session)).await.unwrap().executions.remove(0);
    let mut told = kit.client.notices("mailer-1");
    kit.submit(Submission::new("mail")).await;
    assert_eq!(kit.client.drain(instance(), "deploy", None).await.unwrap(), [Text::from("mailer-1")]);
    assert_eq!(told.recv().await, Some(Notice::Drain { reason: "deploy".into(), deadline_at: None }));
    for claim in [worker().session(session), worker()] {
        let reply = kit.client.claim(claim).await.unwrap();
        assert!(reply.draining && reply.executions.is_empty());
    }
    linger(2 * WORKER_LOOK_MS).await;
    assert_eq!(kit.client.worker("mailer-1").await.unwrap().state.name(), "draining", "it holds a lease");
    kit.client.complete(Completion::of(&work)).await.expect("leases go on");
    linger(2 * WORKER_LOOK_MS).await;
    assert_eq!(kit.client.worker("mailer-1").await.unwrap().state.name(), "drained");
    kit.client.undrain(instance()).await.unwrap();
    assert_eq!(told.recv().await, Some(Notice::Undrain));
    assert_eq!(kit.client.claim(worker().session(session)).await.unwrap().executions.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn sd_57_a_claim_that_waits_learns_of_a_drain_at_once() {
    for partitions in [1, 4] {
        let kit = open_with(partitions, Default::default()).await;
        let session = start(&kit.client, "a").await;
        let began = tokio::time::Instant::now();
        let waiting = kit.client.claim(worker().session(session).wait_ms(60_000));
        let (reply, _) = tokio::join!(waiting, async {
            pass(1_000).await;
            kit.client.drain(instance(), "deploy", None).await.unwrap()
        });
        assert!(reply.unwrap().draining);
        assert!(began.elapsed().as_millis() < 2_000, "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn sd_54_at_the_deadline_of_a_drain_what_is_left_goes_to_others() {
    let kit = open_with(4, Default::default()).await;
    let session = start(&kit.client, "a").await;
    let id = kit.submit(Submission::new("mail")).await;
    let claim = worker().session(session).lease_ms(600_000);
    let work = kit.client.claim(claim).await.unwrap().executions.remove(0);
    kit.client.drain(instance(), "deploy", Some(10_000)).await.unwrap();
    linger(9_000).await;
    assert!(kit.client.get(id).await.unwrap().execution.lease().is_some());
    linger(2_000).await;
    let hot = kit.client.get(id).await.unwrap().execution.hot;
    assert_eq!((hot.reclaims, hot.reclaims_in_row), (0, 0), "nothing is counted");
    let refused = kit.client.complete(Completion::of(&work)).await;
    assert_eq!(refused.unwrap_err().code(), "lease_revoked");
    let other = kit.client.claim(Claim::new("mailer", "mailer-2")).await.unwrap();
    assert_eq!(other.executions[0].id, id);
}

#[tokio::test(start_paused = true)]
async fn sd_54_a_start_before_does_not_put_off_the_deadline_of_a_drain() {
    let kit = open_with(4, Default::default()).await;
    start(&kit.client, "a").await;
    let session = start(&kit.client, "b").await;
    let id = kit.submit(Submission::new("mail")).await;
    kit.client.claim(worker().session(session).lease_ms(600_000)).await.unwrap();
    kit.client.drain(instance(), "deploy", Some(700)).await.unwrap();
    linger(2_000).await;
    assert!(kit.client.get(id).await.unwrap().execution.lease().is_none());
}

#[tokio::test(start_paused = true)]
async fn s3_a_claim_takes_what_its_process_registered_for() {
    let kit = open_with(4, Default::default()).await;
    let registration = Registration::new("mailer", "mailer-1", "a").lane("mine").kind("good").offers("gpu");
    let session = kit.client.register(registration).await.unwrap().worker.session;
    for (lane, kind) in [("default", "good"), ("mine", "bad"), ("mine", "good")] {
        let submission = Submission::new(kind).lane(lane);
        kit.submit(if lane == "mine" { submission.needs("gpu") } else { submission }).await;
    }
    let claim = Claim { max: 10, ..worker().session(session) };
    let taken = kit.client.claim(claim.clone()).await.unwrap().executions;
    let taken: Vec<_> = taken.iter().map(|work| (&*work.lane, &*work.kind)).collect();
    assert_eq!(taken, [("mine", "good")]);
    let taken = kit.client.claim(claim.lane("default")).await.unwrap().executions;
    assert_eq!((taken.len(), &*taken[0].lane), (1, "default"), "what it says counts");
}

#[tokio::test(start_paused = true)]
async fn s3_no_capabilities_is_something_else_than_those_that_were_registered() {
    let kit = open_with(4, Default::default()).await;
    let registration = Registration::new("mailer", "mailer-1", "a").offers("gpu");
    let session = kit.client.register(registration).await.unwrap().worker.session;
    let (plain, needy) = (Submission::new("plain"), Submission::new("needy").needs("gpu"));
    kit.submit(plain).await;
    kit.submit(needy).await;
    let absent = Claim { max: 10, ..worker().session(session) };
    let none = Claim { capabilities: Some(Vec::new()), ..absent.clone() };
    for (claim, kind) in [(none, "plain"), (absent, "needy")] {
        let taken = kit.client.claim(claim).await.unwrap().executions;
        assert_eq!(taken.iter().map(|work| &*work.kind).collect::<Vec<_>>(), [kind]);
    }
}

#[tokio::test(start_paused = true)]
async fn s3_an_empty_list_of_lanes_or_kinds_is_refused() {
    let kit = open().await;
    let claims = [
        ("lanes", Claim { lanes: Some(Vec::new()), ..worker() }),
        ("kinds", Claim { kinds: Some(Vec::new()), ..worker() }),
    ];
    for (field, claim) in claims {
        let refused = kit.client.claim(claim).await.unwrap_err();
        assert!(matches!(&refused, Rejection::InvalidArgument { field: told, .. } if *told == field), "{refused:?}");
    }
    let registration = || Registration::new("mailer", "mailer-1", "a");
    let registrations = [
        ("lanes", Registration { lanes: Some(Vec::new()), ..registration() }),
        ("kinds", Registration { kinds: Some(Vec::new()), ..registration() }),
    ];
    for (field, registration) in registrations {
        let refused = kit.client.register(registration).await.unwrap_err();
        assert!(matches!(&refused, Rejection::InvalidArgument { field: told, .. } if *told == field), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn sd_48_a_claim_without_lanes_has_those_that_its_process_claimed_with() {
    let kit = open_with(4, Default::default()).await;
    kit.client.claim(worker().lane("mine").kind("rare").offers("gpu")).await.unwrap();
    linger(CHANGED_MS).await;
    for lane in ["default", "mine"] {
        kit.submit(Submission::new("mail").lane(lane)).await;
    }
    kit.submit(Submission::new("mail").lane("mine").needs("gpu")).await;
    for (instance, lane) in [("mailer-1", "mine"), ("mailer-2", "default")] {
        let taken = kit.client.claim(Claim::new("mailer", instance).max(10)).await.unwrap().executions;
        let taken: Vec<_> = taken.iter().map(|work| (&*work.lane, work.kind.as_ref())).collect();
        assert_eq!(taken, [(lane, "mail")], "any kind, and no capability");
    }
}

#[tokio::test(start_paused = true)]
async fn sc_164_a_thousand_leases_of_a_dead_worker_go_to_others_once() {
    let kit = open_with(4, Default::default()).await;
    let session = start(&kit.client, "a").await;
    let submissions = (0..1_000).map(|_| Submission::new("mail")).collect();
    for answer in kit.client.submit_batch(submissions).await {
        answer.unwrap();
    }
    let mut held = Vec::new();
    while held.len() < 1_000 {
        let claim = worker().session(session).max(256).lease_ms(3_600_000);
        held.extend(kit.client.claim(claim).await.unwrap().executions);
    }
    let ended = kit.client.mark_dead("mailer-1", "its host is gone").await.unwrap();
    assert_eq!(ended, 1_000);
    let refused = kit.client.complete(Completion::of(&held[0])).await;
    assert_eq!(refused.unwrap_err().code(), "lease_expired");
    for claim in [worker().session(session), worker()] {
        assert_eq!(kit.client.claim(claim).await.unwrap_err().code(), "worker_dead");
    }
    let again = kit.client.register(Registration::new("mailer", "mailer-1", "a")).await;
    assert_eq!(again.unwrap_err().code(), "worker_dead");
    let mut taken = BTreeSet::new();
    while taken.len() < 1_000 {
        let reply = kit.client.claim(Claim::new("mailer", "mailer-2").max(256)).await.unwrap();
        assert!(!reply.executions.is_empty(), "all of them are there to be taken");
        taken.extend(reply.executions.into_iter().map(|work| (work.id, work.attempt)));
    }
    assert!(taken.iter().all(|(_, attempt)| *attempt == 1), "each was lost once");
    assert_eq!(start(&kit.client, "b").await, 2);
}

#[tokio::test(start_paused = true)]
async fn sc_164_what_a_crash_left_of_a_dead_workers_leases_is_ended_by_another_node() {
    let store = memory(4).shared();
    let one = Node::start(&store, "one").await;
    let session = start(&one.client, "a").await;
    for _ in 0..20 {
        one.client.submit(Submission::new("mail")).await.unwrap();
    }
    let mut held = 0;
    while held < 20 {
        let claim = worker().session(session).max(20).lease_ms(3_600_000);
        held += one.client.claim(claim).await.unwrap().executions.len();
    }
    // The commit that marks it is the last thing that this node does.
    let marked = one.client.mark_dead("mailer-1", "gone");
    futures_util::pin_mut!(marked);
    while one.client.worker("mailer-1").await.unwrap().state == State::Active {
        let _ = std::future::poll_fn(|cx| std::task::Poll::Ready(marked.as_mut().poll(cx))).await;
        tokio::task::yield_now().await;
    }
    one.kill();
    let two = Node::start(&store, "two").await;
    linger(30_000).await;
    assert!(two.client.leases("mailer-1", None, 100).await.unwrap().leases.is_empty());
    let owed = two.client.worker("mailer-1").await.unwrap().owed;
    assert_eq!(owed, None, "and nothing is looked for any more");
}

#[tokio::test(start_paused = true)]
async fn sd_50_silence_makes_a_worker_dead_and_touches_no_lease() {
    let kit = open().await;
    let registration = Registration::new("mailer", "mailer-1", "a").ttl_ms(6_000);
    let session = kit.client.register(registration).await.unwrap().worker.session;
    let id = kit.submit(Submission::new("mail")).await;
    let work = kit.client.claim(worker().session(session).lease_ms(600_000)).await.unwrap().executions.remove(0);
    linger(5_900).await;
    assert_eq!(kit.client.worker("mailer-1").await.unwrap().state.name(), "active");
    linger(2_200).await;
    assert_eq!(kit.client.worker("mailer-1").await.unwrap().state.name(), "dead", "SD-49");
    assert!(kit.client.get(id).await.unwrap().execution.lease().is_some());
    let beat = kit.client.heartbeat(Heartbeat::new("mailer-1").session(session)).await.unwrap();
    assert_eq!((beat.state, beat.next_in_ms), (State::Active, 2_000), "its next call makes it active again");
    kit.client.complete(Completion::of(&work)).await.unwrap();
    linger(8_100 + WORKER_KEEP_MS).await;
    assert_eq!(kit.client.worker("mailer-1").await.unwrap_err().code(), "worker_not_found");
}

#[tokio::test(start_paused = true)]
async fn sd_49_claims_count_as_being_seen() {
    let kit = open().await;
    let registration = Registration::new("mailer", "mailer-1", "a").ttl_ms(6_000);
    let session = kit.client.register(registration).await.unwrap().worker.session;
    for _ in 0..10 {
        linger(1_500).await;
        kit.client.claim(worker().session(session)).await.unwrap();
    }
    linger(100).await;
    assert_eq!(kit.client.worker("mailer-1").await.unwrap().state.name(), "active");
}

#[tokio::test(start_paused = true)]
async fn sd_49_one_whose_claims_wait_and_come_back_empty_stays_active() {
    for partitions in [1, 4] {
        let kit = open_with(partitions, Default::default()).await;
        for round in 0..10 {
            let reply = kit.client.claim(worker().kind("mail").wait_ms(20_000)).await.unwrap();
            assert!(reply.executions.is_empty());
            linger(5).await;
            let body = kit.client.worker("mailer-1").await.unwrap();
            assert_eq!(body.state, State::Active, "after {round} rounds");
        }
        let id = kit.submit(Submission::new("mail")).await;
        let reasons = kit.client.explain(id).await.unwrap().reasons;
        assert!(matches!(reasons[..], [Obstacle::Claimable { .. }]), "{reasons:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn sd_49_one_whose_claim_waits_longer_than_its_ttl_stays_active() {
    let kit = open().await;
    let registration = Registration::new("mailer", "mailer-1", "a").ttl_ms(6_000);
    let session = kit.client.register(registration).await.unwrap().worker.session;
    let waiting = kit.client.claim(worker().session(session).wait_ms(60_000));
    let (reply, _) = tokio::join!(waiting, async {
        for _ in 0..6 {
            linger(9_000).await;
            assert_eq!(kit.client.worker("mailer-1").await.unwrap().state, State::Active);
        }
    });
    assert!(reply.unwrap().executions.is_empty());
}

#[tokio::test(start_paused = true)]
async fn sd_49_renewals_count_as_being_seen() {
    let kit = open().await;
    let registration = Registration::new("mailer", "mailer-1", "a").ttl_ms(6_000);
    let session = kit.client.register(registration).await.unwrap().worker.session;
    kit.submit(Submission::new("mail")).await;
    let work = kit.client.claim(worker().session(session)).await.unwrap().executions.remove(0);
    for _ in 0..10 {
        linger(1_500).await;
        kit.client.renew(Renewal::of(&work)).await.unwrap();
    }
    linger(100).await;
    assert_eq!(kit.client.worker("mailer-1").await.unwrap().state.name(), "active");
    linger(9_000).await;
    assert_eq!(kit.client.worker("mailer-1").await.unwrap().state.name(), "dead");
    kit.client.renew(Renewal::of(&work)).await.unwrap();
    linger(100).await;
    assert_eq!(kit.client.worker("mailer-1").await.unwrap().state.name(), "active");
}

#[tokio::test(start_paused = true)]
async fn sd_52_a_heartbeat_tells_of_every_lost_cancelled_and_forgotten_lease() {
    for renew in [false, true] {
        let kit = open_with(4, Default::default()).await;
        let session = start(&kit.client, "a").await;
        let mut work = Vec::new();
        for _ in 0..5 {
            kit.submit(Submission::new("mail")).await;
            work.push(kit.client.claim(worker().session(session)).await.unwrap().executions.remove(0));
        }
        let [good, revoked, asked, forgotten, settled] = &work[..] else { panic!("five") };
        kit.client.revoke(Revoking::new(revoked.id, "mine")).await.unwrap();
        kit.client.cancel(Cancellation::new(asked.id, "stop").graceful(60_000)).await.unwrap();
        kit.client.complete(Completion::of(settled)).await.unwrap();
        linger(UNKNOWN_AGE_MS).await;
        kit.submit(Submission::new("mail")).await;
        let young = kit.client.claim(worker().session(session)).await.unwrap().executions.remove(0);
        let mut beat = Heartbeat::new("mailer-1").session(session);
        for held in [good, revoked, asked, settled] {
            beat = beat.holding(held.id, fence(held));
        }
        let beat = if renew { beat.renew_ms(45_000) } else { beat };
        let reply = kit.client.heartbeat(beat).await.unwrap();
        let lost: Vec<_> = reply.lost.iter().map(|lost| (lost.execution, &*lost.cause)).collect();
        assert_eq!(lost, [(revoked.id, "revoked"), (settled.id, "execution_terminal")]);
        let cancel: Vec<_> = reply.cancel.iter().map(|cancel| (cancel.execution, &*cancel.reason)).collect();
        assert_eq!(cancel, [(asked.id, "stop")]);
        let unknown: Vec<_> = reply.unknown.iter().map(|lease| lease.execution).collect();
        assert_eq!(unknown, [forgotten.id], "not the young one: {:?}", young.id);
        let renewed: Vec<_> = reply.renewed.iter().map(|(id, _)| *id).collect();
        assert_eq!(renewed, if renew { vec![good.id, asked.id] } else { vec![] });
        let nothing = kit.client.heartbeat(Heartbeat::new("mailer-1").nothing()).await.unwrap();
        assert_eq!(nothing.unknown.len(), 3, "SD-55: an empty list is a statement");
        let silent = kit.client.heartbeat(Heartbeat::new("mailer-1")).await.unwrap();
        assert!(silent.unknown.is_empty(), "without a list nothing is compared");
    }
}

#[tokio::test(start_paused = true)]
async fn sd_48_a_process_that_leaves_hands_back_what_it_holds() {
    let kit = open_with(4, Default::default()).await;
    let session = start(&kit.client, "a").await;
    let id = kit.submit(Submission::new("mail")).await;
    kit.client.claim(worker().session(session)).await.unwrap();
    let stale = kit.client.deregister("mailer-1", Some(session + 1)).await;
    assert_eq!(stale.unwrap_err().code(), "instance_superseded");
    assert_eq!(kit.client.deregister("mailer-1", Some(session)).await.unwrap(), 1);
    let listed = kit.client.workers(WorkerFilter::default()).await.unwrap().workers;
    assert!(listed.iter().all(|worker| worker.state.name() != "active"), "{listed:?}");
    assert_eq!(kit.client.get(id).await.unwrap().execution.hot.reclaims, 0);
    let gone = kit.client.heartbeat(Heartbeat::new("mailer-1").session(session)).await;
    assert_eq!(gone.unwrap_err().code(), "worker_not_found");
    let gone = kit.client.claim(worker().session(session)).await;
    assert_eq!(gone.unwrap_err().code(), "worker_not_found");
    assert_eq!(kit.claim().await.id, id, "a claim without a session is as good as ever");
}

#[tokio::test(start_paused = true)]
async fn ex_76_a_goodbye_whose_answer_was_lost_is_answered_though_the_record_is_gone() {
    let kit = open().await;
    let session = start(&kit.client, "a").await;
    let goodbye = || kit.client.deregister_once("mailer-1", Some(session), Some("bye".into()));
    assert_eq!(goodbye().await.unwrap(), 0);
    assert_eq!(kit.client.worker("mailer-1").await.unwrap_err().code(), "worker_not_found");
    assert_eq!(goodbye().await.unwrap(), 0, "nobody kept what was answered, and it is no refusal");
    let other = kit.client.deregister_once("mailer-2", None, Some("bye".into())).await;
    assert_eq!(other.unwrap_err().code(), "idempotency_mismatch");
}

#[tokio::test(start_paused = true)]
async fn sd_48_the_list_has_every_process_and_filters_are_exact() {
    let kit = open_with(4, Default::default()).await;
    for at in 0..7 {
        let it = Registration::new(if at % 2 == 0 { "even" } else { "odd" }, format!("w{at}"), "a");
        let it = it.lane(format!("lane{}", at % 3)).version(format!("v{}", at % 2)).label("zone", "a");
        let it = if at == 3 { it.offers("gpu").kind("train") } else { it };
        kit.client.register(it).await.unwrap();
    }
    kit.client.claim(Claim::new("plain", "w35").lane("lane0")).await.unwrap();
    kit.client.drain(WorkerTarget::Instance("w6".into()), "deploy", None).await.unwrap();
    let names = async |filter: WorkerFilter| {
        let page = kit.client.workers(filter).await.unwrap();
        page.workers.iter().map(|body| body.instance.to_string()).collect::<Vec<_>>().join(" ")
    };
    let all = WorkerFilter::default;
    assert_eq!(names(all()).await, "w0 w1 w2 w3 w35 w4 w5 w6", "those that only claim too");
    assert_eq!(names(WorkerFilter { worker: Some("odd".into()), ..all() }).await, "w1 w3 w5");
    assert_eq!(names(WorkerFilter { lane: Some("lane0".into()), ..all() }).await, "w0 w3 w35 w6");
    assert_eq!(names(WorkerFilter { capability: Some("gpu".into()), ..all() }).await, "w3");
    assert_eq!(names(WorkerFilter { kind: Some("mail".into()), ..all() }).await, "w0 w1 w2 w35 w4 w5 w6");
    linger(10).await;
    assert_eq!(names(WorkerFilter { state: Some("drained".into()), ..all() }).await, "w6", "it held nothing");
    let mut walked = Vec::new();
    let mut cursor = None;
    loop {
        let page = kit.client.workers(WorkerFilter { limit: Some(3), cursor, ..all() }).await.unwrap();
        walked.extend(page.workers.into_iter().map(|body| body.instance.to_string()));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(walked.join(" "), "w0 w1 w2 w3 w35 w4 w5 w6");
    let stranger = kit.engine.client("other").unwrap();
    assert!(stranger.workers(all()).await.unwrap().workers.is_empty());
    assert_eq!(stranger.worker("w0").await.unwrap_err().code(), "worker_not_found");
    let told = kit.client.drain(WorkerTarget::Version("v1".into()), "deploy", None).await.unwrap();
    assert_eq!(told, [Text::from("w1"), Text::from("w3"), Text::from("w5")]);
    let told = kit.client.undrain(WorkerTarget::Label("zone".into(), "a".into())).await.unwrap();
    assert_eq!(told.len(), 7);
}

#[tokio::test(start_paused = true)]
async fn s9_the_leases_of_an_instance_are_those_that_name_it() {
    let kit = open_with(4, Default::default()).await;
    let session = start(&kit.client, "a").await;
    let mut held = BTreeSet::new();
    for at in 0..12 {
        kit.submit(Submission::new("mail")).await;
        let claim = if at % 2 == 0 { worker().session(session) } else { Claim::new("mailer", "mailer-2") };
        let work = kit.client.claim(claim).await.unwrap().executions.remove(0);
        if at % 2 == 0 {
            held.insert(work.id);
        }
    }
    let first = kit.client.leases("mailer-1", None, 4).await.unwrap();
    let rest = kit.client.leases("mailer-1", first.next_cursor, 4).await.unwrap();
    assert_eq!((first.leases.len(), rest.leases.len(), rest.next_cursor), (4, 2, None));
    let found: BTreeSet<_> = first.leases.iter().chain(&rest.leases).map(|lease| lease.execution).collect();
    assert_eq!(found, held);
    assert_eq!(kit.client.leases("mailer-2", None, 100).await.unwrap().leases.len(), 6, "without a session too");
}

#[tokio::test(start_paused = true)]
async fn sd_48_one_that_only_claims_can_be_drained_and_given_up() {
    let kit = open_with(4, Default::default()).await;
    let id = kit.submit(Submission::new("mail")).await;
    let work = kit.client.claim(worker().lease_ms(600_000)).await.unwrap().executions.remove(0);
    kit.client.drain(instance(), "deploy", None).await.unwrap();
    assert!(kit.client.claim(worker()).await.unwrap().draining);
    assert_eq!(kit.client.mark_dead("mailer-1", "gone").await.unwrap(), 1);
    assert_eq!(kit.client.complete(Completion::of(&work)).await.unwrap_err().code(), "lease_expired");
    assert_eq!(kit.client.get(id).await.unwrap().execution.hot.reclaims, 1);
    let unknown = kit.client.mark_dead("nobody", "gone").await;
    assert_eq!(unknown.unwrap_err().code(), "worker_not_found");
}

/// What a process offers is written within this time.
const CHANGED_MS: u64 = 2_000;

#[tokio::test(start_paused = true)]
async fn sd_48_every_node_lists_and_steers_a_process_that_only_claims() {
    let store = memory(4).shared();
    let (one, two) = (Node::start(&store, "one").await, Node::start(&store, "two").await);
    one.client.submit(Submission::new("mail")).await.unwrap();
    let claim = worker().offers("gpu").lease_ms(600_000);
    let work = one.client.claim(claim.clone()).await.unwrap().executions.remove(0);
    linger(100).await;
    let listed = two.client.workers(WorkerFilter::default()).await.unwrap().workers;
    let [body] = &listed[..] else { panic!("one process: {listed:?}") };
    assert_eq!((&*body.worker, &*body.instance, body.session), ("mailer", "mailer-1", 0));
    assert_eq!((&body.lanes[..], &body.kinds), (&["default".into()][..], &None));
    assert_eq!(body.capabilities.tokens().collect::<Vec<_>>(), ["gpu"]);
    assert_eq!(two.client.worker("mailer-1").await.unwrap().state, State::Active);
    assert_eq!(two.client.leases("mailer-1", None, 10).await.unwrap().leases[0].execution, work.id);
    let waiting = one.client.claim(claim.clone().wait_ms(60_000));
    let (reply, _) = tokio::join!(waiting, async {
        linger(500).await;
        two.client.drain(instance(), "deploy", None).await.unwrap()
    });
    assert!(reply.unwrap().draining);
    two.client.undrain(instance()).await.unwrap();
    linger(500).await;
    let told = one.client.claim(claim.clone()).await.unwrap().told;
    assert_eq!(told.notices.len(), 1, "of the end of the drain");
    let waiting = one.client.claim(claim.wait_ms(60_000));
    let (reply, ended) = tokio::join!(waiting, async {
        linger(500).await;
        two.client.mark_dead("mailer-1", "gone").await.unwrap()
    });
    assert_eq!((reply.unwrap_err().code(), ended), ("worker_dead", 1));
    assert_eq!(one.client.complete(Completion::of(&work)).await.unwrap_err().code(), "lease_expired");
}

#[tokio::test(start_paused = true)]
async fn sd_49_one_that_only_claims_is_written_every_third_of_its_ttl_and_when_its_offer_changes() {
    let kit = open_with(4, Default::default()).await;
    let before = kit.engine.stats();
    let commits = || kit.engine.stats().since(before).commits;
    for _ in 0..100 {
        kit.client.claim(worker()).await.unwrap();
        linger(190).await;
    }
    assert_eq!(commits(), 1, "entered once, within 19 seconds");
    for _ in 0..10 {
        kit.client.claim(worker()).await.unwrap();
        linger(190).await;
    }
    assert_eq!(commits(), 2, "a third of its ttl is over");
    kit.client.claim(worker().lane("bulk").wait_ms(10_000)).await.unwrap();
    assert_eq!(commits(), 3);
    assert_eq!(kit.client.worker("mailer-1").await.unwrap().lanes, [Text::from("bulk")]);
    for at in 0..40 {
        kit.client.claim(worker().lane(if at % 2 == 0 { "even" } else { "odd" })).await.unwrap();
        linger(100).await;
    }
    assert!(commits() <= 8, "one that keeps changing its mind is written once a second: {}", commits());
    linger(CHANGED_MS).await;
    assert_eq!(kit.client.worker("mailer-1").await.unwrap().lanes, [Text::from("odd")], "the last word counts");
    linger(60_000 * 4 / 3).await;
    assert_eq!(kit.client.worker("mailer-1").await.unwrap().state.name(), "dead");
    let quiet = kit.engine.stats();
    linger(600_000).await;
    assert_eq!(kit.engine.stats().since(quiet).commits, 0, "an idle engine writes nothing");
    kit.client.claim(worker()).await.unwrap();
    linger(CHANGED_MS).await;
    assert_eq!(kit.client.worker("mailer-1").await.unwrap().state, State::Active);
}

#[tokio::test(start_paused = true)]
async fn sd_49_one_that_only_claims_is_entered_again_after_its_record_is_gone() {
    let kit = open().await;
    kit.client.claim(worker()).await.unwrap();
    linger(80_000 + WORKER_KEEP_MS + 20_000).await;
    assert_eq!(kit.client.worker("mailer-1").await.unwrap_err().code(), "worker_not_found");
    kit.client.claim(worker()).await.unwrap();
    linger(100).await;
    kit.client.claim(worker()).await.unwrap();
    linger(100).await;
    let other = WorkerFilter { state: Some("active".into()), ..WorkerFilter::default() };
    assert_eq!(kit.client.workers(other).await.unwrap().workers.len(), 1);
    linger(WORKER_TTL_MS).await;
    assert!(kit.client.worker("mailer-1").await.is_ok(), "it is entered, not only remembered");
}

#[tokio::test(start_paused = true)]
async fn sd_49_renewals_count_for_one_that_only_claims() {
    let kit = open().await;
    kit.submit(Submission::new("mail")).await;
    let work = kit.claim().await;
    for _ in 0..10 {
        linger(15_000).await;
        kit.client.renew(Renewal::of(&work)).await.unwrap();
    }
    linger(100).await;
    assert_eq!(kit.client.worker("mailer-1").await.unwrap().state, State::Active);
    let beat = kit.client.heartbeat(Heartbeat::new("mailer-1").nothing()).await.unwrap();
    assert_eq!(beat.unknown.len(), 1, "SD-52: whoever holds a lease is told of it");
}

#[tokio::test(start_paused = true)]
async fn sd_48_registering_after_claiming_keeps_what_was_claimed() {
    let kit = open_with(4, Default::default()).await;
    kit.submit(Submission::new("mail")).await;
    let work = kit.claim().await;
    linger(100).await;
    let mut told = kit.client.notices("mailer-1");
    linger(100).await;
    assert_eq!(start(&kit.client, "a").await, 1);
    kit.client.complete(Completion::of(&work)).await.expect("it is the same process");
    kit.client.drain(instance(), "deploy", None).await.unwrap();
    assert!(matches!(told.recv().await, Some(Notice::Drain { .. })), "it was not superseded");
}

#[tokio::test(start_paused = true)]
async fn sd_54_one_that_drains_and_was_silent_is_handed_nothing() {
    let kit = open().await;
    kit.client.claim(worker()).await.unwrap();
    kit.submit(Submission::new("mail")).await;
    kit.client.claim(Claim::new("mailer", "mailer-2").lease_ms(600_000)).await.unwrap();
    let registration = Registration::new("mailer", "mailer-2", "a").ttl_ms(6_000);
    kit.client.register(registration).await.unwrap();
    kit.client.drain(WorkerTarget::Instance("mailer-2".into()), "deploy", None).await.unwrap();
    linger(10_000).await;
    kit.submit(Submission::new("mail")).await;
    assert!(kit.client.claim(Claim::new("mailer", "mailer-2")).await.unwrap().draining);
}

#[tokio::test(start_paused = true)]
async fn sd_15_a_claim_of_an_unregistered_process_reads_nothing_more() {
    let calls = async |registered: bool| {
        let kit = open_with(4, Default::default()).await;
        if registered {
            let other = Registration::new("mailer", "mailer-9", "a");
            kit.client.register(other).await.unwrap();
        }
        for _ in 0..20 {
            kit.submit(Submission::new("mail")).await;
        }
        kit.client.claim(worker().lane("empty")).await.unwrap();
        kit.client.claim(worker().lane("default")).await.unwrap();
        linger(CHANGED_MS).await;
        let before = kit.engine.stats();
        for _ in 0..19 {
            let work = kit.claim().await;
            kit.client.complete(Completion::of(&work)).await.unwrap();
        }
        let stats = kit.engine.stats().since(before);
        (stats.reads, stats.scans, stats.commits)
    };
    let (alone, beside) = (calls(false).await, calls(true).await);
    assert_eq!(alone, beside);
    assert_eq!((alone.0, alone.2), (0, 38), "one commit for each claim and each completion, and no read");
}

#[tokio::test(start_paused = true)]
async fn sd_4_another_node_learns_of_a_drain_and_of_a_new_session() {
    let store = memory(4).shared();
    let (one, two) = (Node::start(&store, "one").await, Node::start(&store, "two").await);
    let session = start(&one.client, "a").await;
    assert!(two.client.claim(worker().session(session)).await.is_ok(), "looked up");
    let mut told = two.client.notices("mailer-1");
    let waiting = two.client.claim(worker().session(session).wait_ms(60_000));
    let (reply, _) = tokio::join!(waiting, async {
        linger(500).await;
        one.client.drain(instance(), "deploy", None).await.unwrap()
    });
    assert!(reply.unwrap().draining);
    assert_eq!(told.recv().await, Some(Notice::Drain { reason: "deploy".into(), deadline_at: None }));
    start(&one.client, "b").await;
    assert_eq!(told.recv().await, Some(Notice::Superseded));
    let claim = two.client.claim(worker().session(session)).await;
    assert_eq!(claim.unwrap_err().code(), "instance_superseded");
}

#[tokio::test(start_paused = true)]
async fn sd_4_a_node_that_starts_knows_who_was_given_up() {
    let store = memory(1);
    let kit = weft_engine::Engine::open(store.clone(), Default::default()).await.unwrap();
    let client = kit.client("shop").unwrap();
    start(&client, "a").await;
    client.mark_dead("mailer-1", "gone").await.unwrap();
    kit.shutdown().await;
    let client = weft_engine::Engine::open(store, Default::default()).await.unwrap().client("shop").unwrap();
    assert_eq!(client.claim(worker()).await.unwrap_err().code(), "worker_dead");
}

#[tokio::test(start_paused = true)]
async fn sd_48_a_registration_that_cannot_be_read_refuses_claims_that_rest_on_it() {
    let store = memory(1).shared();
    let one = Node::start(&store, "one").await;
    one.client.register(Registration::new("mailer", "mailer-1", "a").lane("mine").kind("rare")).await.unwrap();
    one.engine.shutdown().await;
    let name = WorkerName { partition: PartitionId(0), namespace: "shop".into(), instance: "mailer-1".into() };
    plant::damage(&store, name.key(), 0).await;
    let two = Node::start(&store, "two").await;
    two.client.submit(Submission::new("mail")).await.unwrap();
    let refused = two.client.claim(Claim::new("mailer", "mailer-1")).await;
    assert_eq!(refused.unwrap_err().code(), "internal", "nobody knows which lanes it serves");
    let whole = Claim { kinds: Some(vec!["mail".into()]), ..Claim::new("mailer", "mailer-1").lane("default") };
    let whole = Claim { capabilities: Some(Vec::new()), ..whole };
    assert_eq!(two.client.claim(whole).await.unwrap().executions.len(), 1, "this one says all itself");
}

#[tokio::test(start_paused = true)]
async fn ex_10_the_registry_asks_for_scopes() {
    let kit = open().await;
    start(&kit.client, "a").await;
    let with = |scopes| kit.engine.client_as(Principal { scopes, ..Principal::all("shop", "eve") });
    let submitter = with(Scopes::SUBMIT);
    let refused = submitter.register(Registration::new("mailer", "mailer-2", "a")).await;
    assert_eq!(refused.unwrap_err().code(), "forbidden");
    assert_eq!(submitter.drain(instance(), "", None).await.unwrap_err().code(), "forbidden");
    let operator = with(Scopes::OPERATE);
    assert_eq!(operator.heartbeat(Heartbeat::new("mailer-1")).await.unwrap_err().code(), "forbidden");
    assert!(operator.drain(instance(), "", None).await.is_ok());
    let work = with(Scopes::WORK);
    assert!(work.undrain(instance()).await.is_ok(), "a worker may tell itself");
    assert_eq!(work.mark_dead("mailer-1", "").await.unwrap_err().code(), "forbidden");
    assert!(operator.mark_dead("mailer-1", "").await.is_ok());
}
