//! Growing a flow that is there: new members, and edges to members that have not begun. All of a call or nothing.

use super::follow::Follow;
use super::layout::{self, Asked, Link};
use super::member::{self, Found};
use super::problem::{Problem, Problems, Wrong};
use super::resolve::{self, Late};
use super::{callers, damaged, group, plan, rank};
use crate::command::{GrowFlow, NewGroup, NewMember, Principal};
use crate::error::Rejection;
use crate::execution::{refuse_done, settle, submit};
use crate::id::ExecutionId;
use crate::limits::{FLOW_GROW_MAX, FLOW_GROW_RECORDS_MAX, Limits};
use crate::record::edge::{self, Edge};
use crate::record::execution::{Execution, Hold, State as MemberState};
use crate::record::flow::{Flow, Growth, State};
use crate::record::member::{Group, GroupState, Inlet, Member};
use crate::record::{Key, Record, Tombstone};
use crate::reply::{FlowGrown, Reply};
use crate::schema::{PartMask, execution as schema};
use crate::text::Text;
use crate::time::Time;
use crate::tx::{Stop, Tx};
use std::collections::{BTreeMap, BTreeSet};

const WITH_INLETS: PartMask = PartMask::of(schema::INLETS);

pub fn validate(cmd: &GrowFlow, limits: &Limits, now: Time) -> Result<(), Rejection> {
    if cmd.members.is_empty() && cmd.edges.is_empty() {
        return Err(Rejection::invalid("members", "are none, and no edges either: there is nothing to add"));
    }
    plan::check_added(&cmd.members, cmd.edges.len())?;
    // One commit takes all of it.
    let (limit, got) = (FLOW_GROW_MAX as u64, (cmd.members.len() + cmd.edges.len()) as u64);
    if got > limit {
        let wrong = Wrong::Limit { what: "members and edges in one call", limit, got };
        return Err(Rejection::BadGraph { problems: vec![Problem::new("members", wrong)] });
    }
    plan::check_members(&cmd.members, limits, now)?;
    plan::check_keys(&cmd.members)
}

/// Who stands at an end of an edge.
enum Who<'a> {
    New(&'a NewMember),
    There(Box<Execution>),
    Gone(Box<Tombstone>),
}

pub fn grow(tx: &mut Tx<'_>, who: &Principal, cmd: &GrowFlow, follow: &mut Follow) -> Result<Reply, Stop> {
    let mut flow = callers(tx, who, cmd.flow, &cmd.within)?;
    refuse_closed(&flow)?;
    if cmd.expected_revision.is_some_and(|expected| expected != flow.hot.revision) {
        return Err(Rejection::FlowRevisionMismatch { current: flow.hot.revision }.into());
    }
    let mut places = gather(tx, &flow, cmd)?;
    let existed: Vec<bool> =
        places[..cmd.members.len()].iter().map(|place| !matches!(place.who, Who::New(_))).collect();
    let links = link(tx, &flow, &mut places, cmd)?;
    check_late(&places, &links)?;
    follow.raised = rank_all(tx, &mut places, &links)?;
    let added = existed.iter().filter(|existed| !**existed).count() as u32;
    let edges = links.iter().filter(|link| !link.existed).count() as u64;
    if added > 0 || edges > 0 {
        flow.hot.revision += 1;
    }
    if !cmd.seal {
        // They do not wait for their seal for ever, even if the flow itself has it. What is left of a time that others had
        // does not count for them.
        let seal_by = tx.now() + tx.limits().seal_by_ms;
        let nobody_waits = flow.hot.sealed_at.is_some() && flow.hot.unsealed == 0;
        flow.hot.seal_by = flow.hot.seal_by.filter(|_| !nobody_waits).or(Some(seal_by));
    }
    let (revision, id) = (flow.hot.revision, flow.id);
    let edges_existed = links.len() as u32 - edges as u32;
    if added > 0 || edges > 0 {
        group::tell_changed(tx, &flow, &who.name, added, edges);
    }
    let first_seq = flow.summary.edges_total;
    let first_number = flow.summary.total_members;
    tx.put_flow(flow);
    write(tx, who, cmd, places, &links, Numbers { member: first_number, seq: first_seq }, follow)?;
    let keys = cmd.members.iter().map(|given| given.key.clone());
    let members = keys.zip(existed).map(|(key, existed)| (key.clone(), member::member_id(id, &key), existed)).collect();
    Ok(Reply::FlowGrown(Box::new(FlowGrown { members, edges_existed, revision })))
}

