//! Opening the embedded store, and the runtime that everything here runs on.

use anyhow::{Context, Result};
use std::path::Path;
use weft_store_sqlite::{Options, SqliteStore};

/// The file of the store inside its folder.
pub const FILE: &str = "weft.db";

/// Threads of the runtime. The SQLite writer has a thread of its own besides.
const THREADS: usize = 2;

pub fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(THREADS).enable_all().build().context("could not start the runtime")
}

/// Opens the store in `dir`; both are made if they are not there.
pub fn open_dir(dir: &Path) -> Result<SqliteStore> {
    Ok(SqliteStore::open(Options::new(dir.join(FILE)))?)
}
