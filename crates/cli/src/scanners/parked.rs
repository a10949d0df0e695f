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
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// As many as one page may have.
const PAGE_MAX: u32 = 1_000;

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let limit = args.limit as usize;
    let mut query = ParkedQuery {
        scanner: args.scanner,
        namespace: remote.given_namespace.clone(),
        limit: Some(args.limit.min(PAGE_MAX)),
        cursor: None,
    };
    let mut items = Vec::new();
    // A page may be empty although more follow: the server looks at so many items for one page.
    let more = loop {
        let page = remote.call::<op::ListParked>("list parked items", [], query.clone(), NoBody {}).await?;
        items.extend(page.items);
        match page.next_cursor {
            Some(cursor) if items.len() < limit => query.cursor = Some(cursor),
            next => break next.is_some() || items.len() > limit,
        }
    };
    items.truncate(limit);
    if items.is_empty() && remote.form == Form::People {
        remote.say("nothing is parked");
        return Ok(End::Done);
    }
    remote.put_all(&items, |item| item.id.clone(), || scanner::parked(&items, time::now_ms(), remote.colour.out))?;
    if more {
        remote.say("there are more; `--limit` or `--scanner` shows others");
    }
    Ok(End::Done)
}
