//! Where installed servers are kept between runs, and how one process at a time installs.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A folder inside cargo's target folder, which is known by its variable or by the mark cargo leaves in it; without
/// either, a folder among the system's short-lived ones.
pub fn folder() -> Result<PathBuf> {
    let named = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from).filter(|target| target.is_absolute());
    let exe = std::env::current_exe().unwrap_or_default();
    let around = || exe.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file()).map(PathBuf::from);
    let target = named.or_else(around).unwrap_or_else(std::env::temp_dir);
    let folder = target.join("weft-servers");
    match std::fs::create_dir_all(&folder) {
        Ok(()) => Ok(folder),
        Err(source) => Err(Error::Path { doing: "make", path: folder, source }),
    }
}

/// Waits until no other process installs. Held until the answer is dropped, also by a process that is killed.
pub fn lock() -> Result<File> {
    let path = folder()?.join("lock");
    let held = File::create(&path).and_then(|file| file.lock().map(|()| file));
    held.map_err(|source| Error::Path { doing: "lock", path, source })
}

/// Runs a command that installs something, and says so on stderr since it takes a while. What it wrote is in the error.
pub fn install(what: &'static str, command: &mut Command) -> Result<()> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    // A stderr that is gone is no reason to stop.
    let _ = writeln!(std::io::stderr(), "installing {what}: {line}");
    let failed = |ended: String| Error::Install { what, command: line.clone(), ended };
    let output = command.stdin(Stdio::null()).output().map_err(|error| failed(format!("did not start: {error}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(failed(format!("ended with {} and said\n{}", output.status, said.trim_end())));
    }
    Ok(())
}

/// Where a program is on the path.
pub fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}
