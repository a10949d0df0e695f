//! How a task ended.

use crate::body::{Body, JSON};
use crate::ending::{Cause, Ending, How};
use crate::output::{Output, Tail};
use rustix::process::Signal;
use serde_json::json;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// No result if the program wrote nothing to stdout.
    Completed {
        result: Option<Body>,
    },
    Failed(Failure),
    /// The program asked to be started again later. The checkpoint is the one it gave in the same line.
    Delay {
        ms: u64,
        checkpoint: Option<Body>,
    },
    /// It was stopped and did not say what should become of its task.
    Stopped,
    /// The program could not be started, or an exit code of 126 or 127 says so of what it runs. The reason has at most
    /// [`MESSAGE_MAX`] bytes.
    NotStarted(String),
    /// This machine has no folder or no supervisor for the program, which did not run. The reason has at most
    /// [`MESSAGE_MAX`] bytes.
    NotPrepared(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Printable ASCII without spaces and commas: one of [`category`], or what the program said.
    pub category: String,
    /// At most [`MESSAGE_MAX`] bytes.
    pub message: String,
    pub retry: Retry,
    pub detail: Option<Body>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    Policy,
    Never,
    AfterMs(u64),
}

/// The longest message of a failure in bytes.
pub const MESSAGE_MAX: usize = 4 << 10;

/// Between how a program ended and the end of its stderr.
const BEFORE_TAIL: &str = "; stderr ended with\n";

/// How much of a line of stderr is told in one line with other things, in bytes.
const BRIEF_MAX: usize = 500;

/// The categories of failures that the program did not name itself.
pub mod category {
    /// The program ran and ended badly.
    pub const EXIT: &str = "exit";
}

/// By `sysexits.h`: the input is wrong, and no later try will make it right.
const EX_DATAERR: i32 = 65;

/// By the rules of shells: the program may not be executed, or was not found.
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;

impl Finish {
    pub(crate) fn not_started(why: impl AsRef<str>) -> Finish {
        Finish::NotStarted(cut(why.as_ref(), MESSAGE_MAX).to_owned())
    }

    pub(crate) fn not_prepared(why: impl AsRef<str>) -> Finish {
        Finish::NotPrepared(cut(why.as_ref(), MESSAGE_MAX).to_owned())
    }
}

impl Failure {
    pub(crate) fn new(category: &str, message: &str, retry: Retry) -> Failure {
        let message = cut(message, MESSAGE_MAX).to_owned();
        Failure { category: category.to_owned(), message, retry, detail: None }
    }

    /// The message in one line: of the end of stderr, its last line.
    pub fn brief(&self) -> String {
        brief(&self.message)
    }
}

/// A message in one line: the end of stderr in it is cut to its last line.
pub fn brief(message: &str) -> String {
    let (what, tail) = message.split_once(BEFORE_TAIL).unwrap_or((message, ""));
    let what = what.lines().next().unwrap_or_default();
    match tail.lines().next_back() {
        Some(last) => format!("{what}; stderr ended with `{}`", cut(last.trim(), BRIEF_MAX)),
        None => what.to_owned(),
    }
}

/// What becomes of a task by all that was seen of its program. What the program said itself goes first, also when it was
/// stopped: that is how a program that is told to end hands its work back.
pub(crate) fn decide(said: Option<Finish>, ending: Ending, output: Output, tail: &Tail) -> Finish {
    if let Some(said) = said {
        return said;
    }
    if ending.cause == Some(Cause::Stop) {
        return Finish::Stopped;
    }
    let result = match output {
        Output::Whole(bytes) => (!bytes.is_empty()).then(|| Body::guess(bytes)),
        Output::TooLong { max } => {
            let message = format!(
                "wrote more than {max} bytes to stdout, which is the limit of a result; write less, or raise --max-result"
            );
            return Finish::Failed(Failure::new(category::EXIT, &message, Retry::Never));
        }
    };
    match ending.how {
        How::Exited(0) => Finish::Completed { result },
        How::Exited(NOT_EXECUTABLE) => Finish::not_started(with_tail("exited with code 126, not executable", tail)),
        How::Exited(NOT_FOUND) => Finish::not_started(with_tail("exited with code 127, not found", tail)),
        How::Exited(code) => {
            let retry = if code == EX_DATAERR { Retry::Never } else { Retry::Policy };
            bad_end(&format!("exited with code {code}"), json!({ "code": code }), retry, tail)
        }
        How::Killed(number) => {
            let name = signal_name(number);
            bad_end(&format!("was killed by {name}"), json!({ "signal": name }), Retry::Policy, tail)
        }
        How::NotStarted(why) => Finish::not_started(why),
        How::Unsupervised { started: true } => {
            bad_end("was killed because its supervisor had ended", json!({}), Retry::Policy, tail)
        }
        How::Unsupervised { started: false } => {
            Finish::not_prepared(with_tail("its supervisor ended before it started the program", tail))
        }
    }
}

fn bad_end(what: &str, detail: serde_json::Value, retry: Retry, tail: &Tail) -> Finish {
    let failure = Failure::new(category::EXIT, &with_tail(what, tail), retry);
    let detail = Some(Body::new(detail.to_string(), JSON));
    Finish::Failed(Failure { detail, ..failure })
}

/// The end of stderr belongs to the message, as much of it as there is room for: the last lines say most.
fn with_tail(what: &str, tail: &Tail) -> String {
    match tail.last_bytes(MESSAGE_MAX - what.len() - BEFORE_TAIL.len()) {
        Some(tail) => format!("{what}{BEFORE_TAIL}{tail}"),
        None => what.to_owned(),
    }
}

/// The beginning of a text, at most so many bytes of it.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn signal_name(number: i32) -> String {
    const NAMED: [(Signal, &str); 17] = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
    ];
    let named = NAMED.iter().find(|(signal, _)| signal.as_raw() == number);
    named.map_or_else(|| format!("signal {number}"), |(_, name)| (*name).to_owned())
}
