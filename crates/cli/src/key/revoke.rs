//! `weft key revoke`.

use super::id_of;
use crate::End;
use crate::remote::{Remote, confirm, each};
use crate::render::count;
use anyhow::Result;
use weft_api::key::RevokedKey;
use weft_api::op;
use weft_api::operation::{NoBody, NoQuery};

/// Revoke keys; whoever uses them is refused from then on
#[derive(clap::Args)]
#[command(before_help = "example: weft key revoke ci")]
pub struct Args {
    /// Ids or names
    #[arg(value_name = "KEY", required = true)]
    named: Vec<String>,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let mut ids = Vec::new();
    for named in &args.named {
        ids.push(id_of(&remote, named).await?);
    }
    let question = format!("revoke {}?", count(ids.len() as u64, "key"));
    if ids.len() > 1 && !confirm(args.yes, &question).await? {
        return Ok(End::Refused);
    }
    let revoke = async |id: String| remote.call::<op::RevokeKey>("revoke the key", [id], NoQuery {}, NoBody {}).await;
    let shown = |key: &RevokedKey| match key.revoked {
        true => "revoked".to_owned(),
        false => "was revoked already".to_owned(),
    };
    each(&remote, ids, revoke, shown).await
}
