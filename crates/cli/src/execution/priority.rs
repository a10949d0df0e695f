//! `weft priority`: changes what goes first.

use crate::End;
use crate::remote::{self, Bulk, Danger, LIVE, Remote, Selection, Verb};
use anyhow::Result;
use weft_api::bulk;
use weft_api::execution::{Priority, PriorityChanged};
use weft_api::op;
use weft_api::operation::NoQuery;

/// Change the priority of executions, by id or by a filter over those that have not ended
#[derive(clap::Args)]
#[command(before_help = "example: weft priority 3c9e01 --to 500")]
pub struct Args {
    #[command(flatten)]
    selection: Selection,

    /// 0 to 9000, larger first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=9000), allow_negative_numbers = true)]
    to: u32,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

const VERB: Verb = Verb { name: "change", past: "changed", danger: Danger::None, states: LIVE };

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let body = Priority { priority: args.to, reason: args.reason, request_id: None };
    let one = |id| remote.call::<op::SetPriority>("change its priority", [id], NoQuery {}, body.clone());
    let shown = |changed: &PriorityChanged| format!("priority {}, was {}", changed.new, changed.old);
    let bulk = Bulk::new(bulk::Verb::Priority, &body)?;
    remote::apply(&remote, args.selection, &VERB, Some(bulk), one, shown).await
}
