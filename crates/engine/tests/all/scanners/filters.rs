//! Filters of scanners: what is judged by what, what a judgement costs, and that nothing is left to nobody.

use crate::kit::bench::Bench;
use crate::kit::flows::{P0, work};
use crate::kit::kinds::Kind;
use crate::kit::log::Log;
use crate::kit::plant;
use crate::kit::probe::Asked;
use tracing::Level;
use weft_core::change::DueEntry;
use weft_core::limits::POISON_KEPT_MS;
use weft_core::record::continuation::{self, Rest};
use weft_core::record::execution::{Policy, PublicState};
use weft_core::record::{Continuation, Key, Record};
use weft_core::schema::{Due, Kind as Table, Timer, execution as schema};
use weft_core::{ExecutionId, Time};
use weft_engine::config::{Filter, ScannerConfig};
use weft_engine::flow::FlowSubmission;
use weft_engine::worker::{Registration, WorkerFilter};
use weft_engine::{BulkRequest, BulkState, Submission};
use weft_store::Store;

const NAME: &str = "delayed_promoter";

fn filter(namespace: Option<&str>, team: Option<&str>) -> Filter {
    Filter { namespace: namespace.map(Into::into), tag: team.map(|team| ("team".into(), team.into())) }
}

/// An execution that is due in a second.
async fn delayed(bench: &Bench<impl Store>, team: Option<&str>) -> ExecutionId {
    let delayed = Submission::new("mail").delay_ms(1_000);
    let delayed = team.into_iter().fold(delayed, |delayed, team| delayed.tag("team", team.to_owned()));
    bench.client.submit(delayed).await.unwrap().id
}

async fn state(bench: &Bench<impl Store>, id: ExecutionId) -> PublicState {
    plant::execution(&*bench.store, id).await.public_state()
}

/// SC-79, SC-80: namespace, tag or both are judged by one read of all items.
pub async fn sc_78_a_filter_costs_one_read_for_all_items_and_none_costs_nothing(kind: impl Kind) {
    for (filter, reads) in [
        (Filter::NONE, 0),
        (filter(Some("elsewhere"), None), 1),
        (filter(None, Some("b")), 1),
        (filter(Some("elsewhere"), Some("a")), 1),
        (filter(Some("shop"), Some("b")), 1),
    ] {
        let covers_all = filter.is_none();
        let bench = Bench::with(&kind, 1, filter).await;
        for _ in 0..3 {
            delayed(&bench, Some("a")).await;
        }
        bench.pass(1_000).await;
        bench.asked().await;
        let report = bench.scan(NAME).await;
        let expected = if covers_all { (3, 0) } else { (0, 3) };
        assert_eq!((report.processed, report.filtered, report.errors), (expected.0, expected.1, 0));
        let read: Vec<usize> = bench
            .asked()
            .await
            .into_iter()
            .filter_map(|asked| match asked {
                Asked::Read(_, keys) => Some(keys.len()),
                _ => None,
            })
            .collect();
        assert_eq!(read, vec![3; reads]);
    }
}

/// SC-82, SC-83: an absent tag, one that differs in a byte, and a record that does not decode are not this node's; SC-135,
/// SC-145: passed over they count as neither.
pub async fn sc_81_what_is_not_covered_for_sure_is_left_as_it_was_and_met_again(kind: impl Kind) {
    let bench = Bench::with(&kind, 1, filter(None, Some("a"))).await;
    let mine = delayed(&bench, Some("a")).await;
    let (untagged, other, damaged) =
        (delayed(&bench, None).await, delayed(&bench, Some("A")).await, delayed(&bench, Some("a")).await);
    plant::damage(&*bench.store, Key::Execution(damaged), schema::HOT).await;
    let bench = bench.again().await;
    let raw = async |bench: &Bench<_>| {
        let mut raw = Vec::new();
        for id in [untagged, other, damaged] {
            raw.push(plant::raw(&*bench.store, Key::Execution(id)).await);
        }
        raw
    };
    let before = raw(&bench).await;
    bench.pass(1_000).await;
    let first = bench.scan(NAME).await;
    assert_eq!((first.processed, first.filtered, first.errors), (1, 3, 0), "{first:?}");
    assert_eq!(state(&bench, mine).await, PublicState::Waiting);
    let again = bench.scan(NAME).await;
    assert_eq!((again.processed, again.filtered, again.errors), (0, 3, 0), "{again:?}");
    assert!(raw(&bench).await == before && bench.dead_letters().await.is_empty(), "byte for byte");
}

