//! The end of a demo: everything read back from the engine, checked, and shown as a table.

use super::plan::{Kind, Plan};
use crate::terminal::Table;
use anyhow::{Context, Result, ensure};
use std::time::Duration;
use weft_core::ExecutionId;
use weft_core::record::execution::PublicState;
use weft_engine::Client;

/// What became of the executions of one kind.
#[derive(Default)]
struct Row {
    submitted: usize,
    ends: [usize; 4],
    attempts: u32,
    retries: u32,
    reclaims: u32,
    times_ms: Vec<u64>,
}

const HEADING: [&str; 11] = [
    "kind",
    "submitted",
    "completed",
    "failed",
    "cancelled",
    "expired",
    "attempts",
    "retries",
    "reclaims",
    "p50",
    "p95",
];

const ENDS: [PublicState; 4] =
    [PublicState::Completed, PublicState::Failed, PublicState::Cancelled, PublicState::Expired];

/// Reads every execution back; fails if one of them did not end as its kind must.
pub async fn read(client: &Client, plan: &Plan, executions: &[(Kind, ExecutionId)]) -> Result<Table> {
    let mut table = Table::new(&HEADING);
    for kind in Kind::ALL {
        let mut row = Row::default();
        for (_, id) in executions.iter().filter(|(other, _)| *other == kind) {
            row.read(client, kind, *id).await?;
        }
        let expected = plan.count(kind);
        ensure!(row.submitted == expected, "{} of {expected} `{}` are there", row.submitted, kind.name());
        if row.submitted > 0 {
            table.row(row.cells(kind));
        }
    }
    Ok(table)
}

impl Row {
    async fn read(&mut self, client: &Client, kind: Kind, id: ExecutionId) -> Result<()> {
        let view = client.get(id).await.with_context(|| format!("`{id}` could not be read"))?;
        let (state, wanted) = (view.public_state, kind.end());
        ensure!(state == wanted, "`{id}` ({}) is {}, not {}", kind.name(), state.name(), wanted.name());
        self.submitted += 1;
        if let Some(at) = ENDS.iter().position(|end| *end == state) {
            self.ends[at] += 1;
        }
        let hot = &view.execution.hot;
        self.attempts += hot.attempts;
        self.retries += hot.retries_used;
        self.reclaims += hot.reclaims;
        self.times_ms.push(hot.changed_at.since(hot.created_at));
        Ok(())
    }

    fn cells(mut self, kind: Kind) -> Vec<String> {
        self.times_ms.sort_unstable();
        let number = |number: usize| if number == 0 { "–".to_owned() } else { number.to_string() };
        let time = |q: usize| {
            let at = (self.times_ms.len().saturating_sub(1) * q).div_ceil(100);
            let ms = self.times_ms.get(at).copied().unwrap_or_default();
            crate::terminal::readable_time(Duration::from_millis(ms))
        };
        let mut cells = vec![kind.name().to_owned(), self.submitted.to_string()];
        cells.extend(self.ends.iter().map(|count| number(*count)));
        cells.extend([self.attempts, self.retries, self.reclaims].map(|count| number(count as usize)));
        cells.extend([time(50), time(95)]);
        cells
    }
}
