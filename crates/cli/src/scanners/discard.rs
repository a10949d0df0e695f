//! `weft scanners parked discard`.

use crate::End;
use crate::remote::{Remote, confirm, each};
use crate::render::count;
use anyhow::Result;
use weft_api::op;
use weft_api::operation::NoQuery;
use weft_api::scanner::{DiscardParked, DiscardedItem};

/// Give parked items up: what was due to them is not done
#[derive(clap::Args)]
#[command(before_help = "example: weft scanners parked discard d_0_0198f2c4-7a1e-7b6c-9d20-e5b1a4f3c8d7 --reason lost")]
pub struct Args {
    /// Ids as `weft scanners parked` shows them
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    reason: String,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let question = format!("discard {}?", count(args.ids.len() as u64, "parked item"));
    if args.ids.len() > 1 && !confirm(args.yes, &question).await? {
        return Ok(End::Refused);
    }
    let discard = async |id: String| {
        let body = DiscardParked { reason: args.reason.clone(), request_id: None };
        remote.call::<op::DiscardParked>("discard it", [id], NoQuery {}, body).await
    };
    each(&remote, args.ids, discard, |_: &DiscardedItem| "discarded".to_owned()).await
}
