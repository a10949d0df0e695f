use super::fold::{Content, Kind};
use super::place::{Placed, Rect, Sizes, place};
use super::{Plan, level, order, rows};
use crate::model::{Edge, Graph, Node};
use crate::samples;
use crate::state::State;
use std::collections::BTreeMap;

/// Boxes of several sizes, so that rows do not fall into line by themselves.
fn sizes(plan: &Plan) -> Sizes {
    Sizes {
        cells: (0..plan.folded.cells.len() as i64).map(|at| (120 + at % 7 * 9, 50 + at % 5 * 13)).collect(),
        labels: (0..plan.folded.wires.len() as i64).map(|at| at % 3 * 30).collect(),
        marks: plan.joins.all.iter().map(|join| if join.mark().is_some() { 50 } else { 0 }).collect(),
    }
}

fn placed(graph: &Graph, nodes_max: usize) -> (Plan, Placed) {
    let plan = Plan::of(graph, nodes_max);
    let placed = place(&plan.folded, &sizes(&plan));
    (plan, placed)
}

fn graph(count: usize, edges: &[(usize, usize)]) -> Graph {
    let nodes = (0..count).map(|at| Node::new(at.to_string(), "x", State::Waiting)).collect();
    let edges = edges.iter().map(|(from, to)| Edge::new(*from, *to)).collect();
    Graph { nodes, edges, ..Graph::default() }
}

#[test]
fn no_two_boxes_overlap_and_all_are_on_the_page() {
    for (name, graph) in samples::all() {
        let (_, placed) = placed(&graph, 200);
        let rects: Vec<Rect> = placed.cells.iter().copied().chain(placed.marks.iter().map(|mark| mark.rect)).collect();
        for (at, rect) in rects.iter().enumerate() {
            assert!(rect.x >= 0 && rect.y >= 0, "{name}: {rect:?}");
            assert!(rect.right() <= placed.width && rect.bottom() <= placed.height, "{name}: {rect:?}");
            let over = rects[..at].iter().find(|other| other.overlaps(rect));
            assert_eq!(over, None, "{name}: {rect:?}");
        }
    }
}

#[test]
fn every_link_is_drawn_once_or_inside_a_box() {
    for (name, graph) in samples::all() {
        let (plan, placed) = placed(&graph, 200);
        let mut drawn: Vec<usize> = plan.folded.wires.iter().flat_map(|wire| wire.links.clone()).collect();
        let count = drawn.len();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), count, "{name}");
        assert_eq!(drawn.len() + plan.folded.inside, plan.links.all.len(), "{name}");
        assert_eq!(placed.routes.len(), plan.folded.wires.len(), "{name}");
    }
}

#[test]
fn every_wire_leads_from_box_to_box_and_to_the_right() {
    for (name, graph) in samples::all() {
        let (plan, placed) = placed(&graph, 200);
        for (wire, route) in plan.folded.wires.iter().zip(&placed.routes) {
            let (from, to) = (&placed.cells[wire.from], &placed.cells[wire.to]);
            if wire.from == wire.to {
                assert!(wire.kind == Kind::Back && route.hops.is_empty(), "{name}: {wire:?}");
                continue;
            }
            let (start, last) = (route.hops[0].0, route.hops[route.hops.len() - 1].1);
            assert!(start.0 == from.right() && (from.y..from.bottom()).contains(&start.1), "{name}: {wire:?}");
            assert!(last.0 <= route.end.0 && last.1 == route.end.1, "{name}: {wire:?}");
            assert!((to.y..to.bottom()).contains(&route.end.1), "{name}: {wire:?}");
            let met = wire.join.map_or(to.x, |join| {
                let mark = placed.marks.iter().find(|mark| mark.join == join).unwrap();
                assert_eq!(mark.end.0, to.x);
                mark.rect.x
            });
            assert_eq!(route.end.0, met, "{name}: {wire:?}");
            let mut x = i64::MIN;
            for (at, hop) in route.hops.iter().enumerate() {
                let right = hop.0.0 < hop.1.0 || route.turn(at).is_some();
                assert!(x <= hop.0.0 && right, "{name}: {wire:?}");
                x = hop.1.0;
            }
        }
    }
}