pub async fn sr_36_sr_94_a_read_that_fails_ends_the_pass_and_is_nobodys_verdict(kind: impl Kind) {
    let bench = Bench::with(&kind, 1, filter(Some("shop"), None)).await;
    delayed(&bench, None).await;
    bench.pass(1_000).await;
    bench.probe.refuse(|asked| matches!(asked, Asked::Read(..)));
    let (log, _guard) = Log::listen();
    let report = bench.scan(NAME).await;
    assert_eq!((report.processed, report.filtered, report.errors), (0, 0, 1), "{report:?}");
    let warnings = log.take("did not answer a scanner");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let (level, line) = &warnings[0];
    assert!(*level == Level::WARN && line.contains(NAME) && line.contains("refused by the test"), "{line}");
    bench.probe.obey();
    assert_eq!(bench.counts(NAME).await, (1, 0));
}

pub async fn sr_34_a_filter_of_one_scanner_replaces_that_of_all_for_this_one(kind: impl Kind) {
    let scanners = ScannerConfig {
        at_once: 0,
        filter: filter(Some("elsewhere"), Some("a")),
        filters: [(NAME, filter(Some("shop"), None))].into(),
        ..ScannerConfig::default()
    };
    let bench = Bench::configured(&kind, scanners).await;
    let (mine, other) = (delayed(&bench, Some("a")).await, delayed(&bench, Some("b")).await);
    let ends = Submission::new("mail").tag("team", "a").deadline_in_ms(1_000);
    let ends = bench.client.submit(ends).await.unwrap().id;
    bench.pass(1_000).await;
    let report = bench.scan(NAME).await;
    assert_eq!((report.processed, report.filtered), (1, 1), "its namespace, and the tag of all: {report:?}");
    let report = bench.scan("execution_deadline").await;
    assert_eq!((report.processed, report.filtered), (0, 1), "the filter of all: {report:?}");
    assert_eq!(state(&bench, mine).await, PublicState::Waiting);
    assert_eq!((state(&bench, other).await, state(&bench, ends).await), (PublicState::Delayed, PublicState::Waiting));
    let nodes = bench.engine.nodes().await.unwrap();
    let shown = &nodes[0].body.filters;
    assert_eq!(
        (&shown.general, shown.of(NAME)),
        (&filter(Some("elsewhere"), Some("a")), &filter(Some("shop"), Some("a")))
    );
}

/// Something of every kind that has timers, for one team.
async fn fill(bench: &Bench<impl Store>, team: &str) {
    let policy = Policy {
        attempt_timeout_ms: Some(3_000),
        retention_ms: Some(1_000),
        idempotency_ttl_ms: 60_000,
        ..work().policy.expect("a policy")
    };
    let work = || Submission::new("work").policy(policy.clone()).tag("team", team.to_owned()).deadline_in_ms(20_000);
    let client = &bench.client;
    client.submit(work().delay_ms(2_000).idempotency_key(team.as_bytes().to_vec())).await.unwrap();
    // A worker that dies with its lease, and is in the registry.
    let registration = Registration::new("mailer", format!("mailer-{team}"), "boot").lane("default");
    client.register(registration).await.unwrap();
    client.submit(work()).await.unwrap();
    bench.claim().await;
    let flow = FlowSubmission { retention_ms: Some(1_000), ..FlowSubmission::new("line") };
    let flow = flow.tag("team", team.to_owned()).deadline_in_ms(20_000);
    bench.submit(flow.member("a", work().delay_ms(2_000)).member("b", work()).edge("a", "b")).await;
}

