//! How many members are in which state, in words.

use crate::link::Links;
use crate::model::Graph;
use crate::state::State;
use crate::text::{number, plain};

/// Members by state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts([usize; State::ALL.len()]);

impl Counts {
    pub fn of(states: impl IntoIterator<Item = State>) -> Self {
        let mut counts = Counts::default();
        for state in states {
            counts.0[state as usize] += 1;
        }
        counts
    }

    pub fn total(&self) -> usize {
        self.0.iter().sum()
    }

    pub fn count(&self, state: State) -> usize {
        self.0[state as usize]
    }

    /// The states that occur, the most frequent first and by their order in life where equal.
    pub fn occurring(&self) -> Vec<(State, usize)> {
        let all = State::ALL.into_iter().map(|state| (state, self.count(state)));
        let mut occurring: Vec<_> = all.filter(|(_, count)| *count > 0).collect();
        occurring.sort_by_key(|(state, count)| (std::cmp::Reverse(*count), *state));
        occurring
    }

    /// `9,970 completed`, `10 active`: one for every state that occurs.
    pub fn words(&self) -> Vec<String> {
        self.occurring().into_iter().map(|(state, count)| format!("{} {}", number(count), state.word())).collect()
    }
}

/// What the flow is called and how it is: `order-4711: running`.
pub fn headline(graph: &Graph) -> String {
    let words = [plain(&graph.title), plain(&graph.state)];
    words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(": ")
}

/// What is said about the flow as a whole, after its title and state: `fail_fast · 4 members: 3 completed, 1 active`.
pub fn summary(graph: &Graph, links: &Links) -> String {
    let counts = Counts::of(graph.nodes.iter().map(|node| node.state));
    let members = match counts.total() {
        0 => "no members".to_owned(),
        1 => format!("1 member: {}", counts.words().join(", ")),
        total => format!("{} members: {}", number(total), counts.words().join(", ")),
    };
    let said = graph.summary.as_deref().filter(|said| !said.is_empty()).map(plain);
    let astray = match links.astray {
        0 => None,
        1 => Some("1 edge leads nowhere".to_owned()),
        astray => Some(format!("{} edges lead nowhere", number(astray))),
    };
    let words: Vec<String> = said.into_iter().chain([members]).chain(astray).collect();
    words.join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Edge, Node};

    #[test]
    fn the_most_frequent_state_is_named_first() {
        let states = [State::Skipped, State::Active, State::Completed, State::Completed];
        assert_eq!(Counts::of(states).words(), ["2 completed", "1 active", "1 skipped"]);
    }

    #[test]
    fn a_summary_counts_members_and_owns_up_to_what_cannot_be_drawn() {
        let mut graph = Graph::default();
        let said = |graph: &Graph| summary(graph, &Links::of(graph));
        assert_eq!(said(&graph), "no members");
        graph.nodes.push(Node::new("a", "x", State::Active));
        graph.summary = Some("fail_fast".to_owned());
        assert_eq!(said(&graph), "fail_fast · 1 member: 1 active");
        graph.edges.push(Edge::new(0, 7));
        assert_eq!(said(&graph), "fail_fast · 1 member: 1 active · 1 edge leads nowhere");
        graph.nodes[0].parent = Some(3);
        assert_eq!(said(&graph), "fail_fast · 1 member: 1 active · 2 edges lead nowhere");
    }
}
