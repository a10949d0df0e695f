//! Writing into a store what no rule would: damage, wrong totals, entries of nobody. Works on every store.

use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_core::change::{Batch, Body, Change, Write};
use weft_core::record::member::{Mode, Owed, Then};
use weft_core::record::{Execution, Flow, Key, Record};
use weft_core::schema::{Due, PartMask, Timer};
use weft_core::{CommitId, ExecutionId, FlowId, PartitionId, Time};
use weft_store::{Outcome, Store};

/// The record as it is stored.
pub async fn stored(store: &impl Store, key: Key) -> Option<(Record, CommitId)> {
    let found = store.read(key.partition(), vec![(key, PartMask::ALL)]).await.unwrap().found.remove(0)?;
    Some((Record::decode(key, &found.parts, PartMask::ALL).unwrap(), found.revision))
}

pub async fn flow(store: &impl Store, id: FlowId) -> Flow {
    match stored(store, Key::Flow(id)).await {
        Some((Record::Flow(flow), _)) => *flow,
        other => panic!("{id} is {other:?}"),
    }
}

pub async fn execution(store: &impl Store, id: ExecutionId) -> Execution {
    match stored(store, Key::Execution(id)).await {
        Some((Record::Execution(execution), _)) => *execution,
        other => panic!("{id} is {other:?}"),
    }
}

/// Commits these writes as they are, on top of whatever is there.
pub async fn commit(store: &impl Store, partition: PartitionId, writes: Vec<Write>) {
    static MINTED: AtomicU64 = AtomicU64::new(1);
    let head = store.read(partition, Vec::new()).await.unwrap().head;
    let process = u64::from(std::process::id());
    let batch = Batch {
        id: CommitId(uuid::Uuid::from_u64_pair(0xdead_0000_0000 + process, MINTED.fetch_add(1, Ordering::Relaxed))),
        expect: head,
        fast: true,
        strict: false,
        now: head.now,
        raise: None,
        reads: Vec::new(),
        writes,
        due_drops: Vec::new(),
        feed: Bytes::new(),
        lanes: Vec::new(),
    };
    let outcome = store.commit(partition, batch).await;
    assert!(matches!(outcome, Outcome::Applied { .. }), "{outcome:?}");
}

/// Puts `new` in place of the record, with the timers it has.
pub async fn put(store: &impl Store, new: Record) {
    let (old, _) = stored(store, new.key()).await.expect("a record that is there");
    let body = Body { facets: new.facets(), parts: new.encode(PartMask::ALL) };
    let (had, has) = (old.due(), new.due());
    let due_add = has.iter().filter(|due| !had.contains(due)).copied().collect();
    let due_remove = had.iter().filter(|due| !has.contains(due)).copied().collect();
    let what = Change::Update { old: old.facets(), body };
    commit(store, new.key().partition(), vec![Write { key: new.key(), what, due_add, due_remove }]).await;
}

/// Changes the record of a flow.
pub async fn change_flow(store: &impl Store, id: FlowId, change: impl FnOnce(&mut Flow)) {
    let mut flow = flow(store, id).await;
    change(&mut flow);
    put(store, Record::Flow(Box::new(flow))).await;
}

/// Changes the record of an execution.
pub async fn change_execution(store: &impl Store, id: ExecutionId, change: impl FnOnce(&mut Execution)) {
    let mut execution = execution(store, id).await;
    change(&mut execution);
    put(store, Record::Execution(Box::new(execution))).await;
}

/// Removes a record with its timers.
pub async fn remove(store: &impl Store, key: Key) {
    let (old, _) = stored(store, key).await.expect("a record that is there");
    let what = Change::Delete { old: Some(old.facets()) };
    commit(store, key.partition(), vec![Write { key, what, due_add: Vec::new(), due_remove: old.due() }]).await;
}

/// Removes a record and leaves the entry of a timer behind.
pub async fn orphan(store: &impl Store, key: Key, due: Due) {
    entry(store, key, due).await;
    let (old, _) = stored(store, key).await.expect("a record that is there");
    let what = Change::Delete { old: Some(old.facets()) };
    commit(store, key.partition(), vec![Write { key, what, due_add: Vec::new(), due_remove: old.due() }]).await;
}

/// Adds an entry for a timer that the record does not have.
pub async fn entry(store: &impl Store, key: Key, due: Due) {
    let (old, _) = stored(store, key).await.expect("a record that is there");
    let body = Body { facets: old.facets(), parts: Vec::new() };
    let what = Change::Update { old: old.facets(), body };
    commit(store, key.partition(), vec![Write { key, what, due_add: vec![due], due_remove: Vec::new() }]).await;
}

/// Overwrites a part of a record with bytes that do not decode.
pub async fn damage(store: &impl Store, key: Key, part: u8) {
    let (old, _) = stored(store, key).await.expect("a record that is there");
    let body = Body { facets: old.facets(), parts: vec![(part, Some(Bytes::from_static(b"\x01garbage")))] };
    let what = Change::Update { old: old.facets(), body };
    commit(store, key.partition(), vec![Write { key, what, due_add: Vec::new(), due_remove: Vec::new() }]).await;
}

/// Makes the first group of a member owe its siblings a cancel, as a commit that had no room for them would.
pub async fn owe(store: &impl Store, id: ExecutionId, since: Time) {
    let flow = execution(store, id).await.member().expect("a member").flow;
    change_execution(store, id, |execution| {
        let group = &mut execution.member_mut().groups[0];
        group.then = Then::CancelRemaining(Mode::Immediate);
        group.owed = Some(Owed { verdict: group.state, cursor: 0, since });
    })
    .await;
    change_flow(store, flow, |flow| flow.hot.works += 1).await;
}

/// The entries of a timer.
pub async fn entries(store: &impl Store, partition: PartitionId, timer: Timer) -> Vec<weft_store::Entry> {
    use weft_core::schema::Value;
    use weft_store::{Range, Scan, Target};
    let ranges = vec![Range { prefix: vec![Value::Int(timer as i64)], ..Range::default() }];
    let scan = Scan { target: Target::Due, ranges, limit: 20_000, descending: false, parts: None };
    store.scan(Some(partition), scan).await.unwrap().remove(0).entries
}
