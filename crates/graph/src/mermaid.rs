//! A flow for Mermaid, which GitHub and many documents draw.

use crate::counts::{Counts, headline, summary};
use crate::join::Joins;
use crate::link::{Link, Links, What};
use crate::model::{EdgeState, Graph, Node};
use crate::palette::LIGHT;
use crate::span::span;
use crate::text::plain;

/// The flow as a Mermaid flowchart, all of its members and edges. Members are called `n0`, `n1`, … by their places, each has
/// the class of its state, and groups that do not wait for all of their edges are hexagons.
///
/// Mermaid itself refuses more than 500 edges or 50,000 characters unless it is set up for more.
pub fn mermaid(graph: &Graph) -> String {
    let links = Links::of(graph);
    let joins = Joins::of(graph, &links);
    let mut out = format!(
        "---\ntitle: \"{}\"\n---\nflowchart LR\n  %% {}\n",
        in_head(&headline(graph)),
        summary(graph, &links).replace(['{', '}'], "")
    );
    for (at, node) in graph.nodes.iter().enumerate() {
        out.push_str(&format!("  n{at}[\"{}\"]:::{}\n", member(node), node.state.word()));
    }
    let mut lines = Lines { out, count: 0, unmet: Vec::new(), back: Vec::new() };
    for (at, join) in joins.all.iter().enumerate() {
        if let Some(mark) = join.mark() {
            lines.out.push_str(&format!("  g{at}{{{{\"{}\"}}}}:::join\n", quoted(&mark)));
            lines.draw(&format!("g{at} {} n{}", arrow(join.state), join.to), join.state == EdgeState::Unmet, false);
        }
    }
    for (at, link) in links.all.iter().enumerate() {
        let marked = joins.of_link[at].filter(|join| joins.all[*join].mark().is_some());
        let end = marked.map_or_else(|| format!("n{}", link.to), |join| format!("g{join}"));
        lines.link(graph, link, &end);
    }
    lines.styled(graph)
}

/// The text so far, and which lines have a colour of their own: Mermaid knows lines by their number.
struct Lines {
    out: String,
    count: usize,
    unmet: Vec<String>,
    back: Vec<String>,
}

impl Lines {
    fn draw(&mut self, line: &str, unmet: bool, back: bool) {
        self.out.push_str(&format!("  {line}\n"));
        match (unmet, back) {
            (_, true) => self.back.push(self.count.to_string()),
            (true, _) => self.unmet.push(self.count.to_string()),
            _ => {}
        }
        self.count += 1;
    }

    fn link(&mut self, graph: &Graph, link: &Link, end: &str) {
        let (arrow, label, unmet) = match link.what {
            What::Child => ("--o", String::new(), false),
            What::Edge(edge) => {
                let edge = &graph.edges[edge];
                (arrow(edge.state), edge.label(), edge.state == EdgeState::Unmet)
            }
        };
        let label = if label.is_empty() { String::new() } else { format!("|\"{}\"|", quoted(&label)) };
        self.draw(&format!("n{} {arrow}{label} {end}", link.from), unmet, link.back);
    }

    fn styled(mut self, graph: &Graph) -> String {
        for (state, _) in Counts::of(graph.nodes.iter().map(|node| node.state)).occurring() {
            let (ink, fill, text) = (LIGHT.ink(state).hex(), LIGHT.fill(state).hex(), LIGHT.text.hex());
            let word = state.word();
            self.out.push_str(&format!("  classDef {word} fill:{fill},stroke:{ink},color:{text}\n"));
        }
        let (card, line, text) = (LIGHT.card.hex(), LIGHT.line.hex(), LIGHT.text.hex());
        self.out.push_str(&format!("  classDef join fill:{card},stroke:{line},color:{text}\n"));
        for (lines, colour) in [(&self.unmet, "red"), (&self.back, "purple")] {
            if !lines.is_empty() {
                let dashes = if colour == "purple" { ",stroke-dasharray:12 4" } else { "" };
                self.out.push_str(&format!("  linkStyle {} stroke:{colour}{dashes}\n", lines.join(",")));
            }
        }
        self.out
    }
}

