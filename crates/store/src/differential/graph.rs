//! Random graphs that are small and sound: what is asked for is never refused for its shape.

use super::draw::Draw;
use std::collections::{BTreeMap, BTreeSet};
use weft_core::command::{NewEdge, NewFlow, NewGroup, NewMember, Submit, When};
use weft_core::record::edge::On;
use weft_core::record::execution::{Policy, Retry};
use weft_core::record::flow::{CompletionPolicy, FailurePolicy, Growth, Mode, Remaining};
use weft_core::record::member::{GroupPolicy, MAIN, Then};
use weft_core::text::{Capabilities, Text};

/// Keys of members, in the only direction that edges have.
const KEYS: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

/// Members to be added, and edges that lead to them.
pub(super) struct Graph {
    pub members: Vec<NewMember>,
    pub edges: Vec<NewEdge>,
}

impl Graph {
    /// Some members behind those that are there; a few that are there already if there is no key left.
    pub fn draw(draw: &mut Draw, there: &BTreeSet<Text>) -> Self {
        let free = KEYS.iter().position(|key| !there.contains(*key)).unwrap_or(KEYS.len() - 1);
        let last = (free + 1 + draw.below(4)).min(KEYS.len());
        let mut graph = Graph { members: Vec::new(), edges: Vec::new() };
        for to in free..last {
            let from: Vec<&str> = KEYS[..to].iter().filter(|_| draw.chance(40)).copied().collect();
            // Children of members have other keys, so all keys before the first free one are those of members.
            let count = |group: &str, edges: &[NewEdge]| edges.iter().filter(|edge| *edge.group == *group).count();
            let edges: Vec<NewEdge> = from.iter().map(|from| edge(draw, from, KEYS[to])).collect();
            let names = [MAIN, "extra"].into_iter().filter(|name| count(name, &edges) > 0);
            let groups = names.map(|name| group(draw, name, count(name, &edges))).collect();
            let (key, critical) = (KEYS[to].into(), draw.chance(80));
            graph.members.push(NewMember { key, critical, groups, submit: submission(draw) });
            graph.edges.extend(edges);
        }
        graph
    }
}

fn edge(draw: &mut Draw, from: &str, to: &str) -> NewEdge {
    NewEdge {
        from: from.into(),
        to: to.into(),
        group: if draw.chance(70) { MAIN.into() } else { "extra".into() },
        policy: None,
        on: [On::Success, On::Success, On::Any, On::Failure][draw.below(4)],
        input: draw.chance(40).then(|| format!("from-{from}").into()),
    }
}

fn group(draw: &mut Draw, name: &str, edges: usize) -> NewGroup {
    let quorum = GroupPolicy::Quorum(1 + draw.below(edges) as u32);
    let policy = [GroupPolicy::AllOf, GroupPolicy::AnyOf, quorum][draw.below(3)];
    let then = if draw.chance(60) { Then::LetRun } else { Then::CancelRemaining(mode(draw)) };
    NewGroup { name: name.into(), policy, then }
}

fn mode(draw: &mut Draw) -> Mode {
    if draw.chance(50) { Mode::Immediate } else { Mode::Graceful { grace_ms: 5_000 } }
}

pub(super) fn remaining(draw: &mut Draw) -> Remaining {
    [Remaining::LetRun, Remaining::FinishActive, Remaining::Cancel(mode(draw))][draw.below(3)]
}

pub(super) fn submission(draw: &mut Draw) -> Submit {
    let retention_ms = [Some(0), Some(30_000), None][draw.below(3)];
    let retry = Retry { max_retries: draw.below(2) as u32, ..Retry::default() };
    Submit {
        id: None,
        lane: "mail".into(),
        kind: "send".into(),
        input: draw.chance(50).then(|| draw.blob()),
        content_type: None,
        priority: None,
        capabilities: Capabilities::default(),
        concurrency_key: None,
        start: draw.chance(10).then_some(When::InMs(4_000)),
        deadline: draw.chance(10).then_some(When::InMs(120_000)),
        policy: Policy { retry, retention_ms, ..Policy::default() },
        tags: BTreeMap::new(),
        idempotency_key: None,
        parent: None,
        outside: false,
        uncritical: false,
        trace: None,
    }
}

/// A new flow of this graph.
pub(super) fn flow(draw: &mut Draw, Graph { members, edges }: Graph) -> NewFlow {
    let remaining = remaining(draw);
    let failure =
        [FailurePolicy::Isolate, FailurePolicy::FailFast { remaining }, FailurePolicy::CollectAll][draw.below(3)];
    let completion = match draw.below(6) {
        0 => CompletionPolicy::Root { key: members[members.len() - 1].key.clone(), remaining },
        1 => CompletionPolicy::Threshold { successes: 1, remaining },
        2 | 3 => CompletionPolicy::Declared { remaining },
        _ => CompletionPolicy::AllTerminal,
    };
    NewFlow {
        kind: "order".into(),
        name: draw.chance(50).then(|| "one of many".into()),
        tags: BTreeMap::from_iter(draw.chance(40).then(|| ("team".into(), "b".into()))),
        failure,
        completion,
        growth: if draw.chance(85) { Growth::Dynamic } else { Growth::Fixed },
        seal: draw.chance(60),
        seal_by_ms: draw.chance(30).then_some(60_000),
        deadline: draw.chance(15).then_some(When::InMs(90_000)),
        retention_ms: [Some(0), Some(60_000), None][draw.below(3)],
        idempotency_key: draw.chance(40).then(|| format!("order-{}", draw.below(9)).into()),
        idempotency_ttl_ms: 60_000,
        trace: None,
        members,
        edges,
    }
}
