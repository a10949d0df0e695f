//! Flows for tests: as people write them, and as nobody should.

use crate::{Edge, EdgeState, Graph, Node, On, Rule, State};

/// Every sample by its name.
pub fn all() -> Vec<(String, Graph)> {
    let named = [
        ("diamond", diamond()),
        ("race", race()),
        ("vote", vote()),
        ("map_reduce", map_reduce()),
        ("fan", fan(10_000)),
        ("chain", chain(10_000, 5_000)),
        ("steps", steps()),
        ("odd", odd()),
        ("single", chain(1, 0)),
        ("empty", Graph::default()),
        ("dense", bipartite(100)),
    ];
    let tangles =
        (0..24).map(|seed| (format!("tangle-{seed}"), tangle(seed, 4 + 9 * seed as usize, 14 * seed as usize)));
    named.into_iter().map(|(name, graph)| (name.to_owned(), graph)).chain(tangles).collect()
}

pub fn member(key: &str, kind: &str, state: State, duration_ms: u64) -> Node {
    let begun = duration_ms > 0;
    Node { duration_ms: begun.then_some(duration_ms), attempts: u32::from(begun), ..Node::new(key, kind, state) }
}

pub fn met(from: usize, to: usize) -> Edge {
    Edge { state: EdgeState::Met, ..Edge::new(from, to) }
}

pub fn unmet(from: usize, to: usize) -> Edge {
    Edge { state: EdgeState::Unmet, ..Edge::new(from, to) }
}

fn input(name: &str, edge: Edge) -> Edge {
    Edge { input: Some(name.to_owned()), ..edge }
}

/// One branch fails: what needs both is skipped, and what was there for the failure runs.
pub fn diamond() -> Graph {
    let nodes = vec![
        member("validate", "order.validate", State::Completed, 840),
        member("charge-card", "payment.charge", State::Completed, 3_200),
        Node {
            attempts: 3,
            note: Some("out_of_stock".to_owned()),
            ..member("reserve-stock", "stock.reserve", State::Failed, 252_000)
        },
        member("ship", "parcel.ship", State::Skipped, 0),
        member("refund", "payment.refund", State::Active, 1_400),
    ];
    let edges = vec![
        met(0, 1),
        met(0, 2),
        input("receipt", met(1, 3)),
        input("items", unmet(2, 3)),
        Edge { on: On::Failure, ..met(2, 4) },
    ];
    let summary = Some("isolate · 4m 17s".to_owned());
    Graph { title: "order-4711".to_owned(), state: "running".to_owned(), summary, nodes, edges }
}

/// Three models answer one question; the first answer counts.
pub fn race() -> Graph {
    let lost = |key: &str, ms| Node {
        note: Some("cancelled: sibling".to_owned()),
        ..member(key, "llm.complete", State::Cancelled, ms)
    };
    let nodes = vec![
        member("prompt", "prompt.render", State::Completed, 35),
        lost("model-large", 2_310),
        member("model-medium", "llm.complete", State::Completed, 2_290),
        lost("model-small", 2_310),
        member("answer", "chat.reply", State::Active, 120),
    ];
    let any = |edge: Edge| Edge { rule: Rule::AnyOf, ..edge };
    let edges = vec![met(0, 1), met(0, 2), met(0, 3), any(unmet(1, 4)), any(met(2, 4)), any(unmet(3, 4))];
    Graph { title: "first answer wins".to_owned(), state: "running".to_owned(), summary: None, nodes, edges }
}

/// Two of three reviewers have to agree, and the build has to be through whatever they say.
pub fn vote() -> Graph {
    let nodes = vec![
        member("draft", "doc.write", State::Completed, 61_000),
        member("review-ann", "human.review", State::Completed, 7_200_000),
        member("review-bob", "human.review", State::Suspended, 7_300_000),
        member("review-cyd", "human.review", State::Failed, 5_000_000),
        member("build", "ci.build", State::RateLimited, 0),
        member("publish", "doc.publish", State::Waiting, 0),
        member("announce", "mail.send", State::Waiting, 0),
    ];
    let vote = |edge: Edge| Edge { group: "votes".to_owned(), rule: Rule::Quorum { k: 2, n: 3 }, ..edge };
    let edges = vec![
        met(0, 1),
        met(0, 2),
        met(0, 3),
        met(0, 4),
        vote(met(1, 5)),
        vote(Edge::new(2, 5)),
        vote(unmet(3, 5)),
        Edge::new(4, 5),
        Edge::new(5, 6),
    ];
    Graph { title: "publish".to_owned(), state: "blocked".to_owned(), summary: None, nodes, edges }
}

/// Twelve mappers, which the splitter submitted as it went along.
pub fn map_reduce() -> Graph {
    let mut nodes = vec![member("split", "csv.split", State::Completed, 12_400)];
    let mut edges = Vec::new();
    for at in 1..=12 {
        let state = match at {
            5 | 9 => State::Active,
            11 | 12 => State::Delayed,
            _ => State::Completed,
        };
        let ms = if state == State::Delayed { 0 } else { 900 * at as u64 };
        nodes.push(Node { parent: Some(0), ..member(&format!("map-{at:02}"), "csv.map", state, ms) });
        let done = state == State::Completed;
        edges.push(if done { met(at, 13) } else { Edge::new(at, 13) });
    }
    nodes.push(member("reduce", "csv.reduce", State::Waiting, 0));
    nodes.push(member("upload-the-finished-report-to-the-customer-bucket", "s3.put", State::Waiting, 0));
    edges.push(Edge::new(13, 14));
    edges.push(met(0, 14));
    Graph { title: "import customers.csv".to_owned(), state: "running".to_owned(), summary: None, nodes, edges }
}

