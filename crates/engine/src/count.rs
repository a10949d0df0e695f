//! Numbers of executions by lane, kind and state.
//!
//! A count loads as little of an execution as its filter and its groups need: nothing if the entries of an index answer
//! both, the hot part for states, the specification for lanes and kinds.

use crate::engine::Shared;
use crate::reads::{ListFilter, Walk, decode, place_of, undecodable, unfinished};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;
use weft_core::codec;
use weft_core::command::Principal;
use weft_core::error::Rejection;
use weft_core::filter::Filter;
use weft_core::flow::shown_by;
use weft_core::record::Record;
use weft_core::record::execution::{Hot, PublicState};
use weft_core::schema::{PartMask, Value, execution as schema};
use weft_core::text::Text;
use weft_core::{PartitionId, Time};
use weft_store::Entry;

/// Executions that a count loads in one call.
const RECORD_PAGE: usize = 1000;
/// Index entries that a count reads in one call if it loads nothing: a page of these costs a store less.
const INDEX_PAGE: usize = 5000;
/// Partitions that a count walks at a time.
const COUNT_AT_ONCE: usize = 4;

/// Parts that decide the lane, the kind, the state and the visibility of an execution.
const WHOLE: PartMask = PartMask::of(schema::HOT).with(PartMask::of(schema::SPEC)).with(PartMask::of(schema::MEMBER));
/// States of members that wait for their edges, the only ones that can be hidden (`shown_by`). Both are indexed.
const BLOCKED: [PublicState; 2] = [PublicState::Held, PublicState::WaitingChildren];
const _: () = assert!(!BLOCKED[0].is_usual() && !BLOCKED[1].is_usual());

/// Fields that a count is grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupBy {
    pub lane: bool,
    pub kind: bool,
    pub state: bool,
}

impl GroupBy {
    pub const ALL: GroupBy = GroupBy { lane: true, kind: true, state: true };
}

/// Numbers of executions by (lane, kind, public state).
pub type Counts = BTreeMap<(Text, Text, PublicState), u64>;

/// Numbers of executions by (lane, kind, public state); a field that a count is not grouped by is absent.
pub type GroupedCounts = BTreeMap<(Option<Text>, Option<Text>, Option<PublicState>), u64>;

/// A count that ends at a given time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoundedCount {
    pub counts: GroupedCounts,
    /// Time ran out before every execution was counted: each number is a lower bound.
    pub at_least: bool,
}

/// Counts until `until` on the node's clock, or to the end without one. Each partition is walked by itself, because a page
/// merged from all of them reads every partition's page and keeps one page of entries.
pub async fn count(
    shared: &Shared,
    who: &Principal,
    filter: &ListFilter,
    by: GroupBy,
    until: Option<Time>,
) -> Result<BoundedCount, Rejection> {
    let wanted = filter.filter();
    let parts = parts(by, &wanted);
    let partitions = (0..shared.partitions.len() as u16).map(PartitionId);
    let of_flow = |partition: &PartitionId| wanted.flow.is_none_or(|flow| flow.partition() == *partition);
    let each = partitions.filter(of_flow).map(|partition| {
        let walk = Walk {
            namespace: &who.namespace,
            filter: &wanted,
            ascending: filter.ascending,
            partition: Some(partition),
            parts,
        };
        async move { count_partition(shared, &walk, by, until).await }
    });
    let mut each = stream::iter(each).buffer_unordered(COUNT_AT_ONCE);
    let mut total = BoundedCount::default();
    while let Some(one) = each.try_next().await? {
        total.at_least |= one.at_least;
        for (group, count) in one.counts {
            *total.counts.entry(group).or_default() += count;
        }
    }
    Ok(total)
}

/// Parts of each execution that a count has to load; `None` if index entries answer the filter and the groups.
fn parts(by: GroupBy, filter: &Filter) -> Option<PartMask> {
    let beyond_indexes = Filter { states: Vec::new(), created_from: None, created_until: None, ..filter.clone() };
    if by.lane || by.kind || beyond_indexes != Filter::default() {
        let tags = if filter.tag.is_some() { PartMask::of(schema::TAGS) } else { PartMask::NONE };
        return Some(WHOLE.with(tags));
    }
    let by_index = match filter.states.as_slice() {
        [] => !by.state,
        states => !states.iter().any(|state| state.is_usual()),
    };
    (!by_index).then_some(PartMask::of(schema::HOT))
}

