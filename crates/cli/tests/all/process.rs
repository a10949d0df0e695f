//! Running the binary, and waiting for what it prints.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

/// Far longer than anything here takes: who waits so long has found a fault.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn weft(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    command.args(args).stdin(Stdio::null());
    command
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The standard output of a run that must have gone well.
pub fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// A process whose lines are read as they come.
pub struct Running {
    pub child: Child,
    lines: Receiver<String>,
    log: Option<PathBuf>,
}

impl Running {
    /// Follows what it prints to stdout.
    pub fn out(args: &[&str]) -> Self {
        Self::out_of(command(args))
    }

    /// The same for a command with a folder or variables of its own.
    pub fn out_of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let lines = follow(child.stdout.take().unwrap());
        Self { child, lines, log: None }
    }

    /// Follows what it prints to stdout; what it says goes to a file, which is shown if a line does not come.
    pub fn out_logged(args: &[&str], log: &Path) -> Self {
        let file = File::create(log).unwrap();
        let mut child = command(args).stdout(Stdio::piped()).stderr(file).spawn().unwrap();
        let lines = follow(child.stdout.take().unwrap());
        Self { child, lines, log: Some(log.to_owned()) }
    }

    /// Follows what it prints to stderr.
    pub fn err(args: &[&str]) -> Self {
        Self::err_of(command(args))
    }

    /// The same for a command with a folder or variables of its own.
    pub fn err_of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = follow(child.stderr.take().unwrap());
        Self { child, lines, log: None }
    }

    /// Waits for a line that `wanted` accepts; fails loudly if none comes.
    pub fn wait_for(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if wanted(&line) => return line,
                Ok(_) => {}
                Err(error) => panic!("no line with {what}: {error}\n{}", self.said()),
            }
        }
    }

    /// Sends a signal by its name, like `-TERM`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits until it has ended by itself, and answers how.
    pub fn exit_code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Waits until it has ended by itself, and answers how, and every line that nobody has waited for.
    pub fn last_lines(mut self) -> (Option<i32>, Vec<String>) {
        let code = self.child.wait().unwrap().code();
        (code, self.lines.iter().collect())
    }

    /// Lets go of the lines that have come so far.
    pub fn forget_lines(&self) {
        while self.lines.try_recv().is_ok() {}
    }

    /// Waits until it has ended by itself, which must have gone well.
    pub fn end_well(mut self) {
        let ended = self.child.wait().unwrap();
        assert!(ended.success(), "{ended}");
    }

    /// The last lines of its log.
    fn said(&self) -> String {
        let text = self.log.as_ref().and_then(|log| std::fs::read_to_string(log).ok()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Ends it with SIGKILL. It must not have ended before.
    pub fn kill(mut self) {
        assert_eq!(self.child.try_wait().unwrap(), None, "it ran until now\n{}", self.said());
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    /// Nothing outlives the test that started it, whatever became of that.
    fn drop(&mut self) {
        // It may have ended already, and then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn follow(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        // The last line of a killed process may be cut; nobody waits for it.
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    told
}
