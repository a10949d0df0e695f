//! The runner itself: partitions and scanners that do not answer, hang or panic cost no other one anything.

use crate::kit::bench::Bench;
use crate::kit::flows::P0;
use crate::kit::kinds::{Kind, Memory, in_time};
use crate::kit::log::Log;
use crate::kit::probe::Asked;
use crate::kit::{plant, worker};
use futures_util::future;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use tokio::sync::watch;
use tracing::Level;
use weft_core::PartitionId;
use weft_core::record::execution::PublicState;
use weft_core::schema::Timer;
use weft_engine::Submission;
use weft_engine::config::{Filter, ScannerConfig};
use weft_engine::runtime::BoxFuture;
use weft_engine::scanner::{Report, ScanContext, Scanner};
use weft_store::Store;

const P1: PartitionId = PartitionId(1);
const LEASES: &str = "lease_expiry";
const DELAYS: &str = "delayed_promoter";

/// Submits `count` executions whose keys spread them over all partitions.
async fn spread(bench: &Bench<impl Store>, count: usize, delay_ms: u64) {
    for number in 0..count {
        let key = format!("{delay_ms}-{number}");
        bench.client.submit(Submission::new("mail").idempotency_key(key).delay_ms(delay_ms)).await.unwrap();
    }
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
    for silent in [P0, P1, PartitionId(3)] {
        hides_no_other(&kind, silent).await;
    }
}

async fn hides_no_other(kind: &impl Kind, silent: PartitionId) {
    let bench = Bench::with(kind, 4, Filter::NONE).await;
    spread(&bench, 32, 1_000).await;
    let all: BTreeSet<PartitionId> = (0..4).map(PartitionId).collect();
    assert_eq!(having(&bench, 4, Timer::Until).await, all);
    let (log, _guard) = Log::listen();
    let bench = bench.run().await;
    // Neither the partition answers, nor any call about all partitions.
    bench.probe.refuse(move |asked| touches(asked, silent));
    bench.pass(1_000).await;
    for _ in 0..25 {
        bench.pass(100).await;
    }
    assert_eq!(having(&bench, 4, Timer::Until).await, BTreeSet::from([silent]), "all others were served");
    let warnings = log.take("the store did not answer a sc");
    let of = |what: &str| warnings.iter().filter(|(_, line)| line.contains(what)).count();
    let counts = (of(&format!("partition={silent} ")), of("a scan of all partitions"));
    assert_eq!(counts, (1, 1), "one for the partition, one for all: {warnings:?}");
    assert!(of("refused by the test") > 0 && warnings.iter().all(|(level, _)| *level == Level::WARN), "{warnings:?}");
    bench.probe.obey();
    for _ in 0..110 {
        bench.pass(100).await;
    }
    assert_eq!(having(&bench, 4, Timer::Until).await, BTreeSet::new(), "SR-17 it answers again");
}

pub async fn sr_10_any_number_of_stuck_entries_hides_no_other_partition(kind: impl Kind) {
    let filter = Filter { namespace: Some("mine".into()), tag: None };
    let scanners = ScannerConfig { at_once: 0, filter, look_ms: 1_000, ..ScannerConfig::default() };
    let bench = Bench::configured_with(&kind, 2, scanners).await;
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
    assert!(wakes <= 14, "SR-14 what was left is not due again before an interval of 750 ms: {wakes} in 10 s");
}

/// Claims all available work for `lease_ms`, and returns how many executions were leased.
async fn lease_all(bench: &Bench<impl Store>, lease_ms: u64) -> usize {
    let mut leased = 0;
    loop {
        let some = bench.client.claim(worker().max(256).lease_ms(lease_ms)).await.unwrap().executions;
        if some.is_empty() {
            return leased;
        }
        leased += some.len();
    }
}

