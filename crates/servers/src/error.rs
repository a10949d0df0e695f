//! What keeps a server from being had, in sentences for the person who runs the tests.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server is not installed and cannot be installed from here.
    #[error("cannot find {what}: {install}")]
    Missing { what: &'static str, install: &'static str },
    #[error("could not install {what}: `{command}` {ended}")]
    Install { what: &'static str, command: String, ended: String },
    #[error("could not {doing} `{}`: {source}", path.display())]
    Path { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("could not start `{program}`: {source}")]
    Spawn { program: String, source: io::Error },
    /// The server ended while it should have come up.
    #[error("could not start {what}: it ended with {ended}; its log ends with\n{log}")]
    Ended { what: String, ended: String, log: String },
    #[error("could not wait longer for {what}: {waited_s} s are over; {state}")]
    Deadline { what: String, waited_s: u64, state: String },
    #[error("could not signal process {pid}: {source}")]
    Signal { pid: u32, source: io::Error },
    /// It was killed or stopped, and the call needs it to run.
    #[error("cannot reach {what}: it does not run; `restart` starts it again")]
    Down { what: String },
    #[error("could not speak to {what}: {source}")]
    Wire { what: String, source: io::Error },
    /// The server answered with an error.
    #[error("`{command}` was refused by {what}: {message}")]
    Refused { what: String, command: String, message: String },
    #[error("cannot run PostgreSQL as root, and there is neither a user `postgres` nor `nobody` to run it as")]
    NoUser,
    #[error("could not find a free port on loopback after {tries} tries")]
    Ports { tries: u32 },
}

pub type Result<T> = std::result::Result<T, Error>;
