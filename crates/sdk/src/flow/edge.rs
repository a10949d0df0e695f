//! Edges: one member waits for the end of another.

use weft_api::flow::{NewEdge, On};

/// An edge to be. It is met by success unless it says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge(NewEdge);

impl Edge {
    /// `to` waits for `from`; both are keys of members, or nodes.
    pub fn new(from: impl Into<String>, to: impl Into<String>) -> Self {
        Self(NewEdge { from: from.into(), to: to.into(), ..NewEdge::default() })
    }

    /// Hands the end of `from` to `to` under this name, for the extractor `Inputs`. A name that ends in `[]` may be given
    /// to several edges and collects a list.
    pub fn input(mut self, name: impl Into<String>) -> Self {
        self.0.input = Some(name.into());
        self
    }

    /// Met if `from` fails, expires or is cancelled for a reason of its own.
    pub fn on_failure(mut self) -> Self {
        self.0.on = Some(On::Failure);
        self
    }

    /// Met however `from` ends.
    pub fn any(mut self) -> Self {
        self.0.on = Some(On::Any);
        self
    }

    /// The group of `to` that it is in; `main` unless given.
    pub fn group(mut self, name: impl Into<String>) -> Self {
        self.0.group = Some(name.into());
        self
    }

    /// The edge as it would be sent.
    pub fn into_request(self) -> NewEdge {
        self.0
    }
}
