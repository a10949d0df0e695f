//! Closing a batch, sending it, and what follows from the store's answer.
//!
//! Applied: everyone is answered. Conflict: the stale records are dropped and the commands run again. Lost: so do they
//! when the loss has been told. Not applied: callers are told to come back. Unknown: nothing else is committed until
//! `resolve` has said what happened.

use super::claims::Served;
use super::{Answer, CONTENDED, Effect, Item, Partition, RERUNS_MAX};
use crate::flow::wait_name;
use crate::notices::Notice;
use crate::telemetry::tally::Tally;
use std::collections::BTreeMap;
use weft_core::change::Head;
use weft_core::error::{BusyCause, Rejection};
use weft_core::planted::{self, Defect};
use weft_core::record::execution::{Execution, LeaseEnd, State};
use weft_core::record::{Key, Record};
use weft_core::schema::Timer;
use weft_core::text::Text;
use weft_core::tx::{List, Lookup, Overlay};
use weft_core::{CommitId, ExecutionId, Time};
use weft_store::{Error, Full, Outcome, Resolution};

const RESOLVE_FIRST_MS: u64 = 50;
const RESOLVE_MAX_MS: u64 = 1_000;

/// The batch that gathers.
#[derive(Default)]
pub struct Open {
    pub overlay: Overlay,
    pub done: Vec<(Item, Answer)>,
    pub served: Vec<Served>,
    /// A command waits that needs more room: take nothing more.
    pub closed: bool,
    /// A piece of left-over work was done in it.
    pub went_on: bool,
}

impl Open {
    /// An empty one, with the room that this one has taken: the next batch is often as large.
    fn like(&self) -> Self {
        let done = Vec::with_capacity(self.done.len());
        Self { overlay: Overlay::like(&self.overlay), done, ..Self::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.overlay.is_empty() && self.done.is_empty() && self.served.is_empty()
    }
}

/// Answers that may be sent.
pub struct Settled {
    pub done: Vec<(Item, Answer)>,
    pub served: Vec<Served>,
    /// What the commit behind them adds up to.
    pub tally: Option<Tally>,
}

/// The commit that is on its way, and the records as it will leave them.
pub struct Flying {
    id: CommitId,
    number: u64,
    expect: Head,
    now: Time,
    records: BTreeMap<Key, Option<Record>>,
    listed: BTreeMap<List, Vec<ExecutionId>>,
    due: BTreeMap<Timer, Time>,
    news: Vec<News>,
    pub(super) done: Vec<(Item, Answer)>,
    served: Vec<Served>,
    tally: Option<Tally>,
    sealed_us: u64,
    /// Since when its outcome is unknown, on the node's clock.
    unknown: Option<Unknown>,
    /// It raises the generation and does nothing else.
    pub(super) raise: bool,
}

struct Unknown {
    give_up_at: Time,
    delay_ms: u64,
    told: bool,
}

impl Flying {
    /// A commit that raises the generation: nobody waits for it.
    pub fn raise(id: CommitId, number: u64, expect: Head, now: Time) -> Self {
        Self {
            id,
            number,
            expect,
            now,
            records: BTreeMap::new(),
            listed: BTreeMap::new(),
            due: BTreeMap::new(),
            news: Vec::new(),
            done: Vec::new(),
            served: Vec::new(),
            tally: None,
            sealed_us: 0,
            unknown: None,
            raise: true,
        }
    }

    pub fn id(&self) -> CommitId {
        self.id
    }

    pub fn has(&self, key: &Key) -> bool {
        self.records.contains_key(key)
    }

    pub fn get(&self, key: &Key) -> Option<Lookup<'_>> {
        self.records.get(key).map(|record| match record {
            Some(record) => Lookup::Present { record, revision: self.id },
            None => Lookup::Absent,
        })
    }

    pub fn listed_in(&self, list: List) -> impl Iterator<Item = ExecutionId> {
        self.listed.get(&list).into_iter().flatten().copied()
    }

    pub fn holds_claim(&self, reference: &[u8; 32]) -> bool {
        self.served.iter().any(|served| served.reference() == Some(reference))
    }

