//! The lines above the picture: what the flow is called, how it is, and how many members it has in which state.

use super::markup::{escape, text};
use super::measure::{KEY, SMALL, TITLE};
use crate::counts::summary;
use crate::link::Links;
use crate::model::Graph;
use crate::state::State;
use crate::text::plain;

pub struct Header {
    pub markup: String,
    pub height: i64,
    /// The state in whose colour the state of the flow is written.
    pub tone: State,
}

const LINE: i64 = 16;
/// From the title to the state.
const BETWEEN: i64 = 10;

impl Header {
    pub fn of(graph: &Graph, links: &Links, width: i64) -> Self {
        let state = KEY.fit_end(&plain(&graph.state), width / 2);
        // Beside it no margin takes what a wider font needs, so that a part of the room stays free.
        let room = (width - KEY.width(&state) - BETWEEN) * 85 / 100;
        let title = TITLE.fit_end(&plain(&graph.title), room);
        let tone = tone(&graph.state);
        // One text, so that the state follows the title however wide the font is.
        let mut markup = format!(
            "<text class=\"wg-{}\" y=\"17\"><tspan class=\"wg-title\">{}</tspan>\
             <tspan class=\"wg-key wg-ink\" dx=\"{BETWEEN}\">{}</tspan></text>\n",
            tone.word(),
            escape(&title),
            escape(&state)
        );
        let lines = SMALL.wrap(&summary(graph, links), width);
        for (at, line) in lines.iter().enumerate() {
            markup.push_str(&text("wg-muted", 0, 40 + LINE * at as i64, line));
        }
        Header { markup, height: 40 + LINE * lines.len() as i64, tone }
    }
}

/// A flow that is on its way is shown like a member that is; states that only flows have are shown as the nearest one.
fn tone(state: &str) -> State {
    match state {
        "running" | "ending" => State::Active,
        "blocked" => State::Delayed,
        _ => State::from_word(state).unwrap_or(State::Waiting),
    }
}
