//! A Valkey server of one's own. Unless told otherwise an acknowledged write is on the disk.

mod binary;
mod resp;

pub use resp::{Connection, Reply};

use crate::error::{Error, Result};
use crate::keeper::Keeper;
use crate::port;
use crate::process::Process;
use rustix::process::Signal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs until it is dropped. The server is a child of this process.
pub struct Valkey {
    binary: PathBuf,
    port: u16,
    settings: Vec<(String, String)>,
    process: Process,
}

/// Every acknowledged write has been fsynced, and there are no snapshots beside the log.
const DEFAULTS: &[(&str, &str)] =
    &[("appendonly", "yes"), ("appendfsync", "always"), ("save", ""), ("repl-diskless-sync-delay", "0")];

const STARTS: u32 = 5;

impl Valkey {
    /// With these settings in place of the defaults of the same name, such as `("appendfsync", "everysec")`.
    pub fn start(settings: &[(&str, &str)]) -> Result<Valkey> {
        let kept = DEFAULTS.iter().filter(|(name, _)| settings.iter().all(|(given, _)| given != name));
        let settings = kept.chain(settings).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let settings: Vec<_> = settings.collect();
        let mut tries = 1;
        loop {
            match Valkey::start_once(settings.clone()) {
                // Somebody took the port between our look and the server's.
                Err(Error::Ended { log, .. }) if tries < STARTS && port::clashed(&log) => tries += 1,
                started => return started,
            }
        }
    }

    fn start_once(settings: Vec<(String, String)>) -> Result<Valkey> {
        let binary = binary::find()?;
        let port = port::free()?;
        let process = Process::new(format!("Valkey on port {port}"), Keeper::new("valkey")?);
        let valkey = Valkey { binary, port, settings, process };
        valkey.launch()?;
        Ok(valkey)
    }

    /// `valkey://127.0.0.1:PORT`, the same after a restart.
    pub fn url(&self) -> String {
        format!("valkey://{}", self.addr())
    }

    pub fn addr(&self) -> SocketAddr {
        port::loopback(self.port)
    }

    /// An error while it is down.
    pub fn pid(&self) -> Result<u32> {
        self.process.running()
    }

    pub fn is_running(&self) -> bool {
        self.process.pid().is_some()
    }

    /// Kills it at once, as a power cut would. Harmless while it is down.
    pub fn kill(&self) -> Result<()> {
        self.process.kill()
    }

    /// On the same port and the same data, also after a kill; one that runs is stopped first.
    pub fn restart(&self) -> Result<()> {
        self.process.stop(Signal::TERM)?;
        self.launch()
    }

    /// Freezes it until `resume`: connections stay open and nothing answers.
    pub fn pause(&self) -> Result<()> {
        self.process.pause()
    }

    pub fn resume(&self) -> Result<()> {
        self.process.resume()
    }

    /// Where its data and its log are. Goes away with it.
    pub fn folder(&self) -> &Path {
        self.process.folder()
    }

    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }

    pub fn connect(&self) -> Result<Connection> {
        Connection::open(self.addr())
    }

    /// Sends one command on a connection of its own. An error reply is an error.
    pub fn command(&self, words: &[&str]) -> Result<Reply> {
        self.connect()?.command(words)
    }

    fn launch(&self) -> Result<()> {
        let mut command = Command::new(&self.binary);
        command.args(["--bind", "127.0.0.1", "--port", &self.port.to_string()]);
        command.arg("--dir").arg(self.process.folder());
        for (name, value) in &self.settings {
            command.arg(format!("--{name}")).arg(value);
        }
        // A server that still reads its log answers with an error, one that does not listen yet with a refusal.
        let ready = || self.command(&["PING"]).map(drop).map_err(|error| error.to_string());
        self.process.start(command, |_| ready())
    }
}
