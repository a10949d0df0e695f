//! A new flow, checked and laid out before anything is written. Only what passed every check becomes a `Plan`.

use super::layout::{self, Asked, Link, Node};
use super::problem::{Problem, Problems, Wrong};
use crate::command::{NewFlow, NewMember, When};
use crate::digest;
use crate::error::Rejection;
use crate::execution::{submit, when};
use crate::limits::*;
use crate::record::edge::On;
use crate::record::execution::Deadline;
use crate::record::flow::{CompletionPolicy, Growth, Mode, Remaining};
use crate::record::member::Group;
use crate::text::{Text, check_key, check_printable, check_range, check_size, check_tags, check_text, check_token};
use crate::time::Time;
use serde::{Serialize, Serializer};
use std::collections::BTreeSet;
use std::ops::Range;

/// A flow that may be made. Its pieces fit into commits one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub(super) flow: NewFlow,
    pub(super) fingerprint: [u8; 32],
    pub(super) members: Vec<Planned>,
    /// By upstream, and of each in the order given.
    pub(super) edges: Vec<Out>,
    pub(super) pieces: Vec<Piece>,
}

/// What a member is besides what was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub rank: u64,
    pub groups: Vec<Group>,
    pub ins: Vec<In>,
    pub outs: Range<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct In {
    pub group: u8,
    pub from: usize,
    pub number: u32,
    pub input: Option<Text>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Out {
    pub to: usize,
    pub group: u8,
    pub on: On,
    pub input: Option<Text>,
    pub seq: u64,
}

/// What one commit adds: these members, then these edges.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Piece {
    pub members: Range<usize>,
    pub edges: Vec<(usize, Range<usize>)>,
}

impl Serialize for Plan {
    /// What two equal requests have in common.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.fingerprint.serialize(serializer)
    }
}

impl Plan {
    /// Checks the request in the order of its steps; the problems of the first step that finds any are the answer.
    pub fn new(flow: NewFlow, limits: &Limits, now: Time) -> Result<Plan, Rejection> {
        check_counts(&flow, limits)?;
        let node = |(path, member)| node(path, member, flow.seal);
        let mut nodes: Vec<Node<'_>> = flow.members.iter().enumerate().map(node).collect();
        let asked = Asked::new(&nodes, &flow.edges, &mut |_, _, _| None);
        asked.check_counts(&nodes, limits)?;
        check_fields(&flow, limits, now)?;
        check_members(&flow.members, limits, now)?;
        check_keys(&flow.members)?;
        let links = asked.link(&mut nodes)?;
        let ranks = layout::levels(nodes.len(), &links).map_err(|cycle| cyclic(&flow.members, &cycle))?;
        let groups: Vec<Vec<Group>> = nodes.into_iter().map(|node| node.groups).collect();
        check_completion(&flow)?;
        let fingerprint = digest::fingerprint(&flow);
        let (members, edges) = lay_out(ranks, groups, links);
        let pieces = pieces(&flow.members, &members);
        Ok(Plan { flow, fingerprint, members, edges, pieces })
    }

    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// How many commits it takes.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Members and edges that one of these commits writes.
    pub fn records(&self, piece: u32) -> usize {
        let edges = |piece: &Piece| piece.edges.iter().map(|(_, edges)| edges.len()).sum::<usize>();
        self.pieces.get(piece as usize).map_or(0, |piece| piece.members.len() + edges(piece))
    }

    pub fn idempotency_key(&self) -> Option<&bytes::Bytes> {
        self.flow.idempotency_key.as_ref()
    }

    pub fn tags(&self) -> &std::collections::BTreeMap<Text, Text> {
        &self.flow.tags
    }
}

fn node(path: usize, member: &NewMember, sealed: bool) -> Node<'_> {
    Node {
        key: member.key.clone(),
        groups: Vec::new(),
        ins: 0,
        outs: 0,
        inputs: BTreeSet::new(),
        declared: &member.groups,
        path,
        sealed,
        had: None,
    }
}

fn check_counts(flow: &NewFlow, limits: &Limits) -> Result<(), Rejection> {
    check_added(&flow.members, flow.edges.len())?;
    let mut problems = Problems::default();
    for (what, limit, got) in [
        ("members", u64::from(limits.flow_members_max), flow.members.len() as u64),
        ("edges", limits.flow_edges_max, flow.edges.len() as u64),
    ] {
        if got > limit {
            problems.push(|| what.into(), Wrong::Limit { what, limit, got });
        }
    }
    problems.done()
}

