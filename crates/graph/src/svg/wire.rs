//! The lines between boxes, the marks in front of joins, and what is written at lines.

use super::markup::{escape, tooltip};
use super::measure::{TINY, by_state, label, mark as mark_words};
use crate::layout::{Kind, Placed, Plan, Point, Rect, Route, Turn, Wire};
use crate::link::What;
use crate::model::{EdgeState, Graph};
use crate::text::{number, plain};
use std::cmp::Ordering;

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Look {
    Child,
    Pending,
    Unmet,
    Met,
    Back,
}

impl Look {
    fn of(graph: &Graph, plan: &Plan, wire: &Wire) -> Self {
        match wire.kind {
            Kind::Back => Look::Back,
            Kind::Child => Look::Child,
            Kind::Edge => {
                Look::of_state(by_state(graph, plan, wire).first().map_or(EdgeState::Pending, |(state, _)| *state))
            }
        }
    }

    fn of_state(state: EdgeState) -> Self {
        match state {
            EdgeState::Pending => Look::Pending,
            EdgeState::Met => Look::Met,
            EdgeState::Unmet => Look::Unmet,
        }
    }

    /// Those of all lines, in the order of a legend.
    pub fn occurring(graph: &Graph, plan: &Plan) -> Vec<Look> {
        let drawn: Vec<Look> = plan.folded.wires.iter().map(|wire| Look::of(graph, plan, wire)).collect();
        let all = [Look::Met, Look::Unmet, Look::Pending, Look::Child, Look::Back];
        all.into_iter().filter(|look| drawn.contains(look)).collect()
    }

    pub fn words(self) -> &'static str {
        match self {
            Look::Child => "child",
            Look::Pending => "pending",
            Look::Unmet => "unmet",
            Look::Met => "met",
            Look::Back => "leads back",
        }
    }

    fn class(self) -> &'static str {
        match self {
            Look::Child => "wg-child",
            Look::Pending => "wg-pending",
            Look::Unmet => "wg-unmet",
            Look::Met => "wg-met",
            Look::Back => "wg-back",
        }
    }

    /// A short piece of such a line, for the legend.
    pub fn sample(self, x: i64, y: i64) -> String {
        let (class, end) = (self.class(), x + 32);
        let tail = if self == Look::Child { tail(x + 3, y) } else { String::new() };
        let line = format!("<path class=\"wg-line\" d=\"M{x} {y}H{}\"/>", end - HEAD);
        format!("<g class=\"{class}\">{line}{tail}{}</g>\n", head(end, y, false))
    }
}

/// How long the head of an arrow is.
const HEAD: i64 = 7;

/// A head whose tip is at the point. Lines meet boxes level, so it only points right or left.
fn head(x: i64, y: i64, left: bool) -> String {
    let length = if left { HEAD } else { -HEAD };
    format!("<path class=\"wg-head\" d=\"M{x} {y}l{length}-4v8z\"/>")
}

/// The ring where the line to a child begins.
fn tail(x: i64, y: i64) -> String {
    format!("<circle class=\"wg-tail\" cx=\"{x}\" cy=\"{y}\" r=\"3\"/>")
}

/// All wires, the most telling on top, and above them what is written at them.
pub fn wires(graph: &Graph, plan: &Plan, placed: &Placed) -> String {
    let mut wires: Vec<(Look, usize)> =
        plan.folded.wires.iter().enumerate().map(|(at, wire)| (Look::of(graph, plan, wire), at)).collect();
    wires.sort_unstable();
    let (mut lines, mut labels, ends) = (String::new(), Labels::default(), Ends::of(plan));
    for (look, at) in wires {
        let (wire, route) = (&plan.folded.wires[at], &placed.routes[at]);
        let way = way(look, wire, route, &placed.cells[wire.from]);
        let class = look.class();
        lines.push_str(&format!("<g class=\"wg-edge {class}\">{}{way}</g>\n", tooltip(&described(graph, plan, wire))));
        let words = label(graph, plan, wire);
        if let (Some(hop), false) = (route.hops.first(), words.is_empty()) {
            match route.turn(0) {
                None => labels.write(&words, *hop, ends.lean(wire)),
                Some(Turn { right, lane, left }) => labels.write(&words, ((left, lane), (right, lane)), Lean::Middle),
            }
        }
    }
    lines + &labels.markup
}

