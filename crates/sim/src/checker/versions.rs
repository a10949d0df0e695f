//! What may become of a record in one commit: the old version, the new one and the events between them must agree.

use super::facts::{EndFact, Facts};
use super::{Judge, LeaseFact, Step};
use crate::client::MARK_TAG;
use std::collections::{BTreeMap, BTreeSet};
use weft_core::event::{Event, Fact};
use weft_core::invariant;
use weft_core::limits::POINT_MS;
use weft_core::record::attempt::Episode;
use weft_core::record::dedup::What;
use weft_core::record::execution::{Execution, HoldKey, Holds, Lease, LeaseEnd, Outcome, Reason, State, Why};
use weft_core::record::member::GroupState;
use weft_core::record::{Attempt, Key, Record};
use weft_core::text::Text;
use weft_core::{ExecutionId, Time};

/// How often each fact was told about one execution in one commit.
struct Tally {
    submitted: u32,
    claimed: u32,
    resumed: u32,
    retries: u32,
    finished: u32,
    replayed: u32,
    /// A skipped member waits again.
    reopened: u32,
    rescheduled: bool,
    released: bool,
    children_lifted: bool,
    purged: u32,
}

impl Tally {
    fn of(events: &[&Event]) -> Self {
        let count = |is: fn(&Fact) -> bool| events.iter().filter(|event| is(&event.fact)).count() as u32;
        Self {
            submitted: count(|fact| matches!(fact, Fact::Submitted { .. })),
            claimed: count(|fact| matches!(fact, Fact::Claimed { .. })),
            resumed: count(|fact| matches!(fact, Fact::Claimed { resumed: true, .. })),
            retries: count(|fact| matches!(fact, Fact::RetryScheduled { .. })),
            finished: count(|fact| matches!(fact, Fact::Finished { .. })),
            replayed: count(|fact| matches!(fact, Fact::Replayed { .. })),
            reopened: count(|fact| matches!(fact, Fact::HoldPlaced { hold } if **hold == *"dependencies")),
            rescheduled: count(|fact| matches!(fact, Fact::Rescheduled { .. })) > 0,
            released: count(|fact| matches!(fact, Fact::Released { .. })) > 0,
            children_lifted: count(|fact| matches!(fact, Fact::HoldLifted { .. })) > 0,
            purged: count(|fact| matches!(fact, Fact::Purged { .. })),
        }
    }
}

fn is_done(execution: Option<&Execution>) -> u32 {
    u32::from(execution.is_some_and(Execution::is_done))
}

/// Nothing of an end changes but when its record goes: a member waits for its flow.
fn is_same_end(old: &State, new: &State) -> bool {
    let end = |state: &State| match state {
        State::Done { outcome, reason, by, at, attempt, .. } => Some((*outcome, *reason, by.clone(), *at, *attempt)),
        _ => None,
    };
    end(old) == end(new)
}

fn timeout_due(execution: &Execution) -> Option<Time> {
    match &execution.hot.state {
        State::Active { timeout_due, .. } => *timeout_due,
        _ => None,
    }
}

fn holds(execution: &Execution) -> Option<&Holds> {
    match &execution.hot.state {
        State::Blocked { holds, .. } => Some(holds),
        State::Active { parked, .. } => Some(parked),
        _ => None,
    }
}

/// The time an unowned execution waits for, whatever else it waits for.
fn not_before(execution: &Execution) -> Option<Time> {
    match &execution.hot.state {
        State::Delayed { until, .. } => Some(*until),
        State::Blocked { not_before, .. } => not_before.map(|(at, _)| at),
        _ => None,
    }
}

impl Judge {
    pub(super) fn check_step(&mut self, step: &Step<'_>) {
        let tally = Tally::of(step.events);
        match step.new {
            None => self.check_removed(step, &tally),
            Some(new) => {
                self.check_counters(step, new, &tally);
                self.check_fixed(step, new);
                self.check_shape(step, new);
                self.check_done(step, new, &tally);
                self.check_leases(step, new, &tally);
                self.check_waits(step, new, &tally);
                self.check_tags(step, new.tags());
                self.note_traces(step, new);
            }
        }
        self.note_events(step);
        match step.new.filter(|new| Facts::is_ready(new)) {
            Some(_) => {
                let now_ms = self.now_ms;
                self.facts.ready_since.entry(step.id).or_insert(now_ms);
            }
            None => {
                self.facts.ready_since.remove(&step.id);
            }
        }
    }

