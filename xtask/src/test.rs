//! What CI runs. Owns the parts, their order and the table at the end; what is checked belongs to the parts.

use crate::run::{Line, took};
use crate::servers::Servers;
use crate::tidy;
use anyhow::{Result, bail};
use std::time::{Duration, Instant};

/// One part of the run. A part that provides something, such as a server, stands before the parts that use it and adds
/// to the session's variables.
struct Part {
    name: &'static str,
    run: fn(&mut Session) -> Result<String>,
    /// What it runs in this session; in an empty one, what repeats it alone.
    line: fn(&Session) -> Line,
}

/// What the parts share.
#[derive(Default)]
struct Session {
    filter: Option<String>,
    /// Set in the environment of every test.
    variables: Vec<(String, String)>,
    /// Stopped when the session is dropped. If this process is killed, they notice and end.
    servers: Option<Servers>,
}

impl Session {
    /// The same request without what earlier parts provide: that is gone when somebody repeats a part, and tests that are
    /// not told of a server start their own.
    fn alone(&self) -> Session {
        Session { filter: self.filter.clone(), ..Session::default() }
    }
}

/// How a part went: a word for the table, or why it failed.
struct Ended {
    name: &'static str,
    took: Duration,
    outcome: Result<String>,
    repeat: Line,
}

const TIDY: Part = Part { name: "tidy", run: run_tidy, line: |_| Line::cargo("xtask tidy") };
const SERVERS: Part = Part { name: "servers", run: run_servers, line: |_| Line::cargo("test --package weft-servers") };
const TESTS: Part = Part { name: "tests", run: |session| run_tests(&tests(session)), line: tests };
const PLANTED: Part = Part { name: "planted", run: |session| run_tests(&planted(session)), line: planted };
const TRACES: Part = Part { name: "traces", run: |session| run_tests(&traces(session)), line: traces };

/// Runs every part, also after one has failed: one run tells all that is wrong. True if all went well.
pub fn test(skip_tidy: bool, filter: Option<String>) -> bool {
    let parts = chosen(skip_tidy, filter.as_deref());
    let mut session = Session { filter, ..Session::default() };
    let ended: Vec<Ended> = parts.iter().map(|part| run(part, &mut session)).collect();
    print!("\n{}", summary(&ended));
    ended.iter().all(|part| part.outcome.is_ok())
}

/// A filter asks for certain tests, so planted defects and traces, builds of their own, are run only if it names them, and the
/// servers are left to the tests, which start those they need.
fn chosen(skip_tidy: bool, filter: Option<&str>) -> Vec<Part> {
    let mut parts = Vec::new();
    if !skip_tidy {
        parts.push(TIDY);
    }
    if filter.is_none() {
        parts.push(SERVERS);
    }
    parts.push(TESTS);
    if filter.is_none_or(|filter| filter.contains("planted")) {
        parts.push(PLANTED);
    }
    if filter.is_none_or(|filter| filter.contains("otel")) {
        parts.push(TRACES);
    }
    parts
}

fn run(part: &Part, session: &mut Session) -> Ended {
    println!("\n== {}: {}", part.name, (part.line)(session));
    let started = Instant::now();
    let outcome = (part.run)(session);
    let elapsed = started.elapsed();
    println!("== {}: {} in {}", part.name, if outcome.is_ok() { "done" } else { "failed" }, took(elapsed));
    Ended { name: part.name, took: elapsed, outcome, repeat: (part.line)(&session.alone()) }
}

fn run_tidy(_: &mut Session) -> Result<String> {
    if !tidy::tidy(false)? {
        bail!("there are findings, listed above");
    }
    Ok("clean".to_owned())
}

fn run_servers(session: &mut Session) -> Result<String> {
    let servers = session.servers.insert(Servers::start()?);
    session.variables.extend(servers.variables());
    Ok("3 started".to_owned())
}

fn tests(session: &Session) -> Line {
    let line = Line::cargo("test --workspace --locked --no-fail-fast").with(&session.variables);
    match &session.filter {
        Some(filter) => line.word("--").word(filter),
        None => line,
    }
}

/// Defects on purpose, each of which a test must find: of the core, of a store, a race of two nodes, or the simulator's
/// checkers. All in one build of few crates.
fn planted(session: &Session) -> Line {
    let filter = session.filter.as_deref().unwrap_or("planted");
    let line = "test --package weft-core --package weft-store --package weft-engine --package weft-sim \
                --features planted --locked --no-fail-fast --";
    Line::cargo(line).word(filter).with(&session.variables)
}

/// The export of traces, which is a feature of the binary.
fn traces(_: &Session) -> Line {
    Line::cargo("test --package weft --features otel --bin weft --locked -- otel::")
}

