//! `backlog`: whether claiming stays as fast with a million queued executions as with ten thousand, and how much memory
//! they take. No ids are kept here, so that the memory is the engine's own.

use super::ROUNDS;
use crate::crew::Crew;
use crate::load::{self, Load};
use crate::options::Options;
use crate::process;
use crate::report::{Backlog, Report, rounded, since};
use crate::target::{Bed, Target};
use crate::verify::{self, Seen};
use crate::watch::Watch;
use anyhow::{Result, ensure};
use std::sync::Arc;
use std::time::Duration;
use weft_core::record::execution::PublicState;

const SMALL: u64 = 10_000;

/// At most half of the small queue is drained before it is filled up again.
const SLICE: u64 = 5_000;
const SLICES: u64 = 4;

/// One of the two queues.
struct Side {
    bed: Bed,
    crew: Crew,
    seen: Arc<Seen>,
    queued: u64,
    submitted: u64,
    best_per_s: f64,
}

pub async fn run(target: &impl Target, options: &Options, watch: Arc<dyn Watch>) -> Result<Report> {
    let n = options.n.unwrap_or(1_000_000);
    let load = Load::new(options.payload(), options.workers(), watch);
    let cpu_before = process::cpu_s();
    let mut large = Side::fill(target, options.nodes(), &load, n).await?;
    let filled_mb = process::rss_mb();
    let before = large.bed.stats();
    large.round(&load).await?;
    // The small queue is opened only now, so that this is the memory of the large one alone.
    let worked_mb = process::rss_mb();
    let rss_peak_mb = process::rss_peak_mb().map(rounded);
    let mut small = Side::fill(target, options.nodes(), &load, SMALL).await?;
    small.round(&load).await?;
    for _ in 1..ROUNDS {
        large.round(&load).await?;
        small.round(&load).await?;
    }
    let stats = since(large.bed.stats(), &before);
    let (large_per_s, small_per_s) = (large.check(&load).await?, small.check(&load).await?);

    let mut report = Report::new("backlog", target);
    report.n = Some(n);
    report.workers = Some(load.workers);
    report.drain_per_s = Some(rounded(large_per_s));
    report.rss_mb = filled_mb.zip(worked_mb).map(|(filled, worked)| rounded(filled.max(worked)));
    report.cpu_s = cpu_before.zip(process::cpu_s()).map(|(before, after)| rounded(after - before));
    report.backlog = Some(Backlog {
        small_n: SMALL,
        small_per_s: rounded(small_per_s),
        large_per_s: rounded(large_per_s),
        ratio: rounded(large_per_s / small_per_s),
        rss_peak_mb,
    });
    report.count(&stats);
    Ok(report)
}

impl Side {
    async fn fill(target: &impl Target, nodes: usize, load: &Load, queued: u64) -> Result<Self> {
        let bed = target.open(nodes).await?;
        let crew = bed.crew()?;
        load.watch.begin(&format!("queueing {queued}"), queued);
        load::submit(&crew, load, 0..queued, false).await?;
        load.watch.end();
        let seen = Seen::new(queued + ROUNDS as u64 * SLICES * SLICE);
        Ok(Self { bed, crew, seen, queued, submitted: queued, best_per_s: 0.0 })
    }

    /// Claims and completes some slices, with the queue filled up again before each; only the draining counts.
    async fn round(&mut self, load: &Load) -> Result<()> {
        let mut spent = Duration::ZERO;
        load.watch.begin(&format!("draining with {} queued", self.queued), 2 * SLICES * SLICE);
        for _ in 0..SLICES {
            spent += load::drain(&self.crew, load, SLICE, &self.seen).await?;
            let next = self.submitted + SLICE;
            load::submit(&self.crew, load, self.submitted..next, false).await?;
            self.submitted = next;
        }
        load.watch.end();
        self.best_per_s = self.best_per_s.max((SLICES * SLICE) as f64 / spent.as_secs_f64());
        Ok(())
    }

    /// Checks by counting that what was drained is done and everything else still queued.
    async fn check(self, load: &Load) -> Result<f64> {
        load.watch.begin("checking", 0);
        let drained = self.seen.count();
        let expected = ROUNDS as u64 * SLICES * SLICE;
        ensure!(drained == expected, "check failed: workers got {drained} executions of {expected}");
        let left = self.submitted - drained;
        verify::counts(self.crew.first(), &[(PublicState::Completed, drained), (PublicState::Waiting, left)]).await?;
        load.watch.end();
        self.bed.close().await?;
        Ok(self.best_per_s)
    }
}
