//! Removing a flow: out of sight at once, then member by member, then itself. A crash in between resumes it.

use super::{emit, visible};
use crate::command::{Principal, PurgeFlow};
use crate::digest;
use crate::error::Rejection;
use crate::event::Fact;
use crate::execution::{purge, trouble};
use crate::limits::REASON_MAX;
use crate::record::dedup::What;
use crate::record::execution::State as MemberState;
use crate::record::flow::{Flow, Purging};
use crate::record::tombstone::{self, Tombstone};
use crate::record::{Execution, Key, Record};
use crate::reply::{Expired, Reply};
use crate::schema::{PartMask, Timer};
use crate::text::{Text, check_text};
use crate::tx::{LIST_SCAN_MAX, List, Stop, Tx};

/// Records that one commit removes.
const PER_COMMIT: usize = 1_000;

pub fn validate(cmd: &PurgeFlow) -> Result<(), Rejection> {
    check_text("reason", &cmd.reason, REASON_MAX)
}

pub fn purge_flow(tx: &mut Tx<'_>, who: &Principal, cmd: &PurgeFlow) -> Result<Reply, Stop> {
    let flow = visible(tx, who, cmd.flow)?;
    if !flow.is_done() {
        return Err(Rejection::FlowNotTerminal { state: flow.public_state().name() }.into());
    }
    begin(tx, flow, &who.name);
    Ok(Reply::FlowPurging)
}

/// Takes the flow out of sight.
pub(crate) fn begin(tx: &mut Tx<'_>, mut flow: Flow, by: &Text) {
    let (members, edges) = (flow.summary.total_members, Some(flow.summary.edges_total));
    let fact = Fact::FlowPurged { flow: flow.id, members, edges, revision: Some(flow.hot.revision) };
    emit(tx, &flow, by, fact);
    flow.hot.purging = Some(Purging::Whole { since: tx.now() });
    tx.put_flow(flow);
}

/// Removes what is there of a graph that never became whole.
pub(crate) fn give_up(tx: &mut Tx<'_>, mut flow: Flow) {
    flow.hot.purging = Some(Purging::Whole { since: tx.now() });
    flow.hot.seal_by = None;
    flow.hot.deadline_at = None;
    tx.put_flow(flow);
}

pub(crate) fn go_on(tx: &mut Tx<'_>, flow: Flow, by: &Text) -> Result<Expired, Stop> {
    match flow.hot.purging {
        Some(Purging::Whole { .. }) => whole(tx, flow),
        Some(Purging::Kept { .. }) => kept(tx, flow, None, by),
        Some(Purging::KeptAfter { number, .. }) => kept(tx, flow, Some(number), by),
        None => Ok(Expired::Stale),
    }
}

/// Removes members with all that is theirs, then what is left of those purged before, then the flow.
fn whole(tx: &mut Tx<'_>, flow: Flow) -> Result<Expired, Stop> {
    let ids = tx.list(List::Members(flow.id), None)?;
    if tx.prefetch_all(ids.iter().take(PER_COMMIT).map(|id| Key::Execution(*id))) {
        return Err(Stop::Miss);
    }
    let mut gone = 0;
    for id in &ids {
        if tx.records() >= PER_COMMIT {
            return go_again(tx, flow);
        }
        match tx.find_execution(*id, PartMask::NONE) {
            Ok(Some(execution)) => {
                if !remove_edges(tx, *id, execution.member().map_or(0, |member| member.outs))? {
                    return go_again(tx, flow);
                }
                purge::erase(tx, execution)?;
                gone += 1;
            }
            Ok(None) => {}
            Err(Stop::Miss) => return Err(Stop::Miss),
            // Nobody knows which entries of indexes belong to it, so it stays as it is, in sight.
            Err(Stop::Rejected(rejection)) => {
                trouble::park_damaged(tx, Key::Execution(*id), Some(flow.id), Timer::FlowPurge, &rejection)?;
            }
        }
    }
    if gone > 0 || ids.len() > LIST_SCAN_MAX {
        return go_again(tx, flow);
    }
    let stones = tx.list(List::Tombstones(flow.id), None)?;
    if tx.prefetch_all(stones.iter().map(|id| Key::Tombstone(*id))) {
        return Err(Stop::Miss);
    }
    let mut left = false;
    for id in &stones {
        if tx.records() >= PER_COMMIT {
            return go_again(tx, flow);
        }
        if let Some(Record::Tombstone(stone)) = tx.get(Key::Tombstone(*id), PartMask::NONE)? {
            if !remove_edges(tx, *id, stone.body.outs)? {
                return go_again(tx, flow);
            }
            tx.delete(stone.key());
            left = true;
        }
    }
    if left {
        return go_again(tx, flow);
    }
    release_key(tx, &flow)?;
    for item in flow.trouble().into_iter().flat_map(|trouble| &trouble.items) {
        if let Some(letter) = item.letter {
            tx.delete_blind(Key::DeadLetter(flow.id.partition(), letter));
        }
    }
    tx.delete(flow.key());
    Ok(Expired::Fired)
}

fn go_again(tx: &mut Tx<'_>, mut flow: Flow) -> Result<Expired, Stop> {
    flow.hot.purging = Some(Purging::Whole { since: tx.now() });
    tx.put_flow(flow);
    Ok(Expired::More)
}

