//! `weft doctor`: looks at a store or a server, tells what is wrong with it and what to do.

mod configuration;
mod deep;
mod filters;
mod server;
mod store;

use crate::End;
use crate::fault::Fault;
use crate::remote::{self, Form};
use crate::render::plain;
use crate::store::StoreArg;
use crate::terminal::{self, Colour, Table};
use anyhow::Result;
use serde::Serialize;
use std::time::{SystemTime, UNIX_EPOCH};
use weft_store::{Finding, Severity};

/// Look at a store, or at a server, and tell what is wrong with it
#[derive(clap::Args)]
#[command(before_help = "example: weft doctor", after_help = AFTER)]
pub struct Args {
    #[command(flatten)]
    store: StoreArg,

    /// Look at every execution in the store too
    #[arg(long, conflicts_with = "url")]
    deep: bool,

    #[command(flatten)]
    options: remote::Options,
}

const AFTER: &str =
    "With --url, or WEFT_URL and no --store, it looks at a server instead of a store. --deep is for a store.";

/// What to do about items that a scanner could not handle.
const PARKED_ADVICE: &str = "`weft scanners parked` lists them with their errors, and `retry` or `discard` after it ends that; \
    docs/operations.md says when to do which";

/// What to do about repairs by scanners, which find nothing to repair in a healthy engine.
const REPAIRED_ADVICE: &str = "the items are right again; the warnings of the node's log name them, and a repair \
    without damage in the store is worth a report";

/// What to do about commands that would have broken an invariant.
const VIOLATED_ADVICE: &str = "nothing was damaged; the node has logged `refused; loading again` with what would have broken, \
    which is worth a report";

/// A clock that is further off is told.
const OFFSET_MS: i64 = 1_000;

#[derive(Serialize)]
struct Report {
    /// What was looked at: a store or a server.
    store: String,
    problems: usize,
    warnings: usize,
    findings: Vec<Shown>,
}

#[derive(Serialize)]
struct Shown {
    severity: &'static str,
    subject: String,
    found: String,
    advice: String,
}

pub fn run(args: Args, before: remote::Options, colour: Colour) -> Result<End> {
    let options = args.options.or(before);
    let form = options.output()?;
    // Beside it clap has refused the two; before the command's name it does not see the one.
    if args.deep && options.names_server() {
        return Err(Fault::usage("`--deep` reads the store itself, and `--url` names a server: leave one of them out"));
    }
    // To look at every execution takes the store itself.
    let (place, findings) = match !args.deep && options.asks_server(args.store.is_named())? {
        true => (options.find_url(), crate::store::runtime()?.block_on(server::look(&options))?),
        false => look_here(&args.store, args.deep, colour)?,
    };
    let findings: Vec<Finding> = configuration::misspelt().into_iter().chain(findings).collect();
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (problems, warnings) = (count(Severity::Problem), count(Severity::Warning));
    match form {
        Form::People => terminal::put(&table(&findings, colour))?,
        Form::Json => {
            let findings = findings.into_iter().map(Shown::from).collect();
            let report = Report { store: place, problems, warnings, findings };
            terminal::put(&serde_json::to_string(&report)?)?;
        }
        Form::Jsonl => {
            let mut lines = findings.into_iter().map(|finding| serde_json::to_string(&Shown::from(finding)));
            lines.try_for_each(|line| terminal::put(&line?))?;
        }
        // What is fine is no news to who wants to hear little.
        Form::Ids => {
            let news: Vec<Finding> =
                findings.into_iter().filter(|finding| finding.severity != Severity::Fine).collect();
            if !news.is_empty() {
                terminal::put(&table(&news, colour))?;
            }
        }
    }
    Ok(if problems > 0 { End::Refused } else { End::Done })
}

/// The configuration, and the store that it names. If it has mistakes, only a store that a flag names can be looked at.
fn look_here(store: &StoreArg, deep: bool, colour: Colour) -> Result<(String, Vec<Finding>)> {
    let mut findings = configuration::look(store.arguments());
    let address = match findings.iter().any(|finding| finding.severity == Severity::Problem) {
        false => store.address()?,
        true => match store.named() {
            Some(address) => address?,
            None => {
                let found = "not looked at: the configuration has mistakes, and it names the store";
                let advice = "mend what is told above, or name the store with `--store`";
                findings.push(Finding::warning("store", found, advice));
                return Ok(("the configuration".to_owned(), findings));
            }
        },
    };
    findings.extend(crate::store::runtime()?.block_on(store::look(&address, deep, colour)));
    Ok((address.to_string(), findings))
}

/// The name that the first key of an installation is made with.
const BOOTSTRAP: &str = "bootstrap";

/// Of so many keys this is the one that the installation began with.
fn first_key(keys: usize, first: Option<&str>) -> Finding {
    match first {
        None if keys == 0 => Finding::fine("keys", "none"),
        None => Finding::fine("keys", format!("{keys}, and the first one is gone")),
        Some(id) => {
            let advice = format!("weft key create --name ops --scope admin && weft key revoke {id}");
            Finding::warning("keys", "the bootstrap key is still in use", advice)
        }
    }
}

/// The clock of this machine, in milliseconds.
fn local_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64
}

/// A clock that was read between two looks at this machine's.
fn clock(theirs_ms: i64, before_ms: i64, advice: &str) -> Finding {
    let offset = theirs_ms - (before_ms + local_ms()) / 2;
    let found = format!("{offset} ms ahead of this machine");
    match offset.abs() > OFFSET_MS {
        true => Finding::warning("clock", found, advice),
        false => Finding::fine("clock", found),
    }
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Fine => "ok",
        Severity::Warning => "warning",
        Severity::Problem => "problem",
    }
}

impl From<Finding> for Shown {
    fn from(finding: Finding) -> Self {
        let Finding { severity, subject, found, advice } = finding;
        Self { severity: word(severity), subject, found, advice }
    }
}

/// What to do stands below what was found, so that both can be as long as they need to be.
fn table(findings: &[Finding], colour: Colour) -> String {
    let mut table = Table::left(&["", "subject", "found, and what to do"]);
    for finding in findings {
        let painted = match finding.severity {
            Severity::Fine => colour.out.green(word(finding.severity)),
            Severity::Warning => colour.out.yellow(word(finding.severity)),
            Severity::Problem => colour.out.red(word(finding.severity)),
        };
        table.row(vec![painted, plain(&finding.subject), plain(&finding.found)]);
        if !finding.advice.is_empty() {
            table.row(vec![String::new(), String::new(), format!("→ {}", plain(&finding.advice))]);
        }
    }
    table.render(colour.out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Paint;

    #[test]
    fn what_others_wrote_cannot_move_the_cursor_in_a_table() {
        let finding = Finding::warning("parked items", "x by own (a\x1b[2J\nb)", "see \u{202e}above");
        let colour = Colour { out: Paint::PLAIN, err: Paint::PLAIN };
        let shown = table(&[finding], colour);
        assert!(shown.contains(r"x by own (a\u001b[2J b)") && shown.contains(r"→ see \u202eabove"), "{shown}");
        assert_eq!(shown.lines().count(), 3, "{shown}");
    }
}
