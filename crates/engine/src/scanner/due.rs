//! One pass of a scanner over the due entries of one partition.

use super::edge_cancel_reconciler::EdgeCancelReconciler;
use super::{Report, ScanContext, Scanner, bulk, dependency_audit, flow_projector, selection};
use crate::client::Urgency;
use crate::config::Filter;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use weft_core::apply::Applied;
use weft_core::change::DueEntry;
use weft_core::codec::DecodeError;
use weft_core::command::{Call, Command, DropEntry, Expire, Principal, ReconcileGroup, RecordTrouble};
use weft_core::error::Rejection;
use weft_core::record::{Key, Record};
use weft_core::reply::{Expired, Reconciled, Reply, Verified};
use weft_core::schema::{Kind, Timer, Value};
use weft_core::text::Text;
use weft_core::{PartitionId, Time};
use weft_store::{Entry, Place, Range, Scan, Target};

/// Entries a pass may look at, as a multiple of those it may handle.
const LOOK_FACTOR: usize = 10;
const ERROR_MAX: usize = 1024;

pub struct Pass {
    scanner: &'static str,
    interval_ms: u64,
    batch: usize,
    timers: &'static [Timer],
    age_ms: u64,
    filter: Filter,
}

/// A due entry and what its key says.
pub(super) struct Item {
    pub entry: DueEntry,
    pub key: Option<Key>,
    place: Place,
}

/// Where passes go on that had to leave entries behind: those of another filter, and those that are somebody else's to
/// handle. A pass that gets to the end begins from the start the next time.
#[derive(Default)]
pub struct Cursors(Mutex<BTreeMap<Spot, Place>>);

type Spot = (&'static str, Timer, PartitionId);

impl Cursors {
    fn take(&self, spot: Spot) -> Option<Place> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&spot)
    }

    fn put(&self, spot: Spot, place: Place) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(spot, place);
    }
}

impl Pass {
    pub fn of(scanner: &impl Scanner) -> Self {
        Self {
            scanner: scanner.name(),
            interval_ms: scanner.interval_ms(),
            batch: scanner.batch(),
            timers: scanner.timers(),
            age_ms: scanner.age_ms(),
            filter: scanner.filter().clone(),
        }
    }

    /// Handles what is due now, in due order, as one batch of commands.
    pub async fn run(self, cx: &ScanContext, partition: PartitionId) -> Report {
        let mut report = Report::default();
        // A clock that could not be read the last time is read again: nothing is due by a time that nobody knows.
        if !cx.shared.clock.is_known() && cx.shared.measure().await.is_err() {
            report.errors += 1;
            return report;
        }
        let now = cx.shared.now();
        let old = Time::from_ms(now.ms().saturating_sub(self.age_ms));
        let Some(items) = self.find(cx, partition, old, &mut report).await else {
            report.errors += 1;
            return report;
        };
        if items.is_empty() || cx.is_stopping() {
            return report;
        }
        let mut calls = Vec::with_capacity(items.len());
        for item in &items {
            if cx.is_stopping() {
                return report;
            }
            calls.push(self.call(cx, partition, item, now).await);
        }
        let answers = cx.shared.run(calls, Urgency::Urgent).await;
        let mut left = Left::default();
        for (item, answer) in items.iter().zip(answers) {
            if cx.is_stopping() {
                break;
            }
            self.judge(cx, partition, item, answer, &mut left, &mut report).await;
        }
        self.leave(cx, partition, left, items.last(), now, &mut report);
        report
    }

    /// The due items that this node may handle; `None` if the store cannot be read.
    async fn find(
        &self,
        cx: &ScanContext,
        partition: PartitionId,
        now: Time,
        report: &mut Report,
    ) -> Option<Vec<Item>> {
        let mut items = Vec::new();
        for timer in self.timers {
            if items.len() >= self.batch {
                report.more = true;
                break;
            }
            let spot = (self.scanner, *timer, partition);
            let mut after = cx.shared.cursors.take(spot);
            let mut looked = 0;
            while items.len() < self.batch {
                let range = Range { prefix: vec![Value::Int(*timer as i64)], after: after.take(), until: None };
                let limit = self.batch - items.len();
                let scan = Scan { target: Target::Due, ranges: vec![range], limit, descending: false, parts: None };
                let page = cx.shared.store.scan(Some(partition), scan).await.ok()?.pop()?;
                // A page without entries leads nowhere, whatever else it says.
                let Some(last) = page.entries.last().map(|entry| entry.place.clone()) else { break };
                looked += page.entries.len();
                let (due, ahead): (Vec<Entry>, Vec<Entry>) =
                    page.entries.into_iter().partition(|entry| due_at(entry) <= now);
                let next = ahead.first().map(due_at);
                report.next_due = [report.next_due, next].into_iter().flatten().min();
                let found: Vec<Item> = due.into_iter().map(Item::of).collect();
                let count = found.len();
                let kept = selection::select(cx, partition, &self.filter, found).await?;
                report.filtered += (count - kept.len()) as u32;
                items.extend(kept);
                if !page.more || !ahead.is_empty() {
                    break;
                }
                if items.len() >= self.batch {
                    report.more = true;
                } else if looked >= self.batch * LOOK_FACTOR {
                    // Items of another filter are passed by cursor, so that nothing waits behind them.
                    cx.shared.cursors.put(spot, last);
                    report.more = true;
                    break;
                }
                after = Some(last);
            }
        }
        Some(items)
    }

