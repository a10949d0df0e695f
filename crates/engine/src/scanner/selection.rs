//! Which due items are this node's: by namespace and tag of the record, or of the flow or execution that it belongs to. A
//! record that cannot be judged is not selected; an item with neither a namespace nor tags is everybody's.

use super::ScanContext;
use super::due::{Item, may_have};
use crate::config::Filter;
use std::collections::{BTreeMap, BTreeSet};
use weft_core::PartitionId;
use weft_core::record::{Key, Record};
use weft_core::schema::{Kind, Timer};
use weft_store::Found;

enum Verdict {
    Mine,
    NotMine,
    /// The record under this key decides.
    Ask(Key),
}

/// The items that the filter covers. Without a filter nothing is read for it, with one the records of all items are read
/// together, and then the flows of members whose groups and continuations are due.
///
/// # Errors
/// If the store does not return the records: then nothing is known about any of the items.
pub(super) async fn select(
    cx: &ScanContext,
    partition: PartitionId,
    filter: &Filter,
    items: Vec<Item>,
) -> Result<Vec<Item>, weft_store::Error> {
    if filter.is_none() || items.is_empty() {
        return Ok(items);
    }
    let mut open: Vec<(usize, Key)> =
        items.iter().enumerate().filter_map(|(at, item)| Some((at, judged_by(item)?))).collect();
    let mut foreign: BTreeSet<usize> = BTreeSet::new();
    while !open.is_empty() {
        let keys: BTreeSet<Key> = open.iter().map(|(_, key)| *key).collect();
        let asked = keys.iter().map(|key| (*key, key.kind().table().light)).collect();
        let read = cx.shared.store.read(partition, asked).await?;
        let found: BTreeMap<Key, Option<Found>> = keys.into_iter().zip(read.found).collect();
        let mut asked = Vec::new();
        for (at, key) in open {
            match judge(filter, &items[at], key, found.get(&key).and_then(Option::as_ref)) {
                Verdict::Mine => {}
                Verdict::NotMine => drop(foreign.insert(at)),
                Verdict::Ask(key) => asked.push((at, key)),
            }
        }
        open = asked;
    }
    let kept = items.into_iter().enumerate().filter(|(at, _)| !foreign.contains(at));
    Ok(kept.map(|(_, item)| item).collect())
}

/// The record that is read first to judge an item; none for items of everybody.
fn judged_by(item: &Item) -> Option<Key> {
    let key = item.key?;
    if !item.entry.timer().is_some_and(|timer| may_have(key.kind(), timer)) {
        return None;
    }
    match key {
        Key::Continuation(owner, _) => Some(Key::Execution(owner)),
        _ => matches!(key.kind(), Kind::Execution | Kind::Flow | Kind::Dedup | Kind::Worker | Kind::BulkJob)
            .then_some(key),
    }
}

fn judge(filter: &Filter, item: &Item, key: Key, found: Option<&Found>) -> Verdict {
    let Some(found) = found else { return of_gone(item, key) };
    let Ok(record) = Record::decode(key, &found.parts, key.kind().table().light) else { return Verdict::NotMine };
    let covered = match &record {
        Record::Execution(execution) => {
            let belongs = item.key != Some(key) || item.entry.timer() == Some(Timer::GroupCancel);
            let flow = execution.member().filter(|_| belongs && filter.tag.is_some()).map(|member| member.flow);
            match flow.filter(|_| filter.covers_namespace(&execution.spec.namespace)) {
                Some(flow) => return Verdict::Ask(Key::Flow(flow)),
                None => filter.covers(&execution.spec.namespace, execution.tags()),
            }
        }
        Record::Flow(flow) => filter.covers(&flow.definition.namespace, flow.tags()),
        Record::Continuation(work) => filter.covers_namespace(&work.body.namespace),
        Record::Dedup(dedup) => filter.covers_namespace(&dedup.body.namespace),
        Record::Worker(worker) => filter.covers_namespace(&worker.body.namespace),
        Record::BulkJob(job) => filter.covers_namespace(&job.definition().namespace),
        _ => true,
    };
    if covered { Verdict::Mine } else { Verdict::NotMine }
}

/// A purge outlives its execution and is judged by its own namespace. Each node may handle a stale entry, and work of a member
/// whose flow is gone: no record is left by which a filter could select them.
fn of_gone(item: &Item, key: Key) -> Verdict {
    match item.key {
        Some(own @ Key::Continuation(..)) if matches!(key, Key::Execution(_)) => Verdict::Ask(own),
        _ => Verdict::Mine,
    }
}
