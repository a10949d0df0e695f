//! How much room text takes. No font is known here, so letters a little wider than those of most are assumed, and the margin
//! of a box takes what a wider font needs.

use crate::join::Join;
use crate::layout::{Cell, Content, Kind, Plan, Sizes, Wire};
use crate::link::What;
use crate::model::{EdgeState, Graph, Node};
use crate::span::span;
use crate::text::{fit_end, fit_middle, letter_columns, number, plain};

/// A size in pixels and a weight, as the style of the picture has them.
#[derive(Clone, Copy)]
pub struct Font {
    pub size: usize,
    pub bold: bool,
}

pub const TITLE: Font = Font { size: 17, bold: true };
pub const KEY: Font = Font { size: 13, bold: true };
pub const SMALL: Font = Font { size: 11, bold: false };
pub const TINY: Font = Font { size: 10, bold: false };

impl Font {
    /// In thousandths of a pixel.
    fn letter(self, letter: char) -> usize {
        let width = match letter {
            'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | '·' | ' ' => 290,
            'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '{' | '}' | '-' | '/' | '\\' => 370,
            'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' | '→' | '✓' => 900,
            'A'..='Z' | '+' | '=' | '<' | '>' | '#' | '~' | '&' | '×' => 700,
            _ => match letter_columns(letter) {
                0 => 0,
                1 => 580,
                _ => 1_000,
            },
        };
        width * self.size * if self.bold { 108 } else { 100 } / 100
    }

    /// In whole pixels.
    pub fn width(self, text: &str) -> i64 {
        text.chars().map(|letter| self.letter(letter)).sum::<usize>().div_ceil(1_000) as i64
    }

    pub fn fit_middle(self, text: &str, room: i64) -> String {
        fit_middle(text, room.max(0) as usize * 1_000, |letter| self.letter(letter))
    }

    pub fn fit_end(self, text: &str, room: i64) -> String {
        fit_end(text, room.max(0) as usize * 1_000, |letter| self.letter(letter))
    }

    /// The words in as few lines as fit the room; a word that is too long has a line of its own and is cut.
    pub fn wrap(self, text: &str, room: i64) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in text.split(' ') {
            match lines.last_mut() {
                Some(line) if self.width(line) + self.width(" ") + self.width(word) <= room => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(self.fit_end(word, room)),
            }
        }
        lines
    }
}

/// From the left side of a box to its text, and from the text to the right side.
pub const TEXT_LEFT: i64 = 34;
pub const TEXT_RIGHT: i64 = 13;
/// The most that a line of text in a box takes.
const TEXT_MAX: i64 = 176;
const TEXT_MIN: i64 = 84;
pub const LINE: i64 = 17;
/// From the top of a box to the baseline of its first line.
pub const FIRST_LINE: i64 = 24;

pub fn sizes(graph: &Graph, plan: &Plan) -> Sizes {
    Sizes {
        cells: plan.folded.cells.iter().map(|cell| cell_size(graph, cell)).collect(),
        labels: plan.folded.wires.iter().map(|wire| TINY.width(&label(graph, plan, wire))).collect(),
        marks: plan.joins.all.iter().map(|join| mark(join).map_or(0, |mark| TINY.width(&mark) + 18)).collect(),
    }
}

fn cell_size(graph: &Graph, cell: &Cell) -> (i64, i64) {
    let (texts, lines) = match &cell.content {
        Content::Node(at) => {
            let node = &graph.nodes[*at];
            let status = Status::of(node);
            let widths = [
                KEY.width(&plain(&node.key)),
                SMALL.width(&plain(&node.kind)),
                SMALL.width(&status.words) + SMALL.width(&status.rest),
                SMALL.width(&status.note),
            ];
            (widths.into_iter().max().unwrap_or(0), status.lines() + 2)
        }
        Content::More(counts) => {
            let words = counts.words();
            let widest = words.iter().map(|words| SMALL.width(words)).max().unwrap_or(0);
            (widest.max(KEY.width(&more(counts.total()))), 1 + words.len())
        }
    };
    (TEXT_LEFT + texts.clamp(TEXT_MIN, TEXT_MAX) + TEXT_RIGHT, height(lines))
}

/// How high a box with so many lines is.
pub fn height(lines: usize) -> i64 {
    FIRST_LINE + LINE * (lines as i64 - 1) + 12
}

/// What a box of many is called.
pub fn more(count: usize) -> String {
    format!("… {} more", number(count))
}

/// What a box says about the state of its member.
pub struct Status {
    pub words: String,
    /// What stands after these: how long, and how often.
    pub rest: String,
    /// On a line of its own if there is no room for it with the words.
    pub note: String,
}

impl Status {
    pub fn of(node: &Node) -> Self {
        let duration = node.duration_ms.map(span);
        let attempts = (node.attempts > 1).then(|| format!("{} attempts", node.attempts));
        let rest: String = duration.into_iter().chain(attempts).map(|words| format!(" · {words}")).collect();
        let (word, words) = (node.state.word(), plain(&node.status()));
        if SMALL.width(&words) + SMALL.width(&rest) <= TEXT_MAX {
            return Status { words, rest, note: String::new() };
        }
        let note = words.strip_prefix(word).unwrap_or_default().trim_start_matches([':', ' ']).to_owned();
        Status { words: word.to_owned(), rest, note }
    }

    pub fn lines(&self) -> usize {
        1 + usize::from(!self.note.is_empty())
    }
}

/// The most that is written at a line or in a mark.
const LABEL_MAX: i64 = 130;

/// What is written in the mark of a group.
pub fn mark(join: &Join) -> Option<String> {
    join.mark().map(|mark| TINY.fit_middle(&mark, LABEL_MAX))
}

/// Where more wires than this stand for many, their numbers would lie on each other; pointing at one still tells its number.
const SHARED_LABELLED_MAX: usize = 16;

/// What is written at a wire. One that stands for many says how many, by state if they differ.
pub fn label(graph: &Graph, plan: &Plan, wire: &Wire) -> String {
    match wire.links.as_slice() {
        [one] => match plan.links.all[*one].what {
            What::Edge(edge) => TINY.fit_middle(&plain(&graph.edges[edge].label()), LABEL_MAX),
            What::Child => String::new(),
        },
        _ if plan.folded.shared > SHARED_LABELLED_MAX => String::new(),
        many if wire.kind == Kind::Child => format!("×{}", number(many.len())),
        many => match by_state(graph, plan, wire).as_slice() {
            [_] => format!("×{}", number(many.len())),
            states => states
                .iter()
                .map(|(state, n)| format!("{} {}", number(*n), state.word()))
                .collect::<Vec<_>>()
                .join(", "),
        },
    }
}

/// The states of the edges of a wire that occur, the most frequent first.
pub fn by_state(graph: &Graph, plan: &Plan, wire: &Wire) -> Vec<(EdgeState, usize)> {
    let states = [EdgeState::Met, EdgeState::Unmet, EdgeState::Pending];
    let state_of = |link: &usize| match plan.links.all[*link].what {
        What::Edge(edge) => Some(graph.edges[edge].state),
        What::Child => None,
    };
    let count = |state: EdgeState| wire.links.iter().filter(|link| state_of(link) == Some(state)).count();
    let mut counted: Vec<_> = states.into_iter().map(|state| (state, count(state))).filter(|(_, n)| *n > 0).collect();
    counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counted
}
