//! `fan-out`: one source, many in the middle, one that joins them: the whole time, and the time from the last completion in
//! the middle to the start of the join.

use crate::load::{self, Load};
use crate::options::Options;
use crate::process;
use crate::report::{Fan, Report, rounded, since};
use crate::target::Target;
use crate::verify::{self, Seen};
use crate::watch::Watch;
use anyhow::{Context, Result, ensure};
use std::sync::Arc;
use std::time::Instant;
use weft_core::limits::CLAIM_WAIT_MAX_MS;
use weft_core::record::execution::PublicState;
use weft_core::record::flow::PublicFlowState;
use weft_engine::flow::FlowSubmission;
use weft_engine::{Claim, Completion};

/// As many as one call may add, less the two ends.
const MOST: u64 = 9_998;

pub async fn run(target: &impl Target, options: &Options, watch: Arc<dyn Watch>) -> Result<Report> {
    let n = options.n.unwrap_or(MOST);
    ensure!(n <= MOST, "`--n` is {n}, allowed are 1 to {MOST}: one call makes the whole graph");
    let load = Load::new(options.payload(), options.workers(), watch.clone());
    let cpu_before = process::cpu_s();
    let floor_commit_ms = target.floor(0, load.payload).await?.commit_ms;
    let bed = target.open(1).await?;
    let crew = bed.crew()?;
    let client = crew.first().clone();
    let before = bed.stats();
    watch.begin("fan-out", n);
    let begun = Instant::now();
    client.submit_flow(graph(&load, n)).await.context("the flow was refused")?;
    let submitted = begun.elapsed();
    // The numbers: 0 is the source, the middle comes behind it, the join is last.
    let seen = Seen::new(n + 2);
    load::drain(&crew, &load, n + 1, &seen).await?;
    let last = Instant::now();
    let mut held = client.claim(Claim::new("bench", "bench-0").wait_ms(CLAIM_WAIT_MAX_MS)).await?.executions;
    let join_ms = last.elapsed().as_secs_f64() * 1000.0;
    let join = held.pop().context("check failed: the join is not ready")?;
    seen.claimed(&join)?;
    client.complete(Completion::of(&join)).await.context("the join could not be completed")?;
    let elapsed = begun.elapsed();
    let stats = since(bed.stats(), &before);
    watch.end();
    ensure!(seen.count() == n + 2, "check failed: workers got {} executions of {}", seen.count(), n + 2);
    verify::counts(&client, &[(PublicState::Completed, n + 2)]).await?;
    verify::flows(&client, PublicFlowState::Completed, 1).await?;
    bed.close().await?;
    let mut report = Report::new("fan-out", target);
    report.n = Some(n);
    report.workers = Some(load.workers);
    report.throughput_per_s = Some(rounded((n + 2) as f64 / elapsed.as_secs_f64()));
    report.floor_commit_ms = Some(rounded(floor_commit_ms));
    report.fan = Some(Fan {
        total_ms: rounded(elapsed.as_secs_f64() * 1000.0),
        created_ms: rounded(submitted.as_secs_f64() * 1000.0),
        join_ms: rounded(join_ms),
    });
    report.cpu_s = cpu_before.zip(process::cpu_s()).map(|(before, after)| rounded(after - before));
    report.count(&stats);
    Ok(report)
}

fn graph(load: &Load, n: u64) -> FlowSubmission {
    let mut flow = FlowSubmission::new("bench.fan").member("source", load.submission(0));
    for at in 1..=n {
        let key = format!("m{at}");
        flow = flow.member(key.clone(), load.submission(at)).edge("source", key.clone()).edge(key, "join");
    }
    flow.member("join", load.submission(n + 1))
}
