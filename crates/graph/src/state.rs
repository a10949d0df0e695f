//! The public state of a member: its word, its sign, and how much it wants to be seen.

/// In the order of a member's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Waiting,
    Delayed,
    RateLimited,
    WaitingChildren,
    Held,
    Active,
    Suspended,
    Completed,
    Failed,
    Cancelled,
    Expired,
    Skipped,
}

impl State {
    pub const ALL: [State; 12] = [
        State::Waiting,
        State::Delayed,
        State::RateLimited,
        State::WaitingChildren,
        State::Held,
        State::Active,
        State::Suspended,
        State::Completed,
        State::Failed,
        State::Cancelled,
        State::Expired,
        State::Skipped,
    ];

    /// As the API writes it.
    pub fn word(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Delayed => "delayed",
            State::RateLimited => "rate_limited",
            State::WaitingChildren => "waiting_children",
            State::Held => "held",
            State::Active => "active",
            State::Suspended => "suspended",
            State::Completed => "completed",
            State::Failed => "failed",
            State::Cancelled => "cancelled",
            State::Expired => "expired",
            State::Skipped => "skipped",
        }
    }

    /// The state that the API writes so; nothing if it has no such word.
    pub fn from_word(word: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.word() == word)
    }

    /// One column wide in every terminal, and none of them an emoji.
    pub fn glyph(self) -> char {
        match self {
            State::Waiting => '○',
            State::Delayed => '◔',
            State::RateLimited => '◌',
            State::WaitingChildren => '◎',
            State::Held => '◇',
            State::Active => '●',
            State::Suspended => '◐',
            State::Completed => '✓',
            State::Failed => '✗',
            State::Cancelled => '⊘',
            State::Expired => '⊗',
            State::Skipped => '⊖',
        }
    }

    /// The smaller, the more it wants to be seen where not all can be: first what went wrong, then what goes on, then what
    /// is held up, and last what is as it should be.
    pub(crate) fn urgency(self) -> usize {
        match self {
            State::Failed => 0,
            State::Expired => 1,
            State::Active => 2,
            State::Suspended => 3,
            State::Held => 4,
            State::RateLimited => 5,
            State::Delayed => 6,
            State::WaitingChildren => 7,
            State::Cancelled => 8,
            State::Waiting => 9,
            State::Skipped => 10,
            State::Completed => 11,
        }
    }

    /// Whether somebody who looks at a picture probably looks for this.
    pub(crate) fn urgent(self) -> bool {
        self.urgency() <= State::Suspended.urgency()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::columns;
    use std::collections::BTreeSet;

    #[test]
    fn every_state_has_a_word_and_a_sign_of_its_own() {
        let words: BTreeSet<&str> = State::ALL.map(State::word).into();
        let glyphs: BTreeSet<char> = State::ALL.map(State::glyph).into();
        let urgencies: BTreeSet<usize> = State::ALL.map(State::urgency).into();
        assert_eq!((words.len(), glyphs.len(), urgencies.len()), (12, 12, 12));
        for state in State::ALL {
            assert_eq!(State::from_word(state.word()), Some(state));
            assert_eq!(columns(&state.glyph().to_string()), 1);
        }
        assert_eq!(State::from_word("running"), None);
    }
}