pub(crate) fn refuse_closed(flow: &Flow) -> Result<(), Rejection> {
    match &flow.hot.state {
        State::Open
            if flow.hot.growth == Growth::Fixed && (flow.hot.sealed_at.is_some() || flow.hot.sealing.is_some()) =>
        {
            Err(Rejection::FlowClosed { why: "fixed" })
        }
        State::Open => Ok(()),
        State::Ending(_) | State::Done { .. } => Err(Rejection::FlowClosed { why: flow.public_state().name() }),
    }
}

/// One member at an end of edges, with what the call makes of it.
struct Place<'a> {
    key: Text,
    id: ExecutionId,
    who: Who<'a>,
    /// Groups that the call declares on it, of one that is there too.
    declared: &'a [NewGroup],
    groups: Vec<Group>,
    rank: u64,
}

impl Place<'_> {
    fn there(&self) -> Option<&Execution> {
        match &self.who {
            Who::There(execution) => Some(execution),
            Who::New(_) | Who::Gone(_) => None,
        }
    }

    /// Edges that leave it in the store.
    fn outs(&self) -> u32 {
        match &self.who {
            Who::New(_) => 0,
            Who::There(execution) => execution.member().map_or(0, |member| member.outs),
            Who::Gone(tombstone) => tombstone.body.outs,
        }
    }
}

/// All members that the call names: those to be added first, in their order.
fn gather<'a>(tx: &mut Tx<'_>, flow: &Flow, cmd: &'a GrowFlow) -> Result<Vec<Place<'a>>, Stop> {
    let mut missing = false;
    for member in &cmd.members {
        missing |= member::prefetch(tx, flow.id, &member.key, WITH_INLETS);
    }
    let given: BTreeSet<&Text> = cmd.members.iter().map(|member| &member.key).collect();
    let others: BTreeSet<&Text> =
        cmd.edges.iter().flat_map(|edge| [&edge.from, &edge.to]).filter(|key| !given.contains(key)).collect();
    for key in &others {
        missing |= member::prefetch(tx, flow.id, key, WITH_INLETS);
    }
    if missing {
        return Err(Stop::Miss);
    }
    let mut places = Vec::with_capacity(cmd.members.len() + others.len());
    for (at, member) in cmd.members.iter().enumerate() {
        let found = member::find(tx, flow.id, &member.key, WITH_INLETS)?;
        let fingerprint = submit::member_fingerprint(&member.submit, member.critical);
        let same = match &found {
            Found::Live(execution) => execution.spec.fingerprint == fingerprint,
            Found::Purged(tombstone) => tombstone.body.fingerprint == fingerprint,
            Found::Nobody => true,
        };
        if !same {
            let existing = Some(member::member_id(flow.id, &member.key));
            let rejection = Box::new(Rejection::IdempotencyMismatch { existing });
            let wrong = Wrong::Member { key: member.key.clone(), rejection };
            return Err(Rejection::BadGraph { problems: vec![Problem::new(format!("members[{at}]"), wrong)] }.into());
        }
        places.extend(place(flow, member.key.clone(), found, Some(member)));
    }
    for key in others {
        let found = member::find(tx, flow.id, key, WITH_INLETS)?;
        places.extend(place(flow, key.clone(), found, None));
    }
    Ok(places)
}

fn place<'a>(flow: &Flow, key: Text, found: Found, given: Option<&'a NewMember>) -> Option<Place<'a>> {
    let id = member::member_id(flow.id, &key);
    let mut declared: &[NewGroup] = given.map_or(&[], |given| &given.groups);
    let (who, groups, rank) = match (found, given) {
        (Found::Live(execution), _) => {
            let member = execution.member().cloned()?;
            (Who::There(execution), member.groups.clone(), member.rank)
        }
        (Found::Purged(tombstone), _) => {
            let rank = tombstone.body.rank;
            // Its groups went with its record: there is nothing to compare them with.
            declared = &[];
            (Who::Gone(tombstone), Vec::new(), rank)
        }
        (Found::Nobody, Some(given)) => (Who::New(given), Vec::new(), 0),
        // An end that is no member: the check of the edges says so.
        (Found::Nobody, None) => return None,
    };
    Some(Place { key, id, who, declared, groups, rank })
}

