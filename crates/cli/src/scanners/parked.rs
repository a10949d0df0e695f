//! `weft scanners parked`.

use crate::End;
use crate::remote::{Form, Remote};
use crate::render::{scanner, time};
use anyhow::Result;
use weft_api::op;
use weft_api::operation::NoBody;
use weft_api::scanner::ParkedQuery;

#[derive(clap::Args)]
pub struct Args {
    /// Only those of this scanner
    #[arg(long, value_name = "NAME")]
    scanner: Option<String>,

    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let query = ParkedQuery {
        scanner: args.scanner,
        namespace: remote.given_namespace.clone(),
        limit: Some(args.limit),
        cursor: None,
    };
    let page = remote.call::<op::ListParked>("list parked items", [], query, NoBody {}).await?;
    if page.items.is_empty() && remote.form == Form::People {
        remote.say("nothing is parked");
        return Ok(End::Done);
    }
    remote.put_all(
        &page.items,
        |item| item.id.clone(),
        || scanner::parked(&page.items, time::now_ms(), remote.colour.out),
    )?;
    if page.next_cursor.is_some() {
        remote.say("there are more; `--limit` or `--scanner` shows others");
    }
    Ok(End::Done)
}