    pub fn give_up_at(&self) -> Option<Time> {
        self.unknown.as_ref().filter(|unknown| !unknown.told).map(|unknown| unknown.give_up_at)
    }
}

impl Partition {
    /// Sends the open batch if nothing is on its way. True if a commit was sent.
    pub(super) fn seal(&mut self) -> bool {
        if self.flying.is_some() {
            return false;
        }
        if self.loss.is_pending() {
            return self.seal_raise();
        }
        if self.open.is_empty() {
            return false;
        }
        if !self.open.overlay.torn().is_empty() && !planted::on(Defect::FirstReadNotVerified) {
            self.mend_torn();
            return false;
        }
        let like = self.open.like();
        let open = std::mem::replace(&mut self.open, like);
        self.claims_waited = self.claims.has_fresh();
        self.left_waited = !self.left.is_empty() && !open.went_on;
        self.lists.begin_batch();
        if open.overlay.is_empty() {
            // Nothing to commit: these answers rest on what is committed already.
            self.cache.begin_batch();
            self.settled.push(Settled { done: open.done, served: open.served, tally: None });
            return false;
        }
        let id = CommitId(crate::engine::random_uuid(&*self.node.runtime));
        let news = self.news(&open.overlay);
        let listed = open.overlay.new_listed().clone();
        let leased: usize = open.served.iter().map(Served::leases).sum();
        let commands = (open.done.len() + leased) as u64;
        self.node.counters.commands.add(commands);
        self.node.telemetry.commits.commands.add(commands);
        let mut tally = Tally::of(open.overlay.events(), self.now);
        tally.flows.results = open.overlay.siblings();
        let (mut batch, records) = open.overlay.seal(id, self.head, false, self.now);
        batch.fast = batch.reads.iter().all(|(key, seen)| self.cache.is_current(key, *seen, self.foreign));
        tally.look_at(&batch.writes, &records);
        let left = left_over(&records, batch.now);
        self.cache.begin_batch();
        let mut due: BTreeMap<Timer, Time> = BTreeMap::new();
        for added in batch.writes.iter().flat_map(|write| &write.due_add) {
            due.entry(added.timer).and_modify(|at| *at = (*at).min(added.at)).or_insert(added.at);
        }
        let (mut done, mut served) = (open.done, open.served);
        if planted::on(Defect::AnswerBeforeCommit) {
            self.answer_all(std::mem::take(&mut done), std::mem::take(&mut served));
        }
        self.flying = Some(Flying {
            id,
            number: self.batch,
            expect: self.head,
            now: batch.now,
            records: records.into_iter().collect(),
            listed,
            due,
            news,
            done,
            served,
            tally: Some(tally),
            sealed_us: self.node.runtime.clock_us(),
            unknown: None,
            raise: false,
        });
        self.batch += 1;
        self.effects.push(Effect::Commit(batch));
        // Behind the commit that left it, like any command: if that does not happen, there is nothing to do. A node that
        // stops leaves it to the others, or to its next start.
        for (key, timer, due) in if self.stopping { Vec::new() } else { left } {
            self.go_on(key, timer, due);
        }
        true
    }

    /// What workers should know of this batch. Nobody is told before it is committed.
    fn news(&self, overlay: &Overlay) -> Vec<News> {
        if self.node.hub.mailboxes.is_empty() {
            return Vec::new();
        }
        let changed = overlay.changes().filter_map(|(key, after)| {
            let (Key::Execution(id), Some(Record::Execution(after))) = (key, after) else { return None };
            match self.cache.get(key) {
                Lookup::Present { record: Record::Execution(before), .. } => notice(*id, before, after),
                _ => None,
            }
        });
        changed.collect()
    }

    /// Tells those who wait for a change of what this commit left. Asked when it has happened and not when it was sent:
    /// who began to wait in between has read what was there before it.
    fn tell_waiting(&self, records: &BTreeMap<Key, Option<Record>>) {
        if !self.node.hub.is_waited_for() {
            return;
        }
        for (key, after) in records {
            match (key, after) {
                (Key::Execution(id), Some(Record::Execution(after))) => self.node.hub.changed(*id, after.is_done()),
                (Key::Execution(id), _) => self.node.hub.changed(*id, true),
                (Key::Flow(id), Some(Record::Flow(after))) => self.node.hub.changed(wait_name(*id), after.is_done()),
                (Key::Flow(id), _) => self.node.hub.changed(wait_name(*id), true),
                _ => {}
            }
        }
    }

