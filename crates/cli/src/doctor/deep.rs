//! Every execution in a store, held against what must be true of it.

use crate::store::AnyStore;
use crate::terminal::{Colour, Progress};
use weft_core::PartitionId;
use weft_core::Time;
use weft_core::invariant;
use weft_core::record::Record;
use weft_core::schema::{Kind, PartMask};
use weft_store::{Entry, Error, Finding, Range, Scan, Store, Target};

const SUBJECT: &str = "invariants";
/// Executions that are read at a time.
const PAGE: usize = 500;
/// Those that are named.
const NAMED_MAX: usize = 5;

pub async fn look(store: &AnyStore, colour: Colour) -> Finding {
    match walk(store, &Progress::counting(colour, "executions")).await {
        Err(error) => Finding::problem(SUBJECT, error.to_string(), "see whether the store is reachable"),
        Ok((looked, broken)) if broken.is_empty() => Finding::fine(SUBJECT, format!("hold for {looked} executions")),
        Ok((looked, broken)) => {
            let named: Vec<&str> = broken.iter().take(NAMED_MAX).map(String::as_str).collect();
            let more = if broken.len() > NAMED_MAX { ", …" } else { "" };
            let found = format!("{} of {looked} executions are damaged: {}{more}", broken.len(), named.join(", "));
            Finding::problem(SUBJECT, found, "stop the nodes and restore a backup; keep the store for a report")
        }
    }
}

/// How many were looked at, and what is wrong with those that are not as they should be.
async fn walk(store: &AnyStore, progress: &Progress) -> Result<(u64, Vec<String>), Error> {
    let now = store.now().await?;
    let (mut looked, mut broken) = (0, Vec::new());
    for partition in 0..store.describe().partitions {
        let mut after = None;
        loop {
            let scan = Scan {
                target: Target::Records(Kind::Execution),
                ranges: vec![Range { after, ..Range::default() }],
                limit: PAGE,
                descending: false,
                parts: Some(PartMask::ALL),
            };
            let Some(page) = store.scan(Some(PartitionId(partition)), scan).await?.into_iter().next() else { break };
            looked += page.entries.len() as u64;
            progress.reach(looked);
            broken.extend(page.entries.iter().filter_map(|entry| wrong(entry, now)));
            after = page.entries.last().map(|entry| entry.place.clone());
            if !page.more || after.is_none() {
                break;
            }
        }
    }
    Ok((looked, broken))
}

fn wrong(entry: &Entry, now: Time) -> Option<String> {
    let (Some(key), Some(found)) = (entry.key(), &entry.found) else {
        return Some("a key that cannot be read".to_owned());
    };
    match Record::decode(key, &found.parts, PartMask::ALL) {
        Err(error) => Some(format!("{key:?} ({error})")),
        Ok(Record::Execution(execution)) => {
            let broken = invariant::check(&execution, now).err()?;
            Some(format!("{} ({broken})", execution.id))
        }
        Ok(_) => None,
    }
}