async fn count_partition(
    shared: &Shared,
    walk: &Walk<'_>,
    by: GroupBy,
    until: Option<Time>,
) -> Result<BoundedCount, Rejection> {
    let mut counted = BoundedCount::default();
    let mut cursor = None;
    let page = if walk.parts.is_some() { RECORD_PAGE } else { INDEX_PAGE };
    loop {
        if until.is_some_and(|until| shared.runtime.clock() >= until) {
            // The walk may be at its end just now: the next entry, if there is one, says so.
            let (entries, more) = walk.page(shared, cursor.as_ref(), 1).await?;
            counted.at_least = more || !entries.is_empty();
            return Ok(counted);
        }
        let (entries, more) = walk.page(shared, cursor.as_ref(), page).await?;
        match walk.parts.is_some_and(|parts| parts.has(schema::SPEC)) {
            true => add_seen(shared, walk, by, &entries, &mut counted.counts).await?,
            false => add_entries(shared, walk, by, &entries, &mut counted.counts).await?,
        }
        cursor = entries.iter().rev().find_map(place_of).or(cursor);
        if !more {
            return Ok(counted);
        }
    }
}

/// Counts the executions of a page that were loaded and match.
async fn add_seen(
    shared: &Shared,
    walk: &Walk<'_>,
    by: GroupBy,
    entries: &[Entry],
    counts: &mut GroupedCounts,
) -> Result<(), Rejection> {
    for (_, _, execution) in walk.seen(shared, entries).await? {
        let spec = &execution.spec;
        let lane = by.lane.then(|| spec.lane.clone());
        let kind = by.kind.then(|| spec.kind.clone());
        let state = by.state.then(|| execution.public_state());
        *counts.entry((lane, kind, state)).or_default() += 1;
    }
    Ok(())
}

/// Counts the entries of a page by their states, which are in the hot part, in the index, or not needed.
async fn add_entries(
    shared: &Shared,
    walk: &Walk<'_>,
    by: GroupBy,
    entries: &[Entry],
    counts: &mut GroupedCounts,
) -> Result<(), Rejection> {
    let hidden = hidden(shared, walk, entries).await?;
    let states = &walk.filter.states;
    for entry in entries {
        let (Some((_, uuid, _)), Some(key)) = (place_of(entry), entry.key()) else { continue };
        let state = match (walk.parts, &entry.found) {
            (None, _) => listed_state(entry),
            (Some(_), None) => continue,
            (Some(_), Some(found)) => {
                let hot: Result<Hot, _> = codec::required("hot", &found.parts, schema::HOT);
                Some(hot.map_err(|error| undecodable(key, &error))?.public_state())
            }
        };
        let matches = states.is_empty() || state.is_some_and(|state| states.contains(&state));
        if matches && !hidden.contains(&uuid) {
            *counts.entry((None, None, state.filter(|_| by.state))).or_default() += 1;
        }
    }
    Ok(())
}

/// The state in an entry of the index of states; absent from entries of other indexes.
fn listed_state(entry: &Entry) -> Option<PublicState> {
    match entry.place.columns.as_slice() {
        [_, Value::Text(state), _] => PublicState::from_name(state),
        _ => None,
    }
}

/// Executions that nobody sees yet among those created within the times of the entries: members of flows that are not
/// whole. Looked for after the entries were read, since a member that is seen is never hidden again.
async fn hidden(shared: &Shared, walk: &Walk<'_>, entries: &[Entry]) -> Result<BTreeSet<Uuid>, Rejection> {
    let mut hidden = BTreeSet::new();
    let wanted = &walk.filter.states;
    let states: Vec<_> = BLOCKED.into_iter().filter(|state| wanted.is_empty() || wanted.contains(state)).collect();
    let times = || entries.iter().filter_map(place_of).map(|(created, ..)| Time::from_ms(created.max(0) as u64));
    let (Some(from), Some(until)) = (times().min(), times().max()) else { return Ok(hidden) };
    if states.is_empty() {
        return Ok(hidden);
    }
    let filter = Filter { states, created_from: Some(from), created_until: Some(until), ..Filter::default() };
    let blocked = Walk {
        namespace: walk.namespace,
        filter: &filter,
        ascending: true,
        partition: walk.partition,
        parts: Some(WHOLE),
    };
    let mut cursor = None;
    loop {
        let (entries, more) = blocked.page(shared, cursor.as_ref(), RECORD_PAGE).await?;
        let mut members = Vec::new();
        for entry in &entries {
            let (Some(found), Some(key)) = (&entry.found, entry.key()) else { continue };
            if let Record::Execution(execution) = decode(key, found, WHOLE)? {
                members.push(*execution);
            }
        }
        let flows = unfinished(shared, &members).await?;
        let of_flows = members.iter().filter(|member| shown_by(member).is_some_and(|flow| flows.contains(&flow)));
        hidden.extend(of_flows.map(|member| member.id.uuid()));
        cursor = entries.iter().rev().find_map(place_of).or(cursor);
        if !more {
            return Ok(hidden);
        }
    }
}
