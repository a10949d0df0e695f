//! All metrics of a node as they stand, one entry per family of the table.

use super::family::*;
use super::lanes::LaneMeter;
use super::meters::Renewals;
use super::tally::{ATTEMPT_KINDS, OUTCOMES};
use super::{Book, Telemetry};
use crate::engine::Shared;
use std::sync::atomic::Ordering;

/// Reads every family. Nothing here asks the store.
pub(crate) fn read(shared: &Shared) -> Vec<Readings> {
    let telemetry = &shared.telemetry;
    let mut all = Vec::with_capacity(FAMILIES.len());
    executions(telemetry, &mut all);
    flows(telemetry, &mut all);
    claims(shared, &mut all);
    engine(shared, &mut all);
    store(shared, &mut all);
    scanners(shared, &mut all);
    all
}

fn executions(telemetry: &Telemetry, all: &mut Vec<Readings>) {
    let book = telemetry.book();
    all.push(by_lane(&book, &SUBMITTED, |meter| Reading::Count(meter.submitted)));
    let mut claimed = Readings::new(&CLAIMED);
    let mut finished = Readings::new(&FINISHED);
    for (lane, meter) in book.lanes.iter() {
        for (kind, count) in ATTEMPT_KINDS.iter().zip(meter.claimed).filter(|(_, count)| *count > 0) {
            claimed.add(&[lane, kind.name()], Reading::Count(count));
        }
        for (outcome, count) in OUTCOMES.iter().zip(meter.finished).filter(|(_, count)| *count > 0) {
            finished.add(&[lane, outcome.name()], Reading::Count(count));
        }
    }
    all.extend([claimed, finished]);
    all.push(by_lane(&book, &RETRIES, |meter| Reading::Count(meter.retries)));
    let mut lost = Readings::new(&LEASES_LOST);
    for (cause, count) in &book.leases_lost {
        lost.add(&[cause], Reading::Count(*count));
    }
    all.push(lost);
    let gauges = telemetry.gauges();
    let mut executions = Readings::new(&EXECUTIONS);
    for ((lane, state), count) in &gauges.executions {
        executions.add(&[lane, state.name()], Reading::Level(*count as f64));
    }
    let mut oldest = Readings::new(&QUEUE_OLDEST);
    for (lane, ms) in &gauges.oldest_ms {
        oldest.add(&[lane], Reading::Level(*ms as f64 / 1e3));
    }
    all.extend([executions, oldest]);
    all.push(by_lane(&book, &QUEUE_WAIT, |meter| Reading::from(&meter.waits)));
    all.push(by_lane(&book, &RUN, |meter| Reading::from(&meter.runs)));
    all.push(by_lane(&book, &END_TO_END, |meter| Reading::from(&meter.totals)));
}

fn flows(telemetry: &Telemetry, all: &mut Vec<Readings>) {
    let meters = &telemetry.flows;
    let mut finished = Readings::new(&FLOWS_FINISHED);
    for (outcome, counter) in ["completed", "failed", "cancelled"].into_iter().zip(&meters.finished) {
        finished.add(&[outcome], Reading::Count(counter.get()));
    }
    all.push(finished);
    all.push(Readings::one(&FLOW_FINISH, Reading::from(&meters.finish.read())));
    let mut resolved = Readings::new(&EDGES_RESOLVED);
    resolved.add(&["met"], Reading::Count(meters.met.get()));
    resolved.add(&["unmet"], Reading::Count(meters.unmet.get()));
    all.push(resolved);
    let book = telemetry.book();
    let mut decided = Readings::new(&GROUPS_DECIDED);
    for ((policy, verdict), count) in &book.decided {
        decided.add(&[policy, verdict], Reading::Count(*count));
    }
    all.push(decided);
    all.push(Readings::one(&MEMBERS_SKIPPED, Reading::Count(meters.skipped.get())));
    let mut siblings = Readings::new(&SIBLING_CANCELS);
    for (verdict, count) in &book.siblings {
        siblings.add(&[verdict], Reading::Count(*count));
    }
    all.push(siblings);
    let mut results = Readings::new(&SIBLING_RESULTS);
    for (result, count) in meters.by_result() {
        results.add(&[result], Reading::Count(count));
    }
    all.push(results);
    let mut reconciled = Readings::new(&SIBLING_RECONCILE);
    for (action, count) in meters.by_action() {
        reconciled.add(&[action], Reading::Count(count));
    }
    all.push(reconciled);
    all.push(Readings::one(&FLOW_REPAIRS, Reading::Count(meters.repairs.get())));
    all.push(Readings::one(&DEPENDENCY_REPAIRS, Reading::Count(meters.mended.get())));
    all.push(backlog(telemetry, &SIBLING_BACKLOG, "edge_cancel_dispatcher"));
}

