//! Whole situations in which the runner has to find what is due, each planted past the engine or forced on it by its store.

use crate::kit::bench::Bench;
use crate::kit::flows::{P0, work};
use crate::kit::kinds::{Kind, Memory, in_time};
use crate::kit::log::Log;
use crate::kit::plant;
use crate::kit::probe::Asked;
use futures_util::future;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;
use tracing::Level;
use uuid::Uuid;
use weft_core::filter::Filter as Matches;
use weft_core::record::bulk_job::Verb;
use weft_core::record::continuation::{self, Rest};
use weft_core::record::execution::{Policy, PublicState};
use weft_core::record::{Continuation, Execution, Key, Record, Worker};
use weft_core::schema::{Due, Kind as Table, PartMask, Timer, execution as schema};
use weft_core::{ExecutionId, FlowId, ParkedId, PartitionId, Time};
use weft_engine::config::{Filter, ScannerConfig};
use weft_engine::flow::FlowSubmission;
use weft_engine::runtime::BoxFuture;
use weft_engine::scanner::{Report, ScanContext, Scanner};
use weft_engine::telemetry::Reading;
use weft_engine::worker::Registration;
use weft_engine::{BulkRequest, Cancellation, Submission};
use weft_store::Store;

fn mine() -> Filter {
    Filter { namespace: Some("mine".into()), tag: None }
}

/// The only record of a kind, as a pattern for others.
async fn only(bench: &Bench<impl Store>, partitions: u16, kind: Table) -> Record {
    for partition in (0..partitions).map(PartitionId) {
        if let Some((key, found)) = plant::records_of(&*bench.store, partition, kind).await.pop_first() {
            return Record::decode(key, &found.parts, PartMask::ALL).unwrap();
        }
    }
    panic!("no record of {kind:?}");
}

async fn an_execution(bench: &Bench<impl Store>, namespace: &str, submission: Submission) -> Execution {
    let client = bench.engine.client(namespace).unwrap();
    plant::execution(&*bench.store, client.submit(submission).await.unwrap().id).await
}

/// A copy of the execution under another id.
fn copy(execution: &Execution, id: ExecutionId) -> Record {
    let mut copy = execution.clone();
    copy.id = id;
    Record::Execution(Box::new(copy))
}

fn wakes(bench: &Bench<impl Store>, scanner: &str) -> u64 {
    bench.count("weft_scanner_wakes_total", &[scanner])
}

/// The sum of a histogram, or the level of a gauge.
fn amount(bench: &Bench<impl Store>, name: &str, scanner: &str) -> f64 {
    let all = bench.engine.metrics();
    let family = all.iter().find(|readings| readings.family.name == name).expect("a metric of the table");
    match family.samples.iter().find(|(labels, _)| &*labels[0] == scanner) {
        Some((_, Reading::Level(amount) | Reading::Spread { sum: amount, .. })) => *amount,
        other => panic!("{name}: {other:?}"),
    }
}

/// Due entries of every timer, of records of another namespace, in each of these partitions but the last. Their keys and
/// times are the same in all of them, so that no page can be cut just anywhere.
async fn plant_foreign(bench: &Bench<impl Store>, partitions: u16, each: u64) {
    let client = bench.engine.client("foreign").unwrap();
    let execution = an_execution(bench, "foreign", Submission::new("mail")).await;
    let flow = client.submit_flow(FlowSubmission::new("line").member("a", work())).await.unwrap().value.id;
    let flow = plant::flow(&*bench.store, flow).await;
    client.register(Registration::new("mailer", "mailer-1", "boot").lane("default")).await.unwrap();
    let Record::Worker(process) = only(bench, partitions, Table::Worker).await else { panic!("a worker") };
    let verb = Verb::Purge { reason: "".into() };
    client.start_bulk(BulkRequest::new(Matches::default(), verb)).await.unwrap();
    let Record::BulkJob(job) = only(bench, partitions, Table::BulkJob).await else { panic!("a job") };
    for partition in (0..partitions - 1).map(PartitionId) {
        let id = ExecutionId::new(partition, Uuid::from_u128(7));
        let mut records = vec![copy(&execution, id)];
        let mut flow = flow.clone();
        flow.id = FlowId::new(partition, Uuid::from_u128(8));
        records.push(Record::Flow(Box::new(flow)));
        let mut process = Worker { partition, ..(*process).clone() };
        process.body.instance = "planted".into();
        records.push(Record::Worker(Box::new(process)));
        let mut job = (*job).clone();
        (job.partition, job.uuid) = (partition, Uuid::from_u128(9));
        records.push(Record::BulkJob(Box::new(job)));
        let rest = Rest::Resolve { replays: 0, next: 0 };
        let body =
            continuation::Body { namespace: "foreign".into(), created_at: Time::from_ms(1), rest, trouble: None };
        records.push(Record::Continuation(Box::new(Continuation { owner: id, body })));
        let entries = |record: &Record| {
            let timers = Timer::ALL.into_iter().filter(|timer| kind_of(*timer) == record.key().kind());
            timers.flat_map(|timer| (1..=each).map(move |at| Due { timer, at: Time::from_ms(at) })).collect()
        };
        plant::insert_with(&*bench.store, records.into_iter().map(|record| (entries(&record), record))).await;
    }
}

