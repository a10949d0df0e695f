//! `weft reschedule`: moves the start of delayed executions.

use crate::End;
use crate::remote::{self, Bulk, Danger, Remote, Selection, Verb, duration};
use crate::render::time;
use anyhow::Result;
use std::time::Duration;
use weft_api::execution::{PublicState, Reschedule, Rescheduled};
use weft_api::operation::NoQuery;
use weft_api::{Moment, bulk, op};

/// Move the start of delayed executions, by id or by a filter over them
#[derive(clap::Args)]
#[command(before_help = "example: weft reschedule 3c9e01 --delay 10m")]
#[command(group = clap::ArgGroup::new("when").required(true))]
pub struct Args {
    #[command(flatten)]
    selection: Selection,

    /// Start after this time, like `10m`
    #[arg(long, value_name = "TIME", value_parser = duration, group = "when", allow_hyphen_values = true)]
    delay: Option<Duration>,

    /// Start at this time, like 2026-11-16T20:15:00Z
    #[arg(long, value_name = "TIME", value_parser = start, group = "when")]
    at: Option<Moment>,

    /// Start now
    #[arg(long, group = "when")]
    now: bool,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

fn start(text: &str) -> Result<Moment, String> {
    Moment::parse(text).ok_or_else(|| "write a time like 2026-11-16T20:15:00Z".to_owned())
}

const VERB: Verb =
    Verb { name: "reschedule", past: "rescheduled", danger: Danger::None, states: &[PublicState::Delayed] };

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let delay = if args.now { Some(Duration::ZERO) } else { args.delay };
    let body = Reschedule {
        delay_ms: delay.map(|delay| delay.as_millis() as u64),
        start_at: args.at,
        reason: args.reason,
        request_id: None,
    };
    let one = |id| remote.call::<op::RescheduleExecution>("reschedule", [id], NoQuery {}, body.clone());
    let shown = |moved: &Rescheduled| format!("starts {}", time::ahead(moved.new, time::now_ms()));
    let bulk = Bulk::new(bulk::Verb::Reschedule, &body)?;
    remote::apply(&remote, args.selection, &VERB, Some(bulk), one, shown).await
}
