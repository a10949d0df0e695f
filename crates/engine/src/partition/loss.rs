//! A store that went back in time. A commit that it does not have, or a position beyond its head, is proof; then nothing
//! else is committed before the generation is raised, and everything that was cached is forgotten.

use super::commit::Flying;
use super::{Effect, Partition, ScanTag};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use weft_core::change::{Head, Position};
use weft_core::event::{self, Fact};
use weft_core::loss::{GAP, NAMED_MAX, Witness, is_proof, is_raised};
use weft_core::planted::{self, Defect};
use weft_core::record::{Key, Record};
use weft_core::schema::{PartMask, Value};
use weft_core::{CommitId, ExecutionId, Time};
use weft_store::{Entry, Page, Place, Range, Scan, Target};

/// How long a raise waits after the store took none.
const AGAIN_MS: u64 = 200;

/// How many of its last commits a node keeps in mind, to tell which of them a store still has.
const COMMITS_MAX: usize = 1024;

/// How long after its last commit a node looks whether the store still has it, if no other commit shows it by then.
const VERIFY_MS: u64 = 30_000;

/// What a partition knows about losses.
#[derive(Default)]
pub struct Loss {
    /// Head after the last commit of this node, or after a later one that names what this node lost.
    own: Head,
    /// When `own` was confirmed, on the node's clock.
    own_at: Time,
    /// Proof that has not been acted on.
    proof: Option<Proof>,
    /// Positions that other nodes saw, which are compared after `proof` was acted on: the highest `seq` of each generation.
    heard: BTreeMap<u64, u64>,
    /// Not before this time, on the node's clock.
    not_before: Option<Time>,
    /// The last commits of this node, with their `seq`. Lost ones stay: the commit that names them may be lost too.
    commits: VecDeque<(u64, CommitId)>,
    /// Ids of the commits in the history that this node builds on.
    known: BTreeSet<CommitId>,
    /// The executions that our latest commits changed, with their `seq`.
    recent: VecDeque<(u64, ExecutionId)>,
}

/// The partition was seen where it no longer is.
struct Proof {
    seen: Position,
    /// Another node saw the position and may be gone, so the range that is named must include it.
    is_heard: bool,
    kept: Kept,
    /// Lost ranges that other nodes have named in the feed.
    told: Vec<Told>,
}

/// A commit names everything after `kept`, up to `seen`, as lost.
struct Told {
    kept: u64,
    seen: u64,
    by: Head,
}

/// How much of what was seen is still there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// The feed has to be asked.
    Unknown,
    Asked,
    /// Commits up to this `seq` are there; other nodes may have named the lost ones.
    NamedBy(u64),
    UpTo(u64),
}

impl Proof {
    fn new(seen: Position, is_heard: bool) -> Self {
        Self { seen, is_heard, kept: Kept::Unknown, told: Vec::new() }
    }
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

    /// Keeps a position that another node saw until the proof at hand was acted on.
    fn hear(&mut self, seen: Position) {
        let known = self.heard.entry(seen.generation).or_insert(seen.seq);
        *known = seen.seq.max(*known);
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
        // Before the first commit there is none.
        if head.last == CommitId::default() {
            return;
        }
        self.known.insert(head.last);
        // A bar moves the head on, but adds no commit.
        if self.commits.back().is_none_or(|(_, last)| *last != head.last) {
            self.commits.push_back((head.position.seq, head.last));
        }
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

    /// Ends a proved loss, named by this node's raise or another node's commit `by`. It is named again if that is lost.
    fn settle(&mut self, by: Option<Head>) {
        if let Some(Proof { seen, .. }) = self.proof.take() {
            self.heard.retain(|generation, seq| *generation != seen.generation || *seq > seen.seq);
        }
        self.known.clear();
        if let Some(by) = by.filter(|by| by.position > self.own.position) {
            self.own = by;
            self.saw(&by);
        }
    }

    /// The executions that commits after `kept` changed, up to `seen`.
    fn changed_in(&self, kept: u64, seen: u64) -> Vec<ExecutionId> {
        let lost = self.recent.iter().filter(|(seq, _)| *seq > kept && *seq <= seen);
        let mut ids: Vec<ExecutionId> = lost.map(|(_, execution)| *execution).collect();
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
        // A proved loss is settled only by an entry of the feed that names it.
        if let Some(proof) = &mut self.loss.proof {
            proof.kept = Kept::Unknown;
        }
    }

    /// From here on commits are built on this head, which the store has shown.
    fn take_head(&mut self, head: Head) {
        self.head = Head { now: self.head.now.max(head.now), ..head };
    }

    /// The same for a head that a commit of this node left: the store has made it as durable as it promises.
    pub(super) fn take_own_head(&mut self, head: Head) {
        self.take_head(head);
        self.loss.own = self.head;
        self.loss.own_at = self.node.runtime.clock();
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
            return self.prove(own.position, false, shown);
        }
        // That was somebody else's, which may never have been acknowledged: a store shows it before it is durable.
        self.forget_everything();
        self.take_head(own);
    }

