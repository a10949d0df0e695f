//! Many executions: what `weft list` shows.

use super::execution::{failure_text, hold, progress};
use super::id::short_all;
use super::time::{age, ahead};
use super::{NONE, plain, state};
use crate::terminal::{Paint, Table};
use weft_api::execution::{Counts, Execution, PublicState};

/// A note shorter than this is not worth its column.
pub const NOTE_MIN: usize = 20;

/// Executions as a table. On a terminal of `width` columns notes are cut so that a row takes one line.
pub fn table(executions: &[Execution], now: u64, width: Option<usize>, paint: Paint) -> String {
    let mut table = Table::left(&["ID", "KIND", "LANE", "STATE", "ATT", "AGE", "WORKER", "NOTE"]);
    table.right(4);
    let ids = short_all(executions.iter().map(|execution| execution.id.as_str()));
    for (execution, id) in executions.iter().zip(ids) {
        table.row(vec![
            id,
            plain(&execution.kind),
            plain(&execution.lane),
            state(execution.public_state, paint),
            execution.attempts.to_string(),
            age(now.saturating_sub(execution.created_at)),
            execution.lease.as_ref().map_or(NONE.to_owned(), |lease| plain(&lease.instance)),
            note(execution, now),
        ]);
    }
    if let Some(width) = width {
        table.cut_last(width, NOTE_MIN);
    }
    table.render(paint)
}

/// The one thing worth knowing beside the state.
pub fn note(execution: &Execution, now: u64) -> String {
    let failure = || execution.failure.as_ref().map(failure_text).unwrap_or_default();
    match execution.public_state {
        PublicState::Active => match &execution.cancel {
            Some(cancel) => format!("cancel asked for: {}", plain(&cancel.reason)).trim_end_matches(": ").to_owned(),
            None => progress(execution).unwrap_or_default(),
        },
        PublicState::Delayed => {
            let when = execution.not_before.map_or_else(String::new, |at| ahead(at, now));
            let what = if execution.retries_used > 0 { "retry" } else { "starts" };
            match failure() {
                failure if failure.is_empty() => format!("{what} {when}"),
                failure => format!("{what} {when}: {failure}"),
            }
        }
        PublicState::Held | PublicState::WaitingChildren => {
            execution.holds.iter().map(hold).collect::<Vec<_>>().join(", ")
        }
        PublicState::Failed if execution.failure.is_some() => failure(),
        PublicState::Failed | PublicState::Cancelled | PublicState::Expired | PublicState::Skipped => {
            execution.ended.as_ref().map(|ended| plain(&ended.reason)).unwrap_or_default()
        }
        _ => String::new(),
    }
}

/// Numbers by group, the total last; lower bounds are marked with `≥`.
pub fn counts(counts: &Counts, by: &[String], paint: Paint) -> String {
    let number = |count: u64| if counts.at_least { format!("≥{count}") } else { count.to_string() };
    if by.is_empty() {
        return number(counts.total);
    }
    let titles: Vec<String> = by.iter().map(|name| name.to_uppercase()).chain(["COUNT".to_owned()]).collect();
    let mut table = Table::left(&titles.iter().map(String::as_str).collect::<Vec<_>>());
    table.right(by.len());
    for group in &counts.groups {
        let cell = |name: &String| match name.as_str() {
            "lane" => group.lane.clone(),
            "kind" => group.kind.clone(),
            "namespace" => group.namespace.clone(),
            _ => group.state.map(|group| state(group, paint)),
        };
        let cells = by.iter().map(|name| cell(name).unwrap_or_else(|| NONE.to_owned()));
        table.row(cells.chain([number(group.count)]).collect());
    }
    let blank = std::iter::repeat_n(String::new(), by.len() - 1);
    table.row(["total".to_owned()].into_iter().chain(blank).chain([number(counts.total)]).collect());
    table.render(paint)
}

#[cfg(test)]
mod tests {
    use super::super::execution::tests::{PLAIN, execution};
    use super::*;
    use serde_json::json;

    #[test]
    fn a_list_has_one_row_each_with_what_is_worth_knowing() {
        let rows = [
            execution(json!({
                "lease": {"id": "l", "worker": "mailer", "instance": "mailer-3", "epoch": 1, "acquired_at": 1, "expires_at": 2},
                "progress": {"percent": 40, "message": "rendering", "at": 110_000},
            })),
            execution(json!({
                "id": "x_7_0192f3c1-6b1e-7c55-9a40-5d2f6d10fe9c", "public_state": "delayed", "attempts": 2,
                "retries_used": 1, "not_before": 453_000, "failure": {"category": "smtp", "message": "421"},
            })),
        ];
        assert_eq!(
            table(&rows, 412_000, None, PLAIN),
            "ID       KIND          LANE  STATE    ATT  AGE  WORKER    NOTE\n\
             …3c9e01  invoice.send  mail  active     1  5m   mailer-3  40 % rendering\n\
             …10fe9c  invoice.send  mail  delayed    2  5m   –         retry in 41s: smtp \"421\""
        );
        let narrow = table(&rows, 412_000, Some(76), PLAIN);
        assert!(narrow.lines().all(|line| line.chars().count() <= 78), "{narrow}");
        assert!(narrow.contains("retry in 41s: smtp…"), "{narrow}");
    }

    #[test]
    fn counts_come_with_their_total() {
        let groups = json!({"total": 12, "groups": [{"lane": "mail", "state": "waiting", "count": 10}, {"lane": "web", "state": "active", "count": 2}]});
        let shown = counts(&serde_json::from_value(groups).unwrap(), &["lane".into(), "state".into()], PLAIN);
        assert_eq!(shown, "LANE   STATE    COUNT\nmail   waiting     10\nweb    active       2\ntotal              12");
    }

    #[test]
    fn a_count_that_was_ended_early_shows_lower_bounds() {
        let groups = json!({"total": 12, "groups": [{"lane": "mail", "count": 12}], "at_least": true});
        let found: Counts = serde_json::from_value(groups).unwrap();
        assert_eq!(counts(&found, &["lane".into()], PLAIN), "LANE   COUNT\nmail     ≥12\ntotal    ≥12");
        assert_eq!(counts(&found, &[], PLAIN), "≥12");
    }
}
