//! What an execution went through: its attempts, and one ordered list of all that happened to it. Both are read in pages
//! of bounded cost, however often it was tried.

use crate::engine::Shared;
use crate::reads::{self, decode, load, load_revised, unavailable};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use weft_core::command::Principal;
use weft_core::error::Rejection;
use weft_core::limits::LIST_LIMIT_MAX;
use weft_core::record::attempt::{AttemptState, Failure};
use weft_core::record::execution::{Action, Actions, During, State};
use weft_core::record::{Attempt, Execution, Key, Record};
use weft_core::schema::{PartMask, attempt as attempt_schema, execution as schema};
use weft_core::text::{Text, check_range};
use weft_core::{CommitId, ExecutionId, PartitionId, Time};

/// Attempts that are read in one call; with their payloads, which may be large, only a few.
const READ_AT_ONCE: u32 = 200;
const PAYLOADS_AT_ONCE: u32 = 4;
/// Payloads in one page; a single attempt may have more.
const PAGE_BYTES: usize = 4 << 20;

/// Attempts in their order, the open one last.
#[derive(Clone, Debug, Default)]
pub struct AttemptPage {
    pub attempts: Vec<Attempt>,
    /// The number of the next one, if there is one.
    pub next: Option<u32>,
}

/// Which attempts to read.
#[derive(Clone, Copy, Debug)]
pub struct AttemptFilter {
    /// The number of the first.
    pub from: u32,
    pub limit: usize,
    /// With results and failure details, which makes pages shorter.
    pub payloads: bool,
}

impl Default for AttemptFilter {
    fn default() -> Self {
        Self { from: 0, limit: LIST_LIMIT_MAX, payloads: false }
    }
}

pub async fn attempts(
    shared: &Shared,
    who: &Principal,
    id: ExecutionId,
    filter: AttemptFilter,
) -> Result<AttemptPage, Rejection> {
    check_range("limit", filter.limit as u64, 1, LIST_LIMIT_MAX as u64)?;
    let execution = load(shared, who, id, PartMask::NONE).await?;
    let total = execution.hot.attempts;
    let end = total.min(filter.from.saturating_add(filter.limit as u32));
    let (at_once, parts) = match filter.payloads {
        true => (PAYLOADS_AT_ONCE, PartMask::ALL),
        false => (READ_AT_ONCE, attempt_schema::LIGHT),
    };
    let mut page = AttemptPage::default();
    let (mut next, mut bytes) = (filter.from, 0);
    while next < end && bytes < PAGE_BYTES {
        let upto = end.min(next + at_once);
        let found = read(shared, &execution, next..upto, parts).await?;
        bytes += found.iter().filter(|_| filter.payloads).map(payload_bytes).sum::<usize>();
        page.attempts.extend(found);
        next = upto;
    }
    page.next = (next < total).then_some(next);
    Ok(page)
}

fn payload_bytes(attempt: &Attempt) -> usize {
    attempt.result().map_or(0, |bytes| bytes.len()) + attempt.detail().map_or(0, |bytes| bytes.len())
}

/// One attempt with its payloads, and its revision: that of the execution as long as it is open.
pub async fn attempt(
    shared: &Shared,
    who: &Principal,
    id: ExecutionId,
    index: u32,
) -> Result<(Attempt, CommitId), Rejection> {
    let (execution, revision) = load_revised(shared, who, id, PartMask::NONE).await?;
    if let Some(mut open) = execution.hot.open.filter(|open| open.index == index) {
        open.seal();
        return Ok((open, revision));
    }
    if index >= execution.hot.attempts {
        return Err(Rejection::AttemptNotFound);
    }
    match reads::read_revised(shared, Key::Attempt(id, index), PartMask::ALL).await? {
        Some((Record::Attempt(attempt), revision)) => Ok((*attempt, revision)),
        _ => Err(Rejection::AttemptNotFound),
    }
}

/// The attempts of these numbers. A purge may take some away in between: what is not there any more is left out.
async fn read(
    shared: &Shared,
    execution: &Execution,
    numbers: Range<u32>,
    parts: PartMask,
) -> Result<Vec<Attempt>, Rejection> {
    let open = execution.hot.open.as_ref().filter(|open| numbers.contains(&open.index));
    let ended = numbers.filter(|index| open.is_none_or(|open| open.index != *index));
    let keys = ended.map(|index| Key::Attempt(execution.id, index)).collect();
    let mut attempts = read_keys(shared, execution.id.partition(), keys, parts).await?;
    if let Some(mut open) = open.cloned() {
        open.seal();
        attempts.push(open);
    }
    Ok(attempts)
}

async fn read_keys(
    shared: &Shared,
    partition: PartitionId,
    keys: Vec<Key>,
    parts: PartMask,
) -> Result<Vec<Attempt>, Rejection> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let wanted = keys.iter().map(|key| (*key, parts)).collect();
    let read = shared.store.read(partition, wanted).await.map_err(unavailable)?;
    let mut attempts = Vec::with_capacity(keys.len());
    for (key, found) in keys.into_iter().zip(read.found) {
        if let Some(found) = found
            && let Record::Attempt(attempt) = decode(key, &found, parts)?
        {
            attempts.push(*attempt);
        }
    }
    Ok(attempts)
}

