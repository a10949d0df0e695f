//! The leases of one worker process, which lie in all partitions: finding them, and ending those that are owed an end.

use super::{HeldLease, LeasePage, roster};
use crate::client::Urgency;
use crate::engine::Shared;
use crate::outage;
use crate::reads::{self, unavailable};
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use weft_core::command::{Call, Command, EndLease, Fence, Principal, SettleWorker};
use weft_core::error::Rejection;
use weft_core::limits;
use weft_core::record::worker::Body;
use weft_core::record::{Execution, Key, Record, Worker};
use weft_core::reply::Reply;
use weft_core::schema::{IndexId, Kind, PartMask, Timer, Value, execution as schema};
use weft_core::text::{Text, check_range};
use weft_core::{ExecutionId, PartitionId};
use weft_store::merge::merge_all;
use weft_store::{Page, Range, Scan, Target};

/// Leases that are ended in one go; each partition commits its share of them.
const ENDED_AT_ONCE: usize = 500;
const PAGE: usize = 1_000;
/// When a call that needs all partitions is to be repeated after one did not answer.
const RETRY_MS: u64 = 500;

/// Partitions that did not answer a search for leases. The search asks them no further, so that it waits for each of
/// them only once.
pub(crate) type Silent = BTreeSet<PartitionId>;

/// Result of one round of ending leases of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looked {
    pub ended: u32,
    /// There are more to end.
    pub more: bool,
    /// Some partition did not answer, so the process may owe further leases there. Its record still has the debt.
    pub is_partial: bool,
}

/// Ends up to `ENDED_AT_ONCE` leases that the process owes and writes into its record whether any is left. Partitions that
/// do not answer are added to `silent`. The leases found elsewhere are ended all the same.
pub(crate) async fn settle(shared: &Shared, worker: &Worker, silent: &mut Silent) -> Result<Looked, Rejection> {
    let body = &worker.body;
    let (held, more) = search(shared, body, ENDED_AT_ONCE, silent).await?;
    let owed = |execution: &Execution| {
        let lease = execution.lease()?;
        let end = body.owes(lease.session, lease.acquired_at)?;
        let fence = Fence { lease: lease.id, epoch: lease.epoch };
        Some(Command::EndLease(EndLease { id: execution.id, fence, end }))
    };
    let calls: Vec<Result<Call, Rejection>> = held.iter().filter_map(owed).map(|end| Ok(engine_call(end))).collect();
    let (owing, mut looked) = (calls.len(), Looked::default());
    let mut failed = false;
    for answer in shared.run(calls, Urgency::Urgent).await {
        match answer.map(|applied| applied.reply) {
            Ok(Reply::Expired(weft_core::reply::Expired::Fired)) => looked.ended += 1,
            Ok(_) => {}
            Err(rejection) => {
                tracing::warn!(instance = %body.instance, %rejection, "could not end a lease");
                failed = true;
            }
        }
    }
    looked.more = more && owing > 0;
    looked.is_partial = !silent.is_empty();
    if looked.is_partial {
        tracing::warn!(instance = %body.instance, ?silent, "leases of a worker process are searched again later: partitions did not answer");
        if !looked.more && !failed {
            // The debt stays as it is. A round at once would only wait for these partitions again.
            return Ok(looked);
        }
    }
    let settled = Command::SettleWorker(SettleWorker {
        key: Some(worker.key()),
        owed_since: body.owed.map(|owed| owed.since),
        owed_left: looked.more || failed || looked.is_partial,
        held: more || failed || looked.is_partial || held.len() > owing,
    });
    let answer = shared.run(vec![Ok(engine_call(settled))], Urgency::Urgent).await.pop();
    match answer.ok_or_else(|| Rejection::internal("a call was not answered"))??.reply {
        Reply::Worker(body) => shared.roster.note(&shared.hub, &body, shared.runtime.clock()),
        _ => shared.roster.forget(&body.namespace, &body.instance),
    }
    Ok(looked)
}

/// Ends the leases that the process owes, round by round, until none is left that this node can reach. Leases beyond
/// `HOLDING_MAX`, and those in partitions that do not answer, are ended by the scanner.
pub(crate) async fn settle_all(shared: &Shared, body: &Body) -> Result<u32, Rejection> {
    let (mut ended, mut silent) = (0, Silent::new());
    for _ in 0..limits::HOLDING_MAX / ENDED_AT_ONCE {
        let Some(worker) = roster::read(shared, &body.namespace, &body.instance).await? else { return Ok(ended) };
        let looked = settle(shared, &worker, &mut silent).await?;
        ended += looked.ended;
        if !looked.more {
            break;
        }
    }
    Ok(ended)
}