fn by_lane(book: &Book, family: &'static Family, reading: impl Fn(&LaneMeter) -> Reading) -> Readings {
    let mut readings = Readings::new(family);
    for (lane, meter) in book.lanes.iter() {
        readings.add(&[lane], reading(meter));
    }
    readings
}

fn claims(shared: &Shared, all: &mut Vec<Readings>) {
    let telemetry = &shared.telemetry;
    let mut claim = Readings::new(&CLAIM);
    for (result, meter) in telemetry.claims.by_result() {
        claim.add(&[result], Reading::from(&meter.read()));
    }
    all.push(claim);
    all.push(level(&CLAIMS_WAITING, telemetry.claims.waiting() as f64));
    let mut renewals = Readings::new(&RENEWALS);
    let Renewals { renewed, refused, failed } = &telemetry.renewals;
    for (result, counter) in [("renewed", renewed), ("refused", refused), ("failed", failed)] {
        renewals.add(&[result], Reading::Count(counter.get()));
    }
    let mut refusals = Readings::new(&CLAIM_REFUSALS);
    for (why, count) in telemetry.claims.refusals().iter() {
        refusals.add(&[why], Reading::Count(*count));
    }
    let mut sets = Readings::new(&CAPABILITY_SETS);
    for (lane, count) in &telemetry.gauges().capability_sets {
        sets.add(&[lane], Reading::Level(*count as f64));
    }
    all.extend([renewals, refusals, sets]);
    all.push(Readings::one(&HANDOFFS, Reading::Count(telemetry.book().handoffs)));
    let mut notices = Readings::new(&NOTICES);
    for (kind, count) in shared.hub.mailboxes.sent() {
        notices.add(&[kind], Reading::Count(count));
    }
    all.push(notices);
    let mut workers = Readings::new(&WORKERS);
    for (state, count) in &telemetry.gauges().workers {
        workers.add(&[state], Reading::Level(*count as f64));
    }
    all.push(workers);
}

fn engine(shared: &Shared, all: &mut Vec<Readings>) {
    let telemetry = &shared.telemetry;
    let mut commits = Readings::new(&COMMITS);
    for (result, counter) in telemetry.commits.by_result() {
        commits.add(&[result], Reading::Count(counter.get()));
    }
    all.push(commits);
    all.push(Readings::one(&COMMIT, Reading::from(&telemetry.commits.seconds.read())));
    all.push(Readings::one(&BATCH, Reading::from(&telemetry.commits.commands)));
    all.push(level(&LOOP_QUEUE, shared.queued() as f64));
    let cache_bytes: u64 = telemetry.cache_bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum();
    for (family, count) in [
        (&LOOP_BUSY, shared.counters.busy.get()),
        (&MISSES, telemetry.misses.get()),
        (&CACHE_HITS, telemetry.hits.get()),
    ] {
        all.push(Readings::one(family, Reading::Count(count)));
    }
    all.push(level(&CACHE_BYTES, cache_bytes as f64));
    all.push(Readings::one(&RERUNS, Reading::Count(telemetry.reruns.get())));
    all.push(Readings::one(&VIOLATIONS, Reading::Count(telemetry.violations.get())));
    all.push(level(&CLOCK_OFFSET, shared.clock.skew_ms() as f64 / 1e3));
}

