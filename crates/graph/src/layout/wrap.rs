//! A picture that would be too wide is broken into lines, like text: a chain of forty steps is read line by line. Broken
//! where few wires pass; these run back between two lines to where the next one begins.

use super::place::{Mark, Placed, Rect, Route, Turn};

/// A picture that is wider is broken.
const WIDTH_MAX: i64 = 1_500;
/// A line that is broken early, because fewer wires pass there, is no shorter than this.
const WIDTH_MIN: i64 = 900;
/// With more wires than this at every place a picture stays as wide as it is: nobody could follow them.
const WIRES_MAX: usize = 6;
/// From a line of boxes to the first wire below or beside it, and from that to the next.
const AWAY: i64 = 16;
/// Above the first line and below the last.
const MARGIN: i64 = 11;
const LANE: i64 = 9;

/// Columns that stand on one line of the picture: from which to which, and where that was before.
struct Line {
    left: i64,
    right: i64,
    top: i64,
    bottom: i64,
    /// Wires that go on from its end on the next line.
    wires: usize,
}

/// `columns` are the left and right ends of the layers.
pub fn wrap(mut placed: Placed, columns: &[(i64, i64)]) -> Placed {
    let Some(lines) = lines(&placed, columns) else { return placed };
    // Beside every line there is room for the wires of the one with most of them.
    let side = lines.iter().map(|line| line.wires).max().map_or(0, |wires| AWAY + LANE * wires as i64);
    let mut tops = Vec::with_capacity(lines.len());
    let mut y = MARGIN;
    for line in &lines {
        tops.push(y);
        y += line.bottom - line.top + 2 * AWAY + LANE * line.wires as i64;
    }
    let at = |x: i64| lines.iter().rposition(|line| line.left <= x).unwrap_or(0);
    let moved = |(x, y): (i64, i64)| {
        let line = at(x);
        (x - lines[line].left + side, y - lines[line].top + tops[line])
    };
    let moved_rect = |rect: &Rect| {
        let (x, y) = moved((rect.x, rect.y));
        Rect { x, y, ..*rect }
    };
    let mut turning: Vec<(usize, i64, usize, usize)> = Vec::new();
    for (route, way) in placed.routes.iter().enumerate() {
        for (hop, (from, to)) in way.hops.iter().enumerate() {
            if at(from.0) != at(to.0) {
                turning.push((at(from.0), from.1, route, hop));
            }
        }
    }
    turning.sort_unstable();
    let moved_route = |route: &Route| {
        let hops = route.hops.iter().map(|(from, to)| (moved(*from), moved(*to))).collect();
        Route { hops, end: moved(route.end), turns: Vec::new() }
    };
    let mut routes: Vec<Route> = placed.routes.iter().map(moved_route).collect();
    let mut taken = vec![0; lines.len()];
    for (line, _, route, hop) in turning {
        routes[route].turns.push((hop, lines[line].turn(tops[line], side, taken[line])));
        taken[line] += 1;
    }
    placed.cells = placed.cells.iter().map(moved_rect).collect();
    let mark = |mark: &Mark| Mark { join: mark.join, rect: moved_rect(&mark.rect), end: moved(mark.end) };
    placed.marks = placed.marks.iter().map(mark).collect();
    placed.routes = routes;
    placed.width = lines.iter().map(|line| line.right - line.left).max().unwrap_or(0) + 2 * side;
    placed.height = lines.last().zip(tops.last()).map_or(0, |(line, top)| top + line.bottom - line.top + MARGIN);
    placed
}

impl Line {
    /// The way of the wire that is the nth from above at the end of this line: outermost at the right, lowest below the line
    /// and innermost at the left, so that those of one line lie in each other and do not cross there.
    fn turn(&self, top: i64, side: i64, nth: i64) -> Turn {
        let inner = AWAY + LANE * (self.wires as i64 - 1 - nth);
        Turn {
            right: side + self.right - self.left + inner,
            lane: top + self.bottom - self.top + inner,
            left: side - AWAY - LANE * nth,
        }
    }
}

/// Where to break; nothing if the picture is narrow, or wires are too many everywhere.
fn lines(placed: &Placed, columns: &[(i64, i64)]) -> Option<Vec<Line>> {
    if placed.width <= WIDTH_MAX {
        return None;
    }
    let passing = passing(placed, columns);
    let mut lines = Vec::new();
    let mut first = 0;
    while first < columns.len() {
        let left = columns[first].0;
        let fits = columns[first..].iter().take_while(|(_, right)| right - left <= WIDTH_MAX).count().max(1);
        let mut last = first + fits - 1;
        if last + 1 < columns.len() {
            let early = (first..=last).filter(|at| *at == last || columns[*at].1 - left >= WIDTH_MIN);
            // Of places that are as good the last, so that lines are long.
            last = early.rev().min_by_key(|at| passing[*at]).unwrap_or(last);
            if passing[last] > WIRES_MAX {
                return None;
            }
        }
        let (right, inside) = (columns[last].1, |x: i64| left <= x && x <= columns[last].1);
        let cells = placed.cells.iter().filter(|rect| inside(rect.x)).flat_map(|rect| [rect.y, rect.bottom()]);
        let points = placed.routes.iter().flat_map(|route| &route.hops).flat_map(|(from, to)| [*from, *to]);
        let levels: Vec<i64> = cells.chain(points.filter(|point| inside(point.0)).map(|point| point.1)).collect();
        let (top, bottom) = (levels.iter().min().copied().unwrap_or(0), levels.iter().max().copied().unwrap_or(0));
        let wires = if last + 1 < columns.len() { passing[last] } else { 0 };
        lines.push(Line { left, right, top, bottom, wires });
        first = last + 1;
    }
    Some(lines)
}

/// How many wires pass behind each column.
fn passing(placed: &Placed, columns: &[(i64, i64)]) -> Vec<usize> {
    let mut passing = vec![0; columns.len()];
    for (from, _) in placed.routes.iter().flat_map(|route| &route.hops) {
        if let Some(column) = columns.iter().rposition(|(left, _)| *left <= from.0) {
            passing[column] += 1;
        }
    }
    passing
}
