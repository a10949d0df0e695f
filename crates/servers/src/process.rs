//! One server: its process, its folder and its log. Owns starting, ending and reaping; what is spoken to the server is
//! not known here.

use crate::error::{Error, Result};
use crate::keeper::Keeper;
use crate::{log, tree, wait};
use rustix::process::Signal;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub struct Process {
    /// For messages: `PostgreSQL on port 15432`.
    what: String,
    folder: PathBuf,
    state: Mutex<State>,
}

struct State {
    // Before the keeper, so that a drop kills and reaps first and removes the folder afterwards.
    child: Option<Running>,
    keeper: Keeper,
}

struct Running(Child);

impl Process {
    /// Nothing runs yet.
    pub fn new(what: String, keeper: Keeper) -> Process {
        let folder = keeper.folder().to_owned();
        Process { what, folder, state: Mutex::new(State { child: None, keeper }) }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn log_tail(&self) -> String {
        log::tail(&self.log_path())
    }

    /// Starts the command with its output in the log, and waits until `ready` is done. `ready` gets the process's number.
    /// A server that ends before is an error with the end of its log.
    pub fn start(
        &self,
        mut command: Command,
        mut ready: impl FnMut(u32) -> std::result::Result<(), String>,
    ) -> Result<()> {
        let program = command.get_program().to_string_lossy().into_owned();
        let out = self.log_file()?;
        let err = out.try_clone().map_err(|source| self.log_error(source))?;
        command.stdin(Stdio::null()).stdout(out).stderr(err).current_dir(&self.folder).process_group(0);
        let pid = {
            let mut state = self.state();
            let child = command.spawn().map_err(|source| Error::Spawn { program, source })?;
            let pid = child.id();
            state.child = Some(Running(child));
            state.keeper.watch(Some(pid))?;
            pid
        };
        wait::until(&format!("{} to come up", self.what), wait::LONG, || {
            self.still_runs()?;
            Ok(ready(pid).map_err(|state| format!("{state}; its log ends with\n{}", self.log_tail())))
        })
    }

    pub fn pid(&self) -> Option<u32> {
        self.state().child.as_ref().map(|running| running.0.id())
    }

    pub fn running(&self) -> Result<u32> {
        self.pid().ok_or_else(|| Error::Down { what: self.what.clone() })
    }

    /// Kills it with everything it forked, as a power cut would, and waits until all of it is gone. Nothing to do if it
    /// does not run.
    pub fn kill(&self) -> Result<()> {
        let mut state = self.state();
        if let Some(mut running) = state.child.take() {
            running.kill()?;
            state.keeper.watch(None)?;
        }
        Ok(())
    }

    /// Sends the signal that makes it end by itself and waits for that. Nothing to do if it does not run.
    pub fn stop(&self, signal: Signal) -> Result<()> {
        let mut state = self.state();
        let Some(running) = &mut state.child else { return Ok(()) };
        let pid = running.0.id();
        tree::signal(pid, signal)?;
        wait::until(&format!("{} to end", self.what), wait::LONG, || {
            let ended = running.0.try_wait().map_err(|source| Error::Signal { pid, source })?;
            Ok(ended.map(drop).ok_or_else(|| format!("its log ends with\n{}", self.log_tail())))
        })?;
        state.child = None;
        state.keeper.watch(None)
    }

    /// Freezes it with everything it forked: connections stay open and nothing answers.
    pub fn pause(&self) -> Result<()> {
        tree::pause(self.running()?).map(drop)
    }

    pub fn resume(&self) -> Result<()> {
        tree::resume(self.running()?)
    }

    fn still_runs(&self) -> Result<()> {
        let mut state = self.state();
        let Some(running) = &mut state.child else { return Err(Error::Down { what: self.what.clone() }) };
        let pid = running.0.id();
        let Some(ended) = running.0.try_wait().map_err(|source| Error::Signal { pid, source })? else {
            return Ok(());
        };
        state.child = None;
        state.keeper.watch(None)?;
        Err(Error::Ended { what: self.what.clone(), ended: ended.to_string(), log: self.log_tail() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of a test elsewhere must not keep the server from being stopped.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log_path(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn log_file(&self) -> Result<File> {
        File::options().create(true).append(true).open(self.log_path()).map_err(|source| self.log_error(source))
    }

    fn log_error(&self, source: std::io::Error) -> Error {
        Error::Path { doing: "open", path: self.log_path(), source }
    }
}

impl Running {
    fn kill(&mut self) -> Result<()> {
        let pid = self.0.id();
        let children = tree::kill(pid)?;
        self.0.wait().map_err(|source| Error::Signal { pid, source })?;
        tree::gone(&children)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that was reaped has no children left and its number may belong to somebody else.
        if let Ok(None) = self.0.try_wait() {
            let _ = self.kill();
        }
    }
}
