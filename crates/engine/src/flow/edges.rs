//! Edges of a flow, page by page: upstream by upstream, those of purged members too, or those that lead to one member.

use super::members::{member_entries, member_of, number_of, numbered_entries};
use super::reads::{LOOK_PER_PAGE, get, unknown_node};
use crate::engine::Shared;
use crate::reads::{decode, load, read_one, unavailable};
use std::collections::BTreeMap;
use weft_core::command::Principal;
use weft_core::error::Rejection;
use weft_core::flow::member_id;
use weft_core::limits;
use weft_core::record::member::Inlet;
use weft_core::record::{Edge, Execution, Key, Record, Tombstone};
use weft_core::schema::{IndexId, PartMask, execution as schema};
use weft_core::text::{Text, check_range};
use weft_core::{ExecutionId, FlowId, PartitionId};
use weft_store::Entry;

#[derive(Clone, Debug, Default)]
pub struct EdgeFilter {
    /// The key of the member they leave.
    pub upstream: Option<Text>,
    /// The key of the member they lead to. Its edges come in the order they were added, those of others upstream by
    /// upstream.
    pub downstream: Option<Text>,
    pub group: Option<Text>,
    /// `pending`, `met` or `unmet`.
    pub state: Option<Text>,
    pub after: Option<EdgePlace>,
    pub limit: Option<usize>,
}

/// Behind the edge with that number of the member with this number; of edges that lead to one member, behind the one at
/// this place among them.
pub type EdgePlace = (u32, u32);

/// An edge with the keys of its ends and the name of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeView {
    pub from: Text,
    pub to: Text,
    pub group: Text,
    pub edge: Edge,
}

/// The upstream of an edge, and its number among the edges of that one.
pub type EdgeKey = (ExecutionId, u32);

#[derive(Clone, Debug, Default)]
pub struct EdgePage {
    pub edges: Vec<EdgeView>,
    /// Those whose records do not decode.
    pub damaged: Vec<EdgeKey>,
    pub next: Option<EdgePlace>,
}

pub async fn edges(shared: &Shared, who: &Principal, flow: FlowId, filter: EdgeFilter) -> Result<EdgePage, Rejection> {
    let limit = filter.limit.unwrap_or(limits::LIST_LIMIT_DEFAULT);
    check_range("limit", limit as u64, 1, limits::LIST_LIMIT_MAX as u64)?;
    get(shared, who, flow).await?;
    match &filter.downstream {
        Some(key) if filter.upstream.is_none() => edges_to(shared, who, flow, key, &filter, limit).await,
        _ => edges_from(shared, who, flow, filter, limit).await,
    }
}

/// Edges in the order in which their upstreams were added. A page is bounded by what it looks at: members, with
/// edges or without, and edges, whether they are meant and can be read or not.
async fn edges_from(
    shared: &Shared,
    who: &Principal,
    flow: FlowId,
    filter: EdgeFilter,
    limit: usize,
) -> Result<EdgePage, Rejection> {
    let mut page = EdgePage::default();
    let (mut at, mut looked) = (filter.after, 0);
    loop {
        let found = upstreams(shared, who, flow, &filter, at).await?;
        for upstream in &found.upstreams {
            let from = at.filter(|(number, _)| *number == upstream.number).map_or(0, |(_, edge)| edge + 1);
            let mut numbers = from..upstream.outs;
            while !numbers.is_empty() {
                let until = numbers.end.min(numbers.start + limits::LIST_LIMIT_MAX as u32);
                let keys = (numbers.start..until).map(|number| (upstream.id, number)).collect();
                let rows = read_rows(shared, upstream.id.partition(), keys).await?;
                looked += numbers.len().min(limits::LIST_LIMIT_MAX);
                let good = rows.iter().filter_map(|row| row.as_ref().ok().cloned()).collect();
                let mut views = name_all(shared, &upstream.key, good).await?.into_iter();
                for row in rows {
                    at = Some((upstream.number, place_of(&row).1));
                    match row {
                        Ok(_) => page.edges.extend(views.next().filter(|view| edge_is_meant(&filter, view))),
                        Err(place) => page.damaged.push(place),
                    }
                    if page.edges.len() + page.damaged.len() == limit {
                        page.next = at;
                        return Ok(page);
                    }
                }
                numbers.start = until;
                at = Some((upstream.number, if numbers.is_empty() { ALL_EDGES } else { until - 1 }));
                if looked >= LOOK_PER_PAGE {
                    page.next = at;
                    return Ok(page);
                }
            }
        }
        // Past those without edges, and those that cannot be read and have none to show.
        at = found.last.map(|number| (number, ALL_EDGES)).or(at);
        if !found.more {
            return Ok(page);
        }
        looked += found.looked;
        if looked >= LOOK_PER_PAGE {
            page.next = at;
            return Ok(page);
        }
    }
}

