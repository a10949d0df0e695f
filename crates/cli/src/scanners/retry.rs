//! `weft scanners parked retry`.

use crate::End;
use crate::remote::{Remote, each};
use crate::render::count;
use anyhow::Result;
use weft_api::op;
use weft_api::operation::NoQuery;
use weft_api::scanner::{RetriedItem, RetriedItems, RetryAllParked, RetryOutcome, RetryParked};

/// Let parked items be tried again, at once
#[derive(clap::Args)]
#[command(before_help = "example: weft scanners parked retry --all --scanner lease_expiry")]
#[command(group = clap::ArgGroup::new("which").required(true).args(["ids", "all"]))]
pub struct Args {
    /// Ids as `weft scanners parked` shows them
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    /// All that are parked
    #[arg(long)]
    all: bool,

    /// With `--all`: only those of this scanner
    #[arg(long, value_name = "NAME", requires = "all")]
    scanner: Option<String>,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    if args.all {
        return all(args.scanner, &remote).await;
    }
    let retry =
        async |id: String| remote.call::<op::RetryParked>("retry it", [id], NoQuery {}, RetryParked::default()).await;
    each(&remote, args.ids, retry, shown).await
}

fn shown(item: &RetriedItem) -> String {
    match item.outcome {
        RetryOutcome::Retried => "is tried again now".to_owned(),
        RetryOutcome::NothingLeft => "had nothing left to try; it is no longer parked".to_owned(),
        RetryOutcome::StillDamaged => format!("is still damaged: {}", item.error.as_deref().unwrap_or_default()),
    }
}

/// Goes on until every item was tried once.
async fn all(scanner: Option<String>, remote: &Remote) -> Result<End> {
    let mut sum = RetriedItems::default();
    let mut body = RetryAllParked { scanner, namespace: remote.given_namespace.clone(), ..RetryAllParked::default() };
    loop {
        let some = remote.call::<op::RetryAllParked>("retry them", [], NoQuery {}, body.clone()).await?;
        sum.retried += some.retried;
        sum.nothing_left += some.nothing_left;
        sum.still_damaged += some.still_damaged;
        sum.refused += some.refused;
        match some.next_cursor {
            Some(cursor) => body.cursor = Some(cursor),
            None => break,
        }
    }
    sum.more = sum.refused > 0;
    remote.put(&sum, &sum.retried.to_string(), || {
        let mut told = vec![format!("{} tried again", count(sum.retried, "item"))];
        if sum.nothing_left > 0 {
            told.push(format!("{} had nothing left to try", sum.nothing_left));
        }
        if sum.still_damaged > 0 {
            told.push(format!("{} still damaged", sum.still_damaged));
        }
        if sum.refused > 0 {
            told.push(format!("{} could not be tried now (`weft scanners parked` lists them)", sum.refused));
        }
        told.join(", ")
    })?;
    Ok(End::Done)
}