fn run_tests(line: &Line) -> Result<String> {
    let mut passed = 0;
    line.watch(|line| passed += passed_in(line))?;
    // A run that finds no test proves nothing, however green it looks.
    if passed == 0 {
        bail!("`{line}` ran no test at all");
    }
    Ok(format!("{passed} passed"))
}

/// The count in a closing line of the test runner, 0 for any other line.
fn passed_in(line: &str) -> u64 {
    let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else { return 0 };
    counts.split_once(" passed").and_then(|(count, _)| count.parse().ok()).unwrap_or(0)
}

/// A row per part, then each failure with the command that repeats it, then one line that says it all.
fn summary(ended: &[Ended]) -> String {
    let mut text = String::new();
    let mut row = |name: &str, result: &str, time: Duration| {
        text.push_str(&format!("{name:<10} {result:<14} {:>8.1}\n", time.as_secs_f64()));
    };
    for part in ended {
        row(part.name, part.outcome.as_deref().unwrap_or("failed"), part.took);
    }
    let total: Duration = ended.iter().map(|part| part.took).sum();
    row("total", "", total);
    let head = format!("{:<10} {:<14} {:>8}\n", "part", "result", "seconds");

    let mut failed = Vec::new();
    for part in ended {
        if let Err(error) = &part.outcome {
            failed.push(part.name);
            text.push_str(&format!("\nfailed: {}: {error:#}\nhint: repeat it alone: {}\n", part.name, part.repeat));
        }
    }
    let last = match failed.as_slice() {
        [] => format!("test: all {} parts passed in {}", ended.len(), took(total)),
        names => format!("test: failed in {} of {} parts: {}", names.len(), ended.len(), names.join(", ")),
    };
    format!("{head}{text}\n{last}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(skip_tidy: bool, filter: Option<&str>) -> Vec<&'static str> {
        chosen(skip_tidy, filter).iter().map(|part| part.name).collect()
    }

    #[test]
    fn a_filter_narrows_the_parts() {
        assert_eq!(names(false, None), ["tidy", "servers", "tests", "planted", "traces"]);
        assert_eq!(names(true, None), ["servers", "tests", "planted", "traces"]);
        assert_eq!(names(true, Some("ex_22")), ["tests"]);
        assert_eq!(names(true, Some("planted_epoch")), ["tests", "planted"]);
        assert_eq!(names(true, Some("otel")), ["tests", "traces"]);
    }

    /// The command line builds the simulator in, and has no planted tests of its own.
    #[test]
    fn every_crate_in_which_a_defect_can_be_planted_is_tested() {
        let line = planted(&Session::default()).to_string();
        let crates = std::fs::read_dir(crate::run::root().join("crates")).unwrap();
        let manifests = crates.map(|found| found.unwrap().path().join("Cargo.toml"));
        for manifest in manifests.filter(|manifest| !manifest.ends_with("cli/Cargo.toml")) {
            let text = std::fs::read_to_string(&manifest).unwrap();
            let name = text.lines().find_map(|line| line.strip_prefix("name = ")).unwrap().trim_matches('"');
            if text.contains("\nplanted = [") {
                assert!(line.contains(&format!("--package {name} ")), "{name} is not in `{line}`");
            }
        }
    }

    #[test]
    fn only_closing_lines_count() {
        assert_eq!(passed_in("test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out\n"), 12);
        assert_eq!(passed_in("test result: FAILED. 7 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n"), 7);
        assert_eq!(passed_in("running 12 tests\n"), 0);
        assert_eq!(passed_in("said: test result: ok. 12 passed; 0 failed\n"), 0);
    }

    #[test]
    fn a_failure_ends_with_the_line_that_repeats_it() {
        let session = Session { variables: vec![("URL".to_owned(), "here".to_owned())], ..Session::default() };
        assert!(tests(&session).to_string().starts_with("URL=here cargo test "));
        let alone = session.alone();
        let seconds = Duration::from_secs;
        let ended = [
            Ended { name: "tidy", took: seconds(3), outcome: Ok("clean".to_owned()), repeat: (TIDY.line)(&alone) },
            Ended { name: "tests", took: seconds(60), outcome: Err(anyhow::anyhow!("no")), repeat: tests(&alone) },
        ];
        assert_eq!(
            summary(&ended),
            "part       result          seconds\n\
             tidy       clean               3.0\n\
             tests      failed             60.0\n\
             total                         63.0\n\
             \n\
             failed: tests: no\n\
             hint: repeat it alone: cargo test --workspace --locked --no-fail-fast\n\
             \n\
             test: failed in 1 of 2 parts: tests\n"
        );
        assert!(summary(&ended[..1]).ends_with("\ntest: all 1 parts passed in 3.0s\n"));
    }
}
