//! Reads of flows. They go straight to the store, through the indexes of flows and members; none carries all members.

use super::edges::{names, read_edges};
use super::wait_name;
use crate::engine::Shared;
use crate::place;
use crate::reads::{decode, load, read_one, read_revised, unavailable};
use crate::runtime;
use bytes::Bytes;
use weft_core::command::{Fence, Payload, Principal};
use weft_core::error::Rejection;
use weft_core::execution::check;
use weft_core::flow::member_id;
use weft_core::limits;
use weft_core::record::edge::Resolution;
use weft_core::record::execution::{Outcome, PublicState};
use weft_core::record::flow::{Flow, PublicFlowState};
use weft_core::record::member::{Group, Inlet};
use weft_core::record::{Edge, Key, Record};
use weft_core::schema::{
    IndexId, PartMask, Value, attempt as attempt_schema, execution as schema, flow as flow_schema,
};
use weft_core::text::{Text, check_range};
use weft_core::{CommitId, ExecutionId, FlowId, PartitionId, Time};
use weft_store::{Entry, Place, Range, Scan, Target};

/// A flow as it stands.
#[derive(Clone, Debug)]
pub struct FlowView {
    pub flow: Flow,
    /// Another one after every change.
    pub revision: CommitId,
    /// Until when a wait was for has come about.
    pub reached: bool,
}

