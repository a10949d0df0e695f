//! What callers were told. An acknowledged call must be in the store by then and stay true; a refused one must have
//! left no trace, then or later.
//!
//! Every call carries a token of its own where the engine keeps it: input, result, message, checkpoint, reason or tag.

use super::{Judge, Waiter};
use crate::log::hex;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use weft_core::command::Fence;
use weft_core::error::{Class, Rejection};
use weft_core::record::execution::{AfterFailure, LeaseEnd, Outcome, State};
use weft_core::record::{Key, Record};
use weft_core::reply::{Cancelled, Children, Claimed, RecordedStep, Renewed, StepValue, Submitted};
use weft_core::text::Text;
use weft_core::{ExecutionId, FlowId, LeaseId, PartitionId, Time};
use weft_engine::Answered;
use weft_engine::client::Completed;

/// A completion that is refused so soon after another worker got the execution met it at the closest.
const RIGHT_AFTER_MS: u64 = 2_000;

/// One call, over all its repeats.
#[derive(Clone, Debug)]
pub struct Note {
    pub verb: &'static str,
    pub token: Text,
    pub id: Option<ExecutionId>,
    pub fence: Option<Fence>,
    /// The fence was made up: no lease has it.
    pub forged: bool,
    /// The same verb was sent under this fence before.
    pub again: bool,
    /// How often it reached a node, and whether the fate of any of these is not known.
    pub delivered: u32,
    pub uncertain: bool,
    pub sent_ms: u64,
    /// What a submission binds itself to.
    pub key: Option<Bytes>,
    pub request: Option<Bytes>,
}

/// A success, as the caller got it.
#[derive(Clone, Debug)]
pub enum Ack {
    Submitted(Submitted),
    Claimed(Vec<Claimed>),
    Renewed(Renewed),
    Progressed(u64),
    Completed(Answered<Completed>),
    Recorded(Vec<RecordedStep>),
    Failed(AfterFailure),
    Delayed(Time),
    Children(Children),
    Cancelled(Cancelled),
    Tags,
    Priority(u32),
    Rescheduled(Time, Time),
    Revoked(u64),
    Held(bool),
    Released,
    Forced(Outcome),
    Purged,
    Replayed(u32),
}

#[derive(Default)]
pub struct Ledger {
    /// Calls by token, as they were sent last.
    pub sent: BTreeMap<Text, Note>,
    /// Tokens of calls that were refused for good.
    refused: BTreeSet<Text>,
    /// Executions for which somebody asked to purge.
    pub purges: BTreeSet<ExecutionId>,
    /// What every idempotency key and request id was answered with, and until when that holds.
    keys: BTreeMap<Bytes, (ExecutionId, u64)>,
    requests: BTreeMap<Bytes, ExecutionId>,
    /// (execution, generation, epoch) as handed to workers.
    handed: BTreeMap<(ExecutionId, u64, u64), LeaseId>,
    waits: u64,
    pub asked: u64,
    pub answered: u64,
}

impl Ledger {
    /// Forgets what was answered about executions that are lost, and which calls on the partition were refused: a commit
    /// that was on its way when the store lost the bar of it may still be carried out.
    pub(super) fn go_back(&mut self, partition: PartitionId, is_kept: impl Fn(&ExecutionId) -> bool) {
        self.keys.retain(|_, (id, _)| id.partition() != partition || is_kept(id));
        self.requests.retain(|_, id| id.partition() != partition || is_kept(id));
        let elsewhere = |note: &Note| note.id.is_some_and(|id| id.partition() != partition);
        self.refused.retain(|token| self.sent.get(token).is_some_and(elsewhere));
    }
}

impl Judge {
    /// A token was seen in a record or an event of the execution.
    pub(super) fn trace(&mut self, id: ExecutionId, token: Text) {
        if self.ledger.refused.contains(&token) {
            self.violation("RI-2", format!("`{token}` was refused, but left a trace"));
        }
        self.facts.traces.insert(token, id.partition());
    }

    pub fn register(&mut self, instance: Text, offer: super::Offer) {
        self.facts.offers.insert(instance, offer);
    }

    /// A call is about to be sent, once more or for the first time.
    pub fn sending(&mut self, note: &Note) {
        self.ledger.asked += 1;
        if note.verb == "purge" {
            self.ledger.purges.extend(note.id);
        }
        self.ledger.sent.insert(note.token.clone(), note.clone());
    }

