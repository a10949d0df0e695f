//! Members that cannot be read. They are parked and passed by; an operator lets them be tried again once they can be
//! read, or gives them up: then they have failed, and their flow goes on without them. Their bytes are never touched.

use super::follow::Follow;
use super::resolve::{self, Late};
use super::{siblings, summary};
use crate::command::Principal;
use crate::error::Rejection;
use crate::event::{Event, Fact};
use crate::execution::{children, trouble};
use crate::id::{ExecutionId, FlowId};
use crate::limits::FANOUT_PER_COMMIT;
use crate::record::continuation::{Body, Rest, Work};
use crate::record::execution::{Outcome, PublicState, Reason, Remnant};
use crate::record::flow::{Flow, Sealing, State as FlowState};
use crate::record::tombstone::{self, Tombstone};
use crate::record::{Continuation, Edge, Execution, Key, Record};
use crate::reply::Expired;
use crate::schema::{PartMask, Timer, execution as schema};
use crate::text::Text;
use crate::tx::{List, Stop, Tx};
use uuid::Uuid;

/// A live member that cannot be read has failed: it is counted, and those that wait for it are told. One that had ended
/// counts as what it was, and one that was given up before is given up once. `owes` says that its entry among those that
/// owe cancels went with it.
pub(crate) fn give_up(
    tx: &mut Tx<'_>,
    who: &Principal,
    mut flow: Flow,
    id: ExecutionId,
    owes: bool,
    follow: &mut Follow,
) -> Result<(), Stop> {
    if flow.is_done() || !flow.is_visible() {
        return Ok(());
    }
    let given_up = stone(tx, id)?.is_some();
    let lives = !given_up && is_listed(tx, List::LiveMembers(flow.id), id)?;
    let remnant = tx.remnant(&Key::Execution(id)).unwrap_or_default();
    // Nobody cancels its siblings any more, and the flow must not wait for that.
    let settled = match &remnant.member {
        _ if !lives && (given_up || !owes) => 0,
        Some(member) => member.groups.iter().filter(|group| group.owed.is_some()).count() as u32,
        // What it owed is lost. To wait for that would be for ever, and to settle too much only fences nobody for a moment.
        None => flow.hot.owing.min(1),
    };
    flow.hot.settle(settled);
    if !lives {
        if settled > 0 {
            tx.put_flow(flow);
        }
        return Ok(());
    }
    let read = remnant.hot.as_ref().map(|hot| hot.public_state()).filter(|state| !state.is_terminal());
    let was = read.unwrap_or_else(|| likely(&flow));
    let stone = stone_of(flow.id, id, &remnant);
    let unsealed = remnant.member.as_ref().is_some_and(|member| !member.sealed);
    summary::given_up(&mut flow, was, unsealed, stone.body.critical, tx.now());
    tell(tx, &flow, &stone, &remnant, &who.name, was);
    tx.insert(Record::Tombstone(Box::new(stone)));
    tx.put_flow(flow);
    children::tell_parent(tx, id, remnant.parent, Outcome::Failed)?;
    follow.given_up.push(id);
    let left = outs(tx, id, 0, &who.name, follow)?;
    left.map_or(Ok(()), |next| leave(tx, id, next))
}

/// Where one stood of which nothing can be read: in a state in which the totals have somebody. They are set right by the
/// next recount.
fn likely(flow: &Flow) -> PublicState {
    let live = PublicState::ALL.into_iter().filter(|state| !state.is_terminal());
    live.max_by_key(|state| flow.summary.of(*state)).unwrap_or(PublicState::Waiting)
}

fn stone_of(flow: FlowId, id: ExecutionId, remnant: &Remnant) -> Tombstone {
    let member = remnant.member.as_ref();
    let body = tombstone::Body {
        flow,
        // One of which the key cannot be read is named by its id.
        key: member.map_or_else(|| id.to_string().into(), |member| member.key.clone()),
        number: member.map_or(u32::MAX, |member| member.number),
        rank: member.map_or(0, |member| member.rank),
        critical: member.is_none_or(|member| member.critical),
        outcome: Outcome::Failed,
        reason: Reason::Operator,
        fingerprint: [0; 32],
        outs: member.map_or(0, |member| member.outs),
    };
    Tombstone { id, body }
}