/// The edges that lead to a member, which knows where they are: nothing else of the flow is read. None if it is gone.
async fn edges_to(
    shared: &Shared,
    who: &Principal,
    flow: FlowId,
    key: &Text,
    filter: &EdgeFilter,
    limit: usize,
) -> Result<EdgePage, Rejection> {
    let (id, mut page) = (member_id(flow, key), EdgePage::default());
    let downstream = match load(shared, who, id, PartMask::of(schema::INLETS)).await {
        Err(Rejection::ExecutionNotFound) => return Ok(page),
        found => found?,
    };
    let Some(member) = downstream.member().filter(|member| member.flow == flow) else { return Ok(page) };
    let (inlets, partition) = (downstream.inlets(), id.partition());
    let is_of_group = |inlet: &Inlet| match &filter.group {
        Some(name) => member.groups.get(usize::from(inlet.group)).is_some_and(|group| group.name == *name),
        None => true,
    };
    let from = filter.after.map_or(0, |(at, _)| at as usize + 1);
    let rest = inlets.iter().enumerate().skip(from).filter(|(_, inlet)| is_of_group(inlet));
    let rest: Vec<(usize, &Inlet)> = rest.take(LOOK_PER_PAGE).collect();
    let upstream = |inlet: &Inlet| ExecutionId::new(partition, inlet.upstream);
    for some in rest.chunks(limit.max(64)) {
        let keys = some.iter().map(|(_, inlet)| (upstream(inlet), inlet.number)).collect();
        let rows = read_rows(shared, partition, keys).await?;
        let mut rows: BTreeMap<EdgeKey, Row> = rows.into_iter().map(|row| (place_of(&row), row)).collect();
        let ids: Vec<ExecutionId> = some.iter().map(|(_, inlet)| upstream(inlet)).collect();
        let named = names(shared, partition, &ids).await?;
        for (at, inlet) in some {
            match rows.remove(&(upstream(inlet), inlet.number)) {
                None => continue,
                Some(Err(place)) => page.damaged.push(place),
                Some(Ok(edge)) => {
                    let name = named.get(&upstream(inlet)).and_then(|(key, _)| key.clone());
                    let from = name.unwrap_or_else(|| upstream(inlet).to_string().into());
                    let group = member.groups.get(usize::from(inlet.group));
                    let group = group.map_or_else(|| "".into(), |group| group.name.clone());
                    let view = EdgeView { from, to: member.key.clone(), group, edge };
                    page.edges.extend(Some(view).filter(|view| edge_is_meant(filter, view)));
                }
            }
            if page.edges.len() + page.damaged.len() == limit {
                page.next = (at + 1 < inlets.len()).then_some((*at as u32, 0));
                return Ok(page);
            }
        }
    }
    if rest.len() == LOOK_PER_PAGE {
        page.next = rest.last().map(|(at, _)| (*at as u32, 0));
    }
    Ok(page)
}

/// Stands for the last edge of a member, whichever that is; cursors bear no larger number.
const ALL_EDGES: u32 = u32::MAX - 1;
const UPSTREAMS_AT_ONCE: usize = 100;

/// A member that edges leave, or what is left of it.
struct Upstream {
    id: ExecutionId,
    key: Text,
    number: u32,
    outs: u32,
}

