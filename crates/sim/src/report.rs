//! Many seeds: what they add up to, and the smallest setting in which a red one stays red.

use crate::scenario::{Scenario, Trouble};
use crate::seed::{SeedReport, run_seed};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};
use weft_core::planted::Defect;

/// One seed in so many runs twice, and must give the same log.
const TWICE_EVERY: u64 = 50;

/// What to run.
pub struct Options<'a> {
    pub scenario: Scenario,
    pub first_seed: u64,
    /// How many seeds, beginning with the first.
    pub seeds: u64,
    /// Begin no seed after this time.
    pub limit: Option<Duration>,
    /// A defect on purpose; without the feature `planted` it has no effect.
    pub defect: Option<Defect>,
    /// Stop after the first seed with a violation.
    pub stop_at_first: bool,
    /// Look for the smallest setting in which a red seed stays red.
    pub shrink: bool,
    /// Called after every seed.
    pub progress: Option<&'a mut dyn FnMut(&SeedReport)>,
}

impl Options<'_> {
    pub fn new(scenario: Scenario) -> Self {
        Self {
            scenario,
            first_seed: 0,
            seeds: 100,
            limit: None,
            defect: None,
            stop_at_first: false,
            shrink: true,
            progress: None,
        }
    }

    /// Only this seed.
    pub fn seed(mut self, seed: u64) -> Self {
        (self.first_seed, self.seeds) = (seed, 1);
        self
    }
}

/// What the seeds add up to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub seeds: u64,
    pub transitions: u64,
    pub commits: u64,
    pub simulated_s: u64,
    /// Seeds by density: simulated time means little without it.
    pub density: BTreeMap<&'static str, u64>,
    /// How often each fault was injected.
    pub faults: BTreeMap<String, u64>,
    /// How often each rare state was reached.
    pub sometimes: BTreeMap<&'static str, u64>,
    pub starved: u64,
    pub violations: Vec<String>,
    /// Seeds with a violation, in order.
    #[serde(skip)]
    pub red: Vec<Red>,
    /// Over the logs of all seeds, in order.
    pub log_hash: String,
    pub version: &'static str,
}

/// A seed with a violation. Its display is the first violation, how many more there are, and the line that repeats it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Red {
    pub seed: u64,
    pub first: String,
    /// Violations after the first.
    pub more: usize,
}

impl fmt::Display for Red {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first.rsplit_once('\n').filter(|_| self.more > 0) {
            Some((violation, replay)) => write!(f, "{violation}\n  … and {} more\n{replay}", self.more),
            None => f.write_str(&self.first),
        }
    }
}

impl Report {
    /// Errors nearly everywhere prove nothing: so many seeds in which little succeeded make the whole run worthless.
    pub fn is_starved(&self) -> bool {
        self.seeds >= 10 && self.starved * 10 > self.seeds
    }
}

/// The rare states that a good search reaches.
pub const SOMETIMES: [&str; 19] = [
    "lease lost between claim and first renewal",
    "completion by the zombie right after reclaim",
    "unknown then applied",
    "unknown then not applied",
    "late arrival hits the bar",
    "conflict three times in a row",
    "reclaim limit hit",
    "backoff after three lost leases",
    "deadline and completion in one batch",
    "timer due in the commit that disarms it",
    "worker restarts with same instance id",
    "node crash with commit in flight",
    "claim repeated with request id returns the same leases",
    "duplicate submit",
    "a loss was told in the feed",
    "loss under a held lease",
    "loss in the middle of a commit",
    "loss twice",
    "loss with two witnesses",
];

/// Runs the seeds, one after the other, on this thread.
pub fn run(mut options: Options<'_>) -> Report {
    plant(options.defect);
    let began = Instant::now();
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION"),
        sometimes: SOMETIMES.into_iter().map(|state| (state, 0)).collect(),
        ..Report::default()
    };
    let mut hasher = Sha256::new();
    for seed in options.first_seed..options.first_seed.saturating_add(options.seeds) {
        if options.limit.is_some_and(|limit| began.elapsed() >= limit) {
            break;
        }
        let mut one = run_seed(&options.scenario, seed);
        if seed.is_multiple_of(TWICE_EVERY) && one.violations.is_empty() {
            run_again(&options.scenario, &mut one);
        }
        hasher.update(one.log_hash.as_bytes());
        if !one.violations.is_empty() && options.shrink {
            let smallest = shrink(&options.scenario, seed);
            one.violations.iter_mut().take(1).for_each(|violation| violation.insert_str(0, &format!("{smallest}\n  ")));
        }
        if let Some(progress) = &mut options.progress {
            progress(&one);
        }
        let red = !one.violations.is_empty();
        report.add(one);
        if red && options.stop_at_first {
            break;
        }
    }
    report.log_hash = crate::log::hex(&hasher.finalize());
    plant(None);
    report
}

