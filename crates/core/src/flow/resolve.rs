//! Resolving edges: the end of an upstream, told to each downstream once.

use super::follow::Follow;
use super::{damaged, group, reopen};
use crate::error::Rejection;
use crate::execution::trouble;
use crate::id::ExecutionId;
use crate::planted::{self, Defect};
use crate::record::continuation::{Body, Rest, Work};
use crate::record::edge::{Edge, On, Resolution};
use crate::record::execution::{Outcome, Reason, State};
use crate::record::member::is_failure;
use crate::record::{Continuation, Execution, Key, Record};
use crate::reply::Expired;
use crate::schema::{PartMask, Timer};
use crate::text::Text;
use crate::tx::{Stop, Tx};

/// How long edges wait that must be taken back before they are resolved anew.
const REOPEN_FIRST_MS: u64 = 20;

/// Whether an upstream that ended so meets an edge: a total function, and the only one.
pub const fn meets(on: On, outcome: Outcome, reason: Reason) -> bool {
    match on {
        On::Success => matches!(outcome, Outcome::Success),
        On::Failure => is_failure(outcome, reason),
        On::Any => true,
    }
}

/// Resolves the pending out-edges of a member that has just ended, as far as there is room.
pub(crate) fn outs(tx: &mut Tx<'_>, id: ExecutionId, follow: &mut Follow) -> Result<(), Stop> {
    let Some(upstream) = tx.find_execution(id, PartMask::NONE)? else { return Ok(()) };
    let has_outs = upstream.member().is_some_and(|member| member.outs > 0);
    if has_outs && upstream.was_reopened() && reopen::is_under_way(tx, &upstream)? {
        return leave(tx, &upstream, 0);
    }
    match outs_from(tx, &upstream, 0, follow)? {
        Some(_) if planted::on(Defect::CascadeDroppedAtContinuation) => Ok(()),
        // It has ended for the first time: there is no such continuation yet.
        Some(next) if !upstream.was_reopened() => leave_first(tx, &upstream, next),
        Some(next) => leave(tx, &upstream, next),
        None => Ok(()),
    }
}

/// Resolves from edge `from` on; the first one that there was no room for.
fn outs_from(tx: &mut Tx<'_>, upstream: &Execution, from: u32, follow: &mut Follow) -> Result<Option<u32>, Stop> {
    let State::Done { outcome, reason, attempt, ref by, .. } = upstream.hot.state else { return Ok(None) };
    let outs = upstream.member().map_or(0, |member| member.outs);
    let until = outs.min(from.saturating_add(follow.room(tx) as u32));
    let patient = follow.is_patient(tx, (until - from) as usize);
    if patient && tx.prefetch_all((from..until).map(|number| Key::Edge(upstream.id, number))) {
        return Err(Stop::Miss);
    }
    let mut missing = false;
    for number in from..until {
        if (follow.room(tx) == 0 && !missing) || !(patient || is_known(tx, upstream.id, number)) {
            return Ok(Some(number));
        }
        let end = End { id: upstream.id, outcome, reason, attempt, replays: upstream.hot.replays };
        match one(tx, number, end, by, follow) {
            Err(Stop::Miss) => missing = true,
            done => done?,
        }
    }
    if missing {
        return Err(Stop::Miss);
    }
    Ok((until < outs).then_some(until))
}

/// Whether all that resolving the edge touches is in memory.
fn is_known(tx: &Tx<'_>, upstream: ExecutionId, number: u32) -> bool {
    let downstream = match tx.peek(&Key::Edge(upstream, number)) {
        Some(Some(Record::Edge(edge))) => edge.body.downstream,
        other => return other.is_some(),
    };
    match tx.peek(&Key::Execution(downstream)) {
        Some(Some(Record::Execution(downstream))) => {
            let parent = downstream.spec.parent.map(Key::Execution);
            parent.is_none_or(|parent| tx.peek(&parent).is_some()) && !downstream.was_reopened()
        }
        other => other.is_some(),
    }
}

/// How the upstream ended.
#[derive(Clone, Copy)]
struct End {
    id: ExecutionId,
    outcome: Outcome,
    reason: Reason,
    attempt: Option<u32>,
    replays: u32,
}

