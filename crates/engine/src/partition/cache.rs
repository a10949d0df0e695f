//! Records in memory. A guess that commits verify, never the truth; bounded in bytes.

use lru::LruCache;
use std::collections::BTreeSet;
use weft_core::CommitId;
use weft_core::codec::DecodeError;
use weft_core::record::{Key, Record};
use weft_core::schema::PartMask;
use weft_core::tx::Lookup;
use weft_store::Found;

/// A hasher without a random seed, so that a run can be repeated. Keys are made of the engine's own ids and of digests:
/// nobody outside can choose them to collide.
type Fixed = foldhash::fast::FixedState;

pub struct Cache {
    entries: LruCache<Key, Entry, Fixed>,
    /// Dropped since the open batch began, which may rest on them.
    gone: BTreeSet<Key>,
    /// The latest turn of anything that was dropped. A read that began before it may show what was there before a commit
    /// of ours that nothing here remembers any more.
    floor: u64,
    weight: usize,
    weight_max: usize,
}

struct Entry {
    what: What,
    /// How many foreign changes were known when it was read or written.
    stamp: u64,
    /// The turn in which its read began, or its commit ended.
    turn: u64,
    weight: usize,
}

enum What {
    Absent,
    Present(Record, CommitId),
    /// It is there, as this commit of ours left it, but takes no memory: the next use reads it.
    Shed(CommitId),
    Damaged(DecodeError, CommitId),
}

impl What {
    fn revision(&self) -> Option<CommitId> {
        match self {
            What::Present(_, revision) | What::Shed(revision) | What::Damaged(_, revision) => Some(*revision),
            What::Absent => None,
        }
    }
}

impl Cache {
    pub fn new(weight_max: usize) -> Self {
        Self {
            entries: LruCache::unbounded_with_hasher(Fixed::default()),
            gone: BTreeSet::new(),
            floor: 0,
            weight: 0,
            weight_max,
        }
    }

    /// About how many bytes are cached.
    pub fn weight(&self) -> usize {
        self.weight
    }

    pub fn get(&self, key: &Key) -> Lookup<'_> {
        match self.entries.peek(key).map(|entry| &entry.what) {
            None | Some(What::Shed(_)) => Lookup::Unknown,
            Some(What::Absent) => Lookup::Absent,
            Some(What::Present(record, revision)) => Lookup::Present { record, revision: *revision },
            Some(What::Damaged(error, revision)) => Lookup::Damaged(error, *revision),
        }
    }

    pub fn record(&self, key: &Key) -> Option<&Record> {
        match self.get(key) {
            Lookup::Present { record, .. } => Some(record),
            _ => None,
        }
    }

    /// When it was read, or written by us.
    pub fn turn(&self, key: &Key) -> Option<u64> {
        self.entries.peek(key).map(|entry| entry.turn)
    }

    /// Known, and not read since `turn`.
    pub fn is_older(&self, key: &Key, turn: u64) -> bool {
        self.entries.peek(key).is_some_and(|entry| entry.turn < turn)
    }

    /// What a batch saw, `seen`, is still what is known, and was read or written when `stamp` foreign changes were
    /// known. A record that was never looked up counts too: the commit that makes it is the first to know it.
    pub fn is_current(&self, key: &Key, seen: Option<CommitId>, stamp: u64) -> bool {
        match self.entries.peek(key) {
            None => !self.gone.contains(key),
            Some(Entry { what, stamp: known, .. }) => seen == what.revision() && *known == stamp,
        }
    }

    /// A batch has been sent: what went before no longer concerns the next.
    pub fn begin_batch(&mut self) {
        self.gone.clear();
    }

    /// Takes a record as one of our commits left it; `None` if it was deleted.
    pub fn put(&mut self, key: Key, record: Option<(Record, CommitId)>, stamp: u64, turn: u64) {
        let what = match record {
            None => What::Absent,
            Some((record, revision)) if is_over(&record) => What::Shed(revision),
            Some((record, revision)) => What::Present(record, revision),
        };
        self.insert(key, what, stamp, turn);
    }

    /// Takes what a read returned. Parts of the same revision are joined; of two different revisions neither is
    /// believed, and the next use reads again.
    pub fn absorb(&mut self, key: Key, parts: PartMask, found: Option<Found>, stamp: u64, turn: u64) {
        let (what, revision) = match found {
            None => (What::Absent, None),
            Some(found) => match Record::decode(key, &found.parts, parts) {
                Ok(record) => (What::Present(record, found.revision), Some(found.revision)),
                Err(error) => (What::Damaged(error, found.revision), Some(found.revision)),
            },
        };
        if turn < self.floor && !self.entries.contains(&key) {
            return;
        }
        if let Some(entry) = self.entries.peek(&key) {
            // A read that began before our own commit ended may show what was there before it.
            if entry.what.revision() != revision && entry.turn > turn {
                self.remove(&key);
                return;
            }
        }
        let same = self.entries.peek(&key).filter(|entry| revision.is_some() && entry.what.revision() == revision);
        let Some(entry) = same else { return self.insert(key, what, stamp, turn) };
        let what = match (what, &entry.what) {
            (What::Present(mut record, revision), What::Present(known, _)) => {
                record.absorb(known);
                What::Present(record, revision)
            }
            (what, _) => what,
        };
        // The same revision, known as of the later of the two looks.
        let (stamp, turn) = (stamp.max(entry.stamp), turn.max(entry.turn));
        self.insert(key, what, stamp, turn);
    }

    fn insert(&mut self, key: Key, what: What, stamp: u64, turn: u64) {
        let weight = match &what {
            What::Present(record, _) => record.weight(),
            What::Absent | What::Shed(_) | What::Damaged(..) => 128,
        };
        self.weight += weight;
        if let Some(old) = self.entries.put(key, Entry { what, stamp, turn, weight }) {
            self.weight -= old.weight;
        }
    }

    pub fn remove(&mut self, key: &Key) {
        if let Some(old) = self.entries.pop(key) {
            self.dropped(*key, &old);
        }
    }

    /// Nothing that is known can be believed any more.
    pub fn clear(&mut self) {
        while let Some((key, old)) = self.entries.pop_lru() {
            self.dropped(key, &old);
        }
    }

    fn dropped(&mut self, key: Key, old: &Entry) {
        self.weight -= old.weight;
        self.gone.insert(key);
        self.floor = self.floor.max(old.turn);
    }

    /// Drops the records that were used longest ago. Called only between batches: what a command asked for stays until
    /// it has run.
    pub fn trim(&mut self) {
        while self.weight > self.weight_max && self.entries.len() > 1 {
            match self.entries.pop_lru() {
                Some((key, old)) => self.dropped(key, &old),
                None => return,
            }
        }
    }
}

