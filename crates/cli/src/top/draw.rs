//! Draws the live view. Knows only what the state holds.

use super::figures::{self, attempts, latency, rate};
use super::state::{App, Row as Selected, Sample};
use crate::render::id::short_all;
use crate::render::{NONE, plain, time, worker};
use crate::terminal::Paint;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Sparkline, Table, Wrap};
use weft_api::node::Window;

/// Columns of the name of a rate and of its value.
const RATE_NAME: u16 = 11;
const RATE_VALUE: u16 = 9;

pub fn draw(frame: &mut Frame, app: &App) {
    let area = frame.area();
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    frame.render_widget(Paragraph::new(heading(app)), head);
    frame.render_widget(Paragraph::new(keys(app)), foot);
    if let Some(open) = &app.open {
        let text = Paragraph::new(open.text.as_str()).scroll((open.scroll, 0)).wrap(Wrap { trim: false });
        frame.render_widget(text, inset(body));
        return;
    }
    let Some(stats) = &app.stats else { return };
    let window = stats.windows.first().cloned().unwrap_or_default();
    let (lanes, slowest, errors) = (app.lanes().len(), app.slowest().len(), app.errors().len());
    let workers = app.workers().len();
    // Each table gets what it needs, and the lanes give way last.
    let wanted = |rows: usize| Constraint::Max(rows as u16 + 2);
    let [rates, timers, _, first, second, third, fourth] = Layout::vertical([
        Constraint::Length(5),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(1).max_with(lanes, body.height),
        wanted(slowest),
        wanted(errors),
        wanted(workers),
    ])
    .areas(body);
    draw_rates(frame, app, &window, rates);
    frame.render_widget(Paragraph::new(named("timers", figures::timers(stats))), timers);
    draw_lanes(frame, app, apart(first));
    draw_slowest(frame, app, apart(second));
    draw_errors(frame, app, apart(third), stats.at);
    draw_workers(frame, app, fourth, stats.at);
}

/// A line with its name where those of the rates are.
fn named(name: &str, text: String) -> Line<'static> {
    let name = format!("{name:<width$}", width = RATE_NAME as usize);
    Line::from(vec![Span::styled(name, bold()), Span::raw(text)])
}

/// The room that lanes take: what their rows need, and never more than half of the view unless there is nothing else.
trait Room {
    fn max_with(self, rows: usize, height: u16) -> Constraint;
}

impl Room for Constraint {
    fn max_with(self, rows: usize, height: u16) -> Constraint {
        let needed = rows as u16 + 2;
        match needed <= height / 3 {
            true => Constraint::Length(needed),
            false => self,
        }
    }
}

fn inset(area: Rect) -> Rect {
    Rect { y: area.y + 1.min(area.height), height: area.height.saturating_sub(1), ..area }
}

fn style(app: &App, colour: Color) -> Style {
    if app.colour { Style::new().fg(colour) } else { Style::new() }
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn heading(app: &App) -> Line<'static> {
    let mut spans = vec![Span::styled("weft top", bold())];
    // What went wrong takes the place of what is known: a line has room for one of them.
    if let Some(stats) = app.stats.as_ref().filter(|_| app.trouble.is_none()) {
        let workers = stats.workers;
        let mut text =
            format!("  {}  up {}  {} UTC", plain(&stats.node), time::span(stats.uptime_ms), time::clock(stats.at));
        text.push_str(&format!("  workers {}", workers.active));
        for (count, word) in [(workers.draining, "draining"), (workers.dead, "dead")] {
            if count > 0 {
                text.push_str(&format!(", {count} {word}"));
            }
        }
        spans.push(Span::raw(text));
    }
    if app.is_paused {
        spans.push(Span::styled("  paused", style(app, Color::Yellow).add_modifier(Modifier::BOLD)));
    }
    if let Some(trouble) = &app.trouble {
        spans.push(Span::styled(format!("  {}", plain(trouble)), style(app, Color::Red)));
    }
    Line::from(spans)
}

fn keys(app: &App) -> Line<'static> {
    if app.is_typing {
        return Line::from(format!("filter: {}█   enter keeps it · esc drops it", app.filter));
    }
    if app.open.is_some() {
        return Line::styled("↑↓ scroll · esc back · ctrl-c quit", dim());
    }
    let filter = if app.filter.is_empty() { "/ filter".to_owned() } else { format!("/ filter: {}", app.filter) };
    let text = format!(
        "q quit · s sort: {} · {filter} · ↑↓ enter open · p {}",
        app.sort.name(),
        if app.is_paused { "go on" } else { "pause" }
    );
    Line::styled(text, dim())
}