/// A bench of eight partitions, each with leases that run out and delays that end in a second.
async fn busy() -> Bench<weft_store::MemoryStore> {
    let bench = Bench::with(&Memory, 8, Filter::NONE).await;
    spread(&bench, 64, 0).await;
    assert_eq!(lease_all(&bench, 1_000).await, 64);
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
        bench.pass(500).await;
        assert_eq!(having(&bench, 8, Timer::Until).await.len(), 0, "others are not a moment later");
        for _ in 0..70 {
            bench.pass(1_000).await;
        }
        assert_eq!(bench.count("weft_scanner_wakes_total", &[LEASES]), 8, "never two passes of one duty");
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

/// A scanner of the program whose passes over one partition never end.
struct Hanging(PartitionId);

impl Scanner for Hanging {
    fn name(&self) -> &'static str {
        "hanging"
    }

    fn interval_ms(&self) -> u64 {
        1_000
    }

    fn scan(&self, _: ScanContext, partition: PartitionId) -> BoxFuture<Report> {
        let hangs = partition == self.0;
        Box::pin(async move { if hangs { future::pending().await } else { Report::default() } })
    }
}

#[tokio::test(start_paused = true)]
async fn sr_1_a_partition_in_which_another_scanner_hangs_waits_for_no_backlog_of_the_others() {
    in_time(async {
        let own: Vec<Arc<dyn Scanner>> = vec![Arc::new(Hanging(P1))];
        let bench = Bench::configured_with(&Memory, 5, ScannerConfig { own, ..ScannerConfig::default() }).await;
        spread(&bench, 3_000, 10_000).await;
        for partition in (0..5).map(PartitionId) {
            let waits = bench.entries_in(partition, Timer::Until).await;
            assert!(waits > 400, "three passes in {partition}: {waits}");
        }
        bench.pass(9_000).await;
        bench.asked().await;
        bench.pass(1_000).await;
        let asked = bench.asked().await;
        let passes: Vec<&Asked> = asked.iter().filter(|asked| is_pass(asked, Timer::Until)).collect();
        let first = passes.iter().position(|asked| touches(asked, P1)).expect("it is served");
        assert!(passes.len() >= 15 && first < 5, "before any other partition has its second turn: {first}");
    })
    .await;
}

/// A scanner of the program whose passes take as long as the test says, on a clock that the test moves.
#[derive(Clone)]
struct Loaded {
    clock: watch::Receiver<u64>,
    takes_ms: Arc<AtomicU64>,
    under_way: Arc<AtomicUsize>,
}

impl Scanner for Loaded {
    fn name(&self) -> &'static str {
        "loaded"
    }

    fn interval_ms(&self) -> u64 {
        100
    }

    fn scan(&self, _: ScanContext, _: PartitionId) -> BoxFuture<Report> {
        let mut loaded = self.clone();
        Box::pin(async move {
            loaded.under_way.fetch_add(1, Ordering::SeqCst);
            let ends_at = *loaded.clock.borrow() + loaded.takes_ms.load(Ordering::SeqCst);
            loaded.clock.wait_for(|now| *now >= ends_at).await.expect("the test moves it");
            loaded.under_way.fetch_sub(1, Ordering::SeqCst);
            Report::default()
        })
    }
}

#[tokio::test(start_paused = true)]
async fn sr_1_passes_that_all_take_longer_than_a_second_do_not_pile_up() {
    in_time(async {
        let clock = watch::Sender::new(0);
        let (takes_ms, under_way) = (Arc::<AtomicU64>::default(), Arc::<AtomicUsize>::default());
        let loaded = Loaded { clock: clock.subscribe(), takes_ms: takes_ms.clone(), under_way: under_way.clone() };
        let own: Vec<Arc<dyn Scanner>> = vec![Arc::new(loaded)];
        let bench = Bench::configured_with(&Memory, 64, ScannerConfig { own, ..ScannerConfig::default() }).await;
        let mut most = 0;
        for turn in 0..400 {
            // The store is fast at first.
            takes_ms.store(if turn < 40 { 0 } else { 1_500 }, Ordering::SeqCst);
            clock.send_modify(|now| *now += 50);
            bench.pass(50).await;
            most = most.max(under_way.load(Ordering::SeqCst));
        }
        assert_eq!(most, 8, "four that have a place, and four that gave theirs up");
    })
    .await;
}

/// Whether a scan touches a partition that gives no answer: three of four do not.
fn is_of_silent(asked: &Asked) -> bool {
    match asked {
        Asked::Scan(Some(partition), _) => !partition.0.is_multiple_of(4),
        Asked::Scan(None, _) => true,
        _ => false,
    }
}

