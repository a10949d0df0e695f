//! Where PostgreSQL is installed, and how it gets there. Debian keeps the server off the path, in a folder per version.

use crate::cache;
use crate::error::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

const WHAT: &str = "PostgreSQL";
const INSTALL: &str =
    "install the server (`apt-get install postgresql` as root), or put `initdb` and `postgres` on the path";
const DEBIAN: &str = "/usr/lib/postgresql";

pub struct Binaries {
    folder: PathBuf,
}

impl Binaries {
    /// On the path, or Debian's newest, or installed now if we are root on a system with `apt-get`.
    pub fn find() -> Result<Binaries> {
        if let Some(found) = Binaries::look() {
            return Ok(found);
        }
        let missing = Error::Missing { what: WHAT, install: INSTALL };
        if cache::on_path("apt-get").is_none() || !rustix::process::geteuid().is_root() {
            return Err(missing);
        }
        let _lock = cache::lock()?;
        // Another process may have installed it while this one waited for the lock.
        if Binaries::look().is_none() {
            install()?;
        }
        Binaries::look().ok_or(missing)
    }

    pub fn path(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }

    fn look() -> Option<Binaries> {
        let on_path = cache::on_path("postgres").and_then(|file| file.parent().map(PathBuf::from));
        on_path
            .into_iter()
            .chain(newest(Path::new(DEBIAN)))
            .find(|folder| complete(folder))
            .map(|folder| Binaries { folder })
    }
}

fn complete(folder: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|program| folder.join(program).is_file())
}

/// The folders of the versions, the newest first.
fn newest(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let version = |name: std::ffi::OsString| name.to_str()?.parse::<u32>().ok();
    let mut versions: Vec<u32> = entries.filter_map(|entry| version(entry.file_name())).collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.into_iter().map(|version| folder.join(version.to_string()).join("bin")).collect()
}

fn install() -> Result<()> {
    let apt = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(words).env("DEBIAN_FRONTEND", "noninteractive");
        cache::install(WHAT, &mut command)
    };
    // An image often comes without the lists of packages; where they are, they may be too old to be served.
    apt(&["update"])?;
    apt(&["install", "-y", "--no-install-recommends", "postgresql"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers_and_the_newest_comes_first() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        for name in ["9", "15", "16", "common"] {
            std::fs::create_dir_all(folder.path().join(name).join("bin")).expect("it is fresh");
        }
        let found = newest(folder.path());
        let names: Vec<_> = found.iter().map(|path| path.strip_prefix(folder.path()).expect("it is inside")).collect();
        assert_eq!(names, [Path::new("16/bin"), Path::new("15/bin"), Path::new("9/bin")]);
        assert!(newest(&folder.path().join("absent")).is_empty());
    }
}
