//! A store that went back in time. What this node, or another, has seen is proof; then nothing else is committed before
//! the generation is raised, and everything that was cached is forgotten.

use super::commit::Flying;
use super::{Effect, Partition};
use std::collections::VecDeque;
use weft_core::change::{Head, Position};
use weft_core::loss::{NAMED_MAX, Witness};
use weft_core::record::{Key, Record};
use weft_core::{CommitId, ExecutionId, Time};

/// How long a raise waits after the store took none.
const AGAIN_MS: u64 = 200;

/// What a partition knows about losses.
#[derive(Default)]
pub struct Loss {
    /// Proof that has not been acted on.
    witness: Option<Witness>,
    /// Not before this time, on the node's clock.
    not_before: Option<Time>,
    /// The executions that our latest commits changed, with their `seq`.
    recent: VecDeque<(u64, ExecutionId)>,
}

impl Loss {
    pub fn is_pending(&self) -> bool {
        self.witness.is_some()
    }

    pub fn retry_at(&self) -> Option<Time> {
        self.not_before.filter(|_| self.is_pending())
    }

    pub fn put_off(&mut self, clock: Time, wait_ms: u64) {
        self.not_before = Some(clock + wait_ms.max(AGAIN_MS));
    }

    /// Remembers what a commit of ours changed, as far as a loss may have to name it.
    pub fn remember<'a>(&mut self, seq: u64, records: impl Iterator<Item = (&'a Key, &'a Option<Record>)>, max: usize) {
        for (key, _) in records {
            if let Key::Execution(id) = key {
                self.recent.push_back((seq, *id));
            }
        }
        let over = self.recent.len().saturating_sub(max);
        self.recent.drain(..over);
    }

    /// The executions that commits after `kept` changed.
    fn changed_since(&self, kept: u64) -> Vec<ExecutionId> {
        let mut ids: Vec<ExecutionId> =
            self.recent.iter().filter(|(seq, _)| *seq > kept).map(|(_, execution)| *execution).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

impl Partition {
    /// How many executions each partition keeps in mind for the event of a loss.
    pub(super) fn named_max(&self) -> usize {
        NAMED_MAX / usize::from(self.node.description.partitions.max(1))
    }

    /// The store has answered a commit with this head. Compares it with what this node saw before, and takes it over.
    pub(super) fn meet_head(&mut self, head: Head) {
        let seen = self.head.position;
        self.witness(seen, head);
        if head.position.generation != seen.generation {
            self.forget_everything();
        }
        self.head = Head { position: head.position, now: self.head.now.max(head.now) };
        self.node.seen.note(self.id, head.position);
    }

    /// Somebody has seen the partition at `seen`. If the store does not reach that far, the loss is acted on.
    pub(super) fn witness(&mut self, seen: Position, shown: Head) {
        let known = self.loss.witness.take();
        let seen = known.map_or(seen, |known| known.seen.max(seen));
        let witness = Witness { partition: self.id, seen, executions: Vec::new() };
        if !witness.is_proof(shown.position) {
            return;
        }
        let executions = self.loss.changed_since(shown.position.seq);
        tracing::error!(
            partition = %self.id, generation = shown.position.generation, kept_seq = shown.position.seq,
            seen_generation = seen.generation, seen_seq = seen.seq, executions = executions.len(),
            "the store has lost acknowledged commits"
        );
        self.loss.witness = Some(Witness { executions, ..witness });
        self.head.position = shown.position;
        self.forget_everything();
    }

    /// A position that another node told of, beside the head that the store has just shown.
    pub(super) fn hear_witness(&mut self, seen: Position, shown: Head) {
        if self.flying.is_some() {
            // The commit on its way meets the head of the store itself.
            return;
        }
        self.witness(seen, shown);
        if self.loss.is_pending() {
            self.take_back(Vec::new(), Vec::new());
        }
    }

    /// Sends the commit that raises the generation, if a loss was proved. Nothing else is committed before it.
    pub(super) fn seal_raise(&mut self) -> bool {
        let clock = self.node.runtime.clock();
        if self.loss.not_before.is_some_and(|at| at > clock) {
            return false;
        }
        let Some(witness) = self.loss.witness.clone() else { return false };
        self.loss.not_before = None;
        let id = CommitId(crate::engine::random_uuid(&*self.node.runtime));
        let now = self.tell_time();
        let shown = Head { position: self.head.position, now };
        let batch = witness.raise(id, shown, &self.node.config.node, now);
        self.flying = Some(Flying::raise(id, self.batch, batch.expect, batch.now));
        self.batch += 1;
        self.effects.push(Effect::Commit(batch));
        true
    }

    /// The generation has been raised.
    pub(super) fn raised(&mut self, head: Head) {
        self.node.counters.data_lost.add(1);
        self.loss.witness = None;
        tracing::error!(
            partition = %self.id, generation = head.position.generation, seq = head.position.seq,
            "raised the generation: what the lost commits handed out is fenced"
        );
        self.foreign += 1;
    }

    fn forget_everything(&mut self) {
        self.foreign += 1;
        self.cache.clear();
        self.children.clear();
        self.ready.clear();
        self.claims.retry_all();
    }
}