/// The kind of record that has the timer.
fn kind_of(timer: Timer) -> Table {
    use Timer::*;
    match timer {
        Lease | AttemptTimeout | Deadline | Until | CancelGrace | ChildrenTimeout | Retention | GroupCancel => {
            Table::Execution
        }
        Purge | CancelChildren | Resolve | Reopen => Table::Continuation,
        Worker | WorkerLeases => Table::Worker,
        Bulk => Table::BulkJob,
        SealBy | FlowSeal | FlowEnding | FlowVerify | DependencyAudit | FlowPurge => Table::Flow,
    }
}

pub async fn sr_10_foreign_entries_of_every_timer_hide_no_item_of_the_last_partition(kind: impl Kind) {
    let last = PartitionId(15);
    let each = if kind.many() == 10_000 { 300 } else { 20 };
    let bench = Bench::with(&kind, 16, mine()).await;
    plant_foreign(&bench, 16, each).await;
    let mut own = an_execution(&bench, "mine", Submission::new("mail").delay_ms(1_000)).await;
    own.id = ExecutionId::new(last, Uuid::from_u128(1));
    plant::insert(&*bench.store, [Record::Execution(Box::new(own.clone()))]).await;
    bench.pass(1_000).await;
    let bench = bench.run().await;
    bench
        .at_once("one item of its own", async || {
            plant::execution(&*bench.store, own.id).await.public_state() == PublicState::Waiting
        })
        .await;
    for timer in Timer::ALL {
        for partition in [P0, PartitionId(14)] {
            let entries = plant::entries(&*bench.store, partition, timer).await;
            let left = entries.iter().filter(|entry| plant::timer_of(entry).at.ms() <= each).count() as u64;
            assert_eq!(left, each, "{timer:?} in {partition}: what is foreign stays");
        }
    }
}

pub async fn sr_17_a_bulk_job_that_waits_for_another_partition_holds_up_nothing_in_its_own(kind: impl Kind) {
    let bench = Bench::running(&kind, 2).await;
    // The first partition that writes of the job is its home; the other one takes no share.
    let home = Mutex::new(None);
    bench.probe.refuse(move |asked| match asked {
        Asked::Commit(partition, keys) if keys.iter().any(|key| matches!(key, Key::BulkJob(..))) => {
            *home.lock().unwrap().get_or_insert(*partition) != *partition
        }
        _ => false,
    });
    let verb = Verb::Purge { reason: "".into() };
    let job = bench.client.start_bulk(BulkRequest::new(Matches::default(), verb)).await.unwrap().id;
    let id = loop {
        let id = bench.client.submit(Submission::new("mail").delay_ms(1_500)).await.unwrap().id;
        if id.partition() == job.partition() {
            break id;
        }
    };
    bench.pass(1_000).await;
    bench.pass(500).await;
    bench
        .at_once("an item beside the job", async || {
            plant::execution(&*bench.store, id).await.public_state() == PublicState::Waiting
        })
        .await;
}

/// A scanner of the program whose passes end when the test says so, or never.
struct Slow(&'static str, Option<Arc<Notify>>);

impl Scanner for Slow {
    fn name(&self) -> &'static str {
        self.0
    }

    fn interval_ms(&self) -> u64 {
        1_000
    }

    fn scan(&self, _: ScanContext, _: PartitionId) -> BoxFuture<Report> {
        let gate = self.1.clone();
        Box::pin(async move {
            match gate {
                Some(gate) => gate.notified().await,
                None => future::pending().await,
            }
            Report::default()
        })
    }
}

