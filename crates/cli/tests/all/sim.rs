use crate::process::{stdout, text, weft};
use serde_json::Value;

#[test]
fn a_few_seeds_pass_and_are_told_in_one_object() {
    let json: Value = serde_json::from_str(&stdout(&weft(&["sim", "--seeds", "5", "--json"]))).unwrap();
    for field in
        ["seeds", "transitions", "commits", "simulated_s", "density", "faults", "sometimes", "violations", "log_hash"]
    {
        assert!(!json[field].is_null(), "{field} in {json}");
    }
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