#[tokio::test(start_paused = true)]
async fn sr_1_sr_17_many_partitions_without_answer_make_the_others_late_by_a_second_once() {
    in_time(async {
        let bench = Bench::configured_with(&Memory, 64, ScannerConfig::default()).await;
        let began_at = bench.engine.now();
        let delays = async || {
            let mut delays = Vec::new();
            for partition in (0..64).step_by(4).map(PartitionId) {
                delays.push(bench.entries_in(partition, Timer::Until).await);
            }
            delays
        };
        spread(&bench, 512, 6_000).await;
        let later = delays().await;
        assert!(!later.contains(&0), "{later:?}");
        spread(&bench, 512, 1_000).await;
        bench.probe.stall(is_of_silent);
        let until = async |ms: u64| {
            while bench.engine.now() < began_at + ms {
                bench.pass(50).await;
            }
        };
        until(3_000).await;
        assert_eq!(delays().await, later, "48 partitions give no answer, and the others are served within two seconds");
        until(6_100).await;
        assert_eq!(delays().await, vec![0; 16], "partitions that answer come first once the others are known");
        bench.probe.obey();
        until(20_000).await;
        assert_eq!(bench.count("weft_scanner_items_total", &[DELAYS, "processed"]), 1_024, "each once");
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
        lease_all(&bench, 1_000).await;
        bench.pass(1_000).await;
        assert_eq!(having(&bench, 8, Timer::Lease).await, BTreeSet::from([P0]), "meanwhile too");
        bench.pass(3_900).await;
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
        let bench = Bench::with(&Memory, 8, Filter::NONE).await;
        // The scanners are listed in another order than that in which their items are due.
        let timers = [Timer::Until, Timer::Lease, Timer::Deadline];
        spread(&bench, 64, 1_000).await;
        spread(&bench, 64, 0).await;
        assert_eq!(lease_all(&bench, 2_000).await, 64);
        for number in 0..64 {
            let one = Submission::new("mail").idempotency_key(format!("d{number}")).deadline_in_ms(3_000);
            bench.client.submit(one).await.unwrap();
        }
        spread(&bench, 64, 30_000).await;
        let bench = bench.run().await;
        bench.probe.refuse(|asked| matches!(asked, Asked::Commit(P1, _)));
        bench.pass(1_000).await;
        bench.asked().await;
        for _ in 0..290 {
            bench.pass(100).await;
        }
        assert_eq!(having(&bench, 8, Timer::Until).await, BTreeSet::from([P1]), "no other waits for it");
        for _ in 0..310 {
            bench.pass(100).await;
        }
        let tries = bench.asked().await.iter().filter(|asked| matches!(asked, Asked::Commit(P1, _))).count();
        assert!((5..=9).contains(&tries), "after 1, 2, 4, 8 and then every 10 s: {tries} in a minute");
        for timer in timers {
            assert_eq!(having(&bench, 8, timer).await, BTreeSet::from([P1]), "{timer:?}");
        }
        bench.probe.obey();
        let waits = plant::entries(&*bench.store, P1, Timer::Until).await.len();
        for turn in 0.. {
            assert!(turn <= 100, "it is tried every ten seconds");
            if plant::entries(&*bench.store, P1, Timer::Until).await.len() < waits {
                break;
            }
            bench.pass(100).await;
        }
        bench.pass(0).await;
        for timer in timers {
            assert_eq!(having(&bench, 8, timer).await, BTreeSet::new(), "all at once: {timer:?}");
        }
        let asked = bench.asked().await;
        let began = timers.map(|timer| asked.iter().position(|asked| touches(asked, P1) && is_pass(asked, timer)));
        assert!(began.iter().all(Option::is_some), "{began:?}");
        // Any of them may have been the probe, which is first; the others begin behind it.
        let probe = began.iter().min().expect("there are three");
        let behind: Vec<_> = began.iter().filter(|at| *at != probe).collect();
        assert!(behind.is_sorted(), "in due order: {began:?}");
        assert_eq!(plant::dead_letters(&*bench.store, P1).await.len(), 0, "SR-20");
    })
    .await;
}

