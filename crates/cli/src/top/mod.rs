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
use anyhow::Result;
use std::io::IsTerminal;
use std::time::Duration;
use weft_api::node::Stats;
use weft_api::op;
use weft_api::operation::{NoBody, NoQuery};

/// Watch rates, lanes, workers, the slowest and the latest errors
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
    if cfg!(feature = "top") && !args.once && remote.form == Form::People && std::io::stdout().is_terminal() {
        return live(&remote, stats, args.every).await;
    }
    remote.put(&stats, &stats.node, || plain::snapshot(&stats, remote.colour.out))?;
    Ok(End::Done)
}

#[cfg(feature = "top")]
use live::run as live;

#[cfg(not(feature = "top"))]
async fn live(remote: &Remote, stats: Stats, _: Duration) -> Result<End> {
    remote.put(&stats, &stats.node, || plain::snapshot(&stats, remote.colour.out))?;
    Ok(End::Done)
}

async fn read(remote: &Remote) -> Result<Stats> {
    remote.call::<op::GetStats>("read what is going on", [], NoQuery {}, NoBody {}).await
}
