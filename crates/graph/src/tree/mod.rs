//! A flow for the terminal: every member on a line, below one that it waits for.

mod row;
mod walk;

use crate::counts::{headline, summary};
use crate::join::Joins;
use crate::link::{Links, What};
use crate::model::Graph;
use crate::text::{columns, fit_end, letter_columns, number, plain};
use row::{Row, paint};
use walk::{Step, walk};

/// How a tree is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether to write ANSI codes for colours. Without them the text means the same.
    pub colour: bool,
    /// How many columns there are. Longer lines are cut; without a width none is.
    pub width: Option<usize>,
}

/// The flow as lines of text, each with its line break.
///
/// A member stands under its first upstream, or under its parent. Others name it at the end of their lines: `↑ key` stands
/// further up, `↓ key` further down, and `↺ key` closes a cycle.
pub fn tree(graph: &Graph, options: &Options) -> String {
    let links = Links::of(graph);
    let rows = rows(graph, &links, options);
    let room = options.width.unwrap_or(usize::MAX);
    let mut out = paint(options.colour, "1", &fit_end(&headline(graph), room, letter_columns));
    out.push('\n');
    out.push_str(&paint(options.colour, "2", &fit_end(&summary(graph, &links), room, letter_columns)));
    out.push('\n');
    let widest = |cell: fn(&Row) -> usize, most: usize| rows.iter().map(cell).max().unwrap_or(0).min(most);
    // Long keys and kinds must not push everything else off the line.
    let widths = [
        widest(|row| columns(&row.lead) + 2 + columns(&row.key), room / 2),
        widest(|row| columns(&row.kind), room / 5),
        widest(|row| columns(row.state.word()), room),
        widest(|row| columns(&row.time), room),
    ];
    for row in &rows {
        out.push_str(&row.line(options, widths));
        out.push('\n');
    }
    out
}

/// Branches take at most so many columns. What is deeper stands there too, with its depth in front.
const LEAD_MAX: usize = 36;
/// So many members that stand elsewhere are named on a line, the rest is counted.
const NAMED_MAX: usize = 4;

fn rows(graph: &Graph, links: &Links, options: &Options) -> Vec<Row> {
    let lead_max = options.width.map_or(LEAD_MAX, |width| (width / 3).min(LEAD_MAX));
    let joins = Joins::of(graph, links);
    let mut groups = vec![Vec::new(); graph.nodes.len()];
    for join in &joins.all {
        groups[join.to].extend(join.words());
    }
    let steps = walk(links);
    let mut place = vec![0; graph.nodes.len()];
    for (at, step) in steps.iter().enumerate() {
        place[step.node] = at;
    }
    // For each level, whether more hangs there below.
    let mut open: Vec<bool> = Vec::new();
    let mut rows = Vec::with_capacity(steps.len());
    for step in &steps {
        open.truncate(step.depth);
        let lead = lead(&open, step, lead_max);
        open.push(!step.last);
        let mut rest = groups[step.node].clone();
        rest.extend(hanging(graph, links, step));
        rest.extend(elsewhere(graph, links, step, &place));
        rows.push(Row::of(&graph.nodes[step.node], lead, rest));
    }
    rows
}

/// The branches in front of a member: `│  ├─ `.
fn lead(open: &[bool], step: &Step, most: usize) -> String {
    if step.depth == 0 {
        return String::new();
    }
    let branch = if step.last { "└─ " } else { "├─ " };
    if step.depth * 3 > most {
        return format!("⋯ {} {branch}", number(step.depth));
    }
    let levels = open.iter().skip(1).map(|more| if *more { "│  " } else { "   " });
    levels.chain([branch]).collect()
}

/// How a member hangs where it does, if that is not simply on success.
fn hanging(graph: &Graph, links: &Links, step: &Step) -> Option<String> {
    match links.all[step.link?].what {
        What::Child => Some("child".to_owned()),
        What::Edge(edge) => {
            let edge = &graph.edges[edge];
            let input = edge.input.as_ref().map(|input| format!("input {}", plain(input)));
            let said: Vec<String> = edge.on.words().map(str::to_owned).into_iter().chain(input).collect();
            (!said.is_empty()).then(|| said.join(" · "))
        }
    }
}

fn elsewhere(graph: &Graph, links: &Links, step: &Step, place: &[usize]) -> Option<String> {
    let named = step.elsewhere.iter().take(NAMED_MAX).map(|link| {
        let link = &links.all[*link];
        let sign = match link.back {
            true => '↺',
            false if place[link.to] < place[step.node] => '↑',
            false => '↓',
        };
        format!("{sign} {}", plain(&graph.nodes[link.to].key))
    });
    let named: Vec<String> = named.collect();
    let more = step.elsewhere.len() - named.len();
    let more = (more > 0).then(|| format!("… {} more", number(more)));
    let named: Vec<String> = named.into_iter().chain(more).collect();
    (!named.is_empty()).then(|| named.join(" "))
}

#[cfg(test)]
mod tests;