/// What one call may add.
pub(super) fn check_added(members: &[NewMember], edges: usize) -> Result<(), Rejection> {
    let mut problems = Problems::default();
    for (what, limit, got) in
        [("members", FLOW_SUBMIT_MEMBERS_MAX, members.len()), ("edges", FLOW_SUBMIT_EDGES_MAX, edges)]
    {
        if got > limit {
            problems.push(|| what.into(), Wrong::Limit { what, limit: limit as u64, got: got as u64 });
        }
    }
    problems.done()?;
    let bytes = members.iter().filter_map(|member| member.submit.input.as_ref()).map(|input| input.len()).sum();
    check_size("members", bytes, BATCH_BYTES_MAX)
}

fn check_fields(flow: &NewFlow, limits: &Limits, now: Time) -> Result<(), Rejection> {
    check_token("kind", &flow.kind, KIND_MAX)?;
    if let Some(name) = &flow.name {
        check_printable("name", name, NODE_KEY_MAX)?;
    }
    check_tags(&flow.tags)?;
    if let Some(trace) = &flow.trace {
        check_text("trace", trace, TRACE_MAX)?;
    }
    if let Some(key) = &flow.idempotency_key {
        check_key("idempotency_key", key)?;
    }
    check_range("idempotency_ttl_ms", flow.idempotency_ttl_ms, IDEMPOTENCY_TTL_MS_MIN, IDEMPOTENCY_TTL_MS_MAX)?;
    if let Some(ms) = flow.retention_ms {
        check_range("retention_ms", ms, 0, RETENTION_MS_MAX)?;
    }
    if let Some(ms) = flow.seal_by_ms {
        check_range("seal_by_ms", ms, 1, SEAL_BY_CEILING_MS.max(limits.seal_by_ms))?;
    }
    if let Some(deadline) = flow.deadline {
        when::deadline(form(deadline), now, now)?;
    }
    for remaining in remainings(flow) {
        check_remaining(remaining)?;
    }
    if flow.members.is_empty() && flow.seal {
        return Err(Rejection::BadGraph { problems: vec![Problem::new("members", Wrong::EmptyFlow)] });
    }
    Ok(())
}

pub(super) fn form(deadline: When) -> Deadline {
    match deadline {
        When::At(at) => Deadline::At(at),
        When::InMs(ms) => Deadline::InMs(ms),
    }
}

fn remainings(flow: &NewFlow) -> Vec<Remaining> {
    use crate::record::flow::FailurePolicy;
    let failure = match flow.failure {
        FailurePolicy::FailFast { remaining } => Some(remaining),
        FailurePolicy::Isolate | FailurePolicy::CollectAll => None,
    };
    let completion = match flow.completion {
        CompletionPolicy::AllTerminal => None,
        CompletionPolicy::Root { remaining, .. }
        | CompletionPolicy::Threshold { remaining, .. }
        | CompletionPolicy::Declared { remaining } => Some(remaining),
    };
    failure.into_iter().chain(completion).collect()
}

pub(super) fn check_remaining(remaining: Remaining) -> Result<(), Rejection> {
    match remaining {
        Remaining::Cancel(Mode::Graceful { grace_ms }) => check_range("grace_ms", grace_ms, 0, GRACE_MAX_MS),
        Remaining::Cancel(Mode::Immediate) | Remaining::FinishActive | Remaining::LetRun => Ok(()),
    }
}

/// Each member's own fields.
pub(super) fn check_members(members: &[NewMember], limits: &Limits, now: Time) -> Result<(), Rejection> {
    let mut problems = Problems::default();
    for (at, member) in members.iter().enumerate() {
        let checked = check_member(member, limits, now);
        if let Err(rejection) = checked {
            let (key, rejection) = (member.key.clone(), Box::new(rejection));
            problems.push(|| format!("members[{at}]"), Wrong::Member { key, rejection });
        }
    }
    problems.done()
}

fn check_member(member: &NewMember, limits: &Limits, now: Time) -> Result<(), Rejection> {
    check_printable("key", &member.key, NODE_KEY_MAX)?;
    if member.key.parse::<crate::ExecutionId>().is_ok() {
        return Err(Rejection::invalid("key", "looks like the id of an execution, which only children have as keys"));
    }
    if member.submit.idempotency_key.is_some() {
        return Err(Rejection::invalid(
            "idempotency_key",
            "has no effect on a member; its key is what makes it unique",
        ));
    }
    for group in &member.groups {
        check_printable("group", &group.name, GROUP_NAME_MAX)?;
    }
    submit::validate(&member.submit, limits, now)
}

