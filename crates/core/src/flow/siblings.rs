//! Siblings: upstreams of a decided group that nobody needs any more are cancelled, a bounded number in the deciding
//! commit and the rest by the dispatcher. The reconciler behind it cancels nobody.

use super::follow::Follow;
use crate::change::DueEntry;
use crate::command::ReconcileGroup;
use crate::error::Rejection;
use crate::execution::cancel;
use crate::execution::finish::{self, End};
use crate::execution::trouble;
use crate::id::{ExecutionId, FlowId};
use crate::limits::{NEED_LOOKS_MAX, SIBLINGS_AT_ONCE, SIBLINGS_PER_COMMIT};
use crate::record::execution::{Cancel, Hold, HoldKey, Reason, State};
use crate::record::member::{EndedBy, Group, GroupState, Inlet, Member, Mode, Owed, SiblingResult, Then};
use crate::record::{Execution, Key, Record};
use crate::reply::{Expired, Reconciled, Reply};
use crate::schema::{Due, PartMask, Timer, execution as schema};
use crate::text::Text;
use crate::time::Time;
use crate::tx::{Stop, Tx};

const WITH_INLETS: PartMask = PartMask::of(schema::INLETS);
/// Who cancels siblings.
const ENGINE: &str = "engine";
/// Siblings that the reconciler has loaded at a time.
const RECONCILE_PAGE: usize = 1_000;

/// Cancels the siblings of a group that has just been decided.
pub(crate) fn decided(tx: &mut Tx<'_>, downstream: ExecutionId, group: u8, follow: &mut Follow) -> Result<(), Stop> {
    let execution = tx.execution(downstream, WITH_INLETS)?;
    let next = walk(tx, &execution, group, 0, follow)?;
    if let Some(cursor) = next {
        owe(tx, downstream, group, cursor)?;
    }
    Ok(())
}

/// Notes that siblings from `cursor` on are still to be cancelled.
fn owe(tx: &mut Tx<'_>, downstream: ExecutionId, group: u8, cursor: u32) -> Result<(), Stop> {
    let since = tx.now();
    let mut execution = tx.execution(downstream, PartMask::NONE)?;
    let member = execution.member_mut();
    let (flow, decided) = (member.flow, &mut member.groups[usize::from(group)]);
    let fresh = decided.owed.is_none();
    decided.owed = Some(Owed { verdict: decided.state, cursor, since: decided.owed.map_or(since, |owed| owed.since) });
    tx.put_execution(execution);
    if fresh {
        let mut flow = tx.flow_of(flow)?;
        flow.hot.owe();
        tx.put_flow(flow);
    }
    Ok(())
}

/// Refuses a member to which a decided group still owes its cancel. From the deciding commit on it changes nothing any
/// more, however many are cancelled before its own record says so. One that is asked to stop first may still end itself.
pub(crate) fn refuse_loser(tx: &mut Tx<'_>, execution: &Execution) -> Result<(), Stop> {
    let Some(member) = execution.member() else { return Ok(()) };
    if member.outs == 0 || member.outs > NEED_LOOKS_MAX {
        return Ok(());
    }
    match tx.flow_of(member.flow) {
        Ok(flow) if flow.hot.owing > 0 => {}
        Err(Stop::Miss) => return Err(Stop::Miss),
        // The usual case: no group of the flow owes anything. One that cannot be read fences nobody.
        Ok(_) | Err(Stop::Rejected(_)) => return Ok(()),
    }
    match owed_to(tx, execution, member.outs)? {
        Some((since, reason)) if !is_needed(tx, execution)? => {
            Err(Rejection::Cancelled { at: since, reason, by: ENGINE.into() }.into())
        }
        _ => Ok(()),
    }
}

/// Since when a group owes this member its cancel at once, and why. Those before the group's cursor are none of its
/// business any more.
fn owed_to(tx: &mut Tx<'_>, execution: &Execution, outs: u32) -> Result<Option<(Time, Text)>, Stop> {
    if tx.prefetch_all((0..outs).map(|number| Key::Edge(execution.id, number))) {
        return Err(Stop::Miss);
    }
    let mut missing = false;
    for number in 0..outs {
        let Ok(Some(Record::Edge(edge))) = tx.get(Key::Edge(execution.id, number), PartMask::NONE) else { continue };
        if edge.body.resolved.is_some() {
            continue;
        }
        let downstream = match tx.find_execution(edge.body.downstream, WITH_INLETS) {
            Ok(Some(downstream)) => downstream,
            Ok(None) | Err(Stop::Rejected(_)) => continue,
            Err(Stop::Miss) => {
                missing = true;
                continue;
            }
        };
        let Some(member) = downstream.member() else { continue };
        let Some(group) = member.groups.get(usize::from(edge.body.group)) else { continue };
        let (Some(owed), Then::CancelRemaining(Mode::Immediate)) = (group.owed, group.then) else { continue };
        let is_here = |inlet: &Inlet| inlet.upstream == execution.id.uuid() && inlet.number == number;
        if downstream.inlets().iter().skip(owed.cursor as usize).any(is_here) {
            return Ok(Some((owed.since, reason(&member.key, group))));
        }
    }
    if missing { Err(Stop::Miss) } else { Ok(None) }
}