fn link(tx: &mut Tx<'_>, flow: &Flow, places: &mut [Place<'_>], cmd: &GrowFlow) -> Result<Vec<Link>, Stop> {
    let mut nodes: Vec<layout::Node<'_>> = places.iter().enumerate().map(|(at, place)| node(at, place, cmd)).collect();
    let known = existing_edges(tx, places, cmd)?;
    let mut existing = |from: usize, to: usize, group: u8| known.get(&(from, to, group)).cloned();
    let asked = Asked::new(&nodes, &cmd.edges, &mut existing);
    let added = places.iter().filter(|place| matches!(place.who, Who::New(_))).count();
    check_totals(flow, added as u64, asked.added(), tx.limits())?;
    asked.check_counts(&nodes, tx.limits())?;
    let links = asked.link(&mut nodes)?;
    let groups: Vec<Vec<Group>> = nodes.into_iter().map(|node| node.groups).collect();
    for (place, groups) in places.iter_mut().zip(groups) {
        place.groups = groups;
    }
    if let Err(cycle) = layout::levels(places.len(), &links) {
        let path = cycle.iter().map(|at| places[*at].key.clone()).collect();
        return Err(Rejection::BadGraph { problems: vec![Problem::new("edges", Wrong::Cycle { path })] }.into());
    }
    Ok(links)
}

fn node<'a>(path: usize, place: &Place<'a>, cmd: &GrowFlow) -> layout::Node<'a> {
    let member = place.there().and_then(Execution::member);
    let inputs = place.there().into_iter().flat_map(|execution| execution.inlets().iter());
    let inputs = inputs.filter_map(|inlet| inlet.input.clone()).filter(|name| !name.ends_with("[]"));
    layout::Node {
        key: place.key.clone(),
        groups: place.groups.clone(),
        ins: member.map_or(0, |member| member.ins),
        outs: member.map_or(0, |member| member.outs),
        inputs: inputs.collect(),
        declared: place.declared,
        path,
        sealed: match &place.who {
            Who::New(_) => cmd.seal,
            Who::There(_) => member.is_some_and(|member| member.sealed),
            Who::Gone(_) => false,
        },
        had: member.map(|member| member.groups.iter().map(|group| group.n).collect()),
    }
}

type Known = BTreeMap<(usize, usize, u8), (edge::On, Option<Text>)>;

/// The edges between these members that are there already.
fn existing_edges(tx: &mut Tx<'_>, places: &[Place<'_>], cmd: &GrowFlow) -> Result<Known, Stop> {
    let by_key: BTreeMap<&Text, usize> = places.iter().enumerate().map(|(at, place)| (&place.key, at)).collect();
    let mut asked: Vec<(usize, usize, Inlet)> = Vec::new();
    for given in &cmd.edges {
        let (Some(from), Some(to)) = (by_key.get(&given.from), by_key.get(&given.to)) else { continue };
        let Some(downstream) = places[*to].there() else { continue };
        let upstream = places[*from].id.uuid();
        asked.extend(
            downstream
                .inlets()
                .iter()
                .filter(|inlet| inlet.upstream == upstream)
                .map(|inlet| (*from, *to, inlet.clone())),
        );
    }
    if tx.prefetch_all(asked.iter().map(|(from, _, inlet)| Key::Edge(places[*from].id, inlet.number))) {
        return Err(Stop::Miss);
    }
    let mut known = Known::new();
    for (from, to, inlet) in asked {
        if let Some(Record::Edge(edge)) = tx.get(Key::Edge(places[from].id, inlet.number), PartMask::NONE)? {
            known.insert((from, to, inlet.group), (edge.body.on, edge.body.input));
        }
    }
    Ok(known)
}

fn check_totals(flow: &Flow, members: u64, edges: u64, limits: &Limits) -> Result<(), Rejection> {
    let mut problems = Problems::default();
    let (members, edges) = (u64::from(flow.summary.total_members) + members, flow.summary.edges_total + edges);
    for (what, limit, got) in
        [("members", u64::from(limits.flow_members_max), members), ("edges", limits.flow_edges_max, edges)]
    {
        if got > limit {
            problems.push(|| what.into(), Wrong::Limit { what, limit, got });
        }
    }
    problems.done()
}