fn tell(tx: &mut Tx<'_>, flow: &Flow, stone: &Tombstone, remnant: &Remnant, by: &Text, from_state: PublicState) {
    let hot = remnant.hot.as_ref();
    tx.emit(Event {
        at: tx.now(),
        execution: Some(stone.id),
        flow: Some(flow.id),
        namespace: flow.definition.namespace.clone(),
        lane: "".into(),
        kind: "".into(),
        epoch: hot.map_or(0, |hot| hot.epoch),
        by: by.clone(),
        fact: Fact::Finished {
            outcome: stone.body.outcome,
            reason: stone.body.reason,
            attempt: None,
            attempts: hot.map_or(0, |hot| hot.attempts),
            category: None,
            message: None,
            result_bytes: None,
            duration_ms: hot.map_or(0, |hot| tx.now().since(hot.created_at)),
            from_state,
        },
    });
}

/// What is left of a member that has gone, or was given up.
pub(crate) fn stone(tx: &mut Tx<'_>, id: ExecutionId) -> Result<Option<Tombstone>, Stop> {
    match tx.get(Key::Tombstone(id), PartMask::NONE)? {
        Some(Record::Tombstone(stone)) => Ok(Some(*stone)),
        _ => Ok(None),
    }
}

/// Whether a list in key order has it, whatever its bytes say.
pub(crate) fn is_listed(tx: &mut Tx<'_>, list: List, id: ExecutionId) -> Result<bool, Stop> {
    let before = id.uuid().as_u128().checked_sub(1);
    let before = before.map(|before| ExecutionId::new(id.partition(), Uuid::from_u128(before)));
    Ok(tx.list(list, before)?.first() == Some(&id))
}

/// Resolves the out-edges of one that was given up, from `from` on; the first that there was no room for. How many there
/// are may not be known: the first that is not there is the end.
fn outs(tx: &mut Tx<'_>, id: ExecutionId, from: u32, by: &Text, follow: &mut Follow) -> Result<Option<u32>, Stop> {
    let until = from.saturating_add(follow.room(tx) as u32);
    if tx.prefetch_all((from..until).map(|number| Key::Edge(id, number))) {
        return Err(Stop::Miss);
    }
    let end = Late { outcome: Outcome::Failed, reason: Reason::Operator, attempt: None, replays: 0, by: by.clone() };
    let mut missing = false;
    for number in from..until {
        if let Ok(None) = tx.get(Key::Edge(id, number), PartMask::NONE) {
            return if missing { Err(Stop::Miss) } else { note_outs(tx, id, number).map(|()| None) };
        }
        if follow.room(tx) == 0 && !missing {
            return Ok(Some(number));
        }
        match resolve::late(tx, id, number, &end, follow) {
            Err(Stop::Miss) => missing = true,
            done => done?,
        }
    }
    if missing { Err(Stop::Miss) } else { Ok(Some(until)) }
}

/// The edges go with the stone.
fn note_outs(tx: &mut Tx<'_>, id: ExecutionId, outs: u32) -> Result<(), Stop> {
    if let Some(mut stone) = stone(tx, id)?.filter(|stone| stone.body.outs != outs) {
        stone.body.outs = outs;
        tx.put(Record::Tombstone(Box::new(stone)));
    }
    Ok(())
}

/// Leaves the edges from `next` on to a continuation.
fn leave(tx: &mut Tx<'_>, id: ExecutionId, next: u32) -> Result<(), Stop> {
    let Some(stone) = stone(tx, id)? else { return Ok(()) };
    let mut flow = tx.flow_of(stone.body.flow)?;
    let body = Body {
        namespace: flow.definition.namespace.clone(),
        created_at: tx.now(),
        rest: Rest::Resolve { replays: 0, next },
        trouble: None,
    };
    if tx.get(Key::Continuation(id, Work::Resolve), PartMask::NONE)?.is_none() {
        flow.hot.works += 1;
        tx.put_flow(flow);
    }
    tx.put(Record::Continuation(Box::new(Continuation { owner: id, body })));
    Ok(())
}

/// Left-over work that cannot be read goes, and the flow no longer waits for it. Edges that it leaves pending are found by
/// the audit.
pub(crate) fn give_up_work(tx: &mut Tx<'_>, mut flow: Flow, key: Key) {
    if flow.is_done() || !flow.is_visible() {
        return;
    }
    flow.hot.works = flow.hot.works.saturating_sub(1);
    tx.put_flow(flow);
    tx.delete_blind(key);
}

