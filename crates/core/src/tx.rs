//! The overlay on loaded records. Commands of a batch run in order on one `Overlay`; each runs in a `Tx` of its own,
//! which is merged if the command succeeds and dropped if it is refused or misses a record.
//!
//! Never waits and never reads anything but what it was given.

mod overlay;

pub use overlay::Overlay;

use crate::change::{Batch, Body, Change, DueEntry, Head, Write};
use crate::codec::DecodeError;
use crate::error::Rejection;
use crate::event::{self, Event};
use crate::execution::trouble;
use crate::id::{CommitId, ExecutionId, FlowId, PartitionId};
use crate::invariant;
use crate::limits::Limits;
use crate::planted::{self, Defect};
use crate::record::execution::Remnant;
use crate::record::member::{SiblingResult, SiblingResults};
use crate::record::register::Subject;
use crate::record::trouble::Trouble;
use crate::record::{Attempt, Execution, Flow, Key, Record, node, worker};
use crate::schema::{Due, Kind, PartMask, Value, worker as worker_schema};
use crate::text::Text;
use crate::time::Time;
use overlay::Slot;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

pub use crate::list::{LIST_SCAN_MAX, List};

/// What is known about a key before this batch.
pub enum Lookup<'a> {
    /// Not loaded: ask the store.
    Unknown,
    Absent,
    Present {
        record: &'a Record,
        revision: CommitId,
    },
    /// The store has it at this revision, but its bytes do not decode.
    Damaged(&'a DecodeError, CommitId),
}

/// The records under a batch: the cache, and what earlier commits that are on their way have written.
pub trait Base {
    fn get(&self, key: &Key) -> Lookup<'_>;

    /// What is on the list after `after`, at most `LIST_SCAN_MAX + 1` of it; `None` if not loaded.
    fn list(&self, list: List, after: Option<ExecutionId>) -> Option<Vec<ExecutionId>>;
}

/// Something that must be loaded before the command can run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Miss {
    Record(Key, PartMask),
    /// What is on the list after this one; from the start without one.
    List(List, Option<ExecutionId>),
}

/// Why a command did not go through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A record is not loaded; `Tx::misses` says which.
    Miss,
    Rejected(Rejection),
}

impl From<Rejection> for Stop {
    fn from(rejection: Rejection) -> Self {
        Stop::Rejected(rejection)
    }
}

/// One command's view: what it changed, on top of the batch, on top of what is loaded.
pub struct Tx<'a> {
    base: &'a dyn Base,
    overlay: &'a Overlay,
    now: Time,
    limits: &'a Limits,
    generation: u64,
    rounds: u32,
    batch_records: usize,
    writes: BTreeMap<Key, Pending>,
    /// Writes of rules that `within` has run before; `writes` is on top.
    kept: BTreeMap<Key, Pending>,
    kept_weight: usize,
    reads: BTreeMap<Key, Option<CommitId>>,
    /// Records read in the state in which earlier commands of the batch left them.
    batch_reads: BTreeSet<Key>,
    /// Records of which every timer is added to the due index (`rearm`).
    rearmed: BTreeSet<Key>,
    /// The refusal for a record in a format of a later version, which replaces whatever the rule answered.
    newer: Option<Rejection>,
    due_drops: Vec<DueEntry>,
    events: Vec<Event>,
    listed: Vec<(List, ExecutionId)>,
    /// Lists that the command has read. The head of the partition verifies their contents.
    read_lists: BTreeSet<(List, Option<ExecutionId>)>,
    missed: BTreeMap<Key, PartMask>,
    missed_lists: BTreeSet<(List, Option<ExecutionId>)>,
    /// Members of flows that ended, in order; what follows from it is done when the rule is through.
    ended: Vec<ExecutionId>,
    siblings: SiblingResults,
}

enum Pending {
    Put(Record),
    Delete,
    DeleteBlind,
}

