//! `weft import`: fills an empty store from a file that `weft export` wrote.

use crate::End;
use crate::fault::{Code, Fault};
use crate::serve::master;
use crate::store::{self, Address, StoreArg};
use crate::terminal::{self, Colour};
use crate::transfer::{Moved, Moving, compare_master, has_keys};
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::PathBuf;
use std::time::Instant;
use weft_store::transfer::{Error, Origin, Summary, import, inspect};

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
    pub json: bool,
}

/// So much of a file is read before a store is made.
const HEAD_BYTES: u64 = 1 << 20;

pub fn run(args: Args, colour: Colour) -> Result<End> {
    let address = args.store.current()?;
    let master = master::place(&args.store.arguments().load()?, &address)?;
    let unreadable = || Fault::new(Code::Usage, format!("cannot read `{}`", args.file.display()));
    let file = File::open(&args.file).with_context(unreadable)?;
    let bytes = file.metadata().with_context(unreadable)?.len();
    check_head(&file).map_err(|error| match error {
        Error::File(why) => anyhow::Error::from(why).context(unreadable()),
        error => anyhow::Error::from(error).context(format!("cannot import `{}`", args.file.display())),
    })?;
    let begun = Instant::now();
    let read = store::runtime()?.block_on(async {
        tokio::select! {
            read = fill(&address, &file) => read.map(Some),
            _ = tokio::signal::ctrl_c() => Ok(None),
        }
    })?;
    let Some((origin, summary)) = read else {
        terminal::say("interrupted: the store holds a part of the file; remove it before you import again");
        return Ok(End::Interrupted);
    };
    let moved = Moved::new(&args.file, &address, bytes, begun, &summary);
    moved.show(args.json, colour.out, |moved, time| {
        format!("{} records of `{}` are in {}, verified, after {time}", moved.records, moved.file, moved.store)
    })?;
    if has_keys(&summary) {
        match compare_master(&master, origin.master) {
            Ok(note) => terminal::say(&note),
            Err(warning) => terminal::warn(&warning),
        }
    }
    Ok(End::Done)
}

/// Reads the beginning of the file, so that one that is no export makes no store.
fn check_head(mut file: &File) -> Result<(), Error> {
    let mut head = file.take(HEAD_BYTES);
    let read = inspect(BufReader::new(&mut head), &mut |_, _, _| {});
    // What goes on behind the beginning seems to end in the middle.
    if head.limit() > 0 {
        read?;
    }
    Ok(file.rewind()?)
}

async fn fill(address: &Address, file: &File) -> Result<(Origin, Summary)> {
    let store = address.open().await?;
    let mut moving = Moving::new();
    let mut tell = |step, done, total| moving.tell(step, done, total);
    Ok(import(BufReader::with_capacity(1 << 20, file), &store, &mut tell).await?)
}
