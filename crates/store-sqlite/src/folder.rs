//! The place of a store file: its folder, who may write there, and the lock beside it.
//!
//! Never opens the database file while SQLite may have it open: closing any descriptor of it would drop the locks that
//! SQLite holds for this process.

use crate::options::OpenError;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// File systems on which locks or shared memory do not hold between machines.
const NETWORK: [&str; 11] =
    ["nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "fuse.sshfs", "glusterfs", "fuse.glusterfs", "lustre"];

/// Held while a process has the store open. The system lets go of it when the process ends, however it ends.
pub struct Lock {
    _file: File,
}

/// The path with `suffix` behind its name, as SQLite names the files beside a database.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Makes the folder if need be and takes the lock. The database file exists afterwards; a new one is empty.
pub fn prepare(path: &Path) -> Result<Lock, OpenError> {
    let folder = folder_of(path);
    let failed = |source| OpenError::Folder { path: folder.clone(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
    refuse_network(&folder)?;
    refuse_exposed(&folder)?;
    let lock = lock(path)?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => refuse_exposed(path)?,
        Err(error) => return Err(failed(error)),
    }
    Ok(lock)
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

fn lock(path: &Path) -> Result<Lock, OpenError> {
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
    let system = |file: &str| fs::read_to_string(file).unwrap_or_default().trim().to_owned();
    let host = system("/proc/sys/kernel/hostname");
    let boot = system("/proc/sys/kernel/random/boot_id");
    file.rewind().map_err(failed)?;
    file.set_len(0).map_err(failed)?;
    writeln!(file, "process {} on {host}\nboot {boot}", std::process::id()).map_err(failed)?;
    Ok(Lock { _file: file })
}

pub fn refuse_network(folder: &Path) -> Result<(), OpenError> {
    let (Ok(folder), Ok(mounts)) = (fs::canonicalize(folder), fs::read_to_string("/proc/self/mountinfo")) else {
        return Ok(());
    };
    match file_system(&mounts, &folder) {
        Some(system) if NETWORK.contains(&system) => {
            Err(OpenError::Network { path: folder, system: system.to_owned() })
        }
        _ => Ok(()),
    }
}

/// The type of the file system that `folder` is on: that of the longest mount point above it, the last one if several
/// are mounted there.
fn file_system<'a>(mounts: &'a str, folder: &Path) -> Option<&'a str> {
    let mounted = mounts.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let point = before.split(' ').nth(4)?;
        Some((point, after.split(' ').next()?))
    });
    mounted
        .filter(|(point, _)| folder.starts_with(point))
        .max_by_key(|(point, _)| point.len())
        .map(|(_, system)| system)
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
}
