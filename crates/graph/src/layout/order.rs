//! Who stands above whom in a layer, so that few wires cross. Sweeps over the layers and puts every slot at the mean place
//! of its neighbours; exact arithmetic, and the order before decides between equals.

use super::rows::Rows;
use std::cmp::Ordering;

/// Sweeps without a better order after which the best is taken.
const PATIENCE: usize = 4;
const SWEEPS_MAX: usize = 24;
/// Above so many wires neighbours are not exchanged one by one: it takes long, and nobody follows a line in there.
const EXCHANGED_MAX: usize = 2_000;

/// Reorders the layers and says how often wires cross then. Slots that no wire joins, even through others, keep apart: one
/// island never lies within another.
pub fn order(rows: &mut Rows) -> usize {
    let islands = rows.islands();
    let mut place = vec![0; rows.slots.len()];
    for layer in &mut rows.order {
        layer.sort_by_key(|slot| islands[*slot]);
        number(layer, &mut place);
    }
    let mut best = (crossings(rows, &place), rows.order.clone());
    let mut stale = 0;
    for sweep in 0..SWEEPS_MAX {
        if best.0 == 0 || stale == PATIENCE {
            break;
        }
        let forward = sweep % 2 == 0;
        for step in 1..rows.order.len() {
            let layer = if forward { step } else { rows.order.len() - 1 - step };
            let beside = if forward { &rows.before } else { &rows.after };
            sort(&mut rows.order[layer], beside, &islands, &place);
            number(&rows.order[layer], &mut place);
        }
        if rows.after.iter().map(Vec::len).sum::<usize>() <= EXCHANGED_MAX {
            exchange(rows, &islands, &mut place);
        }
        let crossings = crossings(rows, &place);
        stale += 1;
        if crossings < best.0 {
            best = (crossings, rows.order.clone());
            stale = 0;
        }
    }
    rows.order = best.1;
    best.0
}

fn number(layer: &[usize], place: &mut [usize]) {
    for (at, slot) in layer.iter().enumerate() {
        place[*slot] = at;
    }
}

/// A slot without neighbours stays about where it is.
fn sort(layer: &mut [usize], beside: &[Vec<usize>], islands: &[usize], place: &[usize]) {
    let mean = |slot: usize| match beside[slot].as_slice() {
        [] => (place[slot], 1),
        beside => (beside.iter().map(|slot| place[*slot]).sum(), beside.len()),
    };
    let mut keyed: Vec<(usize, (usize, usize), usize)> =
        layer.iter().map(|slot| (islands[*slot], mean(*slot), *slot)).collect();
    keyed.sort_by(|one, other| one.0.cmp(&other.0).then_with(|| compare(one.1, other.1)));
    for (at, (.., slot)) in keyed.into_iter().enumerate() {
        layer[at] = slot;
    }
}

/// Compares sum / count of both without dividing.
fn compare(one: (usize, usize), other: (usize, usize)) -> Ordering {
    (one.0 as u128 * other.1 as u128).cmp(&(other.0 as u128 * one.1 as u128))
}

/// Exchanges slots that stand next to each other while fewer wires cross for it.
fn exchange(rows: &mut Rows, islands: &[usize], place: &mut [usize]) {
    for _ in 0..PATIENCE {
        let mut better = false;
        for at in 0..rows.order.len() {
            for upper in 1..rows.order[at].len() {
                let (one, other) = (rows.order[at][upper - 1], rows.order[at][upper]);
                if islands[one] != islands[other] {
                    continue;
                }
                let crossed = |one: usize, other: usize| {
                    between(&rows.before[one], &rows.before[other], place)
                        + between(&rows.after[one], &rows.after[other], place)
                };
                if crossed(other, one) < crossed(one, other) {
                    rows.order[at].swap(upper - 1, upper);
                    place.swap(one, other);
                    better = true;
                }
            }
        }
        if !better {
            break;
        }
    }
}

/// How many wires cross between two slots of which the first stands above the second.
fn between(upper: &[usize], lower: &[usize], place: &[usize]) -> usize {
    upper.iter().map(|one| lower.iter().filter(|other| place[**other] < place[*one]).count()).sum()
}

/// How many pairs of wires cross, over all layers.
fn crossings(rows: &Rows, place: &[usize]) -> usize {
    rows.order.iter().map(|layer| crossings_after(rows, layer, place)).sum()
}

