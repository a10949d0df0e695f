//! Running commands. Owns how a child process is started and what its end means; never decides what to run.

use anyhow::{Context, Result, bail};
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// The folder of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask: its crate lies in the workspace")
}

/// A command line, shown to people exactly as it is run: they can paste it.
#[derive(Clone, Debug)]
pub struct Line {
    words: Vec<String>,
    variables: Vec<(String, String)>,
}

/// How a command ended, and what it wrote to stdout.
pub struct Captured {
    pub status: ExitStatus,
    pub stdout: String,
}

impl Line {
    /// `cargo` with these words, split at spaces.
    pub fn cargo(words: &str) -> Line {
        let words = std::iter::once("cargo").chain(words.split_whitespace());
        Line { words: words.map(str::to_owned).collect(), variables: Vec::new() }
    }

    /// A program by its path.
    pub fn program(path: &str) -> Line {
        Line { words: vec![path.to_owned()], variables: Vec::new() }
    }

    pub fn word(mut self, word: impl Into<String>) -> Line {
        self.words.push(word.into());
        self
    }

    /// With these environment variables set.
    pub fn with(mut self, variables: &[(String, String)]) -> Line {
        self.variables.extend_from_slice(variables);
        self
    }

    /// Runs it with stdout and stderr left where they are. Any end but success is an error.
    pub fn run(&self) -> Result<()> {
        let status = self.command().status().with_context(|| format!("could not start `{self}`"))?;
        self.succeeded(status)
    }

    /// Runs it and keeps its stdout. A bad end is told in the status, since its stdout may say why.
    pub fn capture(&self) -> Result<Captured> {
        let output = self.command().stderr(Stdio::inherit()).output();
        let output = output.with_context(|| format!("could not start `{self}`"))?;
        let stdout = String::from_utf8(output.stdout).with_context(|| format!("`{self}` wrote what is not UTF-8"))?;
        Ok(Captured { status: output.status, stdout })
    }

    /// Starts it. What it writes is kept until `Running::end`.
    pub fn start(&self) -> Result<Running> {
        let child = self.command().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Ok(Running(child.with_context(|| format!("could not start `{self}`"))?))
    }

    /// Runs it, passes each line of its stdout on as it comes and shows it to `each`. Any end but success is an error.
    pub fn watch(&self, mut each: impl FnMut(&str)) -> Result<()> {
        let child = self.command().stdout(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("could not start `{self}`"))?;
        let mut stdout = BufReader::new(child.stdout.take().expect("watch: stdout is piped"));
        let mut line = Vec::new();
        // Bytes, not text: a test may print anything, and it must not end the run that reports it.
        while stdout.read_until(b'\n', &mut line)? > 0 {
            std::io::stdout().write_all(&line)?;
            each(&String::from_utf8_lossy(&line));
            line.clear();
        }
        self.succeeded(child.wait()?)
    }

    fn succeeded(&self, status: ExitStatus) -> Result<()> {
        if !status.success() {
            bail!("`{self}` ended with {status}");
        }
        Ok(())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).current_dir(root());
        // `cargo run` describes xtask to it in these. Handed on, they make build scripts that look at them run again.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&name);
            }
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variables = self.variables.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        let words = self.words.iter().map(|word| quoted(word));
        write!(f, "{}", variables.chain(words).collect::<Vec<_>>().join(" "))
    }
}

/// A child process, killed if it is dropped before its end. It is in the process group of its parent, so Ctrl-C ends both.
pub struct Running(Child);

impl Running {
    /// Waits for its end: status, stdout, stderr.
    pub fn end(mut self) -> Result<(ExitStatus, String, String)> {
        let (mut out, mut err) = (self.0.stdout.take(), self.0.stderr.take());
        // Both at once: a child that fills one pipe would wait for its reader and never close the other.
        let stderr = std::thread::spawn(move || text(&mut err));
        let stdout = text(&mut out);
        let stderr = stderr.join().expect("run: reading a pipe does not panic");
        Ok((self.0.wait()?, stdout, stderr))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(pipe: &mut Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // What was read before an error still says something.
        let _ = pipe.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=+:/.,@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// `8.3s`, `4m 12s`.
pub fn took(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 { format!("{:.1}s", time.as_secs_f64()) } else { format!("{}m {:02}s", seconds / 60, seconds % 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_as_it_can_be_pasted() {
        let line = Line::cargo("test --locked").word("a b").with(&[("URL".to_owned(), "postgres://x?y=1".to_owned())]);
        assert_eq!(line.to_string(), "URL='postgres://x?y=1' cargo test --locked 'a b'");
    }

    #[test]
    fn a_bad_end_names_the_line() {
        let line = Line { words: vec!["false".to_owned(), "--flag".to_owned()], variables: Vec::new() };
        for error in [line.run(), line.watch(|_| {})].map(|ended| ended.expect_err("`false` never succeeds")) {
            assert!(error.to_string().starts_with("`false --flag` ended with"), "{error}");
        }
    }

    #[test]
    fn both_outputs_of_a_child_are_kept_however_long() {
        let script = "i=0; while [ $i -lt 20000 ]; do echo error >&2; i=$((i+1)); done; echo out; exit 3";
        let (status, stdout, stderr) =
            Line::program("sh").word("-c").word(script).start().expect("it starts").end().expect("it ends");
        assert_eq!((status.code(), stdout.as_str(), stderr.len()), (Some(3), "out\n", 120_000));
    }

    #[test]
    fn times_are_for_people() {
        assert_eq!(took(Duration::from_millis(8_340)), "8.3s");
        assert_eq!(took(Duration::from_secs(252)), "4m 12s");
    }
}