impl Upstream {
    fn of(execution: &Execution, flow: FlowId) -> Option<Self> {
        let member = execution.member().filter(|member| member.flow == flow)?;
        Some(Self { id: execution.id, key: member.key.clone(), number: member.number, outs: member.outs })
    }

    fn left_of(stone: Tombstone) -> Self {
        let Tombstone { id, body } = stone;
        Self { id, key: body.key, number: body.number, outs: body.outs }
    }
}

#[derive(Default)]
struct Upstreams {
    upstreams: Vec<Upstream>,
    looked: usize,
    /// The number of the last one that was looked at.
    last: Option<u32>,
    more: bool,
}

/// The next members whose edges are listed, in the order they were added.
async fn upstreams(
    shared: &Shared,
    who: &Principal,
    flow: FlowId,
    filter: &EdgeFilter,
    at: Option<EdgePlace>,
) -> Result<Upstreams, Rejection> {
    if let Some(key) = &filter.upstream {
        let upstreams = vec![upstream(shared, who, flow, key).await?];
        return Ok(Upstreams { upstreams, ..Upstreams::default() });
    }
    // The member of the last edge may have more of them.
    let after = at.and_then(|(number, edge)| match edge >= ALL_EDGES {
        true => Some(number),
        false => number.checked_sub(1),
    });
    let (members, more_members) = member_entries(shared, flow, after, UPSTREAMS_AT_ONCE).await?;
    let (stones, more_stones) = stone_entries(shared, flow, after, UPSTREAMS_AT_ONCE).await?;
    // Beyond the end of a page that has more, its next entries may come first: only what lies before is in order.
    let end_of = |entries: &[Entry], more: bool| entries.iter().rev().find_map(number_of).filter(|_| more);
    let ends = [end_of(&members, more_members), end_of(&stones, more_stones)];
    let bound = ends.into_iter().flatten().min();
    let is_inside = |number: u32| bound.is_none_or(|bound| number <= bound);
    let looked = members.len() + stones.len();
    let last = members.iter().chain(&stones).filter_map(number_of).filter(|number| is_inside(*number)).max();
    let live = members.iter().filter_map(|entry| Upstream::of(&member_of(entry)?.2?, flow));
    let gone = stones.iter().filter_map(stone_of).map(Upstream::left_of);
    let mut upstreams: Vec<Upstream> = live.chain(gone).filter(|upstream| is_inside(upstream.number)).collect();
    upstreams.sort_by_key(|upstream| upstream.number);
    Ok(Upstreams { upstreams, looked, last, more: bound.is_some() && last != after })
}

/// The member with a key, or what is left of it.
async fn upstream(shared: &Shared, who: &Principal, flow: FlowId, key: &Text) -> Result<Upstream, Rejection> {
    let id = member_id(flow, key);
    match load(shared, who, id, PartMask::NONE).await {
        Ok(execution) => return Upstream::of(&execution, flow).ok_or_else(|| unknown_node(key)),
        Err(Rejection::ExecutionNotFound) => {}
        Err(rejection) => return Err(rejection),
    }
    match read_one(shared, Key::Tombstone(id), PartMask::ALL).await? {
        Some(Record::Tombstone(stone)) if stone.body.flow == flow => Ok(Upstream::left_of(*stone)),
        _ => Err(unknown_node(key)),
    }
}

/// What is left of purged members after a number, in the order they were added.
async fn stone_entries(
    shared: &Shared,
    flow: FlowId,
    after: Option<u32>,
    limit: usize,
) -> Result<(Vec<Entry>, bool), Rejection> {
    numbered_entries(shared, flow, IndexId::Tombstones, PartMask::ALL, after, limit).await
}

fn stone_of(entry: &Entry) -> Option<Tombstone> {
    match decode(entry.key()?, entry.found.as_ref()?, PartMask::ALL) {
        Ok(Record::Tombstone(stone)) => Some(*stone),
        _ => None,
    }
}

/// An edge, or the place of one that does not decode.
type Row = Result<Edge, EdgeKey>;