/// 1 → `wide` → 1.
pub fn fan(wide: usize) -> Graph {
    let mut nodes = vec![member("list", "bucket.list", State::Completed, 2_000)];
    let mut edges = Vec::new();
    for at in 1..=wide {
        let state = match at {
            4_321 => State::Failed,
            _ if at % 1_000 == 7 => State::Active,
            _ if at > wide - 200 => State::Waiting,
            _ => State::Completed,
        };
        nodes.push(member(&format!("resize-{at:05}"), "image.resize", state, 300));
        edges.push(met(0, at));
        let joined = Edge { on: On::Any, ..Edge::new(at, wide + 1) };
        let done = matches!(state, State::Completed | State::Failed);
        edges.push(if done { Edge { state: EdgeState::Met, ..joined } } else { joined });
    }
    nodes.push(member("index", "bucket.index", State::Waiting, 0));
    Graph { title: "resize all".to_owned(), state: "running".to_owned(), summary: None, nodes, edges }
}

pub fn chain(long: usize, active: usize) -> Graph {
    let state = |at: usize| match at.cmp(&active) {
        std::cmp::Ordering::Less => State::Completed,
        std::cmp::Ordering::Equal => State::Active,
        std::cmp::Ordering::Greater => State::Waiting,
    };
    let nodes = (0..long).map(|at| member(&format!("step-{at}"), "chain.step", state(at), 10)).collect();
    let edges = (1..long).map(|at| if at <= active { met(at - 1, at) } else { Edge::new(at - 1, at) }).collect();
    Graph { title: "chain".to_owned(), state: "running".to_owned(), summary: None, nodes, edges }
}

/// Forty steps one after the other, and a check beside some of them that is waited for later.
pub fn steps() -> Graph {
    let mut graph = chain(40, 24);
    for at in [3, 8, 20] {
        graph.nodes.push(member(&format!("check-{at}"), "chain.check", State::Completed, 40));
        let check = graph.nodes.len() - 1;
        graph.edges.push(input("rows", met(at, check)));
        graph.edges.push(met(check, at + 9));
    }
    graph
}

/// Every member of one half leads to every member of the other.
pub fn bipartite(half: usize) -> Graph {
    let nodes = (0..2 * half).map(|at| member(&format!("m{at}"), "dense", State::Completed, 10)).collect();
    let edges = (0..half).flat_map(|from| (half..2 * half).map(move |to| met(from, to))).collect();
    Graph { title: "dense".to_owned(), state: "completed".to_owned(), summary: None, nodes, edges }
}

/// Several shapes at once that share nothing, a cycle and a loop among them.
pub fn odd() -> Graph {
    let mut nodes: Vec<Node> =
        State::ALL.into_iter().map(|state| member(state.word(), "odd.kind", state, 1_500)).collect();
    nodes[5].attempts = 12;
    nodes.push(member("a \"quoted\" <key> & more [brackets]", "line\nbreak", State::Completed, 5));
    nodes.push(member("注文の検証を行うとても長い名前のタスク", "日本語", State::Active, 5));
    let edges = vec![
        met(0, 1),
        met(1, 2),
        unmet(2, 0),
        met(2, 3),
        met(0, 3),
        met(5, 5),
        met(6, 7),
        Edge { on: On::Any, input: Some("x".to_owned()), ..met(6, 8) },
        met(7, 9),
        met(8, 9),
        met(8, 10),
        met(6, 10),
        met(12, 13),
        Edge::new(12, 99),
    ];
    nodes[11].parent = Some(6);
    Graph { title: "odd <ones>".to_owned(), state: "failed".to_owned(), summary: None, nodes, edges }
}

/// Members and edges by chance, the same for the same seed.
pub fn tangle(seed: u64, members: usize, edges: usize) -> Graph {
    let mut chance = seed;
    let mut below = |most: usize| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (chance >> 33) as usize % most
    };
    let mut graph = Graph { title: format!("tangle {seed}"), state: "running".to_owned(), ..Graph::default() };
    for at in 0..members {
        let state = State::ALL[below(State::ALL.len())];
        graph.nodes.push(member(&format!("member-{at}"), "tangle.kind", state, below(100_000) as u64));
    }
    for _ in 0..edges {
        let (from, far) = (below(members), 1 + below(members / 3 + 1));
        // One in forty leads back.
        let (from, to) = if below(40) == 0 { (from, from.saturating_sub(far)) } else { (from, from + far) };
        let state = [EdgeState::Met, EdgeState::Unmet, EdgeState::Pending][below(3)];
        let (group, rule) = match below(6) {
            0 => ("votes", Rule::Quorum { k: 2, n: 3 }),
            1 => ("first", Rule::AnyOf),
            _ => ("main", Rule::AllOf),
        };
        let on = [On::Success, On::Success, On::Success, On::Failure][below(4)];
        if to < members {
            graph.edges.push(Edge { state, group: group.to_owned(), rule, on, ..Edge::new(from, to) });
        }
    }
    graph
}