    fn broken(&mut self, rule: &str, id: ExecutionId, what: impl std::fmt::Display) {
        self.violation(rule, format!("{id}: {what}"));
    }

    fn check_removed(&mut self, step: &Step<'_>, tally: &Tally) {
        if let Some(member) = step.old.and_then(Execution::member) {
            // Whether its flow was done is looked at when the flow's own record has been taken.
            self.facts.members_purged.push((step.id, member.flow));
        } else if let Some(old) = step.old {
            let due = matches!(&old.hot.state, State::Done { purge_at: Some(at), .. } if *at <= step.now);
            let asked = self.ledger.purges.contains(&step.id);
            if !old.is_done() && tally.finished == 0 {
                self.broken("RI-15", step.id, "was purged before it ended");
            } else if !due && !asked && tally.finished == 0 {
                self.broken("RI-15", step.id, "was purged before its time");
            }
        }
        if tally.purged != 1 && step.old.is_none_or(|old| old.member().is_none()) {
            self.broken("RI-19", step.id, format!("{} `purged` events for one purge", tally.purged));
        }
        self.facts.purged.insert(step.id);
        for event in step.events {
            if let Fact::Finished { outcome, .. } = &event.fact {
                self.facts.outcomes.insert((step.id, outcome.name()));
            }
        }
    }

    fn check_counters(&mut self, step: &Step<'_>, new: &Execution, tally: &Tally) {
        let zero = || (0, 0, 0, 0, 0);
        let counters = |execution: &Execution| {
            let hot = &execution.hot;
            (hot.epoch, hot.attempts, hot.replays, hot.retries_used, hot.reclaims)
        };
        let (old, new_counters) = (step.old.map_or_else(zero, counters), counters(new));
        let grew = |old: u64, new: u64, by: u32| new == old + u64::from(by);
        if !grew(old.0, new_counters.0, tally.claimed) {
            let what = format!("epoch {} to {} with {} claims", old.0, new_counters.0, tally.claimed);
            self.broken("E3", step.id, what);
        }
        if !grew(old.1.into(), new_counters.1.into(), tally.claimed - tally.resumed) {
            self.broken("E14", step.id, format!("attempts {} to {}", old.1, new_counters.1));
        }
        if !grew(old.2.into(), new_counters.2.into(), tally.replayed) {
            self.broken("E24", step.id, format!("replays {} to {}", old.2, new_counters.2));
        }
        if tally.replayed == 0 && !grew(old.3.into(), new_counters.3.into(), tally.retries) {
            self.broken("E14", step.id, format!("retries_used {} to {}", old.3, new_counters.3));
        }
        self.check_losses(step, old.4, new_counters.4);
        if tally.submitted != u32::from(step.old.is_none()) {
            self.broken("RI-19", step.id, format!("{} `submitted` events", tally.submitted));
        }
        if step.old.is_none() {
            if self.facts.purged.contains(&step.id) {
                self.broken("EX-83", step.id, "came back after its purge");
            }
            self.facts.inputs.insert(step.id, new.input().cloned());
            self.facts.bound_until.insert(step.id, new.hot.created_at + new.spec.policy.idempotency_ttl_ms);
        }
    }

    /// Every loss counts, but for the one that ends the execution: beyond the limit, or cancelled anyway.
    fn check_losses(&mut self, step: &Step<'_>, old: u32, new: u32) {
        let mut expected = old;
        for (at, event) in step.events.iter().enumerate() {
            match &event.fact {
                Fact::Replayed { .. } => expected = 0,
                Fact::LeaseLost { reclaims, .. } => {
                    let next = step.events.get(at + 1).map(|event| &event.fact);
                    let ends = matches!(
                        next,
                        Some(
                            Fact::Finished { reason: Reason::ReclaimLimit, .. }
                                | Fact::Finished { outcome: Outcome::Cancelled, .. }
                        )
                    );
                    // A cancel may also have come by itself, right after a loss that was counted.
                    expected = if ends { (*reclaims).clamp(expected, expected + 1) } else { expected + 1 };
                    if *reclaims != expected {
                        self.broken(
                            "EX-52",
                            step.id,
                            format!("`lease_lost` tells {reclaims} reclaims, not {expected}"),
                        );
                    }
                }
                _ => {}
            }
        }
        if new != expected {
            self.broken("EX-52", step.id, format!("reclaims {old} to {new}, not {expected}"));
        }
    }

