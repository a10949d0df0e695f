//! `weft import`: fills an empty store from a file that `weft export` wrote.

use crate::End;
use crate::store::{self, Address, StoreArg};
use crate::terminal::{self, Colour};
use crate::transfer::{Moved, Moving};
use anyhow::{Context, Result};
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::time::Instant;
use weft_store::transfer::{Summary, import};

/// Fill an empty store from a file that `weft export` wrote
#[derive(clap::Args)]
#[command(before_help = "example: weft import weft.export --store sqlite:copy/weft.db")]
pub struct Args {
    /// File to read
    file: PathBuf,

    #[command(flatten)]
    store: StoreArg,

    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, colour: Colour) -> Result<End> {
    let address = args.store.address()?;
    let file = File::open(&args.file).with_context(|| format!("cannot read `{}`", args.file.display()))?;
    let bytes = file.metadata().with_context(|| format!("cannot read `{}`", args.file.display()))?.len();
    let begun = Instant::now();
    let read = store::runtime()?.block_on(async {
        tokio::select! {
            read = fill(&address, &file) => read.map(Some),
            _ = tokio::signal::ctrl_c() => Ok(None),
        }
    })?;
    let Some(summary) = read else {
        terminal::say("interrupted: the store holds a part of the file; remove it before you import again");
        return Ok(End::Interrupted);
    };
    let moved = Moved::new(&args.file, &address, bytes, begun, &summary);
    moved.show(args.json, colour.out, |moved, time| {
        format!("{} records of `{}` are in {}, verified, after {time}", moved.records, moved.file, moved.store)
    })?;
    Ok(End::Done)
}

async fn fill(address: &Address, file: &File) -> Result<Summary> {
    let store = address.open().await?;
    let mut moving = Moving::new();
    let mut tell = |step, done, total| moving.tell(step, done, total);
    Ok(import(BufReader::with_capacity(1 << 20, file), &store, &mut tell).await?)
}