/// The rest of a purge, whose execution is gone.
async fn plant_purge(store: &impl Store, now: Time) {
    let rest = Rest::Purge { next: 0, attempts: 1, next_step: 0, steps: 0 };
    let body = continuation::Body { namespace: "shop".into(), created_at: now, rest, trouble: None };
    let owner = ExecutionId::new(P0, uuid::Uuid::from_u128(6));
    let record = Record::Continuation(Box::new(Continuation { owner, body }));
    plant::insert(store, [record]).await;
}

pub async fn sr_39_two_groups_of_nodes_with_tag_filters_leave_nothing_to_nobody(kind: impl Kind) {
    let a = Bench::shared_for(&kind, filter(None, Some("a"))).await;
    for team in ["a", "b"] {
        fill(&a, team).await;
    }
    let verb = weft_core::record::bulk_job::Verb::Purge { reason: "".into() };
    let bulk = a.client.start_bulk(BulkRequest::new(weft_core::filter::Filter::default(), verb)).await.unwrap().id;
    a.engine.shutdown().await;
    plant_purge(&*a.store, a.engine.now()).await;
    // Entries of nobody: one names a record that is gone, one names nothing.
    let gone = Key::Execution(ExecutionId::new(P0, uuid::Uuid::from_u128(5)));
    let stale = DueEntry::new(Due { timer: Timer::Until, at: Time::from_ms(5) }, gone);
    let poison = DueEntry { at: Time::from_ms(5), timer: Timer::Lease as u8, kind: 99, key: b"what"[..].into() };
    for entry in [stale, poison] {
        kind.insert_due(&a.store, P0, &entry).await;
    }
    let a = a.another().await;
    // A file lets one node in after the other.
    let exclusive = a.store.describe().exclusive;
    let mut b = if exclusive { None } else { Some(a.beside(filter(None, Some("b"))).await) };
    for turn in 0..400 {
        if turn == 200 && exclusive {
            a.engine.shutdown().await;
            b = Some(a.beside(filter(None, Some("b"))).await);
        }
        a.pass(500).await;
        if let Some(b) = &b {
            b.pass(0).await;
        }
    }
    let b = b.expect("a second node");
    for table in [
        Table::Execution,
        Table::Attempt,
        Table::Flow,
        Table::Edge,
        Table::Tombstone,
        Table::Dedup,
        Table::Continuation,
    ] {
        let left: Vec<Key> = plant::records_of(&*a.store, P0, table).await.into_keys().collect();
        assert!(left.is_empty(), "{left:?}");
    }
    assert_eq!(b.client.bulk(bulk).await.unwrap().state, BulkState::Done);
    let workers = b.client.workers(WorkerFilter::default()).await.unwrap().workers;
    assert!(workers.len() >= 2 && workers.iter().all(|worker| worker.state.name() == "dead"), "{workers:?}");
    let due: Vec<Due> = plant::due(&*a.store, P0).await.iter().map(plant::timer_of).collect();
    assert!(due.iter().all(|due| due.at > b.engine.now()), "nothing waits: {due:?}");
    // Both nodes may meet the entry that names nothing, and both leave the same letter.
    let letters = b.dead_letters().await;
    assert!(letters.len() == 1 && letters[0].key == b"what"[..], "{letters:?}");
    b.pass(POISON_KEPT_MS).await;
    for _ in 0..100 {
        b.pass(1_000).await;
    }
    assert!(b.dead_letters().await.is_empty(), "a letter is everybody's");
}

/// Each such group covers every partition, and new work is still shared by all nodes.
pub async fn sr_54_nodes_with_other_filters_scan_the_same_partitions(kind: impl Kind) {
    let a = Bench::shared_for(&kind, filter(None, Some("a"))).await;
    if a.store.describe().exclusive {
        return assert_eq!(a.engine.partitions_claimed(), 1, "a file has one node");
    }
    let (b, again) = (a.beside(filter(None, Some("b"))).await, a.another().await);
    for bench in [&a, &b, &again] {
        bench.pass(3_000).await;
    }
    let claimed = [&a, &b, &again].map(|bench| bench.engine.partitions_claimed());
    assert_eq!((claimed[0] + claimed[2], claimed[1]), (1, 1), "equal filters share, others do not: {claimed:?}");
}
