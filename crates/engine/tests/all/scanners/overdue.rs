//! What became due while no node was alive.

use crate::kit::bench::Bench;
use crate::kit::flows::P0;
use crate::kit::kinds::Kind;
use crate::kit::{plant, worker};
use std::collections::BTreeMap;
use weft_core::record::Key;
use weft_core::record::execution::{Policy, PublicState};
use weft_core::schema::{Kind as Table, Timer};
use weft_core::{ExecutionId, Time};
use weft_engine::worker::Registration;
use weft_engine::{Cancellation, Submission};
use weft_store::Store;

const HOUR_MS: u64 = 3_600_000;
/// Timers of the planted items, and the scanner of each.
const TIMERS: [(Timer, &str); 6] = [
    (Timer::AttemptTimeout, "attempt_timeout"),
    (Timer::Deadline, "execution_deadline"),
    (Timer::Lease, "lease_expiry"),
    (Timer::Until, "delayed_promoter"),
    (Timer::Retention, "retention_trimmer"),
    (Timer::Worker, "worker_reaper"),
];

async fn submit(bench: &Bench<impl Store>, count: usize, submission: Submission) -> Vec<ExecutionId> {
    let mut ids = Vec::new();
    while ids.len() < count {
        let some = vec![submission.clone(); (count - ids.len()).min(500)];
        ids.extend(bench.client.submit_batch(some).await.into_iter().map(|answer| answer.unwrap().id));
    }
    ids
}

async fn claim(bench: &Bench<impl Store>, lane: &str, count: usize, lease_ms: u64) {
    let mut left = count;
    for _ in 0..1_000 {
        if left == 0 {
            return;
        }
        let claim = worker().lane(lane).lease_ms(lease_ms).max(left.min(256));
        left -= bench.client.claim(claim).await.unwrap().executions.len();
    }
    panic!("{left} of {lane} cannot be claimed");
}

/// How many entries of each timer are due.
async fn due(bench: &Bench<impl Store>, now: Time) -> BTreeMap<&'static str, u64> {
    let mut due = BTreeMap::new();
    for (timer, scanner) in TIMERS {
        let entries = plant::entries(&*bench.store, P0, timer).await;
        due.insert(scanner, entries.iter().filter(|entry| plant::timer_of(entry).at <= now).count() as u64);
    }
    due
}

pub async fn sr_53_what_became_due_in_an_hour_without_a_node_is_handled_once_and_at_once(kind: impl Kind) {
    let each = if kind.many() == 10_000 { 2_000 } else { 60 };
    let bench = Bench::new(&kind).await;
    let mut brief = Policy { attempt_timeout_ms: Some(60_000), ..Policy::default() };
    brief.retry.max_retries = 0;
    let short = Policy { retention_ms: Some(60_000), ..Policy::default() };
    let of = |lane: &str| Submission::new("mail").lane(lane);
    let timeouts = submit(&bench, each, of("timeouts").policy(brief)).await;
    let leases = submit(&bench, each, of("leases")).await;
    let deadlines = submit(&bench, each, of("deadlines").deadline_in_ms(60_000)).await;
    let delays = submit(&bench, each, of("delays").delay_ms(60_000)).await;
    let over = submit(&bench, each, of("over").policy(short)).await;
    // A neighbour of each, whose time comes a minute after the hour.
    let late = HOUR_MS + 60_000;
    let lasting = Policy { retention_ms: Some(late), ..Policy::default() };
    let neighbours = [of("near").deadline_in_ms(late), of("near").delay_ms(late), of("near").policy(lasting)];
    let mut near = Vec::new();
    for neighbour in neighbours {
        near.extend(submit(&bench, 1, neighbour).await);
    }
    for id in over.iter().chain(&near[2..]) {
        bench.client.cancel(Cancellation::new(*id, "not needed")).await.unwrap();
    }
    claim(&bench, "leases", each, 60_000).await;
    claim(&bench, "timeouts", each, HOUR_MS).await;
    for number in 0..each {
        let registration = Registration::new("sleeper", format!("sleeper-{number}"), "boot").lane("default");
        bench.client.register(registration).await.unwrap();
    }
    bench.pass(0).await;
    let mut untouched = BTreeMap::new();
    for id in &near {
        untouched.insert(*id, plant::raw(&*bench.store, Key::Execution(*id)).await.expect("submitted"));
    }
    bench.engine.shutdown().await;
    // The leases of those that only have a timeout end with the hour, and no moment before.
    bench.pass(HOUR_MS - 1_000).await;
    let now = bench.engine.now();
    let expected = due(&bench, now).await;
    assert!(expected.values().all(|count| *count >= each as u64), "{expected:?}");

    let bench = bench.run().await;
    let items = |scanner: &str, result: &str| bench.count("weft_scanner_items_total", &[scanner, result]);
    bench.at_once("all that is due", async || due(&bench, now).await.values().all(|left| *left == 0)).await;
    let handled: BTreeMap<&str, u64> = expected.keys().map(|scanner| (*scanner, items(scanner, "processed"))).collect();
    assert_eq!(handled, expected, "each once");
    for scanner in expected.keys() {
        let bad = ["stale", "error", "poison", "newer", "filtered"].map(|result| items(scanner, result));
        assert_eq!(bad, [0; 5], "{scanner}");
    }
    let states = async |ids: &[ExecutionId], expected: PublicState| {
        for id in ids {
            assert_eq!(plant::execution(&*bench.store, *id).await.public_state(), expected, "{id}");
        }
    };
    let some = |ids: &[ExecutionId]| [ids[0], ids[each / 2], ids[each - 1]];
    for ids in [&timeouts, &deadlines] {
        states(&some(ids), PublicState::Expired).await;
    }
    states(&some(&delays), PublicState::Waiting).await;
    for id in some(&leases) {
        let execution = plant::execution(&*bench.store, id).await;
        assert!(execution.lease().is_none() && execution.hot.reclaims == 1, "{execution:?}");
    }
    for id in some(&over) {
        assert!(plant::raw(&*bench.store, Key::Execution(id)).await.is_none(), "{id} is kept no longer");
    }
    let silent = plant::records_of(&*bench.store, P0, Table::Worker).await.len();
    assert!(silent >= each, "dead ones are kept for a while: {silent}");
    for (id, was) in untouched {
        assert!(plant::raw(&*bench.store, Key::Execution(id)).await == Some(was), "{id} is untouched");
    }
    assert!(bench.dead_letters().await.is_empty());
}
