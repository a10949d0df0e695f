//! `weft list`: executions, the newest first.

use crate::End;
use crate::remote::{Filter, Form, Remote, walk};
use crate::render::{self, time};
use crate::terminal;
use anyhow::Result;
use weft_api::execution::{Execution, ListQuery, Order};

/// List executions, the newest first
#[derive(clap::Args)]
#[command(before_help = "example: weft list --lane mail --limit 3")]
pub struct Args {
    #[command(flatten)]
    filter: Filter,

    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    limit: u32,

    /// However many there are
    #[arg(long, conflicts_with = "limit")]
    all: bool,

    /// The oldest first
    #[arg(long)]
    oldest_first: bool,
}

/// Rows of one table: beyond that a table per page is written, so that a long list needs no memory.
const PAGE: u32 = 1_000;

pub async fn run(mut args: Args, remote: Remote) -> Result<End> {
    args.filter = args.filter.resolve(&remote).await?;
    let limit = if args.all { usize::MAX } else { args.limit as usize };
    let order = args.oldest_first.then_some(Order::Asc);
    // One more than wanted tells whether there are more.
    let page = u32::try_from(limit).map_or(PAGE, |limit| PAGE.min(limit.saturating_add(1)));
    let query = ListQuery { limit: Some(page), order, ..args.filter.list() };
    let (mut written, mut more) = (0_usize, false);
    let mut kept: Vec<Execution> = Vec::new();
    walk(&remote, "list", query, async |mut page| {
        more = page.len() > limit - written;
        page.truncate(limit - written);
        written += page.len();
        match remote.form {
            Form::Json => kept.append(&mut page),
            _ if !page.is_empty() => put(&remote, &page)?,
            _ => {}
        }
        Ok(!more)
    })
    .await?;
    if remote.form == Form::Json {
        put(&remote, &kept)?;
    }
    if written == 0 {
        remote.say("no execution is selected");
    } else if more {
        remote.say("there are more; `--limit` or `--all` shows them");
    }
    Ok(End::Done)
}

fn put(remote: &Remote, page: &[Execution]) -> Result<()> {
    remote.put_all(
        page,
        |execution| execution.id.clone(),
        || render::list::table(page, time::now_ms(), terminal::width(), remote.colour.out),
    )
}
