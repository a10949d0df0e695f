//! `weft openapi`: the description of the HTTP API, as this version serves it.

use crate::{End, terminal};
use anyhow::Result;

/// Print the OpenAPI document of the HTTP API
#[derive(clap::Args)]
#[command(before_help = "example: weft openapi")]
pub struct Args {}

pub fn run(_: Args) -> Result<End> {
    terminal::put(&serde_json::to_string_pretty(&weft_api::document(env!("CARGO_PKG_VERSION")))?)?;
    Ok(End::Done)
}
