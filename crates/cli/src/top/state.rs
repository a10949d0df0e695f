//! What the live view knows and how keys change it. Draws nothing and calls nobody.

use crate::visible::visible;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::VecDeque;
use weft_api::node::{LaneStats, RecentFailure, Running, Stats, Window};
use weft_api::worker::Worker;

/// Samples that are kept: a minute at one per second.
pub const SAMPLES_MAX: usize = 60;

/// The rates at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    pub submitted: f64,
    pub completed: f64,
    pub failed: f64,
    pub retried: f64,
}

impl From<&Window> for Sample {
    fn from(window: &Window) -> Self {
        Self {
            submitted: window.submitted_per_s,
            completed: window.completed_per_s,
            failed: window.failed_per_s,
            retried: window.retried_per_s,
        }
    }
}

/// What the lanes are sorted by; the largest first, names in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Waiting,
    Active,
    Oldest,
    Completed,
    Failed,
    Name,
}

impl Sort {
    const ALL: [Sort; 6] = [Sort::Waiting, Sort::Active, Sort::Oldest, Sort::Completed, Sort::Failed, Sort::Name];

    pub fn name(self) -> &'static str {
        match self {
            Sort::Waiting => "waiting",
            Sort::Active => "active",
            Sort::Oldest => "oldest",
            Sort::Completed => "completed",
            Sort::Failed => "failed",
            Sort::Name => "name",
        }
    }

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }
}

/// A row that can be opened: which table, and which execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    Running(String),
    Failure(String, u64),
}

impl Row {
    pub fn execution(&self) -> &str {
        match self {
            Row::Running(id) | Row::Failure(id, _) => id,
        }
    }
}

/// An execution that is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    pub id: String,
    pub text: String,
    pub scroll: u16,
}

/// What a key asks of whoever runs the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    None,
    Quit,
    Interrupt,
    /// Read this execution, and hand it to `show`
    Read(String),
}

#[derive(Default)]
pub struct App {
    pub stats: Option<Stats>,
    pub samples: VecDeque<Sample>,
    workers: Vec<Worker>,
    pub sort: Sort,
    pub filter: String,
    /// Letters go into the filter
    pub is_typing: bool,
    pub is_paused: bool,
    pub selected: Option<Row>,
    pub open: Option<Open>,
    /// Why the last look did not succeed
    pub trouble: Option<String>,
    /// Colours may be used
    pub colour: bool,
}

impl App {
    pub fn new(colour: bool) -> Self {
        Self { colour, ..Self::default() }
    }

    /// Takes what a look at the server gave. While paused the view stays as it is.
    pub fn take(&mut self, looked: Result<Stats, String>) {
        if self.is_paused {
            return;
        }
        match looked {
            Err(why) => self.trouble = Some(why),
            Ok(stats) => {
                self.trouble = None;
                if self.samples.len() == SAMPLES_MAX {
                    self.samples.pop_front();
                }
                self.samples.push_back(stats.windows.first().map(Sample::from).unwrap_or_default());
                let at = self.selected_at();
                self.stats = Some(stats);
                // Of a row that has gone the place stays selected: rows of busy lanes come and go with every look.
                let rows = self.rows();
                if let Some(at) = at
                    && !self.selected.as_ref().is_some_and(|row| rows.contains(row))
                {
                    self.selected = rows.get(at).or(rows.last()).cloned();
                }
            }
        }
    }

    /// Takes the workers of the same look.
    pub fn take_workers(&mut self, workers: Vec<Worker>) {
        if !self.is_paused {
            self.workers = workers;
        }
    }

    /// Those that do the most first.
    pub fn workers(&self) -> Vec<&Worker> {
        let let_through = |worker: &&Worker| {
            self.lets_through(&[&worker.instance, &worker.worker])
                || worker.lanes.iter().any(|lane| self.lets_through(&[lane]))
        };
        let mut workers: Vec<&Worker> = self.workers.iter().filter(let_through).collect();
        let busy = |worker: &Worker| worker.capacity.unwrap_or(0).saturating_sub(worker.free.unwrap_or(0));
        workers.sort_by(|a, b| busy(b).cmp(&busy(a)).then_with(|| a.instance.cmp(&b.instance)));
        workers
    }

