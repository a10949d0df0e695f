//! The supervisor: a process between worker and program, which sees to it that nothing of the program outlives either.
//!
//! It is the program's parent, so it knows how the program ended, and it adopts whatever the program leaves behind, also
//! what made a group or a session of its own. All of that is killed when the program ends, and when the worker does: the
//! worker holds the other end of the socket on stdin, and the system closes it for whom it kills. Only a group that was
//! told to end may take its time, also when its leader is gone.

use crate::folder::STDIN;
use crate::link::Word;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, wait, waitid,
};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

const EX_USAGE: u8 = 64;

/// How often it is looked whether a group that was told to end is empty: soon at first, and then less and less often.
const LOOK_FIRST: Duration = Duration::from_millis(2);
const LOOK_LAST: Duration = Duration::from_millis(100);

/// Runs a program until it ends or the worker does; the binary calls this, with the arguments that [`crate::run`] gave it,
/// before it looks at any setting: the variables of the task are in its environment. Not for people: without a worker at
/// the other end of stdin it refuses.
pub fn supervise(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let (Some(folder), Some(program), Ok(mut link)) = (arguments.next(), arguments.next(), link()) else {
        // Nobody may be there to read it.
        let _ = writeln!(io::stderr(), "the supervisor is started by a worker for each of its tasks, not by hand");
        return ExitCode::from(EX_USAGE);
    };
    let folder = PathBuf::from(folder);
    // Who sends a signal to all processes of a service means the worker to decide. Kept until the end.
    let _deaf = ignore_signals();
    adopt_orphans();
    let mut command = Command::new(&program);
    command.args(arguments);
    let word = match start(&mut command, &folder) {
        Ok(child) => oversee(child, &link),
        Err(error) => Word::NotStarted(not_started(Path::new(&program), &error)),
    };
    // The worker removes it too, if it lives.
    let _ = std::fs::remove_dir_all(&folder);
    let _ = link.write_all(&word.line());
    ExitCode::SUCCESS
}

/// The socket on stdin; an error if stdin is anything else.
fn link() -> io::Result<UnixStream> {
    let link = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    link.peer_addr()?;
    Ok(link)
}

/// Caught and not ignored, because the program would inherit signals that are ignored.
fn ignore_signals() -> Option<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().ok()?;
    let within = runtime.enter();
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()] {
        // The handler stays for as long as the process lives.
        drop(signal(kind).ok()?);
    }
    drop(within);
    Some(runtime)
}

/// What loses its parent becomes a child of this process, where the system can do that.
fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

