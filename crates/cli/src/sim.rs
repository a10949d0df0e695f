//! `weft sim`: runs the deterministic simulator and prints what it found, with the line that repeats it.

use crate::End;
use crate::terminal::{self, Bars, Colour, Table, draws_progress};
use anyhow::{Result, bail};
use clap::builder::PossibleValuesParser;
use std::time::{Duration, Instant};
use weft_bench::Watch;
use weft_bench::page::readable;
use weft_core::planted::Defect;
use weft_sim::{Options, Report, Scenario};

/// Simulate crashes, lost replies and wrong clocks, and check every promise
#[derive(clap::Args)]
#[command(before_help = "example: weft sim --seeds 20")]
pub struct Args {
    /// Which mix of faults
    #[arg(long, value_name = "S", default_value = "mixed", value_parser = PossibleValuesParser::new(Scenario::NAMES))]
    scenario: String,

    /// How many seeds [default: 100, or as many as `--seconds` allows]
    #[arg(long, value_name = "N", conflicts_with = "seed", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,

    /// The seed to begin with [default: 0]
    #[arg(long, value_name = "K", conflicts_with = "seed")]
    first_seed: Option<u64>,

    /// Only this seed, as the line of a violation names it
    #[arg(long, value_name = "K")]
    seed: Option<u64>,

    /// Begin no seed after so many seconds
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,

    /// Break this rule on purpose, to see that it is noticed; needs a build with `--features planted`
    #[arg(long, value_name = "D")]
    defect: Option<String>,

    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: Args, colour: Colour) -> Result<End> {
    let defect = args.defect.as_deref().map(defect).transpose()?;
    let scenario = Scenario::named(&args.scenario).expect("sim: the parser takes only names of scenarios");
    let seeds = args.seeds.unwrap_or(if args.seconds.is_some() { u64::MAX } else { 100 });
    let bars = draws_progress().then(|| Bars::new(colour));
    let begun = Instant::now();
    // With a time limit alone the bar counts seconds, otherwise seeds.
    let timed = args.seconds.filter(|_| args.seeds.is_none() && args.seed.is_none());
    if let Some(bars) = &bars {
        bars.begin("simulating", timed.unwrap_or(if args.seed.is_some() { 1 } else { seeds }));
    }
    let mut told = 0;
    let mut progress = |_: &weft_sim::SeedReport| {
        let reached = if timed.is_some() { begun.elapsed().as_secs() } else { told + 1 };
        if let Some(bars) = &bars {
            bars.advance(reached - told);
        }
        told = reached;
    };
    let mut options = Options::new(scenario);
    options.seeds = seeds;
    options.first_seed = args.first_seed.unwrap_or(0);
    options.limit = args.seconds.map(Duration::from_secs);
    options.defect = defect;
    options.progress = Some(&mut progress);
    if let Some(seed) = args.seed {
        options = options.seed(seed);
    }
    let report = weft_sim::run(options);
    if let Some(bars) = &bars {
        bars.end();
    }
    match args.json {
        true => terminal::put(&serde_json::to_string(&report)?)?,
        false => terminal::put(&table(&report, begun.elapsed()).render(colour.out))?,
    }
    for red in &report.red {
        terminal::say(&format!("{} {red}", colour.err.red("violation:")));
    }
    if report.is_starved() {
        let starved = format!("in {} of {} seeds hardly anything succeeded", report.starved, report.seeds);
        terminal::say(&format!("{} {starved}: the run proves nothing", colour.err.red("starved:")));
    }
    Ok(if report.violations.is_empty() && !report.is_starved() { End::Done } else { End::Refused })
}

fn defect(name: &str) -> Result<Defect> {
    if !cfg!(feature = "planted") {
        bail!("cannot plant a defect: this build has none; build it with `cargo build --features planted`");
    }
    let Some(defect) = Defect::from_name(name) else {
        let names: Vec<String> = Defect::ALL.into_iter().map(Defect::name).collect();
        bail!("there is no defect `{name}`; there are {}", names.join(", "));
    };
    Ok(defect)
}

fn table(report: &Report, elapsed: Duration) -> Table {
    let mut table = Table::new(&["sim", ""]);
    let faults: u64 = report.faults.values().sum();
    let reached = report.sometimes.values().filter(|times| **times > 0).count();
    let rows = [
        ("seeds", readable(report.seeds as f64)),
        ("took", terminal::readable_time(elapsed)),
        ("simulated", terminal::readable_time(Duration::from_secs(report.simulated_s))),
        ("transitions", readable(report.transitions as f64)),
        ("commits", readable(report.commits as f64)),
        ("faults injected", readable(faults as f64)),
        ("rare states reached", format!("{reached} of {}", report.sometimes.len())),
        ("starved seeds", readable(report.starved as f64)),
        ("violations", readable(report.violations.len() as f64)),
        ("red seeds", readable(report.red.len() as f64)),
        ("log hash", report.log_hash.chars().take(16).collect()),
    ];
    for (name, value) in rows {
        table.row(vec![name.to_owned(), value]);
    }
    table
}