    /// What share of the calls was answered at all.
    pub fn is_starved(&self) -> bool {
        self.ledger.answered * 2 < self.ledger.asked
    }

    /// A caller got an answer. `note` says what is known about the call, this delivery included.
    pub fn answered(&mut self, note: &Note, answer: &Result<Ack, Rejection>, now_ms: u64) {
        self.now_ms = now_ms;
        let target = note.id.map(|id| id.to_string()).unwrap_or_default();
        self.log.line(&format!("{now_ms} {} {} {target} {answer:?}", note.verb, note.token));
        match answer {
            Ok(ack) => {
                self.ledger.answered += 1;
                self.accepted(note, ack);
            }
            Err(rejection) => {
                if rejection.class() != Class::Later {
                    self.ledger.answered += 1;
                }
                self.refused(note, rejection);
            }
        }
    }

    /// The caller gave up on a call that was refused, for good.
    pub fn given_up(&mut self, note: &Note) {
        if !note.uncertain && !self.met_loss(note) {
            self.ledger.refused.insert(note.token.clone());
        }
    }

    fn refused(&mut self, note: &Note, rejection: &Rejection) {
        let (verb, token) = (note.verb, &note.token);
        match rejection {
            Rejection::Internal { what } => self.violation("SEC-18", format!("{verb} `{token}`: {what}")),
            Rejection::InvalidArgument { .. }
            | Rejection::OutOfRange { .. }
            | Rejection::PayloadTooLarge { .. }
            | Rejection::InvalidId { .. }
            | Rejection::FenceRequired
            | Rejection::Forbidden { .. } => {
                self.violation("EX-10", format!("{verb} `{token}` is well formed, but was told {rejection:?}"));
            }
            Rejection::Unavailable { outcome_unknown: true, .. } => return,
            _ => {}
        }
        if !note.uncertain && !self.met_loss(note) && self.facts.traces.contains_key(token) {
            self.violation("RI-2", format!("{verb} `{token}` was refused with {rejection:?}, but left a trace"));
        }
        if let (Some(id), Some(fence), "complete") = (note.id, note.fence, verb)
            && let Some(State::Active { lease, .. }) = self.execution(id).map(|execution| &execution.hot.state)
            && lease.epoch > fence.epoch
            && self.facts.leases.get(&lease.id).is_some_and(|fact| fact.acquired_ms + RIGHT_AFTER_MS > self.now_ms)
        {
            self.sometimes("completion by the zombie right after reclaim");
        }
    }

    fn accepted(&mut self, note: &Note, ack: &Ack) {
        if note.forged {
            self.violation("RI-7", format!("{} `{}` passed with a fence that no lease has", note.verb, note.token));
            return;
        }
        if note.id.is_some() && self.met_loss(note) {
            return;
        }
        match ack {
            Ack::Submitted(submitted) if self.lost_since(submitted.id.partition(), note.sent_ms) => {}
            Ack::Submitted(submitted) => self.accepted_submit(note, submitted),
            Ack::Claimed(works) => works.iter().for_each(|work| self.accepted_claim(note, work)),
            Ack::Renewed(_) | Ack::Progressed(_) | Ack::Children(Children::Decided { .. }) => self.accepted_held(note),
            Ack::Completed(completed) => self.accepted_complete(note, *completed),
            Ack::Recorded(steps) => self.accepted_record(note, steps),
            Ack::Failed(after) => self.accepted_end(note, |end| *end == LeaseEnd::Failed(*after)),
            Ack::Delayed(until) => self.accepted_end(note, |end| *end == LeaseEnd::Delayed { until: *until }),
            Ack::Children(Children::Waiting { .. }) => {
                self.accepted_end(note, |end| matches!(end, LeaseEnd::Children { .. }));
            }
            Ack::Cancelled(Cancelled::Done { .. }) => self.accepted_outcome(note, Outcome::Cancelled),
            Ack::Forced(outcome) => self.accepted_outcome(note, *outcome),
            Ack::Held(true) | Ack::Tags => self.accepted_trace(note),
            Ack::Revoked(epoch) => self.accepted_revoke(note, *epoch),
            Ack::Replayed(replays) => {
                let seen = note.id.and_then(|id| self.facts.replays.get(&id)).copied().unwrap_or(0);
                if seen < *replays {
                    self.untrue(note, format!("replay {replays} is not in the store"));
                }
            }
            Ack::Purged => {
                if !note.id.is_some_and(|id| self.facts.purged.contains(&id)) {
                    self.untrue(note, "it is still there");
                }
            }
            Ack::Cancelled(Cancelled::Requested { .. })
            | Ack::Priority(_)
            | Ack::Rescheduled(..)
            | Ack::Held(false)
            | Ack::Released => {}
        }
    }

