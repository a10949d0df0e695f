//! `weft mark-dead`: gives what a worker holds to others at once.

use crate::End;
use crate::remote::{Remote, confirm, each};
use crate::render::count;
use anyhow::Result;
use weft_api::op;
use weft_api::operation::NoQuery;
use weft_api::worker::{MarkDead, WorkerEnd};

/// Say that workers are gone: what they hold is given to others at once
#[derive(clap::Args)]
#[command(before_help = "example: weft mark-dead mailer-3@host --reason 'host lost'")]
pub struct Args {
    /// Worker processes, by their instance names
    #[arg(value_name = "INSTANCE", required = true)]
    instances: Vec<String>,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let question = format!("mark {} as dead?", count(args.instances.len() as u64, "worker"));
    if args.instances.len() > 1 && !confirm(args.yes, &question).await? {
        return Ok(End::Refused);
    }
    let mark = async |instance: String| {
        let body = MarkDead { reason: args.reason.clone(), ..MarkDead::default() };
        remote.call::<op::MarkWorkerDead>("mark it as dead", [instance], NoQuery {}, body).await
    };
    let shown = |end: &WorkerEnd| match end.leases {
        0 => "dead; what it holds is given to others".to_owned(),
        leases => format!("dead; {} given to others", count(leases.into(), "lease")),
    };
    each(&remote, args.instances, mark, shown).await
}
