//! Notices for worker processes, through each of their channels.

use crate::kit::*;
use weft_core::command::Fence;
use weft_core::record::execution::EndCause;
use weft_core::reply::Claimed;
use weft_engine::worker::{Heartbeat, Registration, WorkerTarget};
use weft_engine::{Cancellation, Completion, Notice, Renewal, Revoking, Submission, Told};

/// A process with four leases: one to keep, and one each to be cancelled, asked to stop and revoked.
async fn holder() -> (Kit, u64, Vec<Claimed>) {
    let kit = open_with(4, Default::default()).await;
    let registered = kit.client.register(Registration::new("mailer", "mailer-1", "a")).await.unwrap();
    let session = registered.worker.session;
    let mut held = Vec::new();
    for _ in 0..4 {
        kit.submit(Submission::new("mail")).await;
        let claim = worker().session(session).lease_ms(600_000);
        held.push(kit.client.claim(claim).await.unwrap().executions.remove(0));
    }
    (kit, session, held)
}

/// Does what is to be noticed, and answers the notices that follow.
async fn act(kit: &Kit, held: &[Claimed]) -> Vec<Notice> {
    let [_, cancelled, asked, revoked] = held else { panic!("four") };
    kit.client.cancel(Cancellation::new(cancelled.id, "changed my mind")).await.unwrap();
    kit.client.cancel(Cancellation::new(asked.id, "soon").graceful(60_000)).await.unwrap();
    kit.client.revoke(Revoking::new(revoked.id, "mine")).await.unwrap();
    let kill_at = Some(kit.engine.now() + 60_000);
    kit.client.drain(WorkerTarget::Instance("mailer-1".into()), "deploy", None).await.unwrap();
    vec![
        Notice::Cancelled {
            execution: cancelled.id,
            epoch: 1,
            reason: "changed my mind".into(),
            by: kit.client.principal().name.clone(),
        },
        Notice::CancelRequested { execution: asked.id, epoch: 1, reason: "soon".into(), kill_at },
        Notice::LeaseLost { execution: revoked.id, epoch: 1, cause: EndCause::Revoked },
        Notice::Drain { reason: "deploy".into(), deadline_at: None },
    ]
}

fn notices(told: Told) -> Vec<Notice> {
    assert!(!told.missed);
    assert!(told.notices.is_sorted_by(|one, next| one.no < next.no), "numbers grow: {told:?}");
    told.notices.into_iter().map(|numbered| numbered.notice).collect()
}

#[tokio::test(start_paused = true)]
async fn sd_57_cancel_revoke_and_drain_are_seen_down_a_stream_whatever_replies_carry() {
    let (kit, session, held) = holder().await;
    let mut stream = kit.client.notices("mailer-1");
    let expected = act(&kit, &held).await;
    let beat = kit.client.heartbeat(Heartbeat::new("mailer-1").session(session)).await.unwrap();
    assert_eq!(notices(beat.told).len(), expected.len(), "channels do not take from each other");
    for notice in expected {
        assert_eq!(stream.recv().await, Some(notice));
    }
}

#[tokio::test(start_paused = true)]
async fn sd_57_cancel_revoke_and_drain_are_seen_in_the_reply_of_a_heartbeat() {
    let (kit, session, held) = holder().await;
    let expected = act(&kit, &held).await;
    let beat = || kit.client.heartbeat(Heartbeat::new("mailer-1").session(session));
    assert_eq!(notices(beat().await.unwrap().told), expected);
    assert_eq!(beat().await.unwrap().told, Told::default(), "each comes with one reply");
}

#[tokio::test(start_paused = true)]
async fn sd_57_cancel_revoke_and_drain_are_seen_in_the_reply_of_a_renewal() {
    let (kit, _, held) = holder().await;
    let expected = act(&kit, &held).await;
    let (answers, told) = kit.client.renew_told(vec![Renewal::of(&held[0]), Renewal::of(&held[3])]).await;
    assert_eq!(notices(told), expected);
    assert_eq!(answers[1].as_ref().unwrap_err().code(), "lease_revoked", "the refusal says so too");
}