    /// Shows an execution that was read, if it is still the one that is looked at. Escapes what would not be seen.
    pub fn show(&mut self, id: &str, text: &str) {
        if let Some(open) = self.open.as_mut().filter(|open| open.id == id) {
            open.text = visible(text, false).into_owned();
        }
    }

    pub fn lanes(&self) -> Vec<&LaneStats> {
        let all = self.stats.iter().flat_map(|stats| &stats.lanes);
        let mut lanes: Vec<&LaneStats> = all.filter(|lane| self.lets_through(&[&lane.lane])).collect();
        let by = |key: fn(&LaneStats) -> f64| {
            move |a: &&LaneStats, b: &&LaneStats| key(b).total_cmp(&key(a)).then(a.lane.cmp(&b.lane))
        };
        match self.sort {
            Sort::Waiting => lanes.sort_by(by(|lane| lane.waiting as f64)),
            Sort::Active => lanes.sort_by(by(|lane| lane.active as f64)),
            Sort::Oldest => lanes.sort_by(by(|lane| lane.oldest_ms.unwrap_or(0) as f64)),
            Sort::Completed => lanes.sort_by(by(|lane| lane.completed_per_s)),
            Sort::Failed => lanes.sort_by(by(|lane| lane.failed_per_s)),
            Sort::Name => lanes.sort_by(|a, b| a.lane.cmp(&b.lane)),
        }
        lanes
    }

    pub fn slowest(&self) -> Vec<&Running> {
        let all = self.stats.iter().flat_map(|stats| &stats.slowest);
        all.filter(|one| self.lets_through(&[&one.execution, &one.kind, &one.lane, &one.instance])).collect()
    }

    pub fn errors(&self) -> Vec<&RecentFailure> {
        let all = self.stats.iter().flat_map(|stats| &stats.errors);
        all.filter(|one| self.lets_through(&[&one.execution, &one.kind, &one.lane, &one.category, &one.message]))
            .collect()
    }

    fn lets_through(&self, texts: &[&str]) -> bool {
        let wanted = self.filter.to_lowercase();
        wanted.is_empty() || texts.iter().any(|text| text.to_lowercase().contains(&wanted))
    }

    /// Rows that can be opened, from the top.
    pub fn rows(&self) -> Vec<Row> {
        let slowest = self.slowest().into_iter().map(|one| Row::Running(one.execution.clone()));
        let errors = self.errors().into_iter().map(|one| Row::Failure(one.execution.clone(), one.at));
        slowest.chain(errors).collect()
    }

