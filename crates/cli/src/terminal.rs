//! What people see: colours, tables, lines. Data goes to stdout, talk to stderr.

use crate::fault::Fault;
use crate::visible::{VisibleStderr, visible};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_bench::Watch;
use weft_bench::page::readable;

/// Paints text, or leaves it as it is.
#[derive(Clone, Copy)]
pub struct Paint(bool);

macro_rules! paints {
    ($($name:ident = $code:literal),*) => {
        $(pub fn $name(self, text: &str) -> String {
            if self.0 { format!(concat!("\x1b[", $code, "m{}\x1b[0m"), text) } else { text.to_owned() }
        })*
    };
}

impl Paint {
    /// Paints nothing.
    pub const PLAIN: Paint = Paint(false);

    pub fn is_on(self) -> bool {
        self.0
    }

    paints!(red = "31", green = "32", yellow = "33", blue = "36", dim = "2", bold = "1");
}

/// Where colours may go: each output is judged for itself.
#[derive(Clone, Copy)]
pub struct Colour {
    pub out: Paint,
    pub err: Paint,
}

impl Colour {
    /// Only on a terminal that can show them, and only if nobody said no.
    pub fn choose(refused: bool) -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let allowed = !refused && !set("NO_COLOR") && !dumb;
        let (out, err) = (allowed && io::stdout().is_terminal(), allowed && io::stderr().is_terminal());
        PAINTED_OUT.store(out, Ordering::Relaxed);
        PAINTED_ERR.store(err, Ordering::Relaxed);
        Self { out: Paint(out), err: Paint(err) }
    }
}

/// Whether stdout and stderr get colour codes, which must then not be escaped.
static PAINTED_OUT: AtomicBool = AtomicBool::new(false);
static PAINTED_ERR: AtomicBool = AtomicBool::new(false);

/// Progress is drawn only where somebody watches.
pub fn draws_progress() -> bool {
    let hidden = HIDDEN.load(Ordering::Relaxed) || QUIET.load(Ordering::Relaxed);
    !hidden && io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Nobody wants to hear what `say` says.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Silences `say`. Warnings and errors are still written.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Nobody wants to see bars.
static HIDDEN: AtomicBool = AtomicBool::new(false);

/// From here on no bar is drawn; what is said is said.
pub fn hide_bars() {
    HIDDEN.store(true, Ordering::Relaxed);
}

/// Talks to the person: one line to stderr.
pub fn say(line: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        tell(line);
    }
}

/// Writes a warning to stderr, also if nobody wants to hear what `say` says.
pub fn warn(what: &str) {
    tell(&format!("warning: {what}"));
}

fn tell(line: &str) {
    // Nobody can be told that stderr is closed.
    let _ = writeln!(io::stderr(), "{}", visible(line, PAINTED_ERR.load(Ordering::Relaxed)));
}

/// Writes data: text to stdout, with a line end. What would not be seen is escaped, in a way that JSON stays what it is.
pub fn put(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", visible(text, PAINTED_OUT.load(Ordering::Relaxed)))?;
    Ok(out.flush()?)
}

/// Writes a view over the one before it, which took `over` rows of the terminal; 0 writes it below what is there. Returns
/// the rows that the view takes.
pub fn redraw(over: usize, view: &str) -> anyhow::Result<usize> {
    let (text, rows) = redrawn(over, view, PAINTED_OUT.load(Ordering::Relaxed), width());
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()?;
    Ok(rows)
}

/// A view after the codes that clear `over` rows above the cursor, and the rows that it takes. Codes in the view itself
/// are escaped.
fn redrawn(over: usize, view: &str, painted: bool, width: Option<usize>) -> (String, usize) {
    let view = visible(view, painted);
    // Up to the first row, and everything below is cleared, so that a shorter view leaves nothing of a longer one.
    let back = if over > 0 { format!("\x1b[{over}F\x1b[J") } else { String::new() };
    (format!("{back}{view}"), rows(&view, width))
}

/// Writes bytes to stdout as they are.
pub fn put_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

/// How many columns stdout has, if it is a terminal.
pub fn width() -> Option<usize> {
    let (columns, _) = terminal_size::terminal_size_of(io::stdout())?;
    io::stdout().is_terminal().then_some(columns.0.into())
}

/// How many rows stdout has, if it is a terminal.
pub fn height() -> Option<usize> {
    let (_, rows) = terminal_size::terminal_size_of(io::stdout())?;
    io::stdout().is_terminal().then_some(rows.0.into())
}

/// Rows of a terminal that a view takes, with lines that are longer than it is wide.
fn rows(view: &str, width: Option<usize>) -> usize {
    let width = width.unwrap_or(usize::MAX).max(1);
    view.lines().map(|line| letters(line).div_ceil(width).max(1)).sum()
}

