//! The report as one HTML page with plots, without scripts and without anything from elsewhere.

use crate::report::Report;
use std::fmt::Write;

/// A target of the performance page: which figure, against which bound.
struct Goal {
    name: &'static str,
    value: f64,
    bound: f64,
    /// The figure must be at least the bound; otherwise at most.
    at_least: bool,
}

impl Goal {
    fn met(&self) -> bool {
        if self.at_least { self.value >= self.bound } else { self.value <= self.bound }
    }
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222;\
background:#fff}h1,h2{font-weight:600}table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .9em .2em 0;\
text-align:left;border-bottom:1px solid #ddd}td.n{text-align:right;font-variant-numeric:tabular-nums}\
text{font:13px system-ui,sans-serif;fill:currentColor}.ok{color:#176f2c}.no{color:#b3261e}\
@media(prefers-color-scheme:dark){body{background:#16181c;color:#ddd}td,th{border-color:#444}.ok{color:#6fd08c}\
.no{color:#ff8a80}}";

/// Renders the page for these measurements.
pub fn render(reports: &[Report]) -> String {
    let mut page = String::new();
    let first = reports.first();
    let store = first.map_or("", |report| report.store.as_str());
    let durability = first.map_or("", |report| report.durability.as_str());
    let version = first.map_or("", |report| report.version);
    page.push_str("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>weft bench</title>");
    let _ = write!(page, "<style>{STYLE}</style></head><body>\n<h1>weft bench</h1>\n");
    let _ = writeln!(page, "<p>weft {version}, store {}: {}</p>", escape(store), escape(durability));
    page.push_str("<p>Rates alone prove nothing: what counts is the ratio to the floor of the same run.</p>\n");
    goals(&mut page, reports);
    for report in reports {
        section(&mut page, report);
    }
    page.push_str("</body></html>\n");
    page
}

fn goals(page: &mut String, reports: &[Report]) {
    page.push_str("<h2>Targets</h2>\n<table><tr><th>what</th><th>measured</th><th>wanted</th><th></th></tr>\n");
    for goal in reports.iter().flat_map(goals_of) {
        let sign = if goal.at_least { "≥" } else { "≤" };
        let (class, word) = if goal.met() { ("ok", "met") } else { ("no", "missed") };
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{sign} {}</td><td class=\"{class}\">{word}</td></tr>",
            goal.name, goal.value, goal.bound
        );
    }
    page.push_str("</table>\n");
}

fn goals_of(report: &Report) -> Vec<Goal> {
    let mut goals = Vec::new();
    let mut add = |name, value: Option<f64>, bound, at_least| {
        goals.extend(value.map(|value| Goal { name, value, bound, at_least }));
    };
    match report.scenario {
        "lifecycle" => {
            add("lifecycle / floor", report.ratio_to_floor, 0.6, true);
            add("several nodes / one", report.several.map(|several| several.ratio_to_one_node), 1.0, true);
        }
        "latency" => add("latency p50 / floor commit", report.ratio_to_floor, 2.5, false),
        "backlog" => {
            add("backlog, large / small", report.backlog.map(|backlog| backlog.ratio), 0.8, true);
            add("memory with the large backlog, MB", report.rss_mb, 400.0, false);
        }
        "flow-chain" => {
            add("chains / lifecycle", report.chains.map(|chains| chains.ratio_to_lifecycle), 0.5, true);
            add("step to step p50 / floor commit", report.ratio_to_floor, 1.5, false);
        }
        "quorum-cancel" => add("1,000 losers, p99 / floor commit", report.ratio_to_floor, 10.0, false),
        "large-flow" => {
            add("longest pause of other work, ms", report.large.map(|large| large.pause_max_ms), 250.0, false);
            add("totals of the flow p99, ms", report.large.map(|large| large.totals_p99_ms), 5.0, false);
        }
        "idle" => {
            add("idle store calls per second", report.idle.map(|idle| idle.store_calls_per_s), 2.0, false);
            add("idle CPU, percent", report.idle.and_then(|idle| idle.cpu_percent), 0.5, false);
        }
        _ => {}
    }
    goals
}

fn section(page: &mut String, report: &Report) {
    let _ = writeln!(page, "<h2>{}</h2>", report.scenario);
    let rates = [
        ("floor", report.floor_per_s),
        ("lifecycle", report.throughput_per_s),
        ("with one node", report.several.map(|several| several.one_node_per_s)),
        ("submit only", report.submit_per_s),
        ("drain only", report.drain_per_s.filter(|_| report.backlog.is_none())),
        ("10,000 queued", report.backlog.map(|backlog| backlog.small_per_s)),
        ("large queue", report.backlog.map(|backlog| backlog.large_per_s)),
    ];
    let times = [
        ("floor commit", report.floor_commit_ms),
        ("p50", report.p50_ms),
        ("p95", report.p95_ms),
        ("p99", report.p99_ms),
    ];
    bars(page, "executions per second", &rates);
    bars(page, "milliseconds", &times);
    facts(page, report);
}

/// Horizontal bars on one scale; nothing if no value is there.
fn bars(page: &mut String, unit: &str, values: &[(&str, Option<f64>)]) {
    let values: Vec<(&str, f64)> =
        values.iter().filter_map(|(name, value)| value.map(|value| (*name, value))).collect();
    let largest = values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    if largest <= 0.0 {
        return;
    }
    let height = 26 * values.len() + 24;
    let _ = writeln!(page, "<svg width=\"720\" height=\"{height}\" role=\"img\" aria-label=\"{unit}\">");
    let _ = writeln!(page, "<text x=\"130\" y=\"14\">{unit}</text>");
    for (at, (name, value)) in values.iter().enumerate() {
        let y = 24 + 26 * at;
        let width = (value / largest * 460.0).max(1.0);
        let colour = if name.starts_with("floor") { "#9aa0a6" } else { "#3367d6" };
        let _ = writeln!(
            page,
            "<text x=\"120\" y=\"{}\" text-anchor=\"end\">{name}</text>\
             <rect x=\"130\" y=\"{y}\" width=\"{width:.1}\" height=\"18\" rx=\"2\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{}\">{}</text>",
            y + 14,
            137.0 + width,
            y + 14,
            readable(*value)
        );
    }
    page.push_str("</svg>\n");
}

fn facts(page: &mut String, report: &Report) {
    let whole = |value: Option<u64>| value.map(|value| value as f64);
    let facts = [
        ("executions", whole(report.n)),
        ("workers", report.workers.map(|workers| workers as f64)),
        ("ratio to floor", report.ratio_to_floor),
        ("ratio to one node", report.several.map(|several| several.ratio_to_one_node)),
        ("commits", whole(report.commits)),
        ("commands per commit", report.batch_mean),
        ("conflicts", whole(report.conflicts)),
        ("store calls", whole(report.store_calls)),
        ("bytes written", whole(report.store_bytes_written)),
        ("memory, MB", report.rss_mb),
        ("CPU, s", report.cpu_s),
        ("store calls per second", report.idle.map(|idle| idle.store_calls_per_s)),
        ("CPU, percent", report.idle.and_then(|idle| idle.cpu_percent)),
    ];
    page.push_str("<table>\n");
    for (name, value) in facts {
        if let Some(value) = value {
            let _ = writeln!(page, "<tr><td>{name}</td><td class=\"n\">{}</td></tr>", readable(value));
        }
    }
    let _ = writeln!(page, "<tr><td>checks</td><td class=\"n\">{}</td></tr>\n</table>", report.checks);
}

/// A number as people read it: thousands apart, digits behind the point only where they say something.
pub fn readable(value: f64) -> String {
    if value.fract() != 0.0 && value.abs() < 100.0 {
        let text = format!("{value:.3}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let cases = [(0.0, "0"), (0.62, "0.62"), (12.345_6, "12.346"), (999.0, "999"), (1_234_567.4, "1,234,567")];
        for (value, text) in cases {
            assert_eq!(readable(value), text);
        }
    }

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escape("a<b>&c"), "a&lt;b&gt;&amp;c");
    }
}
