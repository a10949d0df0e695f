//! Copying a store that is in use. The copy is one moment of the store, checked before it gets its name.

use crate::connection;
use crate::folder::beside;
use crate::store::SqliteStore;
use rusqlite::{Connection, OpenFlags, backup};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A finished copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    pub path: PathBuf,
    pub bytes: u64,
}

/// Why there is no copy. Nothing is left under its name.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("cannot write `{}`: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("could not copy the store: {0}")]
    Copy(#[from] rusqlite::Error),
    #[error("the copy is damaged ({0})")]
    Damaged(String),
}

impl SqliteStore {
    /// Copies the store to `destination`, which must not exist. Commits go on meanwhile; the write-ahead log grows until
    /// the copy is done. Blocks: not for an async thread.
    pub fn backup(&self, destination: &Path) -> Result<Backup, BackupError> {
        let failed = |source| BackupError::File { path: destination.to_owned(), source };
        if destination.exists() {
            return Err(failed(io::ErrorKind::AlreadyExists.into()));
        }
        let partial = beside(destination, ".partial");
        // What an interrupted copy left is worthless.
        drop(fs::remove_file(&partial));
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial).map_err(failed)?;
        let done = self.copy(&partial).and_then(|()| finish(&partial, destination).map_err(failed));
        if done.is_err() {
            drop(fs::remove_file(&partial));
        }
        done
    }

    fn copy(&self, partial: &Path) -> Result<(), BackupError> {
        let source = connection::reader(self.path(), 0)?;
        let mut copy = Connection::open_with_flags(partial, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // All pages in one go, so that they are of one snapshot and commits cannot make it begin again.
        match backup::Backup::new(&source, &mut copy)?.step(-1)? {
            backup::StepResult::Done => {}
            other => return Err(BackupError::Damaged(format!("it ended as {other:?}"))),
        }
        drop(source);
        // The copy stays a single file: nothing else must be carried along with it.
        copy.pragma_update(None, "journal_mode", "delete")?;
        match connection::check(&copy, "integrity_check")? {
            None => Ok(()),
            Some(what) => Err(BackupError::Damaged(what)),
        }
    }
}

/// Gives the copy its name, durably.
fn finish(partial: &Path, destination: &Path) -> io::Result<Backup> {
    File::open(partial)?.sync_all()?;
    fs::rename(partial, destination)?;
    let folder = destination.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()?;
    Ok(Backup { path: destination.to_owned(), bytes: fs::metadata(destination)?.len() })
}
