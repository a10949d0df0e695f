//! What is measured, as OpenMetrics text: the server's own families, the engine's, those of the process. Labels are sets
//! that code bounds: methods, routes of the table, states.

mod engine;
mod process;
mod table;
#[cfg(test)]
mod tests;

pub use table::{FAMILIES, page};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::time::Duration;
use weft_engine::Engine;

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

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

pub struct Metrics {
    registry: Registry,
    process: Registry,
    requests: Family<Request, Counter>,
    seconds: Family<Route, Histogram, fn() -> Histogram>,
    refused: Family<Why, Counter>,
    streams: Family<Kind, Gauge>,
    in_flight: Gauge,
}

/// Half a millisecond to a minute.
fn latency() -> Histogram {
    Histogram::new(exponential_buckets(0.000_5, 2.0, 18))
}

impl Metrics {
    pub fn new(engine: &Engine) -> Self {
        let mut registry = Registry::default();
        let requests = Family::<Request, Counter>::default();
        let seconds = Family::<Route, Histogram, fn() -> Histogram>::new_with_constructor(latency);
        let refused = Family::<Why, Counter>::default();
        let streams = Family::<Kind, Gauge>::default();
        let in_flight = Gauge::default();
        table::register(&mut registry, &table::HTTP_REQUESTS, requests.clone());
        table::register(&mut registry, &table::HTTP_SECONDS, seconds.clone());
        table::register(&mut registry, &table::HTTP_IN_FLIGHT, in_flight.clone());
        table::register(&mut registry, &table::HTTP_REFUSED, refused.clone());
        table::register(&mut registry, &table::SSE_OPEN, streams.clone());
        registry.register_collector(Box::new(engine::Readings(engine.clone())));
        let build =
            vec![("version", env!("CARGO_PKG_VERSION").to_string()), ("store", engine.describe().name.to_string())];
        table::register(&mut registry, &table::BUILD, Info::new(build));
        let started_at = Gauge::<f64, std::sync::atomic::AtomicU64>::default();
        started_at.set(engine.started_at().ms() as f64 / 1e3);
        table::register(&mut registry, &table::START_TIME, started_at);
        let mut process = Registry::default();
        process.register_collector(Box::new(process::Process));
        Self { registry, process, requests, seconds, refused, streams, in_flight }
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
        Entered::new(self.in_flight.clone())
    }

    /// Counts a stream of events of this kind until it ends.
    pub fn stream(&self, kind: &'static str) -> Entered {
        Entered::new(self.streams.get_or_create_owned(&Kind { kind }))
    }

    /// Everything as it stands. `engine` is the one that these metrics were made for.
    pub fn text(&self, _engine: &Engine) -> String {
        let mut text = String::new();
        for registry in [&self.registry, &self.process] {
            encode_registry(&mut text, registry).expect("metrics: text takes what is written to it");
        }
        encode_eof(&mut text).expect("metrics: text takes what is written to it");
        text
    }
}

/// Anybody can send any word as a method; only those that mean something become a label.
fn known_method(method: &str) -> &str {
    match method {
        "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS" => method,
        _ => "other",
    }
}

/// Something that is under way.
pub struct Entered(Gauge);

impl Entered {
    fn new(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.dec();
    }
}
