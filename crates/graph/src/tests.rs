//! What comes out of the whole crate. `tests/pictures` keeps a diamond in all forms: `WEFT_BLESS=1` rewrites it; look at it
//! before it is committed. `WEFT_TEST_PICTURES=FOLDER` writes all samples into a folder, to be looked at.

use crate::{Graph, dot, mermaid, samples, svg, tree};
use std::path::PathBuf;

fn drawn(graph: &Graph) -> [(&'static str, String); 5] {
    let options = svg::Options::default();
    [
        ("txt", tree(graph, &tree::Options { colour: false, width: Some(100) })),
        ("dot", dot(graph)),
        ("mmd", mermaid(graph)),
        ("svg", svg(graph, &options)),
        ("dark.svg", svg(graph, &svg::Options { theme: svg::Theme::Dark, ..options })),
    ]
}

#[test]
fn a_diamond_looks_as_it_did() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/pictures");
    for (form, text) in drawn(&samples::diamond()).into_iter().filter(|(form, _)| *form != "dark.svg") {
        let path = folder.join(format!("diamond.{form}"));
        if std::env::var_os("WEFT_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == text, "diamond.{form} differs; WEFT_BLESS=1 rewrites it. It is now:\n{text}");
    }
}

#[test]
fn every_sample_is_drawn_and_the_same_each_time() {
    for (name, graph) in samples::all() {
        for ((form, first), (_, second)) in drawn(&graph).into_iter().zip(drawn(&graph)) {
            assert!(first == second, "{name}.{form}");
            assert!(first.ends_with('\n') && !first.contains('\r'), "{name}.{form}");
            if let Some(folder) = std::env::var_os("WEFT_TEST_PICTURES") {
                std::fs::write(PathBuf::from(folder).join(format!("{name}.{form}")), &first).unwrap();
            }
        }
    }
}

#[test]
fn every_member_and_every_edge_is_in_dot_and_mermaid() {
    for (name, graph) in samples::all() {
        let (dot, mermaid) = (dot(&graph), mermaid(&graph));
        let drawable = graph.edges.iter().filter(|edge| edge.to < graph.nodes.len()).count();
        let children = graph.nodes.iter().filter(|node| node.parent.is_some()).count();
        let from_member = |line: &str, arrow: &str| line.starts_with("  n") && line.contains(arrow);
        let dot_links = dot.lines().filter(|line| from_member(line, " -> ")).count();
        assert_eq!(dot_links, drawable + children, "{name}");
        let arrows = [" -->", " -.->", " -.-x", " --o"];
        let mermaid_links = mermaid.lines().filter(|line| arrows.iter().any(|arrow| from_member(line, arrow))).count();
        assert_eq!(mermaid_links, drawable + children, "{name}");
        assert_eq!(dot.lines().filter(|line| from_member(line, " [label=")).count(), graph.nodes.len(), "{name}");
        assert_eq!(mermaid.lines().filter(|line| from_member(line, "[\"")).count(), graph.nodes.len(), "{name}");
    }
}
