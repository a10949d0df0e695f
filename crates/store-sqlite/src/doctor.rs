//! Looking at a store file from outside: whether a node could open it and rely on it. Changes nothing and may run while
//! a node has the file open.

use crate::options::OpenError;
use crate::{connection, folder, migrations};
use rusqlite::{Connection, OpenFlags};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Instant;
use weft_store::Finding;

/// Writes that are timed.
const SYNCS: usize = 15;
const SYNC_BYTES: usize = 4096;

/// No disk is so fast: whatever answers sooner has not written.
const SYNC_MS_MIN: f64 = 0.005;
/// Every commit waits for one, so this is a rate below a hundred a second without batching.
const SYNC_MS_SLOW: f64 = 20.0;

/// What an open would do to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The format of the file; `None` if there is none yet.
    pub found: Option<i64>,
    /// The format that this program writes.
    pub wanted: i64,
}

impl Plan {
    /// Whether an open would change the file.
    pub fn is_due(self) -> bool {
        self.found != Some(self.wanted)
    }
}

/// Says what an open would do. Only reads; refuses what an open would refuse.
pub fn plan(path: &Path) -> Result<Plan, OpenError> {
    let path = &folder::resolve(path).unwrap_or_else(|_| path.to_owned());
    let found = match fs::metadata(path) {
        Ok(metadata) if metadata.len() > 0 => {
            let connection = look(path).map_err(|source| OpenError::sqlite(path, source))?;
            migrations::identify(&connection, path)?
        }
        _ => {
            folder::refuse_orphaned_log(path)?;
            None
        }
    };
    Ok(Plan { found, wanted: migrations::VERSION })
}

/// A connection that leaves no file behind: one that may only read cannot remove the log that it makes.
fn look(path: &Path) -> rusqlite::Result<Connection> {
    if folder::beside(path, "-wal").exists() {
        return connection::reader(path, 0);
    }
    let name = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(format!("file:{name}?immutable=1"), flags)
}

/// Looks at the file, its folder and the disk under it.
pub fn inspect(path: &Path) -> Vec<Finding> {
    let path = &folder::resolve(path).unwrap_or_else(|_| path.to_owned());
    if let Err(error) = folder::refuse_orphaned_log(path) {
        return vec![Finding::problem("store", error.to_string(), "look for the database where it was moved to")];
    }
    let Ok(metadata) = fs::metadata(path) else {
        let found = format!("there is no `{}`", path.display());
        return vec![Finding::problem("store", found, "`weft migrate` makes it, and so does the first start")];
    };
    let size = format!("sqlite `{}`, {:.1} MB", path.display(), metadata.len() as f64 / 1e6);
    let mut findings = vec![Finding::fine("store", size)];
    findings.push(library());
    findings.extend(places(path));
    let (lock, held) = lock(path);
    findings.push(lock);
    findings.extend(format(path, held));
    findings.push(sync(&folder::folder_of(path)));
    findings
}

fn library() -> Finding {
    match connection::refuse_old_library() {
        Ok(()) => Finding::fine("library", format!("SQLite {}, WAL, synchronous FULL", rusqlite::version())),
        Err(error) => Finding::problem("library", error.to_string(), "use a build with a newer SQLite"),
    }
}

/// Who may write where the store is.
fn places(path: &Path) -> Vec<Finding> {
    let folder = folder::folder_of(path);
    let mode = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode() & 0o777);
    let mut findings = Vec::new();
    for (place, refused) in [(&*folder, folder::refuse_exposed(&folder)), (path, folder::refuse_exposed(path))] {
        if refused.is_err() {
            let found = format!("`{}` has the mode {:o}: other users may write there", place.display(), mode(place));
            findings.push(Finding::problem("permissions", found, format!("`chmod go-w {}`", place.display())));
        }
    }
    if findings.is_empty() {
        let found = format!("folder {:o}, file {:o}", mode(&folder), mode(path));
        findings.push(Finding::fine("permissions", found));
    }
    if let Err(error @ OpenError::Linked { .. }) = folder::refuse_links(path) {
        findings.push(Finding::problem("names", error.to_string(), "`find -samefile` lists the other names"));
    }
    if let Err(error @ OpenError::Mounted { .. }) = folder::refuse_mounted(path) {
        findings.push(Finding::problem(
            "mount",
            error.to_string(),
            "stop the node before: that copies its log into the file",
        ));
    }
    if let Err(error) = folder::refuse_network(&folder) {
        findings.push(Finding::problem("file system", error.to_string(), "move the store to a local disk"));
    }
    findings
}

/// Who has the store open, and whether somebody has.
fn lock(path: &Path) -> (Finding, bool) {
    // By inode: it may be open by another name, or its lock file be gone.
    let other = || match folder::holder(path) {
        Some(holder) => (Finding::fine("lock", format!("{holder} has it open")), true),
        None => (Finding::fine("lock", "nobody has it open"), false),
    };
    let Ok(mut file) = File::open(folder::beside(path, ".lock")) else { return other() };
    // Shared, and let go at once: it cannot keep a node out for longer than this moment.
    match file.try_lock_shared() {
        Ok(()) => other(),
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // What the holder wrote is only for the message.
            let _ = file.read_to_string(&mut holder);
            let holder = holder.lines().next().unwrap_or("another process").to_owned();
            (Finding::fine("lock", format!("{holder} has it open")), true)
        }
        Err(TryLockError::Error(error)) => {
            let found = format!("the lock file cannot be locked: {error}");
            (Finding::problem("lock", found, "move the store to a file system that locks"), false)
        }
    }
}

