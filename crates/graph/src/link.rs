//! What joins two members: an edge, or that one submitted the other. Owns which of these lead back, so that whoever draws
//! has a graph without cycles before them.

use crate::model::Graph;

/// Two members that belong together. Both are in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub from: usize,
    pub to: usize,
    pub what: What,
    /// Turning round the links that lead back leaves no cycle. A link from a member to itself leads back too.
    pub back: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// By its place among the edges of the graph.
    Edge(usize),
    /// From a parent to its child.
    Child,
}

/// All links: the edges in their order, then the children in theirs.
#[derive(Debug)]
pub struct Links {
    pub all: Vec<Link>,
    /// The links that leave each member, by their places in `all`.
    pub leaving: Vec<Vec<usize>>,
    /// Members that no link leads to, and one of each cycle that nothing else leads to. From these all are reached.
    pub roots: Vec<usize>,
    /// Links that cannot be drawn, because the graph has no such member.
    pub astray: usize,
}

impl Links {
    pub fn of(graph: &Graph) -> Self {
        let count = graph.nodes.len();
        let edges = graph.edges.iter().enumerate().map(|(at, edge)| (edge.from, edge.to, What::Edge(at)));
        let children = graph.nodes.iter().enumerate().filter_map(|(at, node)| Some((node.parent?, at, What::Child)));
        let mut links = Links { all: Vec::new(), leaving: vec![Vec::new(); count], roots: Vec::new(), astray: 0 };
        for (from, to, what) in edges.chain(children) {
            if from >= count || to >= count {
                links.astray += 1;
                continue;
            }
            links.leaving[from].push(links.all.len());
            links.all.push(Link { from, to, what, back: from == to });
        }
        links.find_back();
        links
    }

    /// Walks in depth from every member that nothing leads to, and then from what was not reached: only cycles are left.
    /// What leads to a member that the walk has not left yet leads back. The path is a list, because a chain may be longer
    /// than a stack of calls.
    fn find_back(&mut self) {
        let count = self.leaving.len();
        let mut led_to = vec![false; count];
        for link in self.all.iter().filter(|link| !link.back) {
            led_to[link.to] = true;
        }
        let mut seen = vec![Seen::Not; count];
        let starts = (0..count).filter(|at| !led_to[*at]).chain(0..count);
        for start in starts {
            if seen[start] != Seen::Not {
                continue;
            }
            self.roots.push(start);
            seen[start] = Seen::OnPath;
            let mut path = vec![(start, 0)];
            while let Some((member, next)) = path.last_mut() {
                let Some(link) = self.leaving[*member].get(*next).copied() else {
                    seen[*member] = Seen::Left;
                    path.pop();
                    continue;
                };
                *next += 1;
                let to = self.all[link].to;
                match seen[to] {
                    Seen::Not => {
                        seen[to] = Seen::OnPath;
                        path.push((to, 0));
                    }
                    Seen::OnPath => self.all[link].back = true,
                    Seen::Left => {}
                }
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Not,
    OnPath,
    Left,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Edge, Node};
    use crate::state::State;

    fn back(count: usize, edges: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let nodes = (0..count).map(|at| Node::new(at.to_string(), "x", State::Waiting)).collect();
        let edges = edges.iter().map(|(from, to)| Edge::new(*from, *to)).collect();
        let links = Links::of(&Graph { nodes, edges, ..Graph::default() });
        links.all.into_iter().filter(|link| link.back).map(|link| (link.from, link.to)).collect()
    }

    #[test]
    fn only_what_closes_a_cycle_leads_back() {
        assert_eq!(back(4, &[(0, 1), (0, 2), (1, 3), (2, 3)]), []);
        assert_eq!(back(3, &[(0, 1), (1, 2), (2, 1)]), [(2, 1)]);
        assert_eq!(back(3, &[(2, 0), (0, 1), (1, 0)]), [(1, 0)], "the walk begins where nothing leads to");
        assert_eq!(back(2, &[(1, 0), (0, 1)]), [(1, 0)]);
        assert_eq!(back(1, &[(0, 0)]), [(0, 0)]);
    }

    #[test]
    fn a_chain_longer_than_any_stack_is_walked() {
        let mut edges: Vec<(usize, usize)> = (1..200_000).map(|at| (at - 1, at)).collect();
        edges.push((199_999, 0));
        assert_eq!(back(200_000, &edges), [(199_999, 0)]);
    }

    #[test]
    fn links_to_nobody_are_counted() {
        let mut graph = Graph { nodes: vec![Node::new("a", "x", State::Waiting)], ..Graph::default() };
        graph.edges = vec![Edge::new(0, 1), Edge::new(9, 0)];
        graph.nodes[0].parent = Some(1);
        let links = Links::of(&graph);
        assert_eq!((links.all.len(), links.astray), (0, 3));
    }
}
