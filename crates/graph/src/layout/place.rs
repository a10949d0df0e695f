//! From an order to coordinates: columns, boxes, the marks in front of them and the way of every wire.

use super::fold::{Folded, Kind, Wire};
use super::level::levels;
use super::order::order;
use super::rows::{Rows, Slot};
use super::wrap::wrap;
use std::collections::BTreeMap;

/// In pixels, from the top left.
pub type Point = (i64, i64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rect {
    pub x: i64,
    pub y: i64,
    pub width: i64,
    pub height: i64,
}

impl Rect {
    pub fn right(&self) -> i64 {
        self.x + self.width
    }

    pub fn bottom(&self) -> i64 {
        self.y + self.height
    }

    pub fn middle(&self) -> i64 {
        self.y + self.height / 2
    }

    pub fn overlaps(&self, other: &Rect) -> bool {
        self.x < other.right() && other.x < self.right() && self.y < other.bottom() && other.y < self.bottom()
    }
}

/// How much room is needed for what is written.
#[derive(Debug)]
pub struct Sizes {
    /// Width and height of each cell.
    pub cells: Vec<(i64, i64)>,
    /// The width of what is written at each wire, 0 for nothing.
    pub labels: Vec<i64>,
    /// The width of the mark of each group, 0 for those without.
    pub marks: Vec<i64>,
}

/// Says how a group joins its edges, in front of the box that they lead to.
#[derive(Debug)]
pub struct Mark {
    pub join: usize,
    pub rect: Rect,
    /// Where the line from the mark meets the box.
    pub end: Point,
}

/// The way of a wire: from one point to the next it curves between two layers, and it is straight from there to the next
/// pair. Empty for a loop.
#[derive(Debug)]
pub struct Route {
    pub hops: Vec<(Point, Point)>,
    pub end: Point,
    /// Hops that lead to the next line of a broken picture, by their place among the hops.
    pub turns: Vec<(usize, Turn)>,
}

/// How a wire comes from the end of one line to the beginning of the next: down at the right, back between the lines, down
/// at the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub right: i64,
    pub lane: i64,
    pub left: i64,
}

impl Route {
    pub fn turn(&self, hop: usize) -> Option<Turn> {
        self.turns.iter().find(|(at, _)| *at == hop).map(|(_, turn)| *turn)
    }
}

#[derive(Debug)]
pub struct Placed {
    pub cells: Vec<Rect>,
    pub marks: Vec<Mark>,
    pub routes: Vec<Route>,
    pub width: i64,
    pub height: i64,
}

/// Free room above and below a box, together.
const BETWEEN_BOXES: i64 = 22;
/// The room that a wire takes where it passes a layer.
const BEND: i64 = 22;
/// From one mark or entry of a box to the next.
const PORT: i64 = 26;
const MARK_HEIGHT: i64 = 20;
/// From a mark to its box.
const MARK_LEAD: i64 = 22;
/// From layer to layer, at least and at most.
const GAP: i64 = 60;
const GAP_MAX: i64 = 170;
/// How far below the middle a wire that leads back meets a box, so that it does not lie on the one that leads there.
const BACK: i64 = 15;
/// How far from its place a wire may be moved because others have the same ends.
const BESIDE_MAX: i64 = 9;
/// Bends per drawn box, at most.
const BENDS_PER_CELL: usize = 20;

pub fn place(folded: &Folded, sizes: &Sizes) -> Placed {
    let mut rows = Rows::of(folded, folded.cells.len().saturating_mul(BENDS_PER_CELL));
    order(&mut rows);
    let ports = ports(folded);
    let height_of = |cell: usize| sizes.cells[cell].1.max(ports[cell].len() as i64 * PORT + 6);
    let room_of = |slot: &Slot| match slot {
        Slot::Cell(cell) => height_of(*cell) + BETWEEN_BOXES,
        Slot::Bend(_) => BEND,
    };
    let levels = levels(&rows, &rows.slots.iter().map(room_of).collect::<Vec<i64>>());
    let columns = columns(folded, sizes, &rows, &ports, &levels);
    let rect = |(at, cell): (usize, &super::Cell)| {
        let (column, height) = (&columns[cell.layer], height_of(at));
        Rect { x: column.x + column.lead, y: levels[at] - height / 2, width: column.width, height }
    };
    let cells: Vec<Rect> = folded.cells.iter().enumerate().map(rect).collect();
    let drawing = Drawing { folded, rows: &rows, columns: &columns, levels: &levels, cells: &cells };
    let (marks, entries) = drawing.entries(&ports, sizes);
    let routes = drawing.routes(&entries);
    let width = columns.last().map_or(0, |column| column.x + column.lead + column.width);
    let bottom = |slot: usize| levels[slot] + room_of(&rows.slots[slot]) / 2;
    let height = (0..levels.len()).map(bottom).max().unwrap_or(0);
    let ends: Vec<(i64, i64)> =
        columns.iter().map(|column| (column.x, column.x + column.lead + column.width)).collect();
    wrap(Placed { cells, marks, routes, width, height }, &ends)
}

/// The entries of each cell: the groups whose marks stand in front of it, and `None` for all that needs no mark.
fn ports(folded: &Folded) -> Vec<Vec<Option<usize>>> {
    let mut ports = vec![Vec::new(); folded.cells.len()];
    for wire in folded.wires.iter().filter(|wire| wire.kind != Kind::Back) {
        if !ports[wire.to].contains(&wire.join) {
            ports[wire.to].push(wire.join);
        }
    }
    ports
}

/// Where wires enter a cell, by the cell and the group whose mark is there.
type Entries = BTreeMap<(usize, Option<usize>), Point>;

