//! What the ends of members entail, inside the commit that ends them: out-edges, groups, skips breadth first, cancelled
//! siblings, totals, and the flow's own outcome. What does not fit is left to continuations.

use super::{decide, reopen, resolve, siblings, summary};
use crate::command::Command;
use crate::id::ExecutionId;
use crate::limits::{FANOUT_PER_COMMIT, SIBLINGS_AT_ONCE, SIBLINGS_PER_COMMIT};
use crate::schema::Timer;
use crate::tx::{Stop, Tx};
use std::collections::VecDeque;

/// The room that is left in the commit, and what was found on the way.
pub(crate) struct Follow {
    /// The engine gives the command a batch to itself.
    bulky: bool,
    edges: usize,
    records: usize,
    pub siblings: usize,
    /// Siblings were cancelled: their own edges go with them, however small the store wants its batches. Each would leave a
    /// continuation otherwise.
    pub cancelled: bool,
    /// Groups that were decided and cancel what is left of their upstreams.
    pub decided: VecDeque<(ExecutionId, u8)>,
    /// Members that wait again: what they had told their downstreams is taken back.
    pub reopened: VecDeque<ExecutionId>,
    /// Whether flows that were written are decided anew. A comparison of counters decides nothing, unless it set them right.
    pub decides: bool,
    /// Counters were set right: the policies are looked at though nobody has ended.
    pub anew: bool,
    /// How many levels of the graph the ends are away from the command's own.
    depth: u32,
    /// Members that cannot be read and have just been given up: they have ended too.
    pub given_up: Vec<ExecutionId>,
    /// The upstream whose edges are being resolved.
    pub upstream: Option<ExecutionId>,
    /// Members that new edges only gave another rank.
    pub raised: usize,
}

/// Records of a commit up to which commands do what ends entail, unless the store wants its batches smaller. The rest is
/// left to continuations: whoever comes in between waits for the commit that is on its way, and for one more.
const RECORDS: usize = 1_000;
/// The same for edges that are resolved behind the commit that ended their upstream: a long cascade takes few commits.
const RECORDS_CASCADE: usize = 2_000;
/// Records that an edge or a sibling takes, with what it changes at the other end.
const RECORDS_EACH: usize = 3;
/// Edges and siblings that a command deals with however full the commit is.
const FEW: usize = 4;
/// Edges of one upstream that an ordinary command loads; a continuation loads more.
const WIDE: usize = 64;
/// How often a command may run again for records that only a cascade needs.
const ROUNDS_MAX: u32 = 12;

impl Follow {
    pub fn new(command: &Command) -> Self {
        let bulky = command.is_bulky();
        Self {
            bulky,
            edges: FANOUT_PER_COMMIT,
            records: if is_cascade(command) { RECORDS_CASCADE } else { RECORDS },
            siblings: if bulky { SIBLINGS_PER_COMMIT } else { SIBLINGS_AT_ONCE },
            cancelled: false,
            decided: VecDeque::new(),
            reopened: VecDeque::new(),
            decides: !matches!(command, Command::VerifyFlow(_)),
            anew: false,
            depth: 0,
            given_up: Vec::new(),
            upstream: None,
            raised: 0,
        }
    }

    /// Whether so many edges are to wait for records that are not in memory. A cascade would run again and again from its
    /// start, and a command that many calls share a batch with would make them wait for all that it loads.
    pub fn is_patient(&self, tx: &Tx<'_>, edges: usize) -> bool {
        let at_ease = self.bulky || edges <= WIDE;
        if self.depth == 0 { at_ease } else { at_ease && tx.rounds() < ROUNDS_MAX }
    }

    /// Edges that the command may still resolve in this commit.
    pub fn room(&self, tx: &Tx<'_>) -> usize {
        let most = if self.cancelled { self.records } else { self.records.min(tx.batch_records()) };
        let records = most.saturating_sub(tx.records_of_batch());
        let few = FEW.saturating_sub(FANOUT_PER_COMMIT - self.edges);
        self.edges.min((records / RECORDS_EACH).max(few))
    }

    /// Whether another sibling may be cancelled after so many; their own edges come behind.
    pub fn has_room_for_sibling(&self, tx: &Tx<'_>, cancelled: usize) -> bool {
        cancelled < FEW || tx.records_of_batch() + cancelled * RECORDS_EACH < self.records
    }

    pub fn resolved(&mut self) {
        self.edges = self.edges.saturating_sub(1);
    }
}

fn is_cascade(command: &Command) -> bool {
    matches!(command, Command::Expire(expire) if expire.timer == Timer::Resolve)
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
            decide::decide(tx, flow, &ends, follow.anew)?;
        }
    }
    Ok(())
}
