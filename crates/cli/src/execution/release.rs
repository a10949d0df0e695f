//! `weft release`: lets held executions run.

use crate::End;
use crate::remote::{self, Danger, Remote, Selection, Verb};
use anyhow::Result;
use weft_api::execution::{PublicState, Release, Released};
use weft_api::op;
use weft_api::operation::NoQuery;

/// Let held executions run, by id or by a filter over those that are held
#[derive(clap::Args)]
#[command(before_help = "example: weft release 3c9e01")]
pub struct Args {
    #[command(flatten)]
    selection: Selection,
}

const VERB: Verb = Verb { name: "release", past: "released", danger: Danger::None, states: &[PublicState::Held] };

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let one = |id| remote.call::<op::ReleaseExecution>("release", [id], NoQuery {}, Release::default());
    let shown = |released: &Released| match released.changed {
        true => format!("released, {}", released.public_state.name()),
        false => format!("was not held, {}", released.public_state.name()),
    };
    remote::apply(&remote, args.selection, &VERB, one, shown).await
}
