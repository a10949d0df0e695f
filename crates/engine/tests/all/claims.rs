use crate::kit::*;
use std::time::Duration;
use weft_core::{ExecutionId, digest};
use weft_engine::flow::{Edge, FlowSubmission};
use weft_engine::{Claim, Completion, Config, Submission};
use weft_store::faulty::Faults;

#[tokio::test(start_paused = true)]
async fn sd_9_priority_then_time_then_id() {
    let kit = open().await;
    let late = kit.submit(Submission::new("mail").priority(5)).await;
    pass(10).await;
    let later = kit.submit(Submission::new("mail").priority(5)).await;
    let first = kit.submit(Submission::new("mail").priority(9000)).await;
    let last = kit.submit(Submission::new("mail")).await;
    let reply = kit.client.claim(worker().max(10)).await.unwrap();
    let order: Vec<ExecutionId> = reply.executions.iter().map(|work| work.id).collect();
    assert_eq!(order, [first, late, later, last]);
}

#[tokio::test(start_paused = true)]
async fn sd_9_the_order_holds_over_many_refills() {
    let config = Config { window: 16, cache_bytes: 1, ..Config::default() };
    let kit = open_with(1, config).await;
    for start in 0..10 {
        let items = (0..50u32).map(|n| Submission::new("mail").priority((start * 50 + n) * 7 % 501)).collect();
        assert!(kit.client.submit_batch(items).await.iter().all(Result::is_ok));
    }
    let mut priorities = Vec::new();
    loop {
        let reply = kit.client.claim(worker().max(7)).await.unwrap();
        if reply.executions.is_empty() {
            break;
        }
        priorities.extend(reply.executions.iter().map(|work| work.priority));
    }
    assert_eq!(priorities.len(), 500);
    assert!(priorities.is_sorted_by(|one, other| one >= other), "{priorities:?}");
}

/// Submissions land beyond the window while scans are under way: none may be forgotten.
#[tokio::test(start_paused = true)]
async fn sd_16_nothing_is_forgotten_while_queues_are_filled_and_emptied_together() {
    let config = Config { window: 8, ..Config::default() };
    let slow = Faults { before_ms: (0, 4), after_ms: (0, 4), ..Faults::default() };
    let (_store, _faulty, engine) = open_faulty(slow, config).await;
    let shop = engine.client("shop").unwrap();
    let producers = (0..4).map(|_| {
        let client = shop.clone();
        tokio::spawn(async move {
            for _ in 0..50 {
                let items = (0..10).map(|_| Submission::new("mail").input(vec![7; 10])).collect();
                assert!(client.submit_batch(items).await.iter().all(Result::is_ok));
            }
        })
    });
    let workers = (0..4).map(|n| {
        let client = shop.clone();
        tokio::spawn(async move {
            let mut done = 0;
            loop {
                let claim = Claim::new("w", format!("w{n}")).max(3).wait_ms(2_000);
                let reply = client.claim(claim).await.unwrap();
                if reply.executions.is_empty() {
                    return done;
                }
                done += reply.executions.len();
                let all = reply.executions.iter().map(Completion::of).collect();
                assert!(client.complete_batch(all).await.iter().all(Result::is_ok));
            }
        })
    });
    let (producers, workers): (Vec<_>, Vec<_>) = (producers.collect(), workers.collect());
    for producer in producers {
        producer.await.unwrap();
    }
    let mut done = 0;
    for worker in workers {
        done += worker.await.unwrap();
    }
    assert_eq!(done, 2000);
}

