//! A server process together with the processes it forked: signals reach all of them.
//!
//! Process groups do not help: every backend of PostgreSQL makes a session of its own.

use crate::error::{Error, Result};
use crate::wait;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::process::Command;

/// Sends a signal to one process. One that is gone has had it.
pub fn signal(pid: u32, signal: Signal) -> Result<()> {
    match kill_process(raw(pid), signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(errno) => Err(Error::Signal { pid, source: errno.into() }),
    }
}

/// Stops a process and what it forked. The process stops first, so that it forks nothing unseen.
pub fn pause(pid: u32) -> Result<Vec<u32>> {
    signal(pid, Signal::STOP)?;
    let children = children(pid);
    for child in &children {
        signal(*child, Signal::STOP)?;
    }
    Ok(children)
}

pub fn resume(pid: u32) -> Result<()> {
    for child in children(pid) {
        signal(child, Signal::CONT)?;
    }
    signal(pid, Signal::CONT)
}

/// Kills a process and what it forked, all at once as a power cut would. Answers what it forked: those are reaped by
/// somebody else, see `gone`.
pub fn kill(pid: u32) -> Result<Vec<u32>> {
    let children = pause(pid)?;
    signal(pid, Signal::KILL)?;
    for child in &children {
        signal(*child, Signal::KILL)?;
    }
    Ok(children)
}

/// Waits until these processes hold nothing any more.
pub fn gone(pids: &[u32]) -> Result<()> {
    wait::until("killed processes to be gone", wait::LONG, || {
        let left: Vec<u32> = pids.iter().copied().filter(|pid| lives(*pid)).collect();
        Ok(if left.is_empty() { Ok(()) } else { Err(format!("{left:?} are still there")) })
    })
}

/// A zombie does not live: its memory and its files are gone, only its parent has not asked yet.
fn lives(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The state is behind the name, which is in brackets and may hold brackets itself.
        Ok(stat) => !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X'])),
        Err(_) => test_kill_process(raw(pid)).is_ok() && !std::path::Path::new("/proc/self").exists(),
    }
}

fn children(pid: u32) -> Vec<u32> {
    let numbers = |text: &str| text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    if let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")) {
        return numbers(&text);
    }
    // Without a /proc that knows it, `ps` does.
    let Ok(output) = Command::new("ps").args(["-A", "-o", "ppid=,pid="]).output() else { return Vec::new() };
    let rows = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows = rows.lines().filter_map(|row| row.trim().split_once(char::is_whitespace));
    rows.filter(|(parent, _)| parent.parse() == Ok(pid)).filter_map(|(_, child)| child.trim().parse().ok()).collect()
}

fn raw(pid: u32) -> Pid {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.expect("tree: a process of ours has a positive number")
}
