//! The place of a store file: its folder, its names, who may write there, and the locks that keep other processes out.
//!
//! Never closes a descriptor of the database file while SQLite may have it open in this process: that would drop the
//! locks that SQLite holds on it.

use crate::options::OpenError;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// File systems on which locks or shared memory do not hold between machines.
const NETWORK: [&str; 11] =
    ["nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "fuse.sshfs", "glusterfs", "fuse.glusterfs", "lustre"];

/// Held while a process has the store open. The system lets go of it when the process ends, however it ends.
pub struct Lock {
    /// Locks the inode, so that it holds under every name of the file. Released first, so that a process which gets the
    /// lock of `_beside` gets this one too.
    _database: Option<File>,
    /// Says who holds it.
    _beside: File,
}

/// The path with `suffix` behind its name, as SQLite names the files beside a database.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Makes the folder if need be and takes the locks. Returns the path without symbolic links, beside which SQLite keeps
/// its log. The database file exists afterwards; a new one is empty.
pub fn prepare(path: &Path) -> Result<(PathBuf, Lock), OpenError> {
    let named = folder_of(path);
    let failed = |source| OpenError::Folder { path: named.clone(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(&named).map_err(failed)?;
    refuse_exposed(&named)?;
    let path = resolve(path).map_err(failed)?;
    let folder = folder_of(&path);
    refuse_network(&folder)?;
    refuse_exposed(&folder)?;
    refuse_links(&path)?;
    refuse_mounted(&path)?;
    let beside = lock_beside(&path)?;
    refuse_orphaned_log(&path)?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => refuse_exposed(&path)?,
        Err(error) => return Err(failed(error)),
    }
    let database = lock_database(&path)?;
    Ok((path, Lock { _database: database, _beside: beside }))
}

/// The path without symbolic links; of a file that does not exist, that of its folder is resolved.
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let name = path.file_name().ok_or(error)?;
            Ok(fs::canonicalize(folder_of(path))?.join(name))
        }
        resolved => resolved,
    }
}

/// Takes from other users the right to read the file.
pub fn keep_private(path: &Path) -> Result<(), OpenError> {
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(path, private).map_err(|source| OpenError::Folder { path: folder_of(path), source })
}

pub fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

pub fn refuse_exposed(path: &Path) -> Result<(), OpenError> {
    let metadata = fs::metadata(path).map_err(|source| OpenError::Folder { path: path.to_owned(), source })?;
    match metadata.permissions().mode() & 0o022 {
        0 => Ok(()),
        _ => Err(OpenError::Exposed { path: path.to_owned() }),
    }
}

/// Refuses a file with a second name: the log lies beside the name that it was opened by, and is missing beside the other.
/// `path` has no symbolic links.
pub fn refuse_links(path: &Path) -> Result<(), OpenError> {
    match fs::metadata(path).map_or(1, |metadata| metadata.nlink()) {
        0 | 1 => Ok(()),
        names => Err(match holder(path) {
            Some(holder) => OpenError::Locked { path: path.to_owned(), holder },
            None => {
                let has_log = fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0);
                OpenError::Linked { path: path.to_owned(), names, has_log }
            }
        }),
    }
}

/// Refuses a file that is a mount point by itself: its log lies beside the mount point, and another one, or none, beside
/// the file that is mounted. `path` has no symbolic links. Only Linux says what is mounted.
pub fn refuse_mounted(path: &Path) -> Result<(), OpenError> {
    match mount_points(&mounts()).any(|(point, _)| point == path) {
        false => Ok(()),
        true => Err(match holder(path) {
            Some(holder) => OpenError::Locked { path: path.to_owned(), holder },
            None => OpenError::Mounted { path: path.to_owned() },
        }),
    }
}

/// Refuses a log with content whose database is absent or empty: SQLite would remove it, and with it every commit since
/// the last checkpoint. A database of Weft is never empty while its log is not.
pub fn refuse_orphaned_log(path: &Path) -> Result<(), OpenError> {
    let bytes = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    let log = beside(path, "-wal");
    match bytes(path) == 0 && bytes(&log) > 0 {
        true => Err(OpenError::OrphanedLog { path: path.to_owned(), log }),
        false => Ok(()),
    }
}

/// Locks the file beside the database, and writes there who this is.
fn lock_beside(path: &Path) -> Result<File, OpenError> {
    let lock_path = beside(path, ".lock");
    let failed = |source| OpenError::Folder { path: folder_of(path), source };
    let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).clone();
    let mut file = options.open(&lock_path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // What the holder wrote is only for the message: without it the refusal is the same.
            let _ = file.read_to_string(&mut holder);
            let holder = holder.lines().next().filter(|line| !line.is_empty()).unwrap_or("another process").to_owned();
            return Err(OpenError::Locked { path: path.to_owned(), holder });
        }
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    let boot = system("/proc/sys/kernel/random/boot_id");
    file.rewind().map_err(failed)?;
    file.set_len(0).map_err(failed)?;
    writeln!(file, "{}\nboot {boot}", named(std::process::id())).map_err(failed)?;
    Ok(file)
}