    /// The command that handles the item, after what has to be done elsewhere before it.
    async fn call(&self, cx: &ScanContext, partition: PartitionId, item: &Item, now: Time) -> Result<Call, Rejection> {
        let due = item.entry.at;
        let command = match (item.key, item.entry.timer()) {
            (Some(Key::Flow(flow)), Some(Timer::FlowVerify)) => flow_projector::count(cx, flow, due, now).await?,
            (Some(Key::Flow(flow)), Some(Timer::DependencyAudit)) => dependency_audit::look(cx, flow, due).await?,
            (Some(Key::Execution(id)), Some(Timer::GroupCancel)) if self.scanner == EdgeCancelReconciler::NAME => {
                Command::ReconcileGroup(ReconcileGroup { id, due, seen_at: now })
            }
            (Some(key @ Key::BulkJob(..)), Some(Timer::Bulk)) => bulk::advance(cx, key, due).await?,
            (Some(key), Some(timer)) if may_have(key.kind(), timer) => {
                let entropy = cx.shared.runtime.random();
                Command::Expire(Expire { key: Some(key), timer, due, entropy })
            }
            _ => self.drop_entry(cx, partition, item, "the entry names no record that could exist".into(), true),
        };
        Ok(engine_call(command))
    }

    fn drop_entry(&self, cx: &ScanContext, partition: PartitionId, item: &Item, error: Text, poison: bool) -> Command {
        Command::DropEntry(DropEntry {
            partition,
            entry: Some(item.entry.clone()),
            scanner: self.scanner.into(),
            error,
            poison,
            fresh: cx.shared.fresh_uuid(),
        })
    }

    /// Counts what became of an item, and keeps track of one that failed.
    async fn judge(
        &self,
        cx: &ScanContext,
        partition: PartitionId,
        item: &Item,
        answer: Result<Applied, Rejection>,
        left: &mut Left,
        report: &mut Report,
    ) {
        match answer.map(|applied| applied.reply) {
            Ok(Reply::Expired(Expired::Fired)) => {
                report.processed += 1;
                self.note_lateness(cx, item);
            }
            Ok(Reply::Expired(Expired::Stale)) => report.stale += 1,
            Ok(Reply::Expired(Expired::More)) => {
                report.processed += 1;
                left.more = true;
                self.note_lateness(cx, item);
            }
            Ok(Reply::Verified(verified)) => self.judge_count(cx, item, verified, report),
            Ok(Reply::Reconciled { action, flow }) => {
                cx.shared.telemetry.flows.reconciled(action);
                match action {
                    Reconciled::LeftAlone => left.alone += 1,
                    Reconciled::StaleRemoved | Reconciled::DrainCompleted => {
                        let (action, downstream) = (action.name(), item.key);
                        tracing::debug!(action, ?flow, ?downstream, "a group that owed cancels was settled");
                        report.processed += 1;
                    }
                }
            }
            // A poison entry was removed.
            Ok(_) => {
                tracing::warn!(scanner = self.scanner, %partition, entry = ?item.entry, "poison entry removed");
                report.poison += 1;
                report.errors += 1;
            }
            // No item's fault: the store or the loop could not take it.
            Err(Rejection::Busy { .. } | Rejection::Unavailable { .. }) => {
                report.errors += 1;
                left.stuck += 1;
            }
            Err(rejection) => {
                report.errors += 1;
                if !self.track(cx, partition, item, &rejection).await {
                    left.stuck += 1;
                }
            }
        }
    }

    /// Says when the pass goes on, and from where.
    fn leave(
        &self,
        cx: &ScanContext,
        partition: PartitionId,
        left: Left,
        last: Option<&Item>,
        now: Time,
        report: &mut Report,
    ) {
        if left.stuck > 0 {
            tracing::warn!(scanner = self.scanner, %partition, items = left.stuck, "items were left for later");
            for timer in self.timers {
                cx.shared.cursors.take((self.scanner, *timer, partition));
            }
            self.again_after(now, report);
            report.more = left.more;
        } else if left.alone > 0 && report.more {
            // They stay where they are: the next pass looks behind them.
            if let Some((timer, place)) = last.and_then(|item| Some((item.entry.timer()?, item.place.clone()))) {
                cx.shared.cursors.put((self.scanner, timer, partition), place);
            }
        } else if left.alone > 0 {
            self.again_after(now, report);
        } else {
            report.more |= left.more;
        }
    }