/// Its name, what it is now, and how it is drawn.
type Rate = (&'static str, f64, Color, fn(&Sample) -> f64);

fn draw_rates(frame: &mut Frame, app: &App, window: &Window, area: Rect) {
    let rows = Layout::vertical([Constraint::Length(1); 5]).split(area);
    let rates: [Rate; 4] = [
        ("submitted", window.submitted_per_s, Color::Cyan, |sample| sample.submitted),
        ("completed", window.completed_per_s, Color::Green, |sample| sample.completed),
        ("failed", window.failed_per_s, Color::Red, |sample| sample.failed),
        ("retried", window.retried_per_s, Color::Yellow, |sample| sample.retried),
    ];
    for ((name, now, colour, of), row) in rates.into_iter().zip(rows.iter()) {
        let [label, value, line] =
            Layout::horizontal([Constraint::Length(RATE_NAME), Constraint::Length(RATE_VALUE), Constraint::Fill(1)])
                .areas(*row);
        frame.render_widget(Paragraph::new(Span::styled(name, bold())), label);
        frame.render_widget(Paragraph::new(format!("{:>7}", format!("{}/s", rate(now)))), value);
        frame.render_widget(Sparkline::default().data(sparks(app, of, line.width)).style(style(app, colour)), line);
    }
    let latencies = format!(
        "wait {}  run {}  whole {}",
        latency(&window.queue_wait),
        latency(&window.run),
        latency(&window.end_to_end)
    );
    frame.render_widget(Paragraph::new(named("p50/p99", latencies)), rows[4]);
}

/// The last minute, the newest at the right end.
fn sparks(app: &App, of: fn(&Sample) -> f64, width: u16) -> Vec<u64> {
    let width = usize::from(width).min(super::state::SAMPLES_MAX);
    let known = app.samples.len().min(width);
    let values = app.samples.iter().skip(app.samples.len() - known).map(|sample| (of(sample) * 1e3).round() as u64);
    std::iter::repeat_n(0, width - known).chain(values).collect()
}

/// The table without the line that keeps it from the next one, however little room there is.
fn apart(area: Rect) -> Rect {
    Rect { height: area.height.saturating_sub(1), ..area }
}

fn table<'a>(heading: Vec<&'a str>, rows: Vec<Row<'a>>, widths: Vec<Constraint>) -> Table<'a> {
    Table::new(rows, widths).header(Row::new(heading).style(bold())).column_spacing(2)
}

fn draw_lanes(frame: &mut Frame, app: &App, area: Rect) {
    let right = |text: String, width: usize| format!("{text:>width$}");
    let rows = app.lanes().into_iter().map(|lane| {
        Row::new(vec![
            plain(&lane.lane),
            right(lane.waiting.to_string(), 8),
            right(lane.active.to_string(), 6),
            right(lane.delayed.to_string(), 7),
            right(lane.blocked.to_string(), 7),
            right(lane.oldest_ms.map_or(NONE.to_owned(), time::span), 7),
            right(rate(lane.completed_per_s), 6),
            right(rate(lane.failed_per_s), 6),
            right(lane.workers.to_string(), 7),
        ])
    });
    let mut widths = vec![Constraint::Fill(1)];
    widths.extend([8, 6, 7, 7, 7, 6, 6, 7].map(Constraint::Length));
    let heading = vec!["LANE", " WAITING", "ACTIVE", "DELAYED", "BLOCKED", " OLDEST", "DONE/s", "FAIL/s", "WORKERS"];
    frame.render_widget(table(heading, rows.collect(), widths), area);
}

fn draw_slowest(frame: &mut Frame, app: &App, area: Rect) {
    let slowest = app.slowest();
    let ids = short_all(slowest.iter().map(|one| one.execution.as_str()));
    let rows = slowest.iter().zip(ids).map(|(one, id)| {
        let row = Row::new(vec![
            id,
            plain(&one.kind),
            plain(&one.lane),
            attempts(one.attempt),
            time::span(one.running_ms),
            plain(&one.instance),
        ]);
        mark(row, app, &Selected::Running(one.execution.clone()))
    });
    let widths = vec![
        Constraint::Length(9),
        Constraint::Fill(3),
        Constraint::Fill(2),
        Constraint::Length(3),
        Constraint::Length(8),
        Constraint::Fill(3),
    ];
    frame.render_widget(table(vec!["SLOWEST", "KIND", "LANE", "ATT", "FOR", "WORKER"], rows.collect(), widths), area);
}

fn draw_errors(frame: &mut Frame, app: &App, area: Rect, now: u64) {
    let errors = app.errors();
    let ids = short_all(errors.iter().map(|one| one.execution.as_str()));
    let rows = errors.iter().zip(ids).map(|(one, id)| {
        let what = format!("{} {}", plain(&one.category), plain(&one.message));
        let row =
            Row::new(vec![id, plain(&one.kind), attempts(one.attempt), time::age(now.saturating_sub(one.at)), what]);
        mark(row, app, &Selected::Failure(one.execution.clone(), one.at))
    });
    let widths = vec![
        Constraint::Length(9),
        Constraint::Fill(2),
        Constraint::Length(3),
        Constraint::Length(4),
        Constraint::Fill(5),
    ];
    let table = table(vec!["ERRORS", "KIND", "ATT", "AGO", "WHAT"], rows.collect(), widths);
    frame.render_widget(table, area);
}

fn draw_workers(frame: &mut Frame, app: &App, area: Rect, now: u64) {
    let rows = app.workers().into_iter().map(|one| {
        Row::new(vec![
            plain(&one.instance),
            plain(&one.worker),
            worker::state(one.state, Paint::PLAIN),
            worker::list(&one.lanes),
            worker::busy(one, now),
            time::age(now.saturating_sub(one.last_seen_at)),
        ])
    });
    let widths = vec![
        Constraint::Fill(3),
        Constraint::Fill(2),
        Constraint::Length(8),
        Constraint::Fill(3),
        Constraint::Length(9),
        Constraint::Length(4),
    ];
    let heading = vec!["WORKERS", "POOL", "STATE", "LANES", "BUSY", "SEEN"];
    frame.render_widget(table(heading, rows.collect(), widths), area);
}

/// The selected row stands out, with colours or without.
fn mark<'a>(row: Row<'a>, app: &App, which: &Selected) -> Row<'a> {
    match app.selected.as_ref() == Some(which) {
        true => row.style(Style::new().add_modifier(Modifier::REVERSED)),
        false => row,
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::tests::{app, press, stats};
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;

    fn screen(app: &App, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, app)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_small_terminal_shows_everything_that_matters() {
        let shown = screen(&app(), 80, 24);
        for part in [
            "weft top  node-1  up 1h 2m  20:15:00 UTC  workers 6, 1 draining",
            "submitted    412/s",
            "failed       1.5/s",
            "wait 3.2ms/41ms  run 120ms/1.9s  whole 130ms/2.1s",
            "timers     now lease_expiry  lag 200ms  partitions 8 of 16",
            "mailer-3",
            "12/16",
            " WAITING  ACTIVE  DELAYED  BLOCKED   OLDEST  DONE/s  FAIL/s  WORKERS",
            "     412      16        3        0     3.1s      38     0.5        4",
            "…3c9e01",
            "4m 12s",
            "421 try later",
            "q quit · s sort: waiting",
        ] {
            assert!(shown.contains(part), "{part:?} is missing in\n{shown}");
        }
    }

    #[test]
    fn many_lanes_leave_room_for_what_is_slow_and_what_failed() {
        let mut many = stats();
        many.lanes = (0..100)
            .map(|no| weft_api::node::LaneStats { lane: format!("lane-{no:03}"), ..Default::default() })
            .collect();
        let mut app = App::new(false);
        app.take(Ok(many));
        let shown = screen(&app, 80, 24);
        assert!(
            shown.contains("lane-000") && shown.contains("encoder-1") && shown.contains("421 try later"),
            "{shown}"
        );
    }

    #[test]
    fn any_size_is_drawn() {
        let mut app = app();
        press(&mut app, KeyCode::Down);
        for (width, height) in [(1, 1), (10, 3), (40, 8), (80, 24), (250, 80)] {
            screen(&app, width, height);
        }
        press(&mut app, KeyCode::Enter);
        screen(&app, 1, 1);
        screen(&App::new(true), 80, 24);
    }

    #[test]
    fn sparks_end_with_the_newest() {
        let mut app = App::new(false);
        for per_s in [1.0, 2.0] {
            let mut now = stats();
            now.windows[0].submitted_per_s = per_s;
            app.take(Ok(now));
        }
        assert_eq!(sparks(&app, |sample| sample.submitted, 4), [0, 0, 1_000, 2_000]);
        assert_eq!(sparks(&app, |sample| sample.submitted, 1), [2_000]);
    }

    #[test]
    fn an_open_execution_fills_the_view_and_trouble_is_told() {
        let mut app = app();
        press(&mut app, KeyCode::Down);
        press(&mut app, KeyCode::Enter);
        let id = app.open.as_ref().unwrap().id.clone();
        app.show(&id, "state     active");
        app.take(Err("could not connect".into()));
        let shown = screen(&app, 80, 10);
        assert!(
            shown.contains("state     active") && shown.contains("esc back") && !shown.contains("SLOWEST"),
            "{shown}"
        );
        assert!(shown.lines().next().unwrap().contains("could not connect"), "{shown}");
    }

    #[test]
    fn without_colour_no_cell_has_one() {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, &app())).unwrap();
        assert!(terminal.backend().buffer().content().iter().all(|cell| cell.fg == Color::Reset));
    }
}