/// Goes on with the edges of one that was given up. A continuation without anybody behind it goes, and is told of.
pub(crate) fn go_on(tx: &mut Tx<'_>, continuation: &Continuation, follow: &mut Follow) -> Result<Expired, Stop> {
    let (id, key) = (continuation.owner, continuation.key());
    let (Some(stone), Rest::Resolve { next, .. }) = (stone(tx, id)?, &continuation.body.rest) else {
        let gone = Rejection::internal(format!("{id} is gone"));
        trouble::park_damaged(tx, key, None, Timer::Resolve, &gone)?;
        tx.delete(key);
        return Ok(Expired::Fired);
    };
    match outs(tx, id, *next, &"engine".into(), follow)? {
        Some(next) => {
            leave(tx, id, next)?;
            Ok(Expired::More)
        }
        None => {
            let mut flow = tx.flow_of(stone.body.flow)?;
            flow.hot.works = flow.hot.works.saturating_sub(1);
            tx.put_flow(flow);
            tx.delete(key);
            Ok(Expired::Fired)
        }
    }
}

/// A member can be read again: what passed it by is done now. It is parked once, for the first that met it, so all that
/// may have passed it by since is looked for.
pub(crate) fn catch_up(tx: &mut Tx<'_>, execution: &Execution, timer: Timer) -> Result<(), Stop> {
    let Some(member) = execution.member() else { return Ok(()) };
    if !matches!(timer, Timer::Resolve | Timer::GroupCancel | Timer::FlowEnding | Timer::FlowSeal) {
        return Ok(());
    }
    catch_up_flow(tx, member.flow, timer)?;
    catch_up_inlets(tx, execution.id)?;
    siblings::catch_up(tx, execution)
}

/// Of more ends than one commit has room for the audit finds the rest.
fn catch_up_inlets(tx: &mut Tx<'_>, id: ExecutionId) -> Result<(), Stop> {
    let inlets = tx.execution(id, PartMask::of(schema::INLETS))?.inlets().clone();
    let edges: Vec<Key> = inlets
        .iter()
        .map(|inlet| Key::Edge(ExecutionId::new(id.partition(), inlet.upstream), inlet.number))
        .take(FANOUT_PER_COMMIT)
        .collect();
    if tx.prefetch_all(edges.iter().copied()) {
        return Err(Stop::Miss);
    }
    let mut missing = false;
    for key in edges {
        if let Ok(Some(Record::Edge(edge))) = tx.get(key, PartMask::NONE) {
            match catch_up_edge(tx, &edge) {
                Err(Stop::Miss) => missing = true,
                done => done?,
            }
        }
    }
    if missing { Err(Stop::Miss) } else { Ok(()) }
}

/// A flow that ends, or that was sealed without the member, goes through its live members once more.
fn catch_up_flow(tx: &mut Tx<'_>, flow: FlowId, timer: Timer) -> Result<(), Stop> {
    let (mut flow, now) = (tx.flow_of(flow)?, tx.now());
    match &mut flow.hot.state {
        FlowState::Ending(ending) => (ending.next_at, ending.cursor) = (now, None),
        FlowState::Open if timer == Timer::FlowSeal => {
            let by = flow.hot.sealing.take().map_or_else(|| "engine".into(), |sealing| sealing.by);
            flow.hot.sealing = Some(Sealing { after: None, since: now, by });
        }
        FlowState::Open | FlowState::Done { .. } => return Ok(()),
    }
    tx.put_flow(flow);
    Ok(())
}

/// Leaves the edge to a continuation, if it is pending although its upstream has ended.
pub(crate) fn catch_up_edge(tx: &mut Tx<'_>, edge: &Edge) -> Result<(), Stop> {
    if edge.body.resolved.is_some() {
        return Ok(());
    }
    match tx.find_execution(edge.upstream, PartMask::NONE) {
        Ok(Some(upstream)) if upstream.is_done() => resolve::leave(tx, &upstream, 0),
        Ok(_) | Err(Stop::Rejected(_)) => Ok(()),
        Err(Stop::Miss) => Err(Stop::Miss),
    }
}