/// Goes through the wires from top to bottom of their left ends and asks of each how many before it end further down: a
/// tree of partial sums answers that without looking at every pair.
fn crossings_after(rows: &Rows, layer: &[usize], place: &[usize]) -> usize {
    let mut ends = Vec::new();
    for slot in layer {
        let from = ends.len();
        ends.extend(rows.after[*slot].iter().map(|end| place[*end]));
        ends[from..].sort_unstable();
    }
    let mut sums = vec![0_usize; ends.iter().max().map_or(0, |last| last + 2)];
    let mut crossings = 0;
    for (seen, end) in ends.iter().enumerate() {
        let (mut at, mut not_below) = (end + 1, 0);
        while at > 0 {
            not_below += sums[at];
            at &= at - 1;
        }
        crossings += seen - not_below;
        let mut at = end + 1;
        while at < sums.len() {
            sums[at] += 1;
            at += at & at.wrapping_neg();
        }
    }
    crossings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Plan;
    use crate::model::{Edge, Graph, Node};
    use crate::samples;
    use crate::state::State;

    fn rows(graph: &Graph) -> Rows {
        Rows::of(&Plan::of(graph, usize::MAX).folded, usize::MAX)
    }

    fn ordered(count: usize, edges: &[(usize, usize)]) -> (usize, Vec<Vec<usize>>) {
        let nodes = (0..count).map(|at| Node::new(at.to_string(), "x", State::Waiting)).collect();
        let edges = edges.iter().map(|(from, to)| Edge::new(*from, *to)).collect();
        let mut rows = rows(&Graph { nodes, edges, ..Graph::default() });
        (order(&mut rows), rows.order)
    }

    /// Compares every pair of wires.
    fn counted(rows: &Rows) -> usize {
        let mut place = vec![0; rows.slots.len()];
        rows.order.iter().for_each(|layer| number(layer, &mut place));
        let mut crossings = 0;
        for layer in &rows.order {
            let wires: Vec<(usize, usize)> = layer
                .iter()
                .flat_map(|from| rows.after[*from].iter().map(|to| (place[*from], place[*to])).collect::<Vec<_>>())
                .collect();
            let crossed =
                |one: &(usize, usize)| wires.iter().filter(|other| one.0 < other.0 && other.1 < one.1).count();
            crossings += wires.iter().map(crossed).sum::<usize>();
        }
        crossings
    }

    #[test]
    fn wires_that_need_not_cross_do_not() {
        assert_eq!(ordered(8, &[(0, 7), (1, 6), (2, 5), (3, 4)]), (0, vec![vec![0, 1, 2, 3], vec![7, 6, 5, 4]]));
        assert_eq!(ordered(5, &[(0, 2), (0, 3), (1, 4), (1, 2)]), (0, vec![vec![0, 1], vec![3, 2, 4]]));
        assert_eq!(ordered(4, &[(0, 2), (0, 3), (1, 2), (1, 3)]).0, 1, "two from each to each must");
    }

    #[test]
    fn islands_do_not_lie_within_each_other() {
        assert_eq!(ordered(6, &[(0, 3), (2, 4), (0, 4), (1, 5)]).1, [[0, 2, 1], [3, 4, 5]]);
        assert_eq!(ordered(4, &[(0, 3), (2, 3)]).1, [vec![0, 2, 1], vec![3]], "1 would lie between 0 and 2");
    }

    #[test]
    fn crossings_are_counted_as_one_counts_them() {
        for seed in 0..20 {
            let mut rows = rows(&samples::tangle(seed, 40, 90));
            let found = order(&mut rows);
            assert_eq!(found, counted(&rows), "seed {seed}");
        }
    }

    /// No rule says how many are right. More than this says that the sweeps have become worse.
    #[test]
    fn most_crossings_of_a_tangle_go_away() {
        let tangles: Vec<Graph> = (0..20).map(|seed| samples::tangle(seed, 40, 60)).collect();
        let before: usize = tangles.iter().map(|graph| counted(&rows(graph))).sum();
        let after: usize = tangles.iter().map(|graph| order(&mut rows(graph))).sum();
        assert!(before > 1_200 && after < 540, "{before} became {after}");
    }
}
