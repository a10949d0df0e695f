//! `weft serve`.

mod folder;
mod master;

use crate::node::build;
use crate::store::Address;
use anyhow::{Context, Result};
use weft_config::{Settings, keys};

/// What is wrong with settings that can each be read, without opening the store.
pub fn check(settings: &Settings) -> Vec<String> {
    let told = |error: anyhow::Error| format!("{error:#}");
    let mut mistakes = Vec::new();
    match Address::configured(settings) {
        Ok(address) => mistakes.extend(master::check(settings, &address).err().map(told)),
        Err(error) => mistakes.push(told(error)),
    }
    mistakes.extend(build::identity(settings).err().map(told));
    if settings.get(keys::SERVER_CORS_ORIGINS).iter().any(|origin| origin == "*") {
        let origin = settings.origin(keys::SERVER_CORS_ORIGINS);
        mistakes
            .push(format!("`server.cors_origins` has `*` ({origin}), which only `weft dev` takes: list the origins"));
    }
    mistakes
}

/// A folder that cannot be used, in the words of everything else.
fn cannot(what: &str, path: &std::path::Path) -> String {
    format!("cannot {what} `{}`", path.display())
}

/// Writes a file that only this user can read, and lets it reach the disk.
fn write_private(path: &std::path::Path, text: &str) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let written = || {
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        std::fs::File::open(folder.unwrap_or(std::path::Path::new(".")))?.sync_all()
    };
    written().with_context(|| cannot("write", path))
}
