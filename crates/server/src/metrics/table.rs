//! Every metric there is. Those of the engine come from its own table; the page of the documentation and the checks of
//! dashboards and alerts follow from this one.

use prometheus_client::registry::{Metric, Registry};
use std::fmt::Write;
use weft_engine::telemetry::{self, Family, Kind};

macro_rules! families {
    ($($area:literal: { $($id:ident $kind:ident $name:literal [$($label:literal),*] $help:literal)* })*) => {
        $($(pub static $id: Family = Family {
            area: $area,
            name: $name,
            kind: Kind::$kind,
            labels: &[$($label),*],
            help: $help,
        };)*)*

        static OWN: &[&Family] = &[$($(&$id),*),*];
    };
}

families! {
    "HTTP": {
        HTTP_REQUESTS Counter "weft_http_requests_total" ["method", "route", "status"] "Requests that were answered"
        HTTP_SECONDS Histogram "weft_http_request_seconds" ["route"] "Time from the request to its reply, waiting included"
        HTTP_IN_FLIGHT Gauge "weft_http_in_flight" [] "Requests that are being answered"
        HTTP_REFUSED Counter "weft_http_refused_total" ["why"] "Requests refused because of who asked, how often or how much"
        SSE_OPEN Gauge "weft_sse_open" ["kind"] "Streams of server-sent events that are open"
    }
    "Process": {
        BUILD Info "weft_build_info" ["version", "store"] "What runs here"
        START_TIME Gauge "weft_start_time_seconds" [] "When the node began, in seconds since 1970 on the clock of the store"
        CPU Counter "process_cpu_seconds_total" [] "Time of processors that was used, by user and system"
        RESIDENT Gauge "process_resident_memory_bytes" [] "Memory that is resident"
        VIRTUAL Gauge "process_virtual_memory_bytes" [] "Memory that is mapped"
        OPEN_FDS Gauge "process_open_fds" [] "File descriptors that are open"
        MAX_FDS Gauge "process_max_fds" [] "File descriptors that may be open"
        THREADS Gauge "process_threads" [] "Threads"
        PROCESS_START Gauge "process_start_time_seconds" [] "When the process began, in seconds since 1970"
    }
}

/// All of them, by area: HTTP, those of the engine, the process.
pub static FAMILIES: std::sync::LazyLock<Vec<&'static Family>> = std::sync::LazyLock::new(|| {
    let (http, process): (Vec<_>, Vec<_>) = OWN.iter().partition(|family| family.area == "HTTP");
    http.into_iter().chain(telemetry::FAMILIES.iter().copied()).chain(process).collect()
});

/// The name as a descriptor has it: the text format adds what the kind calls for.
pub fn stem(family: &Family) -> &'static str {
    let suffix = match family.kind {
        Kind::Counter => "_total",
        Kind::Info => "_info",
        Kind::Gauge | Kind::Histogram => "",
    };
    family.name.strip_suffix(suffix).unwrap_or(family.name)
}

pub fn register(registry: &mut Registry, family: &'static Family, metric: impl Metric) {
    registry.register(stem(family), family.help, metric);
}

/// `docs/metrics.md`.
pub fn page() -> String {
    let mut page = String::from(HEAD);
    let mut area = "";
    for family in FAMILIES.iter() {
        if family.area != area {
            area = family.area;
            let _ = write!(page, "\n## {area}\n\n| Metric | Kind | Labels | Meaning |\n|---|---|---|---|\n");
        }
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = if labels.is_empty() { "–".to_string() } else { labels.join(", ") };
        let _ = writeln!(page, "| `{}` | {} | {labels} | {} |", family.name, family.kind.name(), family.help);
    }
    page
}

const HEAD: &str = "\
# Metrics

<!-- Written by the tests of crates/server from its table of metrics: `WEFT_BLESS=1 cargo test -p weft-server`. -->

`GET /metrics` answers in OpenMetrics text, for keys with the scope `operate` or, if `metrics.listen` is set, on a listener
of its own. These are all metrics there are.

- **Labels are bounded sets.** No id, key or namespace is ever a label. `lane` is kept for the first 100 lanes that a node
  meets; the rest are `other`.
- **Histograms** of seconds have buckets that double from 0.5 ms to 65.5 s.
- **Each node tells what it did itself.** Sum counters over nodes. What is counted in the store, `weft_executions`,
  `weft_queue_oldest_seconds`, `weft_capability_sets`, `weft_workers` and `weft_scanner_parked`, is the same on every node:
  take the maximum. It is counted in the background when somebody reads the metrics, at most every 10 s, so a reading shows
  what the one before it asked for. The walk is bounded: beyond 10000 claimable executions in a lane, 2000 in another state
  or 2000 that are active, the bound is what is shown.
- **Backlogs**, `weft_sibling_cancel_backlog`, `weft_retention_backlog`, `weft_cancel_backlog` and `weft_continuations`, are the
  same on every node too. Scanners count them after a look at the due index, without a scrape. A count that not every
  partition answered changes nothing: the gauge stands.
- A dashboard for Grafana and alert rules for Prometheus are in [grafana](grafana/).
";