/// Where a wire passes a layer it is straight, and nothing stands there.
#[test]
fn no_wire_passes_behind_a_box() {
    for (name, graph) in samples::all() {
        let (plan, placed) = placed(&graph, 200);
        for (wire, route) in plan.folded.wires.iter().zip(&placed.routes) {
            for (hop, next) in route.hops.iter().zip(route.hops.iter().skip(1)) {
                let straight = Rect { x: hop.1.0, y: hop.1.1, width: next.0.0 - hop.1.0, height: 1 };
                let over = placed.cells.iter().find(|rect| rect.overlaps(&straight));
                assert_eq!(over, None, "{name}: {wire:?}");
            }
        }
    }
}

#[test]
fn layers_respect_the_direction_of_edges() {
    for (name, graph) in samples::all() {
        let plan = Plan::of(&graph, usize::MAX);
        for wire in plan.folded.wires.iter().filter(|wire| wire.from != wire.to) {
            let (from, to) = (plan.folded.cells[wire.from].layer, plan.folded.cells[wire.to].layer);
            assert!(from < to, "{name}: {wire:?}");
            let link = &plan.links.all[wire.links[0]];
            let ends = if link.back { (link.to, link.from) } else { (link.from, link.to) };
            let node = |cell: usize| match plan.folded.cells[cell].content {
                Content::Node(node) => node,
                Content::More(_) => panic!("{name}: nothing is folded without a limit"),
            };
            assert_eq!((node(wire.from), node(wire.to)), ends, "{name}");
            assert_eq!(wire.kind == Kind::Back, link.back, "{name}");
        }
    }
}

#[test]
fn a_fold_never_has_too_many_boxes_and_forgets_nobody() {
    for (name, graph) in samples::all() {
        for nodes_max in [0, 1, 2, 3, 10, 50, 200] {
            let folded = Plan::of(&graph, nodes_max).folded;
            assert!(folded.cells.len() <= nodes_max.max(1), "{name}: {} boxes for {nodes_max}", folded.cells.len());
            let stand_for = folded.cells.iter().map(|cell| match &cell.content {
                Content::Node(_) => 1,
                Content::More(counts) => counts.total(),
            });
            assert_eq!(stand_for.sum::<usize>(), graph.nodes.len(), "{name}: {nodes_max}");
        }
    }
}

fn shown(graph: &Graph, nodes_max: usize) -> Vec<String> {
    let folded = Plan::of(graph, nodes_max).folded;
    let cells = folded.cells.into_iter().map(|cell| match cell.content {
        Content::Node(node) => format!("{} {}", cell.layer, graph.nodes[node].key),
        Content::More(counts) => format!("{} … {} ({})", cell.layer, counts.total(), counts.words().join(", ")),
    });
    cells.collect()
}

#[test]
fn a_fold_shows_what_went_wrong_and_what_goes_on() {
    let fan = shown(&samples::fan(10_000), 25);
    assert_eq!(
        fan,
        [
            "0 list",
            "1 resize-00001",
            "1 resize-00007",
            "1 resize-04321",
            "1 resize-09801",
            "1 … 9996 (9,788 completed, 199 waiting, 9 active)",
            "2 index"
        ]
    );
    let chain = shown(&samples::chain(10_000, 5_000), 49);
    assert_eq!(
        chain,
        [
            "0 step-0",
            "1 step-1",
            "2 … 4998 (4,998 completed)",
            "3 step-5000",
            "4 … 4997 (4,997 waiting)",
            "5 step-9998",
            "6 step-9999"
        ]
    );
}

