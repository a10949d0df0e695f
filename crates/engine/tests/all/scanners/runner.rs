//! The runner itself: partitions and scanners that do not answer, hang or panic cost no other one anything.

use crate::kit::bench::Bench;
use crate::kit::flows::P0;
use crate::kit::kinds::{Kind, Memory, in_time};
use crate::kit::log::Log;
use crate::kit::plant;
use crate::kit::probe::Asked;
use std::collections::BTreeSet;
use tracing::Level;
use weft_core::schema::Timer;
use weft_core::{ExecutionId, PartitionId};
use weft_engine::config::Filter;
use weft_engine::{Claim, Submission};
use weft_store::Store;

const P1: PartitionId = PartitionId(1);
const LEASES: &str = "lease_expiry";
const DELAYS: &str = "delayed_promoter";

/// Submits so many executions whose keys spread them over all partitions.
async fn spread(bench: &Bench<impl Store>, count: usize, delay_ms: u64) -> Vec<ExecutionId> {
    let mut ids = Vec::new();
    for number in 0..count {
        let key = format!("{delay_ms}-{number}");
        let one = Submission::new("mail").idempotency_key(key).delay_ms(delay_ms);
        ids.push(bench.client.submit(one).await.unwrap().id);
    }
    ids
}

/// The partitions that have entries of a timer.
async fn having(bench: &Bench<impl Store>, partitions: u16, timer: Timer) -> BTreeSet<PartitionId> {
    let mut having = BTreeSet::new();
    for partition in (0..partitions).map(PartitionId) {
        if bench.entries_in(partition, timer).await > 0 {
            having.insert(partition);
        }
    }
    having
}

fn cycles(bench: &Bench<impl Store>, scanner: &str) -> u64 {
    bench.count("weft_scanner_cycles_total", &[scanner])
}

/// Whether the call is about the partition alone or, as a joint scan, about it among others.
fn touches(asked: &Asked, partition: PartitionId) -> bool {
    match asked {
        Asked::Read(of, _) | Asked::Commit(of, _) | Asked::Scan(Some(of), _) => *of == partition,
        Asked::Scan(None, _) => true,
        Asked::Now => false,
    }
}

fn is_pass(asked: &Asked, timer: Timer) -> bool {
    matches!(asked, Asked::Scan(_, scan) if scan.ranges.len() == 1) && asked.due() == Some(timer as i64)
}

pub async fn sr_10_a_partition_that_does_not_answer_hides_no_other(kind: impl Kind) {
    let bench = Bench::with(&kind, 4, Filter::NONE).await;
    spread(&bench, 32, 1_000).await;
    let all: BTreeSet<PartitionId> = (0..4).map(PartitionId).collect();
    assert_eq!(having(&bench, 4, Timer::Until).await, all);
    let (log, _guard) = Log::listen();
    let bench = bench.run().await;
    // Neither the partition answers, nor any call about all partitions.
    bench.probe.refuse(|asked| touches(asked, P1));
    bench.pass(1_000).await;
    for _ in 0..25 {
        bench.pass(100).await;
    }
    assert_eq!(having(&bench, 4, Timer::Until).await, BTreeSet::from([P1]), "all others were served");
    let warnings = log.take("the store did not answer a sc");
    let named = warnings.iter().all(|(level, line)| *level == Level::WARN && line.contains("refused by the test"));
    assert!(named && warnings.len() == 2, "one for the partition, one for all: {warnings:?}");
    bench.probe.obey();
    for _ in 0..110 {
        bench.pass(100).await;
    }
    assert_eq!(having(&bench, 4, Timer::Until).await, BTreeSet::new(), "SR-17 it answers again");
}

pub async fn sr_10_any_number_of_stuck_entries_hides_no_other_partition(kind: impl Kind) {
    let filter = Filter { namespace: Some("mine".into()), tag: None };
    let bench = Bench::with(&kind, 2, filter).await;
    let foreign = bench.engine.client("foreign").unwrap();
    let items = (0..300).map(|_| Submission::new("mail").delay_ms(500)).collect();
    let answers = foreign.submit_batch(items).await.into_iter().map(|answer| answer.unwrap().id.partition());
    let stuck: BTreeSet<PartitionId> = answers.collect();
    assert_eq!(stuck.len(), 1, "they are together");
    let mine = bench.engine.client("mine").unwrap();
    let mut own = None;
    for number in 0..64 {
        let one = Submission::new("mail").idempotency_key(format!("k{number}")).delay_ms(1_000);
        own = own.or(Some(mine.submit(one).await.unwrap().id.partition()).filter(|place| !stuck.contains(place)));
    }
    let own = own.expect("one of many is in the other partition");
    let bench = bench.run().await;
    bench.pass(1_000).await;
    for _ in 0..20 {
        bench.pass(100).await;
    }
    assert_eq!(bench.entries_in(own, Timer::Until).await, 0, "it was found though the first 256 are foreign");
    let began = bench.count("weft_scanner_wakes_total", &[DELAYS]);
    for _ in 0..100 {
        bench.pass(100).await;
    }
    let wakes = bench.count("weft_scanner_wakes_total", &[DELAYS]) - began;
    assert!(wakes <= 28, "SR-14 what was left is not due again before an interval of 750 ms: {wakes} in 10 s");
}

