//! One pass of a scanner over the due entries of one partition.

use super::edge_cancel_reconciler::EdgeCancelReconciler;
use super::{Report, ScanContext, Scanner, bulk, dependency_audit, flow_projector, selection, worker_reaper};
use crate::client::Urgency;
use crate::config::Filter;
use crate::worker::leases::Silent;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use weft_core::apply::Applied;
use weft_core::change::DueEntry;
use weft_core::codec::DecodeError;
use weft_core::command::{Call, Command, DropEntry, Expire, Principal, ReconcileGroup, RecordTrouble};
use weft_core::error::{BusyCause, Rejection};
use weft_core::limits::FAIL_THRESHOLD;
use weft_core::record::trouble::Failing;
use weft_core::record::{Key, Record};
use weft_core::reply::{Expired, Reconciled, Reply, Verified};
use weft_core::schema::{Kind, PartMask, Timer, Value};
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

/// Where the next pass of a duty continues if this one left entries in place: those of another filter,
/// that others handle, or that could not be handled. A pass that reaches the end begins from the start the next time.
#[derive(Default)]
pub struct Cursors(Mutex<BTreeMap<Duty, Cursor>>);

/// A scanner and a partition.
type Duty = (&'static str, PartitionId);

/// Where a pass goes on.
struct Cursor {
    at: Start,
    /// When the next entry is due that passes before the cursor have seen, none of which is looked at again.
    next_due: Option<Time>,
}

/// A timer of the scanner, and the entry of that timer after which the pass goes on; `None` for all its entries.
type Start = (Timer, Option<Place>);

impl Cursors {
    fn take(&self, duty: Duty) -> Option<Cursor> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&duty)
    }

    fn put(&self, duty: Duty, cursor: Cursor) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(duty, cursor);
    }
}

/// Items and entries left to a pass, over all its timers.
struct Budget {
    /// Items to handle.
    items: usize,
    /// Entries to look at.
    entries: usize,
}

