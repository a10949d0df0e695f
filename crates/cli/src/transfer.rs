//! What `weft export` and `weft import` share: the progress of a move, and the table at its end.

use crate::serve::master::Place;
use crate::store::Address;
use crate::terminal::{self, BAR_AFTER, Paint, Table, draws_progress, readable_time};
use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};
use weft_bench::page::readable;
use weft_core::schema::Kind;
use weft_store::transfer::{Fingerprint, Step, Summary};

/// Advice to copy the master key by hand: it is a secret and not in the exported file.
pub fn leave_master(place: &Place) -> String {
    let lost = "without it no API key of the store is recognised";
    match (&place.name, &place.key) {
        (Some(name), Some(_)) => format!(
            "the master key is not in the file: copy {name} to where the new store is served, as `master_key_file` or \
             WEFT_MASTER_KEY, and keep it secret; {lost}"
        ),
        (Some(name), None) => {
            format!(
                "the master key is not in the file, and {name} is not there: find the one it was served with; {lost}"
            )
        }
        (None, _) => format!(
            "the master key is not in the file: copy what `master_key_file` or WEFT_MASTER_KEY of its nodes say to where \
             the new store is served; {lost}"
        ),
    }
}

/// Compares the master key here with that of the exported store. The error is a warning: without the right key no API key
/// of the store is recognised.
pub fn compare_master(place: &Place, exported: Option<Fingerprint>) -> Result<String, String> {
    let before = "before you start a server: without it no API key of the store is recognised";
    match (&place.name, &place.key, exported) {
        (Some(name), Some(key), Some(exported)) if key.fingerprint() == exported => {
            Ok(format!("the master key in {name} is that of the exported store"))
        }
        (Some(name), Some(_), Some(_)) => {
            Err(format!("{name} is not the master key of the exported store: put that one there {before}"))
        }
        (Some(name), Some(_), None) => Ok(format!(
            "the master key was not at hand for the export: see that {name} is the one of the exported store {before}"
        )),
        (Some(name), None, _) => {
            Err(format!("copy the master key of the exported store to {name}, with mode 600, {before}"))
        }
        (None, ..) => {
            Err(format!("give the master key of the exported store as `master_key_file` or WEFT_MASTER_KEY {before}"))
        }
    }
}

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

/// Whether the store has API keys, which need their master key.
pub fn has_keys(summary: &Summary) -> bool {
    summary.kinds.contains_key(&Kind::ApiKey)
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
