//! `weft version`: what this binary is.

use crate::{End, terminal};
use serde::Serialize;

/// Print the version
#[derive(clap::Args)]
#[command(before_help = "example: weft version --json")]
pub struct Args {
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Version {
    version: &'static str,
    stores: [&'static str; 3],
}

pub fn run(args: Args) -> anyhow::Result<End> {
    let version = Version { version: env!("CARGO_PKG_VERSION"), stores: ["sqlite", "postgres", "valkey"] };
    match args.json {
        true => terminal::put(&serde_json::to_string(&version)?)?,
        false => terminal::put(&format!("weft {}", version.version))?,
    }
    Ok(End::Done)
}
