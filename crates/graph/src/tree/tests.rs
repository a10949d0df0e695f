use super::*;
use crate::model::{Edge, Node};
use crate::samples;
use crate::state::State;

fn drawn(graph: &Graph, width: Option<usize>) -> String {
    tree(graph, &Options { colour: false, width })
}

/// The lines of the members only.
fn members(count: usize, edges: &[(usize, usize)]) -> Vec<String> {
    let nodes = (0..count).map(|at| Node::new(format!("m{at}"), "x", State::Waiting)).collect();
    let edges = edges.iter().map(|(from, to)| Edge::new(*from, *to)).collect();
    let text = drawn(&Graph { nodes, edges, ..Graph::default() }, None);
    text.lines().skip(2).map(|line| line.replace("  x  waiting", "").trim_end().to_owned()).collect()
}

#[test]
fn a_join_stands_under_its_first_upstream_and_is_named_by_the_others() {
    assert_eq!(
        members(5, &[(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]),
        ["○ m0", "├─ ○ m1", "│  └─ ○ m3     all of 2", "│     └─ ○ m4", "└─ ○ m2        ↑ m3"]
    );
}

#[test]
fn arrows_point_to_where_a_member_stands() {
    let lines = members(3, &[(0, 2), (0, 1), (1, 2)]);
    assert_eq!(lines.len(), 3);
    assert!(lines[2].ends_with("↑ m2"), "{lines:?}");
    let lines = members(3, &[(0, 1), (0, 2), (1, 2)]);
    assert!(lines[0].ends_with("↓ m2") && lines[2].contains("m2"), "{lines:?}");
    let lines = members(2, &[(0, 1), (1, 0)]);
    assert!(lines[1].ends_with("↺ m0"), "{lines:?}");
    let lines = members(1, &[(0, 0)]);
    assert!(lines[0].ends_with("↺ m0"), "{lines:?}");
}

#[test]
fn members_that_share_nothing_are_roots_and_children_hang_on_their_parents() {
    let mut nodes: Vec<Node> = ["a", "b", "c"].map(|key| Node::new(key, "x", State::Active)).into();
    nodes[2].parent = Some(0);
    let graph = Graph { nodes, ..Graph::default() };
    let text = drawn(&graph, None);
    let lines: Vec<&str> = text.lines().skip(2).collect();
    assert_eq!(lines, ["● a     x  active", "└─ ● c  x  active  child", "● b     x  active"]);
}

#[test]
fn every_member_has_one_line_and_none_is_too_long() {
    for (name, graph) in samples::all() {
        for width in [None, Some(24), Some(60), Some(100), Some(200)] {
            let text = drawn(&graph, width);
            assert_eq!(text.lines().count(), graph.nodes.len() + 2, "{name}");
            for line in text.lines() {
                assert!(columns(line) <= width.unwrap_or(usize::MAX), "{name} in {width:?}: {line}");
                assert_eq!(line, line.trim_end(), "{name}");
                assert!(!line.contains('\x1b'), "{name}: {line}");
            }
        }
    }
}

#[test]
fn colours_change_nothing_but_colours() {
    for (name, graph) in samples::all().into_iter().filter(|(_, graph)| graph.nodes.len() < 1_000) {
        for width in [None, Some(60)] {
            let coloured = tree(&graph, &Options { colour: true, width });
            let mut pieces = coloured.split('\x1b');
            let mut bare = pieces.next().unwrap_or_default().to_owned();
            for piece in pieces {
                bare.push_str(piece.split_once('m').unwrap().1);
            }
            assert_eq!(bare, drawn(&graph, width), "{name}");
        }
    }
    let coloured = tree(&samples::diamond(), &Options { colour: true, width: None });
    assert!(coloured.contains("\x1b[1;31m✗\x1b[0m") && coloured.contains("\x1b[32mcompleted\x1b[0m"), "{coloured}");
}

#[test]
fn a_deep_chain_stays_on_the_page_and_says_how_deep_it_is() {
    let text = drawn(&samples::chain(10_000, 3), Some(80));
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("⋯ 9,999 └─ ○ step-9999 "), "{last}");
    assert!(text.len() < 1_000_000);
}

#[test]
fn names_are_counted_where_they_are_many() {
    let text = drawn(&samples::bipartite(100), None);
    let line = text.lines().find(|line| line.contains("m1 ")).unwrap();
    assert!(line.ends_with("↑ m100 ↑ m101 ↑ m102 ↑ m103 … 96 more"), "{line}");
}

#[test]
fn a_key_cannot_move_the_cursor() {
    let nodes = vec![Node::new("a\x1b[2Jb\nc", "x\r", State::Held)];
    let text = drawn(&Graph { nodes, ..Graph::default() }, None);
    assert_eq!(text.lines().last(), Some("◇ a\\u{1b}[2Jb\\nc  x\\r  held"));
}
