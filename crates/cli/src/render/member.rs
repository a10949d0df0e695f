//! Members of a flow: what `weft flow members` shows.

use super::list::{NOTE_MIN, note};
use super::{NONE, plain, state};
use crate::terminal::{Paint, Table};
use weft_api::execution::Execution;

/// Members as a table. On a terminal of `width` columns notes are cut so that a row takes one line.
pub fn table(members: &[Execution], now: u64, width: Option<usize>, paint: Paint) -> String {
    let mut table = Table::left(&["KEY", "ID", "KIND", "LANE", "STATE", "ATT", "WORKER", "NOTE"]);
    table.right(5);
    let ids = super::id::short_all(members.iter().map(|member| member.id.as_str()));
    for (member, id) in members.iter().zip(ids) {
        table.row(vec![
            member.flow.as_ref().map_or(NONE.to_owned(), |flow| plain(&flow.key)),
            id,
            plain(&member.kind),
            plain(&member.lane),
            state(member.public_state, paint),
            member.attempts.to_string(),
            member.lease.as_ref().map_or(NONE.to_owned(), |lease| plain(&lease.instance)),
            note(member, now),
        ]);
    }
    if let Some(width) = width {
        table.cut_last(width, NOTE_MIN);
    }
    table.render(paint)
}

#[cfg(test)]
mod tests {
    use super::super::execution::tests::execution;
    use super::*;
    use serde_json::json;

    #[test]
    fn members_are_listed_by_their_keys() {
        let member = execution(json!({
            "public_state": "skipped", "attempts": 0,
            "flow": {"id": "f_7_0192f3c1-6b1e-7c55-9a40-5d2f6d3c9e02", "key": "merge", "number": 2, "critical": true},
            "ended": {"outcome": "skipped", "reason": "dependency", "by": "engine", "at": 1},
        }));
        assert_eq!(
            table(&[member], 0, None, Paint::PLAIN),
            "KEY    ID       KIND          LANE  STATE    ATT  WORKER  NOTE\n\
             merge  …3c9e01  invoice.send  mail  skipped    0  –       dependency"
        );
    }
}
