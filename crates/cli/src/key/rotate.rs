//! `weft key rotate`.

use super::{id_of, put_secret};
use crate::End;
use crate::remote::{Remote, duration};
use anyhow::Result;
use std::time::Duration;
use weft_api::key::RotateKey;
use weft_api::op;
use weft_api::operation::NoQuery;

/// Give a key another secret, which goes to stdout, this once
#[derive(clap::Args)]
#[command(before_help = "example: weft key rotate ci --overlap 1h")]
pub struct Args {
    /// Its id or its name
    #[arg(value_name = "KEY")]
    named: String,

    /// How long the old secret stays good [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    overlap: Option<Duration>,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let id = id_of(&remote, &args.named).await?;
    let body = RotateKey { overlap_ms: args.overlap.map(|time| time.as_millis() as u64), ..RotateKey::default() };
    let made = remote.call::<op::RotateKey>("rotate the key", [id], NoQuery {}, body).await?;
    put_secret(&remote, &made)?;
    Ok(End::Done)
}
