//! The master key: where it comes from, and making one where there is a single node.

use super::folder::refuse_exposed;
use super::{cannot, write_private};
use crate::fault::Fault;
use crate::store::Address;
use anyhow::{Context, Result};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use weft_config::{Settings, keys};
use weft_dispatch::secret::MasterKey;

const FILE: &str = "master.key";

/// How a person makes one.
const MAKE: &str = "`head -c 32 /dev/urandom | base64 > master.key && chmod 600 master.key`";

pub struct Master {
    pub key: MasterKey,
    /// The file, if it was written just now.
    pub made: Option<PathBuf>,
}

/// Whether there will be a key, as far as that can be told without making one.
pub fn check(settings: &Settings, address: &Address) -> Result<()> {
    match (settings.get(keys::MASTER_KEY), settings.get(keys::MASTER_KEY_FILE)) {
        (Some(text), _) => parse(text.expose(), "`WEFT_MASTER_KEY`").map(drop),
        (None, Some(path)) => read(&path).map(drop),
        (None, None) if address.is_sqlite() => Ok(()),
        (None, None) => Err(Fault::usage(format!(
            "there is no master key, which all nodes of a store share: copy that of another node, because keys in the store are good \
             with no other, or make one for a new store by {MAKE}, and give it as `master_key_file`, \
             or as the value of `WEFT_MASTER_KEY`; keep a copy of it apart from the data"
        ))),
    }
}

/// Reads the key. On SQLite one is made in `folder` if none is configured and none is there; the store is open by then,
/// so no other process does the same.
pub fn load(settings: &Settings, address: &Address, folder: &Path) -> Result<Master> {
    check(settings, address)?;
    if let Some(text) = settings.get(keys::MASTER_KEY) {
        return Ok(Master { key: parse(text.expose(), "`WEFT_MASTER_KEY`")?, made: None });
    }
    let path = settings.get(keys::MASTER_KEY_FILE).unwrap_or_else(|| folder.join(FILE));
    if path.exists() {
        return Ok(Master { key: read(&path)?, made: None });
    }
    let key = MasterKey::random().context("the system gave no random bytes")?;
    write_private(&path, &format!("{}\n", key.to_text()))?;
    tracing::info!(path = %path.display(), "made a master key; keep a copy of it apart from the data");
    Ok(Master { key, made: Some(path) })
}

/// Where a server on this store takes its master key from, and the key if it is there.
pub struct Place {
    /// The variable or the file; none if nothing is configured and the store has no folder.
    pub name: Option<String>,
    pub key: Option<MasterKey>,
}

/// Finds the master key of a store. Creates none.
pub fn place(settings: &Settings, address: &Address) -> Result<Place> {
    if let Some(text) = settings.get(keys::MASTER_KEY) {
        let name = "`WEFT_MASTER_KEY`";
        return Ok(Place { name: Some(name.to_owned()), key: Some(parse(text.expose(), name)?) });
    }
    let beside = || address.is_sqlite().then(|| super::folder::of(settings, address).join(FILE));
    let Some(path) = settings.get(keys::MASTER_KEY_FILE).or_else(beside) else {
        return Ok(Place { name: None, key: None });
    };
    let key = path.exists().then(|| read(&path)).transpose()?;
    Ok(Place { name: Some(format!("`{}`", path.display())), key })
}

fn read(path: &Path) -> Result<MasterKey> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("{}: make one by {MAKE}", cannot("read", path)))?;
    refuse_exposed(path)?;
    let mode = std::fs::metadata(path).with_context(|| cannot("look at", path))?.permissions().mode();
    if mode & 0o004 != 0 {
        tracing::warn!(path = %path.display(), "every user of this machine can read the master key; `chmod 600` closes it");
    }
    parse(&text, &format!("`{}`", path.display()))
}

fn parse(text: &str, place: &str) -> Result<MasterKey> {
    MasterKey::parse(text).ok_or_else(|| {
        Fault::usage(format!("{place} holds no master key, which is 32 bytes in base64: make one by {MAKE}"))
    })
}
