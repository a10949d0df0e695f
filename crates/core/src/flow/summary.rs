//! The exact totals of a flow: what a command changed in members and edges, added up behind it.

use crate::id::FlowId;
use crate::limits::{AUDIT_FIRST_MS, VERIFY_AFTER_MS};
use crate::record::execution::{Execution, PublicState, State};
use crate::record::flow::{Flow, Purging, Remaining, Summary};
use crate::record::member::{is_failure, is_neutral};
use crate::record::{Key, Record, Tombstone};
use crate::schema::{Kind, PartMask};
use crate::time::Time;
use crate::tx::{Stop, Tx};
use std::collections::BTreeMap;

/// What one member counts for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    state: PublicState,
    neutral: bool,
    against: bool,
    attempts: u32,
    retries: u32,
    unsealed: bool,
    started_at: Option<Time>,
}

impl Account {
    pub fn of(execution: &Execution) -> Option<(FlowId, Self)> {
        let member = execution.member()?;
        let (neutral, against) = match execution.hot.state {
            State::Done { outcome, reason, .. } => {
                (is_neutral(outcome, reason), member.critical && is_failure(outcome, reason))
            }
            _ => (false, false),
        };
        let account = Account {
            state: execution.public_state(),
            neutral,
            against,
            attempts: execution.hot.attempts,
            retries: execution.hot.retries_used,
            unsealed: super::group::hold(execution).is_some_and(|(_, sealed)| !sealed),
            started_at: execution.hot.first_started_at,
        };
        Some((member.flow, account))
    }

    /// Whether a live member with this account is one that the flow's end has to cancel.
    fn is_owed(&self, remaining: Remaining, unsealed: bool) -> bool {
        if self.state.is_terminal() {
            return false;
        }
        match remaining {
            Remaining::Cancel(_) => true,
            Remaining::FinishActive => self.state != PublicState::Active,
            Remaining::LetRun => unsealed && self.unsealed,
        }
    }

    /// Adds what it counts for to totals that are counted anew.
    pub fn count(&self, into: &mut Summary) {
        into.total_members += 1;
        into.by_state[self.state as usize] += 1;
        into.members_neutral += u32::from(self.neutral);
        into.failures += u32::from(self.against);
        into.attempts += u64::from(self.attempts);
    }
}

/// Adds a member to totals that are counted anew.
pub fn recount(execution: &Execution, into: &mut Summary) {
    if let (Some((_, account)), Some(member)) = (Account::of(execution), execution.member()) {
        account.count(into);
        // Each edge is counted where it leaves; whether it is pending, where it leads to.
        into.edges_total += u64::from(member.outs);
        into.edges_pending += u64::from(member.pending());
    }
}

/// Adds what is left of a purged member.
pub fn recount_purged(stone: &Tombstone, into: &mut Summary) {
    let (outcome, reason) = (stone.body.outcome, stone.body.reason);
    into.total_members += 1;
    into.by_state[PublicState::of_end(outcome) as usize] += 1;
    into.members_neutral += u32::from(is_neutral(outcome, reason));
    into.failures += u32::from(stone.body.critical && is_failure(outcome, reason));
    into.members_purged += 1;
    // Nothing that leads to it is pending: it went when its flow was done, and no edge leads to it since.
    into.edges_total += u64::from(stone.body.outs);
}

#[derive(Default)]
struct Delta {
    members: Vec<(Option<Account>, Option<Account>)>,
    purged: u32,
    edges: i64,
    pending: i64,
}

/// Brings the flows of all written members and edges up to date; those that changed.
pub(crate) fn bring_up_to_date(tx: &mut Tx<'_>) -> Result<Vec<FlowId>, Stop> {
    let mut deltas: BTreeMap<FlowId, Delta> = BTreeMap::new();
    for key in tx.written(Kind::Execution) {
        let account = |record: Option<&Record>| match record {
            Some(Record::Execution(execution)) => Account::of(execution),
            _ => None,
        };
        let (before, after) = (account(tx.before(&key)), account(tx.after(&key)));
        let Some(flow) = after.or(before).map(|(flow, _)| flow) else { continue };
        let (before, after) = (before.map(|(_, account)| account), after.map(|(_, account)| account));
        let delta = deltas.entry(flow).or_default();
        match (before, after) {
            (Some(_), None) => delta.purged += 1,
            _ if before == after => {}
            _ => delta.members.push((before, after)),
        }
    }
    for key in tx.written(Kind::Edge) {
        let state = |record: Option<&Record>| match record {
            Some(Record::Edge(edge)) => Some((edge.body.flow, edge.body.resolved.is_none())),
            _ => None,
        };
        let (before, after) = (state(tx.before(&key)), state(tx.after(&key)));
        let Some((flow, pending)) = after else { continue };
        let delta = deltas.entry(flow).or_default();
        delta.edges += i64::from(before.is_none());
        delta.pending += i64::from(pending) - i64::from(before.is_some_and(|(_, pending)| pending));
    }
    let touched = tx.written(Kind::Flow);
    for key in &touched {
        if let (Key::Flow(id), Some(_)) = (key, tx.after(key)) {
            deltas.entry(*id).or_default();
        }
    }
    if tx.prefetch_all(deltas.keys().map(|id| Key::Flow(*id))) {
        return Err(Stop::Miss);
    }
    let mut flows = Vec::with_capacity(deltas.len());
    for (id, delta) in deltas {
        // It goes with its last members, or is on its way out: nobody counts any more.
        let Some(mut flow) = tx.find_flow(id)?.filter(|flow| !matches!(flow.hot.purging, Some(Purging::Whole { .. })))
        else {
            continue;
        };
        if change(&mut flow, &delta, tx.now()) {
            tx.put_flow(flow);
        }
        flows.push(id);
    }
    Ok(flows)
}

