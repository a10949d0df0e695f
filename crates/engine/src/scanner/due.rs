//! One pass of a scanner over the due entries of one partition.

use super::edge_cancel_reconciler::EdgeCancelReconciler;
use super::{Report, ScanContext, Scanner, bulk, dependency_audit, flow_projector};
use crate::client::Urgency;
use crate::config::Filter;
use weft_core::apply::Applied;
use weft_core::change::DueEntry;
use weft_core::codec::DecodeError;
use weft_core::command::{Call, Command, DropEntry, Expire, Principal, ReconcileGroup, RecordTrouble};
use weft_core::error::Rejection;
use weft_core::record::{Key, Record};
use weft_core::reply::{Expired, Reconciled, Reply, Verified};
use weft_core::schema::{PartMask, Timer, Value};
use weft_core::text::Text;
use weft_core::{PartitionId, Time};
use weft_store::{Entry, Range, Scan, Target};

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
struct Item {
    entry: DueEntry,
    key: Option<Key>,
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
        let now = cx.shared.now();
        let mut report = Report::default();
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
        for (item, answer) in items.iter().zip(answers) {
            if cx.is_stopping() {
                break;
            }
            self.judge(cx, partition, item, answer, now, &mut report).await;
        }
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
            let mut after = None;
            let mut looked = 0;
            loop {
                let range = Range { prefix: vec![Value::Int(*timer as i64)], after, until: None };
                let scan = Scan {
                    target: Target::Due,
                    ranges: vec![range],
                    limit: self.batch + 1,
                    descending: false,
                    parts: None,
                };
                let page = cx.shared.store.scan(Some(partition), scan).await.ok()?.pop()?;
                looked += page.entries.len();
                after = page.entries.last().map(|entry| entry.place.clone());
                let (due, ahead): (Vec<Entry>, Vec<Entry>) =
                    page.entries.into_iter().partition(|entry| due_at(entry) <= now);
                let next = ahead.first().map(due_at);
                report.next_due = [report.next_due, next].into_iter().flatten().min();
                let found = due.len();
                let kept = self.select(cx, partition, due).await?;
                report.filtered += (found - kept.len()) as u32;
                let foreign_only = kept.is_empty() && page.more && ahead.is_empty();
                items.extend(kept);
                if items.len() > self.batch {
                    items.truncate(self.batch);
                    report.more = true;
                    return Some(items);
                }
                // Items of another filter are passed by cursor, so that nothing waits behind them.
                if !foreign_only || looked >= self.batch * LOOK_FACTOR {
                    report.more |= page.more && ahead.is_empty() && !foreign_only;
                    break;
                }
            }
        }
        Some(items)
    }

    /// Drops the items that the filter does not cover. Without a filter nothing is read for it.
    async fn select(&self, cx: &ScanContext, partition: PartitionId, due: Vec<Entry>) -> Option<Vec<Item>> {
        let items: Vec<Item> = due.iter().map(|entry| Item { entry: due_entry(entry), key: entry.key() }).collect();
        if self.filter.is_none() || items.is_empty() {
            return Some(items);
        }
        let keys: Vec<(Key, PartMask)> =
            items.iter().filter_map(|item| item.key).map(|key| (key, key.kind().table().light)).collect();
        let read = cx.shared.store.read(partition, keys.clone()).await.ok()?;
        let covered: Vec<Key> = keys
            .iter()
            .zip(read.found)
            .filter(|((key, parts), found)| {
                let record = found.as_ref().and_then(|found| Record::decode(*key, &found.parts, *parts).ok());
                record.is_some_and(|record| covers(&self.filter, &record))
            })
            .map(|((key, _), _)| *key)
            .collect();
        Some(items.into_iter().filter(|item| item.key.is_some_and(|key| covered.contains(&key))).collect())
    }

    /// The command that handles the item, after what has to be done elsewhere before it.
    async fn call(&self, cx: &ScanContext, partition: PartitionId, item: &Item, now: Time) -> Result<Call, Rejection> {
        let command = match (item.key, item.entry.timer()) {
            (Some(key), Some(Timer::FlowVerify)) => flow_projector::count(cx, key, item.entry.at, now).await?,
            (Some(key), Some(Timer::DependencyAudit)) => dependency_audit::look(cx, key, item.entry.at).await?,
            (Some(Key::Execution(id)), Some(Timer::GroupCancel)) if self.scanner == EdgeCancelReconciler::NAME => {
                Command::ReconcileGroup(ReconcileGroup { id })
            }
            (Some(key), Some(Timer::Bulk)) => bulk::advance(cx, key, item.entry.at).await?,
            (Some(key), Some(timer)) => {
                let entropy = cx.shared.runtime.random();
                Command::Expire(Expire { key: Some(key), timer, due: item.entry.at, entropy })
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
        now: Time,
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
                report.more = true;
                self.note_lateness(cx, item);
            }
            Ok(Reply::Verified(verified)) => self.judge_count(cx, item, verified, report),
            Ok(Reply::Reconciled(action)) => {
                cx.shared.telemetry.flows.reconciled(action);
                match action {
                    Reconciled::LeftAlone => {}
                    Reconciled::StaleRemoved | Reconciled::DrainCompleted => {
                        tracing::debug!(item = ?item.key, action = action.name(), "a group that owed cancels was settled");
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
                self.again_after(now, report);
            }
            Err(rejection) => {
                report.errors += 1;
                self.again_after(now, report);
                self.track(cx, partition, item, &rejection).await;
            }
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

    /// An item that failed is not due again before an interval has passed, so that exact waking cannot spin.
    fn again_after(&self, now: Time, report: &mut Report) {
        let next = now + self.interval_ms;
        report.next_due = Some(report.next_due.map_or(next, |due| due.min(next)));
        report.more = false;
    }

    async fn track(&self, cx: &ScanContext, partition: PartitionId, item: &Item, rejection: &Rejection) {
        let (Some(key), Some(timer)) = (item.key, item.entry.timer()) else { return };
        let damage = damage(cx, partition, key).await;
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
        if let Some(Err(error)) = answers.into_iter().next() {
            tracing::warn!(scanner = self.scanner, item = ?key, %error, "could not keep track of a failure");
        }
    }
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

fn covers(filter: &Filter, record: &Record) -> bool {
    let (namespace, tags) = match record {
        Record::Execution(execution) => (&execution.spec.namespace, Some(execution.tags())),
        Record::Dedup(dedup) => (&dedup.body.namespace, None),
        Record::Continuation(continuation) => (&continuation.body.namespace, None),
        Record::Worker(worker) => (&worker.body.namespace, None),
        Record::BulkJob(job) => (&job.definition().namespace, None),
        Record::Flow(flow) => (&flow.definition.namespace, Some(flow.tags())),
        Record::Edge(_) | Record::Tombstone(_) => return false,
        Record::Attempt(_) | Record::DeadLetter(_) | Record::Node(_) | Record::Step(_) => return false,
        Record::ApiKey(_) | Record::Audit(_) | Record::Register(_) => return false,
    };
    if filter.namespace.as_ref().is_some_and(|wanted| wanted != namespace) {
        return false;
    }
    match (&filter.tag, tags) {
        (None, _) => true,
        (Some((key, value)), Some(tags)) => tags.get(key) == Some(value),
        (Some(_), None) => false,
    }
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
