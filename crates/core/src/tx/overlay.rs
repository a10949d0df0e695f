//! The changes of one batch, and what its commit must verify.

use super::*;

/// A record that this batch changes.
pub(super) struct Slot {
    /// Revision it had before the batch; `None` if it was absent.
    pub(super) seen: Option<CommitId>,
    /// A blind delete: the commit does not check the revision.
    pub(super) blind: bool,
    /// Add every timer of the record to the due index: an entry that it had may be gone.
    pub(super) rearm: bool,
    pub(super) old_due: Vec<Due>,
    pub(super) old_facets: Option<Vec<Value>>,
    pub(super) record: Option<Record>,
    /// Bytes by which the record adds to the weight of the batch.
    pub(super) weight: usize,
    /// The record's write, if `encode_ahead` has made it; dropped when the record changes again.
    pub(super) encoded: Option<Option<Write>>,
}

impl Slot {
    /// The facets that were there before the batch.
    pub(super) fn old_facets(&self) -> Option<&[Value]> {
        match self.encoded.as_ref().and_then(|write| write.as_ref()).map(|write| &write.what) {
            Some(Change::Update { old, .. }) => Some(old),
            Some(Change::Delete { old }) => old.as_deref(),
            Some(Change::Insert(_)) | None => self.old_facets.as_deref(),
        }
    }

    /// Forgets a write that was encoded ahead, because the record changes again.
    pub(super) fn take_back(&mut self) {
        match self.encoded.take().flatten().map(|write| write.what) {
            Some(Change::Update { old, .. }) => self.old_facets = Some(old),
            Some(Change::Delete { old }) => self.old_facets = old,
            Some(Change::Insert(_)) | None => {}
        }
    }
}

/// All changes of one batch.
#[derive(Default)]
pub struct Overlay {
    pub(super) slots: BTreeMap<Key, Slot>,
    /// Slots that changed since the last `encode_ahead`.
    pub(super) unencoded: Vec<Key>,
    pub(super) reads: BTreeMap<Key, Option<CommitId>>,
    /// Records that commands of the batch rest on at different revisions.
    pub(super) torn: BTreeSet<Key>,
    pub(super) due_drops: Vec<DueEntry>,
    pub(super) events: Vec<Event>,
    pub(super) listed: BTreeMap<List, Vec<ExecutionId>>,
    pub(super) siblings: SiblingResults,
    pub(super) strict: bool,
    pub(super) weight: usize,
}

