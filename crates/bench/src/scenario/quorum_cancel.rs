//! `quorum-cancel`: many siblings run, one succeeds, and the others are cancelled: the time from that completion until the
//! last of them is fenced, and until the records of all of them say so.

use crate::load::Load;
use crate::options::Options;
use crate::process;
use crate::report::{Cancels, Report, quantile, rounded, since};
use crate::target::Target;
use crate::watch::Watch;
use anyhow::{Context, Result, ensure};
use std::sync::Arc;
use std::time::Instant;
use weft_core::limits::CLAIM_MAX;
use weft_core::record::execution::PublicState;
use weft_core::record::flow::Mode;
use weft_core::record::member::{GroupPolicy, Then};
use weft_engine::flow::{FlowCancellation, FlowSubmission, Member};
use weft_engine::{Claim, Client, Completion};

const SIZES: [u64; 3] = [10, 100, 1_000];
/// Losers that try to complete as soon as the winner has: those whose own records are written last.
const TRIED: usize = 8;

pub async fn run(target: &impl Target, options: &Options, watch: Arc<dyn Watch>) -> Result<Report> {
    let rounds = options.n.unwrap_or(20);
    let load = Load::new(options.payload(), 1, watch.clone());
    let cpu_before = process::cpu_s();
    let bed = target.open(1).await?;
    let client = bed.crew()?.first().clone();
    let before = bed.stats();
    watch.begin("quorum-cancel", rounds * SIZES.len() as u64);
    let (mut times, mut written, mut floor_ms): ([Vec<f64>; 3], _, _) = (Default::default(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        floor_ms.push(target.floor(0, load.payload).await?.commit_ms);
        for (size, times) in SIZES.into_iter().zip(&mut times) {
            let race = tokio::spawn(race(client.clone(), load.clone(), size)).await.context("a race stopped")??;
            times.push(race.fenced_ms);
            if size == SIZES[2] {
                written.push(race.written_ms);
            }
            watch.advance(1);
        }
    }
    watch.end();
    let stats = since(bed.stats(), &before);
    bed.close().await?;
    times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    written.sort_by(f64::total_cmp);
    floor_ms.sort_by(f64::total_cmp);
    let floor_commit_ms = quantile(&floor_ms, 0.5);
    let [ten, hundred, thousand] = &times;
    let p99_ms = quantile(thousand, 0.99);
    let mut report = Report::new("quorum-cancel", target);
    report.n = Some(rounds);
    report.workers = Some(1);
    report.p50_ms = Some(rounded(quantile(thousand, 0.5)));
    report.p95_ms = Some(rounded(quantile(thousand, 0.95)));
    report.p99_ms = Some(rounded(p99_ms));
    report.floor_commit_ms = Some(rounded(floor_commit_ms));
    report.ratio_to_floor = Some(rounded(p99_ms / floor_commit_ms));
    report.cancels = Some(Cancels {
        ten_p50_ms: rounded(quantile(ten, 0.5)),
        hundred_p50_ms: rounded(quantile(hundred, 0.5)),
        thousand_p50_ms: rounded(quantile(thousand, 0.5)),
        written_p50_ms: rounded(quantile(&written, 0.5)),
        written_p99_ms: rounded(quantile(&written, 0.99)),
    });
    report.cpu_s = cpu_before.zip(process::cpu_s()).map(|(before, after)| rounded(after - before));
    report.count(&stats);
    Ok(report)
}

struct Race {
    /// Until the winner's completion was acknowledged: from then on no loser changes anything.
    fenced_ms: f64,
    /// Until all losers were cancelled on record.
    written_ms: f64,
}

/// All siblings run; one is completed.
async fn race(client: Client, load: Load, size: u64) -> Result<Race> {
    let first = Member::new("first", load.submission(size));
    let mut flow =
        FlowSubmission::new("bench.race").with(first.join(GroupPolicy::AnyOf, Then::CancelRemaining(Mode::Immediate)));
    for at in 0..size {
        let key = format!("r{at}");
        flow = flow.member(key.clone(), load.submission(at)).edge(key, "first");
    }
    let flow = client.submit_flow(flow).await.context("a flow was refused")?.value.id;
    let mut held = Vec::new();
    while (held.len() as u64) < size {
        let claim = Claim::new("bench", "bench-0").max(CLAIM_MAX).wait_ms(5_000);
        let claimed = client.claim(claim).await.context("a claim was refused")?.executions;
        ensure!(!claimed.is_empty(), "check failed: {} of {size} siblings were claimable", held.len());
        held.extend(claimed);
    }
    // The first one wins, so that the last ones are the last to be cancelled.
    let winner = held.remove(0);
    let begun = Instant::now();
    client.complete(Completion::of(&winner)).await.context("a completion was refused")?;
    let fenced_ms = begun.elapsed().as_secs_f64() * 1000.0;
    for loser in held.iter().rev().take(TRIED) {
        let late = client.complete(Completion::of(loser)).await;
        ensure!(late.is_err_and(|refused| refused.code() == "cancelled"), "check failed: a loser could complete");
    }
    loop {
        let summary = client.flow(flow).await.context("the flow could not be read")?.flow.summary;
        let completed = summary.of(PublicState::Completed);
        ensure!(completed == 1, "check failed: {completed} of the siblings completed");
        if u64::from(summary.of(PublicState::Cancelled)) == size - 1 {
            break;
        }
        tokio::task::yield_now().await;
    }
    let written_ms = begun.elapsed().as_secs_f64() * 1000.0;
    client.cancel_flow(FlowCancellation::new(flow, "measured")).await.context("the flow could not be cancelled")?;
    Ok(Race { fenced_ms, written_ms })
}
