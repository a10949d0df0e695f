//! `latency`: one execution at a time on an idle engine, from the call of submit until its completion is acknowledged.
//! A worker waits in claim all the time, so that a submission is handed over in its own commit.

use crate::load::{Load, NAMESPACE};
use crate::options::Options;
use crate::process;
use crate::report::{Report, quantile, rounded};
use crate::target::Target;
use crate::verify::{self, Seen, result_of};
use crate::watch::{Silent, Watch};
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use weft_core::ExecutionId;
use weft_core::record::execution::PublicState;
use weft_engine::{Claim, Client, Completion};

/// Rounds before the sides change.
const BLOCK: u64 = 60;

/// Between two rounds, so that each finds the engine idle and the worker waiting.
const PAUSE: Duration = Duration::from_millis(2);

/// What the worker saw of one execution.
struct Worked {
    id: ExecutionId,
    completed_at: Instant,
}

pub async fn run(target: &impl Target, options: &Options, watch: &dyn Watch) -> Result<Report> {
    let rounds = options.n.unwrap_or(300);
    let load = Load::new(options.payload(), 1, Arc::new(Silent));
    let cpu_before = process::cpu_s();
    let bed = target.open().await?;
    let client = bed.engine.client(NAMESPACE)?;
    let seen = Seen::new(rounds);
    let (done, mut worked) = mpsc::unbounded_channel();
    let worker = tokio::spawn(work(client.clone(), seen.clone(), rounds, done));
    let before = bed.engine.stats();
    let (mut times_ms, mut floor_commit_ms) = (Vec::new(), f64::INFINITY);
    let mut ids = Vec::new();
    watch.begin("latency", rounds);
    for number in 0..rounds {
        if number % BLOCK == 0 {
            floor_commit_ms = floor_commit_ms.min(target.floor(0, load.payload)?.commit_ms);
        }
        tokio::time::sleep(PAUSE).await;
        let begun = Instant::now();
        let submitted = client.submit(load.submission(number)).await.context("a submission was refused")?;
        let Some(seen) = worked.recv().await else { bail!("check failed: {}", why(worker).await) };
        ensure!(seen.id == submitted.id, "check failed: the worker got another execution than the submitted one");
        times_ms.push(seen.completed_at.duration_since(begun).as_secs_f64() * 1000.0);
        ids.push((number, submitted.id));
        watch.advance(1);
    }
    watch.end();
    let stats = bed.engine.stats().since(before);
    verify::counts(&client, &[(PublicState::Completed, rounds)]).await?;
    verify::results(&client, ids).await?;
    bed.close().await;

    times_ms.sort_by(f64::total_cmp);
    let mut report = Report::new("latency", target);
    report.n = Some(rounds);
    report.workers = Some(1);
    report.p50_ms = Some(rounded(quantile(&times_ms, 0.5)));
    report.p95_ms = Some(rounded(quantile(&times_ms, 0.95)));
    report.p99_ms = Some(rounded(quantile(&times_ms, 0.99)));
    report.floor_commit_ms = Some(rounded(floor_commit_ms));
    report.ratio_to_floor = Some(rounded(quantile(&times_ms, 0.5) / floor_commit_ms));
    report.cpu_s = cpu_before.zip(process::cpu_s()).map(|(before, after)| rounded(after - before));
    report.count(stats);
    Ok(report)
}

/// Claims one execution after the other and completes it at once.
async fn work(client: Client, seen: Arc<Seen>, rounds: u64, done: mpsc::UnboundedSender<Worked>) -> Result<()> {
    for _ in 0..rounds {
        let claim = Claim::new("bench", "bench-0").wait_ms(60_000);
        let reply = client.claim(claim).await.context("a claim was refused")?;
        let work = reply.executions.first().context("a claim found nothing for a minute")?;
        let number = seen.claimed(work)?;
        let completion = Completion::of(work).result(Bytes::from(result_of(number).to_vec()));
        client.complete(completion).await.context("a completion was refused")?;
        if done.send(Worked { id: work.id, completed_at: Instant::now() }).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// What ended the worker.
async fn why(worker: tokio::task::JoinHandle<Result<()>>) -> String {
    match worker.await {
        Ok(Ok(())) => "the worker ended too early".to_owned(),
        Ok(Err(error)) => format!("{error:#}"),
        Err(error) => error.to_string(),
    }
}
