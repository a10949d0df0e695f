//! Replaying a member: its flow opens again, and what its end had decided below it is taken back as far as it has not
//! begun.

use super::follow::Follow;
use super::problem::{Problem, Wrong};
use super::resolve::{self, drop_work, put_work};
use super::{damaged, emit, group, siblings};
use crate::command::{DeadlineWish, Downstream, Principal, Replay};
use crate::error::Rejection;
use crate::event::Fact;
use crate::execution::settle::{self, Waits};
use crate::execution::{children, when};
use crate::id::ExecutionId;
use crate::limits::REPLAY_EDGES_MAX;
use crate::record::continuation::{Rest, Work};
use crate::record::edge::{Edge, Resolution};
use crate::record::execution::{Deadline, Execution, Hold, Holds, Next, Outcome, State};
use crate::record::flow::{Flow, FlowOutcome, State as FlowState};
use crate::record::member::{EndedBy, Group, GroupState, Member, Others};
use crate::record::{Continuation, Key, Record};
use crate::reply::Expired;
use crate::schema::{PartMask, execution as schema};
use crate::time::Time;
use crate::tx::{Stop, Tx};

const WITH_INLETS: PartMask = PartMask::of(schema::INLETS);

/// The flow of a member that is to be replayed; refused if it takes none.
pub(crate) fn check(tx: &mut Tx<'_>, member: &Member) -> Result<Flow, Stop> {
    let flow = tx.flow_of(member.flow)?;
    match &flow.hot.state {
        FlowState::Open if flow.is_visible() => Ok(flow),
        FlowState::Done { outcome: FlowOutcome::Completed | FlowOutcome::Failed, .. } if flow.is_visible() => Ok(flow),
        _ => Err(Rejection::FlowClosed { why: flow.public_state().name() }.into()),
    }
}

/// What a replayed member waits for again: nothing, if it had begun before.
pub(crate) fn holds(
    tx: &mut Tx<'_>,
    who: &Principal,
    cmd: &Replay,
    execution: &mut Execution,
    flow: &mut Flow,
) -> Result<Holds, Stop> {
    let had_begun = execution.has_begun();
    let epoch = execution.hot.epoch;
    let member = execution.member_mut();
    member.cause = None;
    member.pinned = None;
    member.opened_epoch = epoch;
    // The flow was sealed while it had ended, and so were all its members.
    member.sealed |= flow.hot.sealed_at.is_some();
    if had_begun {
        return Ok(Holds::default());
    }
    let edges = refresh(tx, execution)?;
    let mut waived = Vec::new();
    let impossible = rejudge(execution, tx.now(), cmd.ignore_dependencies.then_some(&mut waived));
    if !impossible.is_empty() {
        return Err(still_impossible(tx, execution, &edges, &impossible)?.into());
    }
    flow.hot.settle(siblings::forgive(execution.member_mut()));
    for group in &waived {
        group::tell_waived(tx, execution, &who.name, group);
    }
    let mut holds = Holds::default();
    if let Some(hold) = dependencies(execution) {
        holds.insert(hold);
    }
    Ok(holds)
}

/// The hold that the groups of a member ask for, if any.
fn dependencies(execution: &Execution) -> Option<Hold> {
    let member = execution.member().expect("reopen: it is a member");
    let waits = !member.sealed || member.groups.iter().any(|group| group.state != GroupState::Satisfied);
    waits.then(|| Hold::Dependencies { unresolved: member.pending(), sealed: member.sealed })
}

/// Judges all groups that are not satisfied as a new opening; those that are impossible. With `waived` these are let pass
/// and told there.
fn rejudge(execution: &mut Execution, now: Time, mut waived: Option<&mut Vec<Group>>) -> Vec<u8> {
    let mut impossible = Vec::new();
    let member = execution.member_mut();
    let sealed = member.sealed;
    for (at, group) in member.groups.iter_mut().enumerate() {
        if group.state == GroupState::Satisfied {
            continue;
        }
        if group.state == GroupState::Impossible {
            group.opening += 1;
        }
        group.state = group::verdict(group, sealed);
        group.decided_at = (group.state != GroupState::Pending).then_some(now);
        if group.state == GroupState::Impossible {
            match &mut waived {
                Some(waived) => {
                    group.state = GroupState::Satisfied;
                    group.waived = true;
                    waived.push(group.clone());
                }
                None => impossible.push(at as u8),
            }
        }
    }
    impossible
}

