//! `weft revoke`: takes executions from the workers that hold them.

use crate::End;
use crate::remote::{self, Bulk, Danger, Remote, Selection, Verb};
use anyhow::Result;
use weft_api::bulk;
use weft_api::execution::{PublicState, Revoke, Revoked};
use weft_api::op;
use weft_api::operation::NoQuery;

/// Take executions from the workers that hold them, by id or by a filter over those that are active
#[derive(clap::Args)]
#[command(before_help = "example: weft revoke 3c9e01 --reason 'worker hangs'")]
pub struct Args {
    #[command(flatten)]
    selection: Selection,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,

    /// Also hold it, so that no other worker gets it
    #[arg(long)]
    hold: bool,
}

const VERB: Verb =
    Verb { name: "revoke", past: "revoked", danger: Danger::Destructive, states: &[PublicState::Active] };

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let body = Revoke { reason: args.reason, hold: args.hold, ..Revoke::default() };
    let one = |id| remote.call::<op::RevokeExecution>("revoke", [id], NoQuery {}, body.clone());
    let shown = |revoked: &Revoked| match revoked.already {
        true => "was revoked already".to_owned(),
        false => format!("revoked, epoch {} is over", revoked.epoch),
    };
    let bulk = Bulk::new(bulk::Verb::Revoke, &body)?;
    remote::apply(&remote, args.selection, &VERB, Some(bulk), one, shown).await
}
