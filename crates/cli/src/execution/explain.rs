//! `weft explain`: why an execution is not running.

use crate::End;
use crate::remote::{Remote, names};
use crate::render;
use anyhow::Result;
use weft_api::execution::ExplainQuery;
use weft_api::op;
use weft_api::operation::NoBody;

/// Tell why an execution is not running
#[derive(clap::Args)]
#[command(before_help = "example: weft explain 3c9e01")]
pub struct Args {
    /// Its id, or a unique end of it
    #[arg(value_name = "ID")]
    id: String,
    /// Tell why this worker does not get it
    #[arg(long, value_name = "INSTANCE")]
    instance: Option<String>,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let id = names(&remote, &[args.id]).await?.remove(0);
    let query = ExplainQuery { instance: args.instance };
    let told = remote.call::<op::ExplainExecution>("explain it", [id], query, NoBody {}).await?;
    remote.put(&told, told.public_state.name(), || render::explain::text(&told, remote.colour.out))?;
    Ok(End::Done)
}
