//! Defects on purpose, so that the checkers can be shown to find them.
//!
//! With the feature `planted` off, `on` is a constant `false` and every branch on it compiles to nothing.

/// One rule that can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Defect {
    EpochNotCompared = 1,
    LeaseIdNotCompared,
    EpochComparedByLess,
    ExpiredLeaseAccepted,
    TimerEntryNotRemoved,
    SecondCompletionChangesResult,
    CancelAfterCompletion,
    LiftingOneHoldLiftsAll,
    CommitIgnoresRevisions,
    FastPathThoughSeqMoved,
    UnknownTakenAsNotApplied,
    UnknownTakenAsApplied,
    CommitRepeated,
    ResolveDoesNotBar,
    AnswerBeforeCommit,
    CacheKeptAfterConflict,
    TimerEarlyBySkew,
    ProgressNeedsWake,
    TagsNotWritten,
    FlowNotStored,
    ParkedNeverTriedAgain,
    LossNotNoticed,
    GenerationNotRaised,
    DeadPartitionHidesOthers,
    FirstReadNotVerified,
    CascadeDroppedAtContinuation,
    EdgeCountedTwice,
    LiveMemberPurged,
}

impl Defect {
    pub const ALL: [Defect; 28] = [
        Defect::EpochNotCompared,
        Defect::LeaseIdNotCompared,
        Defect::EpochComparedByLess,
        Defect::ExpiredLeaseAccepted,
        Defect::TimerEntryNotRemoved,
        Defect::SecondCompletionChangesResult,
        Defect::CancelAfterCompletion,
        Defect::LiftingOneHoldLiftsAll,
        Defect::CommitIgnoresRevisions,
        Defect::FastPathThoughSeqMoved,
        Defect::UnknownTakenAsNotApplied,
        Defect::UnknownTakenAsApplied,
        Defect::CommitRepeated,
        Defect::ResolveDoesNotBar,
        Defect::AnswerBeforeCommit,
        Defect::CacheKeptAfterConflict,
        Defect::TimerEarlyBySkew,
        Defect::ProgressNeedsWake,
        Defect::TagsNotWritten,
        Defect::FlowNotStored,
        Defect::ParkedNeverTriedAgain,
        Defect::LossNotNoticed,
        Defect::GenerationNotRaised,
        Defect::DeadPartitionHidesOthers,
        Defect::FirstReadNotVerified,
        Defect::CascadeDroppedAtContinuation,
        Defect::EdgeCountedTwice,
        Defect::LiveMemberPurged,
    ];

    /// The name used on the command line: `epoch-not-compared`.
    pub fn name(self) -> String {
        let mut name = String::new();
        for (at, letter) in format!("{self:?}").char_indices() {
            if letter.is_ascii_uppercase() && at > 0 {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

    pub fn from_name(name: &str) -> Option<Defect> {
        Self::ALL.into_iter().find(|defect| defect.name() == name)
    }
}

#[cfg(feature = "planted")]
mod switch {
    use super::Defect;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Defect>> = const { Cell::new(None) };
    }

    /// Breaks `defect` on this thread, or nothing.
    pub fn plant(defect: Option<Defect>) {
        PLANTED.set(defect);
    }

    pub fn on(defect: Defect) -> bool {
        PLANTED.get() == Some(defect)
    }
}

#[cfg(not(feature = "planted"))]
mod switch {
    use super::Defect;

    #[inline(always)]
    pub const fn on(_: Defect) -> bool {
        false
    }
}

pub use switch::*;