/// Tells an error: what happened, and what to do.
pub fn say_error(error: &anyhow::Error, colour: Colour) {
    let (word, message, hint) = Fault::told(error);
    // Both may quote what somebody else has written.
    tell(&format!("{} {}", colour.err.red(&word), visible(&message, false)));
    if let Some(hint) = hint {
        tell(&format!("{} {}", colour.err.blue("hint:"), visible(&hint, false)));
    }
}

pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Warnings and errors of the engine go to stderr, with their fields.
pub fn log_to_stderr() {
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(|| VisibleStderr { painted: false })
        .with_ansi(false)
        .with_target(false)
        .init();
}

/// Rows under a heading, columns as wide as they need to be.
pub struct Table {
    rows: Vec<Vec<String>>,
    /// Aligned to the right
    numbers: Vec<usize>,
}

impl Table {
    /// All columns but the first are aligned to the right.
    pub fn new(heading: &[&str]) -> Self {
        Self {
            rows: vec![heading.iter().map(|&title| title.to_owned()).collect()],
            numbers: (1..heading.len()).collect(),
        }
    }

    /// All columns are aligned to the left.
    pub fn left(heading: &[&str]) -> Self {
        Self { numbers: Vec::new(), ..Self::new(heading) }
    }

    /// Aligns one more column to the right.
    pub fn right(&mut self, column: usize) {
        self.numbers.push(column);
    }

    /// Cuts the last column so that rows fit `width` columns, but leaves `least` of it. Its cells have no colours.
    pub fn cut_last(&mut self, width: usize, least: usize) {
        let Some(last) = self.rows.first().map(|heading| heading.len() - 1) else { return };
        let before: usize = (0..last).map(|column| self.width(column) + 2).sum();
        let room = width.saturating_sub(before).max(least);
        for cell in self.rows.iter_mut().filter_map(|row| row.get_mut(last)) {
            *cell = crate::render::cut(cell, room);
        }
    }

    fn width(&self, column: usize) -> usize {
        self.rows.iter().filter_map(|row| row.get(column)).map(|cell| letters(cell)).max().unwrap_or(0)
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub fn render(&self, paint: Paint) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(|column| self.width(column)).collect();
        let mut lines = Vec::with_capacity(self.rows.len());
        for (at, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                let space = " ".repeat(width - letters(cell));
                if self.numbers.contains(&column) { format!("{space}{cell}") } else { format!("{cell}{space}") }
            });
            let line = cells.collect::<Vec<_>>().join("  ").trim_end().to_owned();
            lines.push(if at == 0 { paint.bold(&line) } else { line });
        }
        lines.join("\n")
    }
}

/// How many columns a text takes: codes of colours take none.
pub fn letters(text: &str) -> usize {
    text.split('\x1b')
        .enumerate()
        .map(|(at, piece)| {
            let shown = if at == 0 { piece } else { piece.split_once('m').map_or("", |(_, shown)| shown) };
            shown.chars().count()
        })
        .sum()
}

/// The progress of one run after the other, as a bar that goes away when it is done. Nothing is drawn before they have
/// taken a while.
pub struct Bars {
    multi: MultiProgress,
    begun: Instant,
    drawn: AtomicBool,
    current: Mutex<Option<ProgressBar>>,
    bar_style: ProgressStyle,
    spinner_style: ProgressStyle,
}

impl Bars {
    pub fn new(colour: Colour) -> Self {
        Self {
            multi: MultiProgress::with_draw_target(ProgressDrawTarget::hidden()),
            begun: Instant::now(),
            drawn: AtomicBool::new(false),
            current: Mutex::new(None),
            bar_style: Self::bar_style(colour),
            spinner_style: Self::style("{msg:28} …"),
        }
    }

    fn style(template: &str) -> ProgressStyle {
        ProgressStyle::with_template(template).expect("terminal: the template is well formed")
    }

    fn bar_style(colour: Colour) -> ProgressStyle {
        let template = match colour.err.0 {
            true => "{msg:28} {bar:32.cyan} {percent:>3} %  {rate:>11}  {elapsed}",
            false => "{msg:28} {bar:32} {percent:>3} %  {rate:>11}  {elapsed}",
        };
        Self::style(template).progress_chars("█▓░").with_key("rate", rate)
    }

