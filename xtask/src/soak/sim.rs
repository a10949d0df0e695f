//! Many seeds of every scenario through `weft sim`, on all cores. Owns how seeds are dealt out to child processes and
//! what their reports add up to; what is checked belongs to the simulator.

use crate::run::{Line, took};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const SCENARIOS: &[&str] = &["mixed", "calm", "crashes", "commits", "leases", "alone", "losses"];
/// Seeds of one child process.
const CHUNK: u64 = 250;
/// A scenario has proved nothing if more than one in this many seeds starved.
const STARVED_ONE_IN: u64 = 10;

/// What one child process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chunk {
    scenario: &'static str,
    first: u64,
    seeds: u64,
}

/// What the chunks of one scenario add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sum {
    seeds: u64,
    commits: u64,
    transitions: u64,
    starved: u64,
    /// The lines that repeat red seeds.
    replays: BTreeSet<String>,
    time: Duration,
}

/// What all threads share.
struct Soak {
    queue: VecDeque<Chunk>,
    sums: BTreeMap<&'static str, Sum>,
    failed: Vec<String>,
    total: u64,
    began: Instant,
    /// Progress is one line, drawn again and again.
    redrawn: bool,
}

pub fn soak(seeds: u64) -> Result<bool> {
    let binary = build()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("== soak sim: {seeds} seeds of each of {} scenarios, {cores} at a time", SCENARIOS.len());
    let soak = Mutex::new(Soak::new(seeds, std::io::stdout().is_terminal()));
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| work(&soak, &binary));
        }
    });
    let soak = soak.into_inner().unwrap_or_else(PoisonError::into_inner);
    soak.clear_progress();
    print!("\n{}", soak.summary());
    Ok(soak.is_good())
}

/// Builds the release binary and says where it is.
fn build() -> Result<String> {
    let line = Line::cargo("build --release --locked --package weft --message-format=json-render-diagnostics");
    println!("== soak sim: {line}");
    let built = line.capture()?;
    if !built.status.success() {
        bail!("`{line}` ended with {}", built.status);
    }
    built.stdout.lines().find_map(executable).with_context(|| format!("`{line}` named no binary"))
}

/// The path in a message of cargo about the binary `weft`.
fn executable(message: &str) -> Option<String> {
    let message: Value = serde_json::from_str(message).ok()?;
    let named = message["target"]["name"] == "weft";
    message["executable"].as_str().filter(|_| named).map(str::to_owned)
}

/// Runs chunks until none is left.
fn work(soak: &Mutex<Soak>, binary: &str) {
    let lock = || soak.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let Some(chunk) = lock().queue.pop_front() else { return };
        let began = Instant::now();
        let ended = chunk.line(binary).start().and_then(|child| child.end());
        let time = began.elapsed();
        match ended {
            Ok((_, stdout, stderr)) => lock().ended(&chunk, &stdout, &stderr, time),
            Err(error) => lock().failed(&chunk, &format!("{error:#}")),
        }
    }
}

/// Chunks of all scenarios in turn, so that each has had its share whenever somebody stops the run.
fn deal(seeds: u64) -> VecDeque<Chunk> {
    let firsts = (0..seeds).step_by(CHUNK as usize);
    firsts
        .flat_map(|first| {
            SCENARIOS.iter().map(move |scenario| Chunk { scenario, first, seeds: CHUNK.min(seeds - first) })
        })
        .collect()
}

impl Chunk {
    fn line(&self, binary: &str) -> Line {
        let line = Line::program(binary).word("sim").word("--scenario").word(self.scenario);
        line.word("--first-seed")
            .word(self.first.to_string())
            .word("--seeds")
            .word(self.seeds.to_string())
            .word("--json")
    }
}

impl Sum {
    fn is_starved(&self) -> bool {
        self.starved * STARVED_ONE_IN > self.seeds
    }
}

impl Soak {
    fn new(seeds: u64, redrawn: bool) -> Self {
        let queue = deal(seeds);
        let total = queue.iter().map(|chunk| chunk.seeds).sum();
        let sums = SCENARIOS.iter().map(|scenario| (*scenario, Sum::default())).collect();
        Self { queue, sums, failed: Vec::new(), total, began: Instant::now(), redrawn }
    }

