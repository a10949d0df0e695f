//! The private folder of one task: the control pipe, and the files that the program gets. Readable by nobody else, gone
//! with the task: this process removes it, and if it was killed, the supervisor does.

use crate::task::Task;
use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The supervisor opens this file as the program's stdin and removes it before the program starts. A file and not a pipe,
/// so that a program that does not read its input holds up nobody.
pub const STDIN: &str = "stdin";

pub struct Folder {
    folder: TempDir,
    pub input: Option<PathBuf>,
    pub checkpoint: Option<PathBuf>,
}

impl Folder {
    /// Blocks for as long as the files take to be written.
    pub fn make(task: &Task, input_as_file: bool) -> io::Result<Folder> {
        let folder =
            tempfile::Builder::new().prefix("weft-task-").permissions(Permissions::from_mode(0o700)).tempdir()?;
        let write = |name: &str, bytes: &[u8]| -> io::Result<PathBuf> {
            let path = folder.path().join(name);
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?.write_all(bytes)?;
            Ok(path)
        };
        let checkpoint = task.checkpoint.as_ref().map(|bytes| write("checkpoint", bytes)).transpose()?;
        let name = if input_as_file { "input" } else { STDIN };
        let input = task.input.as_ref().map(|bytes| write(name, bytes)).transpose()?;
        let folder = Folder { folder, input: input.filter(|_| input_as_file), checkpoint };
        if let Some(member) = &task.member {
            member.inputs.move_to(&folder.inputs())?;
        }
        make_fifo(&folder.control())?;
        Ok(folder)
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// There only for a member of a flow.
    pub fn inputs(&self) -> PathBuf {
        self.folder.path().join("inputs")
    }

    pub fn control(&self) -> PathBuf {
        self.folder.path().join("control")
    }
}

#[cfg(not(target_vendor = "apple"))]
fn make_fifo(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, Mode, mkfifoat};
    Ok(mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?)
}

#[cfg(target_vendor = "apple")]
fn make_fifo(path: &Path) -> io::Result<()> {
    let made = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(path).status()?;
    if made.success() { Ok(()) } else { Err(io::Error::other("mkfifo failed")) }
}