fn engine_call(command: Command) -> Call {
    Call { principal: Principal::engine(), request_id: None, expected_revision: None, command }
}

/// The executions that the process holds, and whether there are more. Fails if a partition does not answer; an execution
/// whose record does not decode is left out.
pub(crate) async fn held(shared: &Shared, body: &Body, limit: usize) -> Result<(Vec<Execution>, bool), Rejection> {
    let mut silent = Silent::new();
    let held = search(shared, body, limit, &mut silent).await?;
    all_answered(&silent)?;
    Ok(held)
}

/// Executions held in the name of sessions of a process, by the index of holders, and whether there are more. Fails if a
/// partition does not answer; an execution whose record does not decode is left out.
pub(crate) async fn indexed(
    shared: &Shared,
    namespace: &Text,
    instance: &Text,
    limit: usize,
) -> Result<(Vec<Execution>, bool), Rejection> {
    let mut silent = Silent::new();
    let held = search_index(shared, namespace, instance, limit, &mut silent).await?;
    all_answered(&silent)?;
    Ok(held)
}

/// The executions that the process holds in partitions that answer, and whether there are more. Leases of one that only
/// claims are in no index, so that its claims write no more than they must; they are found through the timers of all
/// leases. An execution whose record does not decode is left out: the scanner of leases parks it.
async fn search(
    shared: &Shared,
    body: &Body,
    limit: usize,
    silent: &mut Silent,
) -> Result<(Vec<Execution>, bool), Rejection> {
    if body.only_claims() {
        let mut held = walk(shared, &body.namespace, &body.instance, silent).await?;
        let more = held.len() > limit;
        held.truncate(limit);
        return Ok((held, more));
    }
    search_index(shared, &body.namespace, &body.instance, limit, silent).await
}

/// Searches the index of holders in partitions that answer.
async fn search_index(
    shared: &Shared,
    namespace: &Text,
    instance: &Text,
    limit: usize,
    silent: &mut Silent,
) -> Result<(Vec<Execution>, bool), Rejection> {
    let mut held = Vec::new();
    let mut after = None;
    loop {
        let prefix = vec![Value::text(namespace), Value::text(instance)];
        let scan = Scan {
            target: Target::Index(IndexId::ByHolder),
            ranges: vec![Range { prefix, after, until: None }],
            limit: limit.min(PAGE),
            descending: false,
            parts: Some(schema::LIGHT),
        };
        let page = page(shared, scan, silent).await?;
        for entry in &page.entries {
            let (Some(found), Some(key)) = (&entry.found, entry.key()) else { continue };
            if let Ok(Record::Execution(execution)) = reads::decode(key, found, schema::LIGHT)
                && is_held(&execution, namespace, instance)
            {
                held.push(*execution);
            }
        }
        after = page.entries.into_iter().last().filter(|_| page.more).map(|last| last.place);
        if after.is_none() || held.len() >= limit {
            return Ok((held, after.is_some()));
        }
    }
}

/// One page of a scan of all partitions but the silent ones; fails if none of them answers.
async fn page(shared: &Shared, scan: Scan, silent: &mut Silent) -> Result<Page, Rejection> {
    if silent.is_empty() {
        let (mut pages, unanswered) = outage::scan_all(shared, scan).await.map_err(unavailable)?;
        *silent = unanswered;
        return Ok(pages.pop().unwrap_or_default());
    }
    let partitions: Vec<PartitionId> =
        (0..shared.description.partitions).map(PartitionId).filter(|partition| !silent.contains(partition)).collect();
    let answers = join_all(partitions.iter().map(|partition| shared.store.scan(Some(*partition), scan.clone()))).await;
    let (mut pages, mut failure) = (Vec::with_capacity(answers.len()), None);
    for (partition, answer) in partitions.into_iter().zip(answers) {
        match answer {
            Ok(found) => pages.push(found),
            Err(error) => {
                silent.insert(partition);
                failure = Some(error);
            }
        }
    }
    match failure.filter(|_| pages.is_empty()) {
        Some(error) => Err(unavailable(error)),
        None => Ok(merge_all(pages, scan.limit, scan.descending).pop().unwrap_or_default()),
    }
}