    fn check_fixed(&mut self, step: &Step<'_>, new: &Execution) {
        let Some(old) = step.old else { return };
        if old.spec != new.spec || old.input() != new.input() || old.hot.created_at != new.hot.created_at {
            self.broken("E1", step.id, "a field that is fixed changed");
        }
    }

    fn check_shape(&mut self, step: &Step<'_>, new: &Execution) {
        if let Err(broken) = invariant::check(new, step.now) {
            self.broken(broken.id, step.id, broken.what);
        }
        if let State::Ready { since, order, .. } = &new.hot.state
            && *order != since.as_i64() - i64::from(new.hot.priority) * POINT_MS as i64
        {
            self.broken("E12", step.id, "the order key does not follow from priority and time");
        }
        if let State::Delayed { why: Why::ReclaimBackoff, .. } = &new.hot.state {
            self.sometimes("backoff after three lost leases");
        }
    }

    fn check_done(&mut self, step: &Step<'_>, new: &Execution, tally: &Tally) {
        if is_done(step.old) + tally.finished != tally.replayed + tally.reopened + is_done(step.new) {
            let what =
                format!("{} `finished` and {} `replayed` events do not lead here", tally.finished, tally.replayed);
            self.broken("RI-19", step.id, what);
        }
        if let Some(old) = step.old.filter(|old| old.is_done())
            && tally.replayed + tally.reopened == 0
            && !is_same_end(&old.hot.state, &new.hot.state)
        {
            self.broken(
                "RI-8",
                step.id,
                format!("a terminal state changed: {:?} to {:?}", old.hot.state, new.hot.state),
            );
        }
        for event in step.events {
            if let Fact::Finished { outcome, reason, .. } = &event.fact {
                self.facts.outcomes.insert((step.id, outcome.name()));
                self.check_finished(step, *outcome, *reason);
            }
        }
        let last = step.events.iter().rev().find_map(|event| match &event.fact {
            Fact::Finished { outcome, reason, attempt, .. } => Some((*outcome, *reason, *attempt, event.at)),
            _ => None,
        });
        if let (State::Done { outcome, reason, at, attempt, purge_at, .. }, Some(told)) = (&new.hot.state, last) {
            let due = new.spec.policy.retention_ms.map(|ms| *at + ms);
            let waits_for_flow = purge_at.is_none() && new.member().is_some();
            if told != (*outcome, *reason, *attempt, *at) || (*purge_at != due && !waits_for_flow) {
                self.broken("RI-19", step.id, "the `finished` event tells something else than the record");
            }
        }
    }

    fn check_finished(&mut self, step: &Step<'_>, outcome: Outcome, reason: Reason) {
        let Some(old) = step.old else { return };
        let deadline_due = old.hot.deadline_at.is_some_and(|at| at <= step.now);
        let timeout_due = timeout_due(old).is_some_and(|at| at <= step.now);
        match reason {
            Reason::Deadline if !deadline_due => self.broken("RI-10", step.id, "its deadline fired early"),
            Reason::AttemptTimeout if !timeout_due => self.broken("RI-10", step.id, "its timeout fired early"),
            Reason::ReclaimLimit => self.sometimes("reclaim limit hit"),
            _ => {}
        }
        if outcome == Outcome::Success && (deadline_due || timeout_due) {
            self.sometimes("timer due in the commit that disarms it");
        }
    }

    /// What the events of a commit show together.
    pub(super) fn check_batch_events(&mut self, events: &[Event]) {
        let finished = |wanted: fn(Outcome, Reason) -> bool| {
            events.iter().any(|event| match &event.fact {
                Fact::Finished { outcome, reason, .. } => wanted(*outcome, *reason),
                _ => false,
            })
        };
        if finished(|_, reason| reason == Reason::Deadline) && finished(|_, reason| reason == Reason::Worker) {
            self.sometimes("deadline and completion in one batch");
        }
    }

