//! One line of a tree: its cells, their colours, and cutting it to the width of the terminal.

use super::Options;
use crate::model::Node;
use crate::span::span;
use crate::state::State;
use crate::text::{columns, fit_end, fit_middle, letter_columns, plain};

pub struct Row {
    /// The branches in front of it.
    pub lead: String,
    pub key: String,
    pub kind: String,
    pub state: State,
    pub time: String,
    /// What else there is to say.
    pub rest: String,
}

impl Row {
    pub fn of(node: &Node, lead: String, said: Vec<String>) -> Self {
        let attempts = (node.attempts > 1).then(|| format!("{} attempts", node.attempts));
        // The state has a column of its own.
        let status = plain(&node.status());
        let note = status.strip_prefix(node.state.word()).unwrap_or_default().trim_start_matches([':', ' ']);
        let note = (!note.is_empty()).then(|| note.to_owned());
        let rest: Vec<String> = attempts.into_iter().chain(note).chain(said).collect();
        Row {
            lead,
            key: plain(&node.key),
            kind: plain(&node.kind),
            state: node.state,
            time: node.duration_ms.map(span).unwrap_or_default(),
            rest: rest.join(" · "),
        }
    }

    /// Without blanks at its end, and within the width.
    pub fn line(&self, options: &Options, [label, kind, state, time]: [usize; 4]) -> String {
        let colour = colour(self.state);
        let lead = columns(&self.lead) + 2;
        let key = label.saturating_sub(lead).max(1);
        let cells = [
            ("1", fit_middle(&self.key, key, letter_columns), key),
            ("2", fit_middle(&self.kind, kind, letter_columns), kind),
            (colour, self.state.word().to_owned(), state),
            ("", self.time.clone(), time),
            ("2", self.rest.clone(), 0),
        ];
        let mut line = paint(options.colour, "2", &self.lead);
        line.push_str(&paint(options.colour, colour, &self.state.glyph().to_string()));
        line.push(' ');
        let mut left = options.width.unwrap_or(usize::MAX).saturating_sub(lead);
        // Blanks that are due once something follows.
        let mut due = 0;
        for (codes, text, width) in cells.into_iter().filter(|(_, text, width)| *width > 0 || !text.is_empty()) {
            if !text.is_empty() && left > due {
                let text = fit_end(&text, left - due, letter_columns);
                line.push_str(&" ".repeat(due));
                line.push_str(&paint(options.colour, codes, &text));
                left -= due + columns(&text);
                due = 0;
            }
            due += width.saturating_sub(columns(&text)) + 2;
        }
        line
    }
}

/// The text between the codes of a colour, if colours are asked for.
pub fn paint(colour: bool, codes: &str, text: &str) -> String {
    match colour && !codes.is_empty() && !text.is_empty() {
        true => format!("\x1b[{codes}m{text}\x1b[0m"),
        false => text.to_owned(),
    }
}

/// The sixteen colours that every terminal has, which its owner has chosen so that they can be read.
fn colour(state: State) -> &'static str {
    match state {
        State::Completed => "32",
        State::Failed => "1;31",
        State::Expired => "31",
        State::Active => "36",
        State::Suspended => "35",
        State::Delayed | State::RateLimited | State::Held => "33",
        State::WaitingChildren => "34",
        State::Waiting => "",
        State::Cancelled | State::Skipped => "2",
    }
}
