//! `weft doctor`: looks at a store and tells what is wrong with it, and what to do.

use crate::store::{self, Address, AnyStore, StoreArg};
use crate::terminal::{self, Colour, Table};
use crate::{End, registry};
use anyhow::Result;
use serde::Serialize;
use std::time::{SystemTime, UNIX_EPOCH};
use weft_core::schema::Kind;
use weft_store::{Finding, Range, Scan, Severity, Store, Target};

/// Look at a store and tell what is wrong with it
#[derive(clap::Args)]
#[command(before_help = "example: weft doctor")]
pub struct Args {
    #[command(flatten)]
    store: StoreArg,

    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

/// A clock that is further off is told.
const OFFSET_MS: i64 = 1_000;

/// Parked items that are counted.
const PARKED_MAX: usize = 1_000;

#[derive(Serialize)]
struct Report {
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

pub fn run(args: Args, colour: Colour) -> Result<End> {
    let address = args.store.address()?;
    let findings = store::runtime()?.block_on(look(&address));
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (problems, warnings) = (count(Severity::Problem), count(Severity::Warning));
    if args.json {
        let findings = findings.into_iter().map(Shown::from).collect();
        let report = Report { store: address.to_string(), problems, warnings, findings };
        terminal::put(&serde_json::to_string(&report)?)?;
    } else {
        terminal::put(&table(&findings, colour))?;
    }
    Ok(if problems > 0 { End::Refused } else { End::Done })
}

/// What the store says of itself, and what can be seen in it.
async fn look(address: &Address) -> Vec<Finding> {
    let mut findings = address.inspect().await;
    let sound = findings.iter().all(|finding| finding.severity < Severity::Problem);
    if sound && can_be_opened(address, &findings).await {
        match address.open_existing().await {
            Ok(store) => {
                let inside = inside(&store).await;
                // What the store has told of itself is not told twice.
                let told: Vec<String> = findings.iter().map(|finding| finding.subject.clone()).collect();
                findings.extend(inside.into_iter().filter(|finding| !told.contains(&finding.subject)));
            }
            Err(error) => findings.push(Finding::problem("open", format!("{error:#}"), "see above")),
        }
    }
    findings
}

/// A file that somebody has open cannot be opened again, and opening an older one would change it.
async fn can_be_opened(address: &Address, findings: &[Finding]) -> bool {
    let Address::Sqlite { path, .. } = address else { return true };
    let is_free = findings.iter().any(|finding| finding.subject == "lock" && finding.found.starts_with("nobody"));
    is_free && weft_store_sqlite::plan(path).is_ok_and(|plan| !plan.is_due())
}

async fn inside(store: &AnyStore) -> Vec<Finding> {
    let described = store.describe();
    vec![
        Finding::fine("durability", described.durability.to_string()),
        Finding::fine("partitions", described.partitions.to_string()),
        clock(store).await,
        nodes(store).await,
        parked(store).await,
    ]
}

async fn clock(store: &AnyStore) -> Finding {
    let local = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
    let before = local();
    match store.now().await {
        Err(error) => Finding::problem("clock", error.to_string(), "see whether the store is reachable"),
        Ok(now) => {
            let offset = now.as_i64() - (before + local()) / 2;
            let found = format!("{offset} ms ahead of this machine");
            match offset.abs() > OFFSET_MS {
                true => Finding::warning("clock", found, "set the clocks by a time server; Weft goes by the store's"),
                false => Finding::fine("clock", found),
            }
        }
    }
}

async fn nodes(store: &AnyStore) -> Finding {
    match registry::nodes(store).await {
        Err(error) => Finding::problem("nodes", format!("{error:#}"), "see whether the store is reachable"),
        Ok(nodes) => {
            let live = nodes.iter().filter(|node| node.state == registry::State::Live).count();
            let versions: std::collections::BTreeSet<&str> = nodes
                .iter()
                .filter(|node| node.state == registry::State::Live)
                .map(|node| node.version.as_str())
                .collect();
            match versions.len() {
                0 | 1 => Finding::fine("nodes", format!("{live} live, {} known", nodes.len())),
                _ => {
                    let found = format!("{live} live, of the versions {}", Vec::from_iter(versions).join(", "));
                    Finding::warning("nodes", found, "finish the upgrade: one version at a time")
                }
            }
        }
    }
}

async fn parked(store: &AnyStore) -> Finding {
    let scan = Scan {
        target: Target::Records(Kind::DeadLetter),
        ranges: vec![Range::default()],
        limit: PARKED_MAX,
        descending: false,
        parts: None,
    };
    match store.scan(None, scan).await {
        Err(error) => Finding::problem("parked items", error.to_string(), "see whether the store is reachable"),
        Ok(pages) => match pages.first().map_or(0, |page| page.entries.len()) {
            0 => Finding::fine("parked items", "none"),
            count => {
                let more = if pages.iter().any(|page| page.more) { " or more" } else { "" };
                let advice = "look at their errors; they are tried again or dropped by hand";
                Finding::warning("parked items", format!("{count}{more}: scanners gave up on them"), advice)
            }
        },
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
        table.row(vec![painted, finding.subject.clone(), finding.found.clone()]);
        if !finding.advice.is_empty() {
            table.row(vec![String::new(), String::new(), format!("→ {}", finding.advice)]);
        }
    }
    table.render(colour.out)
}
