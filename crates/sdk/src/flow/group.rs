//! Groups: how many of the edges to a member must be met.

use crate::client::ms;
use std::time::Duration;
use weft_api::execution::CancelMode;
use weft_api::flow::{GroupPolicy, NewGroup, Then};

const MAIN: &str = "main";

/// Edges to one member that are judged together, under the name `main` unless given. Edges of a group that nobody declares
/// must all be met.
#[derive(Clone, Debug, PartialEq)]
pub struct Group(NewGroup);

/// A group that has yet to be told what becomes of the upstreams that still run when it is decided.
#[must_use = "say `let_run` or `cancel_remaining`"]
#[derive(Clone, Debug, PartialEq)]
pub struct Undecided(GroupPolicy);

impl Group {
    /// All of its edges must be met.
    pub fn all_of() -> Undecided {
        Undecided(GroupPolicy::AllOf {})
    }

    /// One of its edges must be met.
    pub fn any_of() -> Undecided {
        Undecided(GroupPolicy::AnyOf {})
    }

    /// So many of its edges must be met.
    pub fn quorum(k: u32) -> Undecided {
        Undecided(GroupPolicy::Quorum { k })
    }

    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.0.name = name.into();
        self
    }

    /// The group as it would be sent.
    pub fn into_request(self) -> NewGroup {
        self.0
    }
}

impl Undecided {
    /// Upstreams run on; their ends change nothing for this group.
    pub fn let_run(self) -> Group {
        self.then(Then::LetRun {})
    }

    /// Upstreams that nobody else needs are cancelled at once.
    pub fn cancel_remaining(self) -> Group {
        self.then(Then::CancelRemaining { mode: None, grace_ms: None })
    }

    /// Upstreams that nobody else needs are asked to end, and have this long.
    pub fn cancel_remaining_within(self, grace: Duration) -> Group {
        self.then(Then::CancelRemaining { mode: Some(CancelMode::Graceful), grace_ms: Some(ms(grace)) })
    }

    fn then(self, then: Then) -> Group {
        Group(NewGroup { name: MAIN.to_string(), policy: self.0, then: Some(then) })
    }
}
