//! Where everything stands in a picture that is read from left to right. Owns layers, folding, order and coordinates; never
//! sees a colour or a font: how large a text is, it is told.

mod fold;
mod layers;
mod level;
mod order;
mod place;
mod rows;
mod wrap;

use crate::join::Joins;
use crate::link::Links;
use crate::model::Graph;

pub use fold::{Cell, Content, Folded, Kind, Wire};
pub use place::{Placed, Point, Rect, Route, Sizes, Turn, place};

/// A graph with what follows from it: what is drawn, and from which links and groups.
#[derive(Debug)]
pub struct Plan {
    pub links: Links,
    pub joins: Joins,
    pub folded: Folded,
}

impl Plan {
    pub fn of(graph: &Graph, nodes_max: usize) -> Self {
        let links = Links::of(graph);
        let joins = Joins::of(graph, &links);
        let folded = fold::fold(graph, &links, &joins, &layers::layers(&links), nodes_max);
        Plan { links, joins, folded }
    }
}

#[cfg(test)]
mod tests;
