//! The folder of the node: its keys, and on SQLite its data.

use super::cannot;
use crate::store::Address;
use anyhow::{Context, Result, ensure};
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use weft_config::{Settings, keys};

const DEFAULT: &str = "weft-data";

/// The folder that is configured, else that of the file, so that what belongs together lies together.
pub fn of(settings: &Settings, address: &Address) -> PathBuf {
    if let Some(folder) = settings.get(keys::NODE_DATA_DIR) {
        return folder;
    }
    match address {
        Address::Sqlite { path, .. } => {
            let parent = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            parent.unwrap_or(Path::new(".")).to_path_buf()
        }
        _ => PathBuf::from(DEFAULT),
    }
}

/// Made for this user alone. One that others may write to is refused: they could put a key of theirs there.
pub fn make(folder: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| cannot("make the folder", folder))?;
    refuse_exposed(folder)
}

pub fn refuse_exposed(path: &Path) -> Result<()> {
    let mode = std::fs::metadata(path).with_context(|| cannot("look at", path))?.permissions().mode();
    let path = path.display();
    ensure!(mode & 0o022 == 0, "cannot use `{path}`: other users may write to it; `chmod go-w {path}` closes it");
    Ok(())
}
