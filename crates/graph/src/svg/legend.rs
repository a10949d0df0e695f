//! What the signs and lines mean, below the picture: only those that occur.

use super::icon::icon;
use super::markup::text;
use super::measure::SMALL;
use super::wire::Look;
use crate::counts::Counts;
use crate::layout::Plan;
use crate::model::Graph;
use crate::state::State;

pub struct Legend {
    pub markup: String,
    pub height: i64,
}

const LINE: i64 = 24;
const BETWEEN: i64 = 18;

enum Entry {
    State(State),
    Line(Look),
}

impl Legend {
    pub fn of(graph: &Graph, plan: &Plan, width: i64) -> Self {
        let counts = Counts::of(graph.nodes.iter().map(|node| node.state));
        let states = State::ALL.into_iter().filter(|state| counts.count(*state) > 0).map(Entry::State);
        let looks = Look::occurring(graph, plan);
        // Where all lines look alike there is nothing to tell apart.
        let lines = if looks.len() > 1 { looks } else { Vec::new() };
        let (mut markup, mut x, mut y) = (String::new(), 0, 0);
        for entry in states.chain(lines.into_iter().map(Entry::Line)) {
            let (words, lead) = match &entry {
                Entry::State(state) => (state.word(), 22),
                Entry::Line(look) => (look.words(), 40),
            };
            let room = lead + SMALL.width(words);
            if x > 0 && x + room > width {
                (x, y) = (0, y + LINE);
            }
            let sign = match &entry {
                Entry::State(state) => {
                    format!("<g class=\"wg-{}\">\n{}</g>\n", state.word(), icon(*state, x + 8, y + LINE))
                }
                Entry::Line(look) => look.sample(x, y + LINE),
            };
            markup.push_str(&sign);
            markup.push_str(&text("wg-muted", x + lead, y + LINE + 4, words));
            x += room + BETWEEN;
        }
        let height = if markup.is_empty() { 0 } else { y + LINE + 10 };
        Legend { markup, height }
    }
}