/// What those are told whom a decided group cancels.
fn reason(member: &str, group: &Group) -> Text {
    format!("the group `{}` of `{member}` is {}", group.name, group.state.name()).into()
}

/// What the group that cancels tells those it cancels.
struct Order {
    flow: FlowId,
    downstream: ExecutionId,
    group: Text,
    verdict: GroupState,
    mode: Mode,
    reason: Text,
}

impl Order {
    /// None of a group that lets the others run.
    fn of(downstream: &Execution, group: u8) -> Result<Option<Self>, Rejection> {
        let member = downstream.member().ok_or(Rejection::internal("FL-110 only members have groups"))?;
        let decided = &member.groups[usize::from(group)];
        let Then::CancelRemaining(mode) = decided.then else { return Ok(None) };
        Ok(Some(Order {
            flow: member.flow,
            downstream: downstream.id,
            group: decided.name.clone(),
            verdict: decided.state,
            mode,
            reason: reason(&member.key, decided),
        }))
    }
}

/// Looks at the inlets of the group from `cursor` on, as many as there is room for; where it stopped, if there are more.
fn walk(
    tx: &mut Tx<'_>,
    downstream: &Execution,
    group: u8,
    cursor: u32,
    follow: &mut Follow,
) -> Result<Option<u32>, Stop> {
    let Some(order) = Order::of(downstream, group)? else { return Ok(None) };
    let inlets = downstream.inlets().clone();
    let of_group = |(_, inlet): &(usize, &Inlet)| inlet.group == group;
    let rest = inlets.iter().enumerate().skip(cursor as usize).filter(of_group);
    let page: Vec<(usize, &Inlet)> = rest.clone().take(follow.siblings).collect();
    let id = |inlet: &Inlet| ExecutionId::new(downstream.id.partition(), inlet.upstream);
    if tx.prefetch_all(page.iter().map(|(_, inlet)| Key::Execution(id(inlet)))) {
        return Err(Stop::Miss);
    }
    follow.cancelled = true;
    let mut missing = false;
    let mut stopped = rest.clone().nth(page.len()).map(|(at, _)| at as u32);
    for (done, (at, inlet)) in page.iter().enumerate() {
        if !follow.has_room_for_sibling(tx, done) && !missing {
            stopped = Some(*at as u32);
            break;
        }
        match one(tx, id(inlet), &order) {
            Err(Stop::Miss) => missing = true,
            done => done?,
        }
        follow.siblings -= 1;
    }
    if missing { Err(Stop::Miss) } else { Ok(stopped) }
}

/// Cancels one sibling, unless it has ended or is needed. One that cannot be read is parked and passed.
fn one(tx: &mut Tx<'_>, id: ExecutionId, order: &Order) -> Result<(), Stop> {
    let mut sibling = match tx.find_execution(id, PartMask::NONE) {
        Ok(Some(sibling)) if !sibling.is_done() => sibling,
        Ok(ended) => {
            let result = if ended.is_some() { SiblingResult::AlreadyTerminal } else { SiblingResult::Missing };
            tx.note_sibling(result);
            return Ok(());
        }
        Err(Stop::Miss) => return Err(Stop::Miss),
        Err(Stop::Rejected(rejection)) => {
            tx.note_sibling(SiblingResult::Missing);
            return trouble::park_damaged(tx, Key::Execution(id), Some(order.flow), Timer::GroupCancel, &rejection);
        }
    };
    if is_needed(tx, &sibling)? {
        tx.note_sibling(SiblingResult::Needed);
        return Ok(());
    }
    tx.note_sibling(SiblingResult::Cancelled);
    let verdict = order.verdict;
    sibling.member_mut().cause =
        Some(EndedBy::Sibling { downstream: order.downstream, group: order.group.clone(), verdict });
    let now = tx.now();
    let by: Text = ENGINE.into();
    let kill_at = match order.mode {
        Mode::Graceful { grace_ms } => Some(now + grace_ms),
        Mode::Immediate => None,
    };
    let request = Cancel {
        reason: order.reason.clone(),
        by: by.clone(),
        why: Reason::Sibling,
        requested_at: now,
        kill_at,
        cascade: true,
    };
    if kill_at.is_some() && matches!(sibling.hot.state, State::Active { .. }) {
        cancel::ask_holder(tx, &by, sibling, request);
        return Ok(());
    }
    finish::finish(tx, sibling, End::cancelled(&request))
}

