//! The attempts of an execution, in order.

use super::execution::failure_text;
use super::time::{ago, span};
use super::{NONE, plain};
use crate::terminal::{Paint, Table};
use weft_api::execution::Attempt;

pub fn table(attempts: &[Attempt], now: u64, paint: Paint) -> String {
    let mut table = Table::left(&["ATT", "WHY", "STATE", "WORKER", "STARTED", "RAN", "LEASES", "NOTE"]);
    for attempt in attempts {
        let last = attempt.leases.last();
        let note = match (&attempt.failure, last.and_then(|lease| lease.cause.as_deref())) {
            (Some(failure), _) => failure_text(failure),
            (None, Some(cause)) => plain(cause),
            (None, None) => String::new(),
        };
        let painted = match attempt.state.as_str() {
            "succeeded" | "completed" => paint.green(&attempt.state),
            "failed" => paint.red(&attempt.state),
            other => other.to_owned(),
        };
        table.row(vec![
            attempt.index.to_string(),
            plain(&attempt.kind),
            painted,
            last.map_or(NONE.to_owned(), |lease| plain(&lease.instance)),
            ago(attempt.started_at, now),
            span(attempt.active_ms),
            (attempt.leases.len() as u32 + attempt.leases_dropped).to_string(),
            note,
        ]);
    }
    table.render(paint)
}
