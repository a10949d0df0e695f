//! A store that went back in time. A commit that it does not have, or a position beyond its head, is proof; then nothing
//! else is committed before the generation is raised, and everything that was cached is forgotten.

use super::commit::Flying;
use super::{Effect, Partition, ScanTag};
use std::collections::{BTreeSet, VecDeque};
use weft_core::change::{Head, Position};
use weft_core::loss::{NAMED_MAX, Witness, is_proof, is_raised};
use weft_core::record::{Key, Record};
use weft_core::schema::Value;
use weft_core::{CommitId, ExecutionId, Time};
use weft_store::{Entry, Range, Scan, Target};

/// How long a raise waits after the store took none.
const AGAIN_MS: u64 = 200;

/// How many of its last commits a node keeps in mind, to tell which of them a store still has.
const COMMITS_MAX: usize = 1024;

/// What a partition knows about losses.
#[derive(Default)]
pub struct Loss {
    /// As the last commit of this node left the partition.
    own: Head,
    /// Proof that has not been acted on.
    proof: Option<Proof>,
    /// Not before this time, on the node's clock.
    not_before: Option<Time>,
    /// The last commits of this node, with their `seq`; and the same ones to look up.
    commits: VecDeque<(u64, CommitId)>,
    known: BTreeSet<CommitId>,
    /// The executions that our latest commits changed, with their `seq`.
    recent: VecDeque<(u64, ExecutionId)>,
}

/// The partition was seen where it no longer is.
struct Proof {
    seen: Position,
    kept: Kept,
}

/// How much of what was seen is still there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// The feed has to be asked.
    Unknown,
    Asked,
    UpTo(u64),
}

