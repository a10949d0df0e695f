//! A flow as a picture, read from left to right. Owns what the SVG document consists of; where things stand is the layout's.
//!
//! The document has no scripts, no identifiers and nothing from elsewhere, so that it can be shown as a file, in a README
//! or within a page that has other pictures.

mod cell;
mod header;
mod icon;
mod legend;
mod markup;
mod measure;
mod style;
mod wire;

use crate::counts::{Counts, headline};
use crate::layout::{Plan, place};
use crate::model::Graph;
use header::Header;
use legend::Legend;
use markup::escape;

/// How a picture is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Of a flow with more members, some are drawn, and boxes say for how many others they stand: "… 9,987 more". The same
    /// is done with more than five times as many edges. There are never more boxes than this.
    pub nodes_max: usize,
    pub theme: Theme,
}

impl Default for Options {
    fn default() -> Self {
        Options { nodes_max: 200, theme: Theme::Auto }
    }
}

/// On which ground a picture is drawn. It brings its ground along, so each can be read wherever it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// As the reader's system asks for; light where nobody asks.
    #[default]
    Auto,
    Light,
    Dark,
}

/// Around everything.
const MARGIN: i64 = 20;
/// A picture of a small flow is not narrower than this, so that its headline has room.
const WIDTH_MIN: i64 = 440;

/// The flow as an SVG document. A flow without members gives a picture that says so.
pub fn svg(graph: &Graph, options: &Options) -> String {
    let plan = Plan::of(graph, options.nodes_max);
    let sizes = measure::sizes(graph, &plan);
    let placed = place(&plan.folded, &sizes);
    let content = placed.width.max(WIDTH_MIN);
    let header = Header::of(graph, &plan.links, content);
    let legend = Legend::of(graph, &plan, content);
    let width = content + 2 * MARGIN;
    let top = MARGIN + header.height;
    let below = top + placed.height;
    let height = below + legend.height + MARGIN;

    let states = Counts::of(graph.nodes.iter().map(|node| node.state)).occurring();
    let states: Vec<_> = states.into_iter().map(|(state, _)| state).collect();
    let name = escape(&headline(graph));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{name}\" class=\"wg\" font-family=\"{FONTS}\">\n"
    );
    out.push_str(&style::style(&states, header.tone, options.theme));
    let (inner_width, inner_height) = (width - 1, height - 1);
    out.push_str(&format!(
        "<rect class=\"wg-card\" x=\"0.5\" y=\"0.5\" width=\"{inner_width}\" height=\"{inner_height}\" rx=\"10\"/>\n"
    ));
    out.push_str(&markup::group(MARGIN, MARGIN, &header.markup));
    let drawing = format!(
        "{}{}{}",
        wire::wires(graph, &plan, &placed),
        wire::marks(&plan, &placed),
        cell::cells(graph, &plan, &placed)
    );
    out.push_str(&markup::group(MARGIN + (content - placed.width) / 2, top, &drawing));
    out.push_str(&markup::group(MARGIN, below, &legend.markup));
    out.push_str("</svg>\n");
    out
}

const FONTS: &str = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";

#[cfg(test)]
mod tests;
