use super::*;
use crate::model::{Edge, Node, Rule};
use crate::samples;
use crate::state::State;

fn light(graph: &Graph) -> String {
    svg(graph, &Options { theme: Theme::Light, ..Options::default() })
}

/// The texts between tags. Fails on XML that is not well-formed, as far as this crate writes it.
fn texts(document: &str) -> Vec<String> {
    let (mut open, mut texts, mut rest) = (Vec::new(), Vec::new(), document);
    while let Some(at) = rest.find('<') {
        let (text, after) = (&rest[..at], &rest[at + 1..]);
        assert!(!text.contains('>'), "a bare `>` in {text:?}");
        texts.push(unescaped(text));
        let end = after.find('>').expect("a tag ends");
        let tag = &after[..end];
        assert!(!tag.contains('<'), "a bare `<` in {tag:?}");
        let name = tag.trim_matches('/').split(' ').next().unwrap().to_owned();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "in {tag:?}");
        } else {
            assert!(tag.matches('"').count() % 2 == 0, "quotes in {tag:?}");
            unescaped(tag);
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        rest = &after[end + 1..];
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} is left open");
    texts.retain(|text| !text.trim().is_empty());
    texts
}

fn unescaped(text: &str) -> String {
    assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{text:?}");
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    for (at, _) in text.match_indices('&') {
        assert!(entities.iter().any(|(entity, _)| text[at..].starts_with(entity)), "a bare `&` in {text:?}");
    }
    entities.iter().fold(text.to_owned(), |text, (entity, letter)| text.replace(entity, letter))
}

#[test]
fn every_picture_is_well_formed_and_brings_nothing_along() {
    for (name, graph) in samples::all() {
        let svg = svg(&graph, &Options::default());
        texts(&svg);
        for alien in ["<script", "href", "url(", "<foreignObject", " id=", " on", "@import"] {
            // A key may speak of anything, but only in text, where `on failure` stands too.
            let tags = svg.split('<').map(|tag| tag.split('>').next().unwrap_or_default());
            assert!(tags.into_iter().all(|tag| !format!("<{tag}").contains(alien)), "{name}: {alien}");
        }
    }
}

#[test]
fn hostile_text_stays_text() {
    let key = "</text><script>alert(\"1\" & '2')</script>\u{0}\u{1b}[0m\u{202e}";
    let shown = "</text><script>alert(\"1\" & '2')</script>\\u{0}\\u{1b}[0m\\u{202e}";
    let mut node = Node::new(key, key, State::Failed);
    node.note = Some(key.to_owned());
    let edge = Edge { input: Some(key.to_owned()), group: key.to_owned(), rule: Rule::AnyOf, ..Edge::new(0, 1) };
    let nodes = vec![node.clone(), node.clone(), node];
    let edges = vec![edge.clone(), Edge { from: 2, ..edge }];
    let title = key.to_owned();
    let graph = Graph { title, state: key.to_owned(), summary: Some(key.to_owned()), nodes, edges };
    let svg = light(&graph);
    assert!(!svg.contains("<script"), "{svg}");
    assert!(
        texts(&svg).iter().any(|text| text.starts_with(&format!("{shown}\nkind: {shown}\nstate: failed: {shown}")))
    );
}

#[test]
fn a_fold_says_how_many_it_stands_for() {
    let texts = texts(&light(&samples::fan(10_000)));
    for text in [
        "… 9,987 more (9,788 completed, 199 waiting)",
        "… 9,987 more",
        "9,788 completed",
        "199 waiting",
        "×9,987",
        "9,788 met, 199 pending",
        "9,987 edges: 9,788 met, 199 pending",
        "10,002 members: 9,790 completed, 201 waiting, 10 active, 1 failed",
    ] {
        assert!(texts.iter().any(|found| found == text), "{text}");
    }
}

#[test]
fn numbers_that_would_lie_on_each_other_are_only_told() {
    let texts = texts(&light(&samples::bipartite(100)));
    assert!(!texts.iter().any(|text| text.starts_with('×')));
    assert_eq!(texts.iter().filter(|text| *text == "87 edges: 87 met").count(), 2 * 13);
}

#[test]
fn labels_do_not_lie_on_each_other() {
    let nodes = vec![Node::new("a", "x", State::Active), Node::new("b", "x", State::Waiting)];
    let edge = |name: &str| Edge { input: Some(name.to_owned()), group: name.to_owned(), ..Edge::new(0, 1) };
    let graph = Graph { nodes, edges: vec![edge("first"), edge("second"), edge("third")], ..Graph::default() };
    let svg = light(&graph);
    let places = svg.lines().filter(|line| line.contains("wg-label\" x="));
    let place = |line: &str| [3, 5].map(|at| line.split('"').nth(at).unwrap().parse::<i64>().unwrap());
    let places: Vec<[i64; 2]> = places.map(place).collect();
    assert_eq!(places.len(), 3);
    for (at, [x, y]) in places.iter().enumerate() {
        let near = places[..at].iter().find(|other| (other[0] - x).abs() < 30 && (other[1] - y).abs() < 12);
        assert_eq!(near, None, "{places:?}");
    }
}

