//! Members of a flow, page by page: in the order they were added, or by their keys.

use super::reads::{LOOK_PER_PAGE, get};
use crate::engine::Shared;
use crate::reads::{decode, load_revised, unavailable};
use bytes::Bytes;
use std::collections::BTreeMap;
use weft_core::command::Principal;
use weft_core::error::Rejection;
use weft_core::flow::member_id;
use weft_core::limits;
use weft_core::record::execution::{Execution, PublicState};
use weft_core::record::member::is_against;
use weft_core::record::{Key, Record};
use weft_core::schema::{IndexId, PartMask, Value, execution as schema};
use weft_core::text::{Text, check_range};
use weft_core::{CommitId, ExecutionId, FlowId};
use weft_store::{Entry, Place, Range, Scan, Target};

#[derive(Clone, Debug, Default)]
pub struct MemberFilter {
    pub states: Vec<PublicState>,
    /// Only those that count against the flow.
    pub against: Option<bool>,
    pub begun: Option<bool>,
    pub parent: Option<ExecutionId>,
    /// The one with this key.
    pub key: Option<Text>,
    pub order: MemberOrder,
    pub limit: Option<usize>,
}

/// In which order members are listed, and after which of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberOrder {
    /// As they were added: after the one with this number.
    Added(Option<u32>),
    /// By their keys: after this one. There is no index of keys, so each page looks at every member of the flow.
    Key(Option<Text>),
}

impl Default for MemberOrder {
    fn default() -> Self {
        MemberOrder::Added(None)
    }
}

#[derive(Clone, Debug, Default)]
pub struct MemberPage {
    pub members: Vec<(Execution, CommitId)>,
    pub damaged: Vec<ExecutionId>,
    /// Behind the last one that was looked at, if there are more.
    pub next: Option<MemberOrder>,
}

impl MemberFilter {
    /// All of them, in the order they were added, after the one with this number.
    pub fn added_after(after: Option<u32>, limit: usize) -> Self {
        Self { order: MemberOrder::Added(after), limit: Some(limit), ..Self::default() }
    }
}

impl MemberPage {
    /// The number behind which the next page begins, of a list in the order they were added.
    pub fn next_added(&self) -> Option<u32> {
        match self.next {
            Some(MemberOrder::Added(after)) => after,
            _ => None,
        }
    }
}

/// One page of members after a number, in the order they were added, without a look at who asks.
pub(crate) async fn member_entries(
    shared: &Shared,
    flow: FlowId,
    after: Option<u32>,
    limit: usize,
) -> Result<(Vec<Entry>, bool), Rejection> {
    numbered_entries(shared, flow, IndexId::Members, schema::LIGHT, after, limit).await
}

/// One page of an index that has what belongs to a flow by the numbers of members.
pub(super) async fn numbered_entries(
    shared: &Shared,
    flow: FlowId,
    index: IndexId,
    parts: PartMask,
    after: Option<u32>,
    limit: usize,
) -> Result<(Vec<Entry>, bool), Rejection> {
    let prefix = vec![Value::bytes(flow.uuid().as_bytes())];
    let after = after.map(|number| Place {
        columns: vec![prefix[0].clone(), Value::Int(i64::from(number))],
        key: Bytes::from_static(&[0xff; 16]),
    });
    let scan = Scan {
        target: Target::Index(index),
        ranges: vec![Range { prefix, after, until: None }],
        limit,
        descending: false,
        parts: Some(parts),
    };
    let page = shared.store.scan(Some(flow.partition()), scan).await.map_err(unavailable)?.pop().unwrap_or_default();
    Ok((page.entries, page.more))
}

/// The member of an entry: its number, and the record if it decodes.
pub(crate) fn member_of(entry: &Entry) -> Option<(u32, ExecutionId, Option<Execution>)> {
    let number = number_of(entry)?;
    let Some(Key::Execution(id)) = entry.key() else { return None };
    let found = entry.found.as_ref()?;
    let execution = match decode(Key::Execution(id), found, schema::LIGHT) {
        Ok(Record::Execution(execution)) => Some(*execution),
        _ => None,
    };
    Some((number, id, execution))
}

/// The place of an entry in the order in which members were added.
pub(crate) fn number_of(entry: &Entry) -> Option<u32> {
    match entry.place.columns.get(1) {
        Some(Value::Int(number)) => u32::try_from(*number).ok(),
        _ => None,
    }
}