impl Pending {
    /// False for a blind delete, which depends on no revision.
    fn is_checked(&self) -> bool {
        !matches!(self, Pending::DeleteBlind)
    }

    fn weight(&self) -> usize {
        match self {
            Pending::Put(record) => record.written_weight(),
            Pending::Delete | Pending::DeleteBlind => 0,
        }
    }
}

/// What a successful command wants merged into its batch.
pub struct Effects {
    writes: BTreeMap<Key, Pending>,
    rearmed: BTreeSet<Key>,
    reads: BTreeMap<Key, Option<CommitId>>,
    due_drops: Vec<DueEntry>,
    events: Vec<Event>,
    listed: Vec<(List, ExecutionId)>,
    siblings: SiblingResults,
    strict: bool,
}

impl Effects {
    /// True if the command read only.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.due_drops.is_empty()
    }

    /// The keys the command changed.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.writes.keys()
    }

    /// Adds the command to its batch. `base` is what the command ran on.
    pub fn merge(self, overlay: &mut Overlay, base: &dyn Base) {
        for (key, seen) in self.reads {
            if *overlay.reads.entry(key).or_insert(seen) != seen {
                overlay.torn.insert(key);
            }
        }
        overlay.due_drops.extend(self.due_drops);
        for (key, pending) in self.writes {
            let slot = overlay.slots.entry(key).or_insert_with(|| {
                let (seen, old_due, old_facets) = match base.get(&key) {
                    Lookup::Present { record, revision } => (Some(revision), record.due(), Some(record.facets())),
                    // A blind delete leaves the revision to whoever has read the damaged record.
                    Lookup::Damaged(_, revision) => (pending.is_checked().then_some(revision), Vec::new(), None),
                    Lookup::Absent | Lookup::Unknown => (None, Vec::new(), None),
                };
                let blind = !pending.is_checked() && seen.is_none();
                if !blind && overlay.reads.get(&key).is_some_and(|first| *first != seen) {
                    overlay.torn.insert(key);
                }
                Slot { seen, blind, rearm: false, old_due, old_facets, record: None, weight: 0, encoded: None }
            });
            slot.take_back();
            overlay.unencoded.push(key);
            slot.rearm |= self.rearmed.contains(&key);
            // Written once, however often the batch changes it.
            let weight = pending.weight();
            overlay.weight += weight;
            overlay.weight -= std::mem::replace(&mut slot.weight, weight);
            match pending {
                Pending::Put(record) => {
                    if !overlay.due_drops.is_empty() {
                        // An entry that an earlier command of the batch dropped may be armed again.
                        let armed: Vec<DueEntry> =
                            record.due().into_iter().map(|due| DueEntry::new(due, key)).collect();
                        overlay.due_drops.retain(|entry| !armed.contains(entry));
                    }
                    slot.record = Some(record);
                }
                Pending::Delete | Pending::DeleteBlind => slot.record = None,
            }
        }
        for (list, id) in self.listed {
            overlay.listed.entry(list).or_default().push(id);
        }
        overlay.events.extend(self.events);
        for (sum, count) in overlay.siblings.iter_mut().zip(self.siblings) {
            *sum += count;
        }
        overlay.strict |= self.strict;
    }
}

impl<'a> Tx<'a> {
    pub fn new(base: &'a dyn Base, overlay: &'a Overlay, now: Time, limits: &'a Limits) -> Self {
        Self {
            base,
            overlay,
            now,
            limits,
            generation: 0,
            rounds: 0,
            batch_records: crate::limits::RECORDS_PER_COMMIT_MAX,
            writes: BTreeMap::new(),
            kept: BTreeMap::new(),
            kept_weight: 0,
            reads: BTreeMap::new(),
            batch_reads: BTreeSet::new(),
            rearmed: BTreeSet::new(),
            newer: None,
            due_drops: Vec::new(),
            events: Vec::new(),
            listed: Vec::new(),
            read_lists: BTreeSet::new(),
            missed: BTreeMap::new(),
            missed_lists: BTreeSet::new(),
            ended: Vec::new(),
            siblings: SiblingResults::default(),
        }
    }