#[tokio::test(start_paused = true)]
async fn sd_15_work_that_cannot_match_does_not_hold_up_what_can() {
    let kit = open().await;
    for _ in 0..10 {
        let items = (0..1000).map(|_| Submission::new("train").needs("gpu").priority(9000)).collect();
        assert!(kit.client.submit_batch(items).await.iter().all(Result::is_ok));
    }
    // Its first claim enters it beside; that is not what is measured.
    kit.claim_nothing().await;
    linger(10).await;
    let plain = kit.submit(Submission::new("train")).await;
    let before = kit.engine.stats();
    let work = kit.claim().await;
    assert_eq!(work.id, plain);
    assert!(kit.engine.stats().since(before).reads <= 1);
    let gpu = kit.client.claim(worker().offers("gpu").offers("big")).await.unwrap();
    assert_eq!(gpu.executions.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn sd_16_after_a_restart_the_queue_is_found_again() {
    let kit = open().await;
    let mut ids = Vec::new();
    for lane in ["a", "b"] {
        for kind in ["one", "two"] {
            ids.push(kit.submit(Submission::new(kind).lane(lane)).await);
        }
    }
    kit.engine.shutdown().await;
    let engine = weft_engine::Engine::open(kit.store.clone(), Config::default()).await.unwrap();
    let client = engine.client("shop").unwrap();
    let got = client.claim(worker().lane("a").lane("b").max(10)).await.unwrap();
    assert_eq!(got.executions.len(), 4);
    assert!(client.claim(worker().lane("a").lane("b")).await.unwrap().executions.is_empty());
}

#[tokio::test(start_paused = true)]
async fn sd_42_lanes_share_by_weight() {
    let kit = open().await;
    for lane in ["big", "small"] {
        let items = (0..300).map(|_| Submission::new("mail").lane(lane)).collect();
        assert!(kit.client.submit_batch(items).await.iter().all(Result::is_ok));
    }
    let mut big = 0i64;
    for _ in 0..200 {
        let claim = Claim::new("w", "w1").weighted_lane("big", 3).weighted_lane("small", 1);
        let reply = kit.client.claim(claim).await.unwrap();
        big += i64::from(reply.executions[0].lane.as_ref() == "big");
    }
    assert!((big - 150).abs() <= 1, "of 200 the lane with weight 3 of 4 got {big}");
}

#[tokio::test(start_paused = true)]
async fn strict_lanes_are_served_in_the_order_given() {
    let kit = open().await;
    kit.submit(Submission::new("mail").lane("low").priority(9000)).await;
    let high = kit.submit(Submission::new("mail").lane("high")).await;
    let reply = kit.client.claim(worker().lane("high").lane("low").strict()).await.unwrap();
    assert_eq!(reply.executions[0].id, high);
}

#[tokio::test(start_paused = true)]
async fn ex_36_a_repeated_claim_gets_the_same_leases_and_no_other() {
    let kit = open().await;
    for _ in 0..5 {
        kit.submit(Submission::new("mail").input(&b"x"[..])).await;
    }
    let claim = || worker().max(2).request_id(&b"r1"[..]);
    let first = kit.client.claim(claim()).await.unwrap();
    pass(1_000).await;
    let again = kit.client.claim(claim()).await.unwrap();
    let leases = |reply: &weft_engine::ClaimReply| -> std::collections::BTreeSet<_> {
        reply.executions.iter().map(|work| (work.id, work.lease, work.epoch)).collect()
    };
    assert_eq!(leases(&first), leases(&again));
    assert_eq!(again.executions[0].expires_in_ms, 29_000);
    for work in &first.executions {
        kit.client.complete(Completion::of(work)).await.unwrap();
    }
    let next = kit.client.claim(claim()).await.unwrap();
    assert!(leases(&next).is_disjoint(&leases(&first)), "none of the old leases is valid any more");
    assert_eq!(next.executions.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn sd_29_a_caller_that_has_gone_gets_nothing() {
    let kit = open().await;
    let client = kit.client.clone();
    let waiting = tokio::spawn(async move { client.claim(worker().wait_ms(60_000)).await });
    pass(10).await;
    waiting.abort();
    let _ = waiting.await;
    let id = kit.submit(Submission::new("mail")).await;
    assert_eq!(kit.claim().await.id, id);
}

#[tokio::test(start_paused = true)]
async fn sd_27_a_claim_that_waits_over_many_partitions_is_served_once() {
    let kit = open_with(8, Config::default()).await;
    let client = kit.client.clone();
    let waiting = tokio::spawn(async move { client.claim(worker().wait_ms(60_000)).await });
    pass(10).await;
    for _ in 0..20 {
        kit.submit(Submission::new("mail")).await;
    }
    assert_eq!(waiting.await.unwrap().unwrap().executions.len(), 1);
    let rest = kit.client.claim(worker().max(100)).await.unwrap();
    assert_eq!(rest.executions.len(), 19);
}

#[tokio::test(start_paused = true)]
async fn sd_28_the_worker_with_fewer_capabilities_is_served_first() {
    let kit = open().await;
    let (rare, plain) = (kit.client.clone(), kit.client.clone());
    let rare = tokio::spawn(async move { rare.claim(worker().offers("gpu").wait_ms(1_000)).await.unwrap() });
    pass(10).await;
    let plain = tokio::spawn(async move { plain.claim(Claim::new("w", "w2").wait_ms(1_000)).await.unwrap() });
    pass(10).await;
    kit.submit(Submission::new("mail")).await;
    assert_eq!(plain.await.unwrap().executions.len(), 1);
    assert!(rare.await.unwrap().executions.is_empty());
}

#[tokio::test(start_paused = true)]
async fn two_nodes_on_one_store_never_give_out_the_same_execution() {
    let store = memory(2).shared();
    let one = weft_engine::Engine::open(store.node_handle(), Config::default()).await.unwrap();
    let two = weft_engine::Engine::open(store.node_handle(), Config::default()).await.unwrap();
    let (one, two) = (one.client("shop").unwrap(), two.client("shop").unwrap());
    let items = (0..100).map(|_| Submission::new("mail")).collect();
    assert!(one.submit_batch(items).await.iter().all(Result::is_ok));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let (a, b) = tokio::join!(one.claim(Claim::new("w", "w1").max(3)), two.claim(Claim::new("w", "w2").max(3)));
        for (client, reply) in [(&two, a.unwrap()), (&one, b.unwrap())] {
            for work in reply.executions {
                assert!(seen.insert(work.id), "{} was given out twice", work.id);
                // Any node takes any command.
                client.complete(Completion::of(&work)).await.unwrap();
            }
        }
    }
    assert_eq!(seen.len(), 100);
}

#[tokio::test(start_paused = true)]
async fn sd_14_work_submitted_on_one_node_reaches_a_worker_that_waits_on_another() {
    let store = memory(1).shared();
    let one = weft_engine::Engine::open(store.node_handle(), Config::default()).await.unwrap();
    let two = weft_engine::Engine::open(store.node_handle(), Config::default()).await.unwrap();
    let (one, two) = (one.client("shop").unwrap(), two.client("shop").unwrap());
    let began = tokio::time::Instant::now();
    let waiting = tokio::spawn(async move { two.claim(worker().wait_ms(60_000)).await.unwrap() });
    pass(10).await;
    one.submit(Submission::new("mail")).await.unwrap();
    assert_eq!(waiting.await.unwrap().executions.len(), 1);
    assert!(began.elapsed().as_millis() < 1_000, "a wake, not a recheck");
}

#[tokio::test(start_paused = true)]
async fn sd_26_a_claim_that_stops_short_says_that_there_is_more() {
    let kit = open_with(4, Config::default()).await;
    for n in 0..64 {
        kit.submit(Submission::new("mail").idempotency_key(format!("k{n}"))).await;
    }
    let mut taken = 0;
    while taken < 64 {
        let reply = kit.client.claim(worker().max(40)).await.unwrap();
        assert!(!reply.executions.is_empty());
        taken += reply.executions.len();
        assert!(reply.more || reply.executions.len() == 40 || taken == 64, "{} more", 64 - taken);
    }
    assert!(!kit.client.claim(worker().max(40)).await.unwrap().more);
}

/// A claim waits in all partitions at once, and only one serves it: the one that has work must not take another, which is
/// only looking, for that one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sd_27_a_claim_that_waits_in_many_partitions_is_woken_by_each() {
    // No second look makes good what was missed.
    let kit = open_with(16, Config { recheck_ms: 3_600_000, ..Config::default() }).await;
    for round in 0..1_000 {
        let claim = kit.client.claim(worker().wait_ms(10_000));
        let (reply, id) = tokio::join!(claim, kit.submit(Submission::new("mail")));
        let work = reply.unwrap().executions.pop().unwrap_or_else(|| panic!("round {round}: {id} was not handed out"));
        assert_eq!(work.id, id);
        kit.client.complete(Completion::of(&work)).await.unwrap();
    }
}

/// Others may have begun to serve it when it comes to the one that is full.
#[tokio::test(start_paused = true)]
async fn sd_27_a_claim_waits_although_one_partition_takes_no_more_calls() {
    for work_in in [1, 0] {
        let config = Config { queue_max: 1, batch_max: 1, recheck_ms: 3_600_000, ..Config::default() };
        let (_store, faulty, engine) = open_faulty_on(memory(2), Faults::default(), config).await;
        let client = engine.client("shop").unwrap();
        let submit = |lane: &str, partition: u64| {
            let mut keys = (0..).map(|n| format!("key-{n}"));
            let key = keys.find(|key| digest::place("shop", key.as_bytes()) % 2 == partition).unwrap();
            let (client, item) = (client.clone(), Submission::new("mail").lane(lane).concurrency_key(key));
            tokio::spawn(async move { client.submit(item).await })
        };
        // Its first claim enters it beside.
        assert!(client.claim(worker()).await.unwrap().executions.is_empty());
        linger(10).await;
        faulty.set_faults(Faults { before_ms: (1_000, 1_000), ..Faults::default() });
        let mut others = Vec::new();
        for _ in 0..3 {
            // One is on its way, one in the batch behind it, one in the mailbox.
            others.push(submit("aside", 0));
            linger(1).await;
        }
        assert_eq!(submit("aside", 0).await.unwrap().unwrap_err().code(), "busy");
        let waiting = client.clone();
        let claim = tokio::spawn(async move { waiting.claim(worker().wait_ms(60_000)).await });
        linger(1).await;
        for other in others.into_iter().filter(|_| work_in == 0) {
            other.await.unwrap().unwrap();
        }
        let id = submit("default", work_in).await.unwrap().unwrap().id;
        assert_eq!(u64::from(id.partition().0), work_in);
        let reply = tokio::time::timeout(Duration::from_secs(2), claim).await;
        assert_eq!(reply.expect("it waits there").unwrap().unwrap().executions[0].id, id);
    }
}

#[tokio::test(start_paused = true)]
async fn sd_26_what_upstreams_hand_over_counts_towards_the_bytes_of_a_claim() {
    let kit = open().await;
    let mail = || Submission::new("mail");
    let flow = FlowSubmission::new("letters").member("u", mail()).member("a", mail()).member("b", mail());
    let flow = flow.link(Edge::new("u", "a").input("text")).link(Edge::new("u", "b").input("text"));
    kit.client.submit_flow(flow).await.unwrap();
    let work = kit.client.claim(worker()).await.unwrap().executions.pop().unwrap();
    kit.client.complete(Completion::of(&work).result(vec![b'x'; 1_000])).await.unwrap();
    let claim = || Claim { max_bytes: 900, ..worker().max(10) };
    let reply = kit.client.claim(claim()).await.unwrap();
    assert_eq!((reply.executions.len(), reply.more), (1, true), "the first goes out whatever it takes");
    assert_eq!(kit.client.claim(claim()).await.unwrap().executions.len(), 1);
}
