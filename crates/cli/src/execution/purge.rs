//! `weft purge`: removes ended executions with all that belongs to them.

use crate::End;
use crate::remote::{self, Danger, ENDED, Remote, Selection, Verb};
use anyhow::Result;
use weft_api::execution::Purging;
use weft_api::op;
use weft_api::operation::{NoBody, NoQuery};

/// Remove ended executions for good, by id or by a filter over those that have ended
#[derive(clap::Args)]
#[command(before_help = "example: weft purge 3c9e01")]
pub struct Args {
    #[command(flatten)]
    selection: Selection,
}

const VERB: Verb = Verb { name: "purge", past: "purged", danger: Danger::Destructive, states: ENDED };

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let one = |id| remote.call::<op::PurgeExecution>("purge", [id], NoQuery {}, NoBody {});
    remote::apply(&remote, args.selection, &VERB, one, |_: &Purging| "is being removed".to_owned()).await
}
