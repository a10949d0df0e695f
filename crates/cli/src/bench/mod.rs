//! `weft bench`: runs the measured workloads on a store and prints the figures.

mod file;
mod served;
mod server;
mod target;

use crate::End;
use crate::store::{self, Address};
use crate::terminal::{self, Bars, Colour, Table, draws_progress};
use anyhow::{Context, Result};
use clap::CommandFactory;
use clap::error::ErrorKind;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use target::Place;
use weft_bench::{Options, Report, Scenario, Silent, Watch, page};

/// Measure the engine against what its store can do at best
#[derive(clap::Args)]
#[command(before_help = "example: weft bench lifecycle --n 2000")]
pub struct Args {
    /// What to measure
    #[arg(value_enum)]
    scenario: Choice,

    /// Address of a store; the runs use fresh files beside it, or a schema or prefix of their own on its server, and
    /// remove them [default: SQLite in a temporary folder]
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// Engines on the same store, each with its own connections [default: 1]
    #[arg(long, value_name = "K")]
    nodes: Option<usize>,

    /// Executions, or rounds of `latency` [default: 20000; latency 300, backlog 1000000,
    /// flow-chain 200 flows, fan-out 9998, quorum-cancel 20 rounds, large-flow 100000]
    #[arg(long, value_name = "N")]
    n: Option<u64>,

    /// Workers that claim and complete [default: 16]
    #[arg(long, value_name = "W")]
    workers: Option<usize>,

    /// Bytes of each input [default: 64]
    #[arg(long, value_name = "BYTES")]
    payload: Option<usize>,

    /// Seconds that `idle` lasts [default: 15]
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,

    /// Over HTTP with the worker of the SDK, beside the same in-process; for `lifecycle`
    #[arg(long)]
    remote: bool,

    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,

    /// Write a page with plots, and the raw JSON, into this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Choice {
    /// What the store itself does for the same durable facts
    Floor,
    /// Submit, claim and complete, all at once and each alone
    Lifecycle,
    /// One execution at a time on an idle engine
    Latency,
    /// Claim and complete with ten thousand and with a million queued
    Backlog,
    /// What an engine costs that has nothing to do
    Idle,
    /// Chains of ten steps, many at once and one at a time
    FlowChain,
    /// One execution, ten thousand behind it, one that joins them
    FanOut,
    /// One of many siblings succeeds and the others are cancelled
    QuorumCancel,
    /// A flow of a hundred thousand members beside other work
    LargeFlow,
    /// One after the other
    All,
}

impl Choice {
    fn scenarios(self) -> &'static [Scenario] {
        match self {
            Choice::Floor => &[Scenario::Floor],
            Choice::Lifecycle => &[Scenario::Lifecycle],
            Choice::Latency => &[Scenario::Latency],
            Choice::Backlog => &[Scenario::Backlog],
            Choice::Idle => &[Scenario::Idle],
            Choice::FlowChain => &[Scenario::FlowChain],
            Choice::FanOut => &[Scenario::FanOut],
            Choice::QuorumCancel => &[Scenario::QuorumCancel],
            Choice::LargeFlow => &[Scenario::LargeFlow],
            Choice::All => &Scenario::ALL,
        }
    }
}