#[tokio::test(start_paused = true)]
async fn sr_1_passes_that_never_end_or_take_ten_seconds_make_no_other_scanner_late() {
    in_time(async {
        let gate = Arc::new(Notify::new());
        let own: Vec<Arc<dyn Scanner>> =
            vec![Arc::new(Slow("never", None)), Arc::new(Slow("slow", Some(gate.clone())))];
        let scanners = ScannerConfig { own, look_ms: 1_000, ..ScannerConfig::default() };
        let bench = Bench::configured_with(&Memory, 8, scanners).await;
        for number in 0..64 {
            let one = Submission::new("mail").idempotency_key(format!("k{number}"));
            bench.client.submit(one.delay_ms(1_000 * (number + 1) / 2)).await.unwrap();
        }
        let cycles = |scanner| bench.count("weft_scanner_cycles_total", &[scanner]);
        for second in 1..=60 {
            for _ in 0..2 {
                bench.pass(500).await;
            }
            if second % 10 == 0 {
                gate.notify_waiters();
            }
        }
        assert_eq!(bench.count("weft_scanner_items_total", &["delayed_promoter", "processed"]), 64);
        assert_eq!(amount(&bench, "weft_scanner_lateness_seconds", "delayed_promoter"), 0.0, "not a moment late");
        assert!(cycles("delayed_promoter") > 50, "{}", cycles("delayed_promoter"));
        assert_eq!((cycles("never"), wakes(&bench, "never")), (0, 8), "SR-44, and one pass in each partition");
        assert!((3..=6).contains(&cycles("slow")), "its own cycles alone are long: {}", cycles("slow"));
    })
    .await;
}

/// Executions that are members of a flow which is gone: their deadline cannot be handled, and the account is kept on them.
async fn failing(bench: &Bench<impl Store>, count: usize, at: Time) -> (Vec<ExecutionId>, Record) {
    let client = bench.engine.client("mine").unwrap();
    let flow = client.submit_flow(FlowSubmission::new("line").member("a", work())).await.unwrap().value.id;
    let mut member = plant::execution(&*bench.store, weft_core::flow::member_id(flow, "a")).await;
    member.hot.deadline_at = Some(at);
    let (record, _) = plant::stored(&*bench.store, Key::Flow(flow)).await.expect("it is there");
    plant::remove(&*bench.store, Key::Execution(member.id)).await;
    plant::remove(&*bench.store, Key::Flow(flow)).await;
    let ids: Vec<ExecutionId> = (0..count as u128)
        .map(|n| if n == 0 { member.id } else { ExecutionId::new(P0, Uuid::from_u128(1 << 64 | n)) })
        .collect();
    plant::insert(&*bench.store, ids.iter().map(|id| copy(&member, *id))).await;
    (ids, record)
}

