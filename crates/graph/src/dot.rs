//! A flow for Graphviz.

use crate::counts::{headline, summary};
use crate::join::Joins;
use crate::link::{Links, What};
use crate::model::{EdgeState, Graph, Node};
use crate::palette::LIGHT;
use crate::span::span;
use crate::text::plain;

/// The flow as a graph in the DOT language, all of its members and edges. Members are called `n0`, `n1`, … by their places,
/// groups that do not wait for all of their edges are diamonds.
pub fn dot(graph: &Graph) -> String {
    let links = Links::of(graph);
    let joins = Joins::of(graph, &links);
    let title = format!("{}\\n{}", quoted(&headline(graph)), quoted(&summary(graph, &links)));
    let mut out = format!(
        "digraph flow {{\n  \
         graph [rankdir=LR, labelloc=t, labeljust=l, fontname=\"sans-serif\", label=\"{title}\"];\n  \
         node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\", fontsize=11];\n  \
         edge [fontname=\"sans-serif\", fontsize=9, color=\"{line}\", fontcolor=\"{line}\"];\n",
        line = LIGHT.line.hex()
    );
    for (at, node) in graph.nodes.iter().enumerate() {
        out.push_str(&format!("  n{at} [{}];\n", member(node)));
    }
    for (at, join) in joins.all.iter().enumerate() {
        if let Some(mark) = join.mark() {
            out.push_str(&format!("  g{at} [shape=diamond, style=solid, fontsize=9, label=\"{}\"];\n", quoted(&mark)));
            out.push_str(&format!("  g{at} -> n{} [{}];\n", join.to, look(join.state)));
        }
    }
    for (at, link) in links.all.iter().enumerate() {
        let marked = joins.of_link[at].filter(|join| joins.all[*join].mark().is_some());
        let end = marked.map_or_else(|| format!("n{}", link.to), |join| format!("g{join}"));
        let (look, label) = match link.what {
            What::Child => (CHILD, String::new()),
            What::Edge(edge) => (look(graph.edges[edge].state), graph.edges[edge].label()),
        };
        let look = if link.back { BACK } else { look };
        let label = if label.is_empty() { String::new() } else { format!(", label=\"{}\"", quoted(&label)) };
        out.push_str(&format!("  n{} -> {end} [{look}{label}];\n", link.from));
    }
    out.push_str("}\n");
    out
}

fn member(node: &Node) -> String {
    let (ink, fill) = (LIGHT.ink(node.state).hex(), LIGHT.fill(node.state).hex());
    let duration = node.duration_ms.map(|ms| format!(" · {}", span(ms))).unwrap_or_default();
    let attempts = if node.attempts > 1 { format!(" · {} attempts", node.attempts) } else { String::new() };
    let (key, kind, status) = (quoted(&node.key), quoted(&node.kind), quoted(&node.status()));
    format!("label=\"{key}\\n{kind}\\n{status}{duration}{attempts}\", color=\"{ink}\", fillcolor=\"{fill}\"")
}

const CHILD: &str = "style=solid, penwidth=0.7, dir=both, arrowtail=odot";
/// What leads back must not push its upstream to the right.
const BACK: &str = "style=dashed, color=purple, constraint=false";

fn look(state: EdgeState) -> &'static str {
    match state {
        EdgeState::Met => "style=solid",
        EdgeState::Pending => "style=dotted",
        EdgeState::Unmet => "style=dashed, color=red",
    }
}

/// As it may stand within quotes. Graphviz reads escapes with `\`, and entities such as `&amp;` too.
fn quoted(text: &str) -> String {
    plain(text).replace('&', "&amp;").replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Edge;
    use crate::state::State;

    #[test]
    fn a_key_cannot_leave_its_quotes() {
        let key = "a\"]; x [label=\"b\\\n&lt;日";
        let graph = Graph { nodes: vec![Node::new(key, "k\\", State::Active)], ..Graph::default() };
        let line = "  n0 [label=\"a\\\"]; x [label=\\\"b\\\\\\\\n&amp;lt;日\\nk\\\\\\nactive\", \
                    color=\"#0860ca\", fillcolor=\"#eef4fb\"];";
        assert!(dot(&graph).lines().any(|found| found == line), "{}", dot(&graph));
    }

    #[test]
    fn what_leads_back_does_not_shape_the_picture() {
        let nodes = vec![Node::new("a", "x", State::Waiting), Node::new("b", "x", State::Waiting)];
        let graph = Graph { nodes, edges: vec![Edge::new(0, 1), Edge::new(1, 0)], ..Graph::default() };
        let dot = dot(&graph);
        assert!(dot.contains("  n0 -> n1 [style=dotted];\n"), "{dot}");
        assert!(dot.contains("  n1 -> n0 [style=dashed, color=purple, constraint=false];\n"), "{dot}");
    }
}
