//! The state of an execution in one word. It is derived from the record and never stored as truth.

use super::execution::Outcome;
use crate::text::Text;
use serde::{Deserialize, Serialize};

/// The one word that lists, counts and filters use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PublicState {
    Waiting,
    Delayed,
    Held,
    WaitingChildren,
    RateLimited,
    Active,
    Suspended,
    Completed,
    Failed,
    Cancelled,
    Expired,
    Skipped,
}

impl PublicState {
    pub const ALL: [PublicState; 12] = [
        PublicState::Waiting,
        PublicState::Delayed,
        PublicState::Held,
        PublicState::WaitingChildren,
        PublicState::RateLimited,
        PublicState::Active,
        PublicState::Suspended,
        PublicState::Completed,
        PublicState::Failed,
        PublicState::Cancelled,
        PublicState::Expired,
        PublicState::Skipped,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            PublicState::Waiting => "waiting",
            PublicState::Delayed => "delayed",
            PublicState::Held => "held",
            PublicState::WaitingChildren => "waiting_children",
            PublicState::RateLimited => "rate_limited",
            PublicState::Active => "active",
            PublicState::Suspended => "suspended",
            PublicState::Completed => "completed",
            PublicState::Failed => "failed",
            PublicState::Cancelled => "cancelled",
            PublicState::Expired => "expired",
            PublicState::Skipped => "skipped",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// The state of what has ended so.
    pub const fn of_end(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Success => PublicState::Completed,
            Outcome::Failed => PublicState::Failed,
            Outcome::Cancelled => PublicState::Cancelled,
            Outcome::Expired => PublicState::Expired,
            Outcome::Skipped => PublicState::Skipped,
        }
    }

    /// A state that an execution passes through when nothing is out of the ordinary. There are too many of these, and they
    /// change too often, to keep an index of them.
    pub const fn is_usual(self) -> bool {
        matches!(self, PublicState::Waiting | PublicState::Active | PublicState::Completed)
    }

    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            PublicState::Completed
                | PublicState::Failed
                | PublicState::Cancelled
                | PublicState::Expired
                | PublicState::Skipped
        )
    }

    /// The word as shared text: facets are built on every write, so it is not allocated each time.
    pub fn text(self) -> Text {
        thread_local! {
            static WORDS: Vec<Text> = PublicState::ALL.iter().map(|state| Text::from(state.name())).collect();
        }
        WORDS.with(|words| words[self as usize].clone())
    }
}
