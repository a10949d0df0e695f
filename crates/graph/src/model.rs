//! What is drawn: a flow, its members and the edges between them. Owns no rules: who fills it in says what is so.

use crate::state::State;

/// A flow at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// What the picture is called, usually the flow's kind or id.
    pub title: String,
    /// The public state of the flow, such as `running`.
    pub state: String,
    /// A few words more for the headline, such as `fail_fast, 4m 12s`. How many members are in which state is counted
    /// from `nodes` and need not be said here.
    pub summary: Option<String>,
    /// The members, in the order in which they were added. Edges and parents name them by their place here.
    pub nodes: Vec<Node>,
    /// In the order in which they were added. An edge to a place where no node is cannot be drawn; the headline says how
    /// many there are. A cycle is cut at one edge, which is drawn as leading back.
    pub edges: Vec<Edge>,
}

/// A member of the flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub key: String,
    pub kind: String,
    pub state: State,
    /// How long it has been running or ran; absent if it never began.
    pub duration_ms: Option<u64>,
    /// Attempts so far. More than one is shown.
    pub attempts: u32,
    /// A few words on its state, such as `cancelled: sibling`.
    pub note: Option<String>,
    /// The member that submitted it as its child.
    pub parent: Option<usize>,
}

impl Node {
    /// A member that never began and of which nothing else is known.
    pub fn new(key: impl Into<String>, kind: impl Into<String>, state: State) -> Self {
        let (key, kind) = (key.into(), kind.into());
        Self { key, kind, state, duration_ms: None, attempts: 0, note: None, parent: None }
    }

    /// The state in words, with the note. A note that begins with the state does not repeat it.
    pub(crate) fn status(&self) -> String {
        let word = self.state.word();
        match self.note.as_deref().filter(|note| !note.is_empty()) {
            None => word.to_owned(),
            Some(note) if note.starts_with(word) => note.to_owned(),
            Some(note) => format!("{word}: {note}"),
        }
    }
}

/// Downstream waits for upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The upstream, as a place in [`Graph::nodes`].
    pub from: usize,
    /// The downstream, as a place in [`Graph::nodes`].
    pub to: usize,
    /// The downstream's group that the edge is in.
    pub group: String,
    /// How the group joins its edges. Of edges in one group that disagree, the first is believed.
    pub rule: Rule,
    pub on: On,
    pub state: EdgeState,
    /// The name under which the downstream gets the upstream's result.
    pub input: Option<String>,
}

impl Edge {
    /// A pending edge on success in the group `main`, which waits for all of its edges.
    pub fn new(from: usize, to: usize) -> Self {
        let group = MAIN.to_owned();
        Self { from, to, group, rule: Rule::AllOf, on: On::Success, state: EdgeState::Pending, input: None }
    }

    /// What is said about the edge beyond its state: when it is met, if not on success, and the name of the input.
    pub(crate) fn label(&self) -> String {
        let input = self.input.as_deref().filter(|input| !input.is_empty());
        let said: Vec<&str> = self.on.words().into_iter().chain(input).collect();
        said.join(" · ")
    }
}

/// The name of the group that an edge is in if nobody says otherwise.
pub(crate) const MAIN: &str = "main";

/// How many edges of a group must be met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    #[default]
    AllOf,
    AnyOf,
    /// `k` of the `n` edges of the group. `n` is said, because a graph may be drawn without all of its edges.
    Quorum {
        k: u32,
        n: u32,
    },
}

/// Which end of the upstream meets the edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum On {
    #[default]
    Success,
    Failure,
    Any,
}

impl On {
    /// Nothing for what is usual.
    pub(crate) fn words(self) -> Option<&'static str> {
        match self {
            On::Success => None,
            On::Failure => Some("on failure"),
            On::Any => Some("on any end"),
        }
    }
}

/// Whether the upstream has ended, and as the edge asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum EdgeState {
    #[default]
    Pending,
    Met,
    Unmet,
}

impl EdgeState {
    pub(crate) fn word(self) -> &'static str {
        match self {
            EdgeState::Pending => "pending",
            EdgeState::Met => "met",
            EdgeState::Unmet => "unmet",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_does_not_repeat_the_state() {
        let mut node = Node::new("a", "x", State::Cancelled);
        for (note, status) in [
            (None, "cancelled"),
            (Some(""), "cancelled"),
            (Some("cancelled: sibling"), "cancelled: sibling"),
            (Some("sibling"), "cancelled: sibling"),
        ] {
            node.note = note.map(str::to_owned);
            assert_eq!(node.status(), status);
        }
    }

    #[test]
    fn an_edge_on_success_without_input_says_nothing() {
        let edge = Edge::new(0, 1);
        assert_eq!(edge.label(), "");
        let input = Some("invoice".to_owned());
        assert_eq!(Edge { on: On::Failure, input: input.clone(), ..edge.clone() }.label(), "on failure · invoice");
        assert_eq!(Edge { on: On::Any, ..edge.clone() }.label(), "on any end");
        assert_eq!(Edge { input, ..edge }.label(), "invoice");
    }
}
