//! `weft explain`: why an execution is not running.

use crate::End;
use crate::remote::{Remote, names};
use crate::render;
use anyhow::Result;
use weft_api::op;
use weft_api::operation::{NoBody, NoQuery};

/// Tell why an execution is not running
#[derive(clap::Args)]
#[command(before_help = "example: weft explain 3c9e01")]
pub struct Args {
    /// Its id, or a unique end of it
    #[arg(value_name = "ID")]
    id: String,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let id = names(&remote, &[args.id]).await?.remove(0);
    let told = remote.call::<op::ExplainExecution>("explain it", [id], NoQuery {}, NoBody {}).await?;
    remote.put(&told, told.public_state.name(), || render::explain::text(&told, remote.colour.out))?;
    Ok(End::Done)
}
