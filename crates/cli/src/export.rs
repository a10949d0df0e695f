//! `weft export`: everything that is in a store, in one file.

use crate::End;
use crate::fault::{Code, Fault};
use crate::registry::{self, State};
use crate::serve::master::{self, Place};
use crate::store::{self, Address, StoreArg};
use crate::terminal::{self, Colour, readable_bytes, readable_time};
use crate::transfer::{Moved, Moving, has_keys, leave_master};
use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File, OpenOptions};
use std::io::BufWriter;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weft_dispatch::secret::MasterKey;
use weft_store::transfer::{Summary, export};

/// Write a whole store into a file, with the engine stopped
#[derive(clap::Args)]
#[command(before_help = "example: weft export weft.export")]
pub struct Args {
    /// File to write; it must not exist
    file: PathBuf,

    #[command(flatten)]
    store: StoreArg,

    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// A file that gets its name when it is whole, and goes away if it never is.
struct Partial {
    path: PathBuf,
    name: PathBuf,
}

impl Partial {
    fn create(name: &Path) -> Result<(Self, File)> {
        ensure!(!name.exists(), "cannot write `{}`: it exists, and nothing is overwritten", name.display());
        let mut path = name.as_os_str().to_owned();
        path.push(".partial");
        let path = PathBuf::from(path);
        // What an export that was broken off left is worthless.
        drop(fs::remove_file(&path));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = file.with_context(|| Fault::new(Code::Usage, format!("cannot write `{}`", name.display())))?;
        Ok((Self { path, name: name.to_owned() }, file))
    }

    /// Gives the file its name, durably. Answers its size.
    fn finish(self, file: File) -> Result<u64> {
        let failed = || format!("could not write `{}`", self.name.display());
        file.sync_all().with_context(failed)?;
        ensure!(!self.name.exists(), "cannot write `{}`: it exists by now", self.name.display());
        fs::rename(&self.path, &self.name).with_context(failed)?;
        let folder = self.name.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).with_context(failed)?;
        Ok(file.metadata().with_context(failed)?.len())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After `finish` there is nothing under this name.
        drop(fs::remove_file(&self.path));
    }
}

pub fn run(args: Args, colour: Colour) -> Result<End> {
    let address = args.store.current()?;
    let settings = args.store.arguments().load()?;
    // Nothing of the store is read with it: a backup must not wait until somebody has repaired the file of the key.
    let master = master::place(&settings, &address).unwrap_or_else(|error| {
        terminal::warn(&format!("the export cannot say which master key belongs to it: {error:#}"));
        Place { name: None, key: None }
    });
    let (partial, file) = Partial::create(&args.file)?;
    let begun = Instant::now();
    let written = store::runtime()?.block_on(async {
        tokio::select! {
            written = write(&address, &file, &master) => written.map(Some),
            _ = tokio::signal::ctrl_c() => Ok(None),
        }
    })?;
    let Some(summary) = written else {
        drop(partial);
        terminal::say("interrupted: nothing was written");
        return Ok(End::Interrupted);
    };
    let bytes = partial.finish(file)?;
    let moved = Moved::new(&args.file, &address, bytes, begun, &summary);
    moved.show(args.json, colour.out, |moved, time| {
        let size = readable_bytes(moved.bytes);
        format!("{} records of {} are in `{}`, {size}, after {time}", moved.records, moved.store, moved.file)
    })?;
    if has_keys(&summary) {
        terminal::say(&leave_master(&master));
    }
    Ok(End::Done)
}

async fn write(address: &Address, file: &File, master: &Place) -> Result<Summary> {
    let store = address.open_existing().await?;
    let live = registry::nodes(&store).await?.into_iter().find(|node| node.state == State::Live);
    if let Some(node) = live {
        let silent = readable_time(Duration::from_millis(node.silent_ms));
        bail!("cannot export: the node `{}` was heard of {silent} ago; stop every node first", node.name);
    }
    let mut moving = Moving::new();
    let mut tell = |step, done, total| moving.tell(step, done, total);
    let fingerprint = master.key.as_ref().map(MasterKey::fingerprint);
    Ok(export(&store, BufWriter::with_capacity(1 << 20, file), fingerprint, &mut tell).await?)
}