/// Locks the database file itself. On systems other than Linux this lock would be one of those that SQLite takes.
fn lock_database(path: &Path) -> Result<Option<File>, OpenError> {
    if cfg!(not(target_os = "linux")) {
        return Ok(None);
    }
    let failed = |source| OpenError::Folder { path: folder_of(path), source };
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
    let refused = match file.try_lock() {
        Ok(()) => return Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            let holder = holder(path).unwrap_or_else(|| "another process".to_owned());
            OpenError::Locked { path: path.to_owned(), holder }
        }
        Err(TryLockError::Error(source)) => failed(source),
    };
    // Stays open: the holder may be another store of this process, whose SQLite would lose its locks.
    std::mem::forget(file);
    Err(refused)
}

/// The process that has locked the database file, whatever name it has it by; none if nobody has, or it is not one that
/// this user may look at.
pub fn holder(path: &Path) -> Option<String> {
    let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let wanted = id(fs::metadata(path).ok()?);
    let holds = |process: &Path| {
        let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        let mut locked = open.filter(|open| {
            let info = fs::read_to_string(process.join("fdinfo").join(open.file_name()));
            info.is_ok_and(|info| info.contains("FLOCK"))
        });
        locked.any(|open| fs::metadata(open.path()).is_ok_and(|found| id(found) == wanted))
    };
    let processes = fs::read_dir("/proc").ok()?.flatten().map(|process| process.path());
    let mut numbered = processes.filter_map(|path| Some((path.file_name()?.to_str()?.parse().ok()?, path)));
    numbered.find(|(_, process)| holds(process)).map(|(number, _)| named(number))
}

/// The name of a process in messages.
fn named(process: u32) -> String {
    format!("process {process} on {}", system("/proc/sys/kernel/hostname"))
}

fn system(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default().trim().to_owned()
}

pub fn refuse_network(folder: &Path) -> Result<(), OpenError> {
    let Ok(folder) = fs::canonicalize(folder) else { return Ok(()) };
    match file_system(&mounts(), &folder) {
        Some(system) if NETWORK.contains(&system) => {
            Err(OpenError::Network { path: folder, system: system.to_owned() })
        }
        _ => Ok(()),
    }
}

/// What is mounted where, as Linux writes it; empty on other systems.
fn mounts() -> String {
    let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
    String::from_utf8_lossy(&mounts).into_owned()
}

/// The type of the file system that `folder` is on: that of the longest mount point above it, the last one if several
/// are mounted there.
fn file_system<'a>(mounts: &'a str, folder: &Path) -> Option<&'a str> {
    let above = mount_points(mounts).filter(|(point, _)| folder.starts_with(point));
    above.max_by_key(|(point, _)| point.as_os_str().len()).map(|(_, system)| system)
}

/// Each mount point, with the type of the file system there.
fn mount_points(mounts: &str) -> impl Iterator<Item = (PathBuf, &str)> {
    mounts.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let point = before.split(' ').nth(4)?;
        Some((unescape(point), after.split(' ').next()?))
    })
}

/// A path of the list of mounts, in which `\040` is a space: a backslash and three octal digits are one byte.
fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_29_the_nearest_mount_point_counts() {
        let mounts = "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
                      30 22 0:25 / /data rw,relatime shared:1 - nfs4 host:/data rw\n\
                      31 30 0:26 / /data/local rw - xfs /dev/vdb rw\n";
        let system = |folder: &str| file_system(mounts, Path::new(folder));
        assert_eq!(system("/home/x"), Some("ext4"));
        assert_eq!(system("/data/weft"), Some("nfs4"));
        assert_eq!(system("/data/local/weft"), Some("xfs"));
        assert_eq!(system("/database"), Some("ext4"));
    }

    #[test]
    fn rl_76_a_file_that_is_mounted_by_itself_is_found_among_the_mounts() {
        let mounts = "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
                      30 22 254:0 /srv/weft.db /data/weft.db rw,relatime - ext4 /dev/vda rw\n\
                      31 22 254:0 /srv/my\\040files /my\\040files rw - xfs /dev/vdb rw\n\
                      32 22 254:0 /srv/a /a\\134b\\ rw - ext4 /dev/vda rw\n";
        let mounted = |path: &str| mount_points(mounts).any(|(point, _)| point == Path::new(path));
        assert!(mounted("/data/weft.db") && mounted("/my files") && mounted(r"/a\b\"));
        assert!(!mounted("/data") && !mounted("/data/weft.db-wal") && !mounted("/my files/weft.db"));
        assert_eq!(file_system(mounts, Path::new("/my files/weft")), Some("xfs"));
        let error = OpenError::Mounted { path: "/data/weft.db".into() }.to_string();
        assert!(error.ends_with("mount the folder instead"), "{error}");
    }
}
