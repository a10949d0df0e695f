//! A PostgreSQL server of one's own: a fresh database cluster, durable as in production, trusting everybody on loopback.

mod binaries;
mod user;

use crate::error::{Error, Result};
use crate::keeper::Keeper;
use crate::port;
use crate::process::Process;
use binaries::Binaries;
use rustix::process::Signal;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use user::User;

/// Runs until it is dropped. The postmaster is a child of this process.
pub struct Postgres {
    binaries: Binaries,
    /// Whom it runs as when the caller is root, which PostgreSQL refuses to be.
    user: Option<User>,
    port: u16,
    settings: Vec<(String, String)>,
    process: Process,
}

/// Tests open many connections. Everything that makes commits durable stays as it is delivered.
const DEFAULTS: &[(&str, &str)] = &[("max_connections", "200"), ("shared_buffers", "64MB")];

const STARTS: u32 = 5;

impl Postgres {
    pub fn start() -> Result<Postgres> {
        Postgres::start_with(&[])
    }

    /// With these settings on top of those PostgreSQL is delivered with, such as `("synchronous_commit", "off")`.
    pub fn start_with(settings: &[(&str, &str)]) -> Result<Postgres> {
        Postgres::start_having(settings, &[])
    }

    /// Takes encrypted connections too, with this certificate and its key, in the PEM format.
    pub fn start_encrypted(certificate: &str, key: &str) -> Result<Postgres> {
        Postgres::start_having(&[("ssl", "on")], &[("server.crt", certificate), ("server.key", key)])
    }

    /// With files that only the server may read among its data.
    fn start_having(settings: &[(&str, &str)], files: &[(&str, &str)]) -> Result<Postgres> {
        let settings = DEFAULTS.iter().chain(settings);
        let settings: Vec<_> = settings.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut tries = 1;
        loop {
            match Postgres::start_once(settings.clone(), files) {
                // Somebody took the port between our look and the server's.
                Err(Error::Ended { log, .. }) if tries < STARTS && port::clashed(&log) => tries += 1,
                started => return started,
            }
        }
    }

    fn start_once(settings: Vec<(String, String)>, files: &[(&str, &str)]) -> Result<Postgres> {
        let binaries = Binaries::find()?;
        let user = User::to_run_as()?;
        let port = port::free()?;
        let keeper = Keeper::new("postgres")?;
        if let Some(user) = &user {
            user.own(keeper.folder())?;
        }
        let process = Process::new(format!("PostgreSQL on port {port}"), keeper);
        let postgres = Postgres { binaries, user, port, settings, process };
        postgres.init()?;
        files.iter().try_for_each(|(name, text)| postgres.write(name, text))?;
        postgres.launch()?;
        Ok(postgres)
    }

    /// `postgres://postgres@127.0.0.1:PORT/postgres`, the same after a restart.
    pub fn url(&self) -> String {
        format!("postgres://postgres@{}/postgres", self.addr())
    }

    pub fn addr(&self) -> SocketAddr {
        port::loopback(self.port)
    }

    /// The postmaster's; an error while it is down.
    pub fn pid(&self) -> Result<u32> {
        self.process.running()
    }

    /// Kills the postmaster and all backends at once, as a power cut would. Harmless while it is down.
    pub fn kill(&self) -> Result<()> {
        self.process.kill()
    }

    /// Ends without a checkpoint: the next start recovers. Harmless while it is down.
    pub fn stop_immediate(&self) -> Result<()> {
        self.process.stop(Signal::QUIT)
    }

    /// Cuts connections, writes a checkpoint and ends. Harmless while it is down.
    pub fn stop_fast(&self) -> Result<()> {
        self.process.stop(Signal::INT)
    }

    /// On the same port and the same data, also after a kill; one that runs is stopped first.
    pub fn restart(&self) -> Result<()> {
        self.stop_fast()?;
        self.launch()
    }

    /// Freezes all its processes until `resume`: connections stay open and nothing answers.
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

    fn init(&self) -> Result<()> {
        let mut command = self.command("initdb");
        // The folder lives no longer than the server, so only what the server itself writes has to be durable.
        command.args(["--no-sync", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        command.arg("--pgdata").arg(self.data()).current_dir(self.process.folder());
        let output = command.output();
        let output = output.map_err(|source| Error::Spawn { program: "initdb".to_owned(), source })?;
        if output.status.success() {
            return Ok(());
        }
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(Error::Ended { what: "`initdb`".to_owned(), ended: output.status.to_string(), log })
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.data().join(name);
        let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let written = written.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|source| Error::Path { doing: "write", path: path.clone(), source })?;
        self.user.as_ref().map_or(Ok(()), |user| user.own(&path))
    }

    fn launch(&self) -> Result<()> {
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(self.process.folder());
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        for (name, value) in &self.settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        self.process.start(command, |pid| self.ready(pid))
    }

    /// The postmaster writes its number and its state into a file, which a killed one leaves behind.
    fn ready(&self, pid: u32) -> std::result::Result<(), String> {
        let text = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let mut lines = text.lines().map(str::trim);
        let own = lines.next() == Some(&pid.to_string());
        if own && lines.any(|line| line == "ready") { Ok(()) } else { Err("it does not say `ready`".to_owned()) }
    }

    fn data(&self) -> PathBuf {
        self.process.folder().join("data")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.binaries.path(program));
        // What the caller's shell says about other servers must not reach this one.
        for name in ["PGDATA", "PGPORT", "PGHOST", "PGUSER", "PGDATABASE", "PGOPTIONS"] {
            command.env_remove(name);
        }
        if let Some(user) = &self.user {
            user.run(&mut command);
        }
        command
    }
}