/// SR-12: items that fail, items of another filter and items of a kind without an account, and one behind all of them for
/// each of the two scanners that meet such items.
pub async fn sr_12_nothing_waits_behind_what_fails_is_foreign_or_keeps_no_account(kind: impl Kind) {
    let many = if kind.many() == 10_000 { 10_000 } else { 600 };
    let bench = Bench::with(&kind, 1, mine()).await;
    let now = bench.engine.now();
    let (failing, _) = failing(&bench, many, now + 1).await;
    let mut foreign = an_execution(&bench, "foreign", Submission::new("mail")).await;
    foreign.hot.deadline_at = Some(now + 2);
    let ids = (0..many as u128).map(|n| ExecutionId::new(P0, Uuid::from_u128(2 << 64 | n)));
    plant::insert(&*bench.store, ids.map(|id| copy(&foreign, id))).await;
    let mut healthy = an_execution(&bench, "mine", Submission::new("mail")).await;
    (healthy.id, healthy.hot.deadline_at) = (ExecutionId::new(P0, Uuid::from_u128(3)), Some(now + 3));
    plant::insert(&*bench.store, [Record::Execution(Box::new(healthy.clone()))]).await;

    let client = bench.engine.client("mine").unwrap();
    client.register(Registration::new("mailer", "mailer-1", "boot").lane("default")).await.unwrap();
    let Record::Worker(process) = only(&bench, 1, Table::Worker).await else { panic!("a worker") };
    let silent_ms = process.body.silent_at().since(process.body.last_seen_at);
    let silent = |namespace: &str, number: usize, behind: u64| {
        let mut process = (*process).clone();
        let body = &mut process.body;
        (body.namespace, body.instance) = (namespace.into(), format!("planted-{number}").into());
        body.last_seen_at = Time::from_ms(now.ms() - 100_000 + behind);
        process
    };
    let refused = (0..many).map(|number| {
        let mut process = silent("mine", number, 0);
        process.body.session = 0; // No rule leaves a process that has registered without a session.
        Record::Worker(Box::new(process))
    });
    plant::insert(&*bench.store, refused).await;
    let others = (0..many).map(|number| Record::Worker(Box::new(silent("foreign", number, 1))));
    plant::insert(&*bench.store, others).await;
    let last = silent("mine", many, 2);
    let last_key = last.key();
    plant::insert(&*bench.store, [Record::Worker(Box::new(last))]).await;

    // Nobody has seen any of them when all are due.
    bench.pass(silent_ms).await;
    let (log, _guard) = Log::listen();
    let bench = bench.run().await;
    bench
        .at_once("the execution behind them", async || {
            plant::execution(&*bench.store, healthy.id).await.public_state() == PublicState::Expired
        })
        .await;
    bench
        .at_once("the worker behind them", async || {
            let stored = plant::stored(&*bench.store, last_key).await;
            matches!(stored, Some((Record::Worker(last), _)) if last.body.state.name() == "dead")
        })
        .await;

    let items = |scanner: &str, result: &str| bench.count("weft_scanner_items_total", &[scanner, result]);
    let counts = |scanner| ["processed", "error", "filtered"].map(|result| items(scanner, result));
    let many = many as u64;
    assert_eq!(counts("execution_deadline"), [1, many, many], "each once");
    assert_eq!(counts("worker_reaper")[..2], [1 + 1, many], "each once, and the pattern");
    for id in [failing[0], failing[failing.len() / 2], failing[failing.len() - 1]] {
        let trouble = plant::execution(&*bench.store, id).await.trouble().cloned().expect("an account");
        let failing = trouble.get(Timer::Deadline).expect("of this timer");
        assert!(failing.fails == 1 && failing.next_try_at == failing.last_at + 5_000, "SR-22 {failing:?}");
    }
    let warnings = log.take("could not handle an item");
    assert!(warnings.iter().all(|(level, _)| *level == Level::WARN) && warnings.len() as u64 == 2 * many);
}

/// SR-29: the stored bytes of a later version are left alone by this build; as soon as they are of a version that the
/// build knows, the item is handled.
pub async fn sr_29_a_format_from_the_future_is_left_to_a_node_that_knows_it(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let [id, neighbour] = {
        let one = || an_execution(&bench, "shop", Submission::new("mail").delay_ms(1_000));
        [one().await.id, one().await.id]
    };
    let key = Key::Execution(id);
    let known = plant::raw(&*bench.store, key).await.expect("submitted").parts;
    let known = known.into_iter().find(|(part, _)| *part == schema::HOT).expect("it has one").1;
    plant::overwrite(&*bench.store, key, schema::HOT, b"\x7flater").await;
    let (log, _guard) = Log::listen();
    let old = bench.run().await;
    let before = plant::raw(&*old.store, key).await;
    for _ in 0..720 {
        old.pass(5_000).await;
    }
    assert_eq!(plant::execution(&*old.store, neighbour).await.public_state(), PublicState::Waiting);
    assert!(
        plant::raw(&*old.store, key).await == before && old.dead_letters().await.is_empty(),
        "as it was, for an hour"
    );
    assert_eq!(old.entries(Timer::Until).await, 1, "and its entry too");
    let items = |result| old.count("weft_scanner_items_total", &["delayed_promoter", result]);
    assert!(items("newer") > 100 && items("error") == 0, "{} {}", items("newer"), items("error"));
    let warnings = log.take("left to a newer version");
    assert!((55..=61).contains(&warnings.len()), "one a minute: {}", warnings.len());
    assert!(warnings.iter().all(|(level, _)| *level == Level::WARN));

    old.engine.shutdown().await;
    plant::restore(&*old.store, key, schema::HOT, known).await;
    let new = old.another().await;
    new.pass(0).await;
    assert_eq!(plant::execution(&*new.store, id).await.public_state(), PublicState::Waiting);
    assert_eq!(new.entries(Timer::Until).await, 0);
}