    fn untrue(&mut self, note: &Note, what: impl std::fmt::Display) {
        let target = note.id.map(|id| id.to_string()).unwrap_or_default();
        self.violation("RI-1", format!("{} `{}` {target} was acknowledged, but {what}", note.verb, note.token));
    }

    /// A purge may have been in the very commit of the call, and have taken everything with it.
    fn is_purged(&self, note: &Note) -> bool {
        note.id.is_some_and(|id| self.facts.purged.contains(&id))
    }

    fn accepted_trace(&mut self, note: &Note) {
        if !self.is_purged(note) && !self.facts.traces.contains_key(&note.token) {
            self.untrue(note, "nothing of it is in the store");
        }
    }

    fn accepted_submit(&mut self, note: &Note, submitted: &Submitted) {
        let id = submitted.id;
        let Some(input) = self.facts.inputs.get(&id) else {
            return self.untrue(note, format!("{id} is not in the store"));
        };
        if !submitted.duplicate && input.as_deref() != Some(note.token.as_bytes()) {
            self.untrue(note, format!("{id} has another input"));
        }
        if submitted.duplicate {
            self.sometimes("duplicate submit");
        }
        let now_ms = self.now_ms;
        if let Some(key) = &note.key {
            // Bound for at least a minute, whatever becomes of the execution.
            let (first, until_ms) = *self.ledger.keys.entry(key.clone()).or_insert((id, note.sent_ms + 55_000));
            if first != id && now_ms < until_ms {
                self.violation("EX-77", format!("key {} stands for {first} and for {id}", hex(key)));
            }
        } else if submitted.duplicate {
            self.untrue(note, "it has no key that could be bound");
        }
        if let Some(request) = &note.request {
            let first = *self.ledger.requests.entry(request.clone()).or_insert(id);
            if first != id {
                self.violation("EX-76", format!("request {} was answered with {first} and with {id}", hex(request)));
            }
        }
    }

    /// Checks a flow whose submission was acknowledged. The flow and its members may be gone already: an empty flow
    /// without retention is purged before its client gets the reply.
    pub fn accepted_flow(&mut self, flow: FlowId, members: &[ExecutionId], sent_ms: u64, now_ms: u64) {
        self.now_ms = now_ms;
        self.log.line(&format!("{now_ms} submit_flow {flow} {}", members.len()));
        if self.lost_since(flow.partition(), sent_ms) {
            return;
        }
        if !self.facts.flows.contains(&flow) {
            self.violation("RI-1", format!("{flow} was acknowledged and was never stored"));
        }
        if let Some(member) = members.iter().find(|member| !self.facts.inputs.contains_key(member)) {
            self.violation("RI-1", format!("{member} of {flow} was acknowledged and was never stored"));
        }
    }

    fn accepted_claim(&mut self, note: &Note, work: &Claimed) {
        if self.lost_since(work.id.partition(), note.sent_ms) {
            return;
        }
        let known = self.facts.leases.get(&work.lease);
        let issued = known.map_or(0, |fact| fact.generation);
        if !known.is_some_and(|fact| fact.execution == work.id && fact.epoch == work.epoch) {
            let what = format!("lease {} of {} is not in the store", work.lease, work.id);
            return self.untrue(note, what);
        }
        if self.facts.inputs.get(&work.id) != Some(&work.input) {
            self.violation("E22", format!("{} was handed out with another input than it was submitted with", work.id));
        }
        if work.generation != issued {
            let what = format!("{} was handed out at generation {}, issued at {issued}", work.lease, work.generation);
            self.violation("RL-5", what);
        }
        let pair = (work.id, work.generation, work.epoch);
        let first = self.ledger.handed.insert(pair, work.lease).unwrap_or(work.lease);
        // Between a loss and its notice a pair can be issued again.
        if first != work.lease && self.facts.leases.contains_key(&first) {
            self.violation(
                "RI-6",
                format!("{} epoch {} was handed out as {first} and {}", work.id, work.epoch, work.lease),
            );
        }
        work.steps.iter().for_each(|step| self.check_told(work.id, step));
        let children = work.children.iter().flat_map(|children| &children.children);
        for child in children {
            if let (Some(Outcome::Success), Some(result)) = (child.outcome, &child.result)
                && !std::str::from_utf8(&result.bytes).is_ok_and(|token| self.facts.traces.contains_key(token))
            {
                self.violation("EX-48", format!("{} was handed a result of {} that nobody gave", work.id, child.id));
            }
        }
    }