    fn judge_count(&self, cx: &ScanContext, item: &Item, verified: Verified, report: &mut Report) {
        match verified {
            Verified::Equal => report.processed += 1,
            Verified::Repaired => {
                cx.shared.telemetry.flows.repaired();
                tracing::warn!(flow = ?item.key, "the totals of a flow were wrong and have been set right");
                report.processed += 1;
            }
            // No verdict: the flow itself says when it is counted again.
            Verified::Doubtful | Verified::Moved => {}
            Verified::Stale => report.stale += 1,
        }
    }

    fn note_lateness(&self, cx: &ScanContext, item: &Item) {
        if let Some(meter) = cx.shared.telemetry.scanner(self.scanner) {
            meter.lateness.add_us(cx.shared.now().since(item.entry.at).saturating_mul(1_000));
        }
    }

    /// An item that was left is not looked at again before an interval has passed, so that exact waking cannot spin.
    fn again_after(&self, now: Time, report: &mut Report) {
        let next = now + self.interval_ms;
        report.next_due = Some(report.next_due.map_or(next, |due| due.min(next)));
    }

    /// Notes the failure on the item, or parks it if it does not decode. False if its entry is where it was.
    async fn track(&self, cx: &ScanContext, partition: PartitionId, item: &Item, rejection: &Rejection) -> bool {
        let (Some(key), Some(timer)) = (item.key, item.entry.timer()) else { return false };
        let damage = damage(cx, partition, key).await;
        let moves = damage.is_some() || is_tracked(key.kind());
        let command = match damage {
            Some(error) => self.drop_entry(cx, partition, item, error.to_string().into(), false),
            None => Command::RecordTrouble(RecordTrouble {
                key: Some(key),
                timer,
                due: item.entry.at,
                scanner: self.scanner.into(),
                interval_ms: self.interval_ms,
                error: cut(&rejection.to_string()).into(),
                fresh: cx.shared.fresh_uuid(),
            }),
        };
        tracing::warn!(scanner = self.scanner, item = ?key, %rejection, "could not handle an item");
        let answers = cx.shared.run(vec![Ok(engine_call(command))], Urgency::Urgent).await;
        match answers.into_iter().next() {
            Some(Err(error)) => {
                tracing::warn!(scanner = self.scanner, item = ?key, %error, "could not keep track of a failure");
                false
            }
            _ => moves,
        }
    }
}

/// What a pass could not get out of the way.
#[derive(Default)]
struct Left {
    /// Items that are somebody else's to handle.
    alone: u32,
    /// Items that nobody could handle now, whose entries are where they were.
    stuck: u32,
    /// An item has more to do at once.
    more: bool,
}

impl Item {
    fn of(entry: Entry) -> Self {
        Self { entry: due_entry(&entry), key: entry.key(), place: entry.place }
    }
}

/// Whether records of the kind can have the timer at all.
fn may_have(kind: Kind, timer: Timer) -> bool {
    use Timer::*;
    match timer {
        SealBy | FlowSeal | FlowEnding | FlowVerify | DependencyAudit | FlowPurge => kind == Kind::Flow,
        GroupCancel => kind == Kind::Execution,
        Resolve | Reopen | CancelChildren | Purge => kind == Kind::Continuation,
        Bulk => kind == Kind::BulkJob,
        _ => true,
    }
}

/// Kinds of records that keep account of failures, which moves their entries.
fn is_tracked(kind: Kind) -> bool {
    matches!(kind, Kind::Execution | Kind::Continuation | Kind::Flow | Kind::BulkJob)
}

/// Whether the record's bytes do not decode.
async fn damage(cx: &ScanContext, partition: PartitionId, key: Key) -> Option<DecodeError> {
    let parts = key.kind().table().light;
    let found = cx.shared.store.read(partition, vec![(key, parts)]).await.ok()?.found.pop()??;
    Record::decode(key, &found.parts, parts).err()
}

pub(super) fn engine_call(command: Command) -> Call {
    Call { principal: Principal::engine(), request_id: None, expected_revision: None, command }
}

fn due_at(entry: &Entry) -> Time {
    match entry.place.columns.get(1) {
        Some(Value::Int(at)) => Time::from_ms((*at).max(0) as u64),
        _ => Time::ZERO,
    }
}

fn due_entry(entry: &Entry) -> DueEntry {
    let timer = match entry.place.columns.first() {
        Some(Value::Int(timer)) => *timer as u8,
        _ => 0,
    };
    DueEntry { at: due_at(entry), timer, kind: entry.kind, key: entry.place.key.clone() }
}

fn cut(text: &str) -> &str {
    match text.char_indices().nth(ERROR_MAX) {
        Some((at, _)) => &text[..at],
        None => text,
    }
}
