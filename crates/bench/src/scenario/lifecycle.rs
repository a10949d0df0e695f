//! `lifecycle`: producers submit while workers claim and complete, from the first submission to the last acknowledged
//! completion; then submit alone and drain alone on a store of their own. The floor is measured in turn with it, and so
//! is one node if there are several.

use super::ROUNDS;
use crate::crew::Crew;
use crate::load::{self, Load};
use crate::options::Options;
use crate::process;
use crate::report::{Report, Several, rounded, since};
use crate::target::Target;
use crate::verify::{self, Seen};
use crate::watch::Watch;
use anyhow::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_core::record::execution::PublicState;
use weft_engine::Stats;

/// The best of the rounds, each figure for itself.
struct Best {
    floor_per_s: f64,
    floor_commit_ms: f64,
    whole_per_s: f64,
    /// Of the run that `whole_per_s` is of.
    stats: Vec<Stats>,
    submit_per_s: f64,
    drain_per_s: f64,
}

pub async fn run(target: &impl Target, options: &Options, watch: Arc<dyn Watch>) -> Result<Report> {
    let n = options.n.unwrap_or(20_000);
    let load = Load::new(options.payload(), options.workers(), watch.clone());
    let cpu_before = process::cpu_s();
    let mut best = Best {
        floor_per_s: 0.0,
        floor_commit_ms: f64::INFINITY,
        whole_per_s: 0.0,
        stats: Vec::new(),
        submit_per_s: 0.0,
        drain_per_s: 0.0,
    };
    let mut one_node_per_s: f64 = 0.0;
    for _ in 0..ROUNDS {
        watch.begin("floor", 0);
        let floor = target.floor(n, load.payload).await?;
        best.floor_per_s = best.floor_per_s.max(floor.per_s);
        best.floor_commit_ms = best.floor_commit_ms.min(floor.commit_ms);
        watch.end();
        if options.nodes() > 1 {
            one_node_per_s = one_node_per_s.max(whole(target, 1, &load, n).await?.0);
        }
        let (per_s, stats) = whole(target, options.nodes(), &load, n).await?;
        if per_s > best.whole_per_s {
            (best.whole_per_s, best.stats) = (per_s, stats);
        }
        halves(target, options.nodes(), &load, n, &mut best).await?;
    }
    let mut report = Report::new("lifecycle", target);
    report.n = Some(n);
    report.workers = Some(load.workers);
    report.throughput_per_s = Some(rounded(best.whole_per_s));
    report.submit_per_s = Some(rounded(best.submit_per_s));
    report.drain_per_s = Some(rounded(best.drain_per_s));
    report.floor_per_s = Some(rounded(best.floor_per_s));
    report.floor_commit_ms = Some(rounded(best.floor_commit_ms));
    report.ratio_to_floor = Some(rounded(best.whole_per_s / best.floor_per_s));
    report.several = (options.nodes() > 1).then(|| Several {
        one_node_per_s: rounded(one_node_per_s),
        ratio_to_one_node: rounded(best.whole_per_s / one_node_per_s),
    });
    report.cpu_s = cpu_before.zip(process::cpu_s()).map(|(before, after)| rounded(after - before));
    report.count(&best.stats);
    Ok(report)
}

/// Producers and workers at once: the rate, and what each engine did for it.
pub(super) async fn whole(target: &impl Target, nodes: usize, load: &Load, n: u64) -> Result<(f64, Vec<Stats>)> {
    let bed = target.open(nodes).await?;
    let crew = bed.crew()?;
    let seen = Seen::new(n);
    // Every execution is counted when it is submitted and again when it is completed.
    load.watch.begin("lifecycle", 2 * n);
    let before = bed.stats();
    let (elapsed, ids) = load::lifecycle(&crew, load, n, &seen).await?;
    let stats = since(bed.stats(), &before);
    load.watch.end();
    check(&crew, load, n, &seen, ids).await?;
    bed.close().await?;
    Ok((rate(n, elapsed), stats))
}

/// Submit alone, then drain alone.
async fn halves(target: &impl Target, nodes: usize, load: &Load, n: u64, best: &mut Best) -> Result<()> {
    let bed = target.open(nodes).await?;
    let crew = bed.crew()?;
    let seen = Seen::new(n);
    load.watch.begin("submit only", n);
    let begun = Instant::now();
    let ids = load::submit(&crew, load, 0..n, true).await?;
    best.submit_per_s = best.submit_per_s.max(rate(n, begun.elapsed()));
    load.watch.end();
    verify::counts(crew.first(), &[(PublicState::Waiting, n)]).await?;
    load.watch.begin("drain only", n);
    let elapsed = load::drain(&crew, load, n, &seen).await?;
    best.drain_per_s = best.drain_per_s.max(rate(n, elapsed));
    load.watch.end();
    check(&crew, load, n, &seen, ids).await?;
    bed.close().await
}

pub(super) async fn check(crew: &Crew, load: &Load, n: u64, seen: &Seen, ids: load::Ids) -> Result<()> {
    load.watch.begin("checking", 0);
    anyhow::ensure!(seen.count() == n, "check failed: workers got {} executions of {n}", seen.count());
    anyhow::ensure!(ids.len() as u64 == n, "check failed: {} submissions were acknowledged of {n}", ids.len());
    verify::counts(crew.first(), &[(PublicState::Completed, n)]).await?;
    verify::results(crew.first(), ids).await?;
    load.watch.end();
    Ok(())
}

pub(super) fn rate(n: u64, elapsed: Duration) -> f64 {
    n as f64 / elapsed.as_secs_f64()
}