    /// The lease must have been good at some moment since the call was sent.
    fn accepted_held(&mut self, note: &Note) {
        let Some((id, fence)) = note.id.zip(note.fence) else { return };
        let held = self.facts.leases.get(&fence.lease).is_some_and(|fact| {
            fact.execution == id
                && fact.epoch == fence.epoch
                && fact.ended_ms.is_none_or(|ended_ms| ended_ms >= note.sent_ms)
        });
        if !held {
            self.violation(
                "RI-7",
                format!("{} `{}` of {id} passed under a lease that had ended", note.verb, note.token),
            );
        }
    }

    fn accepted_end(&mut self, note: &Note, is_it: impl Fn(&LeaseEnd) -> bool) {
        let Some((id, fence)) = note.id.zip(note.fence).filter(|_| !self.is_purged(note)) else { return };
        let end = self.facts.ends.get(&(id, fence.epoch));
        if !end.is_some_and(|fact| fact.lease == fence.lease && is_it(&fact.end)) {
            let found = end.map(|fact| fact.end.clone());
            self.untrue(note, format!("its lease ended as {found:?}"));
        }
    }

    fn accepted_complete(&mut self, note: &Note, completed: Answered<Completed>) {
        let attempt = completed.attempt;
        self.accepted_end(note, |end| matches!(end, LeaseEnd::Completed { attempt: ended, .. } if *ended == attempt));
        let Some((id, fence)) = note.id.zip(note.fence) else { return };
        let first = note.delivered == 1 && !note.uncertain && !note.again;
        if completed.repeated && first {
            self.violation(
                "EX-22",
                format!("complete `{}` of {id} was sent once and answered as a repeat", note.token),
            );
        }
        let ended_ms = self.facts.ends.get(&(id, fence.epoch)).map(|fact| fact.at_ms);
        if !completed.repeated && ended_ms.is_some_and(|ended_ms| ended_ms < note.sent_ms) {
            self.violation("RI-7", format!("complete `{}` of {id} passed under a lease that had ended", note.token));
        }
        let stored = match self.records.get(&Key::Attempt(id, attempt)).map(|seen| &seen.record) {
            Some(Record::Attempt(attempt)) => attempt.result().cloned(),
            _ => return,
        };
        if !completed.repeated && !note.uncertain && stored.as_deref() != Some(note.token.as_bytes()) {
            self.untrue(note, format!("attempt {attempt} has the result {stored:?}"));
        }
    }

    /// What stands under the name is in the store, and is what was given unless the name was taken.
    fn accepted_record(&mut self, note: &Note, steps: &[RecordedStep]) {
        self.accepted_held(note);
        let Some(id) = note.id else { return };
        for recorded in steps {
            self.check_told(id, &recorded.step);
            let given = recorded.step.bytes == note.token.as_bytes();
            if !recorded.existed && !given {
                self.untrue(note, format!("step `{}` has another value", recorded.step.name));
            }
            if recorded.existed && given && note.delivered == 1 && !note.uncertain {
                self.violation("SDK-20", format!("step `{}` of {id} was there before it was sent", recorded.step.name));
            }
            if recorded.existed && !given {
                self.sometimes("a step was recorded before");
            }
        }
    }

    /// A step as a worker was told about it is the one in the store.
    fn check_told(&mut self, id: ExecutionId, told: &StepValue) {
        let stored = match self.records.get(&Key::Step(id, told.number)).map(|seen| &seen.record) {
            Some(Record::Step(step)) => StepValue::of(step),
            _ if self.facts.purged.contains(&id) => return,
            _ => return self.violation("SDK-20", format!("{id} has no step {}", told.number)),
        };
        if stored != *told {
            self.violation("SDK-20", format!("step {} of {id} is {stored:?}, told was {told:?}", told.number));
        }
    }

    fn accepted_outcome(&mut self, note: &Note, outcome: Outcome) {
        let Some(id) = note.id else { return };
        if !self.facts.outcomes.contains(&(id, outcome.name())) {
            self.untrue(note, format!("it was never {}", outcome.name()));
        }
    }

