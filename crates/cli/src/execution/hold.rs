//! `weft hold`: keeps executions from running until they are released.

use crate::End;
use crate::remote::{self, Bulk, Danger, LIVE, Remote, Selection, Verb};
use anyhow::Result;
use weft_api::bulk;
use weft_api::execution::{Held, HoldRequest};
use weft_api::op;
use weft_api::operation::NoQuery;

/// Keep executions from running, by id or by a filter over those that have not ended
#[derive(clap::Args)]
#[command(before_help = "example: weft hold 3c9e01 --reason 'bank is down'")]
pub struct Args {
    #[command(flatten)]
    selection: Selection,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,

    /// Also take it from the worker that has it
    #[arg(long)]
    revoke: bool,
}

const VERB: Verb = Verb { name: "hold", past: "held", danger: Danger::None, states: LIVE };

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let body = HoldRequest { reason: args.reason, revoke: args.revoke, request_id: None };
    let one = |id| remote.call::<op::HoldExecution>("hold", [id], NoQuery {}, body.clone());
    let shown = |held: &Held| if held.changed { "held" } else { "was held already" }.to_owned();
    let bulk = Bulk::new(bulk::Verb::Hold, &body)?;
    remote::apply(&remote, args.selection, &VERB, Some(bulk), one, shown).await
}
