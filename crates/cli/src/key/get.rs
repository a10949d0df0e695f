//! `weft key get`.

use super::id_of;
use crate::End;
use crate::remote::Remote;
use crate::render::{self, time};
use anyhow::Result;
use weft_api::op;
use weft_api::operation::{NoBody, NoQuery};

/// Show a key without its secret
#[derive(clap::Args)]
#[command(before_help = "example: weft key get ci")]
pub struct Args {
    /// Its id or its name
    #[arg(value_name = "KEY")]
    named: String,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let id = id_of(&remote, &args.named).await?;
    let key = remote.call::<op::GetKey>("get the key", [id], NoQuery {}, NoBody {}).await?;
    remote.put(&key, &key.id, || render::key::card(&key, time::now_ms(), remote.colour.out))?;
    Ok(End::Done)
}