/// A bench of eight partitions, each with leases that run out and delays that end in a second.
async fn busy() -> Bench<weft_store::MemoryStore> {
    let bench = Bench::with(&Memory, 8, Filter::NONE).await;
    spread(&bench, 64, 0).await;
    let mut leased = 0;
    while leased < 64 {
        let some = bench.client.claim(Claim { max: 256, ..crate::kit::worker().lease_ms(1_000) }).await.unwrap();
        assert!(!some.executions.is_empty());
        leased += some.executions.len();
    }
    spread(&bench, 64, 1_000).await;
    assert_eq!((having(&bench, 8, Timer::Lease).await.len(), having(&bench, 8, Timer::Until).await.len()), (8, 8));
    bench
}

#[tokio::test(start_paused = true)]
async fn sr_1_a_scanner_that_hangs_stops_no_other_and_ends_no_cycle() {
    in_time(async {
        let bench = busy().await.run().await;
        bench.probe.stall(|asked| is_pass(asked, Timer::Lease));
        bench.pass(1_000).await;
        assert_eq!(bench.count("weft_scanner_wakes_total", &[LEASES]), 4, "SR-1 so many places");
        assert_eq!(having(&bench, 8, Timer::Until).await.len(), 0, "delays end on time");
        bench.pass(1_000).await;
        assert_eq!(bench.count("weft_scanner_wakes_total", &[LEASES]), 8, "the others wait for a second");
        let (stands, goes_on) = (cycles(&bench, LEASES), cycles(&bench, DELAYS));
        spread(&bench, 8, 500).await;
        for _ in 0..70 {
            bench.pass(1_000).await;
        }
        assert_eq!(having(&bench, 8, Timer::Until).await.len(), 0);
        assert!(cycles(&bench, LEASES) <= stands + 1, "SR-44 its cycles stand still");
        assert!(cycles(&bench, DELAYS) >= goes_on + 2, "SR-44 those of others go on");
        assert_eq!(having(&bench, 8, Timer::Lease).await.len(), 8);
        bench.probe.obey();
        bench.pass(1_000).await;
        assert_eq!(having(&bench, 8, Timer::Lease).await.len(), 0);
        assert!(cycles(&bench, LEASES) > stands, "SR-44");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn sr_8_a_pass_that_panics_is_counted_and_its_duty_begins_again_after_five_seconds() {
    in_time(async {
        let bench = busy().await.run().await;
        let (log, _guard) = Log::listen();
        bench.probe.panic_on(|asked| is_pass(asked, Timer::Lease) && touches(asked, P0));
        bench.pass(1_000).await;
        let restarts = || bench.count("weft_scanner_restarts_total", &[LEASES]);
        assert_eq!(restarts(), 1);
        assert_eq!(having(&bench, 8, Timer::Lease).await, BTreeSet::from([P0]), "others go on");
        assert_eq!(having(&bench, 8, Timer::Until).await.len(), 0, "and so do other scanners there");
        let lines = log.take("a scanner panicked");
        assert!(
            lines.len() == 1 && lines[0].0 == Level::ERROR && lines[0].1.contains("wanted by the test"),
            "{lines:?}"
        );
        bench.pass(4_900).await;
        assert_eq!(restarts(), 1);
        bench.pass(100).await;
        assert_eq!(restarts(), 2, "after five seconds");
        bench.probe.panic_on(|_| false);
        bench.pass(5_000).await;
        assert_eq!((restarts(), having(&bench, 8, Timer::Lease).await.len()), (2, 0));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn sr_17_a_partition_that_takes_no_commit_is_tried_less_and_less_and_then_served_in_due_order() {
    in_time(async {
        let bench = busy().await.run().await;
        bench.probe.refuse(|asked| matches!(asked, Asked::Commit(P1, _)));
        bench.pass(1_000).await;
        bench.asked().await;
        for _ in 0..600 {
            bench.pass(100).await;
        }
        let tries = bench.asked().await.iter().filter(|asked| matches!(asked, Asked::Commit(P1, _))).count();
        assert!((5..=12).contains(&tries), "after 1, 2, 4, 8 and then every 10 s: {tries} in a minute");
        for timer in [Timer::Lease, Timer::Until] {
            assert_eq!(having(&bench, 8, timer).await, BTreeSet::from([P1]), "{timer:?}");
        }
        bench.probe.obey();
        let before = plant::events(&*bench.store, P1).await.len();
        for _ in 0..101 {
            bench.pass(100).await;
        }
        for timer in [Timer::Lease, Timer::Until] {
            assert_eq!(having(&bench, 8, timer).await, BTreeSet::new(), "{timer:?}");
        }
        assert!(plant::events(&*bench.store, P1).await.len() > before);
        assert_eq!(plant::dead_letters(&*bench.store, P1).await.len(), 0, "SR-20");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn sr_43_scanners_say_when_they_start_and_stop_and_what_their_cycles_did() {
    in_time(async {
        let bench = busy().await;
        let (log, _guard) = Log::listen();
        let bench = bench.run().await;
        bench.pass(0).await;
        let started = log.take("scanner started");
        let names: BTreeSet<&str> = weft_engine::scanner::intervals().map(|(name, _)| name).collect();
        assert_eq!(started.len(), names.len());
        assert!(started.iter().all(|(level, _)| *level == Level::INFO), "{started:?}");
        for _ in 0..62 {
            bench.pass(1_000).await;
        }
        let lines = log.take("message=scanned ");
        for name in [LEASES, DELAYS] {
            let of_it: Vec<_> = lines.iter().filter(|(_, line)| line.contains(name)).collect();
            assert_eq!(of_it.len(), 1, "{lines:?}");
            let (level, line) = of_it[0];
            assert!(*level == Level::INFO && line.contains("processed=64 errors=0 "), "{line}");
        }
        bench.engine.shutdown().await;
        assert_eq!(log.take("scanner stopped").len(), names.len());
    })
    .await;
}
