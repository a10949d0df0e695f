//! `weft drain`: tells workers to take no more work.

use super::{Target, check_label};
use crate::End;
use crate::remote::{Remote, confirm, duration};
use crate::render::count;
use anyhow::Result;
use std::time::Duration;
use weft_api::op;
use weft_api::operation::NoQuery;
use weft_api::worker::DrainTarget;

/// Tell workers to finish what they have and take no more
#[derive(clap::Args)]
#[command(before_help = "example: weft drain mailer-3@host --reason 'new kernel'")]
pub struct Args {
    #[command(flatten)]
    target: Target,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,

    /// What is left after this time is given to others, like `5m`
    #[arg(long, value_name = "TIME", value_parser = duration)]
    deadline: Option<Duration>,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    check_label(args.target.label.as_ref())?;
    if !args.target.is_one() {
        let named = args.target.count(&remote).await?;
        if named > 0 && !confirm(args.yes, &format!("drain {}?", count(named as u64, "worker"))).await? {
            return Ok(End::Refused);
        }
    }
    let body = DrainTarget {
        reason: args.reason,
        deadline_ms: args.deadline.map(|deadline| deadline.as_millis() as u64),
        ..args.target.request()
    };
    let told = remote.call::<op::DrainWorkers>("drain", [], NoQuery {}, body).await?;
    remote.put(&told, &told.instances.join("\n"), || match told.instances.is_empty() {
        true => "no worker was told".to_owned(),
        false => told.instances.iter().map(|name| format!("{name}  draining")).collect::<Vec<_>>().join("\n"),
    })?;
    Ok(End::Done)
}
