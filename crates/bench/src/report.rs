//! The result of a scenario, with the field names and the order that programs rely on.

use crate::process;
use crate::target::Target;
use serde::Serialize;
use weft_engine::Stats;

/// One measurement. A field that does not apply is null.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub scenario: &'static str,
    pub store: String,
    pub durability: String,
    pub version: &'static str,
    pub n: Option<u64>,
    pub workers: Option<usize>,
    pub nodes: u32,
    pub remote: bool,
    pub throughput_per_s: Option<f64>,
    pub submit_per_s: Option<f64>,
    pub drain_per_s: Option<f64>,
    pub p50_ms: Option<f64>,
    pub p95_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub floor_per_s: Option<f64>,
    pub floor_commit_ms: Option<f64>,
    pub ratio_to_floor: Option<f64>,
    pub commits: Option<u64>,
    pub batch_mean: Option<f64>,
    pub conflicts: Option<u64>,
    pub store_calls: Option<u64>,
    pub store_bytes_written: Option<u64>,
    pub rss_mb: Option<f64>,
    pub cpu_s: Option<f64>,
    #[serde(flatten)]
    pub backlog: Option<Backlog>,
    #[serde(flatten)]
    pub idle: Option<Idle>,
    #[serde(flatten)]
    pub several: Option<Several>,
    #[serde(flatten)]
    pub http: Option<Http>,
    #[serde(flatten)]
    pub chains: Option<Chains>,
    #[serde(flatten)]
    pub fan: Option<Fan>,
    #[serde(flatten)]
    pub cancels: Option<Cancels>,
    #[serde(flatten)]
    pub large: Option<Large>,
    /// `ok`; a run whose checks fail ends with an error and has no report.
    pub checks: &'static str,
}

/// What `backlog` adds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Backlog {
    pub small_n: u64,
    pub small_per_s: f64,
    pub large_per_s: f64,
    /// Large over small.
    pub ratio: f64,
    pub rss_peak_mb: Option<f64>,
}

/// What `idle` adds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Idle {
    pub seconds: f64,
    pub store_calls_per_s: f64,
    pub cpu_percent: Option<f64>,
}

/// What `lifecycle` adds if there are several nodes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Several {
    /// With one node on the same server, in turn with the others.
    pub one_node_per_s: f64,
    /// All nodes over one.
    pub ratio_to_one_node: f64,
}

/// What `lifecycle --remote` adds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Http {
    /// The same clients and the same worker in the process of the engine, in turn with those over HTTP.
    pub in_process_per_s: f64,
    /// Over HTTP over in-process.
    pub ratio_to_in_process: f64,
    /// What `lifecycle` does without the SDK: no idempotency keys, no registered worker, larger batches.
    pub engine_per_s: f64,
    /// Over HTTP over that.
    pub ratio_to_engine: f64,
}

/// What `flow-chain` adds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Chains {
    pub flows_per_s: f64,
    /// As many executions that have nothing to do with each other, in turn with the chains.
    pub lifecycle_per_s: f64,
    /// Executions of chains over those.
    pub ratio_to_lifecycle: f64,
}

/// What `fan-out` adds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Fan {
    pub total_ms: f64,
    /// Until the whole graph was acknowledged.
    pub created_ms: f64,
    /// From the last completion in the middle to the start of the join.
    pub join_ms: f64,
}

/// What `quorum-cancel` adds: medians by the number of siblings until the last of them is fenced, and how long it took
/// until a thousand were cancelled on record. The quantiles of the report are those of a thousand until fenced.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cancels {
    pub ten_p50_ms: f64,
    pub hundred_p50_ms: f64,
    pub thousand_p50_ms: f64,
    pub written_p50_ms: f64,
    pub written_p99_ms: f64,
}

/// What `large-flow` adds. The quantiles of the report are those of the calls about other work.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Large {
    /// Until all members were added and the flow was sealed.
    pub made_ms: f64,
    /// From the request to cancel it until nothing of it lived.
    pub cancelled_ms: f64,
    /// The longest call about other work.
    pub pause_max_ms: f64,
    /// How soon the flow told its totals.
    pub totals_p50_ms: f64,
    pub totals_p99_ms: f64,
}