pub(super) fn check_keys(members: &[NewMember]) -> Result<(), Rejection> {
    let (mut problems, mut seen) = (Problems::default(), BTreeSet::new());
    for (at, member) in members.iter().enumerate() {
        if !seen.insert(&member.key) {
            problems.push(|| format!("members[{at}].key"), Wrong::DuplicateNode { key: member.key.clone() });
        }
    }
    problems.done()
}

fn check_completion(flow: &NewFlow) -> Result<(), Rejection> {
    let mut problems = Problems::default();
    let growing = flow.growth == Growth::Dynamic || !flow.seal;
    match &flow.completion {
        CompletionPolicy::Root { key, .. }
            if !(flow.members.is_empty() || flow.members.iter().any(|member| member.key == *key)) =>
        {
            problems.push(|| "completion_policy.key".into(), Wrong::UnknownNode { key: key.clone() });
        }
        CompletionPolicy::Threshold { successes, .. } if *successes == 0 => {
            return Err(Rejection::invalid("completion_policy.successes", "must be at least 1"));
        }
        CompletionPolicy::Threshold { successes, .. } if !growing && *successes as usize > flow.members.len() => {
            let (successes, members) = (*successes, flow.members.len() as u32);
            let wrong = Wrong::ThresholdUnreachable { successes, members };
            problems.push(|| "completion_policy.successes".into(), wrong);
        }
        _ => {}
    }
    problems.done()
}

fn cyclic(members: &[NewMember], cycle: &[usize]) -> Rejection {
    let path = cycle.iter().map(|at| members[*at].key.clone()).collect();
    Rejection::BadGraph { problems: vec![Problem::new("edges", Wrong::Cycle { path })] }
}

/// Numbers the edges of each upstream, and tells each downstream where its edges are.
fn lay_out(ranks: Vec<u64>, groups: Vec<Vec<Group>>, links: Vec<Link>) -> (Vec<Planned>, Vec<Out>) {
    let mut order: Vec<(usize, &Link)> = links.iter().enumerate().collect();
    order.sort_by_key(|(seq, link)| (link.from, *seq));
    let mut members: Vec<Planned> = ranks
        .into_iter()
        .zip(groups)
        .map(|(rank, groups)| Planned { rank, groups, ins: Vec::new(), outs: 0..0 })
        .collect();
    let mut edges = Vec::with_capacity(order.len());
    let mut inlets: Vec<(usize, usize, In)> = Vec::with_capacity(order.len());
    for (seq, link) in order {
        let outs = &mut members[link.from].outs;
        if outs.start == outs.end {
            *outs = edges.len()..edges.len();
        }
        let number = outs.len() as u32;
        outs.end += 1;
        let Link { to, group, on, input, .. } = link;
        inlets.push((*to, seq, In { group: *group, from: link.from, number, input: input.clone() }));
        edges.push(Out { to: *to, group: *group, on: *on, input: input.clone(), seq: seq as u64 });
    }
    inlets.sort_by_key(|(to, seq, _)| (*to, *seq));
    for (to, _, inlet) in inlets {
        members[to].ins.push(inlet);
    }
    (members, edges)
}

/// Cuts the graph into commits: so many records each, and not too many bytes.
fn pieces(given: &[NewMember], members: &[Planned]) -> Vec<Piece> {
    const BYTES: usize = BATCH_BYTES_MAX / 2;
    let mut pieces = vec![Piece::default()];
    let (mut records, mut bytes) = (1, 0);
    for (at, member) in members.iter().enumerate() {
        let input = given[at].submit.input.as_ref().map_or(0, |input| input.len()) + member.ins.len() * 40;
        if records >= FLOW_RECORDS_PER_COMMIT || bytes + input > BYTES {
            pieces.push(Piece { members: at..at, edges: Vec::new() });
            (records, bytes) = (1, 0);
        }
        let last = pieces.len() - 1;
        pieces[last].members.end = at + 1;
        (records, bytes) = (records + 1, bytes + input);
        let mut outs = member.outs.clone();
        while !outs.is_empty() {
            if records >= FLOW_RECORDS_PER_COMMIT {
                pieces.push(Piece { members: at + 1..at + 1, edges: Vec::new() });
                (records, bytes) = (1, 0);
            }
            let room = (FLOW_RECORDS_PER_COMMIT - records).min(outs.len());
            let last = pieces.len() - 1;
            pieces[last].edges.push((at, outs.start..outs.start + room));
            outs.start += room;
            records += room;
        }
    }
    pieces
}