/// Resolves one edge, unless it is. What does not decode is parked and passed: it holds up no other.
fn one(tx: &mut Tx<'_>, number: u32, end: End, by: &Text, follow: &mut Follow) -> Result<(), Stop> {
    let key = Key::Edge(end.id, number);
    let edge = match tx.get(key, PartMask::NONE) {
        Ok(Some(Record::Edge(edge))) => *edge,
        Ok(_) => return Ok(()),
        Err(Stop::Miss) => return Err(Stop::Miss),
        Err(Stop::Rejected(rejection)) => {
            let flow = tx.find_execution(end.id, PartMask::NONE).ok().flatten().and_then(|it| Some(it.member()?.flow));
            return trouble::park_damaged(tx, key, flow, Timer::Resolve, &rejection);
        }
    };
    if edge.body.resolved.is_some() {
        return Ok(());
    }
    let downstream_key = Key::Execution(edge.body.downstream);
    // Its first edge is asked for with it: if it is skipped, the cascade goes on there without another load.
    let downstream = match tx.find_execution(edge.body.downstream, PartMask::NONE) {
        Ok(Some(downstream)) => downstream,
        // A flow is over before its members go, and then nothing of it is pending.
        Ok(None) => {
            let gone = Rejection::internal(format!("{downstream_key:?} is gone"));
            return trouble::park_damaged(tx, key, Some(edge.body.flow), Timer::Resolve, &gone);
        }
        Err(Stop::Miss) => {
            tx.prefetch(Key::Edge(edge.body.downstream, 0), PartMask::NONE);
            return Err(Stop::Miss);
        }
        Err(Stop::Rejected(rejection)) => {
            return trouble::park_damaged(tx, downstream_key, Some(edge.body.flow), Timer::Resolve, &rejection);
        }
    };
    follow.resolved();
    follow.upstream = Some(end.id);
    apply(tx, edge, downstream, end, by, follow)
}

fn apply(
    tx: &mut Tx<'_>,
    mut edge: Edge,
    mut downstream: Execution,
    end: End,
    by: &Text,
    follow: &mut Follow,
) -> Result<(), Stop> {
    let met = meets(edge.body.on, end.outcome, end.reason);
    let at = edge.body.group as usize;
    if downstream.member().is_none_or(|member| member.groups.len() <= at) {
        return Err(Rejection::internal(format!("FL-20 {:?} names a group that is not there", edge.key())).into());
    }
    let member = downstream.member_mut();
    let order = member.resolutions;
    member.resolutions += 1;
    let group = &mut member.groups[at];
    let counted = if met { &mut group.met } else { &mut group.unmet };
    *counted += 1;
    if planted::on(Defect::EdgeCountedTwice) && group.met + group.unmet < group.n {
        group.met += 1;
    }
    if group.met + group.unmet > group.n {
        return Err(Rejection::internal("FL-34 a group has as many ends as edges").into());
    }
    let End { outcome, reason, attempt, replays, .. } = end;
    edge.body.resolved = Some(Resolution { met, outcome, reason, attempt, at: tx.now(), order, replays });
    tx.put(Record::Edge(Box::new(edge)));
    group::judge(tx, downstream, by, follow)
}

/// Resolves one edge that was added to an upstream which has ended.
pub(crate) fn late(
    tx: &mut Tx<'_>,
    upstream: ExecutionId,
    number: u32,
    end: &Late,
    follow: &mut Follow,
) -> Result<(), Stop> {
    let Late { outcome, reason, attempt, replays, .. } = *end;
    let end_of = End { id: upstream, outcome, reason, attempt, replays };
    one(tx, number, end_of, &end.by, follow)
}

/// The stored end of an upstream.
pub(crate) struct Late {
    pub outcome: Outcome,
    pub reason: Reason,
    pub attempt: Option<u32>,
    pub replays: u32,
    pub by: Text,
}

/// Leaves the edges from `next` on to a continuation. One that is there for an earlier end is replaced: what it had not
/// reached is pending, and so is among these.
pub(crate) fn leave(tx: &mut Tx<'_>, upstream: &Execution, next: u32) -> Result<(), Stop> {
    let rest = Rest::Resolve { replays: upstream.hot.replays, next };
    put_work(tx, upstream, Work::Resolve, rest)
}

/// The same for a member that ends for the first time; nothing is looked up.
fn leave_first(tx: &mut Tx<'_>, upstream: &Execution, next: u32) -> Result<(), Stop> {
    let member = upstream.member().expect("continuation: its owner is a member");
    let mut flow = tx.flow_of(member.flow)?;
    flow.hot.works += 1;
    tx.put_flow(flow);
    let (namespace, created_at) = (upstream.spec.namespace.clone(), tx.now());
    let body = Body { namespace, created_at, rest: Rest::Resolve { replays: 0, next }, trouble: None };
    tx.insert(Record::Continuation(Box::new(Continuation { owner: upstream.id, body })));
    Ok(())
}

