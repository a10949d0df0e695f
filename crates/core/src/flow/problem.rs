//! What is wrong with a graph that was submitted: a code, the place in the request, and the keys concerned.

use crate::error::Rejection;
use crate::text::Text;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub wrong: Wrong,
    /// Where in the request, such as `edges[3].from`.
    pub path: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    EmptyFlow,
    Limit {
        what: &'static str,
        limit: u64,
        got: u64,
    },
    UnknownNode {
        key: Text,
    },
    DuplicateNode {
        key: Text,
    },
    SelfEdge {
        key: Text,
    },
    DuplicateEdge {
        from: Text,
        to: Text,
        group: Text,
    },
    DuplicateInput {
        key: Text,
        name: Text,
    },
    EmptyGroup {
        key: Text,
        group: Text,
    },
    GroupConflict {
        key: Text,
        group: Text,
    },
    QuorumUnreachable {
        key: Text,
        group: Text,
        k: u32,
        n: u32,
    },
    ThresholdUnreachable {
        successes: u32,
        members: u32,
    },
    /// The keys in order, the first repeated at the end.
    Cycle {
        path: Vec<Text>,
    },
    /// A member's own fields.
    Member {
        key: Text,
        rejection: Box<Rejection>,
    },
    /// An edge that comes too late for its downstream.
    Edge {
        from: Text,
        to: Text,
        rejection: Box<Rejection>,
    },
}

impl Problem {
    pub fn new(path: impl Into<String>, wrong: Wrong) -> Self {
        Self { wrong, path: path.into() }
    }

    pub fn code(&self) -> &'static str {
        match &self.wrong {
            Wrong::EmptyFlow => "empty_flow",
            Wrong::Limit { .. } => "limit_exceeded",
            Wrong::UnknownNode { .. } => "unknown_node",
            Wrong::DuplicateNode { .. } => "duplicate_node",
            Wrong::SelfEdge { .. } => "self_edge",
            Wrong::DuplicateEdge { .. } => "duplicate_edge",
            Wrong::DuplicateInput { .. } => "duplicate_input",
            Wrong::EmptyGroup { .. } => "empty_group",
            Wrong::GroupConflict { .. } => "group_conflict",
            Wrong::QuorumUnreachable { .. } => "quorum_unreachable",
            Wrong::ThresholdUnreachable { .. } => "threshold_unreachable",
            Wrong::Cycle { .. } => "cycle",
            Wrong::Member { rejection, .. } | Wrong::Edge { rejection, .. } => rejection.code(),
        }
    }

    /// What is wrong with the member or the edge itself, if it is that and not the graph.
    pub fn inner(&self) -> Option<&Rejection> {
        match &self.wrong {
            Wrong::Member { rejection, .. } | Wrong::Edge { rejection, .. } => Some(rejection),
            _ => None,
        }
    }

    /// The keys of the members that it is about.
    pub fn keys(&self) -> Vec<Text> {
        match &self.wrong {
            Wrong::EmptyFlow | Wrong::Limit { .. } | Wrong::ThresholdUnreachable { .. } => Vec::new(),
            Wrong::UnknownNode { key }
            | Wrong::DuplicateNode { key }
            | Wrong::SelfEdge { key }
            | Wrong::DuplicateInput { key, .. }
            | Wrong::EmptyGroup { key, .. }
            | Wrong::GroupConflict { key, .. }
            | Wrong::QuorumUnreachable { key, .. }
            | Wrong::Member { key, .. } => vec![key.clone()],
            Wrong::DuplicateEdge { from, to, .. } | Wrong::Edge { from, to, .. } => vec![from.clone(), to.clone()],
            Wrong::Cycle { path } => path.clone(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match &self.wrong {
            Wrong::EmptyFlow => write!(f, "a flow needs at least one member before it is sealed"),
            Wrong::Limit { what, limit, got } => write!(f, "`{path}`: {got} {what}, allowed are {limit}"),
            Wrong::UnknownNode { key } => write!(f, "`{path}` names `{key}`, which is no member of the flow"),
            Wrong::DuplicateNode { key } => write!(f, "`{path}`: the key `{key}` is there twice"),
            Wrong::SelfEdge { key } => write!(f, "`{path}` leads from `{key}` to itself"),
            Wrong::DuplicateEdge { from, to, group } => {
                write!(f, "`{path}`: there is an edge from `{from}` to `{to}` in the group `{group}` already")
            }
            Wrong::DuplicateInput { key, name } => {
                write!(f, "`{path}`: `{key}` has an input `{name}` already; end the name in `[]` to collect a list")
            }
            Wrong::EmptyGroup { key, group } => write!(f, "`{path}`: no edge to `{key}` is in its group `{group}`"),
            Wrong::GroupConflict { key, group } => {
                write!(f, "`{path}`: the group `{group}` of `{key}` was given another policy before")
            }
            Wrong::QuorumUnreachable { key, group, k, n } => {
                write!(f, "`{path}`: the group `{group}` of `{key}` wants {k} of {n} edges")
            }
            Wrong::ThresholdUnreachable { successes, members } => {
                write!(f, "`{path}` wants {successes} successes of {members} members")
            }
            Wrong::Cycle { path } => write!(f, "the edges close a cycle: {}", path.join(" -> ")),
            Wrong::Member { key, rejection } => write!(f, "`{path}` (`{key}`): {rejection}"),
            Wrong::Edge { from, to, rejection } => write!(f, "`{path}` (`{from}` -> `{to}`): {rejection}"),
        }
    }
}

/// The problems of one check: up to so many are told, and any refuse the call.
#[derive(Default)]
pub(crate) struct Problems(Vec<Problem>);

impl Problems {
    pub fn push(&mut self, path: impl FnOnce() -> String, wrong: Wrong) {
        if self.0.len() < crate::limits::PROBLEMS_MAX {
            self.0.push(Problem::new(path(), wrong));
        }
    }

    pub fn done(self) -> Result<(), Rejection> {
        if self.0.is_empty() { Ok(()) } else { Err(Rejection::BadGraph { problems: self.0 }) }
    }
}
