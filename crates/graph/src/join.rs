//! The groups of edges that lead to a member, and how each joins them.

use crate::link::{Links, What};
use crate::model::{EdgeState, Graph, MAIN, Rule};
use crate::text::{number, plain};
use std::collections::BTreeMap;

/// A group of a downstream with at least one edge.
#[derive(Debug, PartialEq, Eq)]
pub struct Join {
    /// The downstream.
    pub to: usize,
    pub rule: Rule,
    pub state: EdgeState,
    /// How many edges it has.
    pub edges: usize,
    /// What it is called, made plain; empty for the group that needs no name.
    name: String,
}

/// All groups, in the order of their first edges.
#[derive(Debug)]
pub struct Joins {
    pub all: Vec<Join>,
    /// The group of each link, by the link's place; children are in none.
    pub of_link: Vec<Option<usize>>,
}

impl Joins {
    pub fn of(graph: &Graph, links: &Links) -> Self {
        let mut places = BTreeMap::new();
        let mut joins = Joins { all: Vec::new(), of_link: Vec::with_capacity(links.all.len()) };
        let mut resolved: Vec<(usize, usize)> = Vec::new();
        for link in &links.all {
            let What::Edge(at) = link.what else {
                joins.of_link.push(None);
                continue;
            };
            let edge = &graph.edges[at];
            let place = *places.entry((edge.to, edge.group.as_str())).or_insert_with(|| {
                let name = if edge.group == MAIN { String::new() } else { plain(&edge.group) };
                joins.all.push(Join { to: edge.to, rule: edge.rule, state: EdgeState::Pending, edges: 0, name });
                resolved.push((0, 0));
                joins.all.len() - 1
            });
            joins.of_link.push(Some(place));
            joins.all[place].edges += 1;
            resolved[place].0 += usize::from(edge.state == EdgeState::Met);
            resolved[place].1 += usize::from(edge.state == EdgeState::Unmet);
        }
        for (join, (met, unmet)) in joins.all.iter_mut().zip(resolved) {
            join.state = join.decided(met, unmet);
        }
        joins
    }
}

impl Join {
    /// As the engine decides it once all edges are known.
    fn decided(&self, met: usize, unmet: usize) -> EdgeState {
        let (k, n) = match self.rule {
            Rule::AllOf => (self.edges, self.edges),
            Rule::AnyOf => (1, self.edges),
            Rule::Quorum { k, n } => (k as usize, self.edges.max(n as usize)),
        };
        if met >= k {
            EdgeState::Met
        } else if unmet > n.saturating_sub(k) {
            EdgeState::Unmet
        } else {
            EdgeState::Pending
        }
    }

    /// The mark in front of the downstream: `any of`, `2 of 3`. None where waiting for all is meant, which needs no mark,
    /// nor at a choice of one.
    pub fn mark(&self) -> Option<String> {
        let words = match self.rule {
            Rule::AllOf => return None,
            Rule::AnyOf if self.edges < 2 => return None,
            Rule::AnyOf => "any of".to_owned(),
            Rule::Quorum { k, n } => format!("{} of {}", number(k as usize), number(n as usize)),
        };
        Some(self.named(words))
    }

    /// The group in words, where there is anything to join: `all of 2`, `any of 3`, `2 of 3`.
    pub fn words(&self) -> Option<String> {
        let words = match self.rule {
            Rule::Quorum { k, n } => format!("{} of {}", number(k as usize), number(n as usize)),
            _ if self.edges < 2 => return None,
            Rule::AllOf => format!("all of {}", number(self.edges)),
            Rule::AnyOf => format!("any of {}", number(self.edges)),
        };
        Some(self.named(words))
    }

    fn named(&self, words: String) -> String {
        if self.name.is_empty() { words } else { format!("{}: {words}", self.name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Edge, Node};
    use crate::state::State;

    fn joins(edges: Vec<Edge>) -> Joins {
        let nodes = (0..5).map(|at| Node::new(at.to_string(), "x", State::Waiting)).collect();
        let graph = Graph { nodes, edges, ..Graph::default() };
        Joins::of(&graph, &Links::of(&graph))
    }

    #[test]
    fn groups_are_marked_by_their_rule() {
        let edge = |from, group: &str, rule| Edge { group: group.to_owned(), rule, ..Edge::new(from, 4) };
        let votes = Rule::Quorum { k: 2, n: 3 };
        let joins = joins(vec![
            edge(0, "main", Rule::AllOf),
            edge(1, "main", Rule::AllOf),
            edge(0, "first", Rule::AnyOf),
            edge(1, "first", Rule::AnyOf),
            edge(0, "votes", votes),
            edge(3, "one", Rule::AnyOf),
        ]);
        let marks: Vec<Option<String>> = joins.all.iter().map(Join::mark).collect();
        assert_eq!(marks, [None, Some("first: any of".into()), Some("votes: 2 of 3".into()), None]);
        let words: Vec<Option<String>> = joins.all.iter().map(Join::words).collect();
        assert_eq!(
            words,
            [Some("all of 2".into()), Some("first: any of 2".into()), Some("votes: 2 of 3".into()), None]
        );
        assert_eq!(joins.of_link, [Some(0), Some(0), Some(1), Some(1), Some(2), Some(3)]);
    }

    #[test]
    fn a_group_is_decided_as_soon_as_it_can_be() {
        use EdgeState::{Met, Pending, Unmet};
        for (rule, states, decided) in [
            (Rule::AllOf, [Met, Met, Pending], Pending),
            (Rule::AllOf, [Met, Unmet, Pending], Unmet),
            (Rule::AllOf, [Met, Met, Met], Met),
            (Rule::AnyOf, [Unmet, Pending, Unmet], Pending),
            (Rule::AnyOf, [Unmet, Met, Pending], Met),
            (Rule::AnyOf, [Unmet, Unmet, Unmet], Unmet),
            (Rule::Quorum { k: 2, n: 3 }, [Met, Unmet, Pending], Pending),
            (Rule::Quorum { k: 2, n: 3 }, [Unmet, Unmet, Pending], Unmet),
            (Rule::Quorum { k: 2, n: 3 }, [Met, Unmet, Met], Met),
            (Rule::Quorum { k: 2, n: 5 }, [Unmet, Unmet, Unmet], Pending),
        ] {
            let edges = states.iter().enumerate();
            let edges = edges.map(|(from, state)| Edge { rule, state: *state, ..Edge::new(from, 4) }).collect();
            assert_eq!(joins(edges).all[0].state, decided, "{rule:?} of {states:?}");
        }
    }
}