impl Budget {
    fn is_spent(&self) -> bool {
        self.items == 0 || self.entries == 0
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

    /// Handles what is due now, timer by timer and in due order. The items of a page are one batch of commands.
    pub async fn run(self, cx: &ScanContext, partition: PartitionId) -> Report {
        let mut report = Report::default();
        let mut budget = Budget { items: self.batch, entries: self.batch * LOOK_FACTOR };
        let cursor = cx.shared.cursors.take((self.scanner, partition));
        // Entries before the cursor were left too.
        let mut left = Left { passed_by: cursor.is_some(), ..Left::default() };
        let (first, mut after) = match cursor {
            Some(Cursor { at: (timer, after), next_due }) => {
                report.next_due = next_due;
                (Some(timer), after)
            }
            None => (None, None),
        };
        for timer in self.timers.iter().skip_while(|timer| first.is_some_and(|first| first != **timer)) {
            let from = (*timer, after.take());
            if budget.is_spent() {
                self.interrupt(cx, partition, from, &left, &mut report);
                break;
            }
            if self.walk(cx, partition, from, &mut budget, &mut left, &mut report).await.is_none() {
                break;
            }
        }
        self.leave(cx, partition, left, &mut report);
        report
    }

    /// Handles the due entries of one timer, page by page. `None` if the pass ends here: it has done what one pass may do,
    /// the store does not answer, or the node stops.
    async fn walk(
        &self,
        cx: &ScanContext,
        partition: PartitionId,
        (timer, mut after): Start,
        budget: &mut Budget,
        left: &mut Left,
        report: &mut Report,
    ) -> Option<()> {
        loop {
            // A page of what is foreign or left shows no fewer entries because many items were handled before.
            let limit = self.batch.min(budget.entries);
            let before = after.clone();
            let (items, ahead, last, at_end) = self.page(cx, partition, timer, after.take(), limit, report).await?;
            let found = items.len();
            budget.entries = budget.entries.saturating_sub(found);
            report.next_due = [report.next_due, ahead].into_iter().flatten().min();
            let kept = match selection::select(cx, partition, &self.filter, items).await {
                Ok(kept) => kept,
                Err(error) => {
                    cx.unanswered(partition, &error);
                    report.errors += 1;
                    return None;
                }
            };
            report.filtered += (found - kept.len()) as u32;
            left.passed_by |= kept.len() < found;
            let begins = kept.len().min(budget.items);
            let outcomes = self.handle(cx, partition, &kept[..begins], left, report).await?;
            for gone in &outcomes {
                budget.items = budget.items.saturating_sub(usize::from(*gone));
                left.passed_by |= !gone;
            }
            if outcomes.len() < kept.len() {
                // The next pass goes on with the first item that was not begun: one that was left is not begun again at once.
                let begun = outcomes.len().checked_sub(1).map(|last| kept[last].place.clone());
                self.interrupt(cx, partition, (timer, begun.or(before)), left, report);
                return None;
            }
            let Some(last) = last.filter(|_| !at_end) else { return Some(()) };
            if budget.is_spent() {
                self.interrupt(cx, partition, (timer, Some(last)), left, report);
                return None;
            }
            after = Some(last);
        }
    }

    /// Ends a pass that has done what one pass may do. Without an entry that was left the next one begins from the start.
    fn interrupt(&self, cx: &ScanContext, partition: PartitionId, at: Start, left: &Left, report: &mut Report) {
        report.more = true;
        if left.passed_by {
            cx.shared.cursors.put((self.scanner, partition), Cursor { at, next_due: report.next_due });
        }
    }

    /// Due entries of a timer, when the next one is due, the place of the last entry, and whether it is the last due one.
    async fn page(
        &self,
        cx: &ScanContext,
        partition: PartitionId,
        timer: Timer,
        after: Option<Place>,
        limit: usize,
        report: &mut Report,
    ) -> Option<(Vec<Item>, Option<Time>, Option<Place>, bool)> {
        let range = Range { prefix: vec![Value::Int(timer as i64)], after, until: None };
        let scan = Scan { target: Target::Due, ranges: vec![range], limit, descending: false, parts: None };
        let page = match cx.shared.store.scan(Some(partition), scan).await {
            Ok(mut pages) => pages.pop().unwrap_or_default(),
            Err(error) => {
                cx.unanswered(partition, &error);
                report.errors += 1;
                return None;
            }
        };
        // A page without entries leads nowhere, whatever else it says.
        let last = page.entries.last().map(|entry| entry.place.clone());
        let old = Time::from_ms(cx.now().ms().saturating_sub(self.age_ms));
        let (due, ahead): (Vec<Entry>, Vec<Entry>) = page.entries.into_iter().partition(|entry| due_at(entry) <= old);
        let at_end = !page.more || !ahead.is_empty();
        Some((
            due.into_iter().map(Item::of).collect(),
            ahead.first().map(|entry| due_at(entry) + self.age_ms),
            last,
            at_end,
        ))
    }

    /// Sends the commands of these items. Returns for each whether its entry is gone, and fewer than there are items if
    /// the pass may do no more; `None` if the pass ends here.
    async fn handle(
        &self,
        cx: &ScanContext,
        partition: PartitionId,
        items: &[Item],
        left: &mut Left,
        report: &mut Report,
    ) -> Option<Vec<bool>> {
        let mut gone = Vec::with_capacity(items.len());
        let (mut called, mut calls) = (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
        for item in items {
            if cx.is_stopping() {
                return None;
            }
            if self.settle(cx, item, left, report).await {
                gone.push(true);
                continue;
            }
            let call = match self.call(cx, partition, item, &mut left.recounted).await {
                Ok(Step::Send(call)) => Ok(*call),
                Ok(Step::Leave) => {
                    report.errors += 1;
                    left.stuck += 1;
                    self.leave_overdue(cx, item);
                    gone.push(false);
                    continue;
                }
                Ok(Step::End) => break,
                Err(rejection) => Err(rejection),
            };
            // One wait for a store that does not answer is enough: the rest of the page is left to the next pass.
            let is_last = matches!(&call, Err(rejection) if is_outage(rejection));
            calls.push(call);
            called.push(item);
            if is_last {
                break;
            }
        }
        let answers = match calls.is_empty() {
            true => Vec::new(),
            false => cx.shared.run(calls, Urgency::Urgent).await,
        };
        let mut failed = Vec::new();
        for (item, answer) in called.into_iter().zip(answers) {
            match answer {
                Err(rejection) if is_failure(&rejection) => failed.push((item, rejection)),
                answer => gone.push(self.judge(cx, partition, item, answer, left, report)),
            }
        }
        if !failed.is_empty() {
            if cx.is_stopping() {
                return None;
            }
            gone.extend(self.judge_failed(cx, partition, failed, left, report).await);
        }
        // After a page whose commands the store did not take, the pass reads no further one.
        (left.stuck == 0 || !cx.is_unanswered()).then_some(gone)
    }

    /// Ends the leases of a worker process whose record owes that. False for every other item, and if some leases could
    /// not be searched or ended: the ordinary command then defers the process, because its leases are in all partitions
    /// and this one may be healthy. After a call that the store or a loop did not take, further processes of the pass are
    /// only deferred, so that a pass waits for an outage once and not once for each of them.
    async fn settle(&self, cx: &ScanContext, item: &Item, left: &mut Left, report: &mut Report) -> bool {
        let (Some(key @ Key::Worker(..)), Some(Timer::WorkerLeases)) = (item.key, item.entry.timer()) else {
            return false;
        };
        if left.unsettled {
            return false;
        }
        match worker_reaper::settle(cx, key, &mut left.silent).await {
            Ok(Some(looked)) if looked.is_partial => {
                report.errors += 1;
                looked.more
            }
            Ok(Some(_)) => {
                report.processed += 1;
                self.note_lateness(cx, item);
                true
            }
            Ok(None) => false,
            Err(rejection) => {
                tracing::warn!(scanner = self.scanner, worker = ?key, %rejection, "could not end the leases of a worker");
                report.errors += 1;
                left.unsettled = is_outage(&rejection);
                false
            }
        }
    }

    /// Prepares the command that handles the item, with the calls that have to come first. The pass has to end before
    /// an item that would recount too many members.
    async fn call(
        &self,
        cx: &ScanContext,
        partition: PartitionId,
        item: &Item,
        recounted: &mut usize,
    ) -> Result<Step, Rejection> {
        let (due, now) = (item.entry.at, cx.now());
        let command = match (item.key, item.entry.timer()) {
            (Some(Key::Flow(flow)), Some(Timer::FlowVerify)) => {
                match flow_projector::count(cx, flow, due, now, recounted).await? {
                    Some(command) => command,
                    None => return Ok(Step::End),
                }
            }
            (Some(Key::Flow(flow)), Some(Timer::DependencyAudit)) => dependency_audit::look(cx, flow, due).await?,
            (Some(Key::Execution(id)), Some(Timer::GroupCancel)) if self.scanner == EdgeCancelReconciler::NAME => {
                Command::ReconcileGroup(ReconcileGroup { id, due, seen_at: now })
            }
            (Some(key @ Key::BulkJob(..)), Some(Timer::Bulk)) => match bulk::advance(cx, key, due).await? {
                Some(command) => command,
                None => return Ok(Step::Leave),
            },
            (Some(key), Some(timer)) if may_have(key.kind(), timer) => {
                let entropy = cx.shared.runtime.random();
                Command::Expire(Expire { key: Some(key), timer, due, entropy })
            }
            _ => self.drop_entry(partition, item, "the entry names no record that could exist".into(), true),
        };
        Ok(Step::Send(Box::new(engine_call(command))))
    }

    fn drop_entry(&self, partition: PartitionId, item: &Item, error: Text, poison: bool) -> Command {
        Command::DropEntry(DropEntry {
            partition,
            entry: Some(item.entry.clone()),
            scanner: self.scanner.into(),
            error,
            poison,
        })
    }

    /// Counts what became of an item that did not fail. True if its entry is gone.
    fn judge(
        &self,
        cx: &ScanContext,
        partition: PartitionId,
        item: &Item,
        answer: Result<Applied, Rejection>,
        left: &mut Left,
        report: &mut Report,
    ) -> bool {
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
                    Reconciled::LeftAlone => return false,
                    Reconciled::StaleRemoved | Reconciled::DrainCompleted => {
                        let (action, downstream) = (action.name(), item.key);
                        let scanner = self.scanner;
                        tracing::debug!(scanner, action, ?flow, ?downstream, "a group that owed cancels was settled");
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
            // Nothing is wrong with it: a node of the version that wrote it handles it.
            Err(rejection @ (Rejection::NewerFormat { .. } | Rejection::UnknownPolicy { .. })) => {
                self.leave_to_newer(cx, item, &rejection, report);
                return false;
            }
            // Other writers keep changing its records. The next pass meets it again.
            Err(Rejection::Busy { cause: BusyCause::Contended, .. }) => {
                self.leave_overdue(cx, item);
                return false;
            }
            // No item's fault: the store or the loop could not take it.
            Err(rejection) => {
                cx.unanswered(partition, &rejection);
                report.errors += 1;
                left.stuck += 1;
                return false;
            }
        }
        true
    }

    /// Counts items that failed and keeps track of them: accounts are written as one batch, and a record that does not decode
    /// is parked. Returns for each item whether its entry is gone.
    async fn judge_failed(
        &self,
        cx: &ScanContext,
        partition: PartitionId,
        failed: Vec<(&Item, Rejection)>,
        left: &mut Left,
        report: &mut Report,
    ) -> Vec<bool> {
        let damages = damages(cx, partition, failed.iter().filter_map(|(item, _)| item.key).collect()).await;
        let (mut newer, mut gone, mut tracked, mut commands) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (item, rejection) in failed {
            let damage = match (&damages, item.key) {
                (Some(damages), Some(key)) => damages.get(&key),
                _ => None,
            };
            if let Some(error) = damage.filter(|error| error.is_newer || error.is_unknown_policy) {
                self.leave_to_newer(cx, item, error, report);
                newer.push(false);
                continue;
            }
            report.errors += 1;
            let is_parked = match (damage, self.trouble(cx, item, &rejection)) {
                (Some(error), _) => self.park(cx, partition, item, error).await,
                (None, Some(command)) if damages.is_some() => {
                    tracing::warn!(scanner = self.scanner, item = ?item.key, %rejection, "could not handle an item");
                    tracked.push(item);
                    commands.push(command);
                    continue;
                }
                // The store does not answer, or there is no record to keep an account on.
                _ => false,
            };
            gone.push((item, is_parked));
        }
        for (item, (key, reply)) in tracked.into_iter().zip(self.send(cx, partition, commands).await) {
            if let Some(Reply::Failing(failing)) = &reply {
                self.tell_pause(key, failing);
            }
            gone.push((item, reply.is_some() && key.kind().keeps_account()));
        }
        for (item, _) in gone.iter().filter(|(_, is_gone)| !is_gone) {
            left.stuck += 1;
            self.leave_overdue(cx, item);
        }
        newer.into_iter().chain(gone.into_iter().map(|(_, is_gone)| is_gone)).collect()
    }

    /// Leaves an item, with its entry and its bytes, to a node of the version that wrote it.
    fn leave_to_newer(&self, cx: &ScanContext, item: &Item, why: &dyn Display, report: &mut Report) {
        cx.shared.silences.warn_newer(cx.shared.runtime.clock(), self.scanner, item.key, why);
        report.newer += 1;
    }

    /// Notes that an item of this scanner stays where it is, so that its age is seen as lag.
    fn leave_overdue(&self, cx: &ScanContext, item: &Item) {
        cx.leaves_overdue(item.entry.at + self.age_ms);
    }

    /// Sets when the next pass of the duty begins.
    fn leave(&self, cx: &ScanContext, partition: PartitionId, left: Left, report: &mut Report) {
        report.more |= left.more;
        if left.stuck > 0 {
            tracing::warn!(scanner = self.scanner, %partition, items = left.stuck, "items were left for later");
        }
        if cx.is_unanswered() {
            cx.shared.cursors.take((self.scanner, partition));
            report.more = false;
        }
        if left.passed_by || left.stuck > 0 {
            cx.leaves();
            // An item that was left is not looked at again before an interval has passed, so that exact waking cannot spin.
            let next = cx.now() + self.interval_ms;
            report.next_due = Some(report.next_due.map_or(next, |due| due.min(next)));
        }
    }

    fn judge_count(&self, cx: &ScanContext, item: &Item, verified: Verified, report: &mut Report) {
        match verified {
            Verified::Equal => report.processed += 1,
            Verified::Repaired => {
                cx.shared.telemetry.flows.repaired();
                let scanner = self.scanner;
                tracing::warn!(scanner, flow = ?item.key, "the totals of a flow were wrong and have been set right");
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

    /// The command that writes the failure into the record of the item.
    fn trouble(&self, cx: &ScanContext, item: &Item, rejection: &Rejection) -> Option<(Key, Command)> {
        let (key, timer) = item.key.zip(item.entry.timer())?;
        let command = Command::RecordTrouble(RecordTrouble {
            key: Some(key),
            timer,
            due: item.entry.at,
            scanner: self.scanner.into(),
            interval_ms: self.interval_ms,
            error: cut(&rejection.to_string()).into(),
            fresh: cx.shared.fresh_uuid(),
        });
        Some((key, command))
    }

    /// Parks an item whose record does not decode: its entry goes, and a dead letter says why. False if the entry is where
    /// it was.
    async fn park(&self, cx: &ScanContext, partition: PartitionId, item: &Item, error: &DecodeError) -> bool {
        let Some(key) = item.key else { return false };
        let command = self.drop_entry(partition, item, error.to_string().into(), false);
        self.send(cx, partition, vec![(key, command)]).await.iter().all(|(_, reply)| reply.is_some())
    }

    /// Sends commands that keep track of failed items, as one batch; the reply is `None` for each that was not taken.
    async fn send(
        &self,
        cx: &ScanContext,
        partition: PartitionId,
        commands: Vec<(Key, Command)>,
    ) -> Vec<(Key, Option<Reply>)> {
        let (keys, calls): (Vec<Key>, Vec<_>) =
            commands.into_iter().map(|(key, command)| (key, Ok(engine_call(command)))).unzip();
        let answers = match calls.is_empty() {
            true => Vec::new(),
            false => cx.shared.run(calls, Urgency::Urgent).await,
        };
        let taken = keys.into_iter().zip(answers).map(|(key, answer)| {
            let reply = answer.inspect_err(|error| {
                if is_outage(error) {
                    cx.unanswered(partition, error);
                }
                tracing::warn!(scanner = self.scanner, item = ?key, %error, "could not keep track of a failure");
            });
            (key, reply.ok().map(|applied| applied.reply))
        });
        taken.collect()
    }

    /// Logs every third failure in a row of an item that is not parked.
    fn tell_pause(&self, key: Key, failing: &Failing) {
        let (scanner, failures, error) = (self.scanner, failing.fails, &failing.last_error);
        let pause_ms = failing.next_try_at.since(failing.last_at);
        if !failing.parked && failures.is_multiple_of(FAIL_THRESHOLD) {
            tracing::error!(scanner, item = ?key, failures, pause_ms, %error, "an item keeps failing");
        }
    }
}

/// What a pass does about an item.
enum Step {
    Send(Box<Call>),
    /// Another partition, which the item waits for, cannot take its command now: the item stays where it is.
    Leave,
    /// The item is more than the pass may still do.
    End,
}

/// What a pass could not get out of the way.
#[derive(Default)]
struct Left {
    /// Entries were left in place: others handle their items, or the items could not be handled.
    passed_by: bool,
    /// Items that nobody could handle now, whose entries are where they were.
    stuck: u32,
    /// An item has more to do at once.
    more: bool,
    /// Members of flows that the pass has recounted.
    recounted: usize,
    /// Partitions that did not answer a search for leases.
    silent: Silent,
    /// Leases of a process could not be ended because the store or a loop did not take a call.
    unsettled: bool,
}

impl Item {
    fn of(entry: Entry) -> Self {
        Self { entry: due_entry(&entry), key: entry.key(), place: entry.place }
    }
}

/// Whether records of the kind can have the timer at all.
pub(super) fn may_have(kind: Kind, timer: Timer) -> bool {
    use Timer::*;
    match timer {
        SealBy | FlowSeal | FlowEnding | FlowVerify | DependencyAudit | FlowPurge => kind == Kind::Flow,
        Lease | AttemptTimeout | Until | CancelGrace | ChildrenTimeout | GroupCancel => kind == Kind::Execution,
        Deadline => matches!(kind, Kind::Execution | Kind::Flow),
        Resolve | Reopen | CancelChildren | Purge => kind == Kind::Continuation,
        Bulk => kind == Kind::BulkJob,
        Worker | WorkerLeases => kind == Kind::Worker,
        Retention => matches!(
            kind,
            Kind::Execution | Kind::Flow | Kind::BulkJob | Kind::Dedup | Kind::DeadLetter | Kind::Node | Kind::Audit
        ),
    }
}

/// Whether the store or a loop could not take a call, which is no fault of what the call is about.
pub(super) fn is_outage(rejection: &Rejection) -> bool {
    match rejection {
        Rejection::Busy { cause, .. } => *cause != BusyCause::Contended,
        rejection => matches!(rejection, Rejection::Unavailable { .. }),
    }
}

/// Whether the item itself is why its command was refused: its failure is kept on it, or it is parked.
fn is_failure(rejection: &Rejection) -> bool {
    let is_left = matches!(
        rejection,
        Rejection::NewerFormat { .. }
            | Rejection::UnknownPolicy { .. }
            | Rejection::Busy { cause: BusyCause::Contended, .. }
    );
    !is_left && !is_outage(rejection)
}

/// The records under `keys` that do not decode, each with its error; `None` if the store does not answer. Reads every part: a
/// command may have failed on a part that most commands do not load.
async fn damages(cx: &ScanContext, partition: PartitionId, keys: BTreeSet<Key>) -> Option<BTreeMap<Key, DecodeError>> {
    let wanted = keys.iter().map(|key| (*key, PartMask::ALL)).collect();
    let read = cx.shared.store.read(partition, wanted).await;
    let read = read.inspect_err(|error| cx.unanswered(partition, error)).ok()?;
    let found = keys.into_iter().zip(read.found).filter_map(|(key, found)| Some((key, found?)));
    let damaged = found.filter_map(|(key, found)| Some((key, Record::decode(key, &found.parts, PartMask::ALL).err()?)));
    Some(damaged.collect())
}

pub(super) fn engine_call(command: Command) -> Call {
    Call { principal: Principal::engine(), request_id: None, expected_revision: None, command }
}

/// When an entry is due. One without columns, which the store could not read, is due at once.
pub(super) fn due_at(entry: &Entry) -> Time {
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