pub fn run(args: Args, colour: Colour) -> Result<End> {
    let options = Options {
        n: args.n,
        workers: args.workers,
        payload: args.payload,
        seconds: args.seconds,
        nodes: args.nodes,
        remote: args.remote,
    };
    let address = args.store.as_deref().map(Address::parse).transpose()?;
    check(&args, &options, address.as_ref());
    if let Some(dir) = &args.report {
        fs::create_dir_all(dir).with_context(|| format!("cannot create the folder `{}`", dir.display()))?;
    }
    let watch: Arc<dyn Watch> = if draws_progress() { Arc::new(Bars::new(colour)) } else { Arc::new(Silent) };
    let measured = store::runtime()?.block_on(async {
        let target = Place::open(address).await?;
        let measured = tokio::select! {
            reports = measure(args.scenario, &target, &options, watch) => reports.map(Some),
            _ = tokio::signal::ctrl_c() => Ok(None),
        };
        // Whatever happened: nothing of a measurement stays behind.
        target.clean().await;
        measured
    })?;
    let Some(reports) = measured else {
        terminal::say("interrupted; what this run had made is removed");
        return Ok(End::Interrupted);
    };
    match (args.json, reports.as_slice()) {
        (true, [report]) if args.scenario != Choice::All => terminal::put(&serde_json::to_string(report)?)?,
        (true, reports) => {
            let by_name: BTreeMap<&str, &Report> = reports.iter().map(|report| (report.scenario, report)).collect();
            terminal::put(&serde_json::to_string(&by_name)?)?;
        }
        (false, reports) => {
            for report in reports {
                terminal::put(&table(report, colour)?)?;
            }
        }
    }
    if let Some(dir) = &args.report {
        write_report(dir, &reports)?;
    }
    Ok(End::Done)
}

/// Misuse is answered like any other wrong flag, before anything is measured.
fn check(args: &Args, options: &Options, address: Option<&Address>) {
    let one_process = matches!(address, None | Some(Address::Sqlite { .. }));
    let problem = match args.scenario {
        _ if one_process && options.nodes.is_some_and(|nodes| nodes > 1) => {
            Some("`--nodes` needs a store on a server: one process at a time has a SQLite file open".to_owned())
        }
        Choice::All => {
            let set = options.n.is_some() || options.workers.is_some() || options.payload.is_some() || options.remote;
            (set || options.seconds.is_some() || options.nodes.is_some())
                .then(|| "`all` takes every scenario with its defaults; set options on one scenario".to_owned())
        }
        one => {
            one.scenarios().iter().find_map(|scenario| options.check(*scenario).err()).map(|error| error.to_string())
        }
    };
    if let Some(problem) = problem {
        let mut weft = crate::Weft::command();
        let bench = weft.find_subcommand_mut("bench").expect("bench: the command exists");
        bench.clone().bin_name("weft bench").error(ErrorKind::ArgumentConflict, problem).exit();
    }
}

async fn measure(choice: Choice, target: &Place, options: &Options, watch: Arc<dyn Watch>) -> Result<Vec<Report>> {
    let mut reports = Vec::new();
    for scenario in choice.scenarios() {
        let report = weft_bench::run(*scenario, target, options, watch.clone()).await;
        reports.push(report.with_context(|| format!("`{}` has no valid result", scenario.name()))?);
    }
    Ok(reports)
}

/// The same fields as the JSON, without those that do not apply.
fn table(report: &Report, colour: Colour) -> Result<String> {
    let mut table = Table::new(&["figure", "value"]);
    let serde_json::Value::Object(fields) = serde_json::to_value(report)? else {
        anyhow::bail!("a report is an object");
    };
    let told_above = ["scenario", "store", "durability"];
    let shown = Report::FIELDS.iter().filter(|name| !told_above.contains(name));
    for (name, value) in shown.filter_map(|name| Some((*name, fields.get(*name)?))) {
        let text = match value {
            serde_json::Value::Null => continue,
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Number(number) => page::readable(number.as_f64().unwrap_or_default()),
            other => other.to_string(),
        };
        table.row(vec![name.to_owned(), text]);
    }
    let title = colour.out.bold(&format!("{} on {}", report.scenario, report.store));
    Ok(format!("{title}: {}\n{}\n", report.durability, table.render(colour.out)))
}

fn write_report(dir: &Path, reports: &[Report]) -> Result<()> {
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        fs::write(&path, text).with_context(|| format!("could not write `{}`", path.display()))
    };
    for report in reports {
        write(&format!("{}.json", report.scenario), &serde_json::to_string_pretty(report)?)?;
    }
    write("index.html", &page::render(reports))?;
    terminal::say(&format!("report: {}", dir.join("index.html").display()));
    Ok(())
}
