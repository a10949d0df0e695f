//! The workers of the demo. They do nothing but wait, and fail where their kind is about failing.

use super::board::Board;
use super::plan::{self, CHILDREN, Kind};
use super::producer::{ENCODER, IMPORTER};
use anyhow::{Context, Result};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::task::JoinSet;
use weft_core::error::{Class, Rejection};
use weft_core::record::attempt::AttemptKind;
use weft_core::record::execution::AfterFailure;
use weft_core::reply::{Children, Claimed};
use weft_engine::{Cancellation, Claim, Client, Completion, Failing, Notice, Progressing, Submission, Waiting};

const CLAIM_WAIT_MS: u64 = 10_000;
const LEASE_MS: u64 = 10_000;

/// Short, so that a dead worker's execution is soon somebody else's.
const ENCODER_LEASE_MS: u64 = 1_500;
const ENCODER_LIVES: Duration = Duration::from_millis(700);

/// Starts all workers; the tasks end only with the set, or with an error.
pub fn start(client: &Client, board: &Arc<Board>) -> JoinSet<Result<()>> {
    let mut workers = JoinSet::new();
    for worker in 1..=plan::WORKERS {
        for slot in 1..=plan::SLOTS {
            workers.spawn(any_work(client.clone(), board.clone(), format!("worker-{worker}.{slot}")));
        }
    }
    workers.spawn(encode(client.clone(), board.clone()));
    workers.spawn(import(client.clone(), board.clone()));
    workers
}

async fn next(client: &Client, claim: Claim) -> Result<Claimed> {
    loop {
        let reply = client.claim(claim.clone().wait_ms(CLAIM_WAIT_MS)).await.context("a claim was refused")?;
        if let Some(work) = reply.executions.into_iter().next() {
            return Ok(work);
        }
    }
}

/// A worker without special abilities: one execution after the other.
async fn any_work(client: Client, board: Arc<Board>, instance: String) -> Result<()> {
    let claim = Claim::new("worker", instance).lease_ms(LEASE_MS);
    loop {
        let work = next(&client, claim.clone()).await?;
        match handle(&client, &board, &work).await {
            Ok(()) => {}
            // Somebody else has the work, or nobody may: a worker drops it and goes on.
            Err(rejection) if rejection.class() == Class::Stop => {}
            Err(rejection) => return Err(rejection).with_context(|| format!("`{}` could not go on", work.kind)),
        }
    }
}

async fn handle(client: &Client, board: &Board, work: &Claimed) -> Result<(), Rejection> {
    let kind = Kind::from_name(&work.kind).ok_or_else(|| Rejection::internal("an unknown kind was claimed"))?;
    match kind {
        Kind::Flaky => return flaky(client, board, work).await,
        Kind::Charge => return charge(client, board, work).await,
        Kind::Ship => return ship(client, board, work).await,
        Kind::Report => {
            let seconds = plan::REPORT_DELAY_MS / 1000;
            board.note(kind, format!("starts after its delay of {seconds} s"));
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
        _ => tokio::time::sleep(board.plan.work_time(number(work))).await,
    }
    complete(client, work, "done").await
}

/// The number that its submission gave it.
fn number(work: &Claimed) -> usize {
    let bytes = work.input.as_ref().and_then(|input| input.first_chunk());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes) as usize)
}

async fn complete(client: &Client, work: &Claimed, result: &'static str) -> Result<(), Rejection> {
    client.complete(Completion::of(work).result(result)).await.map(|_| ())
}

async fn flaky(client: &Client, board: &Board, work: &Claimed) -> Result<(), Rejection> {
    if work.attempt_kind == AttemptKind::Retry {
        let backoff = board.backoff_ms(work.id).unwrap_or_default();
        board.note(Kind::Flaky, format!("attempt {} after backoff {backoff} ms", work.attempt + 1));
    }
    tokio::time::sleep(board.plan.work_time(number(work)) / 2).await;
    if work.attempt >= plan::failures(number(work)) {
        return complete(client, work, "sent").await;
    }
    let failing = Failing::of(work).category("smtp").message("421 try later");
    if let AfterFailure::Retry { retry_at, .. } = client.fail(failing).await?.value {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        board.backs_off(work.id, retry_at.ms().saturating_sub(since.as_millis() as u64));
    }
    Ok(())
}

