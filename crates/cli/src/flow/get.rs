//! `weft flow get`: one flow and its totals.

use crate::End;
use crate::remote::{Remote, flow_name};
use crate::render::{self, time};
use anyhow::Result;

/// Show a flow, and how many of its members are in which state
#[derive(clap::Args)]
#[command(before_help = "example: weft flow get 3c9e01")]
pub struct Args {
    /// Its id, or a unique end of it
    #[arg(value_name = "ID")]
    id: String,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let id = flow_name(&remote, &args.id).await?;
    let flow = super::read(&remote, &id).await?;
    remote.put(&flow, &flow.id, || render::flow::card(&flow, time::now_ms(), remote.colour.out))?;
    Ok(End::Done)
}
