//! The timeline of an execution.

use super::time::{span, utc};
use super::{NONE, plain};
use crate::terminal::{Paint, Table};
use weft_api::execution::History;

/// Every entry with its time, and how long after the first it was.
pub fn table(history: &History, paint: Paint) -> String {
    let mut table = Table::left(&["TIME (UTC)", "AFTER", "WHAT", "ATT", "WHO", "WHY"]);
    let first = history.items.first().map_or(0, |entry| entry.at);
    for entry in &history.items {
        let who = entry.worker.as_ref().or(entry.by.as_ref());
        table.row(vec![
            format!("{}.{:03}", utc(entry.at), entry.at % 1_000),
            format!("+{}", span(entry.at.saturating_sub(first))),
            plain(&entry.what),
            entry.attempt.map_or(NONE.to_owned(), |attempt| attempt.to_string()),
            who.map_or(NONE.to_owned(), |who| plain(who)),
            entry.reason.as_deref().map(plain).unwrap_or_default(),
        ]);
    }
    table.render(paint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_timeline_counts_from_its_first_entry() {
        let history = json!({"dropped": 0, "items": [
            {"at": 1_794_860_100_250_u64, "what": "submitted", "by": "user:ann"},
            {"at": 1_794_860_102_000_u64, "what": "claimed", "attempt": 1, "worker": "mailer-3"},
        ]});
        assert_eq!(
            table(&serde_json::from_value(history).unwrap(), Paint::PLAIN),
            "TIME (UTC)               AFTER  WHAT       ATT  WHO       WHY\n\
             2026-11-16 20:15:00.250  +0ms   submitted  –    user:ann\n\
             2026-11-16 20:15:02.000  +1.7s  claimed    1    mailer-3"
        );
    }
}
