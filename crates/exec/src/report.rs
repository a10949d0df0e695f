//! What a program says while it runs.

use crate::body::Body;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A line of stderr. A very long one comes in several.
    Log(String),
    /// What the program said on its control pipe and could not be taken, and why. It runs on.
    Warning(String),
    /// `percent` is at most 100.
    Progress { percent: Option<u8>, message: Option<String> },
    /// For the next attempt, or for this one after a delay.
    Checkpoint(Body),
    /// A step that is done, to be recorded.
    Step { name: String, value: Body },
}