/// SR-20: the first commit of every pass is refused for an hour, and whatever the pass commits after that is taken.
pub async fn sr_20_a_commit_that_was_refused_is_no_failure_of_its_items(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let items = [0, 0].map(|_| Submission::new("mail").delay_ms(1_000)).into();
    let ids: Vec<_> = bench.client.submit_batch(items).await.into_iter().map(|answer| answer.unwrap().id).collect();
    let bench = bench.run().await;
    let (is_first, refusals) = (AtomicBool::new(true), Arc::new(AtomicUsize::new(0)));
    let refused = refusals.clone();
    bench.probe.refuse(move |asked| {
        is_first.fetch_or(is_pass(asked, Timer::Until), Ordering::SeqCst);
        let refuses = asked.is_work() && is_first.swap(false, Ordering::SeqCst);
        refused.fetch_add(usize::from(refuses), Ordering::SeqCst);
        refuses
    });
    for _ in 0..720 {
        bench.pass(5_000).await;
    }
    for id in &ids {
        let execution = plant::execution(&*bench.store, *id).await;
        assert!(execution.trouble().is_none() && execution.public_state() == PublicState::Delayed, "{execution:?}");
    }
    assert!(bench.dead_letters().await.is_empty(), "nothing is parked");
    let refusals = refusals.load(Ordering::SeqCst);
    assert!(refusals > 300, "it was tried every ten seconds: {refusals}");
    bench.probe.obey();
    bench.pass(10_000).await;
    assert_eq!(bench.entries(Timer::Until).await, 0, "and then they are served");
}

#[tokio::test(start_paused = true)]
async fn sr_43_scanners_say_when_they_start_and_stop_and_what_their_cycles_did() {
    in_time(async {
        let (log, _guard) = Log::listen();
        // Cycles of a second each, as on every store that others write to.
        let bench = Bench::shared(&Memory).await;
        for number in 1..=25 {
            bench.client.submit(Submission::new("mail").delay_ms(number * 1_000)).await.unwrap();
        }
        bench.pass(0).await;
        let started = log.take("message=scanner started ");
        let names: Vec<(&str, u64)> = weft_engine::scanner::intervals().collect();
        assert_eq!(started.len(), names.len(), "{started:?}");
        for ((name, interval_ms), (level, line)) in names.iter().zip(&started) {
            let says = format!("scanner=\"{name}\" interval_ms={interval_ms} partitions=1 ");
            assert!(*level == Level::INFO && line.contains(&says), "{line}");
        }
        let (mut lines, mut idle) = (Vec::new(), 0);
        for second in 1..=40 {
            bench.pass(1_000).await;
            let of_it = log.take(&format!("scanner=\"{DELAYS}\""));
            idle += of_it.iter().filter(|(level, line)| *level == Level::TRACE && line.contains("idle cycle")).count();
            lines.extend(of_it.into_iter().filter(|(_, line)| line.contains("scanned")).map(|line| (second, line)));
        }
        assert!(idle > 5, "a cycle that found nothing is a line at trace: {idle}");
        assert!((3..=4).contains(&lines.len()), "one in ten seconds at most: {lines:?}");
        assert!(lines.windows(2).all(|pair| pair[0].0 + 10 <= pair[1].0), "{lines:?}");
        assert!(lines.iter().all(|(_, (level, _))| *level == Level::INFO), "{lines:?}");
        let number = |line: &str, field: &str| -> u64 {
            let (_, rest) = line.split_once(&format!(" {field}=")).unwrap_or_else(|| panic!("{field}: {line}"));
            rest.split(' ').next().expect("it has a value").parse().expect("a number")
        };
        let sum = |field: &str| lines.iter().map(|(_, (_, line))| number(line, field)).sum::<u64>();
        assert_eq!((sum("processed"), sum("errors")), (25, 0), "with the sums since the last: {lines:?}");
        assert!(sum("cycles") > 20 && lines.iter().all(|(_, (_, line))| line.contains("elapsed_ms=")), "{lines:?}");
        bench.engine.shutdown().await;
        let stopped = log.take("message=scanner stopped ");
        assert!(stopped.len() == names.len() && stopped.iter().all(|(level, _)| *level == Level::INFO), "{stopped:?}");
    })
    .await;
}