/// Removes the edges that leave a member, the last first, so that a rest is found again. False if some are left.
fn remove_edges(tx: &mut Tx<'_>, id: crate::ExecutionId, outs: u32) -> Result<bool, Stop> {
    let room = (PER_COMMIT * 2).saturating_sub(tx.records()) as u32;
    if outs > room {
        // The member, or its stone, is kept with fewer edges until the rest is gone.
        for number in outs - room..outs {
            tx.delete_blind(Key::Edge(id, number));
        }
        let left = outs - room;
        if let Some(mut execution) = tx.find_execution(id, PartMask::NONE)? {
            execution.member_mut().outs = left;
            tx.put_execution(execution);
        } else if let Some(Record::Tombstone(mut stone)) = tx.get(Key::Tombstone(id), PartMask::NONE)? {
            stone.body.outs = left;
            tx.put(Record::Tombstone(stone));
        }
        return Ok(false);
    }
    for number in 0..outs {
        tx.delete_blind(Key::Edge(id, number));
    }
    Ok(true)
}

fn release_key(tx: &mut Tx<'_>, flow: &Flow) -> Result<(), Stop> {
    let definition = &flow.definition;
    let Some(key) = &definition.idempotency_key else { return Ok(()) };
    let key = Key::Dedup(flow.id.partition(), digest::flow_key(&definition.namespace, key));
    let Some(Record::Dedup(mut dedup)) = tx.get(key, PartMask::NONE)? else { return Ok(()) };
    if !matches!(dedup.body.what, What::Flow { flow: bound, .. } if bound == flow.id) {
        // It never became whole, and another has the key since.
        return Ok(());
    }
    let kept_until = definition.created_at + definition.idempotency_ttl_ms;
    // One that never became whole stands for nothing.
    if kept_until <= tx.now() || !flow.is_done() {
        tx.delete(key);
    } else {
        dedup.body.what = What::Flow { flow: flow.id, purged: Some(flow.public_state()) };
        dedup.body.expires_at = Some(kept_until);
        tx.put(Record::Dedup(dedup));
    }
    Ok(())
}

/// Purges members whose own time was over before the flow's end, those after `after` in the order they were added.
fn kept(tx: &mut Tx<'_>, mut flow: Flow, after: Option<u32>, by: &Text) -> Result<Expired, Stop> {
    let list = after.map_or(List::Members(flow.id), |number| List::MembersAfter(flow.id, number));
    let ids = tx.list(list, None)?;
    if tx.prefetch_all(ids.iter().flat_map(|id| [Key::Execution(*id), Key::Tombstone(*id)])) {
        return Err(Stop::Miss);
    }
    let mut page: Vec<(u32, Execution)> = Vec::with_capacity(ids.len());
    for id in &ids {
        // One that does not decode goes with the flow.
        let Ok(Some(execution)) = tx.find_execution(*id, PartMask::NONE) else { continue };
        page.extend(execution.member().map(|member| member.number).map(|number| (number, execution)));
    }
    // The list comes in the order of ids.
    page.sort_by_key(|(number, _)| *number);
    let mut next = page.last().map(|(number, _)| *number).filter(|_| ids.len() > LIST_SCAN_MAX);
    let (mut last, mut purged) = (after, 0);
    for (number, execution) in page {
        if tx.records() >= PER_COMMIT {
            next = last;
            break;
        }
        if matches!(execution.hot.state, MemberState::Done { purge_at: None, .. })
            && execution.spec.policy.retention_ms.is_some()
        {
            bury(tx, execution, by, &"".into())?;
            purged += 1;
        }
        last = Some(number);
    }
    flow.hot.kept = flow.hot.kept.saturating_sub(purged);
    let next = next.filter(|_| flow.hot.kept > 0);
    flow.hot.purging = next.map(|number| Purging::KeptAfter { since: tx.now(), number });
    tx.put_flow(flow);
    Ok(if next.is_some() { Expired::More } else { Expired::Fired })
}

/// Purges one member of a flow that stays, and leaves a tombstone. A member that was discarded while it did not decode has
/// its tombstone already, which stays: the flow has counted the member as that says.
pub(crate) fn bury(tx: &mut Tx<'_>, execution: Execution, by: &Text, reason: &Text) -> Result<(), Stop> {
    if let (Some(member), MemberState::Done { outcome, reason: why, .. }) = (execution.member(), &execution.hot.state) {
        let body = tombstone::Body {
            flow: member.flow,
            key: member.key.clone(),
            number: member.number,
            rank: member.rank,
            critical: member.critical,
            outcome: *outcome,
            reason: *why,
            fingerprint: execution.spec.fingerprint,
            outs: member.outs,
        };
        match tx.get(Key::Tombstone(execution.id), PartMask::NONE) {
            Ok(None) => tx.insert(Record::Tombstone(Box::new(Tombstone { id: execution.id, body }))),
            Err(Stop::Miss) => return Err(Stop::Miss),
            Ok(Some(_)) | Err(Stop::Rejected(_)) => {}
        }
    }
    purge::remove(tx, execution, by, reason)
}