    fn accepted_revoke(&mut self, note: &Note, epoch: u64) {
        let Some(id) = note.id else { return };
        let end = self.facts.ends.get(&(id, epoch)).map(|fact| &fact.end);
        // If one commit revoked the lease and leased and ended the execution again, only the event names this end.
        let is_overtaken = end.is_none() && self.facts.traces.contains_key(&note.token);
        if !matches!(end, Some(LeaseEnd::Revoked { .. })) && !is_overtaken {
            let end = format!("{end:?}");
            self.untrue(note, format!("lease {epoch} ended as {end}"));
        }
    }

    /// A claim was repeated after its first reply had arrived: it must return those leases that are still good, and
    /// no other while any of them is.
    pub fn claim_repeated(&mut self, first: &[Claimed], again: &[Claimed]) {
        if first.iter().any(|work| !self.facts.leases.contains_key(&work.lease)) {
            // The store has lost a lease of them.
            return;
        }
        let good: BTreeSet<LeaseId> =
            first.iter().map(|work| work.lease).filter(|lease| self.is_good(*lease)).collect();
        if good.is_empty() {
            return;
        }
        self.sometimes("claim repeated with request id returns the same leases");
        let before: BTreeSet<LeaseId> = first.iter().map(|work| work.lease).collect();
        let after: BTreeSet<LeaseId> = again.iter().map(|work| work.lease).collect();
        if !after.is_superset(&good) || !after.is_subset(&before) {
            self.violation(
                "EX-36",
                format!("a repeated claim returned {after:?}, still good of the first are {good:?}"),
            );
        }
    }

    /// The lease is current and has not run out.
    fn is_good(&self, lease: LeaseId) -> bool {
        let Some(fact) = self.facts.leases.get(&lease) else { return false };
        let current = self.execution(fact.execution).and_then(|execution| execution.lease().cloned());
        current.is_some_and(|current| current.id == lease && current.expires_at.ms() > self.now_ms)
    }

    pub fn wait_begins(&mut self, instance: Text, now_ms: u64, wait_ms: u64) -> u64 {
        self.ledger.waits += 1;
        let waiter = Waiter { instance, since_ms: now_ms, until_ms: now_ms + wait_ms };
        self.log.remark(|| format!("{now_ms} {} begins to wait for {wait_ms} ms", waiter.instance));
        self.facts.waiters.insert(self.ledger.waits, waiter);
        self.ledger.waits
    }

    pub fn wait_ends(&mut self, number: u64) {
        self.facts.waiters.remove(&number);
    }

    /// Nothing that a waiting claim could take may lie there for longer than lost wake-ups are made good.
    pub fn check_waiters(&mut self, now_ms: u64, bound_ms: u64) {
        self.now_ms = now_ms;
        let long_ago = |since_ms: u64| since_ms + bound_ms < now_ms;
        let idle: Vec<_> = self.facts.waiters.values().filter(|waiter| long_ago(waiter.since_ms)).collect();
        let late = idle.iter().find(|waiter| waiter.until_ms + bound_ms < now_ms);
        let overdue = late.map(|waiter| format!("the claim of {} has not ended in time", waiter.instance));
        let left = self.facts.ready_since.iter().filter(|(_, since_ms)| long_ago(**since_ms));
        let missed = left.filter_map(|(id, _)| self.execution(*id)).find_map(|execution| {
            let fits =
                |waiter: &&&Waiter| self.facts.offers.get(&waiter.instance).is_some_and(|offer| offer.fits(execution));
            idle.iter().find(fits).map(|waiter| format!("{} is ready while {} waits", execution.id, waiter.instance))
        });
        for what in overdue.into_iter().chain(missed) {
            self.violation("S10", what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ri_1_a_flow_that_is_purged_before_its_client_hears_of_it_was_stored() {
        let flow = FlowId::new(PartitionId(0), uuid::Uuid::from_u128(1));
        let mut judge = Judge::default();
        judge.facts.flows.insert(flow);
        judge.accepted_flow(flow, &[], 1, 1);
        assert!(judge.record(&Key::Flow(flow)).is_none() && judge.violations().is_empty());

        let never = FlowId::new(PartitionId(0), uuid::Uuid::from_u128(2));
        judge.accepted_flow(never, &[], 1, 1);
        assert_eq!(judge.violations().len(), 1);
    }
}
