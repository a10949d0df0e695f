//! `weft history`: what happened to an execution, in order.

use crate::End;
use crate::remote::{Remote, names};
use crate::render::{self, count};
use anyhow::Result;
use weft_api::op;
use weft_api::operation::{NoBody, NoQuery};

/// Show what happened to an execution, in order
#[derive(clap::Args)]
#[command(before_help = "example: weft history 3c9e01")]
pub struct Args {
    /// Its id, or a unique end of it
    #[arg(value_name = "ID")]
    id: String,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let id = names(&remote, &[args.id]).await?.remove(0);
    let history = remote.call::<op::GetHistory>("read its history", [id], NoQuery {}, NoBody {}).await?;
    if history.dropped > 0 {
        remote.say(&format!("{} before these are no longer kept", count(history.dropped.into(), "event")));
    }
    remote.put_all(
        &history.items,
        |entry| entry.what.clone(),
        || render::history::table(&history, remote.colour.out),
    )?;
    Ok(End::Done)
}