fn run_again(scenario: &Scenario, first: &mut SeedReport) {
    let second = run_seed(scenario, first.seed);
    if second.log_hash != first.log_hash {
        first.violations.push(format!(
            "RI-18: the same seed gave two logs, {} and {}\n  replay: weft sim --scenario {} --seed {}",
            first.log_hash, second.log_hash, scenario.name, first.seed
        ));
    }
}

#[cfg(feature = "planted")]
fn plant(defect: Option<Defect>) {
    weft_core::planted::plant(defect);
}

#[cfg(not(feature = "planted"))]
fn plant(_: Option<Defect>) {}

impl Report {
    fn add(&mut self, one: SeedReport) {
        self.seeds += 1;
        self.transitions += one.transitions;
        self.commits += one.commits;
        self.simulated_s += one.simulated_ms / 1000;
        self.starved += u64::from(one.starved);
        *self.density.entry(one.density).or_default() += 1;
        for (name, times) in one.faults {
            *self.faults.entry(name).or_default() += times;
        }
        for (state, times) in one.sometimes {
            *self.sometimes.entry(state).or_default() += times;
        }
        if let Some(first) = one.violations.first() {
            self.red.push(Red { seed: one.seed, first: first.clone(), more: one.violations.len() - 1 });
        }
        self.violations.extend(one.violations);
    }

    /// Rare states that no seed reached.
    pub fn never(&self) -> Vec<&'static str> {
        SOMETIMES.into_iter().filter(|state| self.sometimes.get(state).is_none_or(|times| *times == 0)).collect()
    }
}

/// Takes away faults, one family after the other, and then executions, as long as the seed stays red. Says what is left.
pub fn shrink(scenario: &Scenario, seed: u64) -> String {
    let red = |scenario: &Scenario| !run_seed(scenario, seed).violations.is_empty();
    let mut smallest = scenario.clone();
    for trouble in Trouble::ALL {
        let less = smallest.without(trouble);
        if smallest.has(trouble) && red(&less) {
            smallest = less;
        }
    }
    for executions in [1, 2, 5, 10, 20, 50] {
        let less = smallest.with_at_most(executions);
        if red(&less) {
            smallest = less;
            break;
        }
    }
    let left: Vec<String> =
        Trouble::ALL.into_iter().filter(|trouble| smallest.has(*trouble)).map(Trouble::name).collect();
    let executions = smallest.executions_max.map_or("all".to_owned(), |most| format!("at most {most}"));
    let left = if left.is_empty() { "no faults".to_owned() } else { format!("faults in {}", left.join(", ")) };
    format!("still red with {left} and {executions} executions:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_red_seed_is_told_once_with_a_count_of_further_violations() {
        let replay = "replay: weft sim --scenario mixed --seed 7";
        let told = |rule: &str| format!("{rule} at 5: lost\n  sparse, log abc\n  {replay}");
        let mut report = Report::default();
        let one = crate::seed::run_seed(&Scenario::named("calm").expect("listed").with_at_most(1), 0);
        let red = |seed, violations| SeedReport { seed, violations, ..one.clone() };
        report.add(red(7, vec![told("RI-1"), told("RI-2"), told("RI-3")]));
        report.add(red(8, Vec::new()));
        report.add(red(9, vec![told("RI-4")]));
        let shown: Vec<String> = report.red.iter().map(Red::to_string).collect();
        let first = format!("RI-1 at 5: lost\n  sparse, log abc\n  … and 2 more\n  {replay}");
        assert_eq!((shown, report.violations.len()), (vec![first, told("RI-4")], 4));
    }
}
