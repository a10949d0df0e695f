//! `weft cancel`: ends executions before they have ended by themselves.

use crate::End;
use crate::remote::{self, Bulk, Danger, LIVE, Remote, Selection, Verb, duration};
use crate::render::time;
use anyhow::Result;
use std::time::Duration;
use weft_api::bulk;
use weft_api::execution::{Cancel, CancelMode, Cancelled};
use weft_api::op;
use weft_api::operation::NoQuery;

/// Cancel executions, by id or by a filter over those that have not ended
#[derive(clap::Args)]
#[command(before_help = "example: weft cancel 3c9e01 --reason 'customer left'")]
pub struct Args {
    #[command(flatten)]
    selection: Selection,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,

    /// Ask the worker first, and end it after this time, like `10s`
    #[arg(long, value_name = "TIME", value_parser = duration)]
    grace: Option<Duration>,

    /// Leave its children alone
    #[arg(long)]
    no_cascade: bool,
}

const VERB: Verb = Verb { name: "cancel", past: "cancelled", danger: Danger::Destructive, states: LIVE };

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let body = Cancel {
        reason: args.reason,
        mode: args.grace.map(|_| CancelMode::Graceful),
        grace_ms: args.grace.map(|grace| grace.as_millis() as u64),
        cascade: args.no_cascade.then_some(false),
        request_id: None,
    };
    let one = |id| remote.call::<op::CancelExecution>("cancel", [id], NoQuery {}, body.clone());
    let bulk = Bulk::new(bulk::Verb::Cancel, &body)?;
    remote::apply(&remote, args.selection, &VERB, Some(bulk), one, shown).await
}

fn shown(cancelled: &Cancelled) -> String {
    match cancelled {
        Cancelled::Done { already: true } => "was cancelled already".to_owned(),
        Cancelled::Done { already: false } => "cancelled".to_owned(),
        Cancelled::Requested { kill_at: None } => "its worker is asked to stop".to_owned(),
        Cancelled::Requested { kill_at: Some(at) } => {
            format!("its worker is asked to stop; ends {}", time::ahead(*at, time::now_ms()))
        }
    }
}
