//! Reads. They go straight to the store: what has been acknowledged is committed, so a read after it sees it.

use crate::engine::Shared;
use crate::history;
use crate::place;
use crate::runtime;
use bytes::Bytes;
use futures_util::future::try_join_all;
use std::collections::{BTreeMap, BTreeSet};
use weft_core::codec::DecodeError;
use weft_core::command::{Fence, Payload, Principal};
use weft_core::derive::{Dimensions, dimensions};
use weft_core::error::Rejection;
use weft_core::execution::check;
use weft_core::filter::Filter;
use weft_core::flow::shown_by;
use weft_core::limits;
use weft_core::record::attempt::Failure;
use weft_core::record::dedup::What;
use weft_core::record::execution::{Outcome, PublicState, Reason, State};
use weft_core::record::{Attempt, Execution, Key, Record, Step};
use weft_core::reply::{ChildOutcome, StepValue};
use weft_core::schema::{
    IndexId, PartMask, Value, attempt as attempt_schema, execution as schema, flow as flow_schema, step as step_schema,
};
use weft_core::text::Text;
use weft_core::{CommitId, ExecutionId, FlowId, PartitionId, Time};
use weft_store::{Entry, Found, Page, Place, Range, Scan, Target};

/// An execution with everything derived from it.
#[derive(Clone, Debug)]
pub struct ExecutionView {
    pub execution: Execution,
    pub public_state: PublicState,
    pub dimensions: Dimensions,
    /// Of the last attempt that failed, if the last one did.
    pub last_failure: Option<Failure>,
    /// Another one after every change.
    pub revision: CommitId,
}

/// Recorded steps of one execution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepPage {
    pub steps: Vec<StepValue>,
    /// There are more after the last of these.
    pub more: bool,
}

/// Children of one execution.
#[derive(Clone, Debug, Default)]
pub struct ChildPage {
    pub children: Vec<Execution>,
    /// Of each of them, in the same order.
    pub revisions: Vec<CommitId>,
    /// The last of these, if there are more.
    pub next_cursor: Option<ExecutionId>,
}

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultView {
    pub outcome: Outcome,
    pub reason: Reason,
    pub by: Text,
    pub at: Time,
    pub attempt: Option<u32>,
    pub bytes: Option<Bytes>,
    pub content_type: Option<Text>,
    pub failure: Option<Failure>,
}

/// Which executions to list or count. Nothing set means all of the namespace.
#[derive(Clone, Debug, Default)]
pub struct ListFilter {
    pub states: Vec<PublicState>,
    pub lane: Option<Text>,
    pub kind: Option<Text>,
    pub tag: Option<(Text, Text)>,
    pub parent: Option<ExecutionId>,
    /// Members of this flow, in the order they were added or backwards.
    pub flow: Option<FlowId>,
    /// Those whose end counts against their flow, or those of which that is not so.
    pub against: Option<bool>,
    pub worker: Option<Text>,
    pub concurrency_key: Option<Bytes>,
    pub created_from: Option<Time>,
    pub created_until: Option<Time>,
    pub updated_since: Option<Time>,
    /// Ended in this time, both ends included; what has not ended is not meant.
    pub finished_from: Option<Time>,
    pub finished_until: Option<Time>,
    /// Oldest first instead of newest first.
    pub ascending: bool,
    pub limit: Option<usize>,
    /// As the page before gave it.
    pub cursor: Option<String>,
}