#[test]
fn a_single_layer_between_shown_ones_is_shown_too() {
    // Six layers of five; there is room for five of five.
    let edges: Vec<(usize, usize)> = (5..30).map(|to| (to - 5, to)).collect();
    let mut graph = graph(30, &edges);
    graph.nodes[12].state = State::Active;
    let shown = shown(&graph, 25);
    assert_eq!(shown.len(), 4 * 5 + 1);
    assert_eq!(shown[5], "1 5", "hiding the layer beside the active one would save nothing");
    assert_eq!(shown[15], "3 … 10 (10 waiting)");
}

#[test]
fn a_box_of_many_shares_wires_and_a_member_does_not() {
    let plan = Plan::of(&samples::fan(10_000), 200);
    let many = plan.folded.cells.iter().position(|cell| matches!(cell.content, Content::More(_))).unwrap();
    let to_many: Vec<_> = plan.folded.wires.iter().filter(|wire| wire.to == many || wire.from == many).collect();
    assert_eq!(to_many.len(), 2);
    assert!(to_many.iter().all(|wire| wire.links.len() == 9_987));
    assert_eq!(plan.folded.wires.len(), 2 * 14);
}

#[test]
fn what_follows_the_upper_stands_above_what_follows_the_lower() {
    let graph = graph(7, &[(0, 1), (0, 2), (1, 4), (2, 3), (1, 5), (3, 6), (4, 6), (5, 6)]);
    let (_, placed) = placed(&graph, 200);
    let mut by_height = vec![3, 4, 5];
    by_height.sort_by_key(|cell| placed.cells[*cell].y);
    assert_eq!(by_height, [4, 5, 3]);
}

#[test]
fn a_diamond_is_even() {
    let plan = Plan::of(&graph(4, &[(0, 1), (0, 2), (1, 3), (2, 3)]), 200);
    let mut rows = rows::Rows::of(&plan.folded, 100);
    order::order(&mut rows);
    assert_eq!(level::levels(&rows, &[80, 80, 80, 80]), [80, 40, 120, 80]);
}

#[test]
fn no_island_could_stand_higher() {
    for (name, graph) in samples::all() {
        let plan = Plan::of(&graph, 200);
        let mut rows = rows::Rows::of(&plan.folded, 10_000);
        order::order(&mut rows);
        let room: Vec<i64> = (0..rows.slots.len() as i64).map(|at| 60 + at % 7 * 10).collect();
        let levels = level::levels(&rows, &room);
        let islands = rows.islands();
        let mut free: BTreeMap<usize, i64> = BTreeMap::new();
        for layer in &rows.order {
            let mut above: Option<usize> = None;
            for slot in layer {
                if above.is_none_or(|above| islands[above] != islands[*slot]) {
                    let bottom = above.map_or(0, |above| levels[above] - room[above] / 2 + room[above]);
                    let gap = levels[*slot] - room[*slot] / 2 - bottom;
                    let least = free.entry(islands[*slot]).or_insert(gap);
                    *least = gap.min(*least);
                }
                above = Some(*slot);
            }
        }
        assert!(free.values().all(|free| *free == 0), "{name}: {free:?}");
    }
}

