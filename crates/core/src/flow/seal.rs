//! Sealing: of a member, its edges are known; of a flow, it may finish. Many members are sealed bit by bit.

use super::follow::Follow;
use super::member::{self, Found};
use super::problem::{Problems, Wrong};
use super::{callers, emit, group};
use crate::command::{Principal, SealFlow};
use crate::error::Rejection;
use crate::event::Fact;
use crate::execution::trouble;
use crate::id::{ExecutionId, FlowId};
use crate::limits::{FLOW_SUBMIT_MEMBERS_MAX, NODE_KEY_MAX};
use crate::record::flow::{Flow, Sealing, State};
use crate::record::{Execution, Key};
use crate::reply::{Expired, Reply};
use crate::schema::{PartMask, Timer};
use crate::text::{Text, check_printable, check_range};
use crate::tx::{LIST_SCAN_MAX, List, Stop, Tx};

pub fn validate(cmd: &SealFlow) -> Result<(), Rejection> {
    let Some(keys) = &cmd.keys else { return Ok(()) };
    check_range("keys", keys.len() as u64, 1, FLOW_SUBMIT_MEMBERS_MAX as u64 / 10)?;
    keys.iter().try_for_each(|key| check_printable("keys", key, NODE_KEY_MAX))
}

pub fn seal(tx: &mut Tx<'_>, who: &Principal, cmd: &SealFlow, follow: &mut Follow) -> Result<Reply, Stop> {
    let flow = callers(tx, who, cmd.flow, &cmd.within)?;
    match &cmd.keys {
        Some(keys) => seal_members(tx, &flow, keys, &who.name, follow),
        None => seal_flow(tx, flow, cmd.checked, &who.name, follow),
    }
}

fn seal_members(tx: &mut Tx<'_>, flow: &Flow, keys: &[Text], by: &Text, follow: &mut Follow) -> Result<Reply, Stop> {
    refuse_closed(flow)?;
    let mut missing = false;
    for key in keys {
        missing |= member::prefetch(tx, flow.id, key, PartMask::NONE);
    }
    if missing {
        return Err(Stop::Miss);
    }
    let mut problems = Problems::default();
    let mut already = true;
    for (at, key) in keys.iter().enumerate() {
        match member::find(tx, flow.id, key, PartMask::NONE)? {
            Found::Live(execution) if is_unsealed(&execution) => {
                already = false;
                check_quorums(&execution)?;
                seal_one(tx, *execution, by, follow)?;
            }
            Found::Live(_) | Found::Purged(_) => {}
            Found::Nobody => problems.push(|| format!("keys[{at}]"), Wrong::UnknownNode { key: key.clone() }),
        }
    }
    problems.done()?;
    Ok(Reply::FlowSealed { already, continued: false })
}

fn refuse_closed(flow: &Flow) -> Result<(), Rejection> {
    match &flow.hot.state {
        State::Open => Ok(()),
        State::Ending(_) | State::Done { .. } => Err(Rejection::FlowClosed { why: flow.public_state().name() }),
    }
}

/// Every group must be able to be satisfied once its edges are known.
pub(crate) fn check_quorums(execution: &Execution) -> Result<(), Rejection> {
    let mut problems = Problems::default();
    let member = execution.member().expect("seal: it is a member");
    for group in &member.groups {
        let k = group.policy.needed(group.n);
        if k > group.n {
            let (key, name) = (member.key.clone(), group.name.clone());
            let wrong = Wrong::QuorumUnreachable { key, group: name, k, n: group.n };
            problems.push(|| member.key.to_string(), wrong);
        }
    }
    problems.done()
}

/// Seals one member and judges its groups with what has been resolved so far.
pub(crate) fn seal_one(tx: &mut Tx<'_>, mut execution: Execution, by: &Text, follow: &mut Follow) -> Result<(), Stop> {
    let pending = execution.member().map_or(0, |member| member.pending());
    group::set_hold(&mut execution, pending, true);
    follow.upstream = None;
    group::judge(tx, execution, by, follow)
}

fn seal_flow(
    tx: &mut Tx<'_>,
    mut flow: Flow,
    checked: Option<ExecutionId>,
    by: &Text,
    follow: &mut Follow,
) -> Result<Reply, Stop> {
    let sealed = flow.hot.sealed_at.is_some() && flow.hot.unsealed == 0;
    if sealed || flow.hot.sealing.is_some() {
        return Ok(Reply::FlowSealed { already: true, continued: flow.hot.sealing.is_some() });
    }
    refuse_closed(&flow)?;
    if flow.summary.total_members == 0 {
        let problems = vec![super::problem::Problem::new("flow", Wrong::EmptyFlow)];
        return Err(Rejection::BadGraph { problems }.into());
    }
    if flow.hot.unsealed > 0
        && let Some(after) = check_page(tx, flow.id, checked)?
    {
        return Ok(Reply::FlowChecked { after });
    }
    let continued = go_through(tx, &mut flow, None, by, follow)?;
    tx.put_flow(flow);
    Ok(Reply::FlowSealed { already: false, continued })
}