/// A late edge needs a downstream that has not begun, and a group that is not decided.
fn check_late(places: &[Place<'_>], links: &[Link]) -> Result<(), Rejection> {
    // There is a link for every edge of the call, in their order.
    for (at, link) in links.iter().enumerate().filter(|(_, link)| !link.existed) {
        if let Err(rejection) = refuse_late(&places[link.to], link) {
            let (from, to) = (places[link.from].key.clone(), places[link.to].key.clone());
            let wrong = Wrong::Edge { from, to, rejection: Box::new(rejection) };
            return Err(Rejection::BadGraph { problems: vec![Problem::new(format!("edges[{at}]"), wrong)] });
        }
    }
    Ok(())
}

fn refuse_late(downstream: &Place<'_>, link: &Link) -> Result<(), Rejection> {
    match &downstream.who {
        Who::New(_) => Ok(()),
        Who::Gone(tombstone) => {
            let (outcome, reason) = (tombstone.body.outcome, tombstone.body.reason);
            Err(Rejection::ExecutionTerminal { outcome, reason, epoch: 0, attempt: None })
        }
        Who::There(execution) => {
            refuse_done(execution)?;
            if execution.has_begun() || matches!(execution.hot.state, MemberState::Active { .. }) {
                return Err(Rejection::DownstreamBegun);
            }
            match downstream.groups[usize::from(link.group)].state {
                GroupState::Pending => Ok(()),
                verdict => Err(Rejection::GroupDecided { verdict }),
            }
        }
    }
}

/// Gives all members their ranks; how many it wrote that the call does not name.
fn rank_all(tx: &mut Tx<'_>, places: &mut [Place<'_>], links: &[Link]) -> Result<usize, Stop> {
    let before = tx.records();
    let node =
        |place: &Place<'_>| rank::Node { id: place.id, key: place.key.clone(), outs: place.outs(), rank: place.rank };
    let ranks = rank::raise(tx, places.iter().map(node).collect(), links)?;
    for place in places.iter_mut() {
        place.rank = ranks[&place.id];
    }
    let named: BTreeSet<ExecutionId> = places.iter().map(|place| place.id).collect();
    for (id, rank) in ranks.into_iter().filter(|(id, _)| !named.contains(id)) {
        // The search has found each of them in one form or the other.
        match tx.find_execution(id, PartMask::NONE) {
            Ok(Some(mut execution)) => {
                if execution.member().is_some_and(|member| member.rank != rank) {
                    execution.member_mut().rank = rank;
                    tx.put_execution(execution);
                }
            }
            Ok(None) | Err(Stop::Rejected(_)) => {
                if let Some(mut stone) = damaged::stone(tx, id)?.filter(|stone| stone.body.rank != rank) {
                    stone.body.rank = rank;
                    tx.put(Record::Tombstone(Box::new(stone)));
                }
            }
            Err(Stop::Miss) => return Err(Stop::Miss),
        }
    }
    Ok(tx.records() - before)
}

/// Refuses what one commit does not take with all that follows from it; of its records so many only got another rank.
pub(crate) fn check_size(tx: &Tx<'_>, raised: usize) -> Result<(), Rejection> {
    let (limit, got) = (FLOW_GROW_RECORDS_MAX, tx.records());
    if got <= limit {
        return Ok(());
    }
    if got - raised <= limit {
        return Err(Rejection::GraphTooLarge { visited: raised as u32 });
    }
    let wrong = Wrong::Limit { what: "records that the call writes", limit: limit as u64, got: got as u64 };
    Err(Rejection::BadGraph { problems: vec![Problem::new("edges", wrong)] })
}

/// The numbers that the first new member and edge get.
struct Numbers {
    member: u32,
    seq: u64,
}

