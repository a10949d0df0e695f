//! Writing into a store what no rule would: damage, wrong totals, entries of nobody; and reading what is there, past the
//! engine. Works on every store.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_core::change::{Batch, Body, Change, Write};
use weft_core::event::{self, Event};
use weft_core::flow::member_id;
use weft_core::record::execution::{Hold, Holds, Next, PublicState, State};
use weft_core::record::member::{GroupState, Mode, Owed, Then};
use weft_core::record::{Execution, Flow, Key, Record, dead_letter};
use weft_core::schema::{Due, Kind, PartMask, Timer, Value};
use weft_core::{CommitId, ExecutionId, FlowId, PartitionId, Time};
use weft_store::{Entry, Found, Outcome, Range, Scan, Store, Target};

/// The bytes of a record as they are stored.
pub async fn raw(store: &impl Store, key: Key) -> Option<Found> {
    store.read(key.partition(), vec![(key, PartMask::ALL)]).await.unwrap().found.remove(0)
}

/// The record as it is stored.
pub async fn stored(store: &impl Store, key: Key) -> Option<(Record, CommitId)> {
    let found = raw(store, key).await?;
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

/// Adds records with the timers they have.
pub async fn insert(store: &impl Store, records: impl IntoIterator<Item = Record>) {
    insert_with(store, records.into_iter().map(|record| (record.due(), record))).await;
}

/// Adds records with these timers, which may be others than they have.
pub async fn insert_with(store: &impl Store, records: impl IntoIterator<Item = (Vec<Due>, Record)>) {
    let mut writes: BTreeMap<PartitionId, Vec<Write>> = BTreeMap::new();
    for (due_add, record) in records {
        let body = Body { facets: record.facets(), parts: record.encode(PartMask::ALL) };
        let write = Write { key: record.key(), what: Change::Insert(body), due_add, due_remove: Vec::new() };
        writes.entry(record.key().partition()).or_default().push(write);
    }
    for (partition, writes) in writes {
        for some in writes.chunks(500) {
            commit(store, partition, some.to_vec()).await;
        }
    }
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
    add_due(store, key, vec![due]).await;
}

/// Adds `count` entries for a timer that the record does not have, each at another time in the past.
pub async fn entries_past(store: &impl Store, key: Key, timer: Timer, count: u64) {
    add_due(store, key, (1..=count).map(|at| Due { timer, at: Time::from_ms(at) }).collect()).await;
}

async fn add_due(store: &impl Store, key: Key, due_add: Vec<Due>) {
    let (old, _) = stored(store, key).await.expect("a record that is there");
    let body = Body { facets: old.facets(), parts: Vec::new() };
    let what = Change::Update { old: old.facets(), body };
    commit(store, key.partition(), vec![Write { key, what, due_add, due_remove: Vec::new() }]).await;
}

/// Overwrites a part of a record with bytes that do not decode.
pub async fn damage(store: &impl Store, key: Key, part: u8) {
    overwrite(store, key, part, b"\x01garbage").await;
}

/// Overwrites a part of a record.
pub async fn overwrite(store: &impl Store, key: Key, part: u8, bytes: &'static [u8]) {
    let (old, _) = stored(store, key).await.expect("a record that is there");
    replace(store, key, part, Bytes::from_static(bytes), old.facets()).await;
}

/// Changes a part of a record so that it has a policy which only a later version knows.
pub async fn later_policy(store: &impl Store, key: Key, part: u8) {
    let (old, _) = stored(store, key).await.expect("a record that is there");
    let parts = raw(store, key).await.expect("a record that is there").parts;
    let at = parts.iter().position(|(number, _)| *number == part).expect("the part is there");
    let bytes = &parts[at].1;
    let changed = (1..bytes.len()).rev().find_map(|place| {
        let mut parts = parts.clone();
        let mut bytes = bytes.to_vec();
        bytes[place] = 9;
        parts[at].1 = bytes.clone().into();
        Record::decode(key, &parts, PartMask::ALL).err().filter(|error| error.is_unknown_policy).map(|_| bytes)
    });
    replace(store, key, part, changed.expect("a policy is in there").into(), old.facets()).await;
}

/// Gives a part of a record the bytes back that it had, with which the record decodes.
pub async fn restore(store: &impl Store, key: Key, part: u8, bytes: Bytes) {
    let mut parts = raw(store, key).await.expect("a record that is there").parts;
    parts.retain(|(number, _)| *number != part);
    parts.push((part, bytes.clone()));
    let facets = Record::decode(key, &parts, PartMask::ALL).unwrap().facets();
    replace(store, key, part, bytes, facets).await;
}

async fn replace(store: &impl Store, key: Key, part: u8, bytes: Bytes, facets: Vec<Value>) {
    let body = Body { facets: facets.clone(), parts: vec![(part, Some(bytes))] };
    let what = Change::Update { old: facets, body };
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

/// Writes the edge and the downstream of a flow of two as they were before the upstream `a` ended, all but its own end.
pub async fn pending(store: &impl Store, id: FlowId) {
    let (a, b) = (member_id(id, "a"), member_id(id, "b"));
    let Some((Record::Edge(mut edge), _)) = stored(store, Key::Edge(a, 0)).await else { panic!("an edge") };
    edge.body.resolved = None;
    put(store, Record::Edge(edge)).await;
    change_execution(store, b, |waits| {
        let mut holds = Holds::default();
        holds.insert(Hold::Dependencies { unresolved: 1, sealed: true });
        let since = waits.hot.created_at;
        waits.hot.state = State::Blocked { holds, not_before: None, since, next: Next::First };
        let group = &mut waits.member_mut().groups[0];
        (group.met, group.state, group.decided_at) = (0, GroupState::Pending, None);
    })
    .await;
    change_flow(store, id, |planted| {
        planted.summary.by_state[PublicState::Waiting as usize] -= 1;
        planted.summary.by_state[PublicState::WaitingChildren as usize] += 1;
        planted.summary.edges_pending = 1;
    })
    .await;
}

/// All entries of a target, in order.
async fn all(store: &impl Store, partition: PartitionId, target: Target, prefix: Vec<Value>) -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::new();
    let parts = (target != Target::Due).then_some(PartMask::ALL);
    loop {
        let after = all.last().map(|entry| entry.place.clone());
        let ranges = vec![Range { prefix: prefix.clone(), after, until: None }];
        let scan = Scan { target, ranges, limit: 2_000, descending: false, parts };
        let page = store.scan(Some(partition), scan).await.unwrap().remove(0);
        all.extend(page.entries);
        if !page.more {
            return all;
        }
    }
}

/// The entries of a timer.
pub async fn entries(store: &impl Store, partition: PartitionId, timer: Timer) -> Vec<Entry> {
    all(store, partition, Target::Due, vec![Value::Int(timer as i64)]).await
}

/// All entries of the due index, beside those of the registry of nodes.
pub async fn due(store: &impl Store, partition: PartitionId) -> Vec<Entry> {
    let mut due = all(store, partition, Target::Due, Vec::new()).await;
    due.retain(|entry| entry.kind != Kind::Node as u8);
    due
}

/// Whether there is any entry of these timers.
pub async fn any(store: &impl Store, partition: PartitionId, timers: &[Timer]) -> bool {
    let of = |timer: &Timer| Range { prefix: vec![Value::Int(*timer as i64)], ..Range::default() };
    let ranges = timers.iter().map(of).collect();
    let scan = Scan { target: Target::Due, ranges, limit: 1, descending: false, parts: None };
    store.scan(Some(partition), scan).await.unwrap().iter().any(|page| !page.entries.is_empty())
}

/// Which timer an entry of the due index is of, and when it is due.
pub fn timer_of(entry: &Entry) -> Due {
    match entry.place.columns[..] {
        [Value::Int(timer), Value::Int(at), _] => {
            Due { timer: Timer::from_u8(timer as u8).expect("a timer"), at: Time::from_ms(at as u64) }
        }
        _ => panic!("{entry:?}"),
    }
}

/// What a partition holds, as it is stored.
pub type Records = BTreeMap<Key, Found>;

/// The records of a kind.
pub async fn records_of(store: &impl Store, partition: PartitionId, kind: Kind) -> Records {
    let entries = all(store, partition, Target::Records(kind), Vec::new()).await.into_iter();
    entries.map(|entry| (entry.key().expect("a good key"), entry.found.expect("its parts"))).collect()
}

/// The records of a partition, beside the registries of nodes and of workers, whose beats come when they will.
pub async fn records(store: &impl Store, partition: PartitionId) -> Records {
    let mut records = Records::new();
    for kind in Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::Node | Kind::Worker)) {
        records.extend(records_of(store, partition, kind).await);
    }
    records
}

/// All events so far, oldest first.
pub async fn events(store: &impl Store, partition: PartitionId) -> Vec<Event> {
    let entries = all(store, partition, Target::Feed, Vec::new()).await;
    let parts = entries.iter().flat_map(|entry| &entry.found).flat_map(|found| &found.parts);
    parts.flat_map(|(_, bytes)| event::decode(bytes).expect("events of this version")).collect()
}

pub async fn dead_letters(store: &impl Store, partition: PartitionId) -> Vec<dead_letter::Body> {
    let letters = records_of(store, partition, Kind::DeadLetter).await.into_iter();
    letters
        .map(|(key, found)| match Record::decode(key, &found.parts, PartMask::ALL) {
            Ok(Record::DeadLetter(letter)) => letter.body,
            other => panic!("{other:?}"),
        })
        .collect()
}
