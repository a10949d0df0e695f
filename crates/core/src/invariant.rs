//! What must hold for every execution, worker process and key after every commit. A command that would break one of
//! these is refused.

use crate::execution::children;
use crate::flow::group;
use crate::limits::{STEPS_BYTES_MAX, STEPS_MAX};
use crate::record::api_key::Reach;
use crate::record::execution::{Execution, Hold, HoldKey, Next, PublicState, State};
use crate::record::flow;
use crate::record::member::GroupState;
use crate::record::worker::{self, Worker};
use crate::record::{ApiKey, Flow, Member};
use crate::time::Time;
use std::fmt;

/// The invariant that does not hold, by its id and in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    pub id: &'static str,
    pub what: &'static str,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.what)
    }
}

/// Checks what one record can show by itself, as of the commit at `now`.
pub fn check(execution: &Execution, now: Time) -> Result<(), Broken> {
    let hot = &execution.hot;
    let policy = &execution.spec.policy;
    let hold = |id, what, holds: bool| if holds { Ok(()) } else { Err(Broken { id, what }) };

    if let State::Active { lease, .. } = &hot.state {
        hold("E3", "the lease has the newest epoch", lease.epoch == hot.epoch)?;
        hold("E2", "a lease ends after it began", lease.expires_at > lease.acquired_at)?;
    }
    let next = match &hot.state {
        State::Ready { next, .. } | State::Delayed { next, .. } | State::Blocked { next, .. } => Some(next),
        State::Active { .. } | State::Done { .. } => None,
    };
    match &hot.open {
        Some(open) => {
            hold("E4", "the open attempt is the newest", open.index + 1 == hot.attempts)?;
            hold("E5", "an open attempt is not final", !open.state.is_final())?;
            let running = matches!(hot.state, State::Active { .. });
            let resumes = next == Some(&Next::Resume);
            hold("E5", "an attempt runs exactly while Active", running != open.state.is_paused())?;
            hold("E5", "an attempt is paused exactly while it waits to resume", resumes == open.state.is_paused())?;
        }
        None => {
            hold("E5", "Active has a running attempt", !matches!(hot.state, State::Active { .. }))?;
            hold("E5", "what resumes has a paused attempt", next != Some(&Next::Resume))?;
        }
    }
    match &hot.state {
        State::Delayed { until, .. } => {
            hold("E10", "a delay ends after the commit that made it", *until > hot.changed_at)?
        }
        State::Blocked { holds, .. } => {
            hold("E9", "Blocked has a hold", !holds.is_empty())?;
            if let Some(Hold::Children(wait)) = holds.get(HoldKey::Children) {
                hold("E20", "a wait for children is undecided", children::verdict(wait).is_none())?;
            }
        }
        State::Done { at, .. } => hold("E7", "it ended by now", *at <= now)?,
        State::Ready { since, .. } => hold("E24", "ready since no later than now", *since <= now)?,
        State::Active { .. } => {}
    }
    hold("E25", "steps of this run begin no later than they end", hot.steps.from <= hot.steps.next)?;
    hold("E25", "steps within their limits", hot.steps.count() <= STEPS_MAX && hot.steps.bytes <= STEPS_BYTES_MAX)?;
    hold("E25", "bytes of steps only where there are steps", hot.steps.count() > 0 || hot.steps.bytes == 0)?;
    hold("E13", "retries within the policy", hot.retries_used <= policy.retry.max_retries)?;
    hold("E13", "reclaims within the policy", hot.reclaims <= policy.max_reclaims)?;
    hold("E13", "replays within the policy", hot.replays <= policy.max_replays)?;
    if let Some(member) = execution.member() {
        check_member(execution, member)?;
    }
    hold("E4", "no more attempts than leases", u64::from(hot.attempts) <= hot.epoch)
}

