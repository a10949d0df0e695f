//! What the watcher of a demo sees: on a terminal live lines per kind, elsewhere plain lines.

use super::board::Note;
use super::plan::{Kind, Plan};
use crate::terminal::{self, Colour, Paint, draws_progress};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};
use weft_bench::page::readable;
use weft_core::record::execution::PublicState;

/// How many executions of each kind are in each state.
#[derive(Default, Clone)]
pub struct Tally(BTreeMap<(Kind, PublicState), u64>);

impl Tally {
    pub fn add(&mut self, kind: Kind, state: PublicState, count: u64) {
        *self.0.entry((kind, state)).or_default() += count;
    }

    fn sum(&self, wanted: impl Fn(Kind, PublicState) -> bool) -> u64 {
        self.0.iter().filter(|((kind, state), _)| wanted(*kind, *state)).map(|(_, count)| count).sum()
    }

    pub fn done(&self) -> u64 {
        self.sum(|_, state| state.is_terminal())
    }

    fn active(&self) -> u64 {
        self.sum(|_, state| state == PublicState::Active)
    }
}

const BAR: u64 = 30;
/// Events that stay in sight.
const TICKER: usize = 5;

pub struct View {
    begun: Instant,
    expected: BTreeMap<Kind, u64>,
    paint: Paint,
    live: Option<Live>,
    /// Whether the ordinary retries have been told of; on plain output one of them is enough.
    retries_told: u32,
    said_at: Instant,
    rates: VecDeque<(Instant, u64)>,
}

struct Live {
    multi: MultiProgress,
    kinds: BTreeMap<Kind, ProgressBar>,
    ticker: VecDeque<(Kind, String)>,
    events: Vec<ProgressBar>,
    total: ProgressBar,
}

impl View {
    pub fn new(plan: &Plan, colour: Colour) -> Self {
        let now = Instant::now();
        Self {
            begun: now,
            expected: Kind::ALL.iter().map(|kind| (*kind, plan.count(*kind) as u64)).collect(),
            paint: colour.err,
            live: draws_progress().then(Live::new),
            retries_told: 0,
            said_at: now,
            rates: VecDeque::new(),
        }
    }

    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    fn clock(&self) -> String {
        format!("{:>5.1} s", self.elapsed().as_secs_f64())
    }

    pub fn note(&mut self, note: &Note) {
        let name = note.kind.name();
        let line = format!("{}  {} {}", self.paint.dim(&self.clock()), self.paint.blue(name), note.text);
        if let Some(live) = &mut self.live {
            // Retries are so many that only the last one stays: they would push everything else out of sight.
            live.ticker.retain(|(kind, _)| note.kind != Kind::Flaky || *kind != Kind::Flaky);
            live.ticker.push_back((note.kind, line));
            if live.ticker.len() > TICKER {
                live.ticker.pop_front();
            }
            for (bar, (_, line)) in live.events.iter().zip(&live.ticker) {
                bar.set_message(line.clone());
            }
            return;
        }
        self.retries_told += u32::from(note.kind == Kind::Flaky);
        if note.kind != Kind::Flaky || self.retries_told <= 3 {
            terminal::say(&line);
        }
    }

    pub fn draw(&mut self, tally: &Tally) {
        let done = tally.done();
        let expected: u64 = self.expected.values().sum();
        let line = format!("{done} of {expected} ended, {} active", tally.active());
        let rate = self.rate(done);
        let Some(live) = &self.live else {
            if self.said_at.elapsed() >= Duration::from_secs(1) {
                self.said_at = Instant::now();
                terminal::say(&format!("{}  {line}", self.clock()));
            }
            return;
        };
        for (kind, bar) in &live.kinds {
            bar.set_message(self.kind_line(*kind, tally));
        }
        let rate = format!("{} ended per second", readable(rate.round()));
        live.total.set_message(format!("{}  {}  {}", self.clock(), self.paint.bold(&line), self.paint.dim(&rate)));
    }

    /// Ended executions per second over about the last second.
    fn rate(&mut self, done: u64) -> f64 {
        let now = Instant::now();
        self.rates.push_back((now, done));
        while self.rates.front().is_some_and(|(at, _)| now.duration_since(*at) > Duration::from_secs(1)) {
            self.rates.pop_front();
        }
        match self.rates.front() {
            Some((at, before)) if now > *at => (done - before) as f64 / now.duration_since(*at).as_secs_f64(),
            _ => 0.0,
        }
    }

    fn kind_line(&self, kind: Kind, tally: &Tally) -> String {
        let expected = self.expected.get(&kind).copied().unwrap_or(1);
        let of = |wanted: fn(PublicState) -> bool| tally.sum(|other, state| other == kind && wanted(state));
        let completed = of(|state| state == PublicState::Completed);
        let other_ends = of(|state| state.is_terminal() && state != PublicState::Completed);
        let active = of(|state| state == PublicState::Active);
        let waiting = of(|state| !state.is_terminal() && state != PublicState::Active);
        let segments = [
            (completed, self.paint.green("█"), "█"),
            (other_ends, self.paint.red("█"), "x"),
            (active, self.paint.yellow("▓"), "▓"),
            (waiting, self.paint.dim("▒"), "▒"),
        ];
        let mut bar = String::new();
        let (mut before, mut cells) = (0, 0);
        for (count, painted, _) in &segments {
            before += count;
            // Whatever is there takes at least one cell, so that a single active execution is seen.
            let until = (before * BAR / expected).max(cells + u64::from(*count > 0)).min(BAR);
            bar.push_str(&painted.repeat((until - cells) as usize));
            cells = until;
        }
        bar.push_str(&self.paint.dim("·").repeat((BAR - cells) as usize));
        let numbers = format!("{waiting:>4} waiting {active:>3} active {:>4} done", completed + other_ends);
        format!("{:<13} {bar} {numbers}  {}", kind.name(), self.paint.dim(kind.story()))
    }

    /// Leaves the terminal as it was, without the live lines.
    pub fn close(&mut self) {
        if let Some(live) = self.live.take() {
            // A terminal that cannot be cleared shows the last lines once more; nothing is lost.
            let _ = live.multi.clear();
        }
    }
}

impl Live {
    fn new() -> Self {
        let multi = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(20));
        let style = ProgressStyle::with_template("{wide_msg}").expect("view: the template is well formed");
        let line = || multi.add(ProgressBar::new_spinner().with_style(style.clone()));
        let kinds = Kind::ALL.iter().map(|kind| (*kind, line())).collect();
        let total = line();
        let events = (0..TICKER).map(|_| line()).collect();
        Self { kinds, ticker: VecDeque::new(), events, total, multi }
    }
}
