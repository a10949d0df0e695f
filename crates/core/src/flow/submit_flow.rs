//! Making a flow: in one commit, or piece by piece behind closed doors until it is whole.

use super::plan::{Piece, Plan, form};
use super::{emit, member};
use crate::command::{Principal, SubmitFlow};
use crate::digest;
use crate::error::Rejection;
use crate::event::Fact;
use crate::execution::{submit, when};
use crate::id::{ExecutionId, FlowId};
use crate::limits::BUILD_MS;
use crate::record::dedup::{Body, What};
use crate::record::edge::{self, Edge};
use crate::record::flow::{Definition, Flow, Hot, Sealing, State};
use crate::record::member::{Inlet, Member};
use crate::record::{Dedup, Key, Record};
use crate::reply::{FlowSubmitted, Reply};
use crate::schema::PartMask;
use crate::tx::{Stop, Tx};

pub fn submit_flow(tx: &mut Tx<'_>, who: &Principal, cmd: &SubmitFlow) -> Result<Reply, Stop> {
    let id = cmd.id.expect("submit_flow: the engine mints the id");
    let plan = &*cmd.plan;
    let mut flow = match cmd.from {
        0 => {
            if let Some(reply) = bound(tx, who, plan, id)? {
                return Ok(reply);
            }
            new(tx, who, plan, id)?
        }
        from => match tx.find_flow(id)? {
            Some(flow) if is_given_up(&flow) => return Err(Rejection::FlowNotFound.into()),
            Some(flow) if flow.hot.building == Some(from) => flow,
            // A repeat was quicker, or its time was over.
            Some(flow) => return Ok(standing(&flow)),
            None => return Err(Rejection::FlowNotFound.into()),
        },
    };
    let piece = plan.pieces.get(cmd.from as usize).ok_or(Rejection::internal("a plan has no such piece"))?;
    let whole = cmd.from as usize + 1 == plan.pieces.len();
    add(tx, who, plan, &flow, piece)?;
    if !whole {
        let next = cmd.from + 1;
        flow.hot.building = Some(next);
        tx.put_flow(flow);
        return Ok(Reply::FlowBuilding { flow: id, next });
    }
    open(tx, who, plan, flow)
}

/// The answer for a key that is bound already.
fn bound(tx: &mut Tx<'_>, who: &Principal, plan: &Plan, id: FlowId) -> Result<Option<Reply>, Stop> {
    let Some(key) = &plan.flow.idempotency_key else { return Ok(None) };
    let digest = digest::flow_key(&who.namespace, key);
    let dedup_key = Key::Dedup(id.partition(), digest);
    if let Some(Record::Dedup(dedup)) = tx.get(dedup_key, PartMask::NONE)?
        && let What::Flow { flow, purged } = dedup.body.what
        && dedup.body.expires_at.is_none_or(|at| at > tx.now())
    {
        if dedup.body.fingerprint != plan.fingerprint {
            return Err(Rejection::IdempotencyMismatch { existing: None }.into());
        }
        if let Some(state) = purged {
            let reply =
                FlowSubmitted { id: flow, members: Vec::new(), revision: 0, state, duplicate: true, purged: true };
            return Ok(Some(Reply::FlowSubmitted(Box::new(reply))));
        }
        if flow.partition() != id.partition() {
            return Err(Rejection::Elsewhere { partition: flow.partition() }.into());
        }
        // What is being removed before it was whole stands for nothing: a repeat begins anew beside it.
        if let Some(flow) = tx.find_flow(flow)?.filter(|flow| !is_given_up(flow)) {
            return Ok(Some(standing(&flow)));
        }
    }
    let home = Some(digest::place(&who.namespace, key));
    let what = What::Flow { flow: id, purged: None };
    let body = Body { namespace: who.namespace.clone(), fingerprint: plan.fingerprint, what, expires_at: None, home };
    tx.put(Record::Dedup(Box::new(Dedup { partition: id.partition(), digest, body })));
    Ok(None)
}

/// Its time to become whole is over, and what is there of it goes.
fn is_given_up(flow: &Flow) -> bool {
    flow.hot.building.is_some() && flow.hot.purging.is_some()
}

/// A flow that is there: as a duplicate, or with the piece that it goes on with.
fn standing(flow: &Flow) -> Reply {
    match flow.hot.building {
        Some(next) => Reply::FlowBuilding { flow: flow.id, next },
        None => Reply::FlowSubmitted(Box::new(FlowSubmitted {
            id: flow.id,
            members: Vec::new(),
            revision: flow.hot.revision,
            state: flow.public_state(),
            duplicate: true,
            purged: false,
        })),
    }
}

