//! One snapshot as plain text, for pipes and logs.

use super::figures::{attempts, due, latency, rate};
use crate::render::id::short_all;
use crate::render::{NONE, plain, time, worker};
use crate::terminal::{Paint, Table};
use weft_api::node::Stats;
use weft_api::worker::Worker;

/// All that the live view shows, one table below the other.
pub fn snapshot(stats: &Stats, workers: &[Worker], paint: Paint) -> String {
    let head = format!(
        "{}   {}   up {}   partitions {} of {}   workers: {} active, {} draining, {} dead",
        plain(&stats.node),
        format_args!("{} UTC", time::utc(stats.at)),
        time::span(stats.uptime_ms),
        stats.partitions_claimed,
        stats.partitions,
        stats.workers.active,
        stats.workers.draining,
        stats.workers.dead,
    );
    let mut parts = vec![head, windows(stats, paint)];
    for (is_there, table) in [
        (!stats.lanes.is_empty(), lanes(stats, paint)),
        (!stats.slowest.is_empty(), slowest(stats, paint)),
        (!stats.errors.is_empty(), errors(stats, paint)),
        (!workers.is_empty(), worker::table(workers, stats.at, paint)),
        (!stats.scanners.is_empty(), scanners(stats, paint)),
    ] {
        parts.extend(is_there.then_some(table));
    }
    parts.join("\n\n")
}

fn windows(stats: &Stats, paint: Paint) -> String {
    let mut table = Table::new(&[
        "LAST",
        "SUBMITTED",
        "CLAIMED",
        "COMPLETED",
        "FAILED",
        "RETRIED",
        "WAIT P50/P99",
        "RUN P50/P99",
        "WHOLE P50/P99",
    ]);
    for window in &stats.windows {
        let rates = [
            window.submitted_per_s,
            window.claimed_per_s,
            window.completed_per_s,
            window.failed_per_s,
            window.retried_per_s,
        ];
        let mut cells = vec![format!("{}m", window.minutes)];
        cells.extend(rates.map(|per_s| format!("{}/s", rate(per_s))));
        cells.extend([&window.queue_wait, &window.run, &window.end_to_end].map(latency));
        table.row(cells);
    }
    table.render(paint)
}

fn lanes(stats: &Stats, paint: Paint) -> String {
    let mut table =
        Table::new(&["LANE", "WAITING", "ACTIVE", "DELAYED", "BLOCKED", "OLDEST", "IN", "DONE", "FAILED", "WORKERS"]);
    for lane in &stats.lanes {
        table.row(vec![
            plain(&lane.lane),
            lane.waiting.to_string(),
            lane.active.to_string(),
            lane.delayed.to_string(),
            lane.blocked.to_string(),
            lane.oldest_ms.map_or(NONE.to_owned(), time::span),
            format!("{}/s", rate(lane.submitted_per_s)),
            format!("{}/s", rate(lane.completed_per_s)),
            format!("{}/s", rate(lane.failed_per_s)),
            lane.workers.to_string(),
        ]);
    }
    table.render(paint)
}

fn scanners(stats: &Stats, paint: Paint) -> String {
    let mut table = Table::new(&["SCANNER", "DUE", "LAG", "DONE", "ERRORS"]);
    for scanner in &stats.scanners {
        table.row(vec![
            plain(&scanner.scanner),
            scanner.due_at.map_or(NONE.to_owned(), |at| due(at, stats.at)),
            time::span(scanner.lag_ms),
            scanner.processed.to_string(),
            scanner.errors.to_string(),
        ]);
    }
    table.render(paint)
}

fn slowest(stats: &Stats, paint: Paint) -> String {
    let mut table = Table::left(&["SLOWEST", "KIND", "LANE", "ATT", "FOR", "WORKER"]);
    let ids = short_all(stats.slowest.iter().map(|running| running.execution.as_str()));
    for (running, id) in stats.slowest.iter().zip(ids) {
        table.row(vec![
            id,
            plain(&running.kind),
            plain(&running.lane),
            attempts(running.attempt),
            time::span(running.running_ms),
            plain(&running.instance),
        ]);
    }
    table.render(paint)
}

fn errors(stats: &Stats, paint: Paint) -> String {
    let mut table = Table::left(&["ERRORS", "KIND", "LANE", "ATT", "AGO", "WHAT"]);
    let ids = short_all(stats.errors.iter().map(|failure| failure.execution.as_str()));
    for (failure, id) in stats.errors.iter().zip(ids) {
        table.row(vec![
            id,
            plain(&failure.kind),
            plain(&failure.lane),
            attempts(failure.attempt),
            time::age(stats.at.saturating_sub(failure.at)),
            format!("{} {}", plain(&failure.category), plain(&failure.message)),
        ]);
    }
    table.render(paint)
}