    /// A position that another node told of, beside the head that the store has just shown.
    pub(super) fn hear_witness(&mut self, seen: Position, shown: Head) {
        let shown = if shown.position < self.head.position { self.head } else { shown };
        if !is_proof(seen, shown.position) {
            return;
        }
        if self.loss.is_pending() {
            // Proved already. After the raise the head is so far ahead that a new comparison might find no loss.
            return self.loss.hear(seen);
        }
        if self.flying.is_some() {
            // What is on its way is decided by the store as it is. The loss is told next.
            self.loss.proof = Some(Proof::new(seen, true));
            return;
        }
        self.prove(seen, true, shown);
        self.take_back(Vec::new(), Vec::new());
    }

    /// Continues with the next position that another node reported while an earlier proof was handled.
    fn prove_next(&mut self) {
        if let Some((generation, seq)) = self.loss.heard.pop_first() {
            self.prove(Position { generation, seq }, true, self.head);
        }
    }

    /// Begins to handle a loss. The feed shows what is left and which losses other nodes have named; the head does not,
    /// because commits after a raise may hide that the raise named less than was seen.
    fn prove(&mut self, mut seen: Position, mut is_heard: bool, shown: Head) {
        if let Some(known) = self.loss.proof.take() {
            self.loss.hear(known.seen.min(seen));
            (seen, is_heard) = (known.seen, known.is_heard).max((seen, is_heard));
        }
        self.forget_everything();
        self.head = Head { now: self.head.now.max(shown.now), ..shown };
        if planted::on(Defect::LossNotNoticed) {
            return;
        }
        tracing::error!(
            partition = %self.id, seen_generation = seen.generation, seen_seq = seen.seq,
            generation = shown.position.generation, seq = shown.position.seq,
            raised = is_raised(seen, shown.position),
            "the store has lost acknowledged commits"
        );
        self.loss.proof = Some(Proof::new(seen, is_heard));
    }

    /// Requested by each heartbeat. Looks for the last commit of this node in the feed of a partition in which it has
    /// committed nothing since: a loss would otherwise show only with its next commit.
    pub(super) fn verify_own(&mut self) {
        let recent = self.node.runtime.clock() < self.loss.own_at + VERIFY_MS;
        if self.node.description.exclusive || !recent || self.flying.is_some() || self.loss.is_pending() {
            return;
        }
        if let Some((seq, id)) = self.loss.commits.back().copied() {
            let range = Range { prefix: vec![Value::Int(seq as i64)], ..Range::default() };
            let scan = Scan { target: Target::Feed, ranges: vec![range], limit: 8, descending: false, parts: None };
            self.push_scan(ScanTag::Own(id), scan);
        }
    }

    pub(super) fn found_own(&mut self, id: CommitId, entries: &[Entry]) {
        let is_last = self.loss.commits.back().is_some_and(|(_, last)| *last == id);
        let is_there = entries.iter().any(|entry| entry.place.key[..] == id.0.as_bytes()[..]);
        if is_last && !is_there && self.flying.is_none() && !self.loss.is_pending() {
            // The commit that raises is answered with the head as it is now.
            let own = self.loss.own;
            self.prove(own.position, false, own);
            self.take_back(Vec::new(), Vec::new());
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
            Kept::Asked | Kept::NamedBy(_) => return false,
            Kept::Unknown => {
                proof.kept = Kept::Asked;
                self.push_scan(ScanTag::Kept, feed_before(seen.seq, None));
                return false;
            }
        };
        let executions = self.loss.changed_in(kept_seq, seen.seq);
        let id = CommitId(crate::engine::random_uuid(&*self.node.runtime));
        let now = self.tell_time();
        let witness = Witness { partition: self.id, seen, kept_seq, executions };
        let batch = witness.raise(id, self.head, &self.node.config.node, now);
        self.flying = Some(Flying::raise(id, self.batch, batch.expect, batch.now));
        self.batch += 1;
        self.effects.push(Effect::Commit(batch));
        true
    }

