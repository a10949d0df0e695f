//! `weft release`: lets held executions run.

use crate::End;
use crate::remote::{self, Bulk, Danger, Remote, Selection, Verb};
use anyhow::Result;
use weft_api::bulk;
use weft_api::execution::{PublicState, Release, Released};
use weft_api::op;
use weft_api::operation::NoQuery;

/// Let held executions run, by id or by a filter over those that are held
#[derive(clap::Args)]
#[command(before_help = "example: weft release 3c9e01")]
pub struct Args {
    #[command(flatten)]
    selection: Selection,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

const VERB: Verb = Verb { name: "release", past: "released", danger: Danger::None, states: &[PublicState::Held] };

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let body = Release { reason: args.reason, request_id: None };
    let one = |id| remote.call::<op::ReleaseExecution>("release", [id], NoQuery {}, body.clone());
    let shown = |released: &Released| match released.changed {
        true => format!("released, {}", released.public_state.name()),
        false => format!("was not held, {}", released.public_state.name()),
    };
    let bulk = Bulk::new(bulk::Verb::Release, &body)?;
    remote::apply(&remote, args.selection, &VERB, Some(bulk), one, shown).await
}
