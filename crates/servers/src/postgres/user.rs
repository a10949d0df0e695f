//! Whom PostgreSQL runs as: it refuses to be root.

use crate::error::{Error, Result};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

#[derive(Debug, PartialEq, Eq)]
pub struct User {
    uid: u32,
    gid: u32,
}

/// The user Debian's package makes, or the one that every system has.
const NAMES: &[&str] = &["postgres", "nobody"];

impl User {
    /// None unless the caller is root: then the server is run as the caller.
    pub fn to_run_as() -> Result<Option<User>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        NAMES.iter().find_map(|name| User::named(name, &passwd)).map(Some).ok_or(Error::NoUser)
    }

    fn named(name: &str, passwd: &str) -> Option<User> {
        passwd.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [found, _, uid, gid, ..] = fields.as_slice() else { return None };
            if *found != name {
                return None;
            }
            Some(User { uid: uid.parse().ok()?, gid: gid.parse().ok()? })
        })
    }

    pub fn own(&self, folder: &Path) -> Result<()> {
        let owned = chown(folder, Some(self.uid), Some(self.gid));
        owned.map_err(|source| Error::Path { doing: "give away", path: folder.to_owned(), source })
    }

    /// The command runs as this user, without the other groups of root.
    pub fn run(&self, command: &mut Command) {
        command.uid(self.uid).gid(self.gid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\npostgres2:x:7:8::/:/bin/sh\npostgres:x:101:104:,,,:/var:/bin/sh\nodd\n";
        assert_eq!(User::named("postgres", passwd), Some(User { uid: 101, gid: 104 }));
        assert_eq!(User::named("nobody", passwd), None);
    }
}