fn place_of(row: &Row) -> EdgeKey {
    match row {
        Ok(edge) => (edge.upstream, edge.number),
        Err(place) => *place,
    }
}

/// Those of the edges that are there, in the order they are asked for.
async fn read_rows(shared: &Shared, partition: PartitionId, keys: Vec<EdgeKey>) -> Result<Vec<Row>, Rejection> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let asked = keys.iter().map(|(id, number)| (Key::Edge(*id, *number), PartMask::ALL)).collect();
    let read = shared.store.read(partition, asked).await.map_err(unavailable)?;
    let found = keys.into_iter().zip(read.found).filter_map(|(place, found)| Some((place, found?)));
    let rows = found.map(|(place, found)| match decode(Key::Edge(place.0, place.1), &found, PartMask::ALL) {
        Ok(Record::Edge(edge)) => Ok(*edge),
        _ => Err(place),
    });
    Ok(rows.collect())
}

/// Those of the edges that are there and can be read.
pub(crate) async fn read_edges(
    shared: &Shared,
    partition: PartitionId,
    keys: Vec<EdgeKey>,
) -> Result<Vec<Edge>, Rejection> {
    Ok(read_rows(shared, partition, keys).await?.into_iter().flatten().collect())
}

/// Adds the keys of downstreams and the names of groups. Of a purged downstream there is only its key.
async fn name_all(shared: &Shared, from: &Text, edges: Vec<Edge>) -> Result<Vec<EdgeView>, Rejection> {
    let Some(first) = edges.first() else { return Ok(Vec::new()) };
    let partition = first.upstream.partition();
    let ends: Vec<ExecutionId> = edges.iter().map(|edge| edge.body.downstream).collect();
    let named = names(shared, partition, &ends).await?;
    let mut views = Vec::with_capacity(edges.len());
    for edge in edges {
        let (to, groups) = named.get(&edge.body.downstream).cloned().unwrap_or_default();
        let to = to.unwrap_or_else(|| edge.body.downstream.to_string().into());
        let group = groups.get(usize::from(edge.body.group)).cloned();
        views.push(EdgeView { from: from.clone(), to, group: group.unwrap_or_else(|| "".into()), edge });
    }
    Ok(views)
}

pub(crate) type Names = BTreeMap<ExecutionId, (Option<Text>, Vec<Text>)>;

/// The keys of members, and the names of their groups.
pub(crate) async fn names(shared: &Shared, partition: PartitionId, ids: &[ExecutionId]) -> Result<Names, Rejection> {
    let mut named = Names::new();
    let keys = ids.iter().map(|id| (Key::Execution(*id), schema::LIGHT)).collect();
    let read = shared.store.read(partition, keys).await.map_err(unavailable)?;
    let mut others = Vec::new();
    for (id, found) in ids.iter().zip(read.found) {
        match found.and_then(|found| decode(Key::Execution(*id), &found, schema::LIGHT).ok()) {
            Some(Record::Execution(execution)) => {
                let Some(member) = execution.member() else { continue };
                let groups = member.groups.iter().map(|group| group.name.clone()).collect();
                named.insert(*id, (Some(member.key.clone()), groups));
            }
            _ => others.push((Key::Tombstone(*id), PartMask::ALL)),
        }
    }
    if others.is_empty() {
        return Ok(named);
    }
    let read = shared.store.read(partition, others.clone()).await.map_err(unavailable)?;
    for ((key, parts), found) in others.into_iter().zip(read.found) {
        if let Some(Record::Tombstone(stone)) = found.and_then(|found| decode(key, &found, parts).ok()) {
            named.insert(stone.id, (Some(stone.body.key), Vec::new()));
        }
    }
    Ok(named)
}

fn edge_is_meant(filter: &EdgeFilter, view: &EdgeView) -> bool {
    filter.downstream.as_ref().is_none_or(|key| *key == view.to)
        && filter.group.as_ref().is_none_or(|group| *group == view.group)
        && filter.state.as_ref().is_none_or(|state| **state == *view.edge.state())
}
