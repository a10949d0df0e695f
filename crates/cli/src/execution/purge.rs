//! `weft purge`: removes ended executions with all that belongs to them.

use crate::End;
use crate::remote::{self, Bulk, Danger, ENDED, Remote, Selection, Verb};
use anyhow::Result;
use weft_api::bulk;
use weft_api::execution::{Purge, PurgeQuery, Purging};
use weft_api::op;
use weft_api::operation::NoBody;

/// Remove ended executions for good, by id or by a filter over those that have ended
#[derive(clap::Args)]
#[command(before_help = "example: weft purge 3c9e01")]
pub struct Args {
    #[command(flatten)]
    selection: Selection,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

const VERB: Verb = Verb { name: "purge", past: "purged", danger: Danger::Destructive, states: ENDED };

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let body = Purge { reason: args.reason };
    let query = PurgeQuery { reason: Some(body.reason.clone()).filter(|reason| !reason.is_empty()) };
    let one = |id| remote.call::<op::PurgeExecution>("purge", [id], query.clone(), NoBody {});
    let bulk = Bulk::new(bulk::Verb::Purge, &body)?;
    remote::apply(&remote, args.selection, &VERB, Some(bulk), one, |_: &Purging| "is being removed".to_owned()).await
}
