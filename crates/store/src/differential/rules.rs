//! Runs a call as the engine does, on what one store holds, and tells which batch it would commit. Commits nothing.

use crate::{Place, Range, Scan, Store, Target};
use bytes::Bytes;
use std::collections::BTreeMap;
use weft_core::apply::apply;
use weft_core::change::Batch;
use weft_core::codec::DecodeError;
use weft_core::command::Call;
use weft_core::error::Rejection;
use weft_core::limits::Limits;
use weft_core::record::{Key, Record};
use weft_core::reply::Reply;
use weft_core::schema::PartMask;
use weft_core::tx::{Base, LIST_SCAN_MAX, List, Lookup, Miss, Overlay, Stop, Tx};
use weft_core::{CommitId, ExecutionId, PartitionId, Time};

/// How often a call may ask for more before it is taken for one that never ends.
const ROUNDS_MAX: u32 = 50;

/// What the rules make of a call: its answer, and the commit that makes it true. There is none if nothing changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Made {
    pub reply: Result<Reply, Rejection>,
    pub batch: Option<Batch>,
}

/// A call, and all that comes from outside the rules.
pub(super) struct Asked {
    pub partition: PartitionId,
    pub call: Call,
    pub commit: CommitId,
    pub fast: bool,
    pub now: Time,
}

pub(super) async fn run<S: Store>(store: &S, asked: &Asked) -> Made {
    let (limits, under) = (Limits::default(), Overlay::default());
    let mut loaded = Loaded::default();
    for round in 0..ROUNDS_MAX {
        let misses: Vec<Miss> = {
            let mut tx = Tx::new(&loaded, &under, asked.now, &limits).after_rounds(round);
            match apply(&mut tx, &asked.call) {
                Ok(applied) => {
                    let mut overlay = Overlay::default();
                    match tx.finish() {
                        Ok(effects) => effects.merge(&mut overlay, &loaded),
                        Err(broken) => return Made { reply: Err(broken), batch: None },
                    }
                    return sealed(store, asked, applied.reply, overlay).await;
                }
                Err(Stop::Rejected(rejection)) => return Made { reply: Err(rejection), batch: None },
                Err(Stop::Miss) => tx.misses().collect(),
            }
        };
        for miss in misses {
            loaded.load(store, asked.partition, miss).await;
        }
    }
    panic!("{:?} keeps missing", asked.call)
}

async fn sealed<S: Store>(store: &S, asked: &Asked, reply: Reply, overlay: Overlay) -> Made {
    if overlay.is_empty() {
        return Made { reply: Ok(reply), batch: None };
    }
    let read = store.read(asked.partition, Vec::new()).await.expect("a read without keys succeeds");
    let (batch, _) = overlay.seal(asked.commit, read.head, asked.fast, asked.now);
    Made { reply: Ok(reply), batch: Some(batch) }
}

/// A record as it was loaded: absent, damaged, or there at a revision.
type Known = Option<(Result<Record, DecodeError>, CommitId)>;

/// What a call has asked for so far.
#[derive(Default)]
struct Loaded {
    records: BTreeMap<Key, Known>,
    lists: BTreeMap<(List, Option<ExecutionId>), Vec<ExecutionId>>,
}

impl Base for Loaded {
    fn get(&self, key: &Key) -> Lookup<'_> {
        match self.records.get(key) {
            None => Lookup::Unknown,
            Some(None) => Lookup::Absent,
            Some(Some((Ok(record), revision))) => Lookup::Present { record, revision: *revision },
            Some(Some((Err(error), revision))) => Lookup::Damaged(error, *revision),
        }
    }

    fn list(&self, list: List, after: Option<ExecutionId>) -> Option<Vec<ExecutionId>> {
        self.lists.get(&(list, after)).cloned()
    }
}

impl Loaded {
    async fn load<S: Store>(&mut self, store: &S, partition: PartitionId, miss: Miss) {
        match miss {
            Miss::Record(key, parts) => {
                let known = record(store, key, parts).await;
                match (self.records.get_mut(&key), known) {
                    (Some(Some((Ok(old), _))), Some((Ok(new), _))) => old.absorb(&new),
                    (_, known) => drop(self.records.insert(key, known)),
                }
            }
            Miss::List(list, after) => {
                let ids = listed(store, partition, list, after).await;
                self.lists.insert((list, after), ids);
            }
        }
    }
}

/// The record with these parts and those that every reader wants.
pub(super) async fn record<S: Store>(store: &S, key: Key, parts: PartMask) -> Known {
    let asked = parts.with(key.kind().table().light);
    let read = store.read(key.partition(), vec![(key, asked)]).await.expect("a read of a sound store succeeds");
    let found = read.found.into_iter().next().flatten()?;
    Some((Record::decode(key, &found.parts, asked), found.revision))
}

async fn listed<S: Store>(
    store: &S,
    partition: PartitionId,
    list: List,
    after: Option<ExecutionId>,
) -> Vec<ExecutionId> {
    let (index, prefix) = list.index();
    let place = |id: ExecutionId| Place {
        columns: prefix.clone(),
        key: Bytes::copy_from_slice(Key::Execution(id).to_bytes().as_slice()),
    };
    let range = Range { after: after.map(place), prefix: prefix.clone(), until: None };
    let (target, limit) = (Target::Index(index), LIST_SCAN_MAX + 1);
    let scan = Scan { target, ranges: vec![range], limit, descending: false, parts: None };
    let pages = store.scan(Some(partition), scan).await.expect("a scan of a sound store succeeds");
    let entries = pages.iter().flat_map(|page| &page.entries);
    let ids = entries.filter_map(|entry| match entry.key() {
        Some(Key::Execution(id) | Key::Tombstone(id)) => Some(id),
        _ => None,
    });
    ids.collect()
}