impl Report {
    /// The names of all fields, in their order.
    pub const FIELDS: [&'static str; 53] = [
        "scenario",
        "store",
        "durability",
        "version",
        "n",
        "workers",
        "nodes",
        "remote",
        "throughput_per_s",
        "submit_per_s",
        "drain_per_s",
        "p50_ms",
        "p95_ms",
        "p99_ms",
        "floor_per_s",
        "floor_commit_ms",
        "ratio_to_floor",
        "commits",
        "batch_mean",
        "conflicts",
        "store_calls",
        "store_bytes_written",
        "rss_mb",
        "cpu_s",
        "small_n",
        "small_per_s",
        "large_per_s",
        "ratio",
        "rss_peak_mb",
        "seconds",
        "store_calls_per_s",
        "cpu_percent",
        "one_node_per_s",
        "ratio_to_one_node",
        "in_process_per_s",
        "ratio_to_in_process",
        "engine_per_s",
        "ratio_to_engine",
        "flows_per_s",
        "lifecycle_per_s",
        "ratio_to_lifecycle",
        "total_ms",
        "created_ms",
        "join_ms",
        "ten_p50_ms",
        "hundred_p50_ms",
        "thousand_p50_ms",
        "made_ms",
        "cancelled_ms",
        "pause_max_ms",
        "totals_p50_ms",
        "totals_p99_ms",
        "checks",
    ];

    pub(crate) fn new(scenario: &'static str, target: &impl Target) -> Self {
        Self {
            scenario,
            store: target.store(),
            durability: target.durability(),
            version: env!("CARGO_PKG_VERSION"),
            n: None,
            workers: None,
            nodes: 1,
            remote: false,
            throughput_per_s: None,
            submit_per_s: None,
            drain_per_s: None,
            p50_ms: None,
            p95_ms: None,
            p99_ms: None,
            floor_per_s: None,
            floor_commit_ms: None,
            ratio_to_floor: None,
            commits: None,
            batch_mean: None,
            conflicts: None,
            store_calls: None,
            store_bytes_written: None,
            rss_mb: process::rss_mb().map(rounded),
            cpu_s: None,
            backlog: None,
            idle: None,
            several: None,
            http: None,
            chains: None,
            fan: None,
            cancels: None,
            large: None,
            checks: "ok",
        }
    }

    /// What the engines did for their store during the run, all together.
    pub(crate) fn count(&mut self, stats: &[Stats]) {
        let sum = |of: fn(&Stats) -> u64| stats.iter().map(of).sum::<u64>();
        let (commits, commands) = (sum(|stats| stats.commits), sum(|stats| stats.commands));
        self.nodes = stats.len() as u32;
        self.commits = Some(commits);
        self.batch_mean = (commits > 0).then(|| rounded(commands as f64 / commits as f64));
        self.conflicts = Some(sum(|stats| stats.conflicts));
        self.store_calls = Some(sum(Stats::store_calls));
        self.store_bytes_written = Some(sum(|stats| stats.bytes_written));
    }
}

/// What each engine did since `before`.
pub(crate) fn since(after: Vec<Stats>, before: &[Stats]) -> Vec<Stats> {
    after.into_iter().zip(before).map(|(after, before)| after.since(*before)).collect()
}

/// Three digits behind the point are more than any of these measurements is good for.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// The value below which a share `q` of the sorted values lies.
pub(crate) fn quantile(sorted: &[f64], q: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * q).round() as usize).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_pick_values_that_occurred() {
        let sorted: Vec<f64> = (1..=101).map(f64::from).collect();
        assert_eq!(quantile(&sorted, 0.5), 51.0);
        assert_eq!(quantile(&sorted, 0.99), 100.0);
        assert_eq!(quantile(&sorted, 1.0), 101.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