impl Loss {
    pub fn is_pending(&self) -> bool {
        self.proof.is_some()
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

    /// Remembers a commit of this node.
    fn saw(&mut self, head: &Head) {
        self.commits.push_back((head.position.seq, head.last));
        self.known.insert(head.last);
        while self.commits.len() > COMMITS_MAX
            && let Some((_, id)) = self.commits.pop_front()
        {
            self.known.remove(&id);
        }
    }

    /// The commit is part of the history that this node builds on.
    pub fn knows(&self, id: CommitId) -> bool {
        self.known.contains(&id)
    }

    /// The executions that commits after `kept` changed.
    fn changed_since(&self, kept: u64) -> Vec<ExecutionId> {
        let mut ids: Vec<ExecutionId> =
            self.recent.iter().filter(|(seq, _)| *seq > kept).map(|(_, execution)| *execution).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The last commit of this node that is among these entries of the feed.
    fn last_kept(&self, entries: &[Entry]) -> Option<u64> {
        let found: BTreeSet<&[u8]> = entries.iter().map(|entry| &entry.place.key[..]).collect();
        self.commits.iter().rev().find(|(_, id)| found.contains(&id.0.as_bytes()[..])).map(|(seq, _)| *seq)
    }
}

impl Partition {
    /// How many executions each partition keeps in mind for the event of a loss.
    pub(super) fn named_max(&self) -> usize {
        NAMED_MAX / usize::from(self.node.description.partitions.max(1))
    }

    /// The store has answered a commit with this head, which follows from what this node saw before.
    pub(super) fn meet_head(&mut self, head: Head) {
        if head.position.generation != self.head.position.generation {
            self.forget_everything();
        }
        self.take_head(head);
        // Once proved, a loss is gone only when somebody has told it.
        self.loss.proof = self.loss.proof.take().filter(|proof| !is_raised(proof.seen, head.position));
    }

    /// From here on commits are built on this head, which the store has shown.
    fn take_head(&mut self, head: Head) {
        self.head = Head { now: self.head.now.max(head.now), ..head };
    }

    /// The same for a head that a commit of this node left: the store has made it as durable as it promises.
    pub(super) fn take_own_head(&mut self, head: Head) {
        self.take_head(head);
        self.loss.own = self.head;
        self.node.seen.note(self.id, head.position);
        if !self.node.description.exclusive {
            self.loss.saw(&head);
        }
    }

    /// A commit of this node has been barred. The bar stands behind everything it has seen, unless others wrote too.
    pub(super) fn take_bar(&mut self) {
        let barred = Head { position: self.head.position.next(), ..self.head };
        if self.head.is_at(&self.loss.own) {
            self.take_own_head(barred);
        } else {
            self.take_head(barred);
        }
    }

    /// The store does not have the commit that this node's was built on.
    pub(super) fn meet_loss(&mut self, shown: Head) {
        let own = self.loss.own;
        if self.head.is_at(&own) {
            return self.prove(own.position, shown, Kept::Unknown);
        }
        // That was somebody else's, which may never have been acknowledged: a store shows it before it is durable.
        self.forget_everything();
        self.take_head(own);
    }

    /// A position that another node told of, beside the head that the store has just shown.
    pub(super) fn hear_witness(&mut self, seen: Position, shown: Head) {
        if self.flying.is_some() {
            // What is on its way is decided by the store as it is. The loss is told next.
            if is_proof(seen, shown.position) && !self.loss.is_pending() {
                self.loss.proof = Some(Proof { seen, kept: Kept::UpTo(shown.position.seq) });
            }
            return;
        }
        let shown = if shown.position < self.head.position { self.head } else { shown };
        if is_proof(seen, shown.position) {
            self.prove(seen, shown, Kept::UpTo(shown.position.seq));
            self.take_back(Vec::new(), Vec::new());
        }
    }

    fn prove(&mut self, seen: Position, shown: Head, kept: Kept) {
        let seen = self.loss.proof.take().map_or(seen, |known| known.seen.max(seen));
        self.forget_everything();
        self.head = Head { now: self.head.now.max(shown.now), ..shown };
        let raised = is_raised(seen, shown.position);
        tracing::error!(
            partition = %self.id, seen_generation = seen.generation, seen_seq = seen.seq,
            generation = shown.position.generation, seq = shown.position.seq, raised,
            "the store has lost acknowledged commits"
        );
        if !raised {
            self.loss.proof = Some(Proof { seen, kept });
        }
    }

    /// Sends the commit that raises the generation, if a loss was proved. Nothing else is committed before it.
    pub(super) fn seal_raise(&mut self) -> bool {
        let clock = self.node.runtime.clock();
        if self.loss.not_before.is_some_and(|at| at > clock) {
            return false;
        }
        self.loss.not_before = None;
        let Some(proof) = &mut self.loss.proof else { return false };
        let seen = proof.seen;
        let kept_seq = match proof.kept {
            Kept::UpTo(seq) => seq,
            Kept::Asked => return false,
            Kept::Unknown => {
                proof.kept = Kept::Asked;
                self.push_scan(ScanTag::Kept, feed_before(seen.seq));
                return false;
            }
        };
        let executions = self.loss.changed_since(kept_seq);
        let id = CommitId(crate::engine::random_uuid(&*self.node.runtime));
        let now = self.tell_time();
        let witness = Witness { partition: self.id, seen, kept_seq, executions };
        let batch = witness.raise(id, self.head, &self.node.config.node, now);
        self.flying = Some(Flying::raise(id, self.batch, batch.expect, batch.now));
        self.batch += 1;
        self.effects.push(Effect::Commit(batch));
        true
    }

    /// The feed has been asked what is left.
    pub(super) fn found_kept(&mut self, entries: &[Entry]) {
        let kept = self.loss.last_kept(entries).unwrap_or(0);
        if let Some(proof) = &mut self.loss.proof {
            proof.kept = Kept::UpTo(kept);
        }
    }

    pub(super) fn kept_not_found(&mut self) {
        if let Some(proof) = self.loss.proof.as_mut().filter(|proof| proof.kept == Kept::Asked) {
            proof.kept = Kept::Unknown;
        }
        self.loss.put_off(self.node.runtime.clock(), 0);
    }

    /// The generation has been raised.
    pub(super) fn raised(&mut self, head: Head) {
        self.node.counters.data_lost.add(1);
        self.loss = Loss::default();
        self.take_own_head(head);
        tracing::error!(
            partition = %self.id, generation = head.position.generation, seq = head.position.seq,
            "raised the generation: what the lost commits handed out is fenced"
        );
        self.foreign += 1;
    }

    fn forget_everything(&mut self) {
        self.foreign += 1;
        self.cache.clear();
        self.lists.clear();
        self.ready.clear();
        self.claims.retry_all();
    }
}

/// The last commits up to there.
fn feed_before(seq: u64) -> Scan {
    let range = Range { until: Some(Value::Int(seq as i64)), ..Range::default() };
    Scan { target: Target::Feed, ranges: vec![range], limit: COMMITS_MAX, descending: true, parts: None }
}