    pub(super) fn answer_all(&mut self, done: Vec<(Item, Answer)>, served: Vec<Served>) {
        for (item, answer) in done {
            self.answer(&item, answer);
        }
        for served in served {
            served.answer();
        }
    }

    pub(super) fn committed(&mut self, outcome: Outcome) {
        let Some(mut flying) = self.flying.take() else { return };
        match outcome {
            Outcome::Applied { head } => self.applied(flying, head),
            Outcome::Conflict { keys, head } => {
                self.give_up_contended(&mut flying);
                self.node.counters.conflicts.add(1);
                self.foreign += 1;
                self.meet_head(head);
                if !planted::on(Defect::CacheKeptAfterConflict) {
                    self.forget(&keys);
                }
                self.run_again(flying);
            }
            Outcome::Lost { head } => {
                self.meet_loss(head);
                self.run_again(flying);
            }
            Outcome::NotApplied { retry_after_ms, source } => {
                self.node.counters.not_applied.add(1);
                if let Some(times) = self.complaints.voice(self.node.runtime.clock()) {
                    tracing::error!(partition = %self.id, error = %source, times, "the store took no commit; callers are told busy");
                }
                if flying.raise {
                    self.loss.put_off(self.node.runtime.clock(), retry_after_ms);
                }
                let cause = if source.is::<Full>() { BusyCause::StoreFull } else { BusyCause::StoreRefused };
                self.refuse(flying, Rejection::Busy { retry_after_ms, cause });
            }
            Outcome::Unknown { source } => {
                self.node.counters.unknown.add(1);
                tracing::warn!(partition = %self.id, commit = %flying.id, error = %source, "outcome unknown");
                self.begin_resolve(flying);
            }
        }
    }

    /// Counts a conflict on each command of a commit, and answers the scanners' commands that have had too many.
    fn give_up_contended(&mut self, flying: &mut Flying) {
        for (mut item, answer) in std::mem::take(&mut flying.done) {
            if item.reruns >= RERUNS_MAX && item.call.principal.is_engine() && !item.left_over {
                self.answer(&item, Err(CONTENDED));
            } else {
                item.reruns += 1;
                flying.done.push((item, answer));
            }
        }
    }

    fn begin_resolve(&mut self, mut flying: Flying) {
        if planted::on(Defect::UnknownTakenAsNotApplied) {
            return self.run_again(flying);
        }
        if planted::on(Defect::UnknownTakenAsApplied) {
            let head = Head { position: flying.expect.position.next(), last: flying.id, now: flying.now };
            return self.applied(flying, head);
        }
        let give_up_at = self.node.runtime.clock() + self.node.config.unknown_wait_ms;
        flying.unknown = Some(Unknown { give_up_at, delay_ms: RESOLVE_FIRST_MS, told: false });
        self.effects.push(Effect::Resolve { id: flying.id, after_ms: RESOLVE_FIRST_MS });
        self.flying = Some(flying);
    }

    pub(super) fn resolved(&mut self, resolution: Result<Resolution, Error>) {
        let Some(mut flying) = self.flying.take() else { return };
        match resolution {
            Ok(Resolution::Applied { position }) => {
                // Others may have written since; what is cached needs a check of its own.
                self.foreign += 1;
                let head = Head { position, last: flying.id, now: flying.now };
                self.applied(flying, head);
            }
            Ok(Resolution::NotApplied) => {
                self.foreign += 1;
                self.take_bar();
                self.run_again(flying);
            }
            Err(error) => {
                if let Some(times) = self.complaints.voice(self.node.runtime.clock()) {
                    tracing::warn!(partition = %self.id, commit = %flying.id, %error, times, "could not learn the outcome");
                }
                if let Some(unknown) = &mut flying.unknown {
                    unknown.delay_ms = (unknown.delay_ms * 2).min(RESOLVE_MAX_MS);
                    self.effects.push(Effect::Resolve { id: flying.id, after_ms: unknown.delay_ms });
                }
                self.flying = Some(flying);
            }
        }
    }

