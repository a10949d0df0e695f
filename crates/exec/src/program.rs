//! What is run for every task, and how.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
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

/// Refuses a line for the shell whose first command cannot be started, with the reason. A first word that only the shell
/// can read (in quotes, with a `$`, an assignment) is not looked at.
pub fn check_line(line: &OsStr) -> Result<(), String> {
    // The shell does nothing and says that all went well: every task would be completed without having been run.
    if line
        .to_str()
        .map(str::trim)
        .is_some_and(|line| line.is_empty() || (line.starts_with('#') && !line.contains('\n')))
    {
        return Err("the line names no program; name the one that does the work".to_owned());
    }
    let Some(name) = line.to_str().and_then(first_command) else { return Ok(()) };
    if !name.contains('/') {
        // The shell itself looks for the command, among its builtins and on the PATH.
        let found = Command::new("/bin/sh").args(["-c", "command -v -- \"$1\" > /dev/null", "sh", name]).status();
        return match found {
            Ok(status) if !status.success() => {
                Err(format!("there is no program `{name}` on the PATH; name another one, or give its whole path"))
            }
            // A shell that cannot be started says so at the first task.
            _ => Ok(()),
        };
    }
    match std::fs::metadata(name) {
        Err(error) => Err(format!("cannot start `{name}`: {error}; name a program that is there")),
        Ok(file) if !file.is_file() => Err(format!("cannot start `{name}`: it is not a file")),
        Ok(file) if file.permissions().mode() & 0o111 == 0 => {
            Err(format!("cannot start `{name}`: it may not be executed; `chmod +x {name}` allows it"))
        }
        Ok(_) => Ok(()),
    }
}

/// The name of the first command of a line, if it is written in plain letters and is not a function that the line defines.
fn first_command(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '/' | '.' | '_' | '-' | '+');
    let (name, rest) = line.split_at(line.find(|letter| !plain(letter)).unwrap_or(line.len()));
    let ends = rest.is_empty() || rest.starts_with(|letter: char| letter.is_whitespace() || ";&|".contains(letter));
    (ends && !name.is_empty() && !rest.trim_start().starts_with('(')).then_some(name)
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
    fn cli_12_a_line_is_refused_only_if_its_first_command_is_surely_missing() {
        for line in [
            "true",
            " tr a-z A-Z",
            "/bin/sh -c x",
            "if true; then ./none; fi",
            "cd / && ./none",
            "A=1 ./none",
            "'./a b'",
            "$HOME/none",
            "~/none",
            "2>log true",
            "fn () { true; }; fn",
            "{ ./none; }",
        ] {
            assert_eq!(check_line(line.as_ref()), Ok(()), "{line}");
        }
        for (line, wanted) in [
            ("", "names no program"),
            ("   # later", "names no program"),
            ("./no-such-program", "cannot start `./no-such-program`: No such file"),
            ("no-such-program | cat", "no program `no-such-program` on the PATH"),
            ("/tmp; true", "`/tmp`: it is not a file"),
            ("/etc/passwd x", "`chmod +x /etc/passwd`"),
        ] {
            let told = check_line(line.as_ref()).unwrap_err();
            assert!(told.contains(wanted), "{line}: {told}");
        }
    }

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
