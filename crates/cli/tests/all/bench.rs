use crate::process::{stdout, text, weft};
use serde_json::Value;

const FIELDS: [&str; 25] = [
    "scenario",
    "store",
    "durability",
    "version",
    "n",
    "workers",
    "nodes",
    "remote",
    "throughput_per_s",
    "submit_per_s",
    "drain_per_s",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "floor_per_s",
    "floor_commit_ms",
    "ratio_to_floor",
    "commits",
    "batch_mean",
    "conflicts",
    "store_calls",
    "store_bytes_written",
    "rss_mb",
    "cpu_s",
    "checks",
];

/// Runs a scenario and answers its one object, which has every field of the spec, in its order.
fn measure(args: &[&str]) -> Value {
    let printed = stdout(&weft(&[&["bench"], args, &["--json"]].concat()));
    let json: Value = serde_json::from_str(&printed).unwrap();
    let places: Vec<usize> = FIELDS.iter().map(|field| printed.find(&format!("\"{field}\":")).expect(field)).collect();
    assert!(places.is_sorted(), "{printed}");
    assert_eq!(json["checks"], "ok");
    assert_eq!(json["store"], "sqlite");
    json
}

fn positive(json: &Value, fields: &[&str]) {
    for field in fields {
        assert!(json[field].as_f64().is_some_and(|value| value > 0.0), "{field} in {json}");
    }
}

fn null(json: &Value, fields: &[&str]) {
    for field in fields {
        assert!(json[field].is_null(), "{field} in {json}");
    }
}

#[test]
fn floor_measures_the_store_alone() {
    let json = measure(&["floor", "--n", "1000"]);
    positive(&json, &["n", "floor_per_s", "floor_commit_ms"]);
    null(&json, &["throughput_per_s", "p50_ms", "commits"]);
}

#[test]
fn lifecycle_measures_both_sides_and_checks_itself() {
    let json = measure(&["lifecycle", "--n", "1000", "--workers", "4", "--payload", "200"]);
    let measured = ["throughput_per_s", "submit_per_s", "drain_per_s", "floor_per_s", "floor_commit_ms"];
    positive(&json, &measured);
    positive(&json, &["ratio_to_floor", "commits", "batch_mean", "store_calls", "store_bytes_written"]);
    assert_eq!((&json["n"], &json["workers"]), (&1000.into(), &4.into()));
    assert_eq!(json["conflicts"], 0);
    null(&json, &["p50_ms"]);
}

#[test]
fn latency_compares_one_execution_with_one_commit() {
    let json = measure(&["latency", "--n", "20"]);
    positive(&json, &["p50_ms", "p95_ms", "p99_ms", "floor_commit_ms", "ratio_to_floor"]);
}

#[test]
fn backlog_compares_a_large_queue_with_a_small_one() {
    let json = measure(&["backlog", "--n", "20000"]);
    positive(&json, &["small_per_s", "large_per_s", "ratio", "rss_mb"]);
}

#[test]
fn idle_counts_what_doing_nothing_costs() {
    let json = measure(&["idle", "--seconds", "1"]);
    positive(&json, &["seconds"]);
    assert!(json["store_calls_per_s"].is_number() && json["cpu_percent"].is_number(), "{json}");
}

#[test]
fn people_get_a_table_and_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report");
    let table = stdout(&weft(&["bench", "floor", "--n", "500", "--report", report.to_str().unwrap()]));
    assert!(table.contains("floor_per_s") && !table.contains("p50_ms") && !table.contains('\x1b'), "{table}");
    let page = std::fs::read_to_string(report.join("index.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("floor commit"));
    let raw = std::fs::read_to_string(report.join("floor.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&raw).unwrap()["checks"], "ok");
}

#[test]
fn a_file_that_exists_is_never_touched() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.db");
    std::fs::write(&file, "precious").unwrap();
    let url = format!("sqlite://{}", file.display());
    let output = weft(&["bench", "floor", "--n", "10", "--store", &url]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("takes only fresh files"), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn a_chosen_place_is_left_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", dir.path().join("fresh.db").display());
    stdout(&weft(&["bench", "floor", "--n", "200", "--store", &url]));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn another_kind_of_store_is_refused_by_name() {
    let output = weft(&["bench", "floor", "--store", "postgres://localhost/x"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("sqlite://PATH"), "{}", text(&output.stderr));
}