fn member(node: &Node) -> String {
    let duration = node.duration_ms.map(|ms| format!(" · {}", span(ms))).unwrap_or_default();
    let attempts = if node.attempts > 1 { format!(" · {} attempts", node.attempts) } else { String::new() };
    let (key, kind, status) = (quoted(&node.key), quoted(&node.kind), quoted(&node.status()));
    format!("<b>{key}</b><br/>{kind}<br/>{} {status}{duration}{attempts}", node.state.glyph())
}

fn arrow(state: EdgeState) -> &'static str {
    match state {
        EdgeState::Met => "-->",
        EdgeState::Pending => "-.->",
        EdgeState::Unmet => "-.-x",
    }
}

/// As it may stand within quotes. Mermaid reads HTML, Markdown and its own `#…;` in there, so of ASCII only what means
/// nothing to any of them is left as it is: letters, digits, and a few signs between these.
fn quoted(text: &str) -> String {
    let text = plain(text);
    let mut quoted = String::with_capacity(text.len());
    let (mut letters, mut before) = (text.chars().peekable(), ' ');
    while let Some(letter) = letters.next() {
        let within = before.is_alphanumeric() && letters.peek().is_some_and(|next| next.is_alphanumeric());
        match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | ' ' | ',' | ':' => quoted.push(letter),
            '-' | '.' | '/' | '_' if within => quoted.push(letter),
            // Read back as `\n`, it would break the line; a blank without width keeps the two apart.
            '\\' => quoted.push_str("#92;#8203;"),
            _ if letter.is_ascii() => quoted.push_str(&format!("#{};", letter as u32)),
            _ => quoted.push(letter),
        }
        before = letter;
    }
    quoted
}

/// As it may stand within quotes of the head. Mermaid takes out what looks like a tag there and knows no entities.
fn in_head(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('<', "‹").replace('>', "›")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Edge, Rule};
    use crate::state::State;

    #[test]
    fn a_key_cannot_leave_its_quotes_nor_become_markup() {
        for (key, shown) in [
            ("fetch-orders.2026/11:a,b", "fetch-orders.2026/11:a,b"),
            ("a\"]b", "a#34;#93;b"),
            ("<img>&amp;", "#60;img#62;#38;amp#59;"),
            ("#35;", "#35;35#59;"),
            ("1. one", "1#46; one"),
            ("- one", "#45; one"),
            ("a_b _c_ *d* `e`", "a_b #95;c#95; #42;d#42; #96;e#96;"),
            ("https://a.b", "https:#47;#47;a.b"),
            ("a\nb", "a#92;#8203;nb"),
            ("größe 日本 ✓", "größe 日本 ✓"),
        ] {
            assert_eq!(quoted(key), shown);
        }
    }

    #[test]
    fn a_title_cannot_leave_its_quotes_either() {
        let title = "a\" \\ <b>\n---".to_owned();
        let graph = Graph { title, state: "open".to_owned(), ..Graph::default() };
        let head: Vec<String> = mermaid(&graph).lines().take(4).map(str::to_owned).collect();
        assert_eq!(head, ["---", "title: \"a\\\" \\\\ ‹b›\\\\n---: open\"", "---", "flowchart LR"]);
    }

    #[test]
    fn every_link_is_numbered_as_it_is_drawn() {
        let nodes = (0..4).map(|at| Node::new(at.to_string(), "x", State::Waiting)).collect();
        let race = |from| Edge { rule: Rule::AnyOf, ..Edge::new(from, 2) };
        let lost = Edge { state: EdgeState::Unmet, ..race(1) };
        let edges = vec![race(0), lost, Edge::new(2, 3), Edge::new(3, 2)];
        let mermaid = mermaid(&Graph { nodes, edges, ..Graph::default() });
        let drawn: Vec<&str> = mermaid.lines().filter(|line| line.contains("-.-")).map(str::trim).collect();
        assert_eq!(drawn, ["g0 -.-> n2", "n0 -.-> g0", "n1 -.-x g0", "n2 -.-> n3", "n3 -.-> g0"]);
        assert!(mermaid.contains("  linkStyle 2 stroke:red\n"), "{mermaid}");
        assert!(mermaid.contains("  linkStyle 4 stroke:purple,stroke-dasharray:12 4\n"), "{mermaid}");
    }
}
