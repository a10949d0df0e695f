//! Long runs. Owns which ones there are; what they check belongs to the programs they run.

mod sim;

use crate::arguments::Soak;
use crate::run::{Line, root};
use anyhow::{Context, Result};

pub fn soak(soak: &Soak) -> Result<bool> {
    match soak {
        Soak::Sim { seeds } => sim::soak(*seeds),
        Soak::Crash { rounds } => faults("crash", &["faults::nodes", "faults::servers"], *rounds),
        Soak::Fuzz { examples } => fuzz(*examples),
        Soak::Failover { rounds } => faults("failover", &["faults::cluster"], *rounds),
    }
}

/// The fuzzer with many requests of each operation.
fn fuzz(examples: u64) -> Result<bool> {
    let report = root().join("target/soak-fuzz.txt");
    let variables = [("WEFT_FUZZ_EXAMPLES", examples.to_string()), ("WEFT_FUZZ_REPORT", report.display().to_string())];
    let line = Line::cargo("test --locked --package weft --test all -- fuzz")
        .with(&variables.map(|(name, value)| (name.to_owned(), value)));
    println!("== soak fuzz: {line}");
    let done = line.run();
    if let Ok(told) = std::fs::read_to_string(&report) {
        print!("{told}");
    }
    done.map(|()| true)
}

/// The fault tests on real processes, one after the other, each with servers of its own.
fn faults(name: &str, tests: &[&str], rounds: u64) -> Result<bool> {
    let report = root().join("target").join(format!("soak-{name}.txt"));
    if report.exists() {
        std::fs::remove_file(&report).with_context(|| format!("could not remove {}", report.display()))?;
    }
    let variables = [("WEFT_FAULT_ROUNDS", rounds.to_string()), ("WEFT_FAULT_REPORT", report.display().to_string())];
    let line = Line::cargo("test --locked --package weft --test all --")
        .with(&variables.map(|(name, value)| (name.to_owned(), value)));
    let line = tests.iter().fold(line, |line, test| line.word(*test)).word("--test-threads=1");
    println!("== soak {name}: {line}");
    let done = line.run();
    if let Ok(told) = std::fs::read_to_string(&report) {
        print!("{told}");
    }
    done.map(|()| true)
}