/// How many wires leave and reach each box.
struct Ends {
    out: Vec<usize>,
    into: Vec<usize>,
}

impl Ends {
    fn of(plan: &Plan) -> Self {
        let none = vec![0; plan.folded.cells.len()];
        let mut ends = Ends { out: none.clone(), into: none };
        for wire in &plan.folded.wires {
            ends.out[wire.from] += 1;
            ends.into[wire.to] += 1;
        }
        ends
    }

    /// Where wires of one box are close together nobody can tell whose a label is: it stands at the other end.
    fn lean(&self, wire: &Wire) -> Lean {
        match self.out[wire.from].cmp(&self.into[wire.to]) {
            Ordering::Greater => Lean::End,
            Ordering::Equal => Lean::Middle,
            Ordering::Less => Lean::Start,
        }
    }
}

/// To which end of its line a label is drawn.
#[derive(Clone, Copy)]
enum Lean {
    Start,
    Middle,
    End,
}

fn way(look: Look, wire: &Wire, route: &Route, from: &Rect) -> String {
    let Some((start, _)) = route.hops.first() else {
        return around(from);
    };
    let back = look == Look::Back;
    // A line ends where the head of its arrow begins; one that leads to a mark has none, the mark's own line has.
    let cut = if wire.join.is_none() && !back { HEAD - 1 } else { 0 };
    let begin = if back { HEAD - 1 } else { 0 };
    let mut path = format!("M{} {}", start.0 + begin, start.1);
    for (at, (from, to)) in route.hops.iter().enumerate() {
        if at > 0 {
            path.push_str(&format!("H{}", from.0));
        }
        if let Some(turn) = route.turn(at) {
            path.push_str(&turned(turn, *from, *to));
            continue;
        }
        let middle = (from.0 + to.0) / 2;
        let x = if at + 1 == route.hops.len() { to.0.min(route.end.0 - cut) } else { to.0 };
        path.push_str(&format!("C{middle} {} {middle} {} {x} {}", from.1, to.1, to.1));
    }
    path.push_str(&format!("H{}", route.end.0 - cut));
    let mut way = format!("<path class=\"wg-line\" d=\"{path}\"/>");
    match look {
        Look::Back => way.push_str(&head(start.0, start.1, true)),
        _ if wire.join.is_none() => way.push_str(&head(route.end.0, route.end.1, false)),
        _ => {}
    }
    if look == Look::Child {
        way.push_str(&tail(start.0 + 3, start.1));
    }
    way
}

/// How round a turn is.
const ROUND: i64 = 8;

/// From the end of a line of the picture to the beginning of the next.
fn turned(turn: Turn, from: Point, to: Point) -> String {
    let Turn { right, lane, left } = turn;
    let down = |x: i64, y: i64| format!("V{}Q{x} {y} ", y - ROUND);
    format!(
        "H{}Q{right} {} {right} {}{}{} {lane}H{}Q{left} {lane} {left} {}{}{} {}H{}",
        right - ROUND,
        from.1,
        from.1 + ROUND,
        down(right, lane),
        right - ROUND,
        left + ROUND,
        lane + ROUND,
        down(left, to.1),
        left + ROUND,
        to.1,
        to.0
    )
}

/// From a box to itself, above its right end.
fn around(rect: &Rect) -> String {
    let (x, y) = (rect.right() - 18, rect.y);
    let path = format!("<path class=\"wg-line\" d=\"M{} {y}c0-18 22-18 22-3\"/>", x - 22);
    format!("{path}<path class=\"wg-head\" d=\"M{x} {y}l-4-7h8z\"/>")
}

/// The marks of joins, each with its line to the box.
pub fn marks(plan: &Plan, placed: &Placed) -> String {
    let mut out = String::new();
    for mark in &placed.marks {
        let join = &plan.joins.all[mark.join];
        let (class, rect, (end, y)) = (Look::of_state(join.state).class(), &mark.rect, mark.end);
        let words = mark_words(join).unwrap_or_default();
        let full = tooltip(&join.mark().unwrap_or_default());
        out.push_str(&format!(
            "<g class=\"wg-join {class}\">{full}<path class=\"wg-line\" d=\"M{} {y}H{}\"/>{}\
             <rect class=\"wg-mark\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\"/>\
             <text class=\"wg-tiny wg-middle\" x=\"{}\" y=\"{}\">{}</text></g>\n",
            rect.right(),
            end - HEAD + 1,
            head(end, y, false),
            rect.x,
            rect.y,
            rect.width,
            rect.height,
            rect.height / 2,
            rect.x + rect.width / 2,
            y + 4,
            escape(&words)
        ));
    }
    out
}

