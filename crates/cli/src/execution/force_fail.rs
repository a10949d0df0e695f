//! `weft force-fail`: ends executions as failed, without a retry.

use crate::End;
use crate::remote::{self, Bulk, Danger, LIVE, Remote, Selection, Verb};
use anyhow::Result;
use weft_api::bulk;
use weft_api::execution::{ForceFail, Forced};
use weft_api::op;
use weft_api::operation::NoQuery;

/// End executions as failed, by id or by a filter over those that have not ended
#[derive(clap::Args)]
#[command(before_help = "example: weft force-fail 3c9e01 --message 'no such order'")]
pub struct Args {
    #[command(flatten)]
    selection: Selection,

    /// What its failure says
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    message: String,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

const VERB: Verb = Verb { name: "force-fail", past: "failed", danger: Danger::Destructive, states: LIVE };

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let body = ForceFail { reason: args.reason, message: args.message, request_id: None };
    let one = |id| remote.call::<op::ForceFail>("force-fail", [id], NoQuery {}, body.clone());
    let bulk = Bulk::new(bulk::Verb::ForceFail, &body)?;
    remote::apply(&remote, args.selection, &VERB, Some(bulk), one, |_: &Forced| "failed".to_owned()).await
}
