use crate::process::{stdout, text, weft};
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn a_few_seeds_pass_and_are_told_in_one_object() {
    let json: Value = serde_json::from_str(&stdout(&weft(&["sim", "--seeds", "5", "--json"]))).unwrap();
    let fields: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = vec!["seeds", "transitions", "commits", "simulated_s", "density", "faults", "sometimes"];
    expected.extend(["starved", "violations", "log_hash", "version"]);
    assert_eq!(BTreeSet::from_iter(fields), BTreeSet::from_iter(expected));
    assert_eq!(json["seeds"], 5);
    assert_eq!(json["violations"].as_array().map(Vec::len), Some(0));
}

#[test]
fn ri_18_the_same_seed_gives_the_same_log_in_two_processes() {
    let run = || {
        let json: Value = serde_json::from_str(&stdout(&weft(&["sim", "--seed", "7", "--json"]))).unwrap();
        json["log_hash"].clone()
    };
    assert_eq!(run(), run());
}

#[test]
fn seeds_begin_where_they_are_told_to() {
    let run = |words: &[&str]| {
        let words = [&["sim", "--scenario", "calm", "--json"], words].concat();
        let json: Value = serde_json::from_str(&stdout(&weft(&words))).unwrap();
        json["log_hash"].clone()
    };
    assert_eq!(run(&["--first-seed", "7", "--seeds", "1"]), run(&["--seed", "7"]));
}

#[test]
fn a_scenario_that_does_not_exist_is_answered_with_those_that_do() {
    let output = weft(&["sim", "--scenario", "calmm"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("calm"), "{}", text(&output.stderr));
}

#[cfg(not(feature = "planted"))]
#[test]
fn a_defect_needs_a_build_that_has_them() {
    let output = weft(&["sim", "--seeds", "1", "--defect", "anything"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--features planted"), "{}", text(&output.stderr));
}