    /// Callers do not wait for ever: after a while they are told that the outcome is unknown.
    pub(super) fn give_up_unknown(&mut self, clock: Time) {
        let Some(flying) = &mut self.flying else { return };
        let Some(unknown) = flying.unknown.as_mut().filter(|unknown| !unknown.told && unknown.give_up_at <= clock)
        else {
            return;
        };
        unknown.told = true;
        let refusal = Rejection::Unavailable { retry_after_ms: 500, outcome_unknown: true };
        let (done, served) = (std::mem::take(&mut flying.done), std::mem::take(&mut flying.served));
        for (item, _) in done {
            self.answer(&item, Err(refusal.clone()));
        }
        for served in served {
            served.refuse(refusal.clone());
        }
    }

    /// Whether the callers of the commit that is on its way were told that its outcome is unknown.
    pub(super) fn is_given_up(&self) -> bool {
        self.flying.as_ref().and_then(|flying| flying.unknown.as_ref()).is_some_and(|unknown| unknown.told)
    }

    /// Refuses the calls behind a commit in flight that was given up: nothing of them was sent, and claims find work in other
    /// partitions.
    pub(super) fn refuse_behind(&mut self) {
        let refusal = Rejection::Unavailable { retry_after_ms: 500, outcome_unknown: false };
        if !self.open.is_empty() {
            self.take_back(Vec::new(), Vec::new());
            self.lists.clear();
            self.ready.clear();
            self.claims.retry_all();
        }
        self.stalled_jobs.clear();
        for item in std::mem::take(&mut self.stalled).into_iter().chain(std::mem::take(&mut self.queue)) {
            self.answer(&item, Err(refusal.clone()));
        }
        self.put_off_left(&refusal);
        self.refuse_hasty_claims();
    }

    fn applied(&mut self, flying: Flying, head: Head) {
        if head.position != flying.expect.position.next() {
            self.foreign += 1;
            self.lists.clear();
            if self.open.overlay.is_strict() {
                // It will expect a head that proves nothing: the other commits before that are not in the lists it rests on.
                self.take_back(Vec::new(), Vec::new());
                self.ready.clear();
                self.claims.retry_all();
            }
        }
        self.lists.extend(&flying.listed);
        self.take_own_head(head);
        if flying.raise {
            self.raised(head);
        } else {
            let took_us = self.node.runtime.clock_us().saturating_sub(flying.sealed_us);
            self.node.telemetry.commits.seconds.add_us(took_us);
        }
        if !self.node.description.exclusive {
            let named_max = self.named_max();
            self.loss.remember(head.position.seq, flying.records.iter(), named_max);
        }
        self.acked = flying.number;
        for (timer, at) in flying.due {
            if !(goes_on_at_once(timer) && at <= flying.now) {
                self.node.hub.hint(timer, self.id, at);
            }
        }
        self.tell_waiting(&flying.records);
        for (namespace, instance, notice) in flying.news {
            self.node.hub.mailboxes.notify(&namespace, &instance, notice);
        }
        for (key, record) in flying.records {
            if let Some(Record::Audit(entry)) = &record {
                self.node.hub.audit(entry);
            }
            self.cache.put(key, record.map(|record| (record, flying.id)), self.foreign, self.turn);
        }
        self.settled.push(Settled { done: flying.done, served: flying.served, tally: flying.tally });
        self.cache.trim();
        if self.node.description.partitions > 1 {
            self.node.heads.publish(self.id, &self.ready);
        }
        self.after_commit();
    }

    /// Nothing of the commit happened: its commands run again, those of the open batch too, which had built on it.
    fn run_again(&mut self, flying: Flying) {
        self.acked = flying.number;
        self.take_back(flying.done, flying.served);
        self.reset_after_failure();
    }

