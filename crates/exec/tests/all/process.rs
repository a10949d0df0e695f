//! Processes by their number: whether they run, and waiting until they do not.

use crate::DEADLINE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::path::Path;

pub fn runs(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// A process that runs, and is still meant when its number belongs to another.
pub struct Watch(u32, OwnedFd);

impl Watch {
    pub fn new(pid: u32) -> Watch {
        let raw = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        Watch(pid, pidfd_open(raw, PidfdFlags::empty()).unwrap())
    }

    pub fn until_gone(&self) {
        let deadline = Timespec::try_from(DEADLINE).unwrap();
        let ended = poll(&mut [PollFd::new(&self.1, PollFlags::IN)], Some(&deadline)).unwrap();
        assert_eq!(ended, 1, "process {} still runs after {DEADLINE:?}", self.0);
    }
}

/// The numbers in a line of a log: `pids 17 18`.
pub fn pids(line: &str) -> Vec<u32> {
    line.split_whitespace().skip(1).map(|word| word.parse().unwrap()).collect()
}
