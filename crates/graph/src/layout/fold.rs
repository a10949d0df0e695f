//! What of a graph is drawn. A small one whole; of a large one so much that a person can read it, and boxes that say how
//! many members they stand for. Nothing is left out silently: every member is in one cell, every link is in one wire or
//! inside a box.

use crate::counts::Counts;
use crate::join::Joins;
use crate::link::{Links, What};
use crate::model::Graph;
use std::collections::{BTreeMap, BTreeSet};

/// A box of the picture.
#[derive(Debug)]
pub struct Cell {
    pub content: Content,
    pub layer: usize,
}

#[derive(Debug)]
pub enum Content {
    /// By its place in the graph.
    Node(usize),
    /// Members that are not shown one by one.
    More(Counts),
}

/// A line of the picture, from a cell to one in a higher layer. Only a loop begins where it ends.
#[derive(Debug)]
pub struct Wire {
    pub from: usize,
    pub to: usize,
    pub kind: Kind,
    /// The group whose mark it leads to.
    pub join: Option<usize>,
    /// The links it stands for: one, or all between a member and a box of many.
    pub links: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Edge,
    Child,
    /// Leads from `to` to `from`.
    Back,
}

#[derive(Debug)]
pub struct Folded {
    pub cells: Vec<Cell>,
    pub wires: Vec<Wire>,
    pub layers: usize,
    /// Wires that begin or end at a box of many.
    pub shared: usize,
    /// Links between members that are in one box.
    pub inside: usize,
}

/// More lines than this per member are more than an eye can follow.
const LINKS_PER_NODE: usize = 5;

/// Folds if there are more members than `nodes_max`, or far more links. A folded picture is at most as wide and as high as
/// the square of `nodes_max` members, so that it never has more boxes than that.
pub fn fold(graph: &Graph, links: &Links, joins: &Joins, layer_of: &[usize], nodes_max: usize) -> Folded {
    let nodes_max = nodes_max.max(1);
    let large = graph.nodes.len() > nodes_max || links.all.len() > nodes_max.saturating_mul(LINKS_PER_NODE);
    let side = if large { nodes_max.isqrt() } else { usize::MAX };
    let mut members = vec![Vec::new(); layer_of.iter().max().map_or(0, |last| last + 1)];
    for (node, layer) in layer_of.iter().enumerate() {
        members[*layer].push(node);
    }
    let mut folded = Folded { cells: Vec::new(), wires: Vec::new(), layers: 0, shared: 0, inside: 0 };
    let mut cell_of = vec![0; graph.nodes.len()];
    for run in runs(graph, &members, side) {
        let all: Vec<usize> = members[run.clone()].concat();
        let room = if run.len() > 1 { 0 } else { side };
        let kept = kept(graph, &all, room);
        for node in &kept {
            cell_of[*node] = folded.add(Content::Node(*node));
        }
        if kept.len() < all.len() {
            let rest: Vec<usize> = all.into_iter().filter(|node| kept.binary_search(node).is_err()).collect();
            let cell = folded.add(Content::More(Counts::of(rest.iter().map(|node| graph.nodes[*node].state))));
            for node in rest {
                cell_of[node] = cell;
            }
        }
        folded.layers += 1;
    }
    folded.wire(links, joins, &cell_of);
    folded
}

impl Folded {
    fn add(&mut self, content: Content) -> usize {
        self.cells.push(Cell { content, layer: self.layers });
        self.cells.len() - 1
    }

    /// Draws every link whose ends are in two cells, and those from a member to itself. Between two members each link is a
    /// wire; where one end is a box of many, links of a kind share one.
    fn wire(&mut self, links: &Links, joins: &Joins, cell_of: &[usize]) {
        let mut shared = BTreeMap::new();
        for (at, link) in links.all.iter().enumerate() {
            let (from, to) = (cell_of[link.from], cell_of[link.to]);
            let many = |cell: usize| matches!(self.cells[cell].content, Content::More(_));
            if from == to && many(from) {
                self.inside += 1;
                continue;
            }
            let (from, to, kind) = match link.what {
                _ if link.back => (to, from, Kind::Back),
                What::Edge(_) => (from, to, Kind::Edge),
                What::Child => (from, to, Kind::Child),
            };
            let marked = |join: &usize| kind == Kind::Edge && !many(to) && joins.all[*join].mark().is_some();
            let join = joins.of_link[at].filter(marked);
            if many(from) || many(to) {
                let wire = *shared.entry((from, to, kind, join)).or_insert(self.wires.len());
                if let Some(wire) = self.wires.get_mut(wire) {
                    wire.links.push(at);
                    continue;
                }
                self.shared += 1;
            }
            self.wires.push(Wire { from, to, kind, join, links: vec![at] });
        }
    }
}

/// The layers in runs of which each becomes one layer of the picture: single ones that are shown, and longer ones that
/// are not. First and last are shown, then those where something urgent is, then those next to the ends.
fn runs(graph: &Graph, members: &[Vec<usize>], side: usize) -> Vec<std::ops::Range<usize>> {
    let count = members.len();
    if count <= side {
        return (0..count).map(|layer| layer..layer + 1).collect();
    }
    let urgency = |layer: usize| members[layer].iter().map(|node| graph.nodes[*node].state).min_by_key(|s| s.urgency());
    let urgent = (0..count).filter_map(|layer| Some((urgency(layer).filter(|state| state.urgent())?.urgency(), layer)));
    let urgent: BTreeSet<(usize, usize)> = urgent.collect();
    let ends = (0..count).map(|at| if at % 2 == 0 { at / 2 } else { count - 1 - at / 2 });
    let wanted = [0, count - 1].into_iter().chain(urgent.into_iter().map(|(_, layer)| layer)).chain(ends);

    let mut shown = vec![false; count];
    // One run of everything is what there is if nothing is shown.
    let mut used = 1;
    for layer in wanted {
        let hidden = |at: Option<usize>| at.and_then(|at| shown.get(at)).is_some_and(|shown| !shown);
        let beside = usize::from(hidden(layer.checked_sub(1))) + usize::from(hidden(Some(layer + 1)));
        // Showing a layer takes one place; the run it was in goes away, stays, or becomes two.
        let after = used + beside;
        if !shown[layer] && after <= side {
            shown[layer] = true;
            used = after;
        }
    }
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for layer in 0..count {
        match runs.last_mut() {
            Some(run) if !shown[layer] && !shown[layer - 1] => run.end = layer + 1,
            _ => runs.push(layer..layer + 1),
        }
    }
    runs
}

/// The members that are shown if there is room for so many boxes, one of which must say how many more there are: one of
/// each state, then the most urgent. In the order of the graph.
fn kept(graph: &Graph, all: &[usize], room: usize) -> Vec<usize> {
    if all.len() <= room {
        return all.to_vec();
    }
    let mut of_state = BTreeMap::new();
    let mut wanted = Vec::with_capacity(all.len());
    for node in all {
        let urgency = graph.nodes[*node].state.urgency();
        let before = of_state.entry(urgency).or_insert(0_usize);
        wanted.push((*before > 0, urgency, *node));
        *before += 1;
    }
    wanted.sort_unstable();
    let mut kept: Vec<usize> = wanted.into_iter().take(room.saturating_sub(1)).map(|(.., node)| node).collect();
    kept.sort_unstable();
    kept
}