async fn charge(client: &Client, board: &Board, work: &Claimed) -> Result<(), Rejection> {
    tokio::time::sleep(Duration::from_millis(300)).await;
    client.fail(Failing::of(work).category("declined").message("the bank says no").never()).await?;
    board.note(Kind::Charge, "failed for good: the bank says no, so a retry would not help");
    Ok(())
}

/// Spawns children, gives its lease back while they run, and goes on when they have ended.
async fn ship(client: &Client, board: &Board, work: &Claimed) -> Result<(), Rejection> {
    if work.children.is_none() {
        let child = |at: u64| Submission::new(Kind::Pack.name()).input(at.to_le_bytes().to_vec()).priority(9);
        let children = (0..CHILDREN as u64).map(|at| child(at).child_of(work)).collect();
        for submitted in client.submit_batch(children).await {
            board.submitted(Kind::Pack, submitted?.id);
        }
        if let Children::Waiting { waiting, .. } = client.wait_children(Waiting::of(work)).await?.value {
            board.note(Kind::Ship, format!("waits for {waiting} children and holds no worker meanwhile"));
            return Ok(());
        }
    }
    board.note(Kind::Ship, format!("goes on: all {CHILDREN} children have ended"));
    tokio::time::sleep(Duration::from_millis(300)).await;
    complete(client, work, "shipped").await
}

/// One encoder is killed in the middle of its work; the other gets it when the lease has run out.
async fn encode(client: Client, board: Arc<Board>) -> Result<()> {
    let claim = |instance: &str| Claim::new("encoder", instance).offers(ENCODER).kind(Kind::Encode.name());
    let first = tokio::spawn({
        let (client, board, claim) = (client.clone(), board.clone(), claim("encoder-1").lease_ms(ENCODER_LEASE_MS));
        async move {
            let work = next(&client, claim).await?;
            board.note(Kind::Encode, format!("encoder-1 has it, lease {ENCODER_LEASE_MS} ms"));
            // Far longer than it has to live.
            tokio::time::sleep(ENCODER_LIVES * 100).await;
            complete(&client, &work, "encoded").await.context("the encoder went on")
        }
    });
    // It lives from the moment it has the work, which is when the engine says that it is active.
    wait_until_active(&client, &board, Kind::Encode).await?;
    tokio::time::sleep(ENCODER_LIVES).await;
    first.abort();
    board.note(Kind::Encode, "encoder-1 is killed; nobody renews its lease");
    let work = next(&client, claim("encoder-2").lease_ms(LEASE_MS)).await?;
    let attempt = work.attempt + 1;
    board.note(
        Kind::Encode,
        format!("encoder-2 takes over: the lease ran out, attempt {attempt} ({})", work.attempt_kind.name()),
    );
    tokio::time::sleep(ENCODER_LIVES).await;
    complete(&client, &work, "encoded").await.context("the encoder could not complete")?;
    std::future::pending().await
}

async fn wait_until_active(client: &Client, board: &Board, kind: Kind) -> Result<()> {
    loop {
        if let Some((_, id)) = board.executions().into_iter().find(|(other, _)| *other == kind) {
            let view = client.get(id).await.context("an execution could not be read")?;
            if view.public_state == weft_core::record::execution::PublicState::Active {
                return Ok(());
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Works for a long time, tells how far it is, and listens for a cancel.
async fn import(client: Client, board: Arc<Board>) -> Result<()> {
    let mut notices = client.notices("importer-1");
    let claim = Claim::new("importer", "importer-1").offers(IMPORTER).kind(Kind::Import.name()).lease_ms(LEASE_MS);
    let work = next(&client, claim).await?;
    board.note(Kind::Import, "importer-1 works on it");
    for percent in (0..100).step_by(3) {
        let progress = Progressing::of(&work).percent(percent).message("reading rows");
        let told = tokio::select! {
            notice = notices.recv() => notice,
            () = tokio::time::sleep(Duration::from_millis(150)) => None,
        };
        if let Some(Notice::CancelRequested { reason, .. }) = told {
            board.note(Kind::Import, format!("importer-1 hears of the cancel ({reason}) and stops at {percent} %"));
            client.cancel(Cancellation::new(work.id, reason).held(&work)).await.context("the cancel was refused")?;
            break;
        }
        // A cancel that overtakes its notice refuses the progress: the work is over either way.
        if client.progress(progress).await.is_err_and(|rejection| rejection.class() == Class::Stop) {
            break;
        }
    }
    std::future::pending().await
}
