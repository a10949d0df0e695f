//! The store as a whole against the commits: records, indexes and timers must agree both ways.

use super::due::armed;
use super::{Judge, Seen};
use bytes::Bytes;
use std::collections::BTreeSet;
use weft_core::change::DueEntry;
use weft_core::record::execution::{Execution, Hold, HoldKey, State};
use weft_core::record::{Key, Record};
use weft_core::schema::{Index, Kind, Value};
use weft_core::{ExecutionId, PartitionId};
use weft_store::Place;
use weft_store::memory::Dump;

impl Judge {
    /// Compares a dump with what the commits add up to. The records of the commit that is being observed may be newer.
    pub fn check_whole(&mut self, partition: PartitionId, dump: &Dump) {
        let mine: Vec<(&Key, &Seen)> = self.records.iter().filter(|(key, _)| key.partition() == partition).collect();
        let mut wrong: Vec<(&str, String)> = Vec::new();
        if mine.len() != dump.records.len() {
            let what = format!("partition {partition} has {} records, not {}", dump.records.len(), mine.len());
            wrong.push(("RI-1", what));
        }
        let mut due: BTreeSet<DueEntry> = BTreeSet::new();
        for (key, seen) in &mine {
            due.extend(armed(&seen.record).into_iter().map(|due| DueEntry::new(due, **key)));
            match dump.records.get(key) {
                None => wrong.push(("RI-1", format!("{key:?} is gone"))),
                Some(stored) if stored.revision != seen.revision => {
                    wrong.push(("RI-5", format!("{key:?} has another revision than its last commit")));
                }
                Some(stored) if stored.facets != seen.record.facets() => {
                    wrong.push(("E15", format!("{key:?} has other facets than its record says")));
                }
                Some(_) => {}
            }
        }
        if due != dump.due {
            let extra: Vec<_> = dump.due.symmetric_difference(&due).take(4).collect();
            wrong.push(("E11", format!("partition {partition}: due index and records differ in {extra:?}")));
        }
        for index in Kind::ALL.iter().flat_map(|kind| kind.table().indexes) {
            let of_kind = mine.iter().filter(|(key, _)| key.kind() == index.kind);
            let expected: BTreeSet<Place> = of_kind.filter_map(|(key, seen)| place(index, key, &seen.record)).collect();
            if dump.indexes.get(&index.id) != Some(&expected) {
                wrong.push(("E12", format!("partition {partition}: index {} and records differ", index.name)));
            }
        }
        let executions: Vec<&Execution> = mine
            .iter()
            .filter_map(|(_, seen)| match &seen.record {
                Record::Execution(execution) => Some(&**execution),
                _ => None,
            })
            .collect();
        wrong.extend(executions.iter().filter_map(|execution| self.stranded(execution)).map(|what| ("E20", what)));
        wrong.extend(executions.iter().filter_map(|execution| self.history(execution)).map(|what| ("E3", what)));
        for (rule, what) in wrong {
            self.violation(rule, what);
        }
    }

    /// Who will move it on? Somebody must.
    fn stranded(&self, execution: &Execution) -> Option<String> {
        let State::Blocked { holds, .. } = &execution.hot.state else {
            let moves =
                matches!(execution.hot.state, State::Ready { .. } | State::Done { .. }) || !execution.due().is_empty();
            return (!moves).then(|| format!("{} is stranded: {:?}", execution.id, execution.hot.state));
        };
        let open = |id: &ExecutionId| self.execution(*id).is_some_and(|child| !child.is_done());
        let lifted_by_somebody = holds.get(HoldKey::Operator).is_some()
            || !execution.due().is_empty()
            || holds.iter().any(|hold| match hold {
                Hold::Children(hold) => hold.children.iter().any(open),
                Hold::Operator { .. } => true,
                // The check of its flow looks at each edge; unsealed ones wait for a client, and no longer than the flow.
                Hold::Dependencies { unresolved, sealed } => *unresolved > 0 || !sealed,
            });
        (!lifted_by_somebody).then(|| format!("{} waits for nobody who could move it on", execution.id))
    }

    /// Every lease is in the history of an attempt, and attempts have no gaps.
    fn history(&self, execution: &Execution) -> Option<String> {
        let mut episodes = execution.hot.open.as_ref().map_or(0, |open| open.episodes());
        let ended = execution.hot.attempts - u32::from(execution.hot.open.is_some());
        for index in 0..ended {
            match self.records.get(&Key::Attempt(execution.id, index)).map(|seen| &seen.record) {
                Some(Record::Attempt(attempt)) => episodes += attempt.episodes(),
                _ => return Some(format!("{} lacks attempt {index}", execution.id)),
            }
        }
        (episodes != execution.hot.epoch)
            .then(|| format!("{} has {episodes} lease episodes at epoch {}", execution.id, execution.hot.epoch))
    }
}

/// Where the record must be in the index, if anywhere.
fn place(index: &Index, key: &Key, record: &Record) -> Option<Place> {
    let facets: Vec<Value> = record.facets();
    if index.when.is_some_and(|facet| facets[facet].is_null()) {
        return None;
    }
    let columns = index.facets.iter().map(|facet| facets[*facet].clone()).collect();
    Some(Place { columns, key: Bytes::copy_from_slice(key.to_bytes().as_slice()) })
}
