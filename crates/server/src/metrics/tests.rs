use super::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use weft_core::Time;
use weft_engine::telemetry::Kind as FamilyKind;
use weft_engine::{Claim, Completion, Config, Submission};
use weft_store::MemoryStore;

/// The text after one of everything has happened.
async fn text() -> String {
    let store = MemoryStore::new(1, Arc::new(|| Time::from_ms(1_700_000_000_000)));
    let engine = Engine::open(store, Config::default()).await.expect("the memory store opens");
    let client = engine.client("shop").expect("a good name");
    client.submit(Submission::new("send").lane("mail-1")).await.expect("a good submission");
    let work = client.claim(Claim::new("mailer", "mailer-1").lane("mail-1")).await.expect("a good claim");
    client.complete(Completion::of(&work.executions[0])).await.expect("it is held");
    let metrics = Metrics::new(&engine);
    metrics.request("GET", "/v1/executions/{id}", 200, Duration::from_micros(700));
    metrics.request("BREW", "/v1/executions", 405, Duration::from_secs(100));
    metrics.refused("auth");
    let _open = (metrics.enter(), metrics.stream("notices"));
    let text = metrics.text(&engine);
    engine.shutdown().await;
    text
}

/// Name, labels, value.
type Parsed<'a> = (&'a str, Vec<(&'a str, &'a str)>, f64);

/// One line of samples.
fn parse(line: &str) -> Option<Parsed<'_>> {
    let (left, value) = line.rsplit_once(' ')?;
    let (name, labels) = match left.split_once('{') {
        Some((name, rest)) => (name, rest.strip_suffix('}')?),
        None => (left, ""),
    };
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_') {
        return None;
    }
    let labels: Option<Vec<(&str, &str)>> = labels
        .split_terminator(',')
        .map(|pair| {
            let (key, value) = pair.split_once('=')?;
            Some((key, value.strip_prefix('"')?.strip_suffix('"')?))
        })
        .collect();
    Some((name, labels?, if value == "+Inf" { f64::INFINITY } else { value.parse().ok()? }))
}

/// The family that a sample belongs to.
fn family_of(name: &str) -> &'static weft_engine::telemetry::Family {
    let suffixes = ["_bucket", "_sum", "_count"];
    let family = FAMILIES.iter().find(|family| {
        let rest = name.strip_prefix(family.name);
        match family.kind {
            FamilyKind::Histogram => rest.is_some_and(|rest| suffixes.contains(&rest)),
            _ => rest == Some(""),
        }
    });
    family.unwrap_or_else(|| panic!("`{name}` is not in the table"))
}

#[tokio::test]
async fn ops_10_the_exposition_is_the_table_and_every_line_parses() {
    let text = text().await;
    assert!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
    let mut told = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, labels, _) = parse(line).unwrap_or_else(|| panic!("cannot be read: {line}"));
        let family = family_of(name);
        told.insert(family.name);
        let expected: BTreeSet<&str> =
            family.labels.iter().copied().chain(name.ends_with("_bucket").then_some("le")).collect();
        let keys: BTreeSet<&str> = labels.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, expected, "{line}");
    }
    let endless = |name: &str| text.contains(&format!("{name}_bucket{{le=\"+Inf\""));
    for family in FAMILIES.iter().filter(|family| family.kind == FamilyKind::Histogram && told.contains(family.name)) {
        assert!(endless(family.name), "`{}` has no bucket without a bound", family.name);
    }
    let types: BTreeSet<String> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).map(|line| line.to_string()).collect();
    let expected: BTreeSet<String> =
        FAMILIES.iter().map(|family| format!("{} {}", table::stem(family), family.kind.name())).collect();
    assert_eq!(types, expected);
    for stem in expected.iter().filter_map(|line| line.split(' ').next()) {
        assert!(text.contains(&format!("# HELP {stem} ")), "`{stem}` has no help");
    }
    // Without samples are only those that need something out of the ordinary, a walk over the store that is under way, or
    // another store than this one in memory.
    let silent: Vec<&str> = FAMILIES.iter().map(|family| family.name).filter(|name| !told.contains(name)).collect();
    let expected = [
        "weft_leases_lost_total",
        "weft_executions",
        "weft_queue_oldest_seconds",
        "weft_groups_decided_total",
        "weft_sibling_cancels_total",
        "weft_claim_refusals_total",
        "weft_capability_sets",
        "weft_workers",
        "weft_store_connections",
        "weft_store_wal_bytes",
        "weft_scanner_parked",
        "weft_scanner_backlog",
    ];
    assert_eq!(silent, expected);
}