/// Why the last attempt of each failed, if it did: one read per partition for all of them.
pub async fn last_failures(shared: &Shared, executions: &[Execution]) -> Result<Vec<Option<Failure>>, Rejection> {
    let mut keys: BTreeMap<PartitionId, Vec<Key>> = BTreeMap::new();
    for execution in executions.iter().filter(|execution| may_have_failed(execution)) {
        let last = Key::Attempt(execution.id, execution.hot.attempts - 1);
        keys.entry(execution.id.partition()).or_default().push(last);
    }
    let mut failures = BTreeMap::new();
    for (partition, keys) in keys {
        for attempt in read_keys(shared, partition, keys, attempt_schema::LIGHT).await? {
            failures.extend(attempt.failure.map(|failure| (attempt.execution, failure)));
        }
    }
    Ok(executions.iter().map(|execution| failures.remove(&execution.id)).collect())
}

/// Only what waits for a retry or did not end well is worth a look.
fn may_have_failed(execution: &Execution) -> bool {
    use weft_core::record::execution::Outcome;
    let hot = &execution.hot;
    let well = matches!(hot.state, State::Done { outcome: Outcome::Success, .. });
    hot.open.is_none() && hot.attempts > 0 && !well
}

/// One line of an execution's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    pub at: Time,
    pub what: Text,
    pub attempt: Option<u32>,
    pub epoch: Option<u64>,
    pub worker: Option<Text>,
    pub by: Option<Text>,
    pub reason: Option<Text>,
}

#[derive(Clone, Debug, Default)]
pub struct HistoryPage {
    pub entries: Vec<HistoryEntry>,
    /// Old entries of this page's time that are no longer kept.
    pub dropped: u32,
    /// Where the next page begins; absent exactly at the end.
    pub next: Option<HistoryPlace>,
}

/// A place in a history: what stands before it has been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryPlace {
    attempt: u32,
    /// Entries of that attempt.
    entry: usize,
    /// Actions ever, those that were dropped included.
    action: u32,
    /// Time of the last end that has been returned; zero before the first.
    ended_at: Time,
}

impl fmt::Display for HistoryPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}", self.attempt, self.entry, self.action, self.ended_at.ms())
    }
}

impl FromStr for HistoryPlace {
    type Err = Rejection;

    fn from_str(text: &str) -> Result<Self, Rejection> {
        let parts: Result<Vec<u64>, _> = text.split('.').map(str::parse).collect();
        let small = |part: &u64| u32::try_from(*part).map_err(|_| Rejection::InvalidCursor);
        match parts.as_deref() {
            Ok([attempt, entry, action, ended_ms]) => Ok(Self {
                attempt: small(attempt)?,
                entry: small(entry)? as usize,
                action: small(action)?,
                ended_at: Time::from_ms(*ended_ms),
            }),
            _ => Err(Rejection::InvalidCursor),
        }
    }
}

/// Submission, actions, leases and the end in the order of their commits; in one commit the action is before what it
/// caused. `place` is where the page before ended.
pub async fn history(
    shared: &Shared,
    who: &Principal,
    id: ExecutionId,
    place: Option<HistoryPlace>,
    limit: usize,
) -> Result<HistoryPage, Rejection> {
    check_range("limit", limit as u64, 1, LIST_LIMIT_MAX as u64)?;
    let execution = load(shared, who, id, PartMask::of(schema::ACTIONS)).await?;
    let actions = execution.actions();
    let mut page = HistoryPage::default();
    let mut place = place.unwrap_or_else(|| {
        page.dropped = actions.dropped;
        page.entries.push(submitted(&execution));
        HistoryPlace { attempt: 0, entry: 0, action: 0, ended_at: Time::ZERO }
    });
    let mut runs = Runs { execution: &execution, loaded: VecDeque::new(), next: place.attempt };
    loop {
        let told = runs.peek(shared, &mut place).await?;
        let acted = next_actions(actions, &mut place);
        let end = ended(&execution).filter(|end| {
            let is_after = |action: &Action| action.during == During::Done && action.at >= end.at;
            end.at > place.ended_at && told.is_none() && acted.iter().all(is_after)
        });
        let is_full = page.entries.len() == limit;
        match (told, acted.first(), end) {
            (None, None, None) => return Ok(page),
            _ if is_full => {
                page.next = Some(place);
                return Ok(page);
            }
            (_, _, Some(end)) => {
                place.ended_at = end.at;
                page.entries.push(end);
            }
            (told, Some(acted), _) if told.as_ref().is_none_or(|told| order(acted) < told.order) => {
                page.entries.push(action_entry(acted));
                place.action += 1;
            }
            (told, ..) => {
                page.dropped += told.as_ref().map_or(0, |told| told.dropped);
                page.entries.extend(told.map(|told| told.entry));
                place.entry += 1;
            }
        }
    }
}