fn new(tx: &mut Tx<'_>, who: &Principal, plan: &Plan, id: FlowId) -> Result<Flow, Stop> {
    let (now, given) = (tx.now(), &plan.flow);
    let deadline = given.deadline.map(form);
    let large = plan.pieces.len() > 1;
    let seal_by_ms = if large { BUILD_MS } else { given.seal_by_ms.unwrap_or(tx.limits().seal_by_ms) };
    let definition = Definition {
        namespace: who.namespace.clone(),
        kind: given.kind.clone(),
        name: given.name.clone(),
        creator: who.name.clone(),
        created_at: now,
        failure: given.failure,
        completion: given.completion.clone(),
        deadline,
        retention_ms: given.retention_ms,
        idempotency_key: given.idempotency_key.clone(),
        idempotency_ttl_ms: given.idempotency_ttl_ms,
        fingerprint: plan.fingerprint,
        trace: given.trace.clone(),
    };
    let hot = Hot {
        state: State::Open,
        building: large.then_some(0),
        growth: given.growth,
        sealed_at: None,
        seal_by: Some(now + seal_by_ms),
        sealing: None,
        revision: 0,
        reopens: 0,
        deadline_at: deadline.map(|deadline| when::deadline(deadline, now, now)).transpose()?,
        purge_at: None,
        purging: None,
        unsealed: 0,
        works: 0,
        kept: 0,
        verify_at: None,
        doubt: None,
        owing: 0,
        moves: 0,
        audit_at: None,
        audits: 0,
        updated_at: now,
    };
    let flow = Flow::new(id, definition, hot, given.tags.clone());
    // Its id is fresh; the commit proves that it was absent.
    tx.insert(Record::Flow(Box::new(flow.clone())));
    Ok(flow)
}

/// Adds the members and edges of one piece.
fn add(tx: &mut Tx<'_>, who: &Principal, plan: &Plan, flow: &Flow, piece: &Piece) -> Result<(), Stop> {
    let ids = Ids { flow: flow.id, plan };
    for at in piece.members.clone() {
        let (given, planned) = (&plan.flow.members[at], &plan.members[at]);
        // Of a flow that is not whole no member may start: the roots stay unsealed until it is.
        let sealed = plan.flow.seal && (flow.hot.building.is_none() || !planned.groups.is_empty());
        let inlets: Vec<Inlet> = planned
            .ins
            .iter()
            .map(|inlet| Inlet {
                group: inlet.group,
                upstream: ids.of(inlet.from).uuid(),
                number: inlet.number,
                input: inlet.input.clone(),
            })
            .collect();
        let member = Member {
            flow: flow.id,
            key: given.key.clone(),
            number: at as u32,
            critical: given.critical,
            rank: planned.rank,
            sealed,
            outs: planned.outs.len() as u32,
            ins: inlets.len() as u32,
            has_inputs: inlets.iter().any(|inlet| inlet.input.is_some()),
            groups: planned.groups.clone(),
            resolutions: 0,
            pinned: None,
            opened_epoch: 0,
            cause: None,
        };
        let trace = given.submit.trace.clone().or_else(|| flow.definition.trace.clone());
        submit::insert_member(tx, who, &given.submit, ids.of(at), submit::Joining { member, inlets, sealed, trace })?;
    }
    for (from, edges) in &piece.edges {
        let first = plan.members[*from].outs.start;
        for at in edges.clone() {
            let out = &plan.edges[at];
            let body = edge::Body {
                flow: flow.id,
                downstream: ids.of(out.to),
                group: out.group,
                on: out.on,
                input: out.input.clone(),
                seq: out.seq,
                resolved: None,
            };
            let number = (at - first) as u32;
            tx.insert(Record::Edge(Box::new(Edge { upstream: ids.of(*from), number, body })));
        }
    }
    Ok(())
}

struct Ids<'a> {
    flow: FlowId,
    plan: &'a Plan,
}

impl Ids<'_> {
    fn of(&self, at: usize) -> ExecutionId {
        member::member_id(self.flow, &self.plan.flow.members[at].key)
    }
}

/// The flow is whole: it is seen from now on, and sealed if that was asked for.
fn open(tx: &mut Tx<'_>, who: &Principal, plan: &Plan, mut flow: Flow) -> Result<Reply, Stop> {
    let now = tx.now();
    let large = flow.hot.building.take().is_some();
    let (members, edges) = (plan.members.len() as u32, plan.edges.len() as u64);
    flow.hot.revision = u64::from(members > 0 || edges > 0);
    flow.hot.seal_by = Some(now + plan.flow.seal_by_ms.unwrap_or(tx.limits().seal_by_ms));
    let fact = Fact::FlowCreated { flow: flow.id, members, edges, revision: flow.hot.revision };
    emit(tx, &flow, &who.name, fact);
    if plan.flow.seal && large {
        flow.hot.sealing = Some(Sealing { after: None, since: now, by: who.name.clone() });
    } else if plan.flow.seal {
        flow.hot.sealed_at = Some(now);
        flow.hot.seal_by = None;
        let fact = Fact::FlowSealed { flow: flow.id, members, edges, revision: flow.hot.revision };
        emit(tx, &flow, &who.name, fact);
    }
    let state = flow.public_state();
    let (id, revision) = (flow.id, flow.hot.revision);
    tx.put_flow(flow);
    let ids = Ids { flow: id, plan };
    let members = plan.flow.members.iter().enumerate().map(|(at, given)| (given.key.clone(), ids.of(at))).collect();
    let reply = FlowSubmitted { id, members, revision, state, duplicate: false, purged: false };
    Ok(Reply::FlowSubmitted(Box::new(reply)))
}
