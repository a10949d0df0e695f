//! Connections to a store file and the settings that the promise rests on.

use crate::folder::beside;
use crate::options::OpenError;
use rusqlite::{Connection, OpenFlags, Result};
use std::path::Path;
use std::time::Duration;

/// The first release without the defect that can damage a write-ahead log.
const LIBRARY_MIN: i32 = 3_051_003;

/// Larger pages mean fewer frames per commit; past this size a small commit writes more than it saves.
pub const PAGE_BYTES: u64 = 4096;

/// A store that was not closed is checked before it is opened if it is smaller than this.
pub const QUICK_CHECK_BYTES_MAX: u64 = 1 << 30;

/// How long a connection waits for a lock that a tool of the user may hold.
pub const BUSY: Duration = Duration::from_secs(5);

pub fn refuse_old_library() -> std::result::Result<(), OpenError> {
    refuse_older(rusqlite::version_number(), rusqlite::version())
}

fn refuse_older(number: i32, name: &str) -> std::result::Result<(), OpenError> {
    match number {
        LIBRARY_MIN.. => Ok(()),
        _ => Err(OpenError::Library { found: name.to_owned() }),
    }
}

/// The one connection that writes and checkpoints. Opening it changes nothing in the file.
pub fn writer(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

/// Sets what makes an acknowledged commit survive a power cut. The floor of the benchmark uses the same.
pub fn make_durable(connection: &Connection, cache_bytes: usize) -> Result<()> {
    // Takes effect on an empty file only, and must come before the switch to a write-ahead log.
    connection.pragma_update(None, "page_size", PAGE_BYTES as i64)?;
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        return Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN),
            Some(format!("the file system allows no write-ahead log, only `{mode}`")),
        ));
    }
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "foreign_keys", false)?;
    shared(connection, cache_bytes)
}

/// A connection that cannot write.
pub fn reader(path: &Path, cache_bytes: usize) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.set_prepared_statement_cache_capacity(128);
    shared(&connection, cache_bytes)?;
    Ok(connection)
}

fn shared(connection: &Connection, cache_bytes: usize) -> Result<()> {
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cache_size", -((cache_bytes >> 10) as i64))
}

/// Lets the file grow to this size and no further. What is above already stays.
pub fn limit(connection: &Connection, bytes: u64) -> Result<()> {
    let pages = (bytes / PAGE_BYTES).clamp(1, u64::from(u32::MAX) - 1);
    connection.pragma_update(None, "max_page_count", pages as i64)
}

/// Whether the store was left without being closed: closing it removes the log.
pub fn was_left_open(path: &Path) -> bool {
    std::fs::metadata(beside(path, "-wal")).is_ok_and(|metadata| metadata.len() > 0)
}

/// Looks through the whole file for damage.
pub fn quick_check(connection: &Connection, path: &Path) -> std::result::Result<(), OpenError> {
    let what = check(connection, "quick_check").map_err(|source| OpenError::sqlite(path, source))?;
    what.map_or(Ok(()), |what| Err(OpenError::Damaged { path: path.to_owned(), what }))
}

/// Runs `quick_check` or `integrity_check`; what is wrong, if anything is.
pub fn check(connection: &Connection, name: &str) -> Result<Option<String>> {
    let what: String = connection.pragma_query_value(None, name, |row| row.get(0))?;
    Ok((what != "ok").then_some(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rl_71_rl_78_the_settings_are_those_the_promise_rests_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        std::fs::write(&path, "").unwrap();
        let connection = writer(&path).unwrap();
        make_durable(&connection, 1 << 20).unwrap();
        let setting = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
        let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
        assert_eq!(setting("synchronous"), 2);
        assert_eq!(setting("wal_autocheckpoint"), 0);
        assert_eq!(setting("cell_size_check"), 1);
        assert_eq!(setting("foreign_keys"), 0);
        assert_eq!(setting("page_size"), PAGE_BYTES as i64);
        // Absent altogether if the library was built without it.
        let mapped = connection.pragma_query_value(None, "mmap_size", |row| row.get::<_, i64>(0));
        assert!(mapped.is_err() || mapped == Ok(0));
    }

    #[test]
    fn rl_70_a_library_that_can_damage_the_log_is_refused() {
        assert!(refuse_old_library().is_ok());
        assert!(refuse_older(3_051_003, "3.51.3").is_ok());
        let error = refuse_older(3_051_002, "3.51.2").unwrap_err();
        assert!(error.to_string().contains("SQLite 3.51.2"), "{error}");
    }
}