impl ListFilter {
    /// Which executions are meant, without how they are listed.
    pub fn filter(&self) -> Filter {
        Filter {
            states: self.states.clone(),
            lane: self.lane.clone(),
            kind: self.kind.clone(),
            tag: self.tag.clone(),
            parent: self.parent,
            flow: self.flow,
            against: self.against,
            worker: self.worker.clone(),
            concurrency_key: self.concurrency_key.clone(),
            created_from: self.created_from,
            created_until: self.created_until,
            updated_since: self.updated_since,
            finished_from: self.finished_from,
            finished_until: self.finished_until,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct ListPage {
    pub executions: Vec<Execution>,
    /// Of each of them, in the same order.
    pub revisions: Vec<CommitId>,
    /// Why the last attempt of each failed, if it did; in the same order.
    pub failures: Vec<Option<Failure>>,
    /// Absent exactly at the end. A page may be short, or empty, and still have one: its cost is bounded.
    pub next_cursor: Option<String>,
}

/// Records one page may look at.
const LOOK_PER_PAGE: usize = 4000;
/// Executions that are looked at in one call, however small the page: a filter may let few of them through.
const LOOK_AT_ONCE: usize = 64;
/// Bytes of steps in one page; a single step may have more.
const STEP_PAGE_BYTES: usize = 4 << 20;
/// Results of children in one answer; a single one may have more.
const CHILD_PAGE_BYTES: usize = 4 << 20;
/// Children that are read together; few, because each may have a large result.
const CHILDREN_AT_ONCE: usize = 16;
const RECHECK_MS: u64 = 1_000;

pub async fn get(shared: &Shared, who: &Principal, id: ExecutionId) -> Result<ExecutionView, Rejection> {
    let (execution, revision) = load_revised(shared, who, id, PartMask::ALL).await?;
    view(shared, execution, revision).await
}

async fn view(shared: &Shared, execution: Execution, revision: CommitId) -> Result<ExecutionView, Rejection> {
    let id = execution.id;
    let last = execution.hot.attempts.checked_sub(1).filter(|_| execution.hot.open.is_none());
    let last_failure = match (execution.forced_failure(), last) {
        (None, Some(index)) => {
            load_attempt(shared, id, index, PartMask::NONE).await?.and_then(|attempt| attempt.failure)
        }
        (forced, _) => forced,
    };
    Ok(ExecutionView {
        public_state: execution.public_state(),
        dimensions: dimensions(&execution, shared.now()),
        last_failure,
        execution,
        revision,
    })
}

/// The execution, if it is one of the principal's namespace: any other reads like an unknown one.
pub async fn load(shared: &Shared, who: &Principal, id: ExecutionId, parts: PartMask) -> Result<Execution, Rejection> {
    load_revised(shared, who, id, parts).await.map(|(execution, _)| execution)
}

pub(crate) async fn load_revised(
    shared: &Shared,
    who: &Principal,
    id: ExecutionId,
    parts: PartMask,
) -> Result<(Execution, CommitId), Rejection> {
    place::of_id(shared, id)?;
    let (key, parts) = (Key::Execution(id), parts.with(schema::LIGHT));
    match read_revised(shared, key, parts).await? {
        Some((Record::Execution(execution), revision)) if execution.spec.namespace == who.namespace => {
            let hidden = !unfinished(shared, [&*execution]).await?.is_empty();
            if hidden { Err(Rejection::ExecutionNotFound) } else { Ok((*execution, revision)) }
        }
        _ => Err(Rejection::ExecutionNotFound),
    }
}

/// Those of their flows that are not whole yet: nobody sees the members of these.
pub(crate) async fn unfinished(
    shared: &Shared,
    executions: impl IntoIterator<Item = &Execution>,
) -> Result<BTreeSet<FlowId>, Rejection> {
    let mut flows: BTreeMap<PartitionId, BTreeSet<FlowId>> = BTreeMap::new();
    for flow in executions.into_iter().filter_map(shown_by) {
        flows.entry(flow.partition()).or_default().insert(flow);
    }
    let mut unfinished = BTreeSet::new();
    for (partition, flows) in flows {
        let keys: Vec<_> = flows.iter().map(|flow| (Key::Flow(*flow), flow_schema::LIGHT)).collect();
        let read = shared.store.read(partition, keys).await.map_err(unavailable)?;
        for (flow, found) in flows.into_iter().zip(read.found) {
            // A flow that does not decode hides nobody: whoever repairs it must find its members.
            if let Some(Ok(Record::Flow(found))) = found.map(|it| decode(Key::Flow(flow), &it, flow_schema::LIGHT))
                && found.hot.building.is_some()
            {
                unfinished.insert(flow);
            }
        }
    }
    Ok(unfinished)
}

/// The namespace of an execution, whoever asks: callers decide who may know.
pub async fn namespace_of(shared: &Shared, id: ExecutionId) -> Result<Option<Text>, Rejection> {
    place::of_id(shared, id)?;
    match read_one(shared, Key::Execution(id), schema::LIGHT).await? {
        Some(Record::Execution(execution)) => Ok(Some(execution.spec.namespace.clone())),
        _ => Ok(None),
    }
}

/// Namespaces that hold executions, in order: one short scan each, however many executions they hold.
pub async fn namespaces(shared: &Shared, after: Option<&str>, limit: usize) -> Result<Vec<Text>, Rejection> {
    let beyond = |name: &Text| Place {
        columns: vec![Value::text(name), Value::Int(i64::MAX)],
        key: Bytes::copy_from_slice(uuid::Uuid::max().as_bytes()),
    };
    first_columns(shared, IndexId::ByCreated, beyond, after, limit).await
}

/// Namespaces that have registered worker processes, in order: one short scan each.
pub async fn worker_namespaces(shared: &Shared, after: Option<&str>, limit: usize) -> Result<Vec<Text>, Rejection> {
    let beyond = |name: &Text| Place {
        // Names of processes are ASCII: the last letter there is lies beyond them.
        columns: vec![Value::text(name), Value::text(&"\u{10ffff}".into())],
        key: Bytes::from_static(&[0xff; 32]),
    };
    first_columns(shared, IndexId::Workers, beyond, after, limit).await
}

/// The different texts in the first column of an index; `beyond` is the place behind all entries of one.
async fn first_columns(
    shared: &Shared,
    index: IndexId,
    beyond: impl Fn(&Text) -> Place,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<Text>, Rejection> {
    let mut found: Vec<Text> = Vec::new();
    let mut last: Option<Text> = after.map(Text::from);
    while found.len() < limit {
        let beyond = last.as_ref().map(&beyond);
        let scan = Scan {
            target: Target::Index(index),
            ranges: vec![Range { prefix: Vec::new(), after: beyond, until: None }],
            limit: 1,
            descending: false,
            parts: None,
        };
        let pages = shared.store.scan(None, scan).await.map_err(unavailable)?;
        let first = pages.iter().flat_map(|page| &page.entries).next();
        let Some(Value::Text(name)) = first.and_then(|entry| entry.place.columns.first()) else { break };
        last = Some(name.clone());
        found.push(name.clone());
    }
    Ok(found)
}

async fn load_attempt(
    shared: &Shared,
    id: ExecutionId,
    index: u32,
    parts: PartMask,
) -> Result<Option<Attempt>, Rejection> {
    let parts = parts.with(attempt_schema::LIGHT);
    match read_one(shared, Key::Attempt(id, index), parts).await? {
        Some(Record::Attempt(attempt)) => Ok(Some(*attempt)),
        _ => Ok(None),
    }
}

pub(crate) async fn read_one(shared: &Shared, key: Key, parts: PartMask) -> Result<Option<Record>, Rejection> {
    Ok(read_revised(shared, key, parts).await?.map(|(record, _)| record))
}

/// The record, and its revision.
pub(crate) async fn read_revised(
    shared: &Shared,
    key: Key,
    parts: PartMask,
) -> Result<Option<(Record, CommitId)>, Rejection> {
    let read = shared.store.read(key.partition(), vec![(key, parts)]).await.map_err(unavailable)?;
    let Some(found) = read.found.into_iter().next().flatten() else { return Ok(None) };
    Ok(Some((decode(key, &found, parts)?, found.revision)))
}

pub(crate) fn decode(key: Key, found: &Found, parts: PartMask) -> Result<Record, Rejection> {
    Record::decode(key, &found.parts, parts).map_err(|error| undecodable(key, &error))
}

pub(crate) fn undecodable(key: Key, error: &DecodeError) -> Rejection {
    match error.is_newer {
        true => Rejection::NewerFormat { what: format!("{key:?}: {error}").into() },
        false => Rejection::internal(format!("{key:?}: {error}")),
    }
}

pub fn unavailable(error: weft_store::Error) -> Rejection {
    tracing::warn!(%error, "could not read the store");
    Rejection::Unavailable { retry_after_ms: 500, outcome_unknown: false }
}

pub async fn result(shared: &Shared, who: &Principal, id: ExecutionId, wait_ms: u64) -> Result<ResultView, Rejection> {
    weft_core::text::check_range("wait_ms", wait_ms, 0, limits::CLAIM_WAIT_MAX_MS)?;
    let deadline = shared.runtime.clock() + wait_ms;
    loop {
        // Listened for before the read, so that an end between the two is not missed.
        let mut ended = shared.hub.end_of(id);
        let execution = load(shared, who, id, PartMask::of(schema::RESULT)).await;
        let left = deadline.since(shared.runtime.clock());
        let open = matches!(&execution, Ok(execution) if !execution.is_done());
        if !open || left == 0 {
            drop(ended);
            return ended_as(shared, execution?).await;
        }
        // Another node may end it: then the next look finds out.
        let _ = runtime::timeout(&*shared.runtime, left.min(RECHECK_MS), ended.told()).await;
    }
}

async fn ended_as(shared: &Shared, execution: Execution) -> Result<ResultView, Rejection> {
    let State::Done { outcome, reason, by, at, attempt, .. } = &execution.hot.state else {
        let (public_state, previous) = (execution.public_state(), execution.hot.previous);
        return Err(Rejection::ExecutionNotTerminal { public_state, previous });
    };
    let mut view = ResultView {
        outcome: *outcome,
        reason: *reason,
        by: by.clone(),
        at: *at,
        attempt: *attempt,
        bytes: None,
        content_type: None,
        failure: None,
    };
    match attempt {
        Some(index) => {
            let parts = PartMask::of(attempt_schema::RESULT);
            if let Some(attempt) = load_attempt(shared, execution.id, *index, parts).await? {
                view.bytes = attempt.result().cloned();
                view.content_type = attempt.content_type;
                view.failure = attempt.failure;
            }
        }
        None => {
            if let Some(forced) = execution.forced_result() {
                view.bytes = forced.bytes.clone();
                view.content_type = forced.content_type.clone();
            }
        }
    }
    Ok(view)
}

/// Answers when the execution has ended, is in the state `until`, or the time is up.
pub async fn wait(
    shared: &Shared,
    who: &Principal,
    id: ExecutionId,
    until: Option<PublicState>,
    wait_ms: u64,
) -> Result<ExecutionView, Rejection> {
    weft_core::text::check_range("wait_ms", wait_ms, 0, limits::CLAIM_WAIT_MAX_MS)?;
    let deadline = shared.runtime.clock() + wait_ms;
    loop {
        // Listened for before the read, so that a change between the two is not missed.
        let mut changed = shared.hub.change_of(id);
        let loaded = load_revised(shared, who, id, PartMask::ALL).await;
        let left = deadline.since(shared.runtime.clock());
        let waits = |execution: &Execution| !execution.is_done() && until != Some(execution.public_state());
        let waits = matches!(&loaded, Ok((execution, _)) if waits(execution));
        if !waits || left == 0 {
            drop(changed);
            let (execution, revision) = loaded?;
            return view(shared, execution, revision).await;
        }
        // Another node may change it: then the next look finds out.
        let _ = runtime::timeout(&*shared.runtime, left.min(RECHECK_MS), changed.told()).await;
    }
}

/// The steps of the current run in their order. With a fence only for its holder.
pub async fn steps(
    shared: &Shared,
    who: &Principal,
    id: ExecutionId,
    fence: Option<Fence>,
    after: Option<u32>,
    limit: usize,
) -> Result<StepPage, Rejection> {
    weft_core::text::check_range("limit", limit as u64, 1, limits::LIST_LIMIT_MAX as u64)?;
    let execution = load(shared, who, id, PartMask::NONE).await?;
    if let Some(fence) = fence {
        check::holder(&execution, fence, shared.now())?;
    }
    let steps = execution.hot.steps;
    let from = after.map_or(steps.from, |after| after.saturating_add(1).max(steps.from));
    let end = steps.next.min(from.saturating_add(limit as u32)).max(from);
    let sizes = read_steps(shared, id, from..end, step_schema::LIGHT).await?;
    // Sizes first: a page that is long enough has no more, however small its steps were thought to be.
    let mut bytes = 0;
    let fitting = sizes.iter().take_while(|step| {
        let first = bytes == 0;
        bytes += step.body.bytes as usize;
        first || bytes <= STEP_PAGE_BYTES
    });
    let end = from + fitting.count() as u32;
    let found = read_steps(shared, id, from..end, PartMask::ALL).await?;
    Ok(StepPage { steps: found.iter().map(StepValue::of).collect(), more: end < steps.next })
}

/// A purge may take them away in between: what is not there any more is left out.
async fn read_steps(
    shared: &Shared,
    id: ExecutionId,
    numbers: std::ops::Range<u32>,
    parts: PartMask,
) -> Result<Vec<Step>, Rejection> {
    let keys: Vec<(Key, PartMask)> = numbers.map(|number| (Key::Step(id, number), parts)).collect();
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let read = shared.store.read(id.partition(), keys.clone()).await.map_err(unavailable)?;
    let mut steps = Vec::with_capacity(keys.len());
    for ((key, parts), found) in keys.into_iter().zip(read.found) {
        if let Some(found) = found
            && let Record::Step(step) = decode(key, &found, parts)?
        {
            steps.push(*step);
        }
    }
    Ok(steps)
}

/// What is recorded under a name, and its revision.
pub async fn step(
    shared: &Shared,
    who: &Principal,
    id: ExecutionId,
    name: &str,
) -> Result<(StepValue, CommitId), Rejection> {
    let execution = load(shared, who, id, PartMask::NONE).await?;
    let key = Step::name_key(id, execution.hot.steps.from, name);
    let number = match read_one(shared, key, PartMask::ALL).await? {
        Some(Record::Dedup(dedup)) => match dedup.body.what {
            What::Step { number } => number,
            What::Request { .. } | What::Key { .. } | What::Flow { .. } => return Err(Rejection::StepNotFound),
        },
        _ => return Err(Rejection::StepNotFound),
    };
    match read_revised(shared, Key::Step(id, number), PartMask::ALL).await? {
        Some((Record::Step(step), revision)) => Ok((StepValue::of(&step), revision)),
        _ => Err(Rejection::StepNotFound),
    }
}

/// The children of an execution after `cursor`, which live where it does.
pub async fn children(
    shared: &Shared,
    who: &Principal,
    id: ExecutionId,
    cursor: Option<ExecutionId>,
    limit: usize,
) -> Result<ChildPage, Rejection> {
    weft_core::text::check_range("limit", limit as u64, 1, limits::LIST_LIMIT_MAX as u64)?;
    load(shared, who, id, PartMask::NONE).await?;
    let prefix = vec![Value::bytes(id.uuid().as_bytes())];
    let after = cursor.map(|child| Place {
        columns: prefix.clone(),
        key: Bytes::copy_from_slice(Key::Execution(child).to_bytes().as_slice()),
    });
    let scan = Scan {
        target: Target::Index(IndexId::Children),
        ranges: vec![Range { prefix, after, until: None }],
        limit,
        descending: false,
        parts: Some(schema::LIGHT),
    };
    let pages = shared.store.scan(Some(id.partition()), scan).await.map_err(unavailable)?;
    let mut page = ChildPage::default();
    for found in pages {
        for entry in &found.entries {
            let (Some(record), Some(key)) = (&entry.found, entry.key()) else { continue };
            let Record::Execution(child) = decode(key, record, schema::LIGHT)? else { continue };
            page.next_cursor = Some(child.id);
            page.revisions.push(record.revision);
            page.children.push(*child);
        }
        if !found.more {
            page.next_cursor = None;
        }
    }
    Ok(page)
}

/// How children of a held execution have ended, for its holder. One that is gone has no outcome, as in a claim.
pub async fn held_children(
    shared: &Shared,
    who: &Principal,
    id: ExecutionId,
    fence: Fence,
    ids: &[ExecutionId],
) -> Result<Vec<ChildOutcome>, Rejection> {
    weft_core::text::check_range("children", ids.len() as u64, 1, limits::FANOUT_PER_COMMIT as u64)?;
    let parent = load(shared, who, id, PartMask::NONE).await?;
    check::holder(&parent, fence, shared.now())?;
    // Children live with their parent; an id of another partition names none and is not even looked for.
    if let Some(other) = ids.iter().find(|child| child.partition() != id.partition()) {
        return Err(Rejection::NotAChild { id: *other });
    }
    let mut children = Vec::new();
    let mut bytes = 0;
    for some in ids.chunks(CHILDREN_AT_ONCE) {
        for child in try_join_all(some.iter().map(|id| held_child(shared, &parent, *id))).await? {
            bytes += child.result.as_ref().map_or(0, |result| result.bytes.len());
            if bytes > CHILD_PAGE_BYTES && !children.is_empty() {
                return Ok(children);
            }
            children.push(child);
        }
    }
    Ok(children)
}

async fn held_child(shared: &Shared, parent: &Execution, id: ExecutionId) -> Result<ChildOutcome, Rejection> {
    let parts = PartMask::of(schema::RESULT).with(schema::LIGHT);
    let child = match read_one(shared, Key::Execution(id), parts).await? {
        Some(Record::Execution(child)) if child.spec.parent == Some(parent.id) => *child,
        Some(_) => return Err(Rejection::NotAChild { id }),
        None => return Ok(ChildOutcome { id, outcome: None, result: None }),
    };
    if !child.is_done() {
        return Ok(ChildOutcome { id, outcome: None, result: None });
    }
    let ended = ended_as(shared, child).await?;
    let is_success = ended.outcome == Outcome::Success;
    let result = ended.bytes.filter(|_| is_success);
    let result = result.map(|bytes| Payload { bytes, content_type: ended.content_type });
    Ok(ChildOutcome { id, outcome: Some(ended.outcome), result })
}

/// One page, merged over states and partitions by (created, id).
pub async fn list(shared: &Shared, who: &Principal, filter: ListFilter) -> Result<ListPage, Rejection> {
    let mut page = listed(shared, who, filter).await?;
    page.failures = history::last_failures(shared, &page.executions).await?;
    Ok(page)
}

async fn listed(shared: &Shared, who: &Principal, filter: ListFilter) -> Result<ListPage, Rejection> {
    let limit = filter.limit.unwrap_or(limits::LIST_LIMIT_DEFAULT);
    weft_core::text::check_range("limit", limit as u64, 1, limits::LIST_LIMIT_MAX as u64)?;
    let mut cursor = filter.cursor.as_deref().map(parse_cursor).transpose()?;
    let wanted = filter.filter();
    let walk = Walk {
        namespace: &who.namespace,
        filter: &wanted,
        ascending: filter.ascending,
        partition: None,
        parts: Some(schema::LIGHT),
    };
    let mut page = ListPage::default();
    let mut looked = 0;
    // The last one of a full page. Whether there is a next page is known when one more is found, or the end.
    let mut last = None;
    loop {
        let (entries, more) = walk.page(shared, cursor.as_ref(), limit.max(LOOK_AT_ONCE) + 1).await?;
        looked += entries.len();
        for (place, revision, execution) in walk.seen(shared, &entries).await? {
            if last.is_some() {
                page.next_cursor = last;
                return Ok(page);
            }
            page.revisions.push(revision);
            page.executions.push(execution);
            if page.executions.len() == limit {
                last = place.as_ref().map(write_cursor);
            }
        }
        cursor = entries.iter().rev().find_map(place_of).or(cursor);
        if !more {
            return Ok(page);
        }
        if looked >= LOOK_PER_PAGE {
            page.next_cursor = last.or_else(|| cursor.as_ref().map(write_cursor));
            return Ok(page);
        }
    }
}

/// A place in the whole list: time of creation, or the number of a member, then id.
pub(crate) type Cursor = (i64, uuid::Uuid, PartitionId);

pub(crate) fn place_of(entry: &Entry) -> Option<Cursor> {
    match entry.place.columns.as_slice() {
        [.., Value::Int(created)] => Some((*created, uuid::Uuid::from_slice(&entry.place.key).ok()?, entry.partition)),
        _ => None,
    }
}

fn write_cursor((created, uuid, partition): &Cursor) -> String {
    format!("{created}.{}.{}", uuid.as_simple(), partition.0)
}

fn parse_cursor(text: &str) -> Result<Cursor, Rejection> {
    let mut parts = text.split('.');
    let mut next = || parts.next().ok_or(Rejection::InvalidCursor);
    let created = next()?.parse().map_err(|_| Rejection::InvalidCursor)?;
    let uuid = uuid::Uuid::try_parse(next()?).map_err(|_| Rejection::InvalidCursor)?;
    let partition = next()?.parse().map_err(|_| Rejection::InvalidCursor)?;
    Ok((created, uuid, PartitionId(partition)))
}

/// A walk over the executions of a namespace by (created, id), in one partition or in all; over those of one flow in the
/// order they were added.
pub(crate) struct Walk<'a> {
    pub namespace: &'a Text,
    /// Names the states and times to walk through; whether what is met matches is for the caller to judge.
    pub filter: &'a Filter,
    pub ascending: bool,
    pub partition: Option<PartitionId>,
    /// Parts of each execution to load; none at all if the entries of the index are enough.
    pub parts: Option<PartMask>,
}

impl Walk<'_> {
    /// Whether one that was met is meant. The members of a flow are found without a look at its namespace.
    fn means(&self, execution: &Execution) -> bool {
        execution.spec.namespace == *self.namespace && self.filter.matches(execution)
    }

    /// Those of the entries that are meant and can be seen, with their places and revisions.
    pub async fn seen(
        &self,
        shared: &Shared,
        entries: &[Entry],
    ) -> Result<Vec<(Option<Cursor>, CommitId, Execution)>, Rejection> {
        let mut seen = Vec::with_capacity(entries.len());
        for entry in entries {
            let (Some(found), Some(key)) = (&entry.found, entry.key()) else { continue };
            let Record::Execution(execution) = decode(key, found, schema::LIGHT)? else { continue };
            if self.means(&execution) {
                seen.push((place_of(entry), found.revision, *execution));
            }
        }
        let hidden = unfinished(shared, seen.iter().map(|(.., execution)| execution)).await?;
        seen.retain(|(.., execution)| shown_by(execution).is_none_or(|flow| !hidden.contains(&flow)));
        Ok(seen)
    }

    /// The next entries after the cursor, over all wanted states, and whether there are more.
    pub async fn page(
        &self,
        shared: &Shared,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<(Vec<Entry>, bool), Rejection> {
        let filter = self.filter;
        if let Some(flow) = filter.flow {
            return self.members(shared, flow, cursor, limit).await;
        }
        // Usual states have no index of their own: the list by time is walked, and what does not match is passed.
        let by_time = filter.states.is_empty() || filter.states.iter().any(|state| state.is_usual());
        let namespace = Value::text(self.namespace);
        let prefixes: Vec<Vec<Value>> = match by_time {
            true => vec![vec![namespace]],
            false => {
                // A state that is named twice is one range: two would show each of its executions twice.
                let states: BTreeSet<PublicState> = filter.states.iter().copied().collect();
                states.iter().map(|state| vec![namespace.clone(), Value::Text(state.text())]).collect()
            }
        };
        let ranges = prefixes.into_iter().map(|prefix| {
            let bound = |created: i64, uuid: uuid::Uuid| {
                let mut columns = prefix.clone();
                columns.push(Value::Int(created));
                Place { columns, key: Bytes::copy_from_slice(uuid.as_bytes()) }
            };
            let after = match (cursor, self.ascending) {
                (Some((created, uuid, _)), _) => Some(bound(*created, *uuid)),
                (None, true) => filter.created_from.map(|from| bound(from.as_i64() - 1, uuid::Uuid::max())),
                (None, false) => {
                    filter.created_until.map(|until| bound(until.as_i64().saturating_add(1), uuid::Uuid::nil()))
                }
            };
            let until = filter.created_until.filter(|_| self.ascending).map(|until| Value::Int(until.as_i64()));
            Range { prefix, after, until }
        });
        let scan = Scan {
            target: Target::Index(if by_time { IndexId::ByCreated } else { IndexId::ByState }),
            ranges: ranges.collect(),
            limit,
            descending: !self.ascending,
            parts: self.parts,
        };
        let pages = shared.store.scan(self.partition, scan).await.map_err(unavailable)?;
        let mut more = pages.iter().any(|page| page.more);
        // Beyond the end of a page that has more, its next entries may come first: only what lies before is in order.
        let ends = pages.iter().filter(|page| page.more).map(end_of).collect::<Result<Vec<_>, _>>()?;
        let bound = if self.ascending { ends.into_iter().min() } else { ends.into_iter().max() };
        let mut entries: Vec<Entry> = pages.into_iter().flat_map(|page| page.entries).collect();
        entries.retain(|entry| match (bound, place_of(entry)) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(bound), Some(place)) => {
                if self.ascending {
                    place <= bound
                } else {
                    place >= bound
                }
            }
        });
        entries.sort_by_key(place_of);
        if !self.ascending {
            entries.reverse();
        }
        if !self.ascending
            && let Some(from) = filter.created_from
        {
            let inside =
                entries.iter().take_while(|entry| place_of(entry).is_some_and(|place| place.0 >= from.as_i64()));
            let inside = inside.count();
            more &= inside == entries.len();
            entries.truncate(inside);
        }
        more |= entries.len() > limit;
        entries.truncate(limit);
        Ok((entries, more))
    }

    /// Costs no more than the flow is large, however many executions there are beside it.
    async fn members(
        &self,
        shared: &Shared,
        flow: FlowId,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<(Vec<Entry>, bool), Rejection> {
        let elsewhere = self.partition.is_some_and(|partition| partition != flow.partition());
        if elsewhere || place::of_flow(shared, flow).is_err() {
            return Ok((Vec::new(), false));
        }
        let prefix = vec![Value::bytes(flow.uuid().as_bytes())];
        let after = cursor.map(|(number, uuid, _)| Place {
            columns: vec![prefix[0].clone(), Value::Int(*number)],
            key: Bytes::copy_from_slice(uuid.as_bytes()),
        });
        let scan = Scan {
            target: Target::Index(IndexId::Members),
            ranges: vec![Range { prefix, after, until: None }],
            limit,
            descending: !self.ascending,
            parts: self.parts,
        };
        let page = shared.store.scan(Some(flow.partition()), scan).await.map_err(unavailable)?;
        let page = page.into_iter().next().unwrap_or_default();
        if page.more {
            end_of(&page)?;
        }
        Ok((page.entries, page.more))
    }
}

/// The place of the last entry that has one, which a walk goes on from. Refuses a page without any: it would be read for ever.
fn end_of(page: &Page) -> Result<Cursor, Rejection> {
    let end = page.entries.iter().rev().find_map(place_of);
    end.ok_or_else(|| Rejection::internal("no entry of a page of an index has the place of an execution"))
}