/// SR-23, SR-24.
pub async fn sr_24_a_parked_item_whose_cause_goes_away_is_handled_without_an_operator(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let (ids, flow) = failing(&bench, 1, bench.engine.now() + 1_000).await;
    let (log, _guard) = Log::listen();
    let bench = bench.run().await;
    for _ in 0..100 {
        if !bench.dead_letters().await.is_empty() {
            break;
        }
        let entries = plant::entries(&*bench.store, P0, Timer::Deadline).await;
        bench.pass(plant::timer_of(&entries[0]).at.since(bench.engine.now())).await;
    }
    let account = async || plant::execution(&*bench.store, ids[0]).await.trouble().cloned();
    let trouble = account().await.expect("an account");
    let failing = trouble.get(Timer::Deadline).expect("of this timer");
    assert!(failing.parked && failing.fails == 18, "three tries in each of five rounds, and three more: {failing:?}");
    let lines = log.take("scanner=\"execution_deadline\"");
    let errors =
        |what: &str| lines.iter().filter(|(level, line)| *level == Level::ERROR && line.contains(what)).count();
    assert_eq!((errors("an item keeps failing"), errors("an item is parked")), (5, 1));
    let letter = ParkedId::new(P0, failing.letter.expect("it is parked"));
    assert_eq!(errors(&format!("letter={letter} ")), 1, "SR-43 {lines:?}");
    bench.pass(3_600_000).await;
    assert_eq!(account().await.and_then(|trouble| Some(trouble.get(Timer::Deadline)?.fails)), Some(19), "still tried");

    plant::insert(&*bench.store, [flow]).await;
    bench.pass(3_599_999).await;
    assert!(account().await.is_some(), "not before its time");
    bench.pass(1).await;
    let ended = plant::execution(&*bench.store, ids[0]).await;
    assert_eq!((ended.public_state(), ended.trouble()), (PublicState::Expired, None));
    assert!(bench.dead_letters().await.is_empty());
}

pub async fn sr_7_accounts_of_many_items_that_fail_are_written_together(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let (ids, _) = failing(&bench, 50, bench.engine.now() + 1_000).await;
    let bench = bench.again().await;
    bench.pass(1_000).await;
    bench.asked().await;
    assert_eq!(bench.counts("execution_deadline").await, (0, 50));
    let commits = bench.asked().await.iter().filter(|asked| asked.is_work()).count();
    assert!((1..=3).contains(&commits), "{commits}");
    for id in ids {
        assert_eq!(failures(&bench, id).await.map(|(fails, ..)| fails), Some(1));
    }
}

/// How often the item failed in a row, and when it failed last and is tried next.
async fn failures(bench: &Bench<impl Store>, id: ExecutionId) -> Option<(u32, Time, Time)> {
    let execution = plant::execution(&*bench.store, id).await;
    let failing = execution.trouble()?.get(Timer::Deadline)?;
    Some((failing.fails, failing.last_at, failing.next_try_at))
}

pub async fn sc_73_nodes_share_the_account_of_an_item_and_it_survives_a_restart(kind: impl Kind) {
    const NAME: &str = "execution_deadline";
    let bench = Bench::shared_by_hand(&kind).await;
    let (ids, _) = failing(&bench, 1, bench.engine.now() + 1_000).await;
    let (log, _guard) = Log::listen();
    let first = bench.again().await;
    first.pass(1_000).await;
    assert_eq!(first.counts(NAME).await, (0, 1));
    if !first.is_shared() {
        first.engine.shutdown().await;
    }
    let second = first.another().await;
    second.pass(5_000).await;
    assert_eq!(second.counts(NAME).await, (0, 1));
    assert!(log.take("an item keeps failing").is_empty(), "each node has seen one failure, and there were two");
    let third = second.again().await;
    third.pass(5_000).await;
    assert_eq!(third.counts(NAME).await, (0, 1));
    let (fails, last_at, next_try_at) = failures(&third, ids[0]).await.expect("an account");
    assert_eq!((fails, next_try_at), (3, last_at + 50_000), "SC-62, SC-63");
    let lines = log.take("an item keeps failing");
    assert!(lines.len() == 1 && lines[0].0 == Level::ERROR && lines[0].1.contains("failures=3 "), "SC-65 {lines:?}");
}