fn write(
    tx: &mut Tx<'_>,
    who: &Principal,
    cmd: &GrowFlow,
    places: Vec<Place<'_>>,
    links: &[Link],
    numbers: Numbers,
    follow: &mut Follow,
) -> Result<(), Stop> {
    let mut outs: Vec<u32> = places.iter().map(Place::outs).collect();
    let mut inlets: Vec<Vec<Inlet>> = vec![Vec::new(); places.len()];
    let mut edges = Vec::with_capacity(links.len());
    for (at, link) in links.iter().filter(|link| !link.existed).enumerate() {
        let upstream = places[link.from].id;
        let number = outs[link.from];
        outs[link.from] += 1;
        inlets[link.to].push(Inlet { group: link.group, upstream: upstream.uuid(), number, input: link.input.clone() });
        let body = edge::Body {
            flow: cmd.flow,
            downstream: places[link.to].id,
            group: link.group,
            on: link.on,
            input: link.input.clone(),
            seq: numbers.seq + at as u64,
            resolved: None,
        };
        edges.push((link.from, Edge { upstream, number, body }));
    }
    let late: BTreeMap<usize, Late> =
        places.iter().enumerate().filter_map(|(at, place)| Some((at, end_of(place)?))).collect();
    let mut number = numbers.member;
    for (at, place) in places.into_iter().enumerate() {
        let given = std::mem::take(&mut inlets[at]);
        match place.who {
            Who::New(new) => {
                let member = Member {
                    flow: cmd.flow,
                    key: place.key,
                    number,
                    critical: new.critical,
                    rank: place.rank,
                    sealed: cmd.seal,
                    outs: outs[at],
                    ins: given.len() as u32,
                    has_inputs: given.iter().any(|inlet| inlet.input.is_some()),
                    groups: place.groups,
                    resolutions: 0,
                    pinned: None,
                    opened_epoch: 0,
                    cause: None,
                };
                number += 1;
                let trace = new.submit.trace.clone();
                let joining = submit::Joining { member, inlets: given, sealed: cmd.seal, trace };
                let mut spawned = new.submit.clone();
                spawned.parent = cmd.within;
                submit::count_child(tx, cmd.within)?;
                submit::insert_member(tx, who, &spawned, place.id, joining)?;
            }
            Who::There(execution) => {
                let changed = Changed { groups: place.groups, rank: place.rank, outs: outs[at], inlets: given };
                rewrite(tx, execution.id, changed)?;
            }
            Who::Gone(mut tombstone) => {
                if (tombstone.body.outs, tombstone.body.rank) != (outs[at], place.rank) {
                    (tombstone.body.outs, tombstone.body.rank) = (outs[at], place.rank);
                    tx.put(Record::Tombstone(tombstone));
                }
            }
        }
    }
    let mut resolved = Vec::new();
    for (from, edge) in edges {
        resolved.extend(late.contains_key(&from).then_some((from, edge.upstream, edge.number)));
        tx.insert(Record::Edge(Box::new(edge)));
    }
    let mut missing = false;
    for (from, upstream, number) in resolved {
        match resolve::late(tx, upstream, number, &late[&from], follow) {
            Err(Stop::Miss) => missing = true,
            done => done?,
        }
    }
    if missing { Err(Stop::Miss) } else { Ok(()) }
}

/// How an upstream ended, if it has.
fn end_of(place: &Place<'_>) -> Option<Late> {
    match &place.who {
        Who::New(_) => None,
        Who::There(execution) => match &execution.hot.state {
            MemberState::Done { outcome, reason, attempt, by, .. } => {
                let replays = execution.hot.replays;
                Some(Late { outcome: *outcome, reason: *reason, attempt: *attempt, replays, by: by.clone() })
            }
            _ => None,
        },
        Who::Gone(tombstone) => {
            let (outcome, reason) = (tombstone.body.outcome, tombstone.body.reason);
            Some(Late { outcome, reason, attempt: None, replays: 0, by: "engine".into() })
        }
    }
}

struct Changed {
    groups: Vec<Group>,
    rank: u64,
    outs: u32,
    inlets: Vec<Inlet>,
}

/// Writes a member that is there with its new edges. One that could have run waits again.
fn rewrite(tx: &mut Tx<'_>, id: ExecutionId, changed: Changed) -> Result<(), Stop> {
    // Looked up again: the caller has been written since, with its new children.
    let mut execution = tx.execution(id, WITH_INLETS)?;
    let old = execution.member().expect("grow: it is a member").clone();
    if changed.inlets.is_empty() && (old.rank, old.outs) == (changed.rank, changed.outs) {
        return Ok(());
    }
    let member = execution.member_mut();
    member.rank = changed.rank;
    member.outs = changed.outs;
    if !changed.inlets.is_empty() {
        member.groups = changed.groups;
        member.ins += changed.inlets.len() as u32;
        member.has_inputs |= changed.inlets.iter().any(|inlet| inlet.input.is_some());
        let unresolved = member.pending();
        let mut inlets = (**execution.inlets()).clone();
        inlets.extend(changed.inlets);
        execution.set_inlets(inlets);
        if group::hold(&execution).is_some() {
            group::set_hold(&mut execution, unresolved, false);
        } else {
            let now = tx.now();
            settle::place(&mut execution, Hold::Dependencies { unresolved, sealed: true }, now);
        }
    }
    tx.put_execution(execution);
    Ok(())
}
