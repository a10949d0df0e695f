//! `weft history`: what happened to an execution, in order.

use crate::End;
use crate::remote::{Remote, names};
use crate::render::{self, count};
use anyhow::Result;
use weft_api::execution::History;
use weft_api::op;
use weft_api::operation::NoBody;
use weft_api::page::PageQuery;

/// Show what happened to an execution, in order
#[derive(clap::Args)]
#[command(before_help = "example: weft history 3c9e01")]
pub struct Args {
    /// Its id, or a unique end of it
    #[arg(value_name = "ID")]
    id: String,
}

/// All of it, page by page.
pub async fn read(remote: &Remote, id: &str) -> Result<History> {
    let mut whole = History { items: Vec::new(), dropped: 0, next_cursor: None };
    loop {
        let query = PageQuery { limit: Some(1_000), cursor: whole.next_cursor.take() };
        let page = remote.call::<op::GetHistory>("read its history", [id.to_owned()], query, NoBody {}).await?;
        whole.items.extend(page.items);
        whole.dropped += page.dropped;
        whole.next_cursor = page.next_cursor;
        if whole.next_cursor.is_none() {
            return Ok(whole);
        }
    }
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let id = names(&remote, &[args.id]).await?.remove(0);
    let history = read(&remote, &id).await?;
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
