//! The leases of one worker process, which lie in all partitions: finding them, and ending those that are owed an end.

use super::{HeldLease, LeasePage, roster};
use crate::client::Urgency;
use crate::engine::Shared;
use crate::reads::{self, unavailable};
use std::collections::BTreeMap;
use weft_core::command::{Call, Command, EndLease, Fence, Principal, SettleWorker};
use weft_core::error::Rejection;
use weft_core::limits;
use weft_core::record::worker::Body;
use weft_core::record::{Execution, Key, Record, Worker};
use weft_core::reply::Reply;
use weft_core::schema::{IndexId, Kind, PartMask, Timer, Value, execution as schema};
use weft_core::text::{Text, check_range};
use weft_core::{ExecutionId, PartitionId};
use weft_store::{Range, Scan, Target};

/// Leases that are ended in one go; each partition commits its share of them.
const ENDED_AT_ONCE: usize = 500;
const PAGE: usize = 1_000;

/// What a look at the leases of a process did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looked {
    pub ended: u32,
    /// There are more to end.
    pub more: bool,
}

/// Ends the leases that the process owes, as many as are ended at once, and tells its record what is left.
pub(crate) async fn settle(shared: &Shared, worker: &Worker) -> Result<Looked, Rejection> {
    let body = &worker.body;
    let (held, more) = held(shared, body, ENDED_AT_ONCE).await?;
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
    let settled = Command::SettleWorker(SettleWorker {
        key: Some(worker.key()),
        owed_since: body.owed.map(|owed| owed.since),
        owed_left: looked.more || failed,
        held: more || failed || held.len() > owing,
    });
    let answer = shared.run(vec![Ok(engine_call(settled))], Urgency::Urgent).await.pop();
    match answer.ok_or_else(|| Rejection::internal("a call was not answered"))??.reply {
        Reply::Worker(body) => shared.roster.note(&shared.hub, &body, shared.runtime.clock()),
        _ => shared.roster.forget(&body.namespace, &body.instance),
    }
    Ok(looked)
}

/// The same again and again until nothing is left to end, or so much that the scanner goes on with it.
pub(crate) async fn settle_all(shared: &Shared, body: &Body) -> Result<u32, Rejection> {
    let mut ended = 0;
    for _ in 0..limits::HOLDING_MAX / ENDED_AT_ONCE {
        let Some(worker) = roster::read(shared, &body.namespace, &body.instance).await? else { return Ok(ended) };
        let looked = settle(shared, &worker).await?;
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

/// The executions that the process holds, and whether there are more. Leases of one that only claims are in no index, so
/// that its claims write no more than they must; they are found through the timers of all leases.
pub(crate) async fn held(shared: &Shared, body: &Body, limit: usize) -> Result<(Vec<Execution>, bool), Rejection> {
    if body.only_claims() {
        let mut held = walk(shared, &body.namespace, &body.instance).await?;
        let more = held.len() > limit;
        held.truncate(limit);
        return Ok((held, more));
    }
    indexed(shared, &body.namespace, &body.instance, limit).await
}

/// What is held in the name of sessions of this process, by the index of holders.
pub(crate) async fn indexed(
    shared: &Shared,
    namespace: &Text,
    instance: &Text,
    limit: usize,
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
        let page = shared.store.scan(None, scan).await.map_err(unavailable)?.pop().unwrap_or_default();
        for entry in &page.entries {
            let (Some(found), Some(key)) = (&entry.found, entry.key()) else { continue };
            if let Record::Execution(execution) = reads::decode(key, found, schema::LIGHT)?
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

/// What is held by this process, found through the timers of all leases: whoever took it, and whether it registered.
async fn walk(shared: &Shared, namespace: &Text, instance: &Text) -> Result<Vec<Execution>, Rejection> {
    let mut held: BTreeMap<ExecutionId, Execution> = BTreeMap::new();
    let mut after = None;
    loop {
        let range = Range { prefix: vec![Value::Int(Timer::Lease as i64)], after, until: None };
        let scan = Scan { target: Target::Due, ranges: vec![range], limit: PAGE, descending: false, parts: None };
        let page = shared.store.scan(None, scan).await.map_err(unavailable)?.pop().unwrap_or_default();
        let mut keys: BTreeMap<PartitionId, Vec<Key>> = BTreeMap::new();
        for key in page.entries.iter().filter_map(|entry| entry.key()).filter(|key| key.kind() == Kind::Execution) {
            keys.entry(key.partition()).or_default().push(key);
        }
        for (partition, keys) in keys {
            for execution in read(shared, partition, keys).await? {
                if is_held(&execution, namespace, instance) {
                    held.insert(execution.id, execution);
                }
            }
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

/// The executions under these keys that are there.
pub(crate) async fn read(shared: &Shared, partition: PartitionId, keys: Vec<Key>) -> Result<Vec<Execution>, Rejection> {
    let wanted: Vec<(Key, PartMask)> = keys.iter().map(|key| (*key, schema::LIGHT)).collect();
    let read = shared.store.read(partition, wanted).await.map_err(unavailable)?;
    let mut executions = Vec::with_capacity(keys.len());
    for (key, found) in keys.into_iter().zip(read.found) {
        if let Some(found) = found
            && let Record::Execution(execution) = reads::decode(key, &found, schema::LIGHT)?
        {
            executions.push(*execution);
        }
    }
    Ok(executions)
}

/// Every lease of a process, exact, over all partitions.
pub(crate) async fn leases(
    shared: &Shared,
    who: &Principal,
    instance: &Text,
    cursor: Option<ExecutionId>,
    limit: usize,
) -> Result<LeasePage, Rejection> {
    check_range("limit", limit as u64, 1, limits::LIST_LIMIT_MAX as u64)?;
    let held = walk(shared, &who.namespace, instance).await?;
    let mut leases: Vec<HeldLease> = held
        .iter()
        .filter(|execution| cursor.is_none_or(|cursor| execution.id > cursor))
        .filter_map(HeldLease::of)
        .collect();
    let next_cursor = leases.get(limit).and_then(|_| leases.get(limit - 1)).map(|last| last.execution);
    leases.truncate(limit);
    Ok(LeasePage { leases, next_cursor })
}