/// True if anything differs.
fn change(flow: &mut Flow, delta: &Delta, now: Time) -> bool {
    if delta.members.is_empty() && delta.purged == 0 && delta.edges == 0 && delta.pending == 0 {
        return false;
    }
    let owing = flow.ending().map(|ending| (ending.remaining, ending.unsealed));
    let summary = &mut flow.summary;
    for (before, after) in &delta.members {
        if let Some(before) = before {
            // A member and its flow that are not of the same moment do not add up: the invariants refuse what comes of it,
            // and both are loaded anew.
            let less = |count: &mut u32, by: u32| *count = count.saturating_sub(by);
            less(&mut summary.by_state[before.state as usize], 1);
            less(&mut summary.members_neutral, u32::from(before.neutral));
            less(&mut summary.failures, u32::from(before.against));
            less(&mut flow.hot.unsealed, u32::from(before.unsealed));
        } else {
            summary.total_members += 1;
        }
        if let Some(after) = after {
            summary.by_state[after.state as usize] += 1;
            summary.members_neutral += u32::from(after.neutral);
            summary.failures += u32::from(after.against);
            flow.hot.unsealed += u32::from(after.unsealed);
            summary.attempts += u64::from(after.attempts.saturating_sub(before.map_or(0, |before| before.attempts)));
            // Retries count for good; a replay begins to count its own anew.
            summary.retries += u64::from(after.retries.saturating_sub(before.map_or(0, |before| before.retries)));
            summary.first_started_at = summary.first_started_at.or(after.started_at);
        }
        if let Some((remaining, unsealed)) = owing {
            let owed = |account: &Option<Account>| account.is_some_and(|account| account.is_owed(remaining, unsealed));
            match (owed(before), owed(after)) {
                (true, false) => summary.cancel_owed = summary.cancel_owed.saturating_sub(1),
                // It was running and let go before anybody told it not to.
                (false, true) => summary.cancel_owed += 1,
                _ => {}
            }
        }
    }
    summary.members_purged += delta.purged;
    summary.edges_total = summary.edges_total.saturating_add_signed(delta.edges);
    summary.edges_pending = summary.edges_pending.saturating_add_signed(delta.pending);
    summary.last_change_at = now;
    summary.change_no += 1;
    flow.hot.verify_at.get_or_insert(now + VERIFY_AFTER_MS);
    flow.hot.audit_at.get_or_insert(now + AUDIT_FIRST_MS);
    true
}

/// A live member that cannot be read has failed. Its record stays as it is, so that it is counted here and nowhere else.
pub(crate) fn given_up(flow: &mut Flow, was: PublicState, unsealed: bool, critical: bool, now: Time) {
    let account = |state: PublicState| Account {
        state,
        neutral: false,
        against: critical && state.is_terminal(),
        attempts: 0,
        retries: 0,
        unsealed: unsealed && !state.is_terminal(),
        started_at: None,
    };
    let delta = Delta {
        members: vec![(Some(account(was)), Some(account(PublicState::Failed)))],
        purged: 1,
        ..Delta::default()
    };
    change(flow, &delta, now);
}

/// How many live members the flow's end has to cancel.
pub(crate) fn owed(flow: &Flow, remaining: Remaining, unsealed: bool) -> u32 {
    match remaining {
        Remaining::Cancel(_) => flow.summary.live(),
        Remaining::FinishActive => flow.summary.live().saturating_sub(flow.summary.of(PublicState::Active)),
        Remaining::LetRun if unsealed => flow.hot.unsealed,
        Remaining::LetRun => 0,
    }
}

/// Asks for the flow of a member beforehand, so that it is loaded with the member.
pub(crate) fn prefetch(tx: &mut Tx<'_>, execution: &Execution) -> bool {
    execution.member().is_some_and(|member| tx.prefetch(Key::Flow(member.flow), PartMask::NONE))
}
