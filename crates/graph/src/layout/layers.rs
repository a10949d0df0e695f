//! In which column each member stands: right of everything that leads to it, and no further right than that.

use crate::link::Links;

/// The layer of each member, from 0 on the left. Links that lead back count as if they led forward, so that they too have
/// layers between their ends.
pub fn layers(links: &Links) -> Vec<usize> {
    let count = links.leaving.len();
    let mut forward = vec![Vec::new(); count];
    let mut open = vec![0_usize; count];
    for link in links.all.iter().filter(|link| link.from != link.to) {
        let (from, to) = if link.back { (link.to, link.from) } else { (link.from, link.to) };
        forward[from].push(to);
        open[to] += 1;
    }
    let mut layers = vec![0; count];
    let mut next: Vec<usize> = (0..count).filter(|at| open[*at] == 0).collect();
    while let Some(from) = next.pop() {
        for &to in &forward[from] {
            layers[to] = layers[to].max(layers[from] + 1);
            open[to] -= 1;
            if open[to] == 0 {
                next.push(to);
            }
        }
    }
    debug_assert!(open.iter().all(|open| *open == 0), "layers: turning links round leaves no cycle");
    layers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Edge, Graph, Node};
    use crate::state::State;

    fn of(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
        let nodes = (0..count).map(|at| Node::new(at.to_string(), "x", State::Waiting)).collect();
        let edges = edges.iter().map(|(from, to)| Edge::new(*from, *to)).collect();
        layers(&Links::of(&Graph { nodes, edges, ..Graph::default() }))
    }

    #[test]
    fn the_longest_path_decides() {
        assert_eq!(of(4, &[(0, 1), (1, 2), (0, 2), (2, 3), (0, 3)]), [0, 1, 2, 3]);
        assert_eq!(of(3, &[(0, 1)]), [0, 1, 0]);
    }

    #[test]
    fn a_cycle_is_laid_out_from_where_it_is_entered() {
        assert_eq!(of(4, &[(0, 1), (1, 2), (2, 1), (2, 3), (3, 3)]), [0, 1, 2, 3]);
        assert_eq!(of(2, &[(0, 1), (1, 0)]), [0, 1]);
    }
}