/// Cancels a sibling that could not be read when a group was decided without it.
pub(crate) fn catch_up(tx: &mut Tx<'_>, sibling: &Execution) -> Result<(), Stop> {
    let outs = sibling.member().map_or(0, |member| member.outs);
    if sibling.is_done() || outs > NEED_LOOKS_MAX {
        return Ok(());
    }
    if tx.prefetch_all((0..outs).map(|number| Key::Edge(sibling.id, number))) {
        return Err(Stop::Miss);
    }
    let mut pending = Vec::new();
    for number in 0..outs {
        match tx.get(Key::Edge(sibling.id, number), PartMask::NONE) {
            Ok(Some(Record::Edge(edge))) if edge.body.resolved.is_none() => pending.push(edge.body),
            _ => {}
        }
    }
    if tx.prefetch_all(pending.iter().map(|edge| Key::Execution(edge.downstream))) {
        return Err(Stop::Miss);
    }
    for edge in pending {
        if let Ok(Some(downstream)) = tx.find_execution(edge.downstream, PartMask::NONE)
            && let Some(order) = Order::of(&downstream, edge.group)?.filter(|it| it.verdict != GroupState::Pending)
        {
            return one(tx, sibling.id, &order);
        }
    }
    Ok(())
}

/// Whether somebody still waits for a live member: a pending group of a live downstream, or a parent that waits for it.
/// One with more edges than are looked at is kept.
fn is_needed(tx: &mut Tx<'_>, sibling: &Execution) -> Result<bool, Stop> {
    let outs = sibling.member().map_or(0, |member| member.outs);
    if outs > NEED_LOOKS_MAX {
        return Ok(true);
    }
    if let Some(parent) = sibling.spec.parent {
        tx.prefetch(Key::Execution(parent), PartMask::NONE);
    }
    if tx.prefetch_all((0..outs).map(|number| Key::Edge(sibling.id, number))) {
        return Err(Stop::Miss);
    }
    let mut missing = false;
    for number in 0..outs {
        let Ok(Some(Record::Edge(edge))) = tx.get(Key::Edge(sibling.id, number), PartMask::NONE) else { continue };
        if edge.body.resolved.is_some() {
            continue;
        }
        match tx.find_execution(edge.body.downstream, PartMask::NONE) {
            Ok(Some(downstream)) if !downstream.is_done() => {
                let group = downstream.member().and_then(|member| member.groups.get(usize::from(edge.body.group)));
                if group.is_some_and(|group| group.state == GroupState::Pending) {
                    return Ok(true);
                }
            }
            Ok(_) | Err(Stop::Rejected(_)) => {}
            Err(Stop::Miss) => missing = true,
        }
    }
    if let Some(parent) = sibling.spec.parent {
        match tx.find_execution(parent, PartMask::NONE) {
            Ok(Some(parent)) if waits_for(&parent, sibling.id) => return Ok(true),
            Ok(_) | Err(Stop::Rejected(_)) => {}
            Err(Stop::Miss) => missing = true,
        }
    }
    if missing { Err(Stop::Miss) } else { Ok(false) }
}

fn waits_for(parent: &Execution, child: ExecutionId) -> bool {
    let State::Blocked { holds, .. } = &parent.hot.state else { return false };
    match holds.get(HoldKey::Children) {
        Some(Hold::Children(hold)) => hold.children.contains(&child),
        _ => false,
    }
}

/// The group of the member that has owed for longest.
fn oldest(execution: &Execution) -> Option<(u8, Owed)> {
    let groups = execution.member()?.groups.iter().enumerate();
    let owing = groups.filter_map(|(at, group)| Some((at as u8, group.owed?)));
    owing.min_by_key(|(at, owed)| (owed.since, *at))
}

/// Cancels the next siblings of a group that owes it.
pub(crate) fn go_on(tx: &mut Tx<'_>, id: ExecutionId, follow: &mut Follow) -> Result<Expired, Stop> {
    let execution = tx.execution(id, WITH_INLETS)?;
    let Some((group, owed)) = oldest(&execution) else { return Ok(Expired::Stale) };
    follow.siblings = piece(owed.cursor);
    match walk(tx, &execution, group, owed.cursor, follow)? {
        Some(cursor) => {
            owe(tx, id, group, cursor)?;
            Ok(Expired::More)
        }
        None => {
            settle(tx, id, group)?;
            Ok(Expired::Fired)
        }
    }
}

/// How many siblings are looked at behind so many. The first piece is small: while it is done, the caller waits for the
/// commit that decided the group.
fn piece(cursor: u32) -> usize {
    if cursor as usize <= SIBLINGS_AT_ONCE { SIBLINGS_AT_ONCE / 2 } else { SIBLINGS_PER_COMMIT }
}

