//! What the server measures, as OpenMetrics text. Labels are sets that code bounds: methods, routes of the table, states.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weft_engine::{Engine, Stats};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Request {
    method: String,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Route {
    route: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Why {
    why: &'static str,
}

pub struct Metrics {
    registry: Registry,
    requests: Family<Request, Counter>,
    seconds: Family<Route, Histogram, fn() -> Histogram>,
    refused: Family<Why, Counter>,
    in_flight: Gauge,
    waiting: Arc<AtomicUsize>,
}

/// Half a millisecond to a minute.
fn latency() -> Histogram {
    Histogram::new(exponential_buckets(0.000_5, 2.0, 18))
}

impl Metrics {
    pub fn new(engine: &Engine) -> Self {
        let mut registry = Registry::with_prefix("weft");
        let requests = Family::<Request, Counter>::default();
        let seconds = Family::<Route, Histogram, fn() -> Histogram>::new_with_constructor(latency);
        let refused = Family::<Why, Counter>::default();
        let in_flight = Gauge::default();
        registry.register("http_requests", "Requests that were answered", requests.clone());
        registry.register("http_request_seconds", "Time from the request to its reply", seconds.clone());
        registry.register("http_refused", "Requests refused before they were calls", refused.clone());
        registry.register("http_in_flight", "Requests that are being answered", in_flight.clone());
        let build =
            vec![("version", env!("CARGO_PKG_VERSION").to_string()), ("store", engine.describe().name.to_string())];
        registry.register("build", "What runs here", Info::new(build));
        Self { registry, requests, seconds, refused, in_flight, waiting: Arc::default() }
    }

    pub fn request(&self, method: &str, route: &str, status: u16, took: Duration) {
        let labels = Request { method: known_method(method).to_string(), route: route.to_string(), status };
        self.requests.get_or_create(&labels).inc();
        self.seconds.get_or_create(&Route { route: route.to_string() }).observe(took.as_secs_f64());
    }

    /// A request that was refused because of who asked, how often, or how much.
    pub fn refused(&self, why: &'static str) {
        self.refused.get_or_create(&Why { why }).inc();
    }

    pub fn enter(&self) -> Entered {
        self.in_flight.inc();
        Entered(self.in_flight.clone())
    }

    /// Counts a call that waits, unless `max` do.
    pub fn wait(&self, max: usize) -> Option<Seat> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let seat = Seat(self.waiting.clone());
        (before < max).then_some(seat)
    }

    pub fn text(&self, engine: &Engine) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("metrics: text takes what is written to it");
        let end = "# EOF\n";
        text.truncate(text.len().saturating_sub(end.len()));
        push_gauge(&mut text, "weft_claims_waiting", "Calls that wait", self.waiting.load(Ordering::Relaxed) as u64);
        push_stats(&mut text, engine.stats());
        text.push_str(end);
        text
    }
}

/// What the engine counts by itself.
fn push_stats(text: &mut String, stats: Stats) {
    for (name, help, value) in [
        ("weft_commands", "Commands that went through in a commit", stats.commands),
        ("weft_records_written", "Records that commits wrote", stats.records_written),
        ("weft_store_bytes_written", "Bytes that commits wrote", stats.bytes_written),
        ("weft_loop_busy", "Calls that were told to come back", stats.busy),
        ("weft_store_data_lost", "Losses of the store that were acted on", stats.data_lost),
        ("weft_scanner_cycles", "Looks that scanners took", stats.scanner_cycles),
        ("weft_scanner_items", "Items that scanners handled", stats.scanner_processed),
        ("weft_scanner_errors", "Items that scanners failed on", stats.scanner_errors),
        ("weft_scanner_parked", "Items that scanners gave up", stats.scanner_parked),
    ] {
        text.push_str(&format!("# HELP {name} {help}.\n# TYPE {name} counter\n{name}_total {value}\n"));
    }
    let commits = [
        ("applied", stats.commits.saturating_sub(stats.conflicts + stats.not_applied + stats.unknown)),
        ("conflict", stats.conflicts),
        ("not_applied", stats.not_applied),
        ("unknown", stats.unknown),
    ];
    push_labelled(text, "weft_commits", "Commits by what became of them", "result", &commits);
    let calls = [
        ("commit", stats.commits),
        ("resolve", stats.resolves),
        ("read", stats.reads),
        ("scan", stats.scans),
        ("now", stats.clock_reads),
    ];
    push_labelled(text, "weft_store_calls", "Calls to the store", "call", &calls);
}

fn push_labelled(text: &mut String, name: &str, help: &str, label: &str, values: &[(&str, u64)]) {
    text.push_str(&format!("# HELP {name} {help}.\n# TYPE {name} counter\n"));
    for (word, value) in values {
        text.push_str(&format!("{name}_total{{{label}=\"{word}\"}} {value}\n"));
    }
}

fn push_gauge(text: &mut String, name: &str, help: &str, value: u64) {
    text.push_str(&format!("# HELP {name} {help}.\n# TYPE {name} gauge\n{name} {value}\n"));
}

/// Anybody can send any word as a method; only those that mean something become a label.
fn known_method(method: &str) -> &str {
    match method {
        "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS" => method,
        _ => "other",
    }
}

/// A request that is being answered.
pub struct Entered(Gauge);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A call that waits.
pub struct Seat(Arc<AtomicUsize>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
