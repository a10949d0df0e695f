//! Findings from the metrics of a node: parked items, repairs, invariants that were about to be broken, lost writes.

use super::super::{PARKED_ADVICE, REPAIRED_ADVICE, VIOLATED_ADVICE};
use crate::render::count;
use std::time::Duration;
use weft_sdk::Client;
use weft_store::Finding;

const PARKED: &str = "weft_scanner_parked";
const VIOLATIONS: &str = "weft_invariant_violations_total";
const DATA_LOST: &str = "weft_store_data_lost_total";
/// Counters of repairs, with what was wrong and the noun of its owner.
const REPAIRS: [(&str, &str, &str); 2] = [
    ("weft_flow_summary_repairs_total", "totals", "flow"),
    ("weft_dependency_repairs_total", "pending edges", "ended member"),
];

/// Time that a node is given to count what is parked. A reading begins the count that the next one tells.
const COUNTS: Duration = Duration::from_millis(300);
const READINGS_MAX: usize = 10;

/// Nothing if the key does not reach so far.
pub async fn look(client: &Client) -> Vec<Finding> {
    let mut text = String::new();
    for reading in 0..READINGS_MAX {
        text = match client.page("/metrics").await {
            Ok(Some((200, text))) => text,
            Ok(_) => return Vec::new(),
            Err(error) => return vec![Finding::problem("metrics", error.to_string(), "look at the log of the server")],
        };
        if reading > 0 && !samples(&text, PARKED).is_empty() {
            break;
        }
        tokio::time::sleep(COUNTS).await;
    }
    vec![parked(&text), repairs(&text), violations(&text), lost(&text)]
}

/// The samples of a metric: their labels as they stand, and their values.
fn samples<'a>(text: &'a str, metric: &str) -> Vec<(&'a str, f64)> {
    let found = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(metric)?;
        let (labels, value) = rest.rsplit_once(' ')?;
        let labels = match labels {
            "" => "",
            _ => labels.strip_prefix('{')?.strip_suffix('}')?,
        };
        Some((labels, value.parse().ok()?))
    });
    found.collect()
}

fn parked(text: &str) -> Finding {
    let all = samples(text, PARKED);
    if all.is_empty() {
        let advice = "ask again in a moment; `weft doctor --store URL` counts them in the store";
        return Finding::warning("parked items", "the node has not counted them yet", advice);
    }
    let some = all.iter().filter(|(_, count)| *count > 0.0);
    let named: Vec<String> = some.map(|(labels, count)| format!("{count} of {}", value_of(labels))).collect();
    match named.is_empty() {
        true => Finding::fine("parked items", "none"),
        false => Finding::warning("parked items", format!("scanners have parked {}", named.join(", ")), PARKED_ADVICE),
    }
}

/// `lease_expiry` of `scanner="lease_expiry"`.
fn value_of(labels: &str) -> &str {
    labels.split('"').nth(1).unwrap_or(labels)
}

fn repairs(text: &str) -> Finding {
    let named = REPAIRS.into_iter().filter_map(|(metric, what, owner)| match total(text, metric) as u64 {
        0 => None,
        times => Some(format!("{what} of {}", count(times, owner))),
    });
    let named: Vec<String> = named.collect();
    match named.is_empty() {
        true => Finding::fine("repairs", "none since the node began"),
        false => {
            let found = format!("since the node began scanners repaired {}", named.join(", "));
            Finding::warning("repairs", found, REPAIRED_ADVICE)
        }
    }
}

fn violations(text: &str) -> Finding {
    match total(text, VIOLATIONS) {
        0.0 => Finding::fine("invariants", "none was about to be broken since the node began"),
        times => {
            let times = count(times as u64, "time");
            let found = format!("{times} since the node began a command was refused that would have broken one");
            Finding::warning("invariants", found, VIOLATED_ADVICE)
        }
    }
}

fn lost(text: &str) -> Finding {
    match total(text, DATA_LOST) {
        0.0 => Finding::fine("lost writes", "none was noticed since the node began"),
        times => {
            let times = count(times as u64, "time");
            let found = format!("{times} since the node began the store lacked what it had acknowledged");
            let advice = "find out why: `the store has lost acknowledged commits` in the log of the node names the \
                          partition and the range; `docs/stores.md` tells which settings lose less";
            Finding::problem("lost writes", found, advice)
        }
    }
}

fn total(text: &str, metric: &str) -> f64 {
    samples(text, metric).iter().map(|(_, value)| value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_store::Severity;

    const BUSY: &str = "# TYPE weft_scanner_parked gauge\n\
        weft_scanner_parked{scanner=\"lease_expiry\"} 2.0\n\
        weft_scanner_parked{scanner=\"bulk\"} 0.0\n\
        weft_flow_summary_repairs_total 1\n\
        weft_dependency_repairs_total 2\n\
        weft_invariant_violations_total 3\n\
        weft_store_data_lost_total 1\n";

    #[test]
    fn ops_31_what_is_parked_violated_or_lost_is_told_with_what_to_do() {
        let told = [parked(BUSY), violations(BUSY), lost(BUSY)];
        assert_eq!(told[0].found, "scanners have parked 2 of lease_expiry");
        assert!(told[1].found.starts_with("3 times ") && told[2].found.starts_with("1 time "), "{told:?}");
        assert_eq!(told.each_ref().map(|it| it.severity), [Severity::Warning, Severity::Warning, Severity::Problem]);
        assert!(told.iter().all(|finding| !finding.advice.is_empty()), "{told:?}");
    }

    #[test]
    fn sr_71_what_scanners_repaired_is_a_warning_and_nothing_is_fine() {
        let told = repairs(BUSY);
        assert_eq!(told.severity, Severity::Warning);
        let found = "since the node began scanners repaired totals of 1 flow, pending edges of 2 ended members";
        assert_eq!(told.found, found);
        assert_eq!(repairs("weft_dependency_repairs_total 0\n").severity, Severity::Fine);
    }

    #[test]
    fn ops_31_what_was_not_counted_is_not_none() {
        assert_eq!(parked("weft_scanner_parked_more 1\n").severity, Severity::Warning);
        assert_eq!(parked("weft_scanner_parked{scanner=\"a\"} 0.0\n").severity, Severity::Fine);
    }
}