    pub fn now(&self) -> Time {
        self.now
    }

    pub fn limits(&self) -> &Limits {
        self.limits
    }

    /// Sets the generation of the partition in which the command runs; the first one by default.
    pub fn in_generation(mut self, generation: u64) -> Self {
        self.generation = generation;
        self
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Says how often the command was run before and missed something.
    pub fn after_rounds(mut self, rounds: u32) -> Self {
        self.rounds = rounds;
        self
    }

    /// Says at how many records the store wants a batch to be closed.
    pub fn closed_at(mut self, batch_records: usize) -> Self {
        self.batch_records = batch_records;
        self
    }

    pub(crate) fn batch_records(&self) -> usize {
        self.batch_records
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds
    }

    /// A copy of the record with at least the light parts and `parts`; `None` if there is none.
    pub fn get(&mut self, key: Key, parts: PartMask) -> Result<Option<Record>, Stop> {
        if let Some(pending) = self.writes.get(&key).or_else(|| self.kept.get(&key)) {
            return match pending {
                Pending::Put(record) => self.with_parts(key, record.clone(), parts),
                Pending::Delete | Pending::DeleteBlind => Ok(None),
            };
        }
        if let Some(record) = self.overlay.get(&key) {
            self.batch_reads.insert(key);
            return match record.cloned() {
                Some(record) => self.with_parts(key, record, parts),
                None => Ok(None),
            };
        }
        match self.base.get(&key) {
            Lookup::Unknown => Err(self.miss(key, parts)),
            Lookup::Absent => {
                self.reads.insert(key, None);
                Ok(None)
            }
            Lookup::Present { record, revision } => {
                let record = record.clone();
                self.reads.insert(key, Some(revision));
                self.with_parts(key, record, parts)
            }
            Lookup::Damaged(error, revision) => {
                let rejection = match error {
                    error if error.is_newer => Rejection::NewerFormat { what: format!("{key:?}: {error}").into() },
                    error if error.is_unknown_policy => Rejection::UnknownPolicy { what: error.why.as_str().into() },
                    error => Rejection::internal(format!("{key:?}: {error}")),
                };
                if error.is_newer {
                    self.newer = Some(rejection.clone());
                }
                // Restored bytes may change what the command does, so what goes on without the record rests on it too.
                self.reads.insert(key, Some(revision));
                Err(rejection.into())
            }
        }
    }

    /// The record with the parts that are in memory; `Some(None)` if it is absent or does not decode, `None` if it must
    /// be loaded. Notes neither a read nor a miss, so nothing that decides the outcome may depend on it.
    pub(crate) fn peek(&self, key: &Key) -> Option<Option<&Record>> {
        match self.writes.get(key).or_else(|| self.kept.get(key)) {
            Some(Pending::Put(record)) => return Some(Some(record)),
            Some(Pending::Delete | Pending::DeleteBlind) => return Some(None),
            None => {}
        }
        self.overlay.get(key).or_else(|| match self.base.get(key) {
            Lookup::Unknown => None,
            Lookup::Absent | Lookup::Damaged(..) => Some(None),
            Lookup::Present { record, .. } => Some(Some(record)),
        })
    }

    /// The record if it has `parts`; else they are taken from the loaded one below, or missed.
    fn with_parts(&mut self, key: Key, mut record: Record, parts: PartMask) -> Result<Option<Record>, Stop> {
        let known = PartMask((1u16 << key.kind().table().parts.len()) - 1);
        let wanted = PartMask(parts.0 & known.0);
        if record.loaded().covers(wanted) {
            return Ok(Some(record));
        }
        if let Lookup::Present { record: below, .. } = self.base.get(&key) {
            record.absorb(below);
            if record.loaded().covers(wanted) {
                return Ok(Some(record));
            }
        }
        Err(self.miss(key, wanted))
    }

    /// The revision of a record as a caller may know it; `None` if it is absent, or changed by what is not committed yet.
    pub fn revision(&mut self, key: Key) -> Result<Option<CommitId>, Stop> {
        if self.writes.contains_key(&key) || self.kept.contains_key(&key) || self.overlay.get(&key).is_some() {
            return Ok(None);
        }
        self.get(key, PartMask::NONE)?;
        Ok(match self.base.get(&key) {
            Lookup::Present { revision, .. } => Some(revision),
            Lookup::Unknown | Lookup::Absent | Lookup::Damaged(..) => None,
        })
    }

    /// What can still be read of an execution that the store has and that does not decode.
    pub(crate) fn remnant(&self, key: &Key) -> Option<Remnant> {
        match self.base.get(key) {
            Lookup::Damaged(error, _) => error.remnant.as_deref().cloned(),
            Lookup::Unknown | Lookup::Absent | Lookup::Present { .. } => None,
        }
    }

    /// The refusal of a command that met a record in a format of a later version, whatever its rule made of it.
    pub(crate) fn met_newer(&self) -> Option<Rejection> {
        self.newer.clone()
    }

    /// Notes what has to be loaded; several wishes for one record become one.
    fn miss(&mut self, key: Key, parts: PartMask) -> Stop {
        let wanted = self.missed.entry(key).or_default();
        *wanted = wanted.with(parts);
        Stop::Miss
    }

    /// The execution, or `execution_not_found`.
    pub fn execution(&mut self, id: ExecutionId, parts: PartMask) -> Result<Execution, Stop> {
        self.find_execution(id, parts)?.ok_or(Stop::Rejected(Rejection::ExecutionNotFound))
    }

    pub fn find_execution(&mut self, id: ExecutionId, parts: PartMask) -> Result<Option<Execution>, Stop> {
        match self.get(Key::Execution(id), parts)? {
            Some(Record::Execution(execution)) => Ok(Some(*execution)),
            _ => Ok(None),
        }
    }

    pub fn find_attempt(&mut self, id: ExecutionId, index: u32, parts: PartMask) -> Result<Option<Attempt>, Stop> {
        match self.get(Key::Attempt(id, index), parts)? {
            Some(Record::Attempt(attempt)) => Ok(Some(*attempt)),
            _ => Ok(None),
        }
    }

    pub fn find_flow(&mut self, id: FlowId) -> Result<Option<Flow>, Stop> {
        match self.get(Key::Flow(id), PartMask::NONE)? {
            Some(Record::Flow(flow)) => Ok(Some(*flow)),
            _ => Ok(None),
        }
    }

    /// The flow of a member, which is there as long as any of its members is.
    pub fn flow_of(&mut self, id: FlowId) -> Result<Flow, Stop> {
        let gone = || Stop::Rejected(Rejection::internal(format!("FL-201 {id} goes after its members")));
        self.find_flow(id)?.ok_or_else(gone)
    }

    pub fn put_flow(&mut self, mut flow: Flow) {
        flow.hot.updated_at = self.now;
        let partition = flow.id.partition();
        let mut record = Record::Flow(Box::new(flow));
        let gone = trouble::forget_disarmed(&mut record);
        self.delete_all_letters(partition, gone);
        self.put(record);
    }

    /// What is on `list` after `after`, with what this batch adds to it; at least the first `LIST_SCAN_MAX + 1`, if there
    /// is so much. What the batch takes off may still be there.
    pub fn list(&mut self, list: List, after: Option<ExecutionId>) -> Result<Vec<ExecutionId>, Stop> {
        let Some(known) = self.base.list(list, after) else {
            self.missed_lists.insert((list, after));
            return Err(Stop::Miss);
        };
        self.read_lists.insert((list, after));
        let mut all: BTreeSet<ExecutionId> = known.into_iter().collect();
        all.extend(self.overlay.listed.get(&list).into_iter().flatten());
        all.extend(self.listed.iter().filter(|(of, _)| *of == list).map(|(_, id)| *id));
        Ok(all.into_iter().filter(|id| after.is_none_or(|after| *id > after)).collect())
    }

    /// The record as it was before this rule; `None` if it was absent. It has been looked at or written by it.
    pub(crate) fn before(&self, key: &Key) -> Option<&Record> {
        match self.kept.get(key) {
            Some(Pending::Put(record)) => return Some(record),
            Some(Pending::Delete | Pending::DeleteBlind) => return None,
            None => {}
        }
        match self.overlay.get(key) {
            Some(record) => record,
            None => match self.base.get(key) {
                Lookup::Present { record, .. } => Some(record),
                Lookup::Unknown | Lookup::Absent | Lookup::Damaged(..) => None,
            },
        }
    }

    /// The records of this kind that the rule has written so far; not those of rules that `within` has run before.
    pub(crate) fn written(&self, kind: Kind) -> Vec<Key> {
        self.writes.keys().filter(|key| key.kind() == kind).copied().collect()
    }

    /// The record as this rule left it; `None` if it removed it.
    pub(crate) fn after(&self, key: &Key) -> Option<&Record> {
        match self.writes.get(key) {
            Some(Pending::Put(record)) => Some(record),
            _ => None,
        }
    }

    /// Notes that a member has ended; `flow::follow` does what follows.
    pub(crate) fn note_end(&mut self, id: ExecutionId) {
        self.ended.push(id);
    }

    pub(crate) fn take_ended(&mut self) -> Vec<ExecutionId> {
        std::mem::take(&mut self.ended)
    }

    /// Prefetches several records; true if any of them has to be loaded.
    pub(crate) fn prefetch_all(&mut self, keys: impl IntoIterator<Item = Key>) -> bool {
        keys.into_iter().fold(false, |missing, key| self.prefetch(key, PartMask::NONE) | missing)
    }

    /// Inserts a record that is absent, because its id is fresh or the caller has looked it up. It is not looked up here: the
    /// commit conflicts if the record is there, each time it is tried.
    pub fn insert(&mut self, record: Record) {
        match &record {
            Record::Execution(execution) => {
                self.listed.extend(execution.spec.parent.map(|parent| (List::Children(parent), execution.id)));
                if let Some(member) = execution.member() {
                    self.listed.push((List::LiveMembers(member.flow), execution.id));
                    self.listed.push((List::Members(member.flow), execution.id));
                }
            }
            Record::Tombstone(tombstone) => {
                self.listed.push((List::Tombstones(tombstone.body.flow), tombstone.id));
            }
            _ => {}
        }
        self.writes.insert(record.key(), Pending::Put(record));
    }

    pub fn put(&mut self, mut record: Record) {
        // `put_execution` and `put_flow` delete the letters of executions and flows, without comparing them.
        if matches!(record, Record::Continuation(_) | Record::BulkJob(_)) {
            let gone = trouble::forget_disarmed(&mut record);
            let kept: Vec<Uuid> = record.trouble().into_iter().flat_map(Trouble::letters).collect();
            self.delete_letters(record.key(), &kept);
            self.delete_all_letters(record.key().partition(), gone);
        }
        self.writes.insert(record.key(), Pending::Put(record));
    }

    /// Removes the dead letters that the record had before this rule, but for those it keeps.
    fn delete_letters(&mut self, key: Key, kept: &[Uuid]) {
        let had = self.before(&key).and_then(Record::trouble).into_iter().flat_map(Trouble::letters);
        let gone = had.filter(|letter| !kept.contains(letter)).collect();
        self.delete_all_letters(key.partition(), gone);
    }

    fn delete_all_letters(&mut self, partition: PartitionId, letters: Vec<Uuid>) {
        for letter in letters {
            self.delete_blind(Key::DeadLetter(partition, letter));
        }
    }

    /// Writes a record and adds every timer that it has to the due index, also timers that it had before.
    pub(crate) fn rearm(&mut self, record: Record) {
        self.rearmed.insert(record.key());
        self.put(record);
    }

    pub fn put_execution(&mut self, mut execution: Execution) {
        execution.hot.updated_at = self.now;
        if let Some(flow) = execution.member().map(|member| member.flow).filter(|_| !execution.is_done())
            && matches!(self.before(&execution.key()), Some(Record::Execution(before)) if before.is_done())
        {
            // An ended member that lives again re-enters the index of live members, which a loaded list does not have yet.
            self.listed.push((List::LiveMembers(flow), execution.id));
        }
        let partition = execution.id.partition();
        let mut record = Record::Execution(Box::new(execution));
        let gone = trouble::forget_disarmed(&mut record);
        self.delete_all_letters(partition, gone);
        self.put(record);
    }

    /// True if the command has changed nothing so far.
    pub fn is_unchanged(&self) -> bool {
        self.writes.is_empty() && self.kept.is_empty() && self.due_drops.is_empty()
    }

    /// Records that the command changes so far.
    pub(crate) fn records(&self) -> usize {
        self.kept.len() + self.writes.len()
    }

    /// Records that the batch changes so far, with those of the command.
    pub(crate) fn records_of_batch(&self) -> usize {
        self.overlay.records() + self.records()
    }

    /// Records that the command changes so far, and about how many bytes they are.
    pub fn size(&self) -> (usize, usize) {
        let weight: usize = self.writes.values().map(Pending::weight).sum();
        (self.kept.len() + self.writes.len(), self.kept_weight + weight)
    }

    /// Runs a rule that may be refused while the command goes on: what is refused leaves nothing behind. With `keep` false
    /// an accepted one does not either, and only its answer is known.
    pub fn within<T>(&mut self, keep: bool, rule: impl FnOnce(&mut Self) -> Result<T, Stop>) -> Result<T, Stop> {
        self.keep_writes();
        let (drops, events, listed) = (self.due_drops.len(), self.events.len(), self.listed.len());
        let (ended, siblings) = (self.ended.len(), self.siblings);
        let answer = rule(self).and_then(|answer| self.check_writes().map(|()| answer).map_err(Stop::from));
        if answer.is_err() || !keep {
            self.writes.clear();
            self.due_drops.truncate(drops);
            self.events.truncate(events);
            self.listed.truncate(listed);
            self.ended.truncate(ended);
            self.siblings = siblings;
        }
        // The totals of flows know of these already; what the command writes besides is on top.
        self.keep_writes();
        answer
    }

    fn keep_writes(&mut self) {
        for (key, pending) in std::mem::take(&mut self.writes) {
            self.kept_weight += pending.weight();
            self.kept.insert(key, pending);
        }
    }

    /// Removes a record that was read.
    pub fn delete(&mut self, key: Key) {
        if matches!(key, Key::Continuation(..) | Key::BulkJob(..)) {
            self.delete_letters(key, &[]);
        }
        self.writes.insert(key, Pending::Delete);
    }

    /// Removes a record that has no timers and no facets in an index, and was not read: what it holds does not matter.
    pub fn delete_blind(&mut self, key: Key) {
        debug_assert!(key.kind().table().indexes.iter().all(|index| index.facets.is_empty()), "{key:?}");
        self.writes.insert(key, Pending::DeleteBlind);
    }

    /// Removes an entry of the due index without touching a record.
    pub fn drop_due(&mut self, entry: DueEntry) {
        self.due_drops.push(entry);
    }

    pub fn emit(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Counts what became of a sibling. It decides nothing.
    pub(crate) fn note_sibling(&mut self, result: SiblingResult) {
        self.siblings[result as usize] += 1;
    }

    /// The records below the batch that the command looked at.
    pub fn read_keys(&self) -> impl Iterator<Item = &Key> {
        self.reads.keys()
    }

    /// The lists that the command has read, each with the execution after which the read began.
    pub fn read_lists(&self) -> impl Iterator<Item = &(List, Option<ExecutionId>)> {
        self.read_lists.iter()
    }

    /// The records that the command looked at as commands of the batch before it left them.
    pub fn batch_read_keys(&self) -> impl Iterator<Item = &Key> {
        self.batch_reads.iter()
    }

    pub fn misses(&self) -> impl Iterator<Item = Miss> {
        let records = self.missed.iter().map(|(key, parts)| Miss::Record(*key, *parts));
        records.chain(self.missed_lists.iter().map(|(list, after)| Miss::List(*list, *after)))
    }

    /// True if something must be loaded before the command can be answered.
    pub(crate) fn has_missed(&self) -> bool {
        !(self.missed.is_empty() && self.missed_lists.is_empty())
    }

    /// Drops all misses, so that nothing more is loaded: the command is refused because it has waited too often.
    pub(crate) fn forget_misses(&mut self) {
        self.missed.clear();
        self.missed_lists.clear();
    }

    /// Notes a record that will be needed, so that several misses are loaded together.
    pub fn prefetch(&mut self, key: Key, parts: PartMask) -> bool {
        matches!(self.get(key, parts), Err(Stop::Miss))
    }

    fn check_writes(&self) -> Result<(), Rejection> {
        for pending in self.writes.values() {
            match pending {
                Pending::Put(Record::Execution(execution)) => match invariant::check(execution, self.now) {
                    Err(broken) if !self.was_broken_so(execution, &broken) => {
                        return Err(Rejection::internal(format!("{}: {broken}", execution.id)));
                    }
                    _ => {}
                },
                Pending::Put(Record::Flow(flow)) => match invariant::check_flow(flow) {
                    Err(broken) if !self.counts_as_before(flow) => {
                        return Err(Rejection::internal(format!("{}: {broken}", flow.id)));
                    }
                    _ => {}
                },
                Pending::Put(Record::ApiKey(key)) => invariant::check_key(key)
                    .map_err(|broken| Rejection::internal(format!("key {}: {broken}", key.id)))?,
                _ => {}
            }
            if let Pending::Put(Record::Worker(worker)) = pending {
                invariant::check_worker(worker, self.now)
                    .map_err(|broken| Rejection::internal(format!("{:?}: {broken}", worker.key())))?;
            }
        }
        Ok(())
    }

    /// Whether the execution broke this invariant before the command, which has left its state alone. A scanner must be able to
    /// keep count of its failures with such a record, and to park it.
    fn was_broken_so(&self, execution: &Execution, broken: &invariant::Broken) -> bool {
        match self.before(&execution.key()) {
            Some(Record::Execution(before)) => {
                before.hot.state == execution.hot.state && invariant::check(before, self.now) == Err(*broken)
            }
            _ => false,
        }
    }

    /// Whether the flow stands as it did below the command. Totals that were wrong before must not keep the verifier from
    /// noting that they are.
    fn counts_as_before(&self, flow: &Flow) -> bool {
        match self.before(&flow.key()) {
            Some(Record::Flow(before)) => before.summary == flow.summary && before.hot.state == flow.hot.state,
            _ => false,
        }
    }

    /// The changes of a command that succeeded. Refused if a record it leaves breaks an invariant.
    pub fn finish(mut self) -> Result<Effects, Rejection> {
        self.check_writes()?;
        let mut writes = self.kept;
        writes.append(&mut self.writes);
        Ok(Effects {
            writes,
            rearmed: self.rearmed,
            reads: self.reads,
            due_drops: self.due_drops,
            events: self.events,
            listed: self.listed,
            siblings: self.siblings,
            strict: !self.read_lists.is_empty(),
        })
    }
}