/// What a member of a flow shows about its groups and the hold they place.
fn check_member(execution: &Execution, member: &Member) -> Result<(), Broken> {
    let hold = |id, what, holds: bool| if holds { Ok(()) } else { Err(Broken { id, what }) };
    for group in &member.groups {
        hold("FL-34", "no more ends than edges", group.met + group.unmet <= group.n)?;
        hold(
            "FL-37",
            "what is decided was decided at a time",
            (group.state == GroupState::Pending) == group.decided_at.is_none(),
        )?;
        hold(
            "FL-228",
            "only a decided group owes cancels",
            group.owed.is_none() || group.state != GroupState::Pending,
        )?;
    }
    hold(
        "FL-22",
        "as many edges as its groups have",
        member.groups.iter().map(|group| group.n).sum::<u32>() == member.ins,
    )?;
    let held = group::hold(execution);
    if let Some((unresolved, sealed)) = held {
        hold("FL-224", "unresolved are its pending edges", unresolved == member.pending())?;
        let open = member.groups.iter().any(|group| group.state != GroupState::Satisfied);
        hold("FL-224", "a sealed member waits only for groups that are not satisfied", !sealed || open)?;
        hold(
            "FL-225",
            "what is decided is sealed",
            sealed || member.groups.iter().all(|group| group.state == GroupState::Pending),
        )?;
        let stuck = member.groups.iter().any(|group| group.state == GroupState::Impossible);
        hold("FL-227", "nobody waits for a group that is impossible", !(sealed && stuck))?;
    }
    let live = !execution.is_done() && !execution.has_begun() && !matches!(execution.hot.state, State::Active { .. });
    let satisfied = member.groups.iter().all(|group| group.state == GroupState::Satisfied);
    hold("FL-223", "what has not begun waits until its groups are satisfied", !live || held.is_some() || satisfied)
}

/// The same for a flow.
pub fn check_flow(flow: &Flow) -> Result<(), Broken> {
    let hold = |id, what, holds: bool| if holds { Ok(()) } else { Err(Broken { id, what }) };
    let summary = &flow.summary;
    let sum: u64 = summary.by_state.iter().map(|count| u64::from(*count)).sum();
    hold("FL-170", "the states add up to all members", sum == u64::from(summary.total_members))?;
    hold(
        "FL-170",
        "neutral ones are among the cancelled",
        summary.members_neutral <= summary.of(PublicState::Cancelled),
    )?;
    hold("FL-170", "purged ones have ended", summary.members_purged <= summary.ended())?;
    hold("FL-170", "pending edges are among all", summary.edges_pending <= summary.edges_total)?;
    let done = matches!(flow.hot.state, flow::State::Done { .. });
    hold("FL-171", "the public state is terminal exactly when it is done", done == flow.public_state().is_terminal())?;
    hold("FL-231", "nothing of what is done lives", !done || summary.live() == 0)?;
    hold("FL-229", "only a flow that ends owes cancels", summary.cancel_owed == 0 || flow.ending().is_some())?;
    hold("FL-143", "no more are owed than live", summary.cancel_owed <= summary.live())
}

/// The same for the record of a worker process.
pub fn check_worker(worker: &Worker, now: Time) -> Result<(), Broken> {
    let body = &worker.body;
    let hold = |id, what, holds: bool| if holds { Ok(()) } else { Err(Broken { id, what }) };
    let looks = body.owed.is_some() || matches!(body.state, worker::State::Draining(_));
    hold("S9", "leases are looked at exactly while some are owed or it drains", looks == body.look_at.is_some())?;
    hold("S9", "no session is owed that has not begun", body.owed.is_none_or(|owed| owed.before <= body.session + 1))?;
    hold("S9", "whoever registered has a session", body.only_claims() || body.session >= 1)?;
    hold("S9", "seen by now", body.last_seen_at <= now && body.session_at <= now)
}

/// Checks what the record of a key can show by itself.
pub fn check_key(key: &ApiKey) -> Result<(), Broken> {
    let body = &key.body;
    let hold = |id, what, holds: bool| if holds { Ok(()) } else { Err(Broken { id, what }) };
    hold("K1", "a key may do something", body.scopes.is_of_keys())?;
    hold("K1", "a key is good in some namespace", body.namespaces != Reach::Some(Default::default()))?;
    let overlap = body.previous.is_none_or(|(_, until)| body.rotated_at.is_some_and(|at| until > at));
    hold("K3", "an old secret ends after the rotation that made it old", overlap)
}