/// The refusal that names the edges which keep a member from running.
fn still_impossible(
    tx: &mut Tx<'_>,
    execution: &Execution,
    edges: &[Edge],
    impossible: &[u8],
) -> Result<Rejection, Stop> {
    let key = execution.member().map_or_else(|| "".into(), |member| member.key.clone());
    let unmet = |edge: &&Edge| edge.body.resolved.is_some_and(|end| !end.met) && impossible.contains(&edge.body.group);
    let upstreams: Vec<ExecutionId> = edges.iter().filter(unmet).take(20).map(|edge| edge.upstream).collect();
    let mut named = Vec::with_capacity(upstreams.len());
    for id in upstreams {
        let name = match tx.find_execution(id, PartMask::NONE) {
            Ok(Some(upstream)) => upstream.member().map(|member| member.key.clone()),
            Ok(None) | Err(Stop::Rejected(_)) => damaged::stone(tx, id)?.map(|stone| stone.body.key),
            Err(Stop::Miss) => return Err(Stop::Miss),
        };
        named.push((name.unwrap_or_else(|| id.to_string().into()), key.clone()));
    }
    Ok(Rejection::StillImpossible { edges: named })
}

/// Takes back the edges of a skipped member whose upstreams live again, and resolves anew those that ended otherwise.
fn refresh(tx: &mut Tx<'_>, execution: &mut Execution) -> Result<Vec<Edge>, Stop> {
    let inlets = tx.execution(execution.id, WITH_INLETS)?.inlets().clone();
    let partition = execution.id.partition();
    let key =
        |inlet: &crate::record::member::Inlet| Key::Edge(ExecutionId::new(partition, inlet.upstream), inlet.number);
    let upstreams = inlets.iter().map(|inlet| Key::Execution(ExecutionId::new(partition, inlet.upstream)));
    if tx.prefetch_all(inlets.iter().map(key)) | tx.prefetch_all(upstreams) {
        return Err(Stop::Miss);
    }
    let mut edges = Vec::with_capacity(inlets.len());
    let which = |end: Resolution| (end.outcome, end.reason, end.attempt, end.replays);
    let mut changed = 0;
    for inlet in inlets.iter() {
        let Some(Record::Edge(mut edge)) = tx.get(key(inlet), PartMask::NONE)? else { continue };
        if let Some(end) = edge.body.resolved
            && let Some(now) = end_now(tx, &edge)?
            && now.map(which) != Some(which(end))
        {
            edge.body.resolved = recount(execution.member_mut(), edge.body.group, end, now);
            tx.put(Record::Edge(edge.clone()));
            changed += 1;
        }
        edges.push(*edge);
    }
    if changed > REPLAY_EDGES_MAX {
        let what = "edges whose upstreams were replayed";
        let wrong = Wrong::Limit { what, limit: REPLAY_EDGES_MAX as u64, got: changed as u64 };
        return Err(Rejection::BadGraph { problems: vec![Problem::new("id", wrong)] }.into());
    }
    Ok(edges)
}

/// How the upstream of an edge would resolve it as it stands now: not at all if it lives. `None` if it has been purged: the
/// edge says how it ended.
fn end_now(tx: &mut Tx<'_>, edge: &Edge) -> Result<Option<Option<Resolution>>, Stop> {
    let end = match tx.find_execution(edge.upstream, PartMask::NONE) {
        Ok(Some(upstream)) => match upstream.hot.state {
            State::Done { outcome, reason, attempt, .. } => Some((outcome, reason, attempt, upstream.hot.replays)),
            _ => None,
        },
        Ok(None) => return Ok(None),
        Err(Stop::Rejected(rejection)) => match damaged::stone(tx, edge.upstream)? {
            // How often it was replayed is known from what the edge was told.
            Some(stone) => {
                let replays = edge.body.resolved.map_or(0, |end| end.replays);
                Some((stone.body.outcome, stone.body.reason, None, replays))
            }
            None => return Err(rejection.into()),
        },
        Err(Stop::Miss) => return Err(Stop::Miss),
    };
    let at = tx.now();
    Ok(Some(end.map(|(outcome, reason, attempt, replays)| {
        let met = resolve::meets(edge.body.on, outcome, reason);
        Resolution { met, outcome, reason, attempt, at, order: 0, replays }
    })))
}

