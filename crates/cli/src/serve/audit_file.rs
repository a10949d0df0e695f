//! A copy of the audit log as lines of JSON, of what was done through this node. The log in the store is the truth; what
//! cannot be written to the file is told in the log of the node and is missing in the copy alone.

use super::cannot;
use anyhow::{Context, Result};
use std::fs::{File, OpenOptions};
use std::io::Write;
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
    file: File,
    entries: UnboundedReceiver<Audit>,
    reopen: Arc<Notify>,
}

/// Opens the file, or says why it cannot be opened.
fn open(path: &Path) -> Result<File> {
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    opened.with_context(|| cannot("write the audit log to", path))
}

impl AuditFile {
    pub fn begin(path: PathBuf, engine: &Engine) -> Result<Self> {
        Ok(Self { file: open(&path)?, path, entries: engine.audited(), reopen: Arc::default() })
    }

    /// Told after the file was moved away, so that the next entry begins a new one.
    pub fn reopened_by(&self) -> Arc<Notify> {
        self.reopen.clone()
    }

    /// Writes until the engine is gone.
    pub async fn run(mut self) {
        let mut failing = false;
        loop {
            let entry = tokio::select! {
                entry = self.entries.recv() => entry,
                () = self.reopen.notified() => {
                    match open(&self.path) {
                        Ok(file) => self.file = file,
                        Err(error) => tracing::error!(%error, "the audit log goes on in the file that was open"),
                    }
                    continue;
                }
            };
            let Some(entry) = entry else { return };
            let written = self.write(&entry);
            if let Err(error) = &written
                && !failing
            {
                tracing::error!(%error, path = %self.path.display(), "could not copy an entry of the audit log");
            }
            failing = written.is_err();
        }
    }

    fn write(&mut self, entry: &Audit) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(&weft_dispatch::audit_entry(entry))?;
        line.push(b'\n');
        self.file.write_all(&line)
    }
}