    /// Adds what a child wrote. Its exit code says no more than its report; a child without a whole report has failed.
    fn ended(&mut self, chunk: &Chunk, stdout: &str, stderr: &str, time: Duration) {
        let report: Value = serde_json::from_str(stdout).unwrap_or_default();
        if report["seeds"].as_u64() != Some(chunk.seeds) || !report["violations"].is_array() {
            let last = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
            return self.failed(chunk, last);
        }
        let number = |name: &str| report[name].as_u64().unwrap_or(0);
        let sum = self.sums.entry(chunk.scenario).or_default();
        sum.seeds += chunk.seeds;
        sum.commits += number("commits");
        sum.transitions += number("transitions");
        sum.starved += number("starved");
        sum.time += time;
        let violations = report["violations"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let line = |violation: &str| replay(violation).unwrap_or_else(|| violation.to_owned());
        let replays: BTreeSet<String> = violations.map(line).collect();
        let red = replays.len();
        sum.replays.extend(replays);
        if red > 0 {
            self.clear_progress();
            print!("{stderr}");
        }
        self.progress(chunk, red, time);
    }

    /// A child that ended otherwise than with a report. No further ones are begun: they would most likely fail too.
    fn failed(&mut self, chunk: &Chunk, why: &str) {
        self.failed.push(format!("{} from seed {} on: {why}", chunk.scenario, chunk.first));
        self.queue.clear();
    }

    fn progress(&self, chunk: &Chunk, red: usize, time: Duration) {
        let Chunk { scenario, first, seeds } = chunk;
        let done: u64 = self.sums.values().map(|sum| sum.seeds).sum();
        let left = left(self.began.elapsed(), done, self.total);
        let reds: usize = self.sums.values().map(|sum| sum.replays.len()).sum();
        if self.redrawn {
            print!("\r\x1b[K{done} of {} seeds, {reds} red, about {} left", self.total, took(left));
        } else {
            let last = first + seeds - 1;
            println!(
                "{scenario:<8} {first:>6} to {last:<6} {red} red, {}; {done} of {}, about {} left",
                took(time),
                self.total,
                took(left)
            );
        }
        // A progress line that nobody can read harms nothing.
        let _ = std::io::stdout().flush();
    }

    fn clear_progress(&self) {
        if self.redrawn {
            print!("\r\x1b[K");
        }
    }

    fn is_good(&self) -> bool {
        self.failed.is_empty() && self.sums.values().all(|sum| sum.replays.is_empty() && !sum.is_starved())
    }

    /// A row per scenario, then what is wrong: each red seed with the line that repeats it.
    fn summary(&self) -> String {
        let mut text = format!(
            "{:<10} {:>8} {:>10} {:>11} {:>8} {:>10} {:>8}\n",
            "scenario", "seeds", "commits", "transitions", "starved", "red seeds", "seconds"
        );
        for (name, sum) in SCENARIOS.iter().filter_map(|name| Some((name, self.sums.get(name)?))) {
            let Sum { seeds, commits, transitions, starved, replays, time } = sum;
            let (red, seconds) = (replays.len(), time.as_secs_f64());
            text.push_str(&format!(
                "{name:<10} {seeds:>8} {commits:>10} {transitions:>11} {starved:>8} {red:>10} {seconds:>8.1}\n"
            ));
        }
        for replay in self.sums.values().flat_map(|sum| &sum.replays) {
            text.push_str(&format!("red: {replay}\n"));
        }
        for (name, sum) in self.sums.iter().filter(|(_, sum)| sum.is_starved()) {
            let Sum { starved, seeds, .. } = sum;
            text.push_str(&format!("starved: {name}: in {starved} of {seeds} seeds hardly anything succeeded\n"));
        }
        for failure in &self.failed {
            text.push_str(&format!("failed: {failure}\n"));
        }
        let end = if self.is_good() { "found nothing" } else { "failed" };
        text.push_str(&format!("soak sim: {end} in {}\n", took(self.began.elapsed())));
        text
    }
}

/// The command in the last line of a violation.
fn replay(violation: &str) -> Option<String> {
    violation.lines().rev().find_map(|line| line.trim().strip_prefix("replay: ")).map(str::to_owned)
}

/// The time that the rest will take if it goes on as it went.
fn left(elapsed: Duration, done: u64, total: u64) -> Duration {
    elapsed.mul_f64((total - done) as f64 / done.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_of_the_simulator_is_soaked() {
        let source = include_str!("../../../crates/sim/src/scenario.rs");
        let names = source.split_once("pub const NAMES").and_then(|(_, rest)| rest.split_once(';'));
        let names = names.and_then(|(_, rest)| rest.split_once("];")).expect("the list of names is there").0;
        let names: Vec<&str> = names.split('"').skip(1).step_by(2).collect();
        assert_eq!(names, SCENARIOS);
    }

    #[test]
    fn chunks_cover_every_seed_of_every_scenario_once() {
        let chunks = deal(600);
        for scenario in SCENARIOS {
            let own: Vec<(u64, u64)> = chunks
                .iter()
                .filter(|chunk| chunk.scenario == *scenario)
                .map(|chunk| (chunk.first, chunk.seeds))
                .collect();
            assert_eq!(own, [(0, 250), (250, 250), (500, 100)]);
        }
        assert_eq!(chunks[1].line("weft").to_string(), "weft sim --scenario calm --first-seed 0 --seeds 250 --json");
    }

    fn report(seeds: u64, starved: u64, violations: &[&str]) -> String {
        serde_json::json!({
            "seeds": seeds, "commits": 20, "transitions": 30, "starved": starved, "violations": violations
        })
        .to_string()
    }

    #[test]
    fn a_red_seed_counts_once_and_its_line_is_shown() {
        let mut soak = Soak::new(10, false);
        let chunk = soak.queue.pop_front().expect("there are seeds");
        let red = "RI-1 at 3: gone\n  replay: weft sim --scenario mixed --seed 4";
        let again = "RI-2 at 3: here\n  replay: weft sim --scenario mixed --seed 4";
        soak.ended(&chunk, &report(10, 1, &[red, again]), "", Duration::from_secs(2));
        let summary = soak.summary();
        assert!(
            summary.contains("mixed            10         20          30        1          1      2.0\n"),
            "{summary}"
        );
        assert_eq!(summary.matches("red: weft sim --scenario mixed --seed 4\n").count(), 1, "{summary}");
        assert!(!soak.is_good());
    }

    #[test]
    fn starved_seeds_and_failed_children_are_no_success() {
        let mut soak = Soak::new(20, false);
        let chunk = soak.queue.pop_front().expect("there are seeds");
        soak.ended(&chunk, &report(20, 2, &[]), "", Duration::ZERO);
        assert!(soak.is_good(), "one in ten is allowed");
        let calm = soak.queue.pop_front().expect("there are scenarios");
        soak.ended(&calm, &report(20, 3, &[]), "", Duration::ZERO);
        assert!(!soak.is_good() && soak.summary().contains("starved: calm: in 3 of 20 seeds"));

        for stdout in ["", "killed", &report(19, 0, &[])] {
            let mut soak = Soak::new(20, false);
            let chunk = soak.queue.pop_front().expect("there are seeds");
            soak.ended(&chunk, stdout, "error: no memory\n\n", Duration::ZERO);
            assert!(!soak.is_good() && soak.queue.is_empty());
            assert!(soak.summary().contains("failed: mixed from seed 0 on: error: no memory\n"), "{}", soak.summary());
        }
    }

    #[test]
    fn the_binary_is_where_cargo_says() {
        let message = r#"{"reason":"compiler-artifact","target":{"name":"weft"},"executable":"/t/release/weft"}"#;
        assert_eq!(executable(message).as_deref(), Some("/t/release/weft"));
        assert_eq!(executable(r#"{"target":{"name":"weft-core"},"executable":null}"#), None);
        assert_eq!(executable("   Compiling weft"), None);
    }
}