    fn draw_if_late(&self) {
        if self.begun.elapsed() >= BAR_AFTER && !self.drawn.swap(true, Ordering::Relaxed) {
            self.multi.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        }
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Option<ProgressBar>> {
        self.current.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A bar for work that takes longer than a second; it goes away when it is done.
pub struct Progress {
    bar: ProgressBar,
    begun: Instant,
}

/// Work that takes no longer is not worth a bar.
pub const BAR_AFTER: Duration = Duration::from_secs(1);

impl Progress {
    /// With a `total` of 0, which means unknown, the bar shows the count alone.
    pub fn new(colour: Colour, what: &str, total: u64) -> Self {
        if total == 0 {
            return Self::counting(colour, what);
        }
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        Self { bar: bar.with_style(Bars::bar_style(colour)).with_message(what.to_owned()), begun: Instant::now() }
    }

    /// Of work whose end nobody knows.
    pub fn counting(colour: Colour, what: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let style = match colour.err.0 {
            true => Bars::style("{human_pos:.cyan} {msg}  {rate:>11}  {elapsed}"),
            false => Bars::style("{human_pos} {msg}  {rate:>11}  {elapsed}"),
        };
        let bar = bar.with_style(style.with_key("rate", rate)).with_message(what.to_owned());
        Self { bar, begun: Instant::now() }
    }

    pub fn advance(&self) {
        self.advance_by(1);
    }

    pub fn advance_by(&self, by: u64) {
        self.bar.inc(by);
        if self.bar.is_hidden() && draws_progress() && self.begun.elapsed() >= BAR_AFTER {
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        }
    }

    /// So many are done in all.
    pub fn reach(&self, done: u64) {
        self.advance_by(done.saturating_sub(self.bar.position()));
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    /// Also when the work was broken off.
    fn drop(&mut self) {
        self.end();
    }
}

fn rate(state: &ProgressState, to: &mut dyn fmt::Write) {
    // A bar whose line cannot be written is drawn without it.
    let _ = write!(to, "{}/s", readable(state.per_sec().round()));
}

impl Watch for Bars {
    fn begin(&self, what: &str, total: u64) {
        self.draw_if_late();
        let bar = match total {
            0 => ProgressBar::new_spinner().with_style(self.spinner_style.clone()),
            _ => ProgressBar::new(total).with_style(self.bar_style.clone()),
        };
        let bar = self.multi.add(bar.with_message(what.to_owned()));
        // Drawn once now; a thread that ticks would be measured with the rest.
        bar.tick();
        *self.current() = Some(bar);
    }

    fn advance(&self, by: u64) {
        self.draw_if_late();
        if let Some(bar) = &*self.current() {
            bar.inc(by);
        }
    }

    fn end(&self) {
        if let Some(bar) = self.current().take() {
            bar.finish_and_clear();
        }
    }
}

/// A size as people read it.
pub fn readable_bytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// A duration as people read it.
pub fn readable_time(time: Duration) -> String {
    let ms = time.as_millis();
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.1} s", time.as_secs_f64()),
        _ => format!("{}m {}s", ms / 60_000, ms / 1_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_aligns_its_columns_and_has_no_codes_without_colour() {
        let mut table = Table::new(&["kind", "n"]);
        table.row(vec!["mail".into(), "12".into()]);
        table.row(vec!["x".into(), "3".into()]);
        assert_eq!(table.render(Paint(false)), "kind   n\nmail  12\nx      3");
        assert!(table.render(Paint(true)).starts_with("\x1b[1mkind"));
    }

    #[test]
    fn colours_do_not_move_columns() {
        let mut table = Table::left(&["state", "found"]);
        table.row(vec![Paint(true).green("ok"), "x".into()]);
        assert_eq!(table.render(Paint(false)), "state  found\n\x1b[32mok\x1b[0m     x");
    }

    #[test]
    fn times_read_well() {
        let read = |ms| readable_time(Duration::from_millis(ms));
        assert_eq!([read(7), read(1_250), read(252_000)], ["7 ms", "1.2 s", "4m 12s"]);
        assert_eq!([999, 1_500, 2_000_000].map(readable_bytes), ["999 B", "1.5 kB", "2.0 MB"]);
    }

    #[test]
    fn a_view_is_drawn_over_the_last_one_and_cannot_move_the_cursor_itself() {
        let (text, rows) = redrawn(3, "\x1b[32mok\x1b[0m\nx\x1b[2J", true, Some(80));
        assert_eq!((text.as_str(), rows), ("\x1b[3F\x1b[J\x1b[32mok\x1b[0m\nx\\u001b[2J", 2));
        assert_eq!(redrawn(0, "1234\u{202e}", false, Some(5)), (r"1234\u202e".to_owned(), 2), "rows of what is shown");
    }

    #[test]
    fn a_long_line_takes_as_many_rows_as_it_needs() {
        assert_eq!(rows("12345\n\n\x1b[31m1234\x1b[0m", Some(4)), 4);
        assert_eq!(rows("12345", None), 1);
    }
}
