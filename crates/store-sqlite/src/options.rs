//! How to open a store file, and every reason why that is refused.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Called with a sentence when the disk failed under the writer.
pub type OnIoError = Box<dyn Fn(&str) + Send>;

/// The exit code after an error of the disk.
pub const EXIT_IO: i32 = 74;

/// What to open, and how.
pub struct Options {
    /// The database file. Its folder is made if need be, for this user alone.
    pub path: PathBuf,
    /// Fixed when the file is made and compared at every open. 0 takes what the file has, and 1 for a new file.
    pub partitions: u16,
    /// Threads that read, each with a connection of its own.
    pub readers: usize,
    /// Pages that the writing connection keeps in memory; each reader keeps a quarter of it.
    pub cache_bytes: usize,
    /// The file never grows past this. Commits that would need more are answered as on a full disk.
    pub bytes_max: Option<u64>,
    /// What happens when the disk fails. By default the process ends with code 74; whatever is put here, the store
    /// writes nothing afterwards.
    pub on_io_error: OnIoError,
}

impl Options {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            partitions: 1,
            readers: 2,
            cache_bytes: 64 << 20,
            bytes_max: None,
            on_io_error: Box::new(|_| std::process::exit(EXIT_IO)),
        }
    }

    pub fn partitions(mut self, partitions: u16) -> Self {
        self.partitions = partitions;
        self
    }

    /// Reads `sqlite://PATH[?partitions=N]`. Without a number the file's own counts, 1 for a new file.
    pub fn from_url(url: &str) -> Result<Self, OpenError> {
        let wrong = || OpenError::Url(url.to_owned());
        let rest = url.strip_prefix("sqlite://").ok_or_else(wrong)?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if path.is_empty() {
            return Err(wrong());
        }
        let partitions = match query.split_once('=') {
            None if query.is_empty() => 0,
            Some(("partitions", number)) => number.parse().ok().filter(|number| *number > 0).ok_or_else(wrong)?,
            _ => return Err(wrong()),
        };
        Ok(Self::new(path).partitions(partitions))
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("path", &self.path)
            .field("partitions", &self.partitions)
            .finish_non_exhaustive()
    }
}

/// Why a store file was not opened. Nothing was changed, except that the folder may have been made.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot read `{0}`: a store is named `sqlite://PATH` or `sqlite://PATH?partitions=N`")]
    Url(String),
    #[error("cannot write in the folder `{}`: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("cannot use `{}`: other users may write to it; `chmod go-w {}` closes it", path.display(), path.display())]
    Exposed { path: PathBuf },
    #[error("cannot use `{}`: it is on a network file system ({system}), which does not lock reliably", path.display())]
    Network { path: PathBuf, system: String },
    #[error("cannot open `{}`: {holder} has it open; stop it first, or call its server", path.display())]
    Locked { path: PathBuf, holder: String },
    #[error(
        "cannot open `{}`: it has {names} names (hard links), and its log lies beside one of them only; {}",
        path.display(), link_advice(*has_log)
    )]
    Linked {
        path: PathBuf,
        names: u64,
        /// A log with content lies beside `path`.
        has_log: bool,
    },
    #[error(
        "cannot open `{}`: the file is mounted by itself, so that its log lies outside of what is mounted and commits in \
         it could be lost; mount the folder instead",
        path.display()
    )]
    Mounted { path: PathBuf },
    #[error(
        "cannot open `{}`: it is missing or empty, but its log `{}` is there, whose commits would be lost; move the database \
         back beside its log, or move the log away to begin with a new store",
        path.display(), log.display()
    )]
    OrphanedLog { path: PathBuf, log: PathBuf },
    #[error("cannot run on SQLite {found}: versions below 3.51.3 can damage a write-ahead log")]
    Library { found: String },
    #[error("cannot open `{}`: it is not a store of Weft ({why})", path.display())]
    NotWeft { path: PathBuf, why: String },
    #[error("cannot open `{}`: it has format {found}, and this program knows up to {known}; use a newer one", path.display())]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("cannot open `{}` with {asked} partitions: it was made with {stored}, which cannot change", path.display())]
    Partitions { path: PathBuf, asked: u16, stored: u16 },
    #[error("cannot open `{}`: it is damaged ({what}); restore a backup", path.display())]
    Damaged { path: PathBuf, what: String },
    #[error("could not start a thread: {0}")]
    Thread(io::Error),
    #[error("could not open `{}`: {source}", path.display())]
    Sqlite { path: PathBuf, source: rusqlite::Error },
}

/// Which names of a file to remove. The log goes with its name: without that name, all commits since the last checkpoint
/// are lost.
fn link_advice(has_log: bool) -> &'static str {
    match has_log {
        true => "it is beside this one: keep this name and remove the others, which `find -samefile` lists",
        false => {
            "it is not beside this one: do not remove a name yet; among the names that `find -samefile` lists, keep the \
             one that has a `-wal` file beside it (any, if none has), and remove the others"
        }
    }
}

impl OpenError {
    /// Gives an error of SQLite the reason that people need to hear.
    pub(crate) fn sqlite(path: &Path, source: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(NotADatabase) => OpenError::NotWeft { path, why: source.to_string() },
            Some(DatabaseCorrupt) => OpenError::Damaged { path, what: source.to_string() },
            _ => OpenError::Sqlite { path, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_path_and_perhaps_a_number_of_partitions() {
        let read = |url: &str| Options::from_url(url).map(|options| (options.path, options.partitions));
        assert_eq!(read("sqlite://a/b.db").unwrap(), (PathBuf::from("a/b.db"), 0));
        assert_eq!(read("sqlite:///a/b.db?partitions=4").unwrap(), (PathBuf::from("/a/b.db"), 4));
        for url in ["", "sqlite://", "postgres://x", "sqlite://x?partitions=0", "sqlite://x?partitons=4", "x.db"] {
            assert!(matches!(read(url), Err(OpenError::Url(_))), "{url}");
        }
    }
}
