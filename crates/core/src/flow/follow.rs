//! What the ends of members entail, inside the commit that ends them: out-edges, groups, skips breadth first, cancelled
//! siblings, totals, and the flow's own outcome. What does not fit is left to continuations.

use super::{decide, reopen, resolve, siblings, summary};
use crate::command::Command;
use crate::id::ExecutionId;
use crate::limits::{FANOUT_PER_COMMIT, SIBLINGS_PER_COMMIT};
use crate::tx::{Stop, Tx};
use std::collections::VecDeque;

/// The room that is left in the commit, and what was found on the way.
pub(crate) struct Follow {
    edges: usize,
    records: usize,
    pub siblings: usize,
    /// Groups that were decided and cancel what is left of their upstreams.
    pub decided: VecDeque<(ExecutionId, u8)>,
    /// Members that wait again: what they had told their downstreams is taken back.
    pub reopened: VecDeque<ExecutionId>,
    /// Whether flows that were written are decided anew. A comparison of counters decides nothing, unless it set them right.
    pub decides: bool,
    /// How many levels of the graph the ends are away from the command's own.
    depth: u32,
    /// Members that cannot be read and have just been given up: they have ended too.
    pub given_up: Vec<ExecutionId>,
    /// The upstream whose edges are being resolved.
    pub upstream: Option<ExecutionId>,
}

/// Records that an ordinary command may write: it joins a batch that is nearly full.
const RECORDS: usize = 1_500;
/// The same for a command that the engine gives a batch to itself.
const RECORDS_BULKY: usize = 2_800;
/// How often a command may run again for records that only a cascade needs.
const ROUNDS_MAX: u32 = 12;

impl Follow {
    pub fn new(command: &Command) -> Self {
        Self {
            edges: FANOUT_PER_COMMIT,
            records: if command.is_bulky() { RECORDS_BULKY } else { RECORDS },
            siblings: SIBLINGS_PER_COMMIT,
            decided: VecDeque::new(),
            reopened: VecDeque::new(),
            decides: !matches!(command, Command::VerifyFlow(_)),
            depth: 0,
            given_up: Vec::new(),
            upstream: None,
        }
    }

    /// Whether work that needs more records is to wait for them. A cascade through records that are not in memory would
    /// otherwise run again and again from its start.
    pub fn is_patient(&self, tx: &Tx<'_>) -> bool {
        self.depth == 0 || tx.rounds() < ROUNDS_MAX
    }

    /// Edges that may still be resolved in this commit.
    pub fn room(&self, tx: &Tx<'_>) -> usize {
        let records = self.records.saturating_sub(tx.records());
        self.edges.min(records / 3)
    }

    pub fn resolved(&mut self) {
        self.edges = self.edges.saturating_sub(1);
    }
}

/// Runs behind every rule. Finds nothing to do unless a member of a flow was written.
pub(crate) fn follow(tx: &mut Tx<'_>, mut follow: Follow) -> Result<(), Stop> {
    let mut ends: Vec<ExecutionId> = std::mem::take(&mut follow.given_up);
    while let Some(id) = follow.reopened.pop_front() {
        reopen::outs(tx, id, &mut follow)?;
    }
    loop {
        let ended = tx.take_ended();
        if ended.is_empty() {
            match follow.decided.pop_front() {
                Some((downstream, group)) => siblings::decided(tx, downstream, group, &mut follow)?,
                None => break,
            }
            continue;
        }
        let mut missing = false;
        for id in &ended {
            // Goes on after a miss, so that all that a level of the graph lacks is loaded together.
            match resolve::outs(tx, *id, &mut follow) {
                Err(Stop::Miss) => missing = true,
                done => done?,
            }
        }
        if missing {
            return Err(Stop::Miss);
        }
        ends.extend(ended);
        follow.depth += 1;
    }
    for flow in summary::bring_up_to_date(tx)? {
        if follow.decides {
            decide::decide(tx, flow, &ends)?;
        }
    }
    Ok(())
}