    fn check_leases(&mut self, step: &Step<'_>, new: &Execution, tally: &Tally) {
        let before = step.old.and_then(Execution::lease);
        let after = new.lease();
        match (before, after) {
            (Some(before), Some(after)) if before.id == after.id => self.check_kept(step, new, before, after),
            (before, after) => {
                if let (Some(old), Some(before)) = (step.old, before) {
                    self.check_ended(step, old, new, before, tally);
                }
                if let Some(after) = after {
                    self.check_issued(step, new, after);
                }
            }
        }
        if let Some(open) = &new.hot.open {
            self.note_episodes(step.id, &open.leases);
        }
        // A lease that was issued and ended in one commit is known by its end alone.
        if let Some(last) = &new.hot.last_lease
            && !self.facts.ends.contains_key(&(step.id, last.epoch))
        {
            let fact = EndFact { lease: last.id, end: last.end.clone(), at_ms: self.now_ms };
            self.facts.ends.insert((step.id, last.epoch), fact);
        }
    }

    /// Learns of leases that were issued and ended in one commit.
    fn note_episodes(&mut self, id: ExecutionId, episodes: &[Episode]) {
        let (now_ms, generation) = (self.now_ms, self.generation);
        for episode in episodes {
            self.facts.leases.entry(episode.lease).or_insert_with(|| LeaseFact {
                execution: id,
                epoch: episode.epoch,
                generation,
                acquired_ms: now_ms,
                ended_ms: Some(now_ms),
            });
        }
    }

    fn check_kept(&mut self, step: &Step<'_>, new: &Execution, before: &Lease, after: &Lease) {
        let same = before.epoch == after.epoch
            && before.instance == after.instance
            && before.acquired_at == after.acquired_at
            && after.expires_at >= before.expires_at;
        if !same {
            self.broken("EX-37", step.id, "a lease changed in more than a later end");
        }
        // Other commands of the commit may be later; a renewal and a progress tell their own time.
        let renewed_at = (after.expires_at != before.expires_at).then(|| after.expires_at - after.lease_ms);
        // Two renewals in one commit: the first may have made room for the second.
        if renewed_at.is_some_and(|at| at >= before.expires_at + before.lease_ms) {
            self.broken("E6", step.id, "was renewed under a lease that had run out");
        }
        let progress =
            new.hot.progress.as_ref().filter(|_| step.old.is_none_or(|old| old.hot.progress != new.hot.progress));
        if progress.is_some_and(|progress| progress.at >= after.expires_at) {
            self.broken("E6", step.id, "told its progress under a lease that had run out");
        }
        let saved = new.checkpoint().filter(|saved| step.old.is_none_or(|old| old.checkpoint() != Some(saved)));
        if saved.is_some_and(|saved| saved.at >= after.expires_at) {
            self.broken("E6", step.id, "saved a checkpoint under a lease that had run out");
        }
    }

    fn check_ended(&mut self, step: &Step<'_>, old: &Execution, new: &Execution, lease: &Lease, tally: &Tally) {
        if let Some(fact) = self.facts.leases.get_mut(&lease.id) {
            fact.ended_ms = Some(self.now_ms);
        }
        let Some(last) = new.hot.last_lease.as_ref().filter(|last| last.id == lease.id) else {
            if tally.claimed == 0 {
                self.broken("E2", step.id, "a lease is gone without a word about its end");
            }
            return;
        };
        let due = |at: Option<Time>| at.is_some_and(|at| at <= step.now);
        let lost_at =
            step.events.iter().find(|event| matches!(event.fact, Fact::LeaseLost { .. })).map(|event| event.at);
        let valid = lost_at.unwrap_or(last.at) < lease.expires_at;
        match &last.end {
            LeaseEnd::Completed { .. }
            | LeaseEnd::Failed(_)
            | LeaseEnd::Delayed { .. }
            | LeaseEnd::Children { .. }
            | LeaseEnd::CancelledByHolder { .. }
                if !valid =>
            {
                self.broken("EX-21", step.id, "a worker ended it under a lease that had run out");
            }
            LeaseEnd::Expired => {
                if valid {
                    self.broken("RI-10", step.id, "its lease was lost before it ran out");
                }
                if lease.expires_at == lease.acquired_at + lease.lease_ms {
                    self.sometimes("lease lost between claim and first renewal");
                }
            }
            LeaseEnd::TimedOut if !due(timeout_due(old)) => self.broken("RI-10", step.id, "its timeout fired early"),
            LeaseEnd::Deadline if !due(old.hot.deadline_at) => {
                self.broken("RI-10", step.id, "its deadline fired early");
            }
            _ => {}
        }
    }