pub(crate) fn put_work(tx: &mut Tx<'_>, owner: &Execution, work: Work, rest: Rest) -> Result<(), Stop> {
    let key = Key::Continuation(owner.id, work);
    let flow = owner.member().map(|member| member.flow).expect("continuation: its owner is a member");
    tx.prefetch(Key::Flow(flow), PartMask::NONE);
    if tx.get(key, PartMask::NONE)?.is_none() {
        let mut flow = tx.flow_of(flow)?;
        flow.hot.works += 1;
        tx.put_flow(flow);
    }
    let body = Body { namespace: owner.spec.namespace.clone(), created_at: tx.now(), rest, trouble: None };
    tx.put(Record::Continuation(Box::new(Continuation { owner: owner.id, body })));
    Ok(())
}

/// Removes a continuation that is through.
pub(crate) fn drop_work(tx: &mut Tx<'_>, owner: &Execution, key: Key) -> Result<(), Stop> {
    let flow = owner.member().map(|member| member.flow).expect("continuation: its owner is a member");
    let mut flow = tx.flow_of(flow)?;
    flow.hot.works = flow.hot.works.saturating_sub(1);
    tx.put_flow(flow);
    tx.delete(key);
    Ok(())
}

/// Resolves the next edges of a continuation.
pub(crate) fn go_on(tx: &mut Tx<'_>, mut continuation: Continuation, follow: &mut Follow) -> Result<Expired, Stop> {
    let Rest::Resolve { replays, next } = continuation.body.rest else {
        return Err(Rejection::internal("E11 the timer belongs to this work").into());
    };
    let key = continuation.key();
    let upstream = match tx.find_execution(continuation.owner, PartMask::NONE) {
        Ok(Some(upstream)) => upstream,
        Ok(None) | Err(Stop::Rejected(_)) => return damaged::go_on(tx, &continuation, follow),
        Err(Stop::Miss) => return Err(Stop::Miss),
    };
    let Some(member) = upstream.member() else {
        let strange = Rejection::internal(format!("{} is in no flow", upstream.id));
        trouble::park_damaged(tx, key, None, Timer::Resolve, &strange)?;
        tx.delete(key);
        return Ok(Expired::Fired);
    };
    tx.prefetch(Key::Flow(member.flow), PartMask::NONE);
    let current = upstream.is_done() && upstream.hot.replays == replays;
    if current && upstream.was_reopened() && reopen::is_under_way(tx, &upstream)? {
        continuation.body.created_at = tx.now() + REOPEN_FIRST_MS;
        tx.put(Record::Continuation(Box::new(continuation)));
        return Ok(Expired::Fired);
    }
    // Replayed since: what is pending will be resolved by the next end.
    let left = match current {
        true => outs_from(tx, &upstream, next, follow)?,
        false => None,
    };
    match left {
        None => {
            drop_work(tx, &upstream, key)?;
            Ok(Expired::Fired)
        }
        Some(next) => {
            continuation.body.rest = Rest::Resolve { replays, next };
            continuation.body.trouble = None;
            continuation.body.created_at = tx.now();
            tx.put(Record::Continuation(Box::new(continuation)));
            Ok(Expired::More)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fl_25_each_end_meets_each_kind_of_edge_as_the_table_says() {
        let rows = [
            (Outcome::Success, Reason::Worker, [true, false, true]),
            (Outcome::Failed, Reason::RetriesExhausted, [false, true, true]),
            (Outcome::Expired, Reason::Deadline, [false, true, true]),
            (Outcome::Cancelled, Reason::Client, [false, true, true]),
            (Outcome::Cancelled, Reason::Worker, [false, true, true]),
            (Outcome::Cancelled, Reason::Sibling, [false, false, true]),
            (Outcome::Cancelled, Reason::Flow, [false, false, true]),
            (Outcome::Cancelled, Reason::Parent, [false, false, true]),
            (Outcome::Skipped, Reason::Dependency, [false, false, true]),
        ];
        for (outcome, reason, expected) in rows {
            let seen = [On::Success, On::Failure, On::Any].map(|on| meets(on, outcome, reason));
            assert_eq!(seen, expected, "{outcome:?} {reason:?}");
        }
    }
}