    pub fn key(&mut self, key: KeyEvent) -> Wish {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Wish::Interrupt;
        }
        if self.is_typing {
            self.type_letter(key.code);
            return Wish::None;
        }
        if self.open.is_some() {
            self.read_on(key.code);
            return Wish::None;
        }
        match key.code {
            KeyCode::Char('q') => return Wish::Quit,
            // Takes back what was asked for last.
            KeyCode::Esc if self.selected.take().is_some() => {}
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::Enter => return self.open_selected(),
            _ => {}
        }
        Wish::None
    }

    fn type_letter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            _ => {}
        }
    }

    fn read_on(&mut self, code: KeyCode) {
        let Some(open) = &mut self.open else { return };
        let last = open.text.lines().count().saturating_sub(1) as u16;
        match code {
            KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q') => self.open = None,
            KeyCode::Down | KeyCode::Char('j') => open.scroll = (open.scroll + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => open.scroll = open.scroll.saturating_sub(1),
            _ => {}
        }
    }

    fn selected_at(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.rows().iter().position(|row| row == selected)
    }

    fn select(&mut self, by: isize) {
        let rows = self.rows();
        let next = match self.selected_at() {
            Some(at) => at.saturating_add_signed(by).min(rows.len().saturating_sub(1)),
            None if by > 0 => 0,
            None => rows.len().saturating_sub(1),
        };
        self.selected = rows.get(next).cloned();
    }

    fn open_selected(&mut self) -> Wish {
        let Some(row) = &self.selected else { return Wish::None };
        let id = row.execution().to_owned();
        self.open = Some(Open { id: id.clone(), text: "…".to_owned(), scroll: 0 });
        Wish::Read(id)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::json;

    pub fn stats() -> Stats {
        serde_json::from_value(json!({
            "at": 1_794_860_100_000_u64, "node": "node-1", "uptime_ms": 3_725_000,
            "windows": [
                {"minutes": 1, "submitted_per_s": 412.0, "claimed_per_s": 410.0, "completed_per_s": 398.2, "failed_per_s": 1.5,
                 "retried_per_s": 6.1, "queue_wait": {"count": 9, "p50_ms": 3.2, "p95_ms": 20.0, "p99_ms": 41.0},
                 "run": {"count": 9, "p50_ms": 120.0, "p95_ms": 800.0, "p99_ms": 1_900.0},
                 "end_to_end": {"count": 9, "p50_ms": 130.0, "p95_ms": 900.0, "p99_ms": 2_100.0}},
            ],
            "lanes": [
                {"lane": "mail", "waiting": 412, "active": 16, "delayed": 3, "blocked": 0, "oldest_ms": 3_100,
                 "submitted_per_s": 40.0, "completed_per_s": 38.0, "failed_per_s": 0.5, "workers": 4},
                {"lane": "money", "waiting": 20, "active": 90, "delayed": 0, "blocked": 2,
                 "submitted_per_s": 1.0, "completed_per_s": 1.0, "failed_per_s": 1.0, "workers": 2},
            ],
            "workers": {"active": 6, "draining": 1, "dead": 0}, "partitions": 16, "partitions_claimed": 8,
            "scanners": [
                {"scanner": "delayed_promoter", "due_at": 1_794_860_103_000_u64, "lag_ms": 0, "processed": 12, "errors": 0},
                {"scanner": "lease_expiry", "due_at": 1_794_860_099_800_u64, "lag_ms": 200, "processed": 4, "errors": 1},
                {"scanner": "retention_trimmer", "lag_ms": 0, "processed": 0, "errors": 0},
            ],
            "slowest": [
                {"execution": "x_7_0192f3c1-6b1e-7c55-9a40-5d2f6d3c9e01", "kind": "video.encode", "lane": "media",
                 "instance": "encoder-1", "attempt": 1, "running_ms": 252_000},
                {"execution": "x_7_0192f3c1-6b1e-7c55-9a40-5d2f6d77ab20", "kind": "invoice.send", "lane": "mail",
                 "instance": "mailer-3", "attempt": 2, "running_ms": 1_200},
            ],
            "errors": [
                {"execution": "x_7_0192f3c1-6b1e-7c55-9a40-5d2f6d10fe9c", "kind": "invoice.send", "lane": "mail", "attempt": 2,
                 "category": "smtp", "message": "421 try later", "at": 1_794_860_088_000_u64},
            ],
        }))
        .unwrap()
    }

    pub fn workers() -> Vec<Worker> {
        let worker = |instance: &str, free: u32| {
            serde_json::from_value(json!({
                "namespace": "default", "instance": instance, "worker": "mailer", "session": 1, "ttl_ms": 30_000,
                "state": "active", "lanes": ["mail"], "capabilities": [], "labels": {}, "capacity": 16, "free": free, "version": "1.4.0",
                "registered_at": 1_794_860_000_000_u64, "last_seen_at": 1_794_860_099_000_u64,
            }))
            .unwrap()
        };
        vec![worker("mailer-1", 14), worker("mailer-3", 4)]
    }

    pub fn app() -> App {
        let mut app = App::new(false);
        app.take(Ok(stats()));
        app.take_workers(workers());
        app
    }

    pub fn press(app: &mut App, code: KeyCode) -> Wish {
        app.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn lanes(app: &App) -> Vec<&str> {
        app.lanes().iter().map(|lane| lane.lane.as_str()).collect()
    }

    #[test]
    fn s_sorts_the_lanes_by_the_next_column() {
        let mut app = app();
        assert_eq!(lanes(&app), ["mail", "money"], "by waiting");
        press(&mut app, KeyCode::Char('s'));
        assert_eq!((app.sort, lanes(&app)), (Sort::Active, vec!["money", "mail"]));
        for _ in 0..5 {
            press(&mut app, KeyCode::Char('s'));
        }
        assert_eq!(app.sort, Sort::Waiting, "it comes around");
    }

    #[test]
    fn the_busiest_worker_comes_first_and_a_filter_is_for_workers_too() {
        let mut app = app();
        let names = |app: &App| app.workers().iter().map(|worker| worker.instance.clone()).collect::<Vec<_>>();
        assert_eq!(names(&app), ["mailer-3", "mailer-1"]);
        app.filter = "mailer-1".into();
        assert_eq!(names(&app), ["mailer-1"]);
        app.filter = "mail".into();
        assert_eq!(names(&app).len(), 2, "by the lane");
        app.is_paused = true;
        app.take_workers(Vec::new());
        assert_eq!(names(&app).len(), 2, "a paused view stays");
    }

    #[test]
    fn a_filter_is_typed_and_let_go() {
        let mut app = app();
        press(&mut app, KeyCode::Char('/'));
        for letter in "QMail".chars() {
            press(&mut app, KeyCode::Char(letter));
        }
        assert_eq!(lanes(&app), [""; 0]);
        for _ in 0..5 {
            press(&mut app, KeyCode::Backspace);
        }
        press(&mut app, KeyCode::Char('M'));
        press(&mut app, KeyCode::Char('a'));
        press(&mut app, KeyCode::Enter);
        assert_eq!((lanes(&app), app.slowest().len(), app.errors().len()), (vec!["mail"], 1, 1));
        assert_eq!(press(&mut app, KeyCode::Esc), Wish::None);
        assert_eq!(lanes(&app).len(), 2);
        assert_eq!(press(&mut app, KeyCode::Esc), Wish::None, "only q and Ctrl-C end the view");
    }

    #[test]
    fn arrows_select_a_row_that_enter_opens() {
        let mut app = app();
        assert_eq!(press(&mut app, KeyCode::Enter), Wish::None, "nothing is selected");
        for _ in 0..3 {
            press(&mut app, KeyCode::Down);
        }
        let id = "x_7_0192f3c1-6b1e-7c55-9a40-5d2f6d10fe9c".to_owned();
        assert_eq!(press(&mut app, KeyCode::Enter), Wish::Read(id.clone()));
        app.show("another", "wrong");
        app.show(&id, "a\nb\u{202e}\nc");
        press(&mut app, KeyCode::Down);
        assert_eq!(app.open.as_ref().map(|open| (open.text.as_str(), open.scroll)), Some(("a\nb\\u202e\nc", 1)));
        assert_eq!(press(&mut app, KeyCode::Char('q')), Wish::None, "first it closes");
        assert_eq!(app.open, None);
        assert_eq!(press(&mut app, KeyCode::Char('q')), Wish::Quit);
    }

    #[test]
    fn a_selected_row_stays_selected_where_it_moves_to_and_its_place_when_it_goes() {
        let mut app = app();
        press(&mut app, KeyCode::Down);
        let selected = app.selected.clone();
        let mut moved = stats();
        moved.slowest.reverse();
        app.take(Ok(moved.clone()));
        assert_eq!(app.selected, selected);
        let behind = Row::Failure(moved.errors[0].execution.clone(), moved.errors[0].at);
        moved.slowest.truncate(1);
        app.take(Ok(moved.clone()));
        assert_eq!(app.selected, Some(behind), "what stands where it stood");
        (moved.slowest, moved.errors) = (Vec::new(), Vec::new());
        app.take(Ok(moved));
        assert_eq!(app.selected, None);
    }

    #[test]
    fn a_paused_view_stays_and_a_minute_is_kept() {
        let mut app = app();
        for _ in 0..100 {
            app.take(Ok(stats()));
        }
        assert_eq!(app.samples.len(), SAMPLES_MAX);
        press(&mut app, KeyCode::Char('p'));
        app.take(Err("gone".into()));
        assert_eq!(app.trouble, None);
        press(&mut app, KeyCode::Char('p'));
        app.take(Err("gone".into()));
        assert_eq!(app.trouble.as_deref(), Some("gone"));
        assert!(app.stats.is_some(), "what was seen last stays in sight");
    }

    #[test]
    fn ctrl_c_ends_it_whatever_is_open() {
        let mut app = app();
        press(&mut app, KeyCode::Char('/'));
        assert_eq!(app.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Wish::Interrupt);
    }
}
