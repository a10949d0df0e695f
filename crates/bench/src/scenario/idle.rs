//! `idle`: what an engine costs that has nothing to do: some executions have ended, one starts in a year, a worker
//! waits. Nothing is drawn or counted meanwhile, because that would be measured too.

use crate::load::{self, Load};
use crate::options::Options;
use crate::process;
use crate::report::{Idle, Report, rounded, since};
use crate::target::Target;
use crate::verify::{self, Seen};
use crate::watch::{Silent, Watch};
use anyhow::{Context, Result, ensure};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_core::limits::{CLAIM_WAIT_MAX_MS, DAY_MS};
use weft_core::record::execution::PublicState;
use weft_engine::{Claim, Client};

const FINISHED: u64 = 200;

/// Until what the load left over has settled.
const SETTLE: Duration = Duration::from_secs(1);

pub async fn run(target: &impl Target, options: &Options, watch: &dyn Watch) -> Result<Report> {
    let seconds = options.seconds();
    let load = Load::new(options.payload(), 4, Arc::new(Silent));
    let bed = target.open(options.nodes()).await?;
    let crew = bed.crew()?;
    let client = crew.first().clone();
    let seen = Seen::new(FINISHED);
    let (_, ids) = load::lifecycle(&crew, &load, FINISHED, &seen).await?;
    client.submit(load.submission(FINISHED).delay_ms(365 * DAY_MS)).await.context("a submission was refused")?;
    let waiting = tokio::spawn(wait(client.clone()));

    watch.begin(&format!("idle for {seconds} s"), 0);
    tokio::time::sleep(SETTLE).await;
    let (before, cpu_before, begun) = (bed.stats(), process::cpu_s(), Instant::now());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (stats, cpu_after, elapsed) = (since(bed.stats(), &before), process::cpu_s(), begun.elapsed());
    watch.end();

    ensure!(!waiting.is_finished(), "check failed: a claim got something although nothing was there");
    waiting.abort();
    let expected = [(PublicState::Completed, FINISHED), (PublicState::Delayed, 1)];
    verify::counts(&client, &expected).await?;
    verify::results(&client, ids).await?;
    bed.close().await?;

    let cpu_s = cpu_before.zip(cpu_after).map(|(before, after)| after - before);
    let calls: u64 = stats.iter().map(weft_engine::Stats::store_calls).sum();
    let mut report = Report::new("idle", target);
    report.n = Some(FINISHED + 1);
    report.workers = Some(1);
    report.cpu_s = cpu_s.map(rounded);
    report.count(&stats);
    report.idle = Some(Idle {
        seconds: rounded(elapsed.as_secs_f64()),
        store_calls_per_s: rounded(calls as f64 / elapsed.as_secs_f64()),
        cpu_percent: cpu_s.map(|cpu_s| rounded(100.0 * cpu_s / elapsed.as_secs_f64())),
    });
    Ok(report)
}

/// A worker that is never given anything; it ends only if it is, or if it is refused.
async fn wait(client: Client) {
    loop {
        match client.claim(Claim::new("bench", "bench-0").wait_ms(CLAIM_WAIT_MAX_MS)).await {
            Ok(reply) if reply.executions.is_empty() => {}
            _ => return,
        }
    }
}