/// Groups that wait again owe nothing: whom they have not cancelled they need. Says how many owed.
pub(crate) fn forgive(member: &mut Member) -> u32 {
    let waiting = member.groups.iter_mut().filter(|group| group.state == GroupState::Pending);
    waiting.map(|group| u32::from(group.owed.take().is_some())).sum()
}

/// The group owes nothing any more.
fn settle(tx: &mut Tx<'_>, id: ExecutionId, group: u8) -> Result<(), Stop> {
    let mut execution = tx.execution(id, PartMask::NONE)?;
    let member = execution.member_mut();
    let flow = member.flow;
    member.groups[usize::from(group)].owed = None;
    tx.put_execution(execution);
    let mut flow = tx.flow_of(flow)?;
    flow.hot.settle(1);
    tx.put_flow(flow);
    Ok(())
}

/// Gives up the cancels that the groups of a member owe, so that its flow no longer waits for them. True if any were owed;
/// the caller then writes the member.
pub(crate) fn give_up(tx: &mut Tx<'_>, execution: &mut Execution) -> Result<bool, Stop> {
    let Some(flow) = execution.member().filter(|member| member.owed_since().is_some()).map(|member| member.flow) else {
        return Ok(false);
    };
    let owed = execution.member_mut().groups.iter_mut().filter_map(|group| group.owed.take()).count();
    let mut flow = tx.flow_of(flow)?;
    flow.hot.settle(owed as u32);
    tx.put_flow(flow);
    Ok(true)
}

/// The safety net: clears what is owed if nobody is left to cancel, and changes nothing otherwise.
pub(crate) fn reconcile(tx: &mut Tx<'_>, cmd: &ReconcileGroup) -> Result<Reply, Stop> {
    let execution = tx.find_execution(cmd.id, WITH_INLETS)?;
    let flow = execution.as_ref().and_then(|execution| Some(execution.member()?.flow));
    let action = match execution {
        Some(execution) => reconcile_group(tx, cmd, &execution)?,
        None => remove_stale(tx, cmd),
    };
    Ok(Reply::Reconciled { action, flow })
}

/// Removes the entry alone.
fn remove_stale(tx: &mut Tx<'_>, cmd: &ReconcileGroup) -> Reconciled {
    tx.drop_due(DueEntry::new(Due { timer: Timer::GroupCancel, at: cmd.due }, Key::Execution(cmd.id)));
    Reconciled::StaleRemoved
}

fn reconcile_group(tx: &mut Tx<'_>, cmd: &ReconcileGroup, execution: &Execution) -> Result<Reconciled, Stop> {
    match execution.due().into_iter().find(|due| due.timer == Timer::GroupCancel) {
        // It was written since the entry was seen, which may have gone with that; if it has not, it is met again.
        None if execution.hot.updated_at >= cmd.seen_at => return Ok(Reconciled::LeftAlone),
        None => return Ok(remove_stale(tx, cmd)),
        Some(due) if due.at != cmd.due => return Ok(Reconciled::LeftAlone),
        Some(_) => {}
    }
    let Some((group, owed)) = oldest(execution) else { return Ok(remove_stale(tx, cmd)) };
    let inlets = execution.inlets().clone();
    let rest = inlets.iter().skip(owed.cursor as usize).filter(|inlet| inlet.group == group);
    let rest: Vec<ExecutionId> = rest.map(|it| ExecutionId::new(cmd.id.partition(), it.upstream)).collect();
    // Page by page: where the dispatcher is at work the first one tells, and the others need not be loaded.
    for page in rest.chunks(RECONCILE_PAGE) {
        if any_to_cancel(tx, page)? {
            return Ok(Reconciled::LeftAlone);
        }
    }
    settle(tx, cmd.id, group)?;
    Ok(Reconciled::DrainCompleted)
}

/// Whether one of them lives and nobody needs it. One that cannot be read is nobody to cancel.
fn any_to_cancel(tx: &mut Tx<'_>, siblings: &[ExecutionId]) -> Result<bool, Stop> {
    if tx.prefetch_all(siblings.iter().map(|id| Key::Execution(*id))) {
        return Err(Stop::Miss);
    }
    let mut missing = false;
    for id in siblings {
        match tx.find_execution(*id, PartMask::NONE) {
            Ok(Some(sibling)) if !sibling.is_done() => match is_needed(tx, &sibling) {
                Ok(true) => {}
                Ok(false) => return Ok(true),
                Err(Stop::Miss) => missing = true,
                Err(stop) => return Err(stop),
            },
            Ok(_) | Err(Stop::Rejected(_)) => {}
            Err(Stop::Miss) => missing = true,
        }
    }
    if missing { Err(Stop::Miss) } else { Ok(false) }
}
