//! How a program's process ended, before anybody says what it means.

use crate::output::Tail;
use rustix::process::Signal;

pub struct Ending {
    /// Why it was told to end; none if it ended by itself.
    pub cause: Option<Cause>,
    pub how: How,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The caller's wish.
    Stop,
    /// It wrote more than a result may have.
    TooLong,
}

pub enum How {
    Exited(i32),
    /// By the signal of this number.
    Killed(i32),
    /// With the reason.
    NotStarted(String),
    /// The supervisor ended first, so nobody saw how the program did.
    Unsupervised {
        started: bool,
    },
}

/// What a shell exits with for a program that was killed, above the number of the signal.
const BY_SIGNAL: i32 = 128;

/// What shells call the signals of which they write a line to stderr. They write none of SIGINT and SIGPIPE.
const TOLD: [(Signal, &str); 10] = [
    (Signal::HUP, "Hangup"),
    (Signal::QUIT, "Quit"),
    (Signal::ILL, "Illegal instruction"),
    (Signal::TRAP, "Trace/breakpoint trap"),
    (Signal::ABORT, "Aborted"),
    (Signal::BUS, "Bus error"),
    (Signal::FPE, "Floating point exception"),
    (Signal::KILL, "Killed"),
    (Signal::SEGV, "Segmentation fault"),
    (Signal::TERM, "Terminated"),
];

impl Ending {
    /// The end of the program behind the shell that ran it: by a signal, if the shell's code says so and so does its last
    /// line, which is then no line of the program's. The code alone may be the program's own.
    pub fn seen_through(mut self, tail: &mut Tail) -> Ending {
        if let How::Exited(code) = self.how
            && let Some((signal, name)) = TOLD.iter().find(|(signal, _)| signal.as_raw() + BY_SIGNAL == code)
            && tail.last().is_some_and(|line| is_told(line, name))
        {
            tail.pop();
            self.how = How::Killed(signal.as_raw());
        }
        self
    }
}

/// `Killed`, `Aborted (core dumped)`, or with the place and the number of the process before it and the program after it.
fn is_told(line: &str, name: &str) -> bool {
    let line = line.trim_end();
    let short = line.strip_suffix("(core dumped)").unwrap_or(line).trim_end();
    short == name || (line.contains(": line ") && line.contains(&format!(" {name} ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_shell_is_known() {
        for line in
            ["Killed", "Killed ", "Killed (core dumped)", "/bin/sh: line 1:  4711 Killed                  ./job.sh"]
        {
            assert!(is_told(line, "Killed"), "{line}");
        }
        assert!(!is_told("Killed the queen", "Killed") && !is_told("3 Killed ", "Killed"));
    }
}