fn store(shared: &Shared, all: &mut Vec<Readings>) {
    let meters = &shared.telemetry.store;
    let mut calls = Readings::new(&STORE_CALLS);
    let mut seconds = Readings::new(&STORE_CALL);
    for (call, meter) in meters.by_call() {
        calls.add(&[call, "ok"], Reading::Count(meter.ok.get()));
        calls.add(&[call, "error"], Reading::Count(meter.error.get()));
        seconds.add(&[call], Reading::from(&meter.seconds.read()));
    }
    let mut bytes = Readings::new(&STORE_BYTES);
    bytes.add(&["read"], Reading::Count(meters.bytes_read.get()));
    bytes.add(&["written"], Reading::Count(shared.counters.bytes_written.get()));
    let mut resolves = Readings::new(&STORE_RESOLVES);
    for (result, counter) in [
        ("applied", &meters.resolved_applied),
        ("not_applied", &meters.resolved_not_applied),
        ("error", &meters.resolve.error),
    ] {
        resolves.add(&[result], Reading::Count(counter.get()));
    }
    let vitals = shared.store.describe().vitals;
    let mut connections = Readings::new(&STORE_CONNECTIONS);
    if let Some((in_use, idle)) = vitals.connections {
        connections.add(&["in_use"], Reading::Level(in_use as f64));
        connections.add(&["idle"], Reading::Level(idle as f64));
    }
    let mut log = Readings::new(&STORE_WAL);
    if let Some(bytes) = vitals.log_bytes {
        log.add(&[], Reading::Level(bytes as f64));
    }
    all.extend([calls, seconds, bytes, connections, log, resolves]);
    all.push(Readings::one(&STORE_DATA_LOST, Reading::Count(shared.counters.data_lost.get())));
}

fn scanners(shared: &Shared, all: &mut Vec<Readings>) {
    let now = shared.now();
    let families = [
        &SCANNER_CYCLES,
        &SCANNER_CYCLE,
        &SCANNER_WAKES,
        &SCANNER_ITEMS,
        &SCANNER_LATENESS,
        &SCANNER_LAG,
        &SCANNER_PARKED,
        &SCANNER_RESTARTS,
    ];
    let [mut cycles, mut seconds, mut wakes, mut items, mut lateness, mut lag, mut parked, mut restarts] =
        families.map(Readings::new);
    let gauges = shared.telemetry.gauges();
    for (name, meter) in &shared.telemetry.scanners {
        cycles.add(&[name], Reading::Count(meter.cycles.get()));
        seconds.add(&[name], Reading::from(&meter.seconds.read()));
        wakes.add(&[name], Reading::Count(meter.wakes.get()));
        for (result, counter) in meter.by_result() {
            items.add(&[name, result], Reading::Count(counter.get()));
        }
        lateness.add(&[name], Reading::from(&meter.lateness.read()));
        lag.add(&[name], Reading::Level(meter.lag_ms(now) as f64 / 1e3));
        // What was not counted yet is not none.
        if let Some(known) = &gauges.parked {
            parked.add(&[name], Reading::Level(known.get(*name).copied().unwrap_or(0) as f64));
        }
        restarts.add(&[name], Reading::Count(meter.restarts.get()));
    }
    all.extend([cycles, seconds, wakes, items, lateness, lag, parked, restarts]);
    all.push(backlog(&shared.telemetry, &RETENTION_BACKLOG, "retention_trimmer"));
    all.push(backlog(&shared.telemetry, &CANCEL_BACKLOG, "cancel_reconciler"));
    all.push(backlog(&shared.telemetry, &CONTINUATIONS, "dependency_reconciler"));
    let mut own = Readings::new(&SCANNER_BACKLOG);
    let programs = shared.scanners.iter().filter(|scanner| scanner.timers().is_empty()).map(|scanner| scanner.name());
    for name in programs {
        if let Some(count) = shared.telemetry.scanner(name).and_then(|meter| meter.backlog()) {
            own.add(&[name], Reading::Level(count as f64));
        }
    }
    all.push(own);
    let mine = (0..shared.description.partitions).filter(|index| {
        let partition = weft_core::PartitionId(*index);
        shared.membership.is_mine(partition)
    });
    all.push(level(&SCANNER_PARTITIONS, mine.count() as f64));
}

/// The backlog of a scanner as it was last counted in every partition; no reading before the first such count.
fn backlog(telemetry: &Telemetry, family: &'static Family, scanner: &str) -> Readings {
    let mut readings = Readings::new(family);
    if let Some(count) = telemetry.scanner(scanner).and_then(|meter| meter.backlog()) {
        readings.add(&[], Reading::Level(count as f64));
    }
    readings
}

fn level(family: &'static Family, value: f64) -> Readings {
    Readings::one(family, Reading::Level(value))
}
