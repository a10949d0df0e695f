//! The graph of a flow as `weft-graph` draws it.

use super::id::short;
use super::time::span;
use std::collections::HashMap;
use weft_api::execution::PublicState;
use weft_api::flow::{Edge, EdgeState, Graph, GroupPolicy, Node, On};
use weft_graph::{Rule, State};

/// A graph to draw. An edge to a member that was added after the nodes were read leads nowhere, and the picture says so.
pub fn picture(graph: &Graph, now: u64) -> weft_graph::Graph {
    let executions: HashMap<&str, usize> = places(graph, |node| &node.execution);
    let keys: HashMap<&str, usize> = places(graph, |node| &node.key);
    let place = |key: &str| keys.get(key).copied().unwrap_or(usize::MAX);
    let node = |node: &Node| weft_graph::Node {
        duration_ms: duration_ms(node, now),
        attempts: node.attempts,
        note: node.reason.clone().filter(|_| node.public_state != PublicState::Completed),
        parent: node.parent.as_deref().and_then(|parent| executions.get(parent).copied()),
        ..weft_graph::Node::new(&node.key, &node.kind, state(node.public_state))
    };
    let edge = |edge: &Edge| weft_graph::Edge {
        from: place(&edge.from),
        to: place(&edge.to),
        group: edge.group.clone(),
        rule: keys.get(edge.to.as_str()).map_or(Rule::AllOf, |to| rule(&graph.nodes[*to], &edge.group)),
        on: match edge.on {
            On::Success => weft_graph::On::Success,
            On::Failure => weft_graph::On::Failure,
            On::Any => weft_graph::On::Any,
        },
        state: match edge.state {
            EdgeState::Pending => weft_graph::EdgeState::Pending,
            EdgeState::Met => weft_graph::EdgeState::Met,
            EdgeState::Unmet => weft_graph::EdgeState::Unmet,
        },
        input: edge.input.clone(),
    };
    let ended = graph.nodes.iter().filter(|node| node.public_state.is_terminal()).count();
    weft_graph::Graph {
        title: format!("{} {}", graph.kind, short(&graph.id)),
        state: graph.public_flow_state.name().to_owned(),
        summary: Some(summary(graph, ended, now)),
        nodes: graph.nodes.iter().map(node).collect(),
        edges: graph.edges.iter().map(edge).collect(),
    }
}

/// `7 of 9 done · 4m 12s`: how long it took from the first start on, or has taken so far.
fn summary(graph: &Graph, ended: usize, now: u64) -> String {
    let done = format!("{ended} of {} done", graph.nodes.len());
    let Some(began) = graph.nodes.iter().filter_map(|node| node.first_started_at).min() else { return done };
    let until = match graph.public_flow_state.is_terminal() {
        true => graph.nodes.iter().filter_map(|node| node.finished_at).max().unwrap_or(began),
        false => now,
    };
    format!("{done} · {}", span(until.saturating_sub(began)))
}

fn places(graph: &Graph, name: impl Fn(&Node) -> &String) -> HashMap<&str, usize> {
    graph.nodes.iter().enumerate().map(|(at, node)| (name(node).as_str(), at)).collect()
}

fn state(state: PublicState) -> State {
    match state {
        PublicState::Waiting => State::Waiting,
        PublicState::Delayed => State::Delayed,
        PublicState::RateLimited => State::RateLimited,
        PublicState::WaitingChildren => State::WaitingChildren,
        PublicState::Held => State::Held,
        PublicState::Active => State::Active,
        PublicState::Suspended => State::Suspended,
        PublicState::Completed => State::Completed,
        PublicState::Failed => State::Failed,
        PublicState::Cancelled => State::Cancelled,
        PublicState::Expired => State::Expired,
        PublicState::Skipped => State::Skipped,
    }
}

/// From its first start to its end, or to now. One that waits for a worker again is not being worked at.
fn duration_ms(node: &Node, now: u64) -> Option<u64> {
    let until = match node.public_state {
        PublicState::Waiting => return None,
        state if state.is_terminal() => node.finished_at?,
        _ => now,
    };
    Some(until.saturating_sub(node.first_started_at?))
}

fn rule(to: &Node, group: &str) -> Rule {
    let group = to.groups.iter().find(|one| one.name == group);
    match group.map(|group| (group.policy, group.n)) {
        None | Some((GroupPolicy::AllOf {}, _)) => Rule::AllOf,
        Some((GroupPolicy::AnyOf {}, _)) => Rule::AnyOf,
        Some((GroupPolicy::Quorum { k }, n)) => Rule::Quorum { k, n },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_graph_is_drawn_with_its_groups_and_its_reasons() {
        let node = |key: &str, state: &str| {
            json!({"key": key, "execution": format!("x_{key}"), "kind": "load", "public_state": state, "critical": true,
                "attempts": 1, "first_started_at": 1_000, "finished_at": 2_200, "reason": "why"})
        };
        let mut join = node("join", "skipped");
        join["parent"] = json!("x_a");
        join["groups"] = json!([{"member": "join", "name": "main", "policy": {"kind": "quorum", "k": 1},
            "then": {"kind": "let_run"}, "n": 2, "needed": 1, "met": 0, "unmet": 2, "pending": 0, "state": "impossible"}]);
        let edge = |from: &str| json!({"from": from, "to": "join", "group": "main", "on": "success", "state": "unmet"});
        let graph = json!({"id": "f_7_0192f3c1-6b1e-7c55-9a40-5d2f6d51c0aa", "kind": "etl", "public_flow_state": "failed",
            "revision": 1, "nodes": [node("a", "failed"), node("b", "active"), join, node("c", "waiting")], "edges": [edge("a"), edge("z")]});
        let drawn = picture(&serde_json::from_value(graph).unwrap(), 4_000);
        assert_eq!((drawn.title.as_str(), drawn.summary.as_deref()), ("etl …51c0aa", Some("2 of 4 done · 1.2s")));
        assert_eq!(
            drawn.nodes.iter().map(|node| node.duration_ms).collect::<Vec<_>>(),
            [Some(1_200), Some(3_000), Some(1_200), None]
        );
        assert_eq!((drawn.nodes[0].note.as_deref(), drawn.nodes[2].parent), (Some("why"), Some(0)));
        assert_eq!((drawn.edges[0].from, drawn.edges[0].to, drawn.edges[0].rule), (0, 2, Rule::Quorum { k: 1, n: 2 }));
        assert_eq!(drawn.edges[1].from, usize::MAX, "a member that is not there");
    }
}
