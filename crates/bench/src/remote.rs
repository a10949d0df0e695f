//! The load through the SDK: producers that submit in batches, and one worker with a number of handlers. It is the same
//! over HTTP and in the process of the engine.

use crate::load::{Ids, KIND, Load, finish};
use crate::verify::{Seen, result_of};
use anyhow::{Context, Result, ensure};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use weft_sdk::api::execution::{Submit, SubmitBatch};
use weft_sdk::{Args, Client, Failure, Payload, State, Task, Worker, op};

/// What handlers share.
#[derive(Clone)]
struct Board {
    seen: Arc<Seen>,
    left: Arc<AtomicU64>,
    all: Arc<Notify>,
    load: Load,
}

/// Submits and drains at the same time: from the first submission to the last acknowledged completion.
pub async fn lifecycle(client: &Client, load: &Load, count: u64, seen: &Arc<Seen>) -> Result<(Duration, Ids)> {
    let board = Board {
        seen: seen.clone(),
        left: Arc::new(AtomicU64::new(count)),
        all: Arc::new(Notify::new()),
        load: load.clone(),
    };
    let all = board.all.clone();
    // What the handlers have done is acknowledged when the worker has drained.
    let worker = Worker::new(client.clone()).concurrency(load.workers).state(board).handle(KIND, handle);
    let begun = Instant::now();
    let worker = tokio::spawn(worker.run_until(async move { all.notified().await }));
    let ids = finish(spawn_producers(client, load, 0..count)).await?;
    worker.await.context("the worker stopped")?.context("the worker was refused")?;
    Ok((begun.elapsed(), ids.into_iter().flatten().collect()))
}

/// Checks that the work is new, and answers with the result that follows from its number.
async fn handle(State(board): State<Board>, task: Task) -> Result<Payload, Failure> {
    let input = task.input().map(|input| &input.bytes);
    let number = board.seen.got(&task.id(), input).map_err(|error| Failure::permanent(format!("{error:#}")))?;
    board.load.watch.advance(1);
    if board.left.fetch_sub(1, Ordering::Relaxed) == 1 {
        board.all.notify_one();
    }
    Ok(Payload::new(result_of(number).to_vec(), None))
}

fn spawn_producers(client: &Client, load: &Load, numbers: Range<u64>) -> JoinSet<Result<Ids>> {
    let next = Arc::new(AtomicU64::new(numbers.start));
    let mut producers = JoinSet::new();
    for _ in 0..load.producers {
        producers.spawn(produce(client.clone(), load.clone(), next.clone(), numbers.end));
    }
    producers
}

async fn produce(client: Client, load: Load, next: Arc<AtomicU64>, end: u64) -> Result<Ids> {
    let mut ids = Vec::new();
    loop {
        let from = next.fetch_add(load.batch as u64, Ordering::Relaxed);
        let to = end.min(from.saturating_add(load.batch as u64));
        if from >= to {
            return Ok(ids);
        }
        let item = |number| Submit {
            kind: KIND.to_owned(),
            input: Some(Payload::new(load.input(number), None)),
            ..Submit::default()
        };
        let body = SubmitBatch { items: (from..to).map(item).collect(), atomic: false };
        let reply = client.call::<op::SubmitExecutions>(Args { body, ..Args::default() }).await;
        for (number, submitted) in (from..to).zip(reply.context("a batch was refused")?.results) {
            let submitted = submitted.into_result().with_context(|| format!("submission {number} was refused"))?;
            ensure!(!submitted.duplicate, "check failed: submission {number} was called a duplicate");
            let id = submitted.id.parse().ok().context("check failed: an id is not one")?;
            ids.push((number, id));
        }
        load.watch.advance(to - from);
    }
}
