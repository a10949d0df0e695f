//! `latency`: one execution at a time on an idle engine, from the call of submit until its completion is acknowledged.
//! A worker waits in claim all the time, so that a submission is handed over in its own commit.

use crate::load::Load;
use crate::options::Options;
use crate::process;
use crate::report::{Report, quantile, rounded, since};
use crate::target::Target;
use crate::verify::{self, Seen, result_of};
use crate::watch::{Silent, Watch};
use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc;
use weft_core::ExecutionId;
use weft_core::limits::CLAIM_WAIT_MAX_MS;
use weft_core::record::execution::PublicState;
use weft_engine::{Claim, Client, Completion};

/// Rounds before the sides change.
const BLOCK: u64 = 60;

/// What the worker saw of one execution.
struct Worked {
    id: ExecutionId,
    completed_at: Instant,
}

pub async fn run(target: &impl Target, options: &Options, watch: &dyn Watch) -> Result<Report> {
    let rounds = options.n.unwrap_or(300);
    let load = Load::new(options.payload(), 1, Arc::new(Silent));
    let cpu_before = process::cpu_s();
    let bed = target.open(1).await?;
    let client = bed.crew()?.first().clone();
    let seen = Seen::new(rounds);
    let (done, mut worked) = mpsc::unbounded_channel();
    let worker = tokio::spawn(work(client.clone(), seen.clone(), rounds, done));
    let before = bed.stats();
    let (mut times_ms, mut floor_ms, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    watch.begin("latency", rounds);
    for from in (0..rounds).step_by(BLOCK as usize) {
        floor_ms.push(target.floor(0, load.payload).await?.commit_ms);
        let numbers = from..rounds.min(from + BLOCK);
        watch.advance(numbers.end - numbers.start);
        // On a task of its own, as in a service: the thread that drives the runtime is not part of the measurement.
        let block = tokio::spawn(submit(client.clone(), load.clone(), numbers, worked));
        let (timed, receiver) = match block.await.context("a task of the load stopped")? {
            Ok(measured) => measured,
            Err(Ended::Worker) => bail!("check failed: {}", why(worker).await),
            Err(Ended::Check(error)) => return Err(error),
        };
        worked = receiver;
        for (number, id, ms) in timed {
            times_ms.push(ms);
            ids.push((number, id));
        }
    }
    watch.end();
    let stats = since(bed.stats(), &before);
    verify::counts(&client, &[(PublicState::Completed, rounds)]).await?;
    verify::results(&client, ids).await?;
    bed.close().await?;

    times_ms.sort_by(f64::total_cmp);
    floor_ms.sort_by(f64::total_cmp);
    // The median of both sides, taken in turn and one right after the other: neither has the better of the machine.
    let (p50_ms, floor_commit_ms) = (quantile(&times_ms, 0.5), quantile(&floor_ms, 0.5));
    let mut report = Report::new("latency", target);
    report.n = Some(rounds);
    report.workers = Some(1);
    report.p50_ms = Some(rounded(p50_ms));
    report.p95_ms = Some(rounded(quantile(&times_ms, 0.95)));
    report.p99_ms = Some(rounded(quantile(&times_ms, 0.99)));
    report.floor_commit_ms = Some(rounded(floor_commit_ms));
    report.ratio_to_floor = Some(rounded(p50_ms / floor_commit_ms));
    report.cpu_s = cpu_before.zip(process::cpu_s()).map(|(before, after)| rounded(after - before));
    report.count(&stats);
    Ok(report)
}

/// Why a block was not measured to its end.
enum Ended {
    Worker,
    Check(anyhow::Error),
}

type Timed = Vec<(u64, ExecutionId, f64)>;

/// Submits one execution after the other, each when the one before is done; answers how many milliseconds each took.
async fn submit(
    client: Client,
    load: Load,
    numbers: Range<u64>,
    mut worked: mpsc::UnboundedReceiver<Worked>,
) -> Result<(Timed, mpsc::UnboundedReceiver<Worked>), Ended> {
    let mut timed = Vec::with_capacity(BLOCK as usize);
    for number in numbers {
        let begun = Instant::now();
        let submitted = client.submit(load.submission(number)).await.context("a submission was refused");
        let id = submitted.map_err(Ended::Check)?.id;
        let done = worked.recv().await.ok_or(Ended::Worker)?;
        if done.id != id {
            return Err(Ended::Check(anyhow!("check failed: the worker got another execution than the submitted one")));
        }
        timed.push((number, id, done.completed_at.duration_since(begun).as_secs_f64() * 1000.0));
    }
    Ok((timed, worked))
}

/// Claims one execution after the other and completes it at once. Its next claim waits before the completion is sent, so
/// that it is there when the completion is acknowledged and the next submission comes.
async fn work(client: Client, seen: Arc<Seen>, rounds: u64, done: mpsc::UnboundedSender<Worked>) -> Result<()> {
    let claim = || client.claim(Claim::new("bench", "bench-0").wait_ms(CLAIM_WAIT_MAX_MS));
    let mut reply = claim().await;
    for _ in 0..rounds {
        let claimed = reply.context("a claim was refused")?.executions;
        let work = claimed.first().context("a claim found nothing for a minute")?;
        let number = seen.claimed(work)?;
        let completion = client.complete(Completion::of(work).result(Bytes::from(result_of(number).to_vec())));
        let next = claim();
        tokio::pin!(next, completion);
        tokio::select! {
            biased;
            _ = &mut next => bail!("a claim was answered although nothing had been submitted"),
            completed = &mut completion => completed.context("a completion was refused")?,
        };
        if done.send(Worked { id: work.id, completed_at: Instant::now() }).is_err() {
            return Ok(());
        }
        reply = next.await;
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