/// Which flows to list. Nothing set means all of the namespace.
#[derive(Clone, Debug, Default)]
pub struct FlowFilter {
    pub states: Vec<PublicFlowState>,
    pub kind: Option<Text>,
    pub tag: Option<(Text, Text)>,
    pub created_from: Option<Time>,
    pub created_until: Option<Time>,
    pub finished_from: Option<Time>,
    pub finished_until: Option<Time>,
    /// Oldest first instead of newest first.
    pub ascending: bool,
    pub limit: Option<usize>,
    /// As the page before gave it.
    pub cursor: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct FlowPage {
    pub flows: Vec<(Flow, CommitId)>,
    /// Those whose records do not decode.
    pub damaged: Vec<FlowId>,
    /// Absent exactly at the end.
    pub next_cursor: Option<String>,
}

/// A group, and the first of its edges that are not met.
#[derive(Clone, Debug)]
pub struct GroupView {
    pub member: ExecutionId,
    pub key: Text,
    pub group: Group,
    pub sealed: bool,
    /// The state of one that cannot be read is not known.
    pub pending: Vec<(Text, ExecutionId, Option<PublicState>)>,
    pub unmet: Vec<(Text, ExecutionId, Outcome)>,
}

/// Values under one name.
#[derive(Clone, Debug, Default)]
pub struct InputPage {
    pub values: Vec<(ExecutionId, Outcome, Option<Payload>)>,
    /// The place of the last, if there are more.
    pub next: Option<u32>,
}

const RECHECK_MS: u64 = 1_000;
pub(super) const LOOK_PER_PAGE: usize = 4_000;
const TOLD: usize = 20;
const INPUT_PAGE_BYTES: usize = 4 << 20;

pub async fn get(shared: &Shared, who: &Principal, id: FlowId) -> Result<FlowView, Rejection> {
    place::of_flow(shared, id)?;
    match read_revised(shared, Key::Flow(id), flow_schema::LIGHT).await? {
        Some((Record::Flow(flow), revision)) if flow.is_visible() && flow.definition.namespace == who.namespace => {
            let reached = flow.is_done();
            Ok(FlowView { flow: *flow, revision, reached })
        }
        _ => Err(Rejection::FlowNotFound),
    }
}

pub async fn namespace_of(shared: &Shared, id: FlowId) -> Result<Option<Text>, Rejection> {
    place::of_flow(shared, id)?;
    match read_one(shared, Key::Flow(id), flow_schema::LIGHT).await? {
        Some(Record::Flow(flow)) if flow.is_visible() => Ok(Some(flow.definition.namespace.clone())),
        _ => Ok(None),
    }
}

pub async fn wait(
    shared: &Shared,
    who: &Principal,
    id: FlowId,
    until: Option<PublicFlowState>,
    wait_ms: u64,
) -> Result<FlowView, Rejection> {
    check_range("wait_ms", wait_ms, 0, limits::CLAIM_WAIT_MAX_MS)?;
    let deadline = shared.runtime.clock() + wait_ms;
    loop {
        // Listened for before the read, so that a change between the two is not missed.
        let mut changed = shared.hub.change_of(wait_name(id));
        let view = get(shared, who, id).await?;
        let reached = match until {
            Some(until) => view.flow.public_state() == until,
            None => view.flow.is_done(),
        };
        let left = deadline.since(shared.runtime.clock());
        if reached || view.flow.is_done() || left == 0 {
            drop(changed);
            return Ok(FlowView { reached, ..view });
        }
        // Another node may change it: then the next look finds out.
        let _ = runtime::timeout(&*shared.runtime, left.min(RECHECK_MS), changed.told()).await;
    }
}

type ListPlace = (i64, uuid::Uuid, PartitionId);

pub async fn list(shared: &Shared, who: &Principal, filter: FlowFilter) -> Result<FlowPage, Rejection> {
    let limit = filter.limit.unwrap_or(limits::LIST_LIMIT_DEFAULT);
    check_range("limit", limit as u64, 1, limits::LIST_LIMIT_MAX as u64)?;
    let mut at = filter.cursor.as_deref().map(parse_cursor).transpose()?;
    let mut page = FlowPage::default();
    let mut looked = 0;
    loop {
        let (entries, more) = list_entries(shared, who, &filter, at.as_ref(), limit.max(64)).await?;
        looked += entries.len();
        let count = entries.len();
        for (nth, entry) in entries.into_iter().enumerate() {
            let Some(place) = list_place(&entry) else { continue };
            at = Some(place);
            let id = FlowId::new(entry.partition, place.1);
            let Some(found) = &entry.found else { continue };
            match decode(Key::Flow(id), found, flow_schema::LIGHT) {
                Ok(Record::Flow(flow)) if flow.is_visible() && matches(&filter, &flow) => {
                    page.flows.push((*flow, found.revision));
                }
                Ok(_) => {}
                Err(_) => page.damaged.push(id),
            }
            if page.flows.len() + page.damaged.len() == limit {
                if more || nth + 1 < count {
                    page.next_cursor = at.map(|place| write_cursor(&place));
                }
                return Ok(page);
            }
        }
        if !more {
            return Ok(page);
        }
        if looked >= LOOK_PER_PAGE {
            page.next_cursor = at.map(|place| write_cursor(&place));
            return Ok(page);
        }
    }
}

async fn list_entries(
    shared: &Shared,
    who: &Principal,
    filter: &FlowFilter,
    at: Option<&ListPlace>,
    limit: usize,
) -> Result<(Vec<Entry>, bool), Rejection> {
    let namespace = Value::text(&who.namespace);
    let bound = |created_at: i64, key: [u8; 16]| Place {
        columns: vec![namespace.clone(), Value::Int(created_at)],
        key: Bytes::copy_from_slice(&key),
    };
    let after = match (at, filter.ascending) {
        (Some((created_at, uuid, _)), _) => Some(bound(*created_at, *uuid.as_bytes())),
        (None, true) => filter.created_from.map(|from| bound(from.as_i64() - 1, [0xff; 16])),
        (None, false) => filter.created_until.map(|until| bound(until.as_i64() + 1, [0; 16])),
    };
    let until = match filter.ascending {
        true => filter.created_until.map(|until| Value::Int(until.as_i64())),
        false => None,
    };
    let scan = Scan {
        target: Target::Index(IndexId::Flows),
        ranges: vec![Range { prefix: vec![namespace], after, until }],
        limit,
        descending: !filter.ascending,
        parts: Some(flow_schema::LIGHT),
    };
    let page = shared.store.scan(None, scan).await.map_err(unavailable)?.pop().unwrap_or_default();
    // A descending walk ends at the first flow that is too old.
    let from = filter.created_from.map_or(i64::MIN, |from| from.as_i64());
    let too_old = |entry: &Entry| list_place(entry).is_some_and(|(created_at, ..)| created_at < from);
    let ended = !filter.ascending && page.entries.iter().any(too_old);
    let entries = page.entries.into_iter().filter(|entry| filter.ascending || !too_old(entry)).collect();
    Ok((entries, page.more && !ended))
}

fn list_place(entry: &Entry) -> Option<ListPlace> {
    let Some(Value::Int(created_at)) = entry.place.columns.get(1) else { return None };
    Some((*created_at, uuid::Uuid::from_slice(&entry.place.key).ok()?, entry.partition))
}

fn write_cursor((created_at, uuid, partition): &ListPlace) -> String {
    format!("{created_at}.{}.{}", partition.0, uuid.as_simple())
}

fn parse_cursor(text: &str) -> Result<ListPlace, Rejection> {
    let mut words = text.splitn(3, '.');
    let mut parse = || {
        let created_at = words.next()?.parse().ok()?;
        let partition = PartitionId(words.next()?.parse().ok()?);
        Some((created_at, uuid::Uuid::try_parse(words.next()?).ok()?, partition))
    };
    parse().ok_or(Rejection::InvalidCursor)
}

fn matches(filter: &FlowFilter, flow: &Flow) -> bool {
    let finished = match &flow.hot.state {
        weft_core::record::flow::State::Done { at, .. } => Some(*at),
        _ => None,
    };
    let ended = filter.finished_from.is_none() && filter.finished_until.is_none()
        || finished.is_some_and(|at| {
            filter.finished_from.is_none_or(|from| at >= from) && filter.finished_until.is_none_or(|until| at <= until)
        });
    (filter.states.is_empty() || filter.states.contains(&flow.public_state()))
        && filter.kind.as_ref().is_none_or(|kind| *kind == flow.definition.kind)
        && filter.tag.as_ref().is_none_or(|(key, value)| flow.tags().get(key) == Some(value))
        && filter.created_until.is_none_or(|until| flow.definition.created_at <= until)
        && ended
}

pub(super) fn unknown_node(key: &Text) -> Rejection {
    use weft_core::flow::problem::{Problem, Wrong};
    Rejection::BadGraph { problems: vec![Problem::new("key", Wrong::UnknownNode { key: key.clone() })] }
}

pub async fn group(
    shared: &Shared,
    who: &Principal,
    flow: FlowId,
    key: &str,
    name: &str,
) -> Result<GroupView, Rejection> {
    get(shared, who, flow).await?;
    let id = member_id(flow, key);
    let execution = match load(shared, who, id, PartMask::of(schema::INLETS)).await {
        Err(Rejection::ExecutionNotFound) => return Err(unknown_node(&key.into())),
        found => found?,
    };
    // The key of a child is an id, and ids of other flows look the same.
    let Some(member) = execution.member().filter(|member| member.flow == flow) else {
        return Err(unknown_node(&key.into()));
    };
    let Some((at, group)) = member.group(name) else { return Err(Rejection::GroupNotFound) };
    let inlets: Vec<Inlet> =
        execution.inlets().iter().filter(|inlet| usize::from(inlet.group) == at).cloned().collect();
    let (pending, unmet) = standing(shared, id.partition(), &inlets).await?;
    let sealed = !matches!(
        &execution.hot.state,
        weft_core::record::execution::State::Blocked { holds, .. }
            if holds.iter().any(|hold| matches!(hold, weft_core::record::execution::Hold::Dependencies { sealed: false, .. }))
    );
    Ok(GroupView { member: id, key: member.key.clone(), group: group.clone(), sealed, pending, unmet })
}

type Standing = (Vec<(Text, ExecutionId, Option<PublicState>)>, Vec<(Text, ExecutionId, Outcome)>);

/// The first edges that are pending, and those that are unmet, by their upstreams.
pub(crate) async fn standing(shared: &Shared, partition: PartitionId, inlets: &[Inlet]) -> Result<Standing, Rejection> {
    let (mut pending, mut unmet) = (Vec::new(), Vec::new());
    for page in inlets.chunks(limits::LIST_LIMIT_MAX) {
        let keys = page.iter().map(|inlet| (ExecutionId::new(partition, inlet.upstream), inlet.number)).collect();
        for edge in read_edges(shared, partition, keys).await? {
            let told = match &edge.body.resolved {
                None => pending.len() < TOLD,
                Some(Resolution { met: true, .. }) => false,
                Some(_) => unmet.len() < TOLD,
            };
            if !told {
                continue;
            }
            let (name, state) = upstream_of(shared, &edge).await?;
            match &edge.body.resolved {
                None => pending.push((name, edge.upstream, state)),
                Some(end) => unmet.push((name, edge.upstream, end.outcome)),
            }
        }
        if pending.len() == TOLD && unmet.len() == TOLD {
            break;
        }
    }
    Ok((pending, unmet))
}

/// The key and state of an edge's upstream. One that cannot be read is named by its id, and hides no other.
async fn upstream_of(shared: &Shared, edge: &Edge) -> Result<(Text, Option<PublicState>), Rejection> {
    let key = Key::Execution(edge.upstream);
    let read = shared.store.read(edge.upstream.partition(), vec![(key, schema::LIGHT)]).await.map_err(unavailable)?;
    let found = read.found.into_iter().next().flatten();
    let name = || edge.upstream.to_string().into();
    Ok(match found.and_then(|found| decode(key, &found, schema::LIGHT).ok()) {
        Some(Record::Execution(execution)) => {
            (execution.member().map_or_else(name, |member| member.key.clone()), Some(execution.public_state()))
        }
        _ => {
            let named = names(shared, edge.upstream.partition(), &[edge.upstream]).await?;
            (named.into_values().find_map(|(key, _)| key).unwrap_or_else(name), None)
        }
    })
}

/// The values that were handed over under one name at the first claim, for the holder.
pub async fn input(
    shared: &Shared,
    who: &Principal,
    id: ExecutionId,
    fence: Fence,
    name: &str,
    after: Option<u32>,
) -> Result<InputPage, Rejection> {
    let execution = load(shared, who, id, PartMask::of(schema::INLETS)).await?;
    check::holder(&execution, fence, shared.now())?;
    let pinned = execution.member().and_then(|member| member.pinned).unwrap_or(0);
    let from = after.map_or(0, |after| after as usize + 1);
    let inlets = execution.inlets().iter().enumerate().skip(from);
    let named = inlets.filter(|(_, inlet)| inlet.input.as_deref() == Some(name));
    let (mut page, mut bytes) = (InputPage::default(), 0);
    for (at, inlet) in named {
        let upstream = ExecutionId::new(id.partition(), inlet.upstream);
        let edges = read_edges(shared, id.partition(), vec![(upstream, inlet.number)]).await?;
        let Some(end) = edges.first().and_then(|edge| edge.body.resolved).filter(|end| end.order < pinned) else {
            continue;
        };
        if bytes >= INPUT_PAGE_BYTES {
            page.next = Some(at as u32 - 1);
            return Ok(page);
        }
        let value = match end.outcome {
            Outcome::Success => payload(shared, upstream, end).await?,
            _ => None,
        };
        bytes += value.as_ref().map_or(0, |value| value.bytes.len());
        page.values.push((upstream, end.outcome, value));
    }
    Ok(page)
}

/// The result of the end that an edge was resolved with; the upstream may have been replayed since.
async fn payload(shared: &Shared, id: ExecutionId, end: Resolution) -> Result<Option<Payload>, Rejection> {
    let given = |bytes: Option<&Bytes>, content_type: &Option<Text>| {
        bytes.map(|bytes| Payload { bytes: bytes.clone(), content_type: content_type.clone() })
    };
    let (key, parts) = match end.attempt {
        Some(index) => (Key::Attempt(id, index), attempt_schema::LIGHT.with(PartMask::of(attempt_schema::RESULT))),
        None => (Key::Execution(id), schema::LIGHT.with(PartMask::of(schema::RESULT))),
    };
    Ok(match read_one(shared, key, parts).await? {
        Some(Record::Attempt(attempt)) => given(attempt.result(), &attempt.content_type),
        Some(Record::Execution(execution)) => execution
            .forced_result_of(end.replays)
            .and_then(|forced| given(forced.bytes.as_ref(), &forced.content_type)),
        _ => None,
    })
}
