//! Numbers of the view, in few letters.

use crate::render::{NONE, time};
use weft_api::node::{Latency, Stats};

/// A rate in at most five letters: `0`, `0.4`, `12`, `3.4k`.
pub fn rate(per_s: f64) -> String {
    match per_s {
        ..0.05 => "0".to_owned(),
        ..9.95 => format!("{per_s:.1}"),
        ..999.5 => format!("{per_s:.0}"),
        ..99_950.0 => format!("{:.1}k", per_s / 1e3),
        _ => format!("{:.0}k", per_s / 1e3),
    }
}

/// Attempts so far, this one included; the number of the first is 0.
pub fn attempts(index: u32) -> String {
    (u64::from(index) + 1).to_string()
}

/// `1.2s/9.8s`: half of them take no longer than the first, 99 of 100 no longer than the second.
pub fn latency(latency: &Latency) -> String {
    match latency.count {
        0 => NONE.to_owned(),
        _ => format!("{}/{}", ms(latency.p50_ms), ms(latency.p99_ms)),
    }
}

/// What the scanners of the node have before them: the next one, how late the latest is, and what they look after.
pub fn timers(stats: &Stats) -> String {
    let next = stats.scanners.iter().filter_map(|one| Some((one.due_at?, &one.scanner))).min();
    let next = match next {
        None => "nothing due".to_owned(),
        Some((at, scanner)) => format!("{} {scanner}", due(at, stats.at)),
    };
    let lag = stats.scanners.iter().map(|one| one.lag_ms).max().unwrap_or(0);
    format!("{next}  lag {}  partitions {} of {}", time::span(lag), stats.partitions_claimed, stats.partitions)
}

/// `in 3s`, or `now`.
pub fn due(at: u64, now: u64) -> String {
    match at.saturating_sub(now) {
        0 => "now".to_owned(),
        ahead => format!("in {}", time::span(ahead)),
    }
}

/// Milliseconds, with tenths where a tenth is something.
fn ms(ms: f64) -> String {
    match ms {
        ..10.0 => format!("{ms:.1}ms"),
        _ => time::span(ms.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_take_few_letters() {
        assert_eq!([0.0, 0.42, 9.97, 412.0, 3_410.0, 250_000.0].map(rate), ["0", "0.4", "10", "412", "3.4k", "250k"]);
        let one = Latency { count: 3, p50_ms: 1.25, p95_ms: 0.0, p99_ms: 4_100.0 };
        assert_eq!((latency(&one), latency(&Latency::default())), ("1.2ms/4.1s".into(), "–".into()));
    }
}
