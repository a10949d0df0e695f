//! What is run for every task, and how.

use std::ffi::OsString;
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
        }
    }

    /// A line for the shell: `./resize.sh | tee log`.
    pub fn shell(line: impl Into<OsString>, supervisor: Vec<OsString>) -> Program {
        Program::new(vec!["/bin/sh".into(), "-c".into(), line.into()], supervisor)
    }
}

/// The running binary with a subcommand that leads to [`crate::supervise`]. A binary that was replaced since it was
/// started is still reached, so that worker and supervisor always are of one version.
pub fn this_binary(subcommand: &str) -> Vec<OsString> {
    let named = std::env::current_exe().ok().filter(|path| path.is_file());
    let binary = named.unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
    vec![binary.into(), subcommand.into()]
}