/// Looks whether the next members can be sealed, before any is: a caller who hears that a flow is sealed must not find
/// half of it unsealed. The last one that was looked at, if there are more.
fn check_page(tx: &mut Tx<'_>, flow: FlowId, after: Option<ExecutionId>) -> Result<Option<ExecutionId>, Stop> {
    let ids = tx.list(List::LiveMembers(flow), after)?;
    let page = &ids[..ids.len().min(LIST_SCAN_MAX)];
    if tx.prefetch_all(page.iter().map(|id| Key::Execution(*id))) {
        return Err(Stop::Miss);
    }
    for id in page {
        match tx.find_execution(*id, PartMask::NONE) {
            Ok(Some(execution)) if is_unsealed(&execution) => check_quorums(&execution)?,
            // One that cannot be read holds up no other.
            Ok(_) | Err(Stop::Rejected(_)) => {}
            Err(Stop::Miss) => return Err(Stop::Miss),
        }
    }
    Ok(page.last().copied().filter(|_| ids.len() > page.len()))
}

fn is_unsealed(execution: &Execution) -> bool {
    group::hold(execution).is_some_and(|(_, sealed)| !sealed)
}

/// Seals the next members after `after`; the flow itself when there are no more. True if some are left.
fn go_through(
    tx: &mut Tx<'_>,
    flow: &mut Flow,
    after: Option<ExecutionId>,
    by: &Text,
    follow: &mut Follow,
) -> Result<bool, Stop> {
    let now = tx.now();
    if after.is_none() {
        // The seal was asked for: nothing has to come in time any more.
        flow.hot.seal_by = None;
    }
    if flow.hot.unsealed > 0 {
        let page = seal_page(tx, flow.id, after, by, follow)?;
        if page.left_out {
            // They do not wait for their own seal for ever.
            flow.hot.seal_by.get_or_insert(now + tx.limits().seal_by_ms);
        }
        if let Some(after) = page.last {
            flow.hot.sealing = Some(Sealing { after: Some(after), since: now, by: by.clone() });
            return Ok(true);
        }
    }
    flow.hot.sealing = None;
    if flow.hot.sealed_at.is_some() {
        // Only members that came later were to be sealed.
        return Ok(false);
    }
    flow.hot.sealed_at = Some(now);
    let fact = Fact::FlowSealed {
        flow: flow.id,
        members: flow.summary.total_members,
        edges: flow.summary.edges_total,
        revision: flow.hot.revision,
    };
    emit(tx, flow, by, fact);
    Ok(false)
}

/// What became of a page of members.
struct Page {
    /// Some were added since all were looked at, and are not whole yet: they are left to the next seal.
    left_out: bool,
    /// The last one that was looked at, if there are more.
    last: Option<ExecutionId>,
}

fn seal_page(
    tx: &mut Tx<'_>,
    flow: FlowId,
    after: Option<ExecutionId>,
    by: &Text,
    follow: &mut Follow,
) -> Result<Page, Stop> {
    let ids = tx.list(List::LiveMembers(flow), after)?;
    let page = &ids[..ids.len().min(follow.room(tx))];
    if tx.prefetch_all(page.iter().map(|id| Key::Execution(*id))) {
        return Err(Stop::Miss);
    }
    let (mut last, mut left_out) = (after, false);
    let mut missing = false;
    for id in page {
        if follow.room(tx) == 0 && !missing {
            return Ok(Page { left_out, last });
        }
        let found = match tx.find_execution(*id, PartMask::NONE) {
            // One that cannot be read holds up no other.
            Err(Stop::Rejected(rejection)) => {
                trouble::park_damaged(tx, Key::Execution(*id), Some(flow), Timer::FlowSeal, &rejection).map(|()| None)
            }
            found => found,
        };
        match found {
            Err(Stop::Miss) => missing = true,
            Err(stop) => return Err(stop),
            Ok(Some(execution)) if is_unsealed(&execution) && check_quorums(&execution).is_err() => left_out = true,
            Ok(Some(execution)) if is_unsealed(&execution) => {
                match seal_one(tx, execution, by, follow) {
                    Err(Stop::Miss) => missing = true,
                    done => done?,
                }
                follow.resolved();
            }
            _ => {}
        }
        last = Some(*id);
    }
    if missing {
        return Err(Stop::Miss);
    }
    Ok(Page { left_out, last: last.filter(|_| ids.len() > page.len()) })
}

/// Goes on sealing.
pub(crate) fn go_on(tx: &mut Tx<'_>, mut flow: Flow, follow: &mut Follow) -> Result<Expired, Stop> {
    let Some(sealing) = flow.hot.sealing.clone() else { return Ok(Expired::Stale) };
    let more = go_through(tx, &mut flow, sealing.after, &sealing.by, follow)?;
    tx.put_flow(flow);
    Ok(if more { Expired::More } else { Expired::Fired })
}
