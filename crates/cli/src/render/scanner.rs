//! Scanners, and what they have parked.

use super::time::{age, ahead, span};
use super::{NONE, plain};
use crate::terminal::{Paint, Table};
use weft_api::scanner::{ParkedItem, ParkedWhy, Scanner, ScannerState, Scanners};

pub fn table(told: &Scanners, paint: Paint) -> String {
    let mut table =
        Table::left(&["SCANNER", "STATE", "EVERY", "LAST", "DONE", "ERR", "LAG", "BACKLOG", "PARKED", "NOTE"]);
    for scanner in &told.items {
        let last = scanner.last_cycle.as_ref();
        table.row(vec![
            plain(&scanner.name),
            state(scanner.state, paint),
            span(scanner.interval_ms),
            last.map_or(NONE.to_owned(), |cycle| format!("{} ago", span(told.at.saturating_sub(cycle.ended_at)))),
            last.map_or(NONE.to_owned(), |cycle| cycle.processed.to_string()),
            last.map_or(NONE.to_owned(), |cycle| cycle.errors.to_string()),
            span(scanner.lag_ms),
            scanner.backlog.map_or(NONE.to_owned(), |backlog| backlog.to_string()),
            match scanner.parked {
                None => NONE.to_owned(),
                Some(0) => "0".to_owned(),
                Some(parked) => paint.yellow(&parked.to_string()),
            },
            note(scanner),
        ]);
    }
    table.render(paint)
}

fn state(state: ScannerState, paint: Paint) -> String {
    match state {
        ScannerState::Ok => paint.green("ok"),
        ScannerState::Late => paint.yellow("late"),
        ScannerState::Failing => paint.red("failing"),
        ScannerState::Stuck => paint.red("stuck"),
    }
}

/// `only namespace shop, tag team=a; restarted twice`
fn note(scanner: &Scanner) -> String {
    let filter = scanner.filter.iter().flat_map(|filter| {
        let named = |what: &str, value: &Option<String>| value.as_ref().map(|value| format!("{what} {}", plain(value)));
        [named("namespace", &filter.namespace), named("tag", &filter.tag)].into_iter().flatten()
    });
    let filter: Vec<String> = filter.collect();
    let mut notes = Vec::new();
    if !filter.is_empty() {
        notes.push(format!("only {}", filter.join(", ")));
    }
    match scanner.restarts {
        0 => {}
        1 => notes.push("restarted once".to_owned()),
        times => notes.push(format!("restarted {times} times")),
    }
    notes.join("; ")
}

pub fn parked(items: &[ParkedItem], now: u64, paint: Paint) -> String {
    let mut table = Table::left(&["ID", "SCANNER", "WHY", "ITEM", "TIMER", "SINCE", "TRIES", "NEXT TRY", "LAST ERROR"]);
    for item in items {
        table.row(vec![
            item.id.clone(),
            plain(&item.scanner),
            match item.why {
                ParkedWhy::Failing => paint.yellow("failing"),
                ParkedWhy::Damaged => paint.red("damaged"),
                ParkedWhy::Poison => paint.red("poison"),
            },
            named(item),
            plain(&item.timer),
            age(now.saturating_sub(item.since)),
            item.tries.to_string(),
            item.next_try_at.map_or(NONE.to_owned(), |at| ahead(at, now)),
            plain(&item.last_error),
        ]);
    }
    table.render(paint)
}

/// The id of an item, after what it is where the id does not say that.
fn named(item: &ParkedItem) -> String {
    match (item.item.as_deref(), &item.item_id, &item.entry) {
        (Some("execution" | "flow"), Some(id), _) => plain(id),
        (Some(kind), Some(id), _) => plain(&format!("{kind} {id}")),
        (_, _, Some(entry)) => format!("entry {}", plain(entry)),
        _ => NONE.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_api::scanner::{ScannerCycle, ScannerFilter};

    fn scanner() -> Scanner {
        Scanner {
            name: "lease_expiry".into(),
            state: ScannerState::Failing,
            interval_ms: 1_000,
            filter: Some(ScannerFilter { namespace: Some("shop".into()), tag: Some("team=a".into()) }),
            partitions: 4,
            last_cycle: Some(ScannerCycle { ended_at: 9_600, took_ms: 3, processed: 2, errors: 1 }),
            lag_ms: 40,
            lateness_p99_ms: Some(4),
            backlog: None,
            parked: Some(1),
            restarts: 2,
        }
    }

    #[test]
    fn sr_82_a_scanner_is_shown_in_one_line() {
        let told = Scanners { node: "n_1".into(), node_name: "web-1".into(), at: 10_000, items: vec![scanner()] };
        let shown = table(&told, Paint::PLAIN);
        let line = shown.lines().last().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        let expected = "lease_expiry failing 1.0s 400ms ago 2 1 40ms – 1 \
                        only namespace shop, tag team=a; restarted 2 times";
        assert_eq!(line, expected);
    }

    #[test]
    fn sr_83_a_parked_item_is_shown_with_its_id_and_its_error_on_one_line() {
        let item = ParkedItem {
            id: "d_0_1".into(),
            scanner: "lease_expiry".into(),
            why: ParkedWhy::Poison,
            item: None,
            item_id: None,
            entry: Some("77ff".into()),
            timer: "lease".into(),
            namespace: None,
            flow: None,
            since: 4_000,
            tries: 1,
            next_try_at: None,
            last_error: "no such\nkind".into(),
            expires_at: Some(9_000),
        };
        let shown = parked(&[item], 10_000, Paint::PLAIN);
        let line = shown.lines().last().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(line, "d_0_1 lease_expiry poison entry 77ff lease 6s 1 – no such kind");
    }
}