/// Counts an edge as what it is now instead of what it was. A group that this leaves open waits again.
fn recount(member: &mut Member, group: u8, was: Resolution, now: Option<Resolution>) -> Option<Resolution> {
    let order = member.resolutions;
    member.resolutions += u32::from(now.is_some());
    let group = &mut member.groups[usize::from(group)];
    let count = if was.met { &mut group.met } else { &mut group.unmet };
    *count = count.saturating_sub(1);
    match now {
        Some(now) if now.met => group.met += 1,
        Some(_) => group.unmet += 1,
        None => {}
    }
    if group.state == GroupState::Satisfied && !group.waived && group::verdict(group, true) != GroupState::Satisfied {
        (group.state, group.decided_at) = (GroupState::Pending, None);
        group.opening += 1;
    }
    now.map(|now| Resolution { order, ..now })
}

/// The flow opens again, and what is below the member too, unless the caller keeps it.
pub(crate) fn reopen(
    tx: &mut Tx<'_>,
    who: &Principal,
    execution: &Execution,
    mut flow: Flow,
    cmd: &Replay,
    follow: &mut Follow,
) -> Result<(), Stop> {
    if flow.is_done() {
        flow.hot.deadline_at = deadline_at(&flow, cmd, tx.now())?;
        flow.hot.seal_by = flow.hot.sealed_at.is_none().then(|| tx.now() + tx.limits().seal_by_ms);
        flow.hot.state = FlowState::Open;
        flow.hot.reopens += 1;
        flow.hot.purge_at = None;
        flow.hot.purging = None;
        let fact = Fact::FlowReopened { flow: flow.id, member: execution.id };
        emit(tx, &flow, &who.name, fact);
    }
    tx.put_flow(flow);
    if cmd.downstream == Downstream::Reopen && execution.member().is_some_and(|member| member.outs > 0) {
        follow.reopened.push_back(execution.id);
    }
    Ok(())
}

/// The deadline of a flow that opens again, as of an execution that is replayed: a relative one counts from now, and an
/// absolute one must be ahead. One that has passed is dropped if the caller gives the member another, or none.
fn deadline_at(flow: &Flow, cmd: &Replay, now: Time) -> Result<Option<Time>, Rejection> {
    match flow.definition.deadline {
        Some(Deadline::At(at)) if at <= now && cmd.deadline != DeadlineWish::Keep => Ok(None),
        given => given.map(|deadline| when::deadline(deadline, now, now)).transpose(),
    }
}

/// Takes back the out-edges of a member that waits again, as far as there is room.
pub(crate) fn outs(tx: &mut Tx<'_>, id: ExecutionId, follow: &mut Follow) -> Result<(), Stop> {
    let Some(upstream) = tx.find_execution(id, PartMask::NONE)? else { return Ok(()) };
    match take_back(tx, &upstream, 0, follow)? {
        Some(next) => {
            let rest = Rest::Reopen { replays: upstream.hot.replays, next };
            put_work(tx, &upstream, Work::Reopen, rest)
        }
        None => Ok(()),
    }
}

/// Whether edges of the member are still to be taken back: its next end must wait for that.
pub(crate) fn is_under_way(tx: &mut Tx<'_>, upstream: &Execution) -> Result<bool, Stop> {
    Ok(tx.get(Key::Continuation(upstream.id, Work::Reopen), PartMask::NONE)?.is_some())
}

/// Takes back the next out-edges of a replayed member.
pub(crate) fn go_on(tx: &mut Tx<'_>, mut continuation: Continuation, follow: &mut Follow) -> Result<Expired, Stop> {
    let Rest::Reopen { replays, next } = continuation.body.rest else {
        return Err(Rejection::internal("E11 the timer belongs to this work").into());
    };
    let key = continuation.key();
    let Some(upstream) = tx.find_execution(continuation.owner, PartMask::NONE)? else {
        tx.delete(key);
        return Ok(Expired::Fired);
    };
    // A later replay takes back by itself what is left. One that has ended again has left its edges to a continuation that
    // waits for this one: those that are still resolved tell of the end before.
    let left = match upstream.hot.replays == replays {
        true => take_back(tx, &upstream, next, follow)?,
        false => None,
    };
    match left {
        None => {
            drop_work(tx, &upstream, key)?;
            Ok(Expired::Fired)
        }
        Some(next) => {
            continuation.body.rest = Rest::Reopen { replays, next };
            continuation.body.trouble = None;
            continuation.body.created_at = tx.now();
            tx.put(Record::Continuation(Box::new(continuation)));
            Ok(Expired::More)
        }
    }
}

