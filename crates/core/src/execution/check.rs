//! Whether an execution may be taken: one check for every claim, by lane or by id, and for explaining why not. And
//! whether somebody has it.

use super::fence::{self, Verb};
use crate::command::Fence;
use crate::error::Rejection;
use crate::record::Execution;
use crate::record::execution::State;
use crate::text::{Capabilities, Text};
use crate::time::Time;

/// What a worker can take.
#[derive(Clone, Copy, Debug)]
pub struct Want<'a> {
    pub namespace: &'a str,
    /// `None`: any.
    pub kinds: Option<&'a [Text]>,
    pub capabilities: &'a Capabilities,
}

/// Why an execution may not be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    NotReady,
    /// It is to be expired instead.
    DeadlineDue,
    Kind,
    Capabilities,
    Namespace,
    /// Its flow lets nobody start.
    Flow,
}

/// Refuses a caller that does not hold the lease of `execution`, as a fenced verb does.
pub fn holder(execution: &Execution, fence: Fence, now: Time) -> Result<(), Rejection> {
    fence::pass(execution, Some(fence), Verb::RecordSteps, now).map(drop)
}

/// The candidate check, as far as the record decides; gates that are facts about something else are the engine's.
pub fn candidate(execution: &Execution, want: &Want<'_>, now: Time) -> Result<(), NotTaken> {
    let spec = &execution.spec;
    if *spec.namespace != *want.namespace {
        return Err(NotTaken::Namespace);
    }
    if !matches!(execution.hot.state, State::Ready { .. }) {
        return Err(NotTaken::NotReady);
    }
    if execution.hot.deadline_at.is_some_and(|deadline| deadline <= now) {
        return Err(NotTaken::DeadlineDue);
    }
    fits(execution, want)
}

/// Whether a worker could take it if it were ready.
pub fn fits(execution: &Execution, want: &Want<'_>) -> Result<(), NotTaken> {
    let spec = &execution.spec;
    if want.kinds.is_some_and(|kinds| !kinds.contains(&spec.kind)) {
        return Err(NotTaken::Kind);
    }
    if !spec.capabilities.is_subset_of(want.capabilities) {
        return Err(NotTaken::Capabilities);
    }
    Ok(())
}
