//! The load itself: producers that submit in batches, workers that claim and complete in batches.
//!
//! Each execution carries its number in its input and gets a result that follows from it, so that afterwards every
//! outcome can be told apart from every other.

use crate::crew::Crew;
use crate::verify::{Seen, result_of};
use crate::watch::Watch;
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use weft_core::ExecutionId;
use weft_core::record::execution::Outcome;
use weft_core::reply::Claimed;
use weft_engine::{Claim, Client, Completion, Submission};

/// The namespace of every measured execution.
pub const NAMESPACE: &str = "bench";
pub const KIND: &str = "bench.noop";

/// Longer than any run may stand still: a claim that waits so long has found a fault.
const CLAIM_WAIT_MS: u64 = 30_000;

#[derive(Clone)]
pub struct Load {
    pub payload: usize,
    pub producers: usize,
    /// Executions per submitted batch.
    pub batch: usize,
    pub workers: usize,
    /// Executions per claim.
    pub claim_max: usize,
    pub watch: Arc<dyn Watch>,
}

impl Load {
    pub fn new(payload: usize, workers: usize, watch: Arc<dyn Watch>) -> Self {
        Self { payload, producers: 4, batch: 64, workers, claim_max: 64, watch }
    }

    pub fn submission(&self, number: u64) -> Submission {
        Submission::new(KIND).input(self.input(number))
    }

    /// Its number, and as much as is missing.
    pub fn input(&self, number: u64) -> Vec<u8> {
        let mut input = vec![b'.'; self.payload];
        input[..8].copy_from_slice(&number.to_le_bytes());
        input
    }
}

/// What was submitted, by number.
pub type Ids = Vec<(u64, ExecutionId)>;

/// Submits the executions of `numbers`; `keep` says whether their ids are needed afterwards.
pub async fn submit(crew: &Crew, load: &Load, numbers: Range<u64>, keep: bool) -> Result<Ids> {
    finish(spawn_producers(crew, load, numbers, keep)).await.map(|ids| ids.into_iter().flatten().collect())
}

fn spawn_producers(crew: &Crew, load: &Load, numbers: Range<u64>, keep: bool) -> JoinSet<Result<Ids>> {
    let next = Arc::new(AtomicU64::new(numbers.start));
    let mut producers = JoinSet::new();
    for index in 0..load.producers {
        producers.spawn(produce(crew.member(index).clone(), load.clone(), next.clone(), numbers.end, keep));
    }
    producers
}

async fn produce(client: Client, load: Load, next: Arc<AtomicU64>, end: u64, keep: bool) -> Result<Ids> {
    let mut ids = Vec::new();
    loop {
        let from = next.fetch_add(load.batch as u64, Ordering::Relaxed);
        let to = end.min(from.saturating_add(load.batch as u64));
        if from >= to {
            return Ok(ids);
        }
        let submitted = client.submit_batch((from..to).map(|number| load.submission(number)).collect()).await;
        for (number, submitted) in (from..to).zip(submitted) {
            let submitted = submitted.with_context(|| format!("submission {number} was refused"))?;
            ensure!(!submitted.duplicate, "check failed: submission {number} was called a duplicate");
            if keep {
                ids.push((number, submitted.id));
            }
        }
        load.watch.advance(to - from);
    }
}

/// Claims and completes `count` executions; every one of them must be new to `seen`.
pub async fn drain(crew: &Crew, load: &Load, count: u64, seen: &Arc<Seen>) -> Result<Duration> {
    let begun = Instant::now();
    finish(spawn_workers(crew, load, count, seen)).await?;
    Ok(begun.elapsed())
}

fn spawn_workers(crew: &Crew, load: &Load, count: u64, seen: &Arc<Seen>) -> JoinSet<Result<()>> {
    let tickets = Arc::new(AtomicU64::new(count));
    let mut workers = JoinSet::new();
    for index in 0..load.workers {
        workers.spawn(work(crew.member(index).clone(), load.clone(), index, tickets.clone(), seen.clone()));
    }
    workers
}

/// Submits and drains at the same time: from the first submission to the last acknowledged completion.
pub async fn lifecycle(crew: &Crew, load: &Load, count: u64, seen: &Arc<Seen>) -> Result<(Duration, Ids)> {
    let begun = Instant::now();
    let workers = spawn_workers(crew, load, count, seen);
    let producers = spawn_producers(crew, load, 0..count, true);
    // The first error counts: without producers the workers would only find out that nothing comes.
    let (ids, _) = tokio::try_join!(finish(producers), finish(workers))?;
    let elapsed = begun.elapsed();
    Ok((elapsed, ids.into_iter().flatten().collect()))
}

/// A ticket is the right to claim one execution. Together the tickets are exactly the executions that nobody has
/// claimed, so a claim never waits for something that does not come, and no worker takes more than the run is about.
fn take_tickets(tickets: &AtomicU64, wanted: usize) -> usize {
    let mut taken = 0;
    let _ = tickets.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        taken = left.min(wanted as u64);
        Some(left - taken)
    });
    taken as usize
}

/// Completes what it has while it claims the next, so that both can share a commit.
async fn work(client: Client, load: Load, index: usize, tickets: Arc<AtomicU64>, seen: Arc<Seen>) -> Result<()> {
    let instance = format!("bench-{index}");
    let mut held: Vec<Claimed> = Vec::new();
    loop {
        let wanted = take_tickets(&tickets, load.claim_max);
        if wanted == 0 && held.is_empty() {
            return Ok(());
        }
        let (claimed, completed) =
            tokio::join!(claim(&client, &instance, wanted), complete(&client, std::mem::take(&mut held), &seen));
        load.watch.advance(completed?);
        held = claimed?;
        tickets.fetch_add((wanted - held.len()) as u64, Ordering::Relaxed);
    }
}

async fn claim(client: &Client, instance: &str, wanted: usize) -> Result<Vec<Claimed>> {
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let claim = Claim::new("bench", instance).max(wanted).wait_ms(CLAIM_WAIT_MS);
    let reply = client.claim(claim).await.context("a claim was refused")?;
    if reply.executions.is_empty() && !reply.more {
        bail!("check failed: a claim found nothing for {} s although work was left", CLAIM_WAIT_MS / 1000);
    }
    ensure!(reply.executions.len() <= wanted, "check failed: a claim for {wanted} got {}", reply.executions.len());
    Ok(reply.executions)
}

async fn complete(client: &Client, held: Vec<Claimed>, seen: &Seen) -> Result<u64> {
    if held.is_empty() {
        return Ok(0);
    }
    let mut completions = Vec::with_capacity(held.len());
    for work in &held {
        let number = seen.claimed(work)?;
        completions.push(Completion::of(work).result(Bytes::from(result_of(number).to_vec())));
    }
    for completed in client.complete_batch(completions).await {
        let completed = completed.context("a completion was refused")?;
        ensure!(completed.outcome == Outcome::Success, "check failed: a completion ended as {:?}", completed.outcome);
        ensure!(!completed.repeated, "check failed: a completion was taken for a repeat");
    }
    Ok(held.len() as u64)
}

/// Waits for all tasks; the first error ends them all.
pub(crate) async fn finish<T: 'static>(mut tasks: JoinSet<Result<T>>) -> Result<Vec<T>> {
    let mut results = Vec::with_capacity(tasks.len());
    while let Some(result) = tasks.join_next().await {
        results.push(result.context("a task of the load stopped")??);
    }
    Ok(results)
}