/// Takes back edges from `next` on; the first one that there was no room for.
pub(crate) fn take_back(
    tx: &mut Tx<'_>,
    upstream: &Execution,
    next: u32,
    follow: &mut Follow,
) -> Result<Option<u32>, Stop> {
    let outs = upstream.member().map_or(0, |member| member.outs);
    let until = outs.min(next.saturating_add(follow.room(tx) as u32));
    if tx.prefetch_all((next..until).map(|number| Key::Edge(upstream.id, number))) {
        return Err(Stop::Miss);
    }
    let mut missing = false;
    for number in next..until {
        if follow.room(tx) == 0 && !missing {
            return Ok(Some(number));
        }
        match one(tx, upstream.id, number, follow) {
            Err(Stop::Miss) => missing = true,
            done => done?,
        }
        follow.resolved();
    }
    if missing {
        return Err(Stop::Miss);
    }
    Ok((until < outs).then_some(until))
}

fn one(tx: &mut Tx<'_>, upstream: ExecutionId, number: u32, follow: &mut Follow) -> Result<(), Stop> {
    let Some(Record::Edge(mut edge)) = tx.get(Key::Edge(upstream, number), PartMask::NONE)? else { return Ok(()) };
    let Some(end) = edge.body.resolved else { return Ok(()) };
    let downstream = match tx.find_execution(edge.body.downstream, PartMask::NONE) {
        Ok(Some(downstream)) => downstream,
        Ok(None) | Err(Stop::Rejected(_)) => return Ok(()),
        Err(Stop::Miss) => return Err(Stop::Miss),
    };
    let skipped = matches!(downstream.hot.state, State::Done { outcome: Outcome::Skipped, .. });
    if downstream.has_begun() || (downstream.is_done() && !skipped) {
        return Ok(());
    }
    let was_done = downstream.is_done();
    edge.body.resolved = None;
    let group = edge.body.group;
    tx.put(Record::Edge(edge));
    let downstream = uncount(downstream, group, end.met);
    settle_again(tx, downstream, was_done, follow)
}

/// The edge no longer counts, and the group is judged as a new opening.
fn uncount(mut downstream: Execution, group: u8, met: bool) -> Execution {
    let member = downstream.member_mut();
    let group = &mut member.groups[usize::from(group)];
    if met {
        group.met = group.met.saturating_sub(1);
    } else {
        group.unmet = group.unmet.saturating_sub(1);
    }
    if group.state != GroupState::Pending && !group.waived {
        let verdict = group::verdict(group, true);
        if verdict == GroupState::Pending {
            group.state = GroupState::Pending;
            group.decided_at = None;
            group.opening += 1;
        }
    }
    downstream
}

/// Puts a downstream back to waiting, if a group of it is no longer decided.
fn settle_again(tx: &mut Tx<'_>, mut downstream: Execution, was_done: bool, follow: &mut Follow) -> Result<(), Stop> {
    let now = tx.now();
    if was_done {
        // Groups that were open when it was skipped have only been counted since.
        let still = !rejudge(&mut downstream, now, None).is_empty();
        if !still {
            // A start time and the hold of an operator have their effect as if it had never been skipped.
            let Others { mut holds, not_before } = match downstream.member_mut().cause.take() {
                Some(EndedBy::DependencyAmongOthers { others, .. }) => others,
                _ => Others::default(),
            };
            downstream.member_mut().opened_epoch = downstream.hot.epoch;
            if let Some(hold) = dependencies(&downstream) {
                holds.insert(hold);
            }
            settle::settle(&mut downstream, Waits { holds, not_before, next: Next::First }, now);
            children::retract(tx, &downstream, Outcome::Skipped)?;
            group::tell(tx, &downstream, &"engine".into(), Fact::HoldPlaced { hold: "dependencies".into() });
            // Its own edges told others that it was skipped.
            if downstream.member().is_some_and(|member| member.outs > 0) {
                follow.reopened.push_back(downstream.id);
            }
        }
    } else if let Some(hold) = dependencies(&downstream) {
        match group::hold(&downstream) {
            Some(_) => {
                let pending = downstream.member().map_or(0, |member| member.pending());
                group::set_hold(&mut downstream, pending, false);
            }
            None => {
                settle::place(&mut downstream, hold, now);
            }
        }
    }
    let forgiven = siblings::forgive(downstream.member_mut());
    if forgiven > 0 {
        let mut flow = tx.flow_of(downstream.member_mut().flow)?;
        flow.hot.settle(forgiven);
        tx.put_flow(flow);
    }
    tx.put_execution(downstream);
    Ok(())
}