impl Overlay {
    /// An empty overlay, with room for as many events as `other` has.
    pub fn like(other: &Overlay) -> Self {
        Self { events: Vec::with_capacity(other.events.len()), ..Self::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.due_drops.is_empty()
    }

    /// Records the commit will write.
    pub fn records(&self) -> usize {
        self.slots.len()
    }

    /// About how many bytes the commit will carry.
    pub fn weight(&self) -> usize {
        self.weight
    }

    pub fn get(&self, key: &Key) -> Option<Option<&Record>> {
        self.slots.get(key).map(|slot| slot.record.as_ref())
    }

    /// The records this batch changes; `None` where it deletes one.
    pub fn changes(&self) -> impl Iterator<Item = (&Key, Option<&Record>)> {
        self.slots.iter().map(|(key, slot)| (key, slot.record.as_ref()))
    }

    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Counts of the siblings that decided groups looked at, by result.
    pub fn siblings(&self) -> SiblingResults {
        self.siblings
    }

    /// Every record that was read or is written.
    pub fn touched(&self) -> impl Iterator<Item = &Key> {
        self.slots.keys().chain(self.reads.keys())
    }

    /// Records that were loaded anew between two commands of the batch, which therefore depend on different revisions.
    /// Such a batch must not be committed: a commit verifies one revision of a record.
    pub fn torn(&self) -> &BTreeSet<Key> {
        &self.torn
    }

    /// True if a command of the batch has read a list, so that the commit must follow the head it expects.
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// Executions that this batch adds to each list.
    pub fn new_listed(&self) -> &BTreeMap<List, Vec<ExecutionId>> {
        &self.listed
    }

    /// Encodes what has changed so far, so that `seal` has little left to do. Changes nothing that can be seen.
    pub fn encode_ahead(&mut self) {
        for key in std::mem::take(&mut self.unencoded) {
            if let Some(slot) = self.slots.get_mut(&key).filter(|slot| slot.encoded.is_none()) {
                slot.encoded = Some(write_of(key, slot));
            }
        }
    }

    /// Turns the overlay into a commit, and into the records as they will be once it is applied.
    pub fn seal(self, id: CommitId, expect: Head, fast: bool, now: Time) -> (Batch, Vec<(Key, Option<Record>)>) {
        let mut reads: Vec<(Key, Option<CommitId>)> = Vec::with_capacity(self.slots.len() + self.reads.len());
        let mut writes = Vec::with_capacity(self.slots.len());
        let mut after = Vec::with_capacity(self.slots.len());
        let mut lanes: BTreeSet<(Text, Text)> = BTreeSet::new();
        for (key, mut slot) in self.slots {
            if !slot.blind {
                reads.push((key, slot.seen));
            }
            if let Some(Record::Execution(execution)) = &slot.record
                && matches!(execution.hot.state, crate::record::execution::State::Ready { .. })
            {
                let lane = (execution.spec.namespace.clone(), execution.spec.lane.clone());
                if !lanes.contains(&lane) {
                    lanes.insert(lane);
                }
            }
            if let Some(Record::Node(record)) = &slot.record
                && (slot.seen.is_none() || record.body.left)
            {
                // Who comes or goes changes the share of all others.
                lanes.insert((node::LANE.0.into(), node::LANE.1.into()));
            }
            if matches!(key, Key::Register(_, Subject::NodeDrains)) {
                // Nodes that are to drain are notified at once.
                lanes.insert((node::LANE.0.into(), node::LANE.1.into()));
            }
            if key.kind() == Kind::Worker && stands_otherwise(&slot) {
                lanes.insert((worker::LANE.0.into(), worker::LANE.1.into()));
            }
            writes.extend(slot.encoded.take().unwrap_or_else(|| write_of(key, &mut slot)));
            if let Some(record) = &mut slot.record {
                record.mark_clean();
            }
            after.push((key, slot.record));
        }
        // `reads` is in key order so far, because the slots are. A record that is deleted blindly may have been read before.
        let is_in = |key: &Key| reads.binary_search_by_key(key, |(key, _)| *key).is_ok();
        let others: Vec<_> = self.reads.into_iter().filter(|(key, _)| !is_in(key)).collect();
        reads.extend(others);
        let batch = Batch {
            id,
            expect,
            fast,
            strict: self.strict,
            now,
            raise: None,
            reads,
            writes,
            due_drops: self.due_drops,
            feed: event::encode(&self.events),
            lanes: lanes.into_iter().collect(),
        };
        (batch, after)
    }
}

/// Whether a worker process is new, deleted, or has another session or state. Most writes only record that it was seen.
fn stands_otherwise(slot: &Slot) -> bool {
    let now = slot.record.as_ref().map(Record::facets);
    let told = |facets: Option<&[Value]>| {
        facets.map(|facets| (facets[worker_schema::SESSION].clone(), facets[worker_schema::STATE].clone()))
    };
    told(slot.old_facets()) != told(now.as_deref())
}

/// The write of a slot; `None` for a record that this batch made and removed again.
/// The write takes the facets that were there with it, until `Slot::take_back`.
fn write_of(key: Key, slot: &mut Slot) -> Option<Write> {
    let new_due = slot.record.as_ref().map(Record::due).unwrap_or_default();
    let due_add = new_due.iter().filter(|due| slot.rearm || !slot.old_due.contains(due)).copied().collect();
    let due_remove = if planted::on(Defect::TimerEntryNotRemoved) {
        Vec::new()
    } else {
        slot.old_due.iter().filter(|due| !new_due.contains(due)).copied().collect()
    };
    let what = match (&slot.record, slot.seen) {
        (None, None) if !slot.blind => return None,
        (None, _) => Change::Delete { old: slot.old_facets.take() },
        (Some(record), None) => Change::Insert(Body {
            facets: record.facets(),
            parts: record.encode(record.loaded()).into_iter().filter(|(_, bytes)| bytes.is_some()).collect(),
        }),
        (Some(record), Some(_)) => {
            let body = Body { facets: record.facets(), parts: record.encode(record.dirty()) };
            Change::Update { old: slot.old_facets.take().unwrap_or_default(), body }
        }
    };
    Some(Write { key, what, due_add, due_remove })
}
