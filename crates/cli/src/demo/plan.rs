//! What the demo submits: kinds of work that people know, and how each of them has to end.

use std::time::Duration;
use weft_core::record::execution::{Backoff, Jitter, Policy, PublicState, Retry};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Resize,
    Mail,
    Flaky,
    Ship,
    Pack,
    Encode,
    Import,
    Report,
    Quote,
    Charge,
}

impl Kind {
    pub const ALL: [Kind; 10] = [
        Kind::Resize,
        Kind::Mail,
        Kind::Flaky,
        Kind::Ship,
        Kind::Pack,
        Kind::Encode,
        Kind::Import,
        Kind::Report,
        Kind::Quote,
        Kind::Charge,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Kind::Resize => "image.resize",
            Kind::Mail => "mail.send",
            Kind::Flaky => "mail.flaky",
            Kind::Ship => "order.ship",
            Kind::Pack => "order.pack",
            Kind::Encode => "video.encode",
            Kind::Import => "data.import",
            Kind::Report => "report.daily",
            Kind::Quote => "quote.fetch",
            Kind::Charge => "card.charge",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What it shows, in a few words.
    pub const fn story(self) -> &'static str {
        match self {
            Kind::Resize | Kind::Mail => "just works",
            Kind::Flaky => "fails, is retried with backoff",
            Kind::Ship => "waits for its 3 children",
            Kind::Pack => "child of order.ship",
            Kind::Encode => "its worker is killed",
            Kind::Import => "cancelled while running",
            Kind::Report => "starts 4 s from now",
            Kind::Quote => "misses its deadline",
            Kind::Charge => "fails for good",
        }
    }

    /// The end that the demo is about.
    pub const fn end(self) -> PublicState {
        match self {
            Kind::Import => PublicState::Cancelled,
            Kind::Quote => PublicState::Expired,
            Kind::Charge => PublicState::Failed,
            _ => PublicState::Completed,
        }
    }
}

pub const CHILDREN: usize = 3;
pub const REPORT_DELAY_MS: u64 = 4_000;
pub const QUOTE_DEADLINE_MS: u64 = 3_000;

/// Executions with a part of their own: one of each, and the children.
const SPECIAL: usize = 6 + CHILDREN;

pub const EXECUTIONS_MIN: u32 = 20;
pub const EXECUTIONS_MAX: u32 = 20_000;
const _: () = assert!(EXECUTIONS_MIN as usize > 2 * SPECIAL);

/// Workers that take any work, and what each does at a time.
pub const WORKERS: usize = 8;
pub const SLOTS: usize = 3;

/// How long the quick work takes all slots together: long enough to watch.
const BUSY: Duration = Duration::from_millis(4_500);
const WORK_MAX: Duration = Duration::from_millis(600);

pub struct Plan {
    pub executions: usize,
    /// How long a quick execution takes on average.
    pub work: Duration,
}

impl Plan {
    pub fn new(executions: u32) -> Self {
        let work = (BUSY * (WORKERS * SLOTS) as u32) / executions;
        Self { executions: executions as usize, work: work.min(WORK_MAX) }
    }

    /// How many there will be of a kind.
    pub fn count(&self, kind: Kind) -> usize {
        let ordinary = self.executions - SPECIAL;
        let flaky = ordinary / 12;
        let mail = (ordinary - flaky) * 2 / 5;
        match kind {
            Kind::Flaky => flaky,
            Kind::Mail => mail,
            Kind::Resize => ordinary - flaky - mail,
            Kind::Pack => CHILDREN,
            _ => 1,
        }
    }

    /// The ordinary executions, well mixed.
    pub fn ordinary(&self) -> Vec<(Kind, usize)> {
        let kinds = [Kind::Resize, Kind::Mail, Kind::Flaky];
        let mut all: Vec<(Kind, usize)> =
            kinds.iter().flat_map(|kind| (0..self.count(*kind)).map(|at| (*kind, at))).collect();
        // The place of each in the whole is that of its number among its own kind.
        all.sort_by(|(a, i), (b, j)| {
            let place = |kind: Kind, at: usize| (at as u64 + 1) * 1_000_000 / (self.count(kind) as u64 + 1);
            place(*a, *i).cmp(&place(*b, *j)).then(a.cmp(b))
        });
        all
    }

    /// How long this one takes: between half and one and a half of the average, always the same for the same number.
    pub fn work_time(&self, at: usize) -> Duration {
        let share = 50 + (at * 37) % 101;
        self.work * share as u32 / 100
    }
}

/// How many attempts of the flaky mail with this number fail.
pub const fn failures(at: usize) -> u32 {
    1 + (at % 3) as u32
}

/// Quick backoff, so that retries can be watched.
pub fn flaky_policy() -> Policy {
    let backoff = Backoff::Exponential { initial_ms: 150, max_ms: 2_000, multiplier_thousandths: 2_000 };
    Policy { retry: Retry { max_retries: 5, backoff, jitter: Jitter::Equal, ..Retry::default() }, ..Policy::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_add_up_to_what_was_asked_for() {
        for executions in [EXECUTIONS_MIN, 300, 1_001, EXECUTIONS_MAX] {
            let plan = Plan::new(executions);
            let sum: usize = Kind::ALL.iter().map(|kind| plan.count(*kind)).sum();
            assert_eq!(sum, executions as usize);
            assert_eq!(plan.ordinary().len(), executions as usize - SPECIAL);
            assert!(plan.count(Kind::Flaky) > 0 || executions == EXECUTIONS_MIN);
        }
    }

    #[test]
    fn every_kind_is_found_by_its_name() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.name()), Some(kind));
        }
    }
}