    /// Handles the scan of the feed up to the position that was seen. All of it is kept if it has this node's last
    /// commit up to that position, or this node has none; otherwise the feed up to this node's last commit in it.
    pub(super) fn found_kept(&mut self, page: &Page) {
        let found = self.loss.last_kept(&page.entries);
        let Some(proof) = self.loss.proof.as_mut().filter(|proof| proof.kept == Kept::Asked) else { return };
        let seen = proof.seen.seq;
        let last = self.loss.commits.iter().rev().map(|(seq, _)| *seq).find(|seq| *seq <= seen);
        let kept = match (found, cut_at(page)) {
            _ if found == last => page.entries.first().map_or(0, seq_of),
            (None, Some(last)) => return self.push_scan(ScanTag::Kept, feed_before(seen, Some(last))),
            _ => found.unwrap_or(0),
        };
        if self.head.position.generation <= proof.seen.generation {
            proof.kept = Kept::UpTo(kept);
            return;
        }
        proof.kept = Kept::NamedBy(kept);
        proof.told.clear();
        let scan =
            feed_after(Place { columns: vec![Value::Int((proof.seen.seq + GAP / 2) as i64)], key: Bytes::new() });
        self.push_scan(ScanTag::Named, scan);
    }

    /// Handles the entries of the feed in which other nodes name losses. If these cover every lost commit of this node and
    /// as much as was seen, there is nothing to add.
    pub(super) fn found_named(&mut self, page: &Page) {
        let Some(proof) = &mut self.loss.proof else { return };
        let Kept::NamedBy(kept) = proof.kept else { return };
        proof.told.extend(page.entries.iter().flat_map(told_ranges));
        if let Some(last) = cut_at(page) {
            return self.push_scan(ScanTag::Named, feed_after(last));
        }
        let is_told = |seq: u64| proof.told.iter().any(|told| seq > told.kept && seq <= told.seen);
        let seen = proof.seen;
        let is_named = |seq: u64| seq <= kept || seq > seen.seq || is_told(seq);
        let witness = Some(seen.seq).filter(|_| proof.is_heard);
        let mut commits = self.loss.commits.iter().map(|(seq, _)| *seq).chain(witness);
        if is_raised(seen, self.head.position) && commits.all(is_named) {
            let last = proof.told.last().map(|told| told.by);
            self.loss.settle(last);
            self.loss.own_at = self.node.runtime.clock();
            self.forget_everything();
            return self.prove_next();
        }
        proof.kept = Kept::UpTo(kept);
    }

    pub(super) fn kept_not_found(&mut self) {
        if let Some(proof) = self.loss.proof.as_mut().filter(|proof| !matches!(proof.kept, Kept::UpTo(_))) {
            proof.kept = Kept::Unknown;
        }
        self.loss.put_off(self.node.runtime.clock(), 0);
    }

    /// The generation has been raised.
    pub(super) fn raised(&mut self, head: Head) {
        self.node.counters.data_lost.add(1);
        self.loss.settle(None);
        self.take_own_head(head);
        tracing::error!(
            partition = %self.id, generation = head.position.generation, seq = head.position.seq,
            "raised the generation: what the lost commits handed out is fenced"
        );
        // Commands that ran meanwhile run again: their replies have the previous generation.
        self.take_back(Vec::new(), Vec::new());
        self.forget_everything();
        self.prove_next();
    }

    fn forget_everything(&mut self) {
        self.foreign += 1;
        self.cache.clear();
        self.lists.clear();
        self.ready.clear();
        self.claims.retry_all();
    }
}

/// Lost ranges that an entry of the feed names.
fn told_ranges(entry: &Entry) -> Vec<Told> {
    let parts = entry.found.iter().flat_map(|found| &found.parts);
    let events = parts.filter_map(|(_, bytes)| event::decode(bytes).ok()).flatten();
    let last = CommitId(uuid::Uuid::from_slice(&entry.place.key).unwrap_or_default());
    let ranges = events.filter_map(|event| match event.fact {
        Fact::StoreDataLost { generation, kept_seq: kept, seen_seq: seen, .. } => {
            let position = Position { generation, seq: seq_of(entry) };
            Some(Told { kept, seen, by: Head { position, last, now: event.at } })
        }
        _ => None,
    });
    ranges.collect()
}

/// `seq` of the commit that wrote an entry of the feed.
fn seq_of(entry: &Entry) -> u64 {
    match entry.place.columns.first() {
        Some(Value::Int(seq)) => *seq as u64,
        _ => 0,
    }
}

/// Where a page ended before its limit although there is more.
fn cut_at(page: &Page) -> Option<Place> {
    let is_cut = page.more && page.entries.len() < COMMITS_MAX;
    page.entries.last().filter(|_| is_cut).map(|last| last.place.clone())
}

/// Scan of the first entries of the feed after a place, with their events.
fn feed_after(after: Place) -> Scan {
    let range = Range { after: Some(after), ..Range::default() };
    Scan {
        target: Target::Feed,
        ranges: vec![range],
        limit: COMMITS_MAX,
        descending: false,
        parts: Some(PartMask::ALL),
    }
}

/// The last commits up to there.
fn feed_before(seq: u64, after: Option<Place>) -> Scan {
    let range = Range { until: Some(Value::Int(seq as i64)), after, ..Range::default() };
    Scan { target: Target::Feed, ranges: vec![range], limit: COMMITS_MAX, descending: true, parts: None }
}