#[test]
fn a_long_wire_is_straight_where_nothing_is_in_its_way() {
    let (plan, placed) = placed(&graph(5, &[(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]), 200);
    let long = plan.folded.wires.iter().position(|wire| (wire.from, wire.to) == (0, 4)).unwrap();
    let hops = &placed.routes[long].hops;
    assert_eq!(hops.len(), 4);
    assert!(hops[1..3].iter().all(|((_, from), (_, to))| (from - to).abs() <= 12), "{hops:?}");
}

#[test]
fn wires_with_the_same_ends_lie_beside_each_other_and_meet_their_box() {
    for count in [2, 3, 40] {
        let mut graph = graph(2, &vec![(0, 1); count]);
        for (at, edge) in graph.edges.iter_mut().enumerate() {
            edge.group = format!("group-{at}");
        }
        let (_, placed) = placed(&graph, 200);
        let heights: Vec<i64> = placed.routes.iter().map(|route| route.end.1).collect();
        assert!(heights[0] < heights[1] || count == 40, "{heights:?}");
        assert!(heights.iter().all(|height| (placed.cells[1].y..placed.cells[1].bottom()).contains(height)));
    }
}

#[test]
fn a_tangle_gets_no_more_bends_than_there_is_patience_for() {
    let every: Vec<(usize, usize)> = (0..60).flat_map(|to| (0..to).map(move |from| (from, to))).collect();
    let plan = Plan::of(&graph(60, &every), 1_000);
    let rows = rows::Rows::of(&plan.folded, 500);
    assert!(rows.slots.len() <= 60 + 500);
    assert!(rows.bends.iter().any(|bends| !bends.is_empty()));
    let placed = place(&plan.folded, &sizes(&plan));
    assert_eq!(placed.routes.len(), every.len());
}

/// The lines of boxes by where they begin.
fn heights(placed: &Placed) -> Vec<i64> {
    let mut heights: Vec<i64> = placed.cells.iter().map(Rect::middle).collect();
    heights.sort_unstable();
    heights.dedup();
    heights
}

#[test]
fn a_long_chain_is_broken_into_lines_that_are_read_from_left_to_right() {
    let (plan, placed) = placed(&samples::chain(40, 20), 200);
    assert!(placed.width < 1_700 && placed.height < 900, "{} x {}", placed.width, placed.height);
    let lines = heights(&placed);
    assert!((4..8).contains(&lines.len()), "{lines:?}");
    let order: Vec<(i64, i64)> = placed.cells.iter().map(|rect| (rect.middle(), rect.x)).collect();
    assert!(order.is_sorted(), "each step stands behind the one before it, or on a later line");
    let turned = placed.routes.iter().filter(|route| !route.turns.is_empty());
    assert_eq!((turned.count(), plan.folded.wires.len()), (lines.len() - 1, 39));
    for route in &placed.routes {
        for (hop, turn) in &route.turns {
            let (from, to) = route.hops[*hop];
            assert!(from.1 < turn.lane && turn.lane < to.1, "between the lines: {turn:?}");
            assert!(turn.right > from.0 && turn.left < to.0, "outside of the boxes: {turn:?}");
            assert!(turn.left > 0 && turn.right <= placed.width, "on the page: {turn:?}");
        }
    }
}

#[test]
fn wires_that_turn_at_one_place_do_not_cross_there() {
    let mut graph = samples::chain(30, 30);
    for at in 2..6 {
        graph.edges.push(Edge::new(at, at + 11));
    }
    let (_, placed) = placed(&graph, 200);
    let mut turns: Vec<(i64, i64, i64, i64)> = Vec::new();
    for route in &placed.routes {
        turns.extend(route.turns.iter().map(|(hop, turn)| (route.hops[*hop].0.1, turn.lane, turn.right, turn.left)));
    }
    turns.sort_unstable_by_key(|(y, lane, ..)| (*y, -lane));
    let mut together = 0;
    for two in turns.windows(2) {
        let ((y, lane, right, left), (below, next_lane, next_right, next_left)) = (two[0], two[1]);
        if (lane - next_lane).abs() < 60 {
            assert!(y <= below && next_lane < lane && next_right < right && next_left < left, "{two:?}");
            together += 1;
        }
    }
    assert!(together > 0, "{turns:?}");
}

#[test]
fn a_picture_that_too_many_wires_would_turn_in_stays_as_wide_as_it_is() {
    let mut graph = samples::chain(40, 20);
    for at in 0..8 {
        graph.edges.push(Edge::new(at, 39));
    }
    let (_, wide) = placed(&graph, 200);
    assert!(wide.width > 5_000 && wide.routes.iter().all(|route| route.turns.is_empty()));
    let (_, narrow) = placed(&samples::diamond(), 200);
    assert!(narrow.routes.iter().all(|route| route.turns.is_empty()));
}
