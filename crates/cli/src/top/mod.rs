//! `weft top`: what is going on, live.

#[cfg(feature = "top")]
mod draw;
mod figures;
#[cfg(feature = "top")]
mod live;
mod plain;
#[cfg(feature = "top")]
mod state;

use crate::End;
use crate::remote::{Form, Remote, duration};
use crate::terminal;
use anyhow::Result;
use std::io::IsTerminal;
use std::time::Duration;
use weft_api::node::Stats;
use weft_api::op;
use weft_api::operation::{NoBody, NoQuery};
use weft_api::worker::{Worker, WorkersQuery};

/// Watch rates, lanes, workers, what is due, the slowest and the latest errors
#[derive(clap::Args)]
#[command(before_help = "example: weft top --once")]
#[command(after_help = "Keys: q quit · s sort lanes · / filter · ↑↓ enter open an execution · p pause")]
pub struct Args {
    /// Print one snapshot and end; also done where there is no terminal
    #[arg(long)]
    once: bool,

    /// Time between two looks
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    every: Duration,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let stats = read(&remote).await?;
    if remote.form != Form::People {
        remote.put(&stats, &stats.node, String::new)?;
        return Ok(End::Done);
    }
    // Who may not see the workers sees the rest.
    let workers = read_workers(&remote).await.unwrap_or_default();
    if cfg!(feature = "top") && !args.once && std::io::stdout().is_terminal() {
        return live(&remote, stats, workers, args.every).await;
    }
    terminal::put(&plain::snapshot(&stats, &workers, remote.colour.out))?;
    Ok(End::Done)
}

#[cfg(feature = "top")]
use live::run as live;

#[cfg(not(feature = "top"))]
async fn live(remote: &Remote, stats: Stats, workers: Vec<Worker>, _: Duration) -> Result<End> {
    terminal::put(&plain::snapshot(&stats, &workers, remote.colour.out))?;
    Ok(End::Done)
}

async fn read(remote: &Remote) -> Result<Stats> {
    remote.call::<op::GetStats>("read what is going on", [], NoQuery {}, NoBody {}).await
}

/// Workers that are shown; a view has no room for more.
const WORKERS_MAX: u32 = 50;

async fn read_workers(remote: &Remote) -> Result<Vec<Worker>> {
    let query = WorkersQuery { limit: Some(WORKERS_MAX), ..WorkersQuery::default() };
    Ok(remote.call::<op::ListWorkers>("list workers", [], query, NoBody {}).await?.items)
}