pub async fn members(
    shared: &Shared,
    who: &Principal,
    flow: FlowId,
    filter: MemberFilter,
) -> Result<MemberPage, Rejection> {
    let limit = filter.limit.unwrap_or(limits::LIST_LIMIT_DEFAULT);
    check_range("limit", limit as u64, 1, limits::LIST_LIMIT_MAX as u64)?;
    get(shared, who, flow).await?;
    match (&filter.key, &filter.order) {
        (Some(key), _) => member_with(shared, who, flow, key, &filter).await,
        (None, MemberOrder::Added(after)) => members_added(shared, flow, &filter, *after, limit).await,
        (None, MemberOrder::Key(after)) => members_by_key(shared, flow, &filter, after.as_ref(), limit).await,
    }
}

/// The one member with a key, which its id follows from; none if it is not there or not meant.
async fn member_with(
    shared: &Shared,
    who: &Principal,
    flow: FlowId,
    key: &Text,
    filter: &MemberFilter,
) -> Result<MemberPage, Rejection> {
    // The key of a child is an id, and ids of other flows look the same.
    let is_of_flow = |execution: &Execution| execution.member().is_some_and(|member| member.flow == flow);
    match load_revised(shared, who, member_id(flow, key), PartMask::NONE).await {
        Ok(found) if is_of_flow(&found.0) && is_meant(filter, &found.0) => {
            Ok(MemberPage { members: vec![found], ..MemberPage::default() })
        }
        Ok(_) | Err(Rejection::ExecutionNotFound) => Ok(MemberPage::default()),
        Err(rejection) => Err(rejection),
    }
}

async fn members_added(
    shared: &Shared,
    flow: FlowId,
    filter: &MemberFilter,
    mut after: Option<u32>,
    limit: usize,
) -> Result<MemberPage, Rejection> {
    let mut page = MemberPage::default();
    let mut looked = 0;
    let behind = |after: Option<u32>, more: bool| after.filter(|_| more).map(|after| MemberOrder::Added(Some(after)));
    loop {
        let (entries, more) = member_entries(shared, flow, after, limit.max(64)).await?;
        looked += entries.len();
        let count = entries.len();
        for (nth, entry) in entries.iter().enumerate() {
            let Some((number, id, execution)) = member_of(entry) else { continue };
            after = Some(number);
            match execution {
                Some(execution) if is_meant(filter, &execution) => {
                    let revision = entry.found.as_ref().map(|found| found.revision).unwrap_or_default();
                    page.members.push((execution, revision));
                }
                Some(_) => {}
                None => page.damaged.push(id),
            }
            if page.members.len() + page.damaged.len() == limit {
                page.next = behind(after, more || nth + 1 < count);
                return Ok(page);
            }
        }
        if !more || looked >= LOOK_PER_PAGE {
            page.next = behind(after, more);
            return Ok(page);
        }
    }
}

/// The first keys behind one, of all members: what is kept meanwhile is no more than a page. Members whose records do not
/// decode have no key that could be read, and come with the first page.
async fn members_by_key(
    shared: &Shared,
    flow: FlowId,
    filter: &MemberFilter,
    behind: Option<&Text>,
    limit: usize,
) -> Result<MemberPage, Rejection> {
    let mut page = MemberPage::default();
    let mut first: BTreeMap<Text, (Execution, CommitId)> = BTreeMap::new();
    let mut after = None;
    loop {
        let (entries, more) = member_entries(shared, flow, after, limits::LIST_LIMIT_MAX).await?;
        for entry in &entries {
            let Some((number, id, execution)) = member_of(entry) else { continue };
            after = Some(number);
            let Some(execution) = execution else {
                page.damaged.extend(behind.is_none().then_some(id));
                continue;
            };
            let Some(key) = execution.member().map(|member| member.key.clone()) else { continue };
            let is_beyond = first.len() > limit && first.last_key_value().is_some_and(|(last, _)| key > *last);
            if behind.is_some_and(|behind| key <= *behind) || is_beyond || !is_meant(filter, &execution) {
                continue;
            }
            let revision = entry.found.as_ref().map(|found| found.revision).unwrap_or_default();
            first.insert(key, (execution, revision));
            // One more than a page holds tells whether there is another.
            if first.len() > limit + 1 {
                first.pop_last();
            }
        }
        if !more {
            break;
        }
    }
    if first.len() > limit {
        first.pop_last();
        page.next = first.last_key_value().map(|(key, _)| MemberOrder::Key(Some(key.clone())));
    }
    page.members = first.into_values().collect();
    Ok(page)
}

fn is_meant(filter: &MemberFilter, execution: &Execution) -> bool {
    (filter.states.is_empty() || filter.states.contains(&execution.public_state()))
        && filter.against.is_none_or(|wanted| wanted == is_against(execution))
        && filter.begun.is_none_or(|wanted| wanted == execution.has_begun())
        && filter.parent.is_none_or(|parent| execution.spec.parent == Some(parent))
}