pub async fn sc_70_sc_133_a_pause_ends_although_reads_fail_meanwhile(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let (ids, _) = failing(&bench, 1, bench.engine.now() + 1_000).await;
    let bench = bench.run().await;
    for _ in 0..100 {
        if failures(&bench, ids[0]).await.is_some_and(|(fails, ..)| fails == 3) {
            break;
        }
        bench.pass(500).await;
    }
    let paused = failures(&bench, ids[0]).await.expect("an account");
    let (fails, last_at, again_at) = paused;
    assert_eq!((fails, again_at), (3, last_at + 50_000));
    bench.probe.refuse(|asked| matches!(asked, Asked::Read(..) | Asked::Scan(..)));
    while bench.engine.now() < again_at {
        bench.pass(500).await;
    }
    assert_eq!(failures(&bench, ids[0]).await, Some(paused));
    bench.probe.obey();
    // A partition that did not answer is probed every ten seconds.
    for _ in 0..150 {
        if failures(&bench, ids[0]).await != Some(paused) {
            break;
        }
        bench.pass(100).await;
    }
    assert_eq!(failures(&bench, ids[0]).await.map(|(fails, ..)| fails), Some(4), "tried afresh");
}

/// A scanner of the program that says how much waits in each partition.
#[derive(Clone, Default)]
struct Counting(Arc<Mutex<BTreeMap<PartitionId, Option<u64>>>>);

impl Counting {
    fn set(&self, counts: [Option<u64>; 3]) {
        *self.0.lock().unwrap() = (0..3).map(PartitionId).zip(counts).collect();
    }
}

impl Scanner for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn interval_ms(&self) -> u64 {
        1_000
    }

    fn scan(&self, _: ScanContext, _: PartitionId) -> BoxFuture<Report> {
        Box::pin(future::ready(Report::default()))
    }

    fn backlog(&self, _: ScanContext, partition: PartitionId) -> BoxFuture<Option<u64>> {
        Box::pin(future::ready(self.0.lock().unwrap()[&partition]))
    }
}

#[tokio::test(start_paused = true)]
async fn sr_40_a_backlog_that_one_partition_does_not_tell_leaves_the_gauge_as_it_was() {
    in_time(async {
        let counting = Counting::default();
        counting.set([Some(1), Some(2), Some(3)]);
        let scanners =
            ScannerConfig { own: vec![Arc::new(counting.clone())], look_ms: 1_000, ..ScannerConfig::default() };
        let bench = Bench::configured_with(&Memory, 3, scanners).await;
        let (log, _guard) = Log::listen();
        let gauge = async |counts| {
            counting.set(counts);
            for _ in 0..5 {
                bench.pass(1_000).await;
            }
            amount(&bench, "weft_scanner_backlog", "counting")
        };
        assert_eq!(gauge([Some(1), Some(2), Some(3)]).await, 6.0);
        for silent in 0..3 {
            log.take("");
            let mut counts = [Some(7); 3];
            counts[silent] = None;
            assert_eq!(gauge(counts).await, 6.0, "partition {silent} said nothing");
            let lines = log.take("not counted in every partition");
            let named = |line: &str| line.contains("scanner=\"counting\"");
            assert!(!lines.is_empty() && lines.iter().all(|(level, line)| *level == Level::DEBUG && named(line)));
        }
        assert_eq!(gauge([None; 3]).await, 6.0, "SR-41 nobody counts");
        assert_eq!(gauge([Some(u64::MAX), Some(1), Some(1)]).await, u64::MAX as f64, "it saturates");
        assert_eq!(gauge([Some(0); 3]).await, 0.0);
    })
    .await;
}

pub async fn sr_5_a_backlog_is_worked_off_without_waiting_for_the_next_second(kind: impl Kind) {
    let bench = Bench::running(&kind, 1).await;
    let short = Policy { retention_ms: Some(1_000), ..Policy::default() };
    let items = (0..70).map(|_| Submission::new("mail").policy(short.clone())).collect();
    for answer in bench.client.submit_batch(items).await {
        bench.client.cancel(Cancellation::new(answer.unwrap().id, "not needed")).await.unwrap();
    }
    bench.pass(2_000).await;
    let is_empty = async || plant::records_of(&*bench.store, P0, Table::Execution).await.is_empty();
    bench.at_once("70 are due, and a pass removes 20", is_empty).await;
}