    fn check_issued(&mut self, step: &Step<'_>, new: &Execution, lease: &Lease) {
        let fact = LeaseFact {
            execution: step.id,
            epoch: lease.epoch,
            generation: self.generation,
            acquired_ms: self.now_ms,
            ended_ms: None,
        };
        if self.facts.leases.insert(lease.id, fact).is_some() {
            self.broken("RL-5", step.id, "a lease id was used again");
        }
        if new.hot.deadline_at.is_some_and(|at| at <= step.now) {
            self.broken("EX-31", step.id, "was claimed although its deadline is due");
        }
        if !self.facts.offers.get(&lease.instance).is_some_and(|offer| offer.fits(new)) {
            self.broken("S3", step.id, format!("is held by {}, which did not ask for its like", lease.instance));
        }
    }

    fn check_waits(&mut self, step: &Step<'_>, new: &Execution, tally: &Tally) {
        let Some(old) = step.old else { return };
        if new.is_done() || tally.replayed + tally.reopened > 0 {
            return;
        }
        if let Some(at) = not_before(old).filter(|at| *at > step.now)
            && !tally.rescheduled
            && not_before(new) != Some(at)
        {
            self.broken("EX-14", step.id, format!("no longer waits for {at:?}, which is ahead"));
        }
        for key in [HoldKey::Operator, HoldKey::Children, HoldKey::Dependencies] {
            let had = holds(old).is_some_and(|holds| holds.get(key).is_some());
            let has = holds(new).is_some_and(|holds| holds.get(key).is_some());
            let lifted = match key {
                HoldKey::Operator => tally.released,
                HoldKey::Children => tally.children_lifted,
                HoldKey::Dependencies => new
                    .member()
                    .is_some_and(|member| member.groups.iter().all(|group| group.state == GroupState::Satisfied)),
            };
            if had && !has && !lifted {
                self.broken("EX-14", step.id, format!("lost its {key:?} hold, which nobody lifted"));
            }
        }
    }

    /// Attempt records are written once. What a worker reported must have come under the lease that the attempt had.
    pub(super) fn check_attempt(
        &mut self,
        id: ExecutionId,
        index: u32,
        old: Option<&Record>,
        new: Option<&Record>,
        purges: bool,
    ) {
        match (old, new) {
            (Some(Record::Attempt(old)), Some(Record::Attempt(new))) if old != new => {
                self.broken("E4", id, format!("attempt {index}, which had ended, changed"));
            }
            (_, None) => {
                let kept = self.records.contains_key(&Key::Execution(id));
                if kept && !purges {
                    self.broken("E4", id, format!("attempt {index} was removed"));
                }
            }
            (_, Some(Record::Attempt(new))) => {
                if !new.state.is_final() {
                    self.broken("E4", id, format!("attempt {index} is stored but has not ended"));
                }
                self.note_episodes(id, &new.leases);
                self.check_reported(id, new);
            }
            _ => {}
        }
    }

    fn check_reported(&mut self, id: ExecutionId, attempt: &Attempt) {
        let result = attempt.result().and_then(|bytes| std::str::from_utf8(bytes).ok()).map(Text::from);
        let message = attempt.failure.as_ref().map(|failure| failure.message.clone());
        for token in result.into_iter().chain(message) {
            let Some(call) = self.ledger.sent.get(&token) else { continue };
            let current = attempt.leases.last().map(|episode| (episode.lease, episode.epoch));
            let fence = call.fence.map(|fence| (fence.lease, fence.epoch));
            let right = call.id == Some(id) && (fence.is_none() || fence == current);
            if !right {
                let what =
                    format!("attempt {} took `{token}` under {fence:?}, its lease was {current:?}", attempt.index);
                self.broken("RI-7", id, what);
            }
            self.trace(id, token);
        }
    }

    /// The first write of a name wins: in a run no name has two steps, and a step never changes.
    pub(super) fn check_recorded(&mut self, id: ExecutionId, number: u32, old: Option<&Record>, new: Option<&Record>) {
        match (old, new) {
            (Some(Record::Step(old)), Some(Record::Step(new))) if old != new => {
                self.broken("SDK-20", id, format!("step {number} changed"));
            }
            (_, Some(Record::Step(step))) => {
                let name = (id, step.body.since, step.body.name.clone());
                let first = *self.facts.steps.entry(name).or_insert(number);
                if first != number {
                    self.broken("SDK-20", id, format!("steps {first} and {number} have one name"));
                }
                if let Ok(token) = std::str::from_utf8(step.value()) {
                    self.trace(id, token.into());
                }
            }
            (_, None) if self.records.contains_key(&Key::Execution(id)) => {
                self.broken("SDK-20", id, format!("step {number} was removed"));
            }
            _ => {}
        }
    }

