//! Ranks: every edge leads from a smaller one to a larger one, so the graph has no cycle. An edge that does not is made
//! to, by raising what lies behind it; if that leads back to its own upstream, it would close a cycle.

use super::damaged;
use super::layout::Link;
use super::problem::{Problem, Wrong};
use crate::error::Rejection;
use crate::id::ExecutionId;
use crate::limits::CYCLE_VISITS_MAX;
use crate::record::{Key, Record};
use crate::schema::PartMask;
use crate::text::Text;
use crate::tx::{Stop, Tx};
use std::collections::BTreeMap;

/// How often the search may wait for members that are not in memory. Each wait begins it anew, so that a long way down
/// through cold members would keep everybody else waiting.
const ROUNDS_MAX: u32 = 1_000;

/// A node of a graph that grows.
pub(crate) struct Node {
    pub id: ExecutionId,
    pub key: Text,
    /// Edges that leave it in the store; none of a new one.
    pub outs: u32,
    pub rank: u64,
}

/// The ranks of all nodes once the links are added, those of members that are only behind them included.
pub(crate) fn raise(tx: &mut Tx<'_>, nodes: Vec<Node>, links: &[Link]) -> Result<BTreeMap<ExecutionId, u64>, Stop> {
    let named: Vec<ExecutionId> = nodes.iter().map(|node| node.id).collect();
    let mut graph =
        Graph { nodes: nodes.into_iter().map(|node| (node.id, node)).collect(), added: BTreeMap::new(), visits: 0 };
    let mut missing = false;
    for link in links.iter().filter(|link| !link.existed) {
        let (from, to) = (named[link.from], named[link.to]);
        graph.added.entry(from).or_default().push(to);
        match graph.settle(tx, from, to) {
            // Goes on, so that what lies behind all links is loaded together.
            Err(Stop::Miss) => missing = true,
            Err(_) if missing => break,
            done => done?,
        }
    }
    if missing {
        return Err(Stop::Miss);
    }
    Ok(graph.nodes.into_iter().map(|(id, node)| (id, node.rank)).collect())
}

/// A member behind the links, or what is left of it: a purge takes no edges away, so a way may lead through it.
fn find(tx: &mut Tx<'_>, id: ExecutionId) -> Result<Option<Node>, Stop> {
    let found = match tx.find_execution(id, PartMask::NONE) {
        Err(Stop::Rejected(_)) if damaged::stone(tx, id)?.is_some() => None,
        found => found?,
    };
    if let Some(execution) = found {
        let member = execution.member().ok_or(Rejection::internal("FL-21 both ends of an edge are members"))?;
        return Ok(Some(Node { id, key: member.key.clone(), outs: member.outs, rank: member.rank }));
    }
    let stone = damaged::stone(tx, id)?.map(|stone| stone.body);
    Ok(stone.map(|body| Node { id, key: body.key, outs: body.outs, rank: body.rank }))
}

struct Graph {
    nodes: BTreeMap<ExecutionId, Node>,
    added: BTreeMap<ExecutionId, Vec<ExecutionId>>,
    visits: u32,
}

impl Graph {
    fn settle(&mut self, tx: &mut Tx<'_>, from: ExecutionId, to: ExecutionId) -> Result<(), Stop> {
        let mut came: BTreeMap<ExecutionId, ExecutionId> = [(to, from)].into();
        let mut level = vec![(from, to)];
        while !level.is_empty() {
            let mut further = Vec::new();
            let mut missing = false;
            for (before, node) in std::mem::take(&mut level) {
                let rank = self.nodes[&before].rank;
                if self.nodes[&node].rank > rank {
                    continue;
                }
                if node == from {
                    return Err(self.cycle(&came, from).into());
                }
                self.visits += 1;
                if self.visits > CYCLE_VISITS_MAX {
                    return Err(Rejection::GraphTooLarge { visited: CYCLE_VISITS_MAX }.into());
                }
                self.nodes.entry(node).and_modify(|entry| entry.rank = rank + 1);
                match self.next(tx, node) {
                    Ok(next) => further.extend(next.into_iter().map(|next| (node, next))),
                    Err(Stop::Miss) => missing = true,
                    Err(stop) => return Err(stop),
                }
            }
            if missing && tx.rounds() >= ROUNDS_MAX {
                tx.forget_misses();
                return Err(Rejection::GraphTooLarge { visited: self.visits }.into());
            }
            if missing {
                return Err(Stop::Miss);
            }
            for (before, node) in &further {
                came.entry(*node).or_insert(*before);
            }
            level = further;
        }
        Ok(())
    }

    /// The downstreams of a node, all known afterwards.
    fn next(&mut self, tx: &mut Tx<'_>, id: ExecutionId) -> Result<Vec<ExecutionId>, Stop> {
        let outs = self.nodes[&id].outs;
        if tx.prefetch_all((0..outs).map(|number| Key::Edge(id, number))) {
            return Err(Stop::Miss);
        }
        let mut next = self.added.get(&id).cloned().unwrap_or_default();
        for number in 0..outs {
            if let Some(Record::Edge(edge)) = tx.get(Key::Edge(id, number), PartMask::NONE)? {
                next.push(edge.body.downstream);
            }
        }
        let unknown: Vec<ExecutionId> = next.iter().filter(|id| !self.nodes.contains_key(id)).copied().collect();
        if tx.prefetch_all(unknown.iter().map(|id| Key::Execution(*id))) {
            // The search goes on behind them: the first edge of each is loaded with it.
            tx.prefetch_all(unknown.iter().map(|id| Key::Edge(*id, 0)));
            return Err(Stop::Miss);
        }
        let mut missing = false;
        for id in unknown {
            match find(tx, id) {
                Err(Stop::Miss) => missing = true,
                found => self.nodes.extend(found?.map(|node| (id, node))),
            }
        }
        if missing {
            return Err(Stop::Miss);
        }
        // One of which nothing is left has no edges that could lead back.
        next.retain(|id| self.nodes.contains_key(id));
        Ok(next)
    }

    fn cycle(&self, came: &BTreeMap<ExecutionId, ExecutionId>, from: ExecutionId) -> Rejection {
        let mut ids = vec![from];
        let mut at = came[&from];
        while at != from && ids.len() <= came.len() {
            ids.push(at);
            at = came[&at];
        }
        ids.push(from);
        ids.reverse();
        let path = ids.iter().map(|id| self.nodes[id].key.clone()).collect();
        Rejection::BadGraph { problems: vec![Problem::new("edges", Wrong::Cycle { path })] }
    }
}