/// Epoch, then what happens in one: the claim, actions while its lease is held, the end of the lease, later actions.
type Order = (u64, u8);
const CLAIMED: u8 = 0;
const HELD: u8 = 1;
const LEASE_ENDED: u8 = 2;
const LATER: u8 = 3;

fn order(action: &Action) -> Order {
    let within = match action.during {
        During::Lease => HELD,
        During::Wait | During::Done => LATER,
    };
    (action.epoch, within)
}

/// What attempts tell, read ahead.
struct Runs<'a> {
    execution: &'a Execution,
    loaded: VecDeque<Run>,
    next: u32,
}

struct Run {
    entries: Vec<(Order, HistoryEntry)>,
    dropped: u32,
}

struct Told {
    order: Order,
    entry: HistoryEntry,
    /// What this attempt no longer tells; said with its first entry.
    dropped: u32,
}

impl Runs<'_> {
    /// What is told next at the place, which passes attempts that have told everything.
    async fn peek(&mut self, shared: &Shared, place: &mut HistoryPlace) -> Result<Option<Told>, Rejection> {
        loop {
            if self.loaded.is_empty() && !self.fill(shared).await? {
                return Ok(None);
            }
            let Some(run) = self.loaded.front() else { return Ok(None) };
            if let Some((order, entry)) = run.entries.get(place.entry) {
                let dropped = if place.entry == 0 { run.dropped } else { 0 };
                return Ok(Some(Told { order: *order, entry: entry.clone(), dropped }));
            }
            self.loaded.pop_front();
            (place.attempt, place.entry) = (place.attempt + 1, 0);
        }
    }

    /// Reads the next attempts; false if there are none.
    async fn fill(&mut self, shared: &Shared) -> Result<bool, Rejection> {
        let upto = self.execution.hot.attempts.min(self.next.saturating_add(READ_AT_ONCE));
        if self.next >= upto {
            return Ok(false);
        }
        let found = read(shared, self.execution, self.next..upto, attempt_schema::LIGHT).await?;
        let found: BTreeMap<u32, Attempt> = found.into_iter().map(|attempt| (attempt.index, attempt)).collect();
        // One that is gone tells nothing, and keeps its place.
        self.loaded.extend((self.next..upto).map(|index| Run::of(found.get(&index))));
        self.next = upto;
        Ok(true)
    }
}

impl Run {
    fn of(attempt: Option<&Attempt>) -> Self {
        let Some(attempt) = attempt else { return Self { entries: Vec::new(), dropped: 0 } };
        let mut entries = Vec::with_capacity(2 * attempt.leases.len());
        for episode in &attempt.leases {
            let of = |at: Time, what: &str| HistoryEntry {
                attempt: Some(attempt.index),
                epoch: Some(episode.epoch),
                worker: Some(episode.instance.clone()),
                ..entry(at, what)
            };
            entries.push(((episode.epoch, CLAIMED), of(episode.from, "claimed")));
            if let (Some(to), Some(cause)) = (episode.to, episode.cause) {
                let reason = attempt.failure.as_ref().filter(|_| attempt.state == AttemptState::Failed);
                let reason = reason.map(|failure| Text::from(format!("{}: {}", failure.category, failure.message)));
                entries.push(((episode.epoch, LEASE_ENDED), HistoryEntry { reason, ..of(to, cause.name()) }));
            }
        }
        Self { entries, dropped: attempt.leases_dropped }
    }
}

fn entry(at: Time, what: &str) -> HistoryEntry {
    HistoryEntry { at, what: what.into(), attempt: None, epoch: None, worker: None, by: None, reason: None }
}

fn submitted(execution: &Execution) -> HistoryEntry {
    HistoryEntry { by: Some(execution.spec.creator.clone()), ..entry(execution.hot.created_at, "submitted") }
}

/// The actions at and after the place that are still kept; the place passes those that are not.
fn next_actions<'a>(actions: &'a Actions, place: &mut HistoryPlace) -> &'a [Action] {
    place.action = place.action.max(actions.dropped);
    actions.kept.get((place.action - actions.dropped) as usize..).unwrap_or_default()
}

fn action_entry(action: &Action) -> HistoryEntry {
    HistoryEntry {
        epoch: Some(action.epoch),
        by: Some(action.by.clone()),
        reason: Some(action.reason.clone()),
        ..entry(action.at, &action.verb)
    }
}

fn ended(execution: &Execution) -> Option<HistoryEntry> {
    let State::Done { outcome, reason, by, at, attempt, .. } = &execution.hot.state else { return None };
    Some(HistoryEntry {
        attempt: *attempt,
        epoch: Some(execution.hot.epoch),
        by: Some(by.clone()),
        reason: Some(reason.name().into()),
        ..entry(*at, outcome.name())
    })
}