fn start(command: &mut Command, folder: &Path) -> io::Result<Child> {
    let path = folder.join(STDIN);
    let stdin = match File::open(&path) {
        Ok(file) => {
            std::fs::remove_file(&path)?;
            Stdio::from(file)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Stdio::null(),
        Err(error) => return Err(error),
    };
    command.stdin(stdin).process_group(0).spawn()
}

fn not_started(program: &Path, error: &io::Error) -> String {
    let hint = match error.kind() {
        ErrorKind::NotFound if program.is_file() => "; the interpreter in its first line is not there",
        ErrorKind::NotFound => "; name a program on the PATH, or give its whole path",
        ErrorKind::PermissionDenied => "; make it a file that may be executed",
        _ => "",
    };
    format!("could not start `{}`: {error}{hint}", program.display())
}

/// A process group that is signalled only while its number is surely its own: until its leader is reaped.
struct Group {
    leader: Pid,
    standing: Mutex<Standing>,
    changed: Condvar,
}

#[derive(Default)]
struct Standing {
    reaped: bool,
    /// It got a SIGTERM.
    told: bool,
    /// Its time is over.
    over: bool,
}

impl Group {
    fn new(leader: Pid) -> Group {
        Group { leader, standing: Mutex::default(), changed: Condvar::new() }
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        let mut standing = self.standing();
        standing.told = true;
        self.signal(&standing, Signal::TERM);
    }

    fn kill(&self) {
        let mut standing = self.standing();
        standing.over = true;
        self.signal(&standing, Signal::KILL);
        self.changed.notify_all();
    }

    fn signal(&self, standing: &Standing, signal: Signal) {
        if !standing.reaped {
            // All that could be wrong is that nobody is left.
            let _ = kill_process_group(self.leader, signal);
        }
    }

    /// Waits for the rest of a group that was told to end, until nobody is left or its time is over. A group that was not
    /// told is not waited for. The leader may be a shell that dies of the signal while what it started still cleans up.
    fn until_empty(&self) {
        let (mut standing, mut pause) = (self.standing(), LOOK_FIRST);
        while standing.told && !standing.over && has_living(self.leader) {
            let waited = self.changed.wait_timeout(standing, pause);
            standing = waited.unwrap_or_else(PoisonError::into_inner).0;
            pause = (pause * 2).min(LOOK_LAST);
        }
    }

    /// Kills who is left of the group and takes the leader's status, in one.
    fn reap(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let mut standing = self.standing();
        let _ = kill_process_group(self.leader, Signal::KILL);
        standing.reaped = true;
        child.wait()
    }
}

/// Waits for the program, and for nothing to be left of it.
fn oversee(mut child: Child, link: &UnixStream) -> Word {
    let leader = Pid::from_child(&child);
    let group = Arc::new(Group::new(leader));
    let mut said = link;
    let _ = said.write_all(&Word::Started(leader.as_raw_nonzero().get()).line());
    let obeying = link.try_clone().and_then(|link| {
        let group = Arc::clone(&group);
        std::thread::Builder::new().spawn(move || obey(link, &group))
    });
    if obeying.is_err() {
        // Nobody would notice the end of the worker.
        group.kill();
    }
    // Not reaped yet: its number stays its own until the group is killed.
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while waitid(WaitId::Pid(leader), ended).is_err_and(|errno| errno == Errno::INTR) {}
    group.until_empty();
    let status = group.reap(&mut child);
    kill_descendants();
    match status.map(|status| (status.code(), status.signal())) {
        Ok((Some(code), _)) => Word::Exited(code),
        Ok((None, Some(signal))) => Word::Killed(signal),
        Ok((None, None)) | Err(_) => Word::Killed(Signal::KILL.as_raw()),
    }
}

/// Does what the worker says: every byte is a SIGTERM, the end is a SIGKILL.
fn obey(mut link: UnixStream, group: &Group) {
    let mut byte = [0];
    loop {
        match link.read(&mut byte) {
            Ok(1) => group.tell(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => return group.kill(),
        }
    }
}

/// Kills and reaps until this process has no children. Those of a child that dies become ours before it can be reaped, so
/// nobody is missed.
fn kill_descendants() {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => {
                let children = children();
                if children.is_empty() {
                    // There is one and it cannot be found: no /proc.
                    return;
                }
                for child in children {
                    let _ = kill_process(child, Signal::KILL);
                }
                let _ = wait(WaitOptions::empty());
            }
            Err(_) => return,
        }
    }
}

/// By the parents that /proc names; a list of children is not there on every system.
fn children() -> Vec<Pid> {
    let own = rustix::process::getpid();
    processes().filter(|pid| stat(*pid).is_some_and(|stat| stat.parent == Some(own))).collect()
}

/// Whether anybody of a group still runs; who has ended and was not reaped does not count. False where there is no /proc.
fn has_living(group: Pid) -> bool {
    let lives = |stat: Stat| stat.group == Some(group) && !stat.ended;
    processes().any(|pid| stat(pid).is_some_and(lives))
}

fn processes() -> impl Iterator<Item = Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter_map(Pid::from_raw)
}

/// What /proc says of a process.
struct Stat {
    ended: bool,
    parent: Option<Pid>,
    group: Option<Pid>,
}

fn stat(pid: Pid) -> Option<Stat> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // A name may have spaces and brackets; what follows it has none: the state, the parent, the group.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    let ended = matches!(words.next()?, "Z" | "X");
    let mut number = || Some(Pid::from_raw(words.next()?.parse().ok()?));
    Some(Stat { ended, parent: number()?, group: number()? })
}
