//! The folder of the node: its keys, and on SQLite its data.

use super::cannot;
use crate::store::Address;
use anyhow::{Context, Result, ensure};
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use weft_config::{Settings, keys};
use weft_store_sqlite::resolve;

const DEFAULT: &str = "weft-data";

/// The folder that is configured, else that of the file, so that what belongs together lies together. A link to a file is
/// resolved, as the store does.
pub fn of(settings: &Settings, address: &Address) -> PathBuf {
    if let Some(folder) = settings.get(keys::NODE_DATA_DIR) {
        return folder;
    }
    match address {
        Address::Sqlite { path, .. } => {
            let target = if path.is_symlink() { resolve(path).ok() } else { None };
            let parent = target.as_ref().unwrap_or(path).parent().filter(|folder| !folder.as_os_str().is_empty());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_linked_file_is_that_of_the_file() {
        let (data, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (file, link) = (data.path().join("weft.db"), elsewhere.path().join("weft.db"));
        let folder = |path: &Path| {
            let address = Address::parse(&format!("sqlite://{}", path.display())).unwrap();
            of(&Settings::built_in(), &address)
        };
        assert_eq!(folder(&file), data.path(), "there is no file yet");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        std::fs::write(&file, "").unwrap();
        assert_eq!(folder(&link), std::fs::canonicalize(data.path()).unwrap());
        assert_eq!(folder(Path::new("weft.db")), Path::new("."));
    }
}
