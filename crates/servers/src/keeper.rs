//! No server outlives its caller, and no folder does.
//!
//! Beside every server runs a shell that reads from a pipe whose other end only this process holds. It is told each
//! process that is started in the folder. When the pipe closes, because the server is dropped or because this process
//! ended in whatever way, the shell kills what it was told last, with what that had forked, and removes the folder.

use crate::error::{Error, Result};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Interrupts of a terminal go to everybody; this shell is the one that has to stay a moment longer.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
pid=0
while read -r told; do pid=$told; done
if [ "$pid" != 0 ]; then
    kill -STOP "$pid" 2>/dev/null
    kill -KILL "$pid" $(cat "/proc/$pid/task/$pid/children" 2>/dev/null) 2>/dev/null
fi
rm -rf "$1" 2>/dev/null || { sleep 1; rm -rf "$1"; }
"#;

/// A folder that goes away when this is dropped, and the process in it with it.
pub struct Keeper {
    folder: PathBuf,
    shell: Child,
}

impl Keeper {
    /// A fresh folder, named for what runs in it.
    pub fn new(name: &str) -> Result<Keeper> {
        let made = tempfile::Builder::new().prefix(&format!("weft-{name}-")).tempdir();
        let made =
            made.map_err(|source| Error::Path { doing: "make a folder in", path: std::env::temp_dir(), source })?;
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "keeper"]).arg(made.path()).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let shell = command.spawn().map_err(|source| Error::Spawn { program: "sh".to_owned(), source })?;
        Ok(Keeper { folder: made.keep(), shell })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// From here on this process goes down with the caller; none if nothing runs.
    pub fn watch(&mut self, pid: Option<u32>) -> Result<()> {
        let stdin = self.shell.stdin.as_mut().expect("keeper: its stdin is piped and closed only by drop");
        let told = writeln!(stdin, "{}", pid.unwrap_or(0)).and_then(|()| stdin.flush());
        told.map_err(|source| Error::Wire { what: "the shell that watches over a server".to_owned(), source })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // It removes the folder, and then there is nothing left to do about a failure.
        let _ = self.shell.wait();
    }
}