/// From where to where, and how it stands.
fn described(graph: &Graph, plan: &Plan, wire: &Wire) -> String {
    let [one] = wire.links.as_slice() else {
        if wire.kind == Kind::Child {
            return format!("{} children", number(wire.links.len()));
        }
        let states = by_state(graph, plan, wire);
        let states: Vec<String> = states.iter().map(|(state, n)| format!("{} {}", number(*n), state.word())).collect();
        return format!("{} edges: {}", number(wire.links.len()), states.join(", "));
    };
    let link = &plan.links.all[*one];
    let key = |node: usize| plain(&graph.nodes[node].key);
    let ends = format!("{} → {}", key(link.from), key(link.to));
    match link.what {
        What::Child => format!("{ends}\nchild"),
        What::Edge(edge) => {
            let edge = &graph.edges[edge];
            let label = plain(&edge.label());
            let said = if label.is_empty() { String::new() } else { format!("{label}\n") };
            format!("{ends}\n{said}{}", edge.state.word())
        }
    }
}

/// How far along its curve a label may stand, in hundredths, and how far above or below.
type Stand = (i64, i64);

impl Lean {
    /// The best first.
    const fn stands(self) -> [Stand; 10] {
        match self {
            Lean::Start => {
                [(14, 0), (20, 0), (28, 0), (38, 0), (50, 0), (62, 0), (30, -14), (30, 14), (50, -28), (50, 28)]
            }
            Lean::Middle => {
                [(50, 0), (38, 0), (62, 0), (28, 0), (72, 0), (50, -14), (50, 14), (50, -28), (50, 28), (14, 0)]
            }
            Lean::End => {
                [(86, 0), (80, 0), (72, 0), (62, 0), (50, 0), (38, 0), (70, -14), (70, 14), (50, -28), (50, 28)]
            }
        }
    }
}

/// With how many labels before it a label is compared: those further back in the order are seldom near.
const COMPARED: usize = 64;

/// What is written at wires, and where that is.
#[derive(Default)]
struct Labels {
    markup: String,
    taken: Vec<Rect>,
}

impl Labels {
    fn write(&mut self, words: &str, hop: (Point, Point), lean: Lean) {
        let (width, height) = (TINY.width(words) + 6, 14);
        let at = |(along, aside): (i64, i64)| {
            let (x, y) = on_curve(hop, along);
            let y = y + aside;
            (x, y, Rect { x: x - width / 2, y: y - height / 2, width, height })
        };
        let nearby = self.taken.iter().rev().take(COMPARED);
        // Neither on the box it comes from nor on the head of the arrow.
        let (start, end) = (hop.0.0.min(hop.1.0) + 2, hop.0.0.max(hop.1.0) - HEAD - 4);
        let fits = |rect: &Rect| start <= rect.x && rect.right() <= end;
        let free = |rect: &Rect| fits(rect) && !nearby.clone().any(|taken| taken.overlaps(rect));
        let stands = lean.stands();
        let (x, y, rect) = stands.into_iter().map(at).find(|(.., rect)| free(rect)).unwrap_or_else(|| at(stands[0]));
        self.taken.push(rect);
        let words = escape(words);
        self.markup.push_str(&format!("<text class=\"wg-label\" x=\"{x}\" y=\"{}\">{words}</text>\n", y + 4));
    }
}

/// The point of a curve after so many hundredths of its parameter.
fn on_curve(((x0, y0), (x1, y1)): (Point, Point), t: i64) -> Point {
    let s = 100 - t;
    let point = |a: i64, b: i64, c: i64, d: i64| {
        (a * s * s * s + 3 * b * s * s * t + 3 * c * s * t * t + d * t * t * t) / 1_000_000
    };
    let middle = (x0 + x1) / 2;
    (point(x0, middle, middle, x1), point(y0, y0, y1, y1))
}
