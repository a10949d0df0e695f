//! A copy of the audit log as lines of JSON, of what was done through this node. The log in the store is the truth; what
//! cannot be written to the file is told in the log of the node and is missing in the copy alone.

use super::cannot;
use anyhow::{Context, Result};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use weft_core::record::Audit;
use weft_engine::Engine;

/// Opened for as long as the node runs.
pub struct AuditFile {
    path: PathBuf,
    lines: Lines<File>,
    entries: UnboundedReceiver<Audit>,
    reopen: Arc<Notify>,
}

/// Opens the file, or says why it cannot be opened.
fn open(path: &Path) -> Result<Lines<File>> {
    let opened = || {
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        // A pipe or a device has no end to look at.
        let torn = file.metadata()?.is_file() && ends_torn(&mut file)?;
        Ok(Lines { file, torn })
    };
    let opened: io::Result<Lines<File>> = opened();
    opened.with_context(|| cannot("write the audit log to", path))
}

/// Whether somebody who was killed has left half a line.
fn ends_torn(file: &mut File) -> io::Result<bool> {
    let mut last = [0];
    if file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        return Ok(last != *b"\n");
    }
    Ok(false)
}

/// Lines that begin where the last one ended, also where it was cut.
struct Lines<W> {
    file: W,
    torn: bool,
}

impl<W: Write> Lines<W> {
    /// Adds a line. On an error a part of it may be there; the next line begins behind it.
    fn add(&mut self, mut line: Vec<u8>) -> io::Result<()> {
        if self.torn {
            line.insert(0, b'\n');
        }
        line.push(b'\n');
        let mut at = 0;
        while at < line.len() {
            match self.file.write(&line[at..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(more) => at += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            self.torn = line[at - 1] != b'\n';
        }
        Ok(())
    }
}

impl AuditFile {
    pub fn begin(path: PathBuf, engine: &Engine) -> Result<Self> {
        Ok(Self { lines: open(&path)?, path, entries: engine.audited(), reopen: Arc::default() })
    }

    /// Told after the file was moved away, so that the next entry begins a new one.
    pub fn reopened_by(&self) -> Arc<Notify> {
        self.reopen.clone()
    }

    /// Writes until the engine is gone.
    pub async fn run(mut self) {
        // Entries that the file did not take since it took one.
        let mut skipped = 0_u64;
        loop {
            let entry = tokio::select! {
                // An entry that comes after the wish for another file belongs there.
                biased;
                () = self.reopen.notified() => {
                    match open(&self.path) {
                        Ok(lines) => self.lines = lines,
                        Err(error) => tracing::error!(error = format!("{error:#}"), "the audit log goes on in the file that was open"),
                    }
                    continue;
                }
                entry = self.entries.recv() => entry,
            };
            let path = self.path.display();
            let Some(entry) = entry else {
                if skipped > 0 {
                    tracing::error!(skipped, %path, "entries of the audit log are missing in its copy");
                }
                return;
            };
            let line = serde_json::to_vec(&weft_dispatch::audit_entry(&entry)).map_err(io::Error::from);
            match line.and_then(|line| self.lines.add(line)) {
                Ok(()) if skipped > 0 => {
                    tracing::warn!(skipped, %path, "the audit log is copied again; so many entries are missing in its copy");
                    skipped = 0;
                }
                Ok(()) => {}
                Err(error) => {
                    if skipped == 0 {
                        tracing::error!(%error, %path, "could not copy an entry of the audit log");
                    }
                    skipped += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes, then nothing until it is emptied.
    struct Disk {
        room: usize,
        bytes: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.room);
            if taken == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            self.room -= taken;
            self.bytes.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn ops_13_a_line_that_was_cut_does_not_spoil_the_next_one() {
        let mut lines = Lines { file: Disk { room: 7, bytes: Vec::new() }, torn: false };
        lines.add(b"one".to_vec()).unwrap();
        lines.add(b"other".to_vec()).unwrap_err();
        lines.add(b"lost".to_vec()).unwrap_err();
        lines.file.room = 100;
        lines.add(b"two".to_vec()).unwrap();
        lines.add(b"three".to_vec()).unwrap();
        assert_eq!(String::from_utf8(lines.file.bytes).unwrap(), "one\noth\ntwo\nthree\n");
    }

    #[test]
    fn ops_13_half_a_line_of_a_run_before_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        for (text, torn) in [("", false), ("{}\n", false), ("{}\n{\"a", true)] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(open(&path).unwrap().torn, torn, "{text:?}");
        }
    }
}
