//! `weft force-complete`: ends executions with success, whatever their workers do.

use crate::End;
use crate::remote::{self, Bulk, Danger, LIVE, Remote, Selection, Verb, read_input};
use anyhow::Result;
use weft_api::bulk;
use weft_api::execution::{ForceComplete, Forced};
use weft_api::op;
use weft_api::operation::NoQuery;

/// End executions with success, by id or by a filter over those that have not ended
#[derive(clap::Args)]
#[command(before_help = "example: weft force-complete 3c9e01 --result '{\"sent\":true}' --reason 'sent by hand'")]
pub struct Args {
    #[command(flatten)]
    selection: Selection,

    /// Its result: JSON, `@FILE`, or `-` for stdin
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    result: Option<String>,

    /// Content type of the result [default: application/json]
    #[arg(long = "type", value_name = "TYPE", requires = "result")]
    content_type: Option<String>,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

const VERB: Verb = Verb { name: "force-complete", past: "completed", danger: Danger::Destructive, states: LIVE };

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let result = match &args.result {
        Some(given) => Some(read_input("--result", given, args.content_type.as_deref()).await?),
        None => None,
    };
    let body = ForceComplete { reason: args.reason, result, request_id: None };
    let one = |id| remote.call::<op::ForceComplete>("force-complete", [id], NoQuery {}, body.clone());
    // A result is of one execution, and a bulk job meets many.
    let bulk = match body.result {
        None => Some(Bulk::new(bulk::Verb::ForceComplete, &body)?),
        Some(_) => None,
    };
    remote::apply(&remote, args.selection, &VERB, bulk, one, |_: &Forced| "completed".to_owned()).await
}
