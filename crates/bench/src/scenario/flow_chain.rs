//! `flow-chain`: flows of ten steps in a row, all at once, beside `lifecycle` with as many executions; then one flow at a
//! time, from the start of a step to the start of the next.

use super::{ROUNDS, lifecycle};
use crate::crew::Crew;
use crate::load::{self, Load};
use crate::options::Options;
use crate::process;
use crate::report::{Chains, Report, quantile, rounded, since};
use crate::target::Target;
use crate::verify::{self, Seen};
use crate::watch::{Silent, Watch};
use anyhow::{Context, Result, ensure};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use weft_core::limits::CLAIM_WAIT_MAX_MS;
use weft_core::record::execution::PublicState;
use weft_core::record::flow::PublicFlowState;
use weft_engine::flow::FlowSubmission;
use weft_engine::{Claim, Client, Completion, Stats};

const STEPS: u64 = 10;
/// Flows that are measured one at a time.
const ALONE: u64 = 30;

pub async fn run(target: &impl Target, options: &Options, watch: Arc<dyn Watch>) -> Result<Report> {
    let flows = options.n.unwrap_or(200);
    let n = flows * STEPS;
    let load = Load::new(options.payload(), options.workers(), watch.clone());
    let cpu_before = process::cpu_s();
    let (mut best, mut plain_per_s, mut stats) = (0.0f64, 0.0f64, Vec::new());
    let (mut steps_ms, mut floor_ms) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        plain_per_s = plain_per_s.max(lifecycle::whole(target, 1, &load, n).await?.0);
        let (elapsed, did) = together(target, &load, flows).await?;
        let per_s = n as f64 / elapsed.as_secs_f64();
        if per_s > best {
            (best, stats) = (per_s, did);
        }
        watch.begin("one at a time", 0);
        floor_ms.push(target.floor(0, load.payload).await?.commit_ms);
        steps_ms.extend(alone(target, &load).await?);
        watch.end();
    }
    steps_ms.sort_by(f64::total_cmp);
    floor_ms.sort_by(f64::total_cmp);
    let (p50_ms, floor_commit_ms) = (quantile(&steps_ms, 0.5), quantile(&floor_ms, 0.5));
    let mut report = Report::new("flow-chain", target);
    report.n = Some(n);
    report.workers = Some(load.workers);
    report.throughput_per_s = Some(rounded(best));
    report.p50_ms = Some(rounded(p50_ms));
    report.p95_ms = Some(rounded(quantile(&steps_ms, 0.95)));
    report.p99_ms = Some(rounded(quantile(&steps_ms, 0.99)));
    report.floor_commit_ms = Some(rounded(floor_commit_ms));
    report.ratio_to_floor = Some(rounded(p50_ms / floor_commit_ms));
    report.chains = Some(Chains {
        flows_per_s: rounded(best / STEPS as f64),
        lifecycle_per_s: rounded(plain_per_s),
        ratio_to_lifecycle: rounded(best / plain_per_s),
    });
    report.cpu_s = cpu_before.zip(process::cpu_s()).map(|(before, after)| rounded(after - before));
    report.count(&stats);
    Ok(report)
}

/// A chain whose steps carry the numbers from `first` on.
fn chain(load: &Load, first: u64) -> FlowSubmission {
    let mut flow = FlowSubmission::new("bench.chain");
    for step in 0..STEPS {
        flow = flow.member(format!("s{step}"), load.submission(first + step));
        if step > 0 {
            flow = flow.edge(format!("s{}", step - 1), format!("s{step}"));
        }
    }
    flow
}

/// All flows at once: from the first submission to the last acknowledged completion.
async fn together(target: &impl Target, load: &Load, flows: u64) -> Result<(Duration, Vec<Stats>)> {
    let bed = target.open(1).await?;
    let crew = bed.crew()?;
    let n = flows * STEPS;
    let seen = Seen::new(n);
    load.watch.begin("flow-chain", n);
    let before = bed.stats();
    let begun = Instant::now();
    let producers = spawn_producers(&crew, load, flows);
    tokio::try_join!(load::finish(producers), load::drain(&crew, load, n, &seen))?;
    let elapsed = begun.elapsed();
    let stats = since(bed.stats(), &before);
    load.watch.end();
    ensure!(seen.count() == n, "check failed: workers got {} executions of {n}", seen.count());
    verify::counts(crew.first(), &[(PublicState::Completed, n)]).await?;
    verify::flows(crew.first(), PublicFlowState::Completed, flows).await?;
    bed.close().await?;
    Ok((elapsed, stats))
}

fn spawn_producers(crew: &Crew, load: &Load, flows: u64) -> JoinSet<Result<()>> {
    let next = Arc::new(AtomicU64::new(0));
    let mut producers = JoinSet::new();
    for index in 0..load.producers * 4 {
        let (client, load, next) = (crew.member(index).clone(), load.clone(), next.clone());
        producers.spawn(async move {
            loop {
                let flow = next.fetch_add(1, Ordering::Relaxed);
                if flow >= flows {
                    return Ok(());
                }
                client.submit_flow(chain(&load, flow * STEPS)).await.context("a flow was refused")?;
            }
        });
    }
    producers
}

/// One flow after the other with one worker that waits: the times from step to step in milliseconds.
async fn alone(target: &impl Target, load: &Load) -> Result<Vec<f64>> {
    let load = Load { watch: Arc::new(Silent), ..load.clone() };
    let bed = target.open(1).await?;
    let client = bed.crew()?.first().clone();
    let times = tokio::spawn(step_by_step(client, load)).await.context("a task of the load stopped")??;
    bed.close().await?;
    Ok(times)
}

async fn step_by_step(client: Client, load: Load) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    let claim = || client.claim(Claim::new("bench", "bench-0").wait_ms(CLAIM_WAIT_MAX_MS));
    for flow in 0..ALONE {
        client.submit_flow(chain(&load, flow * STEPS)).await.context("a flow was refused")?;
        let mut held = claim().await.context("a claim was refused")?.executions;
        for step in 0..STEPS {
            let work = held.pop().context("check failed: a step was not there")?;
            let begun = Instant::now();
            let completion = client.complete(Completion::of(&work));
            if step + 1 == STEPS {
                completion.await.context("a completion was refused")?;
                break;
            }
            let (reply, completed) = tokio::join!(claim(), completion);
            completed.context("a completion was refused")?;
            held = reply.context("a claim was refused")?.executions;
            times.push(begun.elapsed().as_secs_f64() * 1000.0);
        }
    }
    Ok(times)
}
