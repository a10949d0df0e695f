//! What is going on in a namespace: what this node has seen of it lately, and how much of it there is.

use crate::across::Of;
use crate::rejection::problem;
use crate::{Acting, Answer, Reach};
use std::collections::{BTreeMap, BTreeSet};
use weft_api::node as wire;
use weft_api::{Problem, Reply};
use weft_core::Time;
use weft_core::record::execution::PublicState;
use weft_core::text::Text;
use weft_engine::telemetry::meters::ScannerMeter;
use weft_engine::telemetry::{Activity, Failure, LaneRates, Latency, Window};
use weft_engine::worker::State;
use weft_engine::{Depth, Depths, Manned, Running};

/// Active executions that are named.
const SLOWEST_MAX: usize = 20;
/// Namespaces whose depths are counted for one answer.
const NAMESPACES_MAX: usize = 64;

impl Acting<'_> {
    pub async fn stats(&self) -> Result<Answer, Problem> {
        let (now, started_at) = (self.engine.now(), self.engine.started_at());
        let mut names = BTreeSet::new();
        for of in [Of::Executions, Of::Workers] {
            names.extend(self.namespaces_after(of, None, NAMESPACES_MAX + 1).await?);
        }
        let partial = names.len() > NAMESPACES_MAX;
        let mut depths = Depths::default();
        for namespace in names.into_iter().take(NAMESPACES_MAX) {
            let client = self.engine.client_as(self.caller.principal(namespace));
            join(&mut depths, &*client.depths().await.map_err(problem)?);
        }
        depths.running.sort_by_key(|running| running.since);
        let within = match self.caller.chosen()? {
            Some(one) => Reach::Some([one.clone()].into()),
            None => self.caller.reach.clone(),
        };
        let Activity { windows, lanes, failures } = self.engine.activity(&within);
        let stats = wire::Stats {
            at: now.ms(),
            node: self.engine.node().to_string(),
            uptime_ms: now.since(started_at),
            windows: windows.iter().map(window).collect(),
            lanes: lane_stats(&depths, &lanes, now),
            workers: worker_counts(&depths.workers),
            slowest: depths.running.iter().take(SLOWEST_MAX).map(|one| running(one, now)).collect(),
            errors: failures.iter().map(failure).collect(),
            scanners: self.engine.scanners().map(|(name, meter)| scanner(name, meter, now)).collect(),
            partitions: self.engine.describe().partitions.into(),
            partitions_claimed: self.engine.partitions_claimed().into(),
            partial,
        };
        Ok(Reply::GetStats(stats).into())
    }
}

/// Adds what is there in another namespace; lanes of one name are told as one.
fn join(all: &mut Depths, more: &Depths) {
    for (name, depth) in &more.lanes {
        let lane = all.lanes.entry(name.clone()).or_default();
        for (state, count) in &depth.states {
            *lane.states.entry(*state).or_default() += count;
        }
        lane.oldest = [lane.oldest, depth.oldest].into_iter().flatten().min();
        lane.capability_sets.extend(depth.capability_sets.iter().cloned());
    }
    all.running.extend(more.running.iter().cloned());
    all.workers.extend(more.workers.iter().cloned());
}

/// Every lane that has work, had some in the last minute, or is asked for.
fn lane_stats(depths: &Depths, rates: &BTreeMap<Text, LaneRates>, now: Time) -> Vec<wire::LaneStats> {
    let asked = active(&depths.workers).flat_map(|worker| &worker.lanes);
    let names: std::collections::BTreeSet<&Text> = depths.lanes.keys().chain(rates.keys()).chain(asked).collect();
    let stats = names.into_iter().map(|name| {
        let depth = depths.lanes.get(name).cloned().unwrap_or_default();
        let rates = rates.get(name).copied().unwrap_or_default();
        let in_state = |states: &[PublicState]| states.iter().filter_map(|state| depth.states.get(state)).sum();
        wire::LaneStats {
            lane: name.to_string(),
            waiting: in_state(&[PublicState::Waiting]),
            active: in_state(&[PublicState::Active]),
            delayed: in_state(&[PublicState::Delayed]),
            blocked: in_state(&[
                PublicState::Held,
                PublicState::WaitingChildren,
                PublicState::RateLimited,
                PublicState::Suspended,
            ]),
            oldest_ms: oldest_ms(&depth, now),
            submitted_per_s: rates.submitted_per_s,
            completed_per_s: rates.completed_per_s,
            failed_per_s: rates.failed_per_s,
            workers: active(&depths.workers).filter(|worker| worker.lanes.contains(name)).count() as u32,
        }
    });
    stats.collect()
}

fn active(workers: &[Manned]) -> impl Iterator<Item = &Manned> {
    workers.iter().filter(|worker| worker.state == State::Active)
}

fn worker_counts(workers: &[Manned]) -> wire::WorkerCounts {
    let mut counts = wire::WorkerCounts { active: 0, draining: 0, dead: 0 };
    for worker in workers {
        match worker.state {
            State::Active => counts.active += 1,
            State::Draining(_) | State::Drained(_) | State::Left { .. } => counts.draining += 1,
            State::Dead { .. } => counts.dead += 1,
        }
    }
    counts
}

fn scanner(name: &str, meter: &ScannerMeter, now: Time) -> wire::ScannerStats {
    wire::ScannerStats {
        scanner: name.to_string(),
        due_at: meter.due_at().map(Time::ms),
        lag_ms: meter.lag_ms(now),
        processed: meter.processed.get(),
        errors: meter.error.get() + meter.poison.get(),
    }
}

fn oldest_ms(depth: &Depth, now: Time) -> Option<u64> {
    depth.oldest.map(|since| now.since(since))
}

fn window(window: &Window) -> wire::Window {
    wire::Window {
        minutes: window.minutes,
        submitted_per_s: window.submitted_per_s,
        claimed_per_s: window.claimed_per_s,
        completed_per_s: window.completed_per_s,
        failed_per_s: window.failed_per_s,
        retried_per_s: window.retried_per_s,
        queue_wait: latency(window.queue_wait),
        run: latency(window.run),
        end_to_end: latency(window.end_to_end),
    }
}

fn latency(latency: Latency) -> wire::Latency {
    let Latency { count, p50_ms, p95_ms, p99_ms } = latency;
    wire::Latency { count, p50_ms, p95_ms, p99_ms }
}

fn running(running: &Running, now: Time) -> wire::Running {
    wire::Running {
        execution: running.execution.to_string(),
        kind: running.kind.to_string(),
        lane: running.lane.to_string(),
        instance: running.instance.to_string(),
        attempt: running.attempt,
        running_ms: now.since(running.since),
    }
}

fn failure(failure: &Failure) -> wire::RecentFailure {
    wire::RecentFailure {
        execution: failure.execution.to_string(),
        kind: failure.kind.to_string(),
        lane: failure.lane.to_string(),
        attempt: failure.attempt,
        category: failure.category.to_string(),
        message: failure.message.to_string(),
        at: failure.at.ms(),
    }
}