#[tokio::test(start_paused = true)]
async fn sd_57_cancel_revoke_and_drain_are_seen_in_the_reply_of_a_claim_that_waits() {
    for partitions in [1, 4] {
        let kit = open_with(partitions, Default::default()).await;
        let began = tokio::time::Instant::now();
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(kit.submit(Submission::new("mail")).await);
            kit.client.claim(worker().lease_ms(600_000)).await.unwrap();
        }
        let wait = async |act: Act| {
            let waiting = kit.client.claim(worker().wait_ms(60_000));
            let (reply, ()) = tokio::join!(waiting, async {
                linger(100).await;
                act.act(&kit, &ids).await;
            });
            let reply = reply.unwrap();
            assert!(reply.executions.is_empty());
            (notices(reply.told), reply.draining)
        };
        let (told, _) = wait(Act::Cancel).await;
        assert!(matches!(&told[..], [Notice::Cancelled { reason, .. }] if **reason == *"stop"), "{told:?}");
        let (told, _) = wait(Act::Ask).await;
        assert!(matches!(&told[..], [Notice::CancelRequested { execution, .. }] if *execution == ids[1]), "{told:?}");
        let (told, draining) = wait(Act::Drain).await;
        assert!(matches!(&told[..], [Notice::Drain { .. }]) && draining, "{told:?}");
        assert!(began.elapsed().as_millis() < 5_000, "each answered at once: {:?}", began.elapsed());
        let again = kit.client.claim(worker()).await.unwrap();
        assert!(again.draining && again.told == Told::default());
    }
}

enum Act {
    Cancel,
    Ask,
    Drain,
}

impl Act {
    async fn act(&self, kit: &Kit, ids: &[weft_core::ExecutionId]) {
        match self {
            Act::Cancel => drop(kit.client.cancel(Cancellation::new(ids[0], "stop")).await.unwrap()),
            Act::Ask => drop(kit.client.cancel(Cancellation::new(ids[1], "stop").graceful(60_000)).await.unwrap()),
            Act::Drain => {
                let target = WorkerTarget::Instance("mailer-1".into());
                kit.client.drain(target, "deploy", None).await.unwrap();
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn sd_53_with_every_notice_dropped_a_heartbeat_tells_all() {
    let (kit, session, held) = holder().await;
    act(&kit, &held).await;
    let dropped = kit.client.heartbeat(Heartbeat::new("mailer-1").session(session)).await.unwrap();
    drop(dropped);
    let mut beat = Heartbeat::new("mailer-1").session(session);
    for work in &held {
        beat = beat.holding(work.id, Fence { lease: work.lease, epoch: work.epoch });
    }
    let reply = kit.client.heartbeat(beat).await.unwrap();
    assert_eq!(reply.told, Told::default());
    let lost: Vec<_> = reply.lost.iter().map(|lost| (lost.execution, &*lost.cause)).collect();
    assert_eq!(lost, [(held[1].id, "cancelled"), (held[3].id, "revoked")]);
    assert_eq!(reply.cancel.iter().map(|cancel| cancel.execution).collect::<Vec<_>>(), [held[2].id]);
    assert_eq!(reply.drain.map(|drain| drain.reason), Some("deploy".into()));
}

#[tokio::test(start_paused = true)]
async fn sd_60_a_worker_is_not_told_of_its_own_acts() {
    let (kit, session, held) = holder().await;
    kit.client.complete(Completion::of(&held[0])).await.unwrap();
    kit.client.cancel(Cancellation::new(held[1].id, "mine").held(&held[1])).await.unwrap();
    let beat = kit.client.heartbeat(Heartbeat::new("mailer-1").session(session)).await.unwrap();
    assert_eq!(beat.told, Told::default());
}

#[tokio::test(start_paused = true)]
async fn sd_59_a_stream_goes_on_after_the_number_it_heard_last() {
    let (kit, session, held) = holder().await;
    let expected = act(&kit, &held).await;
    let told = kit.client.heartbeat(Heartbeat::new("mailer-1").session(session)).await.unwrap().told;
    let mut stream = kit.client.notices_after("mailer-1", Some(told.notices[1].no));
    for notice in &expected[2..] {
        assert_eq!(stream.recv().await.as_ref(), Some(notice));
    }
    let mut elsewhere = kit.client.notices_after("mailer-1", Some(7));
    assert_eq!(elsewhere.next().await, Some(weft_engine::Heard::Missed));
}

#[tokio::test(start_paused = true)]
async fn sd_57_a_node_that_stops_says_so() {
    let kit = open().await;
    let waiting = kit.client.claim(worker().wait_ms(60_000));
    let (reply, ()) = tokio::join!(waiting, async {
        linger(100).await;
        kit.engine.drain();
    });
    let reply = reply.unwrap();
    assert_eq!((reply.draining, notices(reply.told)), (true, vec![Notice::NodeStopping]));
}