    /// One key stands for one execution for as long as it is bound.
    pub(super) fn check_dedup(&mut self, key: Key, old: Option<&Record>, new: Option<&Record>, now: Time) {
        let bound = |record: Option<&Record>| match record {
            Some(Record::Dedup(dedup)) => match &dedup.body.what {
                What::Key { execution, .. } => Some((*execution, dedup.body.expires_at)),
                What::Request { .. } | What::Step { .. } | What::Flow { .. } => None,
            },
            _ => None,
        };
        if let Some((execution, expires_at)) = bound(old) {
            // A binding without an end of its own ends with the execution, but not before its time.
            let least = self.facts.bound_until.get(&execution).copied();
            let over = expires_at.or(least).is_some_and(|at| at <= now);
            if bound(new).map(|(execution, _)| execution) != Some(execution) && !over {
                self.violation("E21", format!("{key:?} no longer stands for {execution}"));
            }
        }
    }

    fn note_events(&mut self, step: &Step<'_>) {
        for event in step.events {
            match &event.fact {
                Fact::Replayed { replays, reason } => {
                    self.facts.replays.insert(step.id, *replays);
                    self.trace(step.id, reason.clone());
                }
                Fact::Held { reason }
                | Fact::TagsChanged { reason }
                | Fact::CancelRequested { reason, .. }
                | Fact::Revoked { reason, .. } => self.trace(step.id, reason.clone()),
                _ => {}
            }
        }
    }

    /// RI-1: the record has the last of several changes of a tag in one commit; the others are in the feed alone.
    fn check_tags(&mut self, step: &Step<'_>, tags: &BTreeMap<Text, Text>) {
        let last = step.events.iter().rev().find_map(|event| match &event.fact {
            Fact::TagsChanged { reason } => Some(reason),
            _ => None,
        });
        if let Some(token) = last.filter(|token| tags.get(MARK_TAG) != Some(token)) {
            self.broken("RI-1", step.id, format!("its tags do not show the change `{token}`"));
        }
    }

    /// Collects the tokens of calls that this version shows for the first time.
    fn note_traces(&mut self, step: &Step<'_>, new: &Execution) {
        let mut tokens: BTreeSet<Text> = BTreeSet::new();
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(Text::from);
        if step.old.is_none() {
            tokens.extend(new.input().and_then(|bytes| text(bytes)));
        }
        if step.old.map(Execution::checkpoint) != Some(new.checkpoint()) {
            tokens.extend(new.checkpoint().and_then(|checkpoint| text(&checkpoint.bytes)));
        }
        if step.old.map(Execution::actions) != Some(new.actions()) {
            tokens.extend(new.actions().kept.iter().map(|action| action.reason.clone()));
        }
        if step.old.map(Execution::tags) != Some(new.tags()) {
            tokens.extend(new.tags().values().cloned());
        }
        if let Some(forced) = new.forced_result() {
            tokens.extend(forced.bytes.as_ref().and_then(|bytes| text(bytes)));
        }
        for token in tokens {
            self.trace(step.id, token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::{ExecutionId, PartitionId};

    #[test]
    fn ri_1_the_last_of_two_changes_of_tags_in_a_commit_is_in_the_record() {
        let id = ExecutionId::new(PartitionId(0), uuid::Uuid::from_u128(1));
        let change = |token: &str| Event {
            at: Time::ZERO,
            execution: Some(id),
            flow: None,
            namespace: "sim".into(),
            lane: "a".into(),
            kind: "k".into(),
            epoch: 0,
            by: "t".into(),
            fact: Fact::TagsChanged { reason: token.into() },
        };
        let (first, second) = (change("t1"), change("t2"));
        for (stored, violations) in [("t2", 0), ("t1", 1)] {
            let mut judge = Judge::default();
            let step = Step { id, now: Time::ZERO, old: None, new: None, events: &[&first, &second] };
            judge.check_tags(&step, &BTreeMap::from([(MARK_TAG.into(), stored.into())]));
            assert_eq!(judge.violations().len(), violations, "{stored}: {:?}", judge.violations());
        }
    }
}