/// A layer on the page: first the marks, then the boxes, all as wide as the widest.
struct Column {
    x: i64,
    lead: i64,
    width: i64,
}

fn columns(folded: &Folded, sizes: &Sizes, rows: &Rows, ports: &[Vec<Option<usize>>], levels: &[i64]) -> Vec<Column> {
    let mut columns: Vec<Column> = (0..folded.layers).map(|_| Column { x: 0, lead: 0, width: 0 }).collect();
    for (at, cell) in folded.cells.iter().enumerate() {
        let column = &mut columns[cell.layer];
        column.width = column.width.max(sizes.cells[at].0);
        for join in ports[at].iter().flatten() {
            column.lead = column.lead.max(sizes.marks[*join] + MARK_LEAD);
        }
    }
    // Steep curves need a wide gap to look smooth, labels one that they fit in.
    let mut gaps = vec![GAP; folded.layers];
    for (slot, level) in levels.iter().enumerate() {
        let steepest = rows.after[slot].iter().map(|other| (levels[*other] - level).abs()).max().unwrap_or(0);
        let gap = &mut gaps[rows.layer[slot]];
        *gap = (*gap).max((GAP + steepest / 8).min(GAP_MAX));
    }
    for (wire, label) in folded.wires.iter().zip(&sizes.labels) {
        let gap = &mut gaps[folded.cells[wire.from].layer];
        *gap = (*gap).max(if *label > 0 { label + 40 } else { 0 });
    }
    let mut x = 0;
    for (column, gap) in columns.iter_mut().zip(gaps) {
        column.x = x;
        x += column.lead + column.width + gap;
    }
    columns
}

struct Drawing<'a> {
    folded: &'a Folded,
    rows: &'a Rows,
    columns: &'a [Column],
    levels: &'a [i64],
    cells: &'a [Rect],
}

impl Drawing<'_> {
    /// The marks, and where wires enter. Entries stand in the order of where their wires come from.
    fn entries(&self, ports: &[Vec<Option<usize>>], sizes: &Sizes) -> (Vec<Mark>, Entries) {
        let mut from: BTreeMap<(usize, Option<usize>), (i64, i64)> = BTreeMap::new();
        for (at, wire) in self.folded.wires.iter().enumerate() {
            let last = self.rows.bends[at].last().unwrap_or(&wire.from);
            let (sum, count) = from.entry((wire.to, wire.join)).or_default();
            (*sum, *count) = (*sum + self.levels[*last], *count + 1);
        }
        let mean = |cell: usize, join: Option<usize>| from.get(&(cell, join)).map_or(0, |(sum, count)| sum / count);
        let (mut marks, mut entries) = (Vec::new(), BTreeMap::new());
        for (cell, joins) in ports.iter().enumerate() {
            let mut joins = joins.clone();
            joins.sort_by_key(|join| (mean(cell, *join), *join));
            let rect = self.cells[cell];
            for (at, join) in joins.iter().enumerate() {
                let y = rect.middle() + (2 * at as i64 - (joins.len() as i64 - 1)) * PORT / 2;
                let Some(mark) = join else {
                    entries.insert((cell, None), (rect.x, y));
                    continue;
                };
                let width = sizes.marks[*mark];
                let x = rect.x - MARK_LEAD - width;
                let pill = Rect { x, y: y - MARK_HEIGHT / 2, width, height: MARK_HEIGHT };
                marks.push(Mark { join: *mark, rect: pill, end: (rect.x, y) });
                entries.insert((cell, *join), (x, y));
            }
        }
        (marks, entries)
    }

    fn routes(&self, entries: &Entries) -> Vec<Route> {
        // Of wires with the same ends, how many there are and how many are drawn already.
        let mut alike = BTreeMap::new();
        let ends = |wire: &Wire| (wire.from, wire.to, wire.join, wire.kind == Kind::Back);
        for wire in &self.folded.wires {
            alike.entry(ends(wire)).or_insert((0, 0)).0 += 1;
        }
        let mut routes = Vec::with_capacity(self.folded.wires.len());
        for (at, wire) in self.folded.wires.iter().enumerate() {
            let (count, before) = alike.entry(ends(wire)).or_default();
            // They lie beside each other, not on each other, but not so far that they miss what they lead to.
            let beside = ((2 * *before - (*count - 1)) * 5).clamp(-BESIDE_MAX, BESIDE_MAX);
            *before += 1;
            routes.push(self.route(at, wire, beside, entries));
        }
        routes
    }

    fn route(&self, at: usize, wire: &Wire, beside: i64, entries: &Entries) -> Route {
        let (from, to) = (self.cells[wire.from], self.cells[wire.to]);
        let aside = if wire.kind == Kind::Back { BACK + beside } else { beside };
        let (end_x, end_y) = match entries.get(&(wire.to, wire.join)) {
            Some(entry) if wire.kind != Kind::Back => (entry.0, entry.1 + aside),
            _ => (to.x, to.middle() + aside),
        };
        let mut route = Route { hops: Vec::new(), end: (end_x, end_y), turns: Vec::new() };
        if wire.from == wire.to {
            return route;
        }
        let mut last = (from.right(), from.middle() + aside);
        for bend in &self.rows.bends[at] {
            let column = &self.columns[self.rows.layer[*bend]];
            let level = self.levels[*bend];
            route.hops.push((last, (column.x, level)));
            last = (column.x + column.lead + column.width, level);
        }
        route.hops.push((last, (self.columns[self.folded.cells[wire.to].layer].x, end_y)));
        route
    }
}