    /// Runs the open batch again after another node wrote a record between two commands that depend on it: a commit
    /// verifies only one of the two revisions, so this is a conflict known in advance.
    fn mend_torn(&mut self) {
        let torn: Vec<Key> = self.open.overlay.torn().iter().copied().collect();
        self.forget(&torn);
        self.take_back(Vec::new(), Vec::new());
        self.reset_after_failure();
    }

    /// Puts commands back to where they came from: first `done`, after it the open batch, after that what waits for records.
    /// Calls of one batch keep their order.
    pub(super) fn take_back(&mut self, done: Vec<(Item, Answer)>, served: Vec<Served>) {
        let open = std::mem::take(&mut self.open);
        self.put_stalled_back();
        for served in served.into_iter().chain(open.served).rev() {
            self.claims.give_back(served);
        }
        for (item, _) in done.into_iter().chain(open.done).rev() {
            self.effort.reruns += 1;
            self.put_back(item);
        }
    }

    fn refuse(&mut self, flying: Flying, refusal: Rejection) {
        self.acked = flying.number;
        for (item, _) in flying.done {
            self.answer(&item, Err(refusal.clone()));
        }
        for served in flying.served {
            served.refuse(refusal.clone());
        }
        self.take_back(Vec::new(), Vec::new());
        self.put_off_left(&refusal);
        self.reset_after_failure();
    }

    /// What the queues and scans know came from a state that does not exist.
    fn reset_after_failure(&mut self) {
        self.lists.clear();
        self.ready.clear();
        self.claims.retry_all();
        self.after_commit();
    }

    /// Whatever waited for the outcome of the commit goes on.
    fn after_commit(&mut self) {
        self.ready.acknowledged(self.acked);
        self.claims.retry_loading();
        if !self.stalled.is_empty() {
            self.unstall();
        }
        self.resume_claims();
    }
}

/// Work that a commit left and that this loop does by itself, in its next batches. The scanners look for it only if the
/// loop could not.
fn goes_on_at_once(timer: Timer) -> bool {
    matches!(
        timer,
        Timer::Resolve | Timer::Reopen | Timer::GroupCancel | Timer::FlowSeal | Timer::FlowEnding | Timer::FlowPurge
    )
}

fn left_over(records: &[(Key, Option<Record>)], now: Time) -> Vec<(Key, Timer, Time)> {
    let mut left = Vec::new();
    for (key, record) in records {
        let due = match record {
            Some(Record::Continuation(continuation)) => continuation.due(),
            Some(Record::Flow(flow)) => flow.due(),
            Some(Record::Execution(execution)) if execution.member().is_some() => execution.due(),
            _ => continue,
        };
        let at_once = due.into_iter().filter(|due| goes_on_at_once(due.timer) && due.at <= now);
        left.extend(at_once.map(|due| (*key, due.timer, due.at)));
    }
    left
}

/// What a commit is to tell this process of this namespace.
type News = (Text, Text, Notice);

/// What the holder of a lease should know: that it ended or should, unless the holder ended it itself.
fn notice(id: ExecutionId, before: &Execution, after: &Execution) -> Option<News> {
    let lease = before.lease()?;
    let epoch = lease.epoch;
    let notice = match &after.hot.state {
        State::Active { lease: current, cancel, .. } if current.epoch == epoch => {
            let asked = matches!(&before.hot.state, State::Active { cancel: Some(_), .. });
            let cancel = cancel.as_ref().filter(|_| !asked)?;
            let (reason, kill_at) = (cancel.reason.clone(), cancel.kill_at);
            Notice::CancelRequested { execution: id, epoch, reason, kill_at }
        }
        _ => match &after.hot.last_lease.as_ref().filter(|last| last.epoch == epoch)?.end {
            LeaseEnd::Completed { .. }
            | LeaseEnd::Failed(_)
            | LeaseEnd::Delayed { .. }
            | LeaseEnd::Children { .. }
            | LeaseEnd::CancelledByHolder { .. } => return None,
            LeaseEnd::Cancelled { reason, by } => {
                Notice::Cancelled { execution: id, epoch, reason: reason.clone(), by: by.clone() }
            }
            end => Notice::LeaseLost { execution: id, epoch, cause: end.cause() },
        },
    };
    Some((before.spec.namespace.clone(), lease.instance.clone(), notice))
}