#[tokio::test]
async fn ops_10_buckets_add_up() {
    let text = text().await;
    let value = |start: &str| {
        let line = text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no `{start}`"));
        parse(line).expect("a good line").2
    };
    assert_eq!(value("weft_http_request_seconds_bucket{le=\"0.0005\",route=\"/v1/executions/{id}\"}"), 0.0);
    assert_eq!(value("weft_http_request_seconds_bucket{le=\"0.001\",route=\"/v1/executions/{id}\"}"), 1.0);
    assert_eq!(value("weft_run_seconds_bucket{le=\"+Inf\",lane=\"mail-1\"}"), 1.0);
    assert_eq!(value("weft_run_seconds_count{lane=\"mail-1\"}"), 1.0);
    assert_eq!(value("weft_http_requests_total{method=\"other\",route=\"/v1/executions\",status=\"405\"}"), 1.0);
    assert_eq!(value("weft_sse_open{kind=\"notices\"}"), 1.0);
    assert!(value("process_resident_memory_bytes") > 1e6);
    assert!(value("process_start_time_seconds") > 1.6e9);
}

/// `WEFT_BLESS=1` rewrites the file.
#[test]
fn ops_10_the_page_is_written_from_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = page();
    if std::env::var_os("WEFT_BLESS").is_some() {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let reviewed = std::fs::read_to_string(&path).expect("docs/metrics.md is there");
    assert!(page == reviewed, "docs/metrics.md differs from the table: WEFT_BLESS=1 rewrites it");
}

/// The metrics that a text names, with the labels that are used beside them.
fn named(text: &str) -> BTreeSet<String> {
    let word = |byte: char| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == '_';
    let words = text.split(|letter| !word(letter));
    words.filter(|word| word.starts_with("weft_") || word.starts_with("process_")).map(str::to_string).collect()
}

/// Labels that Prometheus adds to everything it gathers.
const ADDED: [&str; 2] = ["instance", "job"];

/// The labels that stand between these, as far as they are names.
fn between<'a>(text: &'a str, open: &str, close: char) -> Vec<&'a str> {
    let inside = text.split(open).skip(1).filter_map(|rest| rest.split(close).next());
    inside.flat_map(|list| list.split(',')).map(str::trim).filter(|name| !name.is_empty()).collect()
}

/// Every label that a query or the text beside it names is one that its metrics have.
fn check_labels(query: &str, beside: &str) {
    let names = named(query);
    for name in &names {
        let has = family_of(name).labels;
        for condition in between(query, &format!("{name}{{"), '}') {
            let label = condition.split(['=', '!']).next().unwrap_or_default();
            assert!(has.contains(&label) || ADDED.contains(&label), "`{name}` has no label `{label}`: {query}");
        }
    }
    let has: BTreeSet<&str> =
        names.iter().flat_map(|name| family_of(name).labels).copied().chain(ADDED).chain(["le"]).collect();
    let grouped = ["by (", "on (", "without ("].into_iter().flat_map(|word| between(query, word, ')'));
    let shown = between(beside, "{{", '}').into_iter().map(|label| label.trim_start_matches("$labels."));
    for label in grouped.chain(shown.filter(|label| *label != "$value")) {
        assert!(has.contains(label), "no metric has the label `{label}`: {query}");
    }
}

#[test]
fn ops_14_the_dashboard_and_the_alerts_name_labels_that_their_metrics_have() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana");
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).expect("the file is there");
    let dashboard: serde_json::Value = serde_json::from_str(&read("dashboard.json")).expect("a dashboard is JSON");
    let panels = dashboard["panels"].as_array().expect("a dashboard has panels");
    let targets: Vec<_> = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten().collect();
    for target in &targets {
        let text = |name: &str| target[name].as_str().unwrap_or_default().to_string();
        check_labels(&text("expr"), &text("legendFormat"));
    }
    let alerts = read("alerts.yaml");
    let alerts: Vec<&str> = alerts.split("- alert:").skip(1).collect();
    for alert in &alerts {
        let (_, query) = alert.split_once("expr:").expect("an alert has a query");
        let (query, beside) = query.split_once("labels:").expect("an alert has labels of its own");
        check_labels(query.split("\n        for:").next().unwrap_or_default(), beside);
    }
    assert!(targets.len() >= 20 && alerts.len() >= 8, "{} queries and {} alerts", targets.len(), alerts.len());
}

#[test]
fn ops_14_the_dashboard_and_the_alerts_name_metrics_that_exist() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana");
    for (file, panels_min) in [("dashboard.json", 20), ("alerts.yaml", 8)] {
        let text = std::fs::read_to_string(folder.join(file)).expect("the file is there");
        let names = named(&text);
        assert!(names.len() >= panels_min, "{file} names {} metrics", names.len());
        for name in names {
            family_of(&name);
        }
    }
    let dashboard = std::fs::read_to_string(folder.join("dashboard.json")).expect("the file is there");
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).expect("a dashboard is JSON");
    assert!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() >= 15));
}