/// Executions held by a process, found through the timers of all leases: whoever took them, and whether it registered.
async fn walk(
    shared: &Shared,
    namespace: &Text,
    instance: &Text,
    silent: &mut Silent,
) -> Result<Vec<Execution>, Rejection> {
    let mut held: BTreeMap<ExecutionId, Execution> = BTreeMap::new();
    let mut after = None;
    loop {
        let range = Range { prefix: vec![Value::Int(Timer::Lease as i64)], after, until: None };
        let scan = Scan { target: Target::Due, ranges: vec![range], limit: PAGE, descending: false, parts: None };
        let page = page(shared, scan, silent).await?;
        let mut keys: BTreeMap<PartitionId, Vec<Key>> = BTreeMap::new();
        for key in page.entries.iter().filter_map(|entry| entry.key()).filter(|key| key.kind() == Kind::Execution) {
            keys.entry(key.partition()).or_default().push(key);
        }
        for (partition, keys) in keys {
            let Ok(read) = read_intact(shared, partition, keys).await else {
                silent.insert(partition);
                continue;
            };
            let of_process = read.into_iter().filter(|execution| is_held(execution, namespace, instance));
            held.extend(of_process.map(|execution| (execution.id, execution)));
        }
        after = page.entries.into_iter().last().filter(|_| page.more).map(|last| last.place);
        if after.is_none() {
            return Ok(held.into_values().collect());
        }
    }
}

fn is_held(execution: &Execution, namespace: &Text, instance: &Text) -> bool {
    execution.spec.namespace == *namespace && execution.lease().is_some_and(|lease| lease.instance == *instance)
}

/// The executions under these keys that exist; fails if one of them does not decode.
pub(crate) async fn read(shared: &Shared, partition: PartitionId, keys: Vec<Key>) -> Result<Vec<Execution>, Rejection> {
    read_each(shared, partition, keys).await?.into_iter().collect()
}

/// The executions under these keys that exist and decode.
async fn read_intact(shared: &Shared, partition: PartitionId, keys: Vec<Key>) -> Result<Vec<Execution>, Rejection> {
    Ok(read_each(shared, partition, keys).await?.into_iter().flatten().collect())
}

/// The executions under these keys that exist, each or why it does not decode.
async fn read_each(
    shared: &Shared,
    partition: PartitionId,
    keys: Vec<Key>,
) -> Result<Vec<Result<Execution, Rejection>>, Rejection> {
    let wanted: Vec<(Key, PartMask)> = keys.iter().map(|key| (*key, schema::LIGHT)).collect();
    let read = shared.store.read(partition, wanted).await.map_err(unavailable)?;
    let found = keys.into_iter().zip(read.found).filter_map(|(key, found)| Some((key, found?)));
    let decoded = found.filter_map(|(key, found)| match reads::decode(key, &found, schema::LIGHT) {
        Ok(Record::Execution(execution)) => Some(Ok(*execution)),
        Ok(_) => None,
        Err(rejection) => Some(Err(rejection)),
    });
    Ok(decoded.collect())
}

/// Every lease of a process, over all partitions; fails if one of them does not answer.
pub(crate) async fn leases(
    shared: &Shared,
    who: &Principal,
    instance: &Text,
    cursor: Option<ExecutionId>,
    limit: usize,
) -> Result<LeasePage, Rejection> {
    check_range("limit", limit as u64, 1, limits::LIST_LIMIT_MAX as u64)?;
    let mut silent = Silent::new();
    let held = walk(shared, &who.namespace, instance, &mut silent).await?;
    all_answered(&silent)?;
    let mut leases: Vec<HeldLease> = held
        .iter()
        .filter(|execution| cursor.is_none_or(|cursor| execution.id > cursor))
        .filter_map(HeldLease::of)
        .collect();
    let next_cursor = leases.get(limit).and_then(|_| leases.get(limit - 1)).map(|last| last.execution);
    leases.truncate(limit);
    Ok(LeasePage { leases, next_cursor })
}

/// Refuses an answer that has to be complete and is not.
fn all_answered(silent: &Silent) -> Result<(), Rejection> {
    match silent.is_empty() {
        true => Ok(()),
        false => Err(Rejection::Unavailable { retry_after_ms: RETRY_MS, outcome_unknown: false }),
    }
}
