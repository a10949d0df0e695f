//! The exact totals of a flow: changed by the commit that changes a member, never sampled.

use super::execution::PublicState;
use crate::text::Text;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Ever added; purged ones included.
    pub total_members: u32,
    /// By public state, in the order of `PublicState::ALL`.
    pub by_state: [u32; 12],
    /// Those of the cancelled whose cancel was a consequence of something else.
    pub members_neutral: u32,
    /// Those of the ended that have no record any more.
    pub members_purged: u32,
    /// Members whose end counts against the flow.
    pub failures: u32,
    /// Live members that the flow's end still has to cancel.
    pub cancel_owed: u32,
    pub edges_total: u64,
    pub edges_pending: u64,
    pub attempts: u64,
    pub retries: u64,
    /// Per dimension, of all that members reported.
    pub usage: BTreeMap<Text, u64>,
    pub first_started_at: Option<Time>,
    pub last_change_at: Time,
    /// Grows by one with each commit that changes anything above.
    pub change_no: u64,
    pub verified_at: Option<Time>,
    pub verified_no: Option<u64>,
}

impl Summary {
    pub fn of(&self, state: PublicState) -> u32 {
        self.by_state[state as usize]
    }

    pub fn live(&self) -> u32 {
        self.total_members.saturating_sub(self.ended())
    }

    pub fn ended(&self) -> u32 {
        PublicState::ALL.into_iter().filter(|state| state.is_terminal()).map(|state| self.of(state)).sum()
    }
}
