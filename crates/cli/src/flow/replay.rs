//! `weft flow replay`: runs again what counts against a flow.

use crate::End;
use crate::remote::{self, Remote, duration, flow_name};
use crate::render::{self, count};
use crate::terminal;
use anyhow::Result;
use std::time::Duration;
use weft_api::Code;
use weft_api::bulk::BulkJob;
use weft_api::execution::{Downstream, StepsOnReplay};
use weft_api::flow::ReplayFlow;
use weft_api::op;
use weft_api::operation::NoQuery;

/// Run every member again that counts against a flow, and what was skipped because of it
#[derive(clap::Args)]
#[command(before_help = "example: weft flow replay 3c9e01 --reason 'the bank is back'")]
pub struct Args {
    /// Its id, or a unique end of it
    #[arg(value_name = "ID")]
    id: String,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,

    /// Time before they may start, like `10m`
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    delay: Option<Duration>,

    /// Time from now until which each must have ended, like `1h`; a deadline of the flow that has passed is dropped
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "no_deadline")]
    deadline: Option<Duration>,

    /// Drop their deadlines, and that of the flow if it has passed
    #[arg(long)]
    no_deadline: bool,

    /// 0 to 9000, larger first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=9000), allow_negative_numbers = true)]
    priority: Option<u32>,

    /// Go on after the last step that was recorded, instead of doing all of them again
    #[arg(long)]
    keep_steps: bool,

    /// Leave what depends on them as it is, instead of opening again what has not begun
    #[arg(long)]
    keep_downstream: bool,
}

/// How long the first call waits for the job, which is nearly always over by then.
const WAIT_MS: u64 = 2_000;

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let id = flow_name(&remote, &args.id).await?;
    let body = ReplayFlow {
        reason: args.reason,
        deadline_in_ms: args.deadline.map(|left| left.as_millis() as u64),
        no_deadline: args.no_deadline,
        delay_ms: args.delay.map(|delay| delay.as_millis() as u64),
        priority: args.priority,
        steps: args.keep_steps.then_some(StepsOnReplay::Keep),
        downstream: args.keep_downstream.then_some(Downstream::Keep),
        wait_ms: Some(WAIT_MS),
        ..ReplayFlow::default()
    };
    let job = remote.call::<op::ReplayFlow>("replay it", [id.clone()], NoQuery {}, body).await?;
    let total = super::read(&remote, &id).await?.summary.failures;
    let job = remote::follow(&remote, "replay", job, total.into()).await?;
    remote.put(&job, &id, || format!("{id}  {}", shown(&job)))?;
    if job.refused.contains_key(Code::DeadlineInPast.name()) {
        let again = format!("weft flow replay {}", render::id::short(&id));
        terminal::say(&format!(
            "hint: a deadline has passed; `{again} --no-deadline` drops it, `--deadline 1h` sets another"
        ));
    }
    Ok(if job.refused.is_empty() { End::Done } else { End::Refused })
}

fn shown(job: &BulkJob) -> String {
    if job.matched == 0 {
        return "nothing counts against it".to_owned();
    }
    let refused: u64 = job.refused.values().sum();
    let codes: Vec<String> = job.refused.iter().map(|(code, times)| format!("{times} {code}")).collect();
    let refusals = if refused > 0 { format!("; {refused} refused: {}", codes.join(", ")) } else { String::new() };
    format!("replayed {}{refusals}", count(job.done, "member"))
}
