//! The boxes: one per member, and those that stand for many.

use super::icon::icon;
use super::markup::{escape, group, text, tooltip};
use super::measure::{FIRST_LINE, KEY, LINE, SMALL, Status, TEXT_LEFT, TEXT_RIGHT, height, more};
use crate::counts::Counts;
use crate::layout::{Content, Placed, Plan, Rect};
use crate::model::{Graph, Node};
use crate::span::span;
use crate::text::{number, plain};

pub fn cells(graph: &Graph, plan: &Plan, placed: &Placed) -> String {
    let boxes = plan.folded.cells.iter().zip(&placed.cells).map(|(cell, rect)| match &cell.content {
        Content::Node(at) => member(graph, &graph.nodes[*at], rect),
        Content::More(counts) => many(counts, rect),
    });
    boxes.collect()
}

fn member(graph: &Graph, node: &Node, rect: &Rect) -> String {
    let room = rect.width - TEXT_LEFT - TEXT_RIGHT;
    let status = Status::of(node);
    // A box may be higher than its text if many groups lead to it.
    let top = (rect.height - height(2 + status.lines())) / 2 + FIRST_LINE;
    let mut inner = tooltip(&described(graph, node));
    inner.push_str(&frame("wg-box", 0, rect));
    inner.push_str(&icon(node.state, 19, top - 5));
    inner.push_str(&text("wg-key", TEXT_LEFT, top, &KEY.fit_middle(&plain(&node.key), room)));
    inner.push_str(&text("wg-muted", TEXT_LEFT, top + LINE, &SMALL.fit_middle(&plain(&node.kind), room)));
    // A blank at the beginning of a piece would be swallowed, so it is moved instead.
    inner.push_str(&format!(
        "<text x=\"{TEXT_LEFT}\" y=\"{}\"><tspan class=\"wg-ink\">{}</tspan><tspan class=\"wg-muted\" dx=\"4\">{}</tspan></text>\n",
        top + 2 * LINE,
        escape(&status.words),
        escape(status.rest.trim_start())
    ));
    if !status.note.is_empty() {
        inner.push_str(&text("wg-ink", TEXT_LEFT, top + 3 * LINE, &SMALL.fit_end(&status.note, room)));
    }
    let state = node.state.word();
    format!("<g class=\"wg-node wg-{state}\">\n{}</g>\n", group(rect.x, rect.y, &inner))
}

/// All that is known of a member, on lines of its own.
fn described(graph: &Graph, node: &Node) -> String {
    let parent = node.parent.and_then(|parent| graph.nodes.get(parent));
    let mut lines = vec![plain(&node.key), format!("kind: {}", plain(&node.kind))];
    lines.push(format!("state: {}", plain(&node.status())));
    lines.extend(node.duration_ms.map(|ms| format!("duration: {}", span(ms))));
    lines.extend((node.attempts > 0).then(|| format!("attempts: {}", node.attempts)));
    lines.extend(parent.map(|parent| format!("child of: {}", plain(&parent.key))));
    lines.join("\n")
}

/// Drawn as a stack of boxes, because that is what it stands for.
fn many(counts: &Counts, rect: &Rect) -> String {
    let (total, words) = (counts.total(), counts.words());
    let mut inner = tooltip(&format!("{} ({})", more(total), words.join(", ")));
    for behind in [6, 3, 0] {
        inner.push_str(&frame("wg-many", behind, rect));
    }
    let top = (rect.height - height(1 + words.len())) / 2 + FIRST_LINE;
    inner.push_str(&text("wg-key", TEXT_LEFT - 16, top, &more(total)));
    for (at, (state, count)) in counts.occurring().into_iter().enumerate() {
        let y = top + LINE * (at as i64 + 1);
        let words = format!("{} {}", number(count), state.word());
        inner.push_str(&format!(
            "<g class=\"wg-{}\"><circle class=\"wg-ink\" cx=\"23\" cy=\"{}\" r=\"4\"/>\n",
            state.word(),
            y - 4
        ));
        inner.push_str(&text("wg-muted", TEXT_LEFT, y, &words));
        inner.push_str("</g>\n");
    }
    format!("<g class=\"wg-node\">\n{}</g>\n", group(rect.x, rect.y, &inner))
}

fn frame(class: &str, behind: i64, rect: &Rect) -> String {
    let (width, height) = (rect.width, rect.height);
    format!("<rect class=\"{class}\" x=\"{behind}\" y=\"{behind}\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\n")
}
