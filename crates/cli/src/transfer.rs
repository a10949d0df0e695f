//! What `weft export` and `weft import` share: the progress of a move, and the table at its end.

use crate::store::Address;
use crate::terminal::{self, BAR_AFTER, Paint, Table, draws_progress, readable_time};
use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};
use weft_bench::page::readable;
use weft_store::transfer::{Step, Summary};

/// A bar for each step of a move; drawn only where somebody watches, and not before it has taken a while.
pub struct Moving {
    bar: ProgressBar,
    begun: Instant,
    step: Option<Step>,
}

impl Moving {
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Self { bar, begun: Instant::now(), step: None }
    }

    pub fn tell(&mut self, step: Step, done: u64, total: Option<u64>) {
        if self.step != Some(step) {
            self.step = Some(step);
            let template = match total {
                Some(_) => "{msg:10} {bar:32} {percent:>3} %  {human_pos} records  {elapsed}",
                None => "{msg:10} {human_pos} records  {elapsed}",
            };
            let style = ProgressStyle::with_template(template).expect("transfer: the template is well formed");
            self.bar.set_style(style.progress_chars("█▓░"));
            self.bar.set_message(name(step));
        }
        if let Some(total) = total {
            self.bar.set_length(total);
        }
        self.bar.set_position(done);
        if self.bar.is_hidden() && draws_progress() && self.begun.elapsed() >= BAR_AFTER {
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        }
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn name(step: Step) -> &'static str {
    match step {
        Step::Exporting => "exporting",
        Step::Checking => "checking",
        Step::Importing => "importing",
        Step::Verifying => "verifying",
    }
}

/// What was moved, for programs.
#[derive(Serialize)]
pub struct Moved {
    pub file: String,
    pub store: String,
    pub records: u64,
    pub bytes: u64,
    pub elapsed_ms: u64,
    pub kinds: Vec<OfKind>,
}

#[derive(Serialize)]
pub struct OfKind {
    pub kind: &'static str,
    pub records: u64,
    pub digest: String,
}

impl Moved {
    pub fn new(file: &Path, store: &Address, bytes: u64, begun: Instant, summary: &Summary) -> Self {
        Self {
            file: file.display().to_string(),
            store: store.to_string(),
            records: summary.records(),
            bytes,
            elapsed_ms: begun.elapsed().as_millis() as u64,
            kinds: of_kinds(summary),
        }
    }

    /// The table, and a sentence that `tell` makes of the time it took; or one object for programs.
    pub fn show(&self, json: bool, paint: Paint, tell: impl Fn(&Self, &str) -> String) -> Result<()> {
        if json {
            return terminal::put(&serde_json::to_string(self)?);
        }
        terminal::put(&table(&self.kinds, paint))?;
        terminal::say(&tell(self, &readable_time(Duration::from_millis(self.elapsed_ms))));
        Ok(())
    }
}

fn of_kinds(summary: &Summary) -> Vec<OfKind> {
    let kinds = summary.kinds.iter();
    kinds
        .map(|(kind, tally)| OfKind { kind: kind.table().name, records: tally.count, digest: tally.digest.to_string() })
        .collect()
}

/// For people; the digest is cut to what the eye compares.
fn table(kinds: &[OfKind], paint: Paint) -> String {
    let mut table = Table::new(&["kind", "records", "digest"]);
    for of in kinds {
        table.row(vec![of.kind.to_owned(), readable(of.records as f64), of.digest.chars().take(16).collect()]);
    }
    table.render(paint)
}