/// Nothing is expected to happen to it any more, so that its memory serves others better.
fn is_over(record: &Record) -> bool {
    match record {
        Record::Execution(execution) => execution.is_done(),
        // A step is read again only by a claim, which is rare: most executions are claimed once.
        Record::Attempt(_) | Record::Step(_) => true,
        Record::Flow(flow) => flow.is_done(),
        Record::Edge(edge) => edge.body.resolved.is_some(),
        Record::Tombstone(_) => true,
        Record::Dedup(_)
        | Record::Continuation(_)
        | Record::DeadLetter(_)
        | Record::Node(_)
        | Record::Worker(_)
        | Record::BulkJob(_)
        | Record::ApiKey(_)
        | Record::Register(_) => false,
        // An entry of the log is not read by any rule.
        Record::Audit(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;
    use weft_core::record::Attempt;
    use weft_core::record::attempt::AttemptKind;
    use weft_core::{ExecutionId, PartitionId, Time};

    #[test]
    fn ri_5_a_read_from_before_our_commit_is_not_believed_after_the_record_was_shed() {
        let id = ExecutionId::new(PartitionId(0), Uuid::from_u128(1));
        let attempt = Attempt::start(id, 0, AttemptKind::Initial, None, None, Time::from_ms(5));
        let record = Record::Attempt(Box::new(attempt));
        let (key, parts) = (record.key(), record.loaded());
        let bytes: Vec<_> = record.encode(parts).into_iter().filter_map(|(part, bytes)| Some((part, bytes?))).collect();
        let [ours, older] = [1, 2].map(|number| CommitId(Uuid::from_u128(number)));
        let found = |revision| Some(Found { revision, parts: bytes.clone() });

        let mut cache = Cache::new(1 << 20);
        cache.put(key, Some((record, ours)), 0, 10);
        assert!(matches!(cache.get(&key), Lookup::Unknown), "what is over takes no memory");
        // It began early and saw our commit all the same: that makes our commit no older.
        cache.absorb(key, parts, found(ours), 0, 5);
        assert!(matches!(cache.get(&key), Lookup::Present { revision, .. } if revision == ours));
        cache.absorb(key, parts, found(older), 0, 7);
        assert!(!matches!(cache.get(&key), Lookup::Present { revision, .. } if revision == older));
    }
}