fn format(path: &Path, held: bool) -> Vec<Finding> {
    let wanted = migrations::VERSION;
    let plan = match plan(path) {
        Ok(plan) => plan,
        Err(OpenError::Sqlite { source, .. }) => {
            return vec![Finding::problem("format", source.to_string(), "restore a backup, or name another file")];
        }
        Err(error) => return vec![Finding::problem("format", error.to_string(), "name another file")],
    };
    let format = match plan.found {
        Some(found) if found == wanted => Finding::fine("format", format!("{found}, the latest")),
        Some(found) => {
            let advice = "`weft migrate` brings it up to date, and so does the next start";
            Finding::warning("format", format!("{found}, this program writes {wanted}"), advice)
        }
        None => Finding::warning("format", "the file is empty", "`weft migrate` makes the tables"),
    };
    let small = fs::metadata(path).is_ok_and(|metadata| metadata.len() < connection::QUICK_CHECK_BYTES_MAX);
    let checked = (small && !held).then(|| integrity(path));
    std::iter::once(format).chain(checked).collect()
}

fn integrity(path: &Path) -> Finding {
    let checked = look(path).and_then(|connection| connection::check(&connection, "quick_check"));
    match checked {
        Ok(None) => Finding::fine("integrity", "no damage found"),
        Ok(Some(what)) => Finding::problem("integrity", what, "restore a backup"),
        Err(error) => Finding::problem("integrity", error.to_string(), "restore a backup"),
    }
}

/// How long the disk takes to say that something is written.
fn sync(folder: &Path) -> Finding {
    match time_sync(folder) {
        Err(error) => {
            let advice = "give this user the right to write there, or make room on the disk";
            Finding::problem("fsync", format!("cannot write in `{}`: {error}", folder.display()), advice)
        }
        Ok(ms) if ms < SYNC_MS_MIN => {
            let advice =
                "make sure that the disk survives a power cut; file systems in memory and disks that lie do not";
            Finding::warning("fsync", format!("{ms:.4} ms, which is faster than any disk"), advice)
        }
        Ok(ms) if ms > SYNC_MS_SLOW => {
            let advice = "every commit waits for it; a disk with a protected cache is a hundred times faster";
            Finding::warning("fsync", format!("{ms:.1} ms"), advice)
        }
        Ok(ms) => Finding::fine("fsync", format!("{ms:.2} ms")),
    }
}

fn time_sync(folder: &Path) -> io::Result<f64> {
    let path = folder.join(format!(".weft-doctor-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    let timed = (0..SYNCS).map(|_| {
        let begun = Instant::now();
        file.write_all(&[0x5a; SYNC_BYTES])?;
        file.sync_data()?;
        Ok(begun.elapsed().as_secs_f64() * 1000.0)
    });
    let timed: io::Result<Vec<f64>> = timed.collect();
    fs::remove_file(&path)?;
    let mut timed = timed?;
    timed.sort_by(f64::total_cmp);
    Ok(timed[SYNCS / 2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, SqliteStore};
    use weft_store::Severity;

    fn found<'f>(findings: &'f [Finding], subject: &str) -> &'f Finding {
        findings.iter().find(|finding| finding.subject == subject).unwrap_or_else(|| panic!("{findings:?}"))
    }

    #[test]
    fn ops_29_a_good_file_has_nothing_to_complain_about() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data").join("weft.db");
        let store = SqliteStore::open(Options::new(&path)).unwrap();
        let open = inspect(&path);
        assert!(found(&open, "lock").found.starts_with(&format!("process {}", std::process::id())), "{open:?}");
        drop(store);
        let findings = inspect(&path);
        assert!(findings.iter().all(|finding| finding.severity < Severity::Problem), "{findings:?}");
        assert_eq!(found(&findings, "lock").found, "nobody has it open");
        assert_eq!(found(&findings, "integrity").found, "no damage found");
        assert_eq!(plan(&path).unwrap(), Plan { found: Some(migrations::VERSION), wanted: migrations::VERSION });
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 2, "nothing is left behind");
    }

    #[test]
    fn sec_15_ops_29_what_keeps_a_node_from_starting_is_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weft.db");
        assert_eq!(inspect(&path)[0].severity, Severity::Problem);
        assert!(plan(&path).unwrap().is_due());
        drop(SqliteStore::open(Options::new(&path)).unwrap());
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let exposed = inspect(&path);
        assert_eq!(found(&exposed, "permissions").severity, Severity::Problem);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();

        fs::write(&path, "not a database at all, but long enough to be looked at").unwrap();
        let wrong = inspect(&path);
        assert_eq!(found(&wrong, "format").severity, Severity::Problem, "{wrong:?}");
    }
}
