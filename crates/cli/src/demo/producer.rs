//! Submitting: the ordinary work in waves, the special executions between them.

use super::board::Board;
use super::plan::{Kind, QUOTE_DEADLINE_MS, REPORT_DELAY_MS, flaky_policy};
use anyhow::{Context, Result};
use std::sync::Arc;
use std::time::Duration;
use weft_core::ExecutionId;
use weft_core::limits::BATCH_ITEMS_MAX;
use weft_core::record::execution::Outcome;
use weft_engine::{Cancellation, Client, Submission};

/// What only some workers can do, and what nobody can.
pub const ENCODER: &str = "encoder";
pub const IMPORTER: &str = "importer";
const ORACLE: &str = "market-data";

const WAVES: usize = 25;
const WAVE_EVERY: Duration = Duration::from_millis(100);
const _: () = assert!(super::plan::EXECUTIONS_MAX as usize / WAVES <= BATCH_ITEMS_MAX);

/// Time for the import to get going before it is cancelled.
const CANCEL_AFTER: Duration = Duration::from_millis(1_500);
pub const CANCEL_GRACE_MS: u64 = 3_000;

pub async fn produce(client: Client, board: Arc<Board>) -> Result<()> {
    let ordinary = board.plan.ordinary();
    for (wave, work) in ordinary.chunks(ordinary.len().div_ceil(WAVES)).enumerate() {
        let submissions = work.iter().map(|(kind, at)| ordinary_submission(*kind, *at)).collect();
        for ((kind, _), submitted) in work.iter().zip(client.submit_batch(submissions).await) {
            board.submitted(*kind, submitted.context("a submission was refused")?.id);
        }
        special(&client, &board, wave).await?;
        tokio::time::sleep(WAVE_EVERY).await;
    }
    Ok(())
}

fn ordinary_submission(kind: Kind, at: usize) -> Submission {
    let submission = Submission::new(kind.name()).input((at as u64).to_le_bytes().to_vec());
    if kind == Kind::Flaky { submission.policy(flaky_policy()) } else { submission }
}

/// The special execution that belongs to this wave, if there is one.
async fn special(client: &Client, board: &Arc<Board>, wave: usize) -> Result<()> {
    let new = |kind: Kind| Submission::new(kind.name());
    match wave {
        0 => {
            submit(client, board, Kind::Report, new(Kind::Report).delay_ms(REPORT_DELAY_MS)).await?;
        }
        1 => {
            submit(client, board, Kind::Encode, new(Kind::Encode).needs(ENCODER)).await?;
        }
        2 => {
            let quote = new(Kind::Quote).needs(ORACLE).deadline_in_ms(QUOTE_DEADLINE_MS);
            let id = submit(client, board, Kind::Quote, quote).await?;
            tokio::spawn(tell_expiry(client.clone(), board.clone(), id));
        }
        3 => {
            let id = submit(client, board, Kind::Import, new(Kind::Import).needs(IMPORTER)).await?;
            tokio::spawn(cancel(client.clone(), board.clone(), id));
        }
        5 => {
            submit(client, board, Kind::Ship, new(Kind::Ship).priority(9)).await?;
        }
        8 => {
            submit(client, board, Kind::Charge, new(Kind::Charge).priority(9)).await?;
        }
        _ => {}
    }
    Ok(())
}

async fn submit(client: &Client, board: &Board, kind: Kind, submission: Submission) -> Result<ExecutionId> {
    let submitted = client.submit(submission).await.with_context(|| format!("`{}` was refused", kind.name()))?;
    board.submitted(kind, submitted.id);
    Ok(submitted.id)
}

async fn tell_expiry(client: Client, board: Arc<Board>, id: ExecutionId) {
    if let Ok(result) = client.result(id, 2 * QUOTE_DEADLINE_MS).await
        && result.outcome == Outcome::Expired
    {
        let seconds = QUOTE_DEADLINE_MS / 1000;
        board.note(Kind::Quote, format!("missed its deadline of {seconds} s: no worker offers `{ORACLE}`"));
    }
}

async fn cancel(client: Client, board: Arc<Board>, id: ExecutionId) {
    tokio::time::sleep(CANCEL_AFTER).await;
    board.note(Kind::Import, "a client cancels it while it runs");
    let cancellation = Cancellation::new(id, "the customer changed their mind").graceful(CANCEL_GRACE_MS);
    if let Err(rejection) = client.cancel(cancellation).await {
        board.note(Kind::Import, format!("the cancel was refused: {rejection}"));
    }
}
