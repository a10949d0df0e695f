//! Draws a flow: as a tree for the terminal, for Graphviz and Mermaid, and as an SVG picture. Owns how a flow looks; never
//! asks an engine for one, never writes to a file or a terminal.
//!
//! All four are pure functions: the same graph gives the same bytes, on every machine. None of them fails: a graph with
//! cycles, with edges that lead nowhere or with hostile text in its keys is drawn, and what is wrong with it is shown.
//!
//! ```
//! use weft_graph::{Edge, EdgeState, Graph, Node, State, tree};
//!
//! let graph = Graph {
//!     title: "order-4711".to_owned(),
//!     state: "running".to_owned(),
//!     summary: None,
//!     nodes: vec![
//!         Node { duration_ms: Some(252_000), ..Node::new("charge", "payment.charge", State::Completed) },
//!         Node::new("ship", "parcel.ship", State::Active),
//!     ],
//!     edges: vec![Edge { state: EdgeState::Met, ..Edge::new(0, 1) }],
//! };
//! let text = tree(&graph, &tree::Options { colour: false, width: Some(80) });
//! assert_eq!(
//!     text,
//!     "order-4711: running\n\
//!      2 members: 1 active, 1 completed\n\
//!      ✓ charge   payment.charge  completed  4m 12s\n\
//!      └─ ● ship  parcel.ship     active\n"
//! );
//! ```

mod counts;
mod dot;
mod join;
mod layout;
mod link;
mod mermaid;
mod model;
mod palette;
mod span;
mod state;
pub mod svg;
mod text;
pub mod tree;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

pub use dot::dot;
pub use mermaid::mermaid;
pub use model::{Edge, EdgeState, Graph, Node, On, Rule};
pub use state::State;
pub use svg::svg;
pub use text::is_unseen;
pub use tree::tree;
