//! A program that runs, seen from its worker: starting it by its supervisor, telling it to end, and hearing how it did.

use crate::ending::{Cause, Ending, How};
use crate::folder::Folder;
use crate::link::{TERMINATE, Word};
use crate::marked;
use crate::program::Program;
use crate::task::{self, Task};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Socket;
use std::path::PathBuf;
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// A running program. Dropping it kills the program and all that it started.
pub struct Supervised {
    supervisor: Child,
    link: UnixStream,
    /// A variable that only this program and what it started have.
    mark: (String, PathBuf),
}

pub struct Pipes {
    pub stdout: pipe::Receiver,
    pub stderr: pipe::Receiver,
}

pub fn start(program: &Program, task: &Task, folder: &Folder) -> Result<(Supervised, Pipes), String> {
    let [binary, arguments @ ..] = program.supervisor.as_slice() else {
        return Err("there is no supervisor to start the program with".to_owned());
    };
    let failed = |error: io::Error| format!("could not start the supervisor `{}`: {error}", binary.to_string_lossy());
    let mut command = Command::new(binary);
    command.args(arguments).arg(folder.path()).args(&program.command);
    for name in task::withheld() {
        command.env_remove(name);
    }
    command.envs(task::variables(task, folder, &program.env_prefix));
    // A Ctrl-C at a terminal is for the worker, which then decides about its programs.
    command.process_group(0);
    let mark = (task::control_variable(&program.env_prefix), folder.control());
    spawn(command, mark).map_err(failed)
}

fn spawn(mut command: Command, mark: (String, PathBuf)) -> io::Result<(Supervised, Pipes)> {
    let (ours, theirs) = Socket::pair()?;
    ours.set_nonblocking(true)?;
    let (stdout_in, stdout) = pipe::pipe()?;
    let (stderr_in, stderr) = pipe::pipe()?;
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    command.stdout(Stdio::from(stdout_in.into_blocking_fd()?));
    command.stderr(Stdio::from(stderr_in.into_blocking_fd()?));
    let supervised = Supervised { supervisor: command.spawn()?, link: UnixStream::from_std(ours)?, mark };
    Ok((supervised, Pipes { stdout, stderr }))
}

impl Supervised {
    /// Waits until the program has ended and nothing of it is left. SIGTERM when `stop` is ready or the output is too
    /// long, SIGKILL when the grace is over.
    pub async fn end(self, stop: impl Future, too_long: &Notify, grace: Duration) -> Ending {
        let Supervised { mut supervisor, link, mark } = self;
        let (reading, mut writing) = link.into_split();
        let mut words = BufReader::new(reading).lines();
        let mut stop = pin!(stop);
        let mut grace_over = pin!(sleep_until(Instant::now()));
        let (mut cause, mut killed, mut group) = (None, false, None);
        let how = loop {
            let told = tokio::select! {
                line = words.next_line() => match line.ok().flatten().and_then(|line| Word::parse(&line)) {
                    Some(Word::Started(pid)) => {
                        group = Pid::from_raw(pid);
                        continue;
                    }
                    Some(Word::NotStarted(why)) => break How::NotStarted(why),
                    Some(Word::Exited(code)) => break How::Exited(code),
                    Some(Word::Killed(signal)) => break How::Killed(signal),
                    None => break unsupervised(group, &mark),
                },
                _ = &mut stop, if cause.is_none() => Cause::Stop,
                () = too_long.notified(), if cause.is_none() => Cause::TooLong,
                () = &mut grace_over, if cause.is_some() && !killed => {
                    killed = true;
                    // A supervisor that is gone is heard of by the words that do not come.
                    let _ = writing.shutdown().await;
                    continue;
                }
            };
            cause = Some(told);
            grace_over.as_mut().reset(Instant::now() + grace);
            let _ = writing.write_all(&[TERMINATE]).await;
        };
        // It has nothing left to do but to end.
        let _ = supervisor.wait().await;
        Ending { cause, how }
    }
}

/// Somebody killed the supervisor, so that nobody watches over the program any more.
fn unsupervised(group: Option<Pid>, (name, value): &(String, PathBuf)) -> How {
    if let Some(group) = group {
        // Gone already is as good.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let found = marked::kill(name, &value.to_string_lossy());
    How::Unsupervised { started: found || group.is_some() }
}
