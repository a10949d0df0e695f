use crate::places;
use crate::process::{self, Running, stdout, text, weft};
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
fn flows_are_measured_and_checked() {
    let json = measure(&["flow-chain", "--n", "5"]);
    positive(&json, &["throughput_per_s", "p50_ms", "floor_commit_ms", "flows_per_s", "ratio_to_lifecycle"]);
    let json = measure(&["fan-out", "--n", "40"]);
    positive(&json, &["throughput_per_s", "total_ms", "created_ms", "join_ms"]);
    let json = measure(&["quorum-cancel", "--n", "1"]);
    positive(&json, &["p50_ms", "p99_ms", "ten_p50_ms", "thousand_p50_ms", "written_p99_ms"]);
    let json = measure(&["large-flow", "--n", "1500"]);
    positive(&json, &["drain_per_s", "made_ms", "cancelled_ms", "pause_max_ms", "totals_p99_ms"]);
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

/// One node that does nothing, and two nodes that do everything, on a store of a server.
fn measure_server(name: &str, url: &str) {
    let on = |args: &[&str]| measure(&[args, &["--store", url]].concat());
    // A node says every three seconds that it lives.
    let idle = on(&["idle", "--seconds", "4"]);
    positive(&idle, &["store_calls_per_s", "commits"]);
    assert_eq!((&idle["store"], &idle["nodes"]), (&name.into(), &1.into()));
    assert!(idle["durability"].as_str().unwrap().starts_with("local: "), "{idle}");
    let two = on(&["lifecycle", "--n", "400", "--workers", "4", "--nodes", "2"]);
    let measured = ["throughput_per_s", "submit_per_s", "drain_per_s", "floor_per_s", "floor_commit_ms"];
    positive(&two, &measured);
    positive(&two, &["ratio_to_floor", "commits", "batch_mean", "store_calls", "store_bytes_written"]);
    positive(&two, &["one_node_per_s", "ratio_to_one_node"]);
    assert!(two["conflicts"].is_number() && two["nodes"] == 2, "{two}");
}

#[test]
fn p_14_postgresql_is_measured_and_nothing_is_left_there() {
    measure_server("postgres", &places::postgres(""));
    assert_eq!(places::schemas("weft_bench_"), Vec::<String>::new());
}

#[test]
fn p_14_valkey_is_measured_and_nothing_is_left_there() {
    measure_server("valkey", &places::valkey(""));
    assert_eq!(places::keys("weft_bench_"), 0);
}

#[test]
fn an_interrupted_measurement_leaves_nothing_behind() {
    // A server of its own: other measurements would be in the way of looking for what is left.
    let server = weft_servers::Valkey::start(&[]).unwrap();
    let mut bench = Running::err(&["bench", "idle", "--seconds", "60", "--store", &server.url()]);
    let deadline = std::time::Instant::now() + process::PATIENCE;
    let keys = || match server.command(&["KEYS", "weft_bench_*"]).unwrap() {
        weft_servers::Reply::Array(keys) => keys.len(),
        other => panic!("{other:?}"),
    };
    while keys() < 100 {
        assert!(std::time::Instant::now() < deadline, "the measurement has begun");
        std::thread::yield_now();
    }
    let killed = std::process::Command::new("kill").args(["-INT", &bench.child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    bench.wait_for("the farewell", |line| line.contains("interrupted; what this run had made is removed"));
    assert_eq!(bench.child.wait().unwrap().code(), Some(130));
    assert_eq!(keys(), 0);
}
