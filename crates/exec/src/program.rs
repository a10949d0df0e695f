//! What is run for every task, and how.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

/// The program of a worker. The same for all of its tasks.
#[derive(Clone, Debug)]
pub struct Program {
    /// A program and its arguments. A name without a slash is looked for on the PATH.
    pub command: Vec<OsString>,
    /// What starts the supervisor: a binary, and the arguments after which it hands the rest to [`crate::supervise`].
    pub supervisor: Vec<OsString>,
    /// How long the program may take to end after SIGTERM.
    pub grace: Duration,
    /// The longest result in bytes. A program that writes more is stopped, and its task fails for good.
    pub result_max: usize,
    /// What the names of the task's variables begin with.
    pub env_prefix: String,
    /// The input is a file named by `WEFT_INPUT_FILE`, and stdin is empty.
    pub input_as_file: bool,
    /// A shell runs it, which tells of the signal that killed a program by its exit code and a line on stderr.
    pub by_shell: bool,
}

impl Program {
    /// With ten seconds of grace, results up to 1 MiB and the input on stdin.
    pub fn new(command: Vec<OsString>, supervisor: Vec<OsString>) -> Program {
        Program {
            command,
            supervisor,
            grace: Duration::from_secs(10),
            result_max: 1 << 20,
            env_prefix: "WEFT_".to_owned(),
            input_as_file: false,
            by_shell: false,
        }
    }

    /// A line for the shell: `./resize.sh | tee log`.
    pub fn shell(line: impl Into<OsString>, supervisor: Vec<OsString>) -> Program {
        let line = line.into();
        // The program then is the process that is watched: its end is seen as it was, and no shell waits beside it.
        let line = if is_one_program(&line) { joined("exec ", &line) } else { line };
        Program { by_shell: true, ..Program::new(vec!["/bin/sh".into(), "-c".into(), line], supervisor) }
    }
}

/// Whether a line names a program by its path and does nothing else: a word with a slash is no word of the shell's own, and
/// without these letters there is one command. Sure, not complete.
fn is_one_program(line: &OsStr) -> bool {
    let Some(line) = line.to_str() else { return false };
    let name = line.split_whitespace().next().unwrap_or_default();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '/' | '.' | '_' | '-' | '+' | '~');
    name.contains('/') && name.chars().all(plain) && !line.contains([';', '&', '|', '(', ')', '`', '\n'])
}

fn joined(start: &str, end: &OsStr) -> OsString {
    let mut whole = OsString::from(start);
    whole.push(end);
    whole
}

/// The running binary with a subcommand that leads to [`crate::supervise`]. A binary that was replaced since it was
/// started is still reached, so that worker and supervisor always are of one version.
pub fn this_binary(subcommand: &str) -> Vec<OsString> {
    let named = std::env::current_exe().ok().filter(|path| path.is_file());
    let binary = named.unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
    vec![binary.into(), subcommand.into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_program_by_its_path_takes_the_place_of_the_shell() {
        for line in ["./job.sh", "/usr/bin/env python3 a.py", "  bin/x --flag \"$A\" > log", "~/job a*"] {
            assert!(is_one_program(line.as_ref()), "{line}");
        }
        for line in [
            "",
            "tr a-z A-Z",
            "exit 3",
            "A=1 ./job.sh",
            "./a; ./b",
            "./a | ./b",
            "./a && ./b",
            "./a $(./b)",
            "'./a b'",
            "./a\n./b",
        ] {
            assert!(!is_one_program(line.as_ref()), "{line}");
        }
    }
}