#[test]
fn a_picture_of_ten_thousand_is_no_larger_than_one_of_two_hundred() {
    for graph in [samples::fan(10_000), samples::chain(10_000, 77), samples::bipartite(100)] {
        let svg = light(&graph);
        assert!(svg.len() < 100_000, "{}: {} bytes", graph.title, svg.len());
    }
}

#[test]
fn every_wire_and_every_member_is_in_the_picture() {
    for (name, graph) in samples::all() {
        let (svg, plan) = (light(&graph), Plan::of(&graph, 200));
        assert_eq!(svg.matches("<g class=\"wg-edge ").count(), plan.folded.wires.len(), "{name}");
        assert_eq!(svg.matches("<g class=\"wg-node").count(), plan.folded.cells.len(), "{name}");
    }
    let texts = texts(&light(&samples::diamond()));
    for text in ["validate", "order.validate", "completed", "· 840ms", "· 4m 12s · 3 attempts", "out_of_stock"] {
        assert!(texts.iter().any(|found| found == text), "{text}");
    }
    for text in ["receipt", "items", "on failure", "reserve-stock → refund\non failure\nmet"] {
        assert!(texts.iter().any(|found| found == text), "{text}");
    }
}

#[test]
fn a_long_key_is_cut_in_its_middle_and_told_in_full() {
    let key = "upload-the-finished-report-to-the-customer-bucket";
    let texts = texts(&light(&samples::map_reduce()));
    assert!(texts.iter().any(|text| text.starts_with(key) && text.contains("\nkind: s3.put\nstate: waiting")));
    let cut = texts.iter().find(|text| text.starts_with("upload-") && text.contains('…')).unwrap();
    assert!(cut.ends_with("bucket") && cut.chars().count() < 30, "{cut}");
}

#[test]
fn joins_are_marked_unless_they_wait_for_all() {
    let marks = |graph: &Graph| -> Vec<String> {
        let marked = |text: &String| text == "any of" || text.ends_with(" of 3");
        texts(&light(graph)).into_iter().filter(marked).collect()
    };
    assert_eq!(marks(&samples::race()), ["any of", "any of"], "in the mark and as its tooltip");
    assert_eq!(marks(&samples::vote()), ["votes: 2 of 3", "votes: 2 of 3"]);
    assert_eq!(marks(&samples::diamond()), [""; 0]);
}

#[test]
fn lines_look_like_the_state_of_their_edges() {
    let count = |svg: &str, look: &str| svg.matches(&format!("<g class=\"wg-edge wg-{look}\">")).count();
    let counts = |graph: &Graph| ["met", "unmet", "pending", "child", "back"].map(|look| count(&light(graph), look));
    assert_eq!(counts(&samples::diamond()), [4, 1, 0, 0, 0]);
    assert_eq!(counts(&samples::vote()), [5, 1, 3, 0, 0]);
    assert_eq!(counts(&samples::map_reduce()), [9, 0, 5, 12, 0]);
    assert_eq!(counts(&samples::odd()), [11, 0, 0, 1, 2]);
}

#[test]
fn the_legend_names_only_what_occurs() {
    let legend = |graph: &Graph| {
        let texts = texts(&light(graph));
        let last = texts.iter().rposition(|text| text.contains(' ') || text.starts_with('·')).unwrap();
        let known =
            |text: &&String| State::from_word(text).is_some() || ["met", "unmet", "pending"].contains(&text.as_str());
        texts[last..].iter().filter(known).cloned().collect::<Vec<String>>()
    };
    assert_eq!(legend(&samples::diamond()), ["active", "completed", "failed", "skipped", "met", "unmet"]);
    assert_eq!(legend(&samples::chain(2, 1)), ["active", "completed"], "one kind of line needs no name");
}

#[test]
fn a_theme_is_fixed_unless_the_reader_is_to_choose() {
    let of = |theme| svg(&samples::race(), &Options { theme, ..Options::default() });
    let (auto, light, dark) = (of(Theme::Auto), of(Theme::Light), of(Theme::Dark));
    assert!(auto.contains("prefers-color-scheme") && !light.contains("prefers") && !dark.contains("prefers"));
    assert!(light.contains("fill: #ffffff") && !light.contains("#0d1117"));
    assert!(dark.contains("fill: #0d1117") && !dark.contains("#ffffff"));
}
