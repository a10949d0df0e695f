//! Failures of scanners on a record: kept on the record itself, so that they survive restarts and are shared by nodes.

use crate::planted::{self, Defect};
use crate::schema::{Due, Timer};
use crate::text::Text;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What failed on this record, per timer.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Trouble {
    pub items: Vec<Failing>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failing {
    pub timer: Timer,
    /// The timer's time in the record. A timer that is armed for another time starts without failures.
    pub due: Time,
    pub scanner: Text,
    pub fails: u32,
    pub round: u32,
    pub next_try_at: Time,
    pub first_at: Time,
    pub last_at: Time,
    pub last_error: Text,
    /// Shown to operators by a dead letter, and tried once an hour.
    pub parked: bool,
    /// The dead letter of a parked item, which goes when the item does.
    pub letter: Option<Uuid>,
    /// Set if the item was discarded: the timer is not in the due index until it is armed anew.
    pub given_up: Option<GivenUp>,
}

/// Who decided that a timer is not to fire, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenUp {
    pub by: Text,
    pub reason: Text,
    pub at: Time,
}

impl Trouble {
    pub fn get(&self, timer: Timer) -> Option<&Failing> {
        self.items.iter().find(|item| item.timer == timer)
    }

    /// The dead letters of what is parked.
    pub fn letters(&self) -> impl Iterator<Item = Uuid> {
        self.items.iter().filter_map(|item| item.letter)
    }

    /// The due entries as they stand in the index: moved to the next try, or gone if given up.
    pub fn apply(&self, timers: Vec<Due>) -> Vec<Due> {
        timers
            .into_iter()
            .filter_map(|due| match self.get(due.timer) {
                None => Some(due),
                Some(item) if item.given_up.is_some() => None,
                Some(item) if item.parked && planted::on(Defect::ParkedNeverTriedAgain) => None,
                Some(item) => Some(Due { timer: due.timer, at: due.at.max(item.next_try_at) }),
            })
            .collect()
    }
}
