//! `weft replay`: runs ended executions again.

use crate::End;
use crate::remote::{self, Bulk, Danger, Remote, Selection, Verb, duration};
use anyhow::Result;
use std::time::Duration;
use weft_api::bulk;
use weft_api::execution::{PublicState, Replay, StepsOnReplay};
use weft_api::op;
use weft_api::operation::NoQuery;

/// Run ended executions again, by id or by a filter over those that failed or expired
#[derive(clap::Args)]
#[command(before_help = "example: weft replay 3c9e01 --reason 'smtp is back'")]
pub struct Args {
    #[command(flatten)]
    selection: Selection,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,

    /// Time before it may start, like `10m`
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    delay: Option<Duration>,

    /// Time from now until which it must have ended, like `1h`
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "no_deadline")]
    deadline: Option<Duration>,

    /// Drop the deadline it was submitted with
    #[arg(long)]
    no_deadline: bool,

    /// 0 to 9000, larger first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=9000), allow_negative_numbers = true)]
    priority: Option<u32>,

    /// Go on after the last step that was recorded, instead of doing all of them again
    #[arg(long)]
    keep_steps: bool,
}

const VERB: Verb = Verb {
    name: "replay",
    past: "replayed",
    danger: Danger::Destructive,
    states: &[PublicState::Failed, PublicState::Expired],
};

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let body = Replay {
        reason: args.reason,
        deadline_in_ms: args.deadline.map(|left| left.as_millis() as u64),
        no_deadline: args.no_deadline,
        delay_ms: args.delay.map(|delay| delay.as_millis() as u64),
        priority: args.priority,
        steps: args.keep_steps.then_some(StepsOnReplay::Keep),
        ..Replay::default()
    };
    let one = |id| remote.call::<op::ReplayExecution>("replay", [id], NoQuery {}, body.clone());
    let shown = |replayed: &weft_api::execution::Replayed| {
        format!("{}, replay {}", replayed.public_state.name(), replayed.replays)
    };
    let bulk = Bulk::new(bulk::Verb::Replay, &body)?;
    remote::apply(&remote, args.selection, &VERB, Some(bulk), one, shown).await
}
