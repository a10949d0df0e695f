//! `weft key list`.

use super::all;
use crate::End;
use crate::remote::Remote;
use crate::render::{self, time};
use anyhow::Result;

/// List keys; secrets are never shown
#[derive(clap::Args)]
#[command(before_help = "example: weft key list")]
pub struct Args {}

pub async fn run(_: Args, remote: Remote) -> Result<End> {
    let keys = all(&remote).await?;
    remote.put_all(&keys, |key| key.id.clone(), || render::key::table(&keys, time::now_ms(), remote.colour.out))?;
    if keys.is_empty() {
        remote.say("there are no keys");
    }
    Ok(End::Done)
}
