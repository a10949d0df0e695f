//! Which due items are this node's: by namespace and tag of the record, or of the flow or execution it belongs to. What
//! cannot be judged is not selected.

use super::ScanContext;
use super::due::Item;
use crate::config::Filter;
use std::collections::BTreeSet;
use weft_core::PartitionId;
use weft_core::record::{Key, Record};
use weft_core::schema::{PartMask, Timer};

enum Verdict {
    Mine,
    NotMine,
    /// It has no tags of its own; this record has.
    Ask(Key),
}

/// The items that the filter covers; `None` if the store cannot be read. Without a filter nothing is read for it.
pub(super) async fn select(
    cx: &ScanContext,
    partition: PartitionId,
    filter: &Filter,
    items: Vec<Item>,
) -> Option<Vec<Item>> {
    if filter.is_none() || items.is_empty() {
        return Some(items);
    }
    let of_group = |item: &Item| item.entry.timer() == Some(Timer::GroupCancel);
    let mut open: Vec<(usize, Key, bool)> =
        items.iter().enumerate().filter_map(|(at, item)| Some((at, item.key?, of_group(item)))).collect();
    let mut mine: BTreeSet<usize> = BTreeSet::new();
    // From a continuation to its execution, and from there to the flow; mostly the record itself is enough.
    while !open.is_empty() {
        let keys: Vec<(Key, PartMask)> = open.iter().map(|(_, key, _)| (*key, key.kind().table().light)).collect();
        let read = cx.shared.store.read(partition, keys).await.ok()?;
        let mut asked = Vec::new();
        for ((at, key, belongs), found) in open.into_iter().zip(read.found) {
            let record = found.and_then(|found| Record::decode(key, &found.parts, key.kind().table().light).ok());
            match record.map_or(Verdict::NotMine, |record| judge(filter, &record, belongs)) {
                Verdict::Mine => drop(mine.insert(at)),
                Verdict::NotMine => {}
                Verdict::Ask(key) => asked.push((at, key, true)),
            }
        }
        open = asked;
    }
    let kept = items.into_iter().enumerate().filter(|(at, _)| mine.contains(at));
    Some(kept.map(|(_, item)| item).collect())
}

/// `belongs` says that the item is not the record itself but something of it: then a member is judged by its flow.
fn judge(filter: &Filter, record: &Record, belongs: bool) -> Verdict {
    let (namespace, tags, ask) = match record {
        Record::Execution(execution) => {
            let flow = execution.member().filter(|_| belongs).map(|member| Key::Flow(member.flow));
            (&execution.spec.namespace, Some(execution.tags()), flow)
        }
        Record::Continuation(work) => (&work.body.namespace, None, Some(Key::Execution(work.owner))),
        Record::Flow(flow) => (&flow.definition.namespace, Some(flow.tags()), None),
        Record::Dedup(dedup) => (&dedup.body.namespace, None, None),
        Record::Worker(worker) => (&worker.body.namespace, None, None),
        Record::BulkJob(job) => (&job.definition().namespace, None, None),
        Record::Edge(_) | Record::Tombstone(_) => return Verdict::NotMine,
        Record::Attempt(_) | Record::DeadLetter(_) | Record::Node(_) | Record::Step(_) => return Verdict::NotMine,
        Record::ApiKey(_) | Record::Audit(_) | Record::Register(_) => return Verdict::NotMine,
    };
    if filter.namespace.as_ref().is_some_and(|wanted| wanted != namespace) {
        return Verdict::NotMine;
    }
    let Some((key, value)) = &filter.tag else { return Verdict::Mine };
    match (ask, tags) {
        (Some(key), _) => Verdict::Ask(key),
        (None, Some(tags)) if tags.get(key) == Some(value) => Verdict::Mine,
        (None, _) => Verdict::NotMine,
    }
}
