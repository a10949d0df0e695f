//! `large-flow`: a flow of a hundred thousand members is made, run for a part and cancelled, while other work goes on
//! beside it: how long that ever stood still, and how soon the flow tells its totals.

use crate::load::{self, Load, NAMESPACE};
use crate::options::Options;
use crate::process;
use crate::report::{Large, Report, quantile, rounded, since};
use crate::target::Target;
use crate::verify::{self, Seen};
use crate::watch::{Silent, Watch};
use anyhow::{Context, Result, ensure};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_core::FlowId;
use weft_core::limits::FLOW_MEMBERS_MAX;
use weft_core::record::execution::PublicState;
use weft_core::record::flow::PublicFlowState;
use weft_engine::flow::{FlowCancellation, FlowSubmission, Growing, Sealing};
use weft_engine::{Claim, Client, Completion, Submission};

/// Members that are added with one call: one, and the others behind it.
const CLUSTER: u64 = 700;
/// The share of the members that run before the rest is cancelled.
const RUN_SHARE: u64 = 5;
/// How often the totals are asked for.
const ASK_EVERY: Duration = Duration::from_millis(10);
const OTHER: &str = "other";

pub async fn run(target: &impl Target, options: &Options, watch: Arc<dyn Watch>) -> Result<Report> {
    let n = options.n.unwrap_or(u64::from(FLOW_MEMBERS_MAX));
    let most = u64::from(FLOW_MEMBERS_MAX);
    ensure!(n <= most, "`--n` is {n}, allowed are 10 to {most}: a flow has no more members");
    let load = Load::new(options.payload(), options.workers(), Arc::new(Silent));
    let cpu_before = process::cpu_s();
    let bed = target.open(1).await?;
    let crew = bed.crew()?;
    let client = crew.first().clone();
    let before = bed.stats();
    watch.begin("large-flow", 3);
    let flow = client.submit_flow(FlowSubmission::new("bench.large").unsealed()).await.context("no flow")?.value.id;
    let over = Arc::new(AtomicBool::new(false));
    let other = tokio::spawn(others(client.clone(), over.clone()));
    let asking = tokio::spawn(ask(client.clone(), flow, over.clone()));

    let begun = Instant::now();
    grow(&client, &load, flow, n).await?;
    let made = begun.elapsed();
    watch.advance(1);
    let ran = n / RUN_SHARE;
    let seen = Seen::new(n);
    let drained = load::drain(&crew, &load, ran, &seen).await?;
    watch.advance(1);
    let cancelling = Instant::now();
    let cancellation = FlowCancellation::new(flow, "measured").wait_ms(60_000);
    let ended = client.cancel_flow(cancellation).await.context("the flow could not be cancelled")?.value;
    let cancelled = cancelling.elapsed();
    watch.advance(1);

    over.store(true, Ordering::Relaxed);
    let mut pauses_ms = other.await.context("the other work stopped")??;
    let mut totals_ms = asking.await.context("nobody asked for totals")??;
    watch.end();
    let stats = since(bed.stats(), &before);
    ensure!(ended.done, "check failed: the flow did not end within a minute");
    let summary = client.flow(flow).await.context("the flow could not be read")?.flow.summary;
    let found = [PublicState::Completed, PublicState::Cancelled].map(|state| u64::from(summary.of(state)));
    ensure!(found == [ran, n - ran], "check failed: {found:?} members completed and were cancelled");
    verify::flows(&client, PublicFlowState::Cancelled, 1).await?;
    bed.close().await?;

    pauses_ms.sort_by(f64::total_cmp);
    totals_ms.sort_by(f64::total_cmp);
    let mut report = Report::new("large-flow", target);
    report.n = Some(n);
    report.workers = Some(load.workers);
    report.drain_per_s = Some(rounded(ran as f64 / drained.as_secs_f64()));
    report.p50_ms = Some(rounded(quantile(&pauses_ms, 0.5)));
    report.p95_ms = Some(rounded(quantile(&pauses_ms, 0.95)));
    report.p99_ms = Some(rounded(quantile(&pauses_ms, 0.99)));
    report.large = Some(Large {
        made_ms: rounded(made.as_secs_f64() * 1000.0),
        cancelled_ms: rounded(cancelled.as_secs_f64() * 1000.0),
        pause_max_ms: rounded(quantile(&pauses_ms, 1.0)),
        totals_p50_ms: rounded(quantile(&totals_ms, 0.5)),
        totals_p99_ms: rounded(quantile(&totals_ms, 0.99)),
    });
    report.cpu_s = cpu_before.zip(process::cpu_s()).map(|(before, after)| rounded(after - before));
    report.count(&stats);
    Ok(report)
}

/// Adds all members, cluster by cluster, and seals the flow.
async fn grow(client: &Client, load: &Load, flow: FlowId, n: u64) -> Result<()> {
    for first in (0..n).step_by(CLUSTER as usize) {
        let hub = format!("m{first}");
        let mut growing = Growing::new(flow).member(hub.clone(), load.submission(first));
        for number in first + 1..n.min(first + CLUSTER) {
            let key = format!("m{number}");
            growing = growing.member(key.clone(), load.submission(number)).edge(hub.clone(), key);
        }
        client.grow_flow(growing).await.with_context(|| format!("the members from {first} on were refused"))?;
    }
    client.seal_flow(Sealing::new(flow)).await.context("the flow could not be sealed")?;
    Ok(())
}

/// One execution after the other of somebody else: submitted, claimed and completed. The milliseconds of each call.
async fn others(client: Client, over: Arc<AtomicBool>) -> Result<Vec<f64>> {
    let mut took = Vec::new();
    let claim = || Claim::new(OTHER, OTHER).weighted_lane(OTHER, 1).wait_ms(10_000);
    while !over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        client.submit(Submission::new("bench.other").lane(OTHER)).await.context("other work was refused")?;
        let submitted = begun.elapsed();
        let work = client.claim(claim()).await.context("other work was not handed out")?.executions.pop();
        let claimed = begun.elapsed();
        let work = work.context("check failed: other work was not there")?;
        client.complete(Completion::of(&work)).await.context("other work could not be completed")?;
        let calls = [submitted, claimed - submitted, begun.elapsed() - claimed];
        took.extend(calls.map(|call| call.as_secs_f64() * 1000.0));
    }
    Ok(took)
}

/// Asks for the totals of the flow again and again: how many milliseconds each answer took.
async fn ask(client: Client, flow: FlowId, over: Arc<AtomicBool>) -> Result<Vec<f64>> {
    let mut took = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        client.flow(flow).await.with_context(|| format!("the totals of `{flow}` in `{NAMESPACE}` could not be had"))?;
        took.push(begun.elapsed().as_secs_f64() * 1000.0);
        tokio::time::sleep(ASK_EVERY).await;
    }
    Ok(took)
}
