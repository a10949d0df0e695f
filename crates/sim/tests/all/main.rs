//! The simulator finds nothing in the engine as it is, and everything in one that is broken on purpose.

#[cfg(feature = "planted")]
mod planted;

use std::collections::BTreeMap;
use weft_sim::{Options, Scenario, run, run_seed};

fn scenario(name: &str) -> Scenario {
    Scenario::named(name).expect("the scenario exists")
}

#[test]
fn ri_1_to_19_quick_seeds_of_every_scenario_find_nothing() {
    let (mut starved, mut seeds) = (0, 0);
    let mut sometimes: BTreeMap<&str, u64> = BTreeMap::new();
    for name in Scenario::NAMES {
        let report = run(Options { seeds: 12, ..Options::new(scenario(name)) });
        assert!(report.violations.is_empty(), "{name}:\n{}", report.violations.join("\n\n"));
        (starved, seeds) = (starved + report.starved, seeds + report.seeds);
        for (state, times) in report.sometimes {
            *sometimes.entry(state).or_default() += times;
        }
    }
    assert!(starved * 10 <= seeds, "{starved} of {seeds} seeds are starved");
    let reached = sometimes.values().filter(|times| **times > 0).count();
    assert!(reached * 10 >= sometimes.len() * 9, "rare states that were hardly reached: {sometimes:?}");
}

#[test]
fn ri_18_the_same_seed_gives_the_same_log() {
    for (name, seed) in [("mixed", 1), ("mixed", 5), ("mixed", 9)] {
        let here = run_seed(&scenario(name), seed).log_hash;
        let again = run_seed(&scenario(name), seed).log_hash;
        let elsewhere =
            std::thread::spawn(move || run_seed(&scenario(name), seed).log_hash).join().expect("the thread ends well");
        assert_eq!([&here, &here], [&again, &elsewhere], "{name} {seed}");
    }
}

#[test]
fn ri_18_claims_that_wait_together_hear_a_notice_in_the_same_order_each_time() {
    let first = run_seed(&scenario("crashes"), 100).log_hash;
    for _ in 0..12 {
        assert_eq!(run_seed(&scenario("crashes"), 100).log_hash, first);
    }
}
