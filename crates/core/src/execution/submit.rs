//! Submitting: a new execution, or the one that its idempotency key stands for. Never makes two of one key.

use super::fence::{self, Verb};
use super::settle::{self, Waits};
use super::{emit, policy, visible, when};
use crate::command::{Payload, Principal, Submit, When, Within};
use crate::digest;
use crate::error::Rejection;
use crate::event::Fact;
use crate::flow::member::{self, Found, member_id};
use crate::flow::problem::{Problem, Wrong};
use crate::flow::{group, grow};
use crate::id::{ExecutionId, FlowId};
use crate::limits::*;
use crate::record::dedup::{Body, What};
use crate::record::execution::{Deadline, Hold, Holds, Hot, Next, PublicState, Spec, State, Steps, Why};
use crate::record::member::Inlet;
use crate::record::{Content, Dedup, Execution, Flow, Key, Member, Record};
use crate::reply::{Reply, Submitted};
use crate::schema::{Kind, PartMask};
use crate::text::{
    Text, check_key, check_name, check_printable, check_range, check_size, check_tags, check_text, check_token,
};
use crate::time::Time;
use crate::tx::{Stop, Tx};
use std::collections::BTreeMap;

pub fn validate(cmd: &Submit, limits: &Limits, now: Time) -> Result<(), Rejection> {
    check_name("lane", &cmd.lane)?;
    check_token("kind", &cmd.kind, KIND_MAX)?;
    if let Some(input) = &cmd.input {
        check_size("input", input.len(), limits.input_max)?;
    }
    validate_content_type(&cmd.content_type, cmd.input.is_some())?;
    check_range("priority", cmd.priority.unwrap_or(0).into(), 0, PRIORITY_MAX.into())?;
    for (field, key) in [("concurrency_key", &cmd.concurrency_key), ("idempotency_key", &cmd.idempotency_key)] {
        if let Some(key) = key {
            check_key(field, key)?;
        }
    }
    check_tags(&cmd.tags)?;
    if let Some(trace) = &cmd.trace {
        check_text("trace", trace, TRACE_MAX)?;
    }
    policy::validate(&cmd.policy)?;
    if let Some(start) = cmd.start {
        when::validate("start", start, now)?;
    }
    deadline_at(cmd, now)?;
    Ok(())
}

/// A type without bytes would be an option without effect.
/// A payload that rides on another verb.
pub(super) fn validate_payload(field: &'static str, given: &Option<Payload>, max: usize) -> Result<(), Rejection> {
    let Some(payload) = given else { return Ok(()) };
    check_size(field, payload.bytes.len(), max)?;
    validate_content_type(&payload.content_type, true)
}

pub(super) fn validate_content_type(content_type: &Option<Text>, has_bytes: bool) -> Result<(), Rejection> {
    match content_type {
        Some(_) if !has_bytes => Err(Rejection::invalid("content_type", "is given without bytes that it describes")),
        // What no header could carry could not be told to those who read the bytes.
        Some(content_type) => check_printable("content_type", content_type, CONTENT_TYPE_MAX),
        None => Ok(()),
    }
}

pub fn submit(tx: &mut Tx<'_>, who: &Principal, cmd: &Submit) -> Result<Reply, Stop> {
    let reply = one(tx, who, cmd)?;
    tell_joined(tx, who)?;
    Ok(reply)
}

/// One submission of a command that may have several; what they make of flows is told once, behind them all.
pub(super) fn one(tx: &mut Tx<'_>, who: &Principal, cmd: &Submit) -> Result<Reply, Stop> {
    let id = cmd.id.expect("submit: the engine mints the id");
    let parent_id = cmd.parent.map(|(parent, _)| parent);
    let mut bound = None;
    // What makes a child of a member unique is its flow, and no binding of its own.
    let joins = match parent_id {
        Some(parent) if !cmd.outside => {
            tx.find_execution(parent, PartMask::NONE)?.is_some_and(|it| it.member().is_some())
        }
        _ => false,
    };
    if let Some(key) = cmd.idempotency_key.as_ref().filter(|_| !joins) {
        let dedup_key = Key::Dedup(id.partition(), digest::idempotency(&who.namespace, parent_id, key));
        let fingerprint = fingerprint(cmd);
        if let Some(parent) = parent_id {
            tx.prefetch(Key::Execution(parent), PartMask::NONE);
        }
        if let Some(reply) = duplicate(tx, dedup_key, fingerprint)? {
            return Ok(reply);
        }
        bound = Some((dedup_key, fingerprint));
    }
    let (inherited, flow) = spawn(tx, who, cmd, id)?;
    if let Some(flow) = flow {
        return join(tx, who, cmd, id, flow, inherited);
    }
    if let Some((Key::Dedup(partition, digest), fingerprint)) = bound {
        let what = What::Key { execution: id, purged: None };
        let home = cmd.idempotency_key.as_ref().filter(|_| cmd.parent.is_none());
        let home = home.map(|key| digest::place(&who.namespace, key));
        let body = Body { namespace: who.namespace.clone(), fingerprint, what, expires_at: None, home };
        tx.put(Record::Dedup(Box::new(Dedup { partition, digest, body })));
    }
    let fingerprint = bound.map(|(_, fingerprint)| fingerprint).unwrap_or_default();
    let trace = cmd.trace.clone().or(inherited);
    let execution = build(tx.now(), who, cmd, id, fingerprint, trace, Holds::default())?;
    let public_state = announce(tx, who, &execution);
    tx.insert(Record::Execution(Box::new(execution)));
    Ok(Reply::Submitted(Submitted { id, public_state, duplicate: false, purged: false }))
}

/// A member as a flow adds it.
pub(crate) struct Joining {
    pub member: Member,
    pub inlets: Vec<Inlet>,
    /// Its edges are all known.
    pub sealed: bool,
    pub trace: Option<Text>,
}

/// Adds a member to its flow: it waits for its edges, and for its seal.
pub(crate) fn insert_member(
    tx: &mut Tx<'_>,
    who: &Principal,
    cmd: &Submit,
    id: ExecutionId,
    joining: Joining,
) -> Result<PublicState, Stop> {
    let Joining { member, inlets, sealed, trace } = joining;
    let mut holds = Holds::default();
    if !sealed || !member.groups.is_empty() {
        holds.insert(Hold::Dependencies { unresolved: member.ins, sealed });
    }
    let fingerprint = member_fingerprint(cmd, member.critical);
    let mut execution = build(tx.now(), who, cmd, id, fingerprint, trace, holds)?;
    execution.set_member(member);
    if !inlets.is_empty() {
        execution.set_inlets(inlets);
    }
    let public_state = announce(tx, who, &execution);
    tx.insert(Record::Execution(Box::new(execution)));
    Ok(public_state)
}

/// A child of a member joins its flow, under its key or, without one, under its own id.
fn join(
    tx: &mut Tx<'_>,
    who: &Principal,
    cmd: &Submit,
    id: ExecutionId,
    flow: Flow,
    trace: Option<Text>,
) -> Result<Reply, Stop> {
    let key: Text = match &cmd.idempotency_key {
        Some(key) => match std::str::from_utf8(key) {
            Ok(key) => key.into(),
            Err(_) => return Err(Rejection::invalid("idempotency_key", "of a child that joins a flow is text").into()),
        },
        None => id.to_string().into(),
    };
    check_printable("idempotency_key", &key, NODE_KEY_MAX)?;
    let id = member_id(flow.id, &key);
    let fingerprint = member_fingerprint(cmd, !cmd.uncritical);
    let existing = match member::find(tx, flow.id, &key, PartMask::NONE)? {
        Found::Live(execution) => Some((execution.spec.fingerprint, execution.public_state(), false)),
        Found::Purged(stone) => Some((stone.body.fingerprint, PublicState::of_end(stone.body.outcome), true)),
        Found::Nobody => None,
    };
    if let Some((known, public_state, purged)) = existing {
        if known != fingerprint {
            return Err(Rejection::IdempotencyMismatch { existing: Some(id) }.into());
        }
        return Ok(Reply::Submitted(Submitted { id, public_state, duplicate: true, purged }));
    }
    grow::refuse_closed(&flow)?;
    let number = flow.summary.total_members + added_before(tx, flow.id);
    let got = u64::from(number) + 1;
    let limit = u64::from(tx.limits().flow_members_max);
    if got > limit {
        let wrong = Wrong::Limit { what: "members", limit, got };
        return Err(Rejection::BadGraph { problems: vec![Problem::new("members", wrong)] }.into());
    }
    let member = Member {
        flow: flow.id,
        key,
        number,
        critical: !cmd.uncritical,
        rank: 0,
        sealed: true,
        outs: 0,
        ins: 0,
        has_inputs: false,
        groups: Vec::new(),
        resolutions: 0,
        pinned: None,
        opened_epoch: 0,
        cause: None,
    };
    count_child(tx, cmd.parent)?;
    let joining = Joining { member, inlets: Vec::new(), sealed: true, trace: cmd.trace.clone().or(trace) };
    let public_state = insert_member(tx, who, cmd, id, joining)?;
    Ok(Reply::Submitted(Submitted { id, public_state, duplicate: false, purged: false }))
}

/// Members of the flow that this command has added so far: the totals do not know them yet.
fn added_before(tx: &Tx<'_>, flow: FlowId) -> u32 {
    joined(tx).get(&flow).copied().unwrap_or(0)
}

/// How many members this command has added to which flows.
fn joined(tx: &Tx<'_>) -> BTreeMap<FlowId, u32> {
    let mut joined = BTreeMap::new();
    for key in tx.written(Kind::Execution) {
        if let Some(Record::Execution(new)) = tx.after(&key)
            && let Some(member) = new.member()
            && tx.before(&key).is_none()
        {
            *joined.entry(member.flow).or_default() += 1;
        }
    }
    joined
}

/// The graph of a flow has another revision once children have joined it, however many come in the commit.
pub(super) fn tell_joined(tx: &mut Tx<'_>, who: &Principal) -> Result<(), Stop> {
    for (id, members) in joined(tx) {
        let mut flow = tx.flow_of(id)?;
        flow.hot.revision += 1;
        group::tell_changed(tx, &flow, &who.name, members, 0);
        tx.put_flow(flow);
    }
    Ok(())
}

/// Tells of a new execution, and where it stands.
fn announce(tx: &mut Tx<'_>, who: &Principal, execution: &Execution) -> PublicState {
    let public_state = execution.public_state();
    let start_at = match &execution.hot.state {
        State::Delayed { until, .. } => Some(*until),
        _ => None,
    };
    let fact = Fact::Submitted {
        public_state,
        priority: execution.hot.priority,
        start_at,
        deadline_at: execution.hot.deadline_at,
    };
    emit(tx, execution, &who.name, fact);
    public_state
}

/// What was given of a member, apart from what makes it one.
pub(crate) fn member_fingerprint(cmd: &Submit, critical: bool) -> [u8; 32] {
    digest::fingerprint(&(
        (&cmd.lane, &cmd.kind, &cmd.input, &cmd.content_type, &cmd.priority, &cmd.capabilities),
        (&cmd.concurrency_key, &cmd.start, &cmd.deadline, &cmd.policy, &cmd.tags, critical),
    ))
}

/// The execution as it stands after its first `settle`.
fn build(
    now: Time,
    who: &Principal,
    cmd: &Submit,
    id: ExecutionId,
    fingerprint: [u8; 32],
    trace: Option<Text>,
    holds: Holds,
) -> Result<Execution, Rejection> {
    let spec = Spec {
        namespace: who.namespace.clone(),
        lane: cmd.lane.clone(),
        kind: cmd.kind.clone(),
        content_type: cmd.content_type.clone(),
        creator: who.name.clone(),
        capabilities: cmd.capabilities.clone(),
        concurrency_key: cmd.concurrency_key.clone(),
        deadline: cmd.deadline.map(deadline),
        policy: cmd.policy.clone(),
        parent: cmd.parent.map(|(parent, _)| parent),
        idempotency_key: cmd.idempotency_key.clone(),
        fingerprint,
        trace,
    };
    let hot = Hot {
        state: State::Ready { since: now, order: 0, next: Next::First },
        priority: cmd.priority.unwrap_or(0),
        epoch: 0,
        attempts: 0,
        retries_used: 0,
        reclaims: 0,
        reclaims_in_row: 0,
        replays: 0,
        children: 0,
        last_lease: None,
        open: None,
        progress: None,
        waited: None,
        previous: None,
        deadline_at: deadline_at(cmd, now)?,
        created_at: now,
        first_started_at: None,
        changed_at: now,
        updated_at: now,
        input_bytes: cmd.input.as_ref().map(|input| input.len() as u32),
        checkpoint: Content::Absent,
        steps: Steps::default(),
    };
    let mut execution = Execution::new(id, spec, hot, cmd.tags.clone(), cmd.input.clone());
    let not_before = cmd.start.map(|start| (when::moment(start, now), Why::Start));
    settle::settle(&mut execution, Waits { holds, not_before, next: Next::First }, now);
    Ok(execution)
}

fn deadline(when: When) -> Deadline {
    match when {
        When::At(at) => Deadline::At(at),
        When::InMs(ms) => Deadline::InMs(ms),
    }
}

fn deadline_at(cmd: &Submit, now: Time) -> Result<Option<Time>, Rejection> {
    let start = cmd.start.map_or(now, |start| when::moment(start, now));
    cmd.deadline.map(|given| when::deadline(deadline(given), start, now)).transpose()
}

/// What the caller gave, apart from `trace` and the fence: a parent that runs again has another lease and means the
/// same child.
fn fingerprint(cmd: &Submit) -> [u8; 32] {
    let parent = cmd.parent.map(|(parent, _)| parent);
    digest::fingerprint(&(
        (&cmd.lane, &cmd.kind, &cmd.input, &cmd.content_type, &cmd.priority, &cmd.capabilities),
        (&cmd.concurrency_key, &cmd.start, &cmd.deadline, &cmd.policy, &cmd.tags, &cmd.idempotency_key, &parent),
    ))
}

/// The answer for a key that is bound already.
fn duplicate(tx: &mut Tx<'_>, key: Key, fingerprint: [u8; 32]) -> Result<Option<Reply>, Stop> {
    let Some(Record::Dedup(dedup)) = tx.get(key, PartMask::NONE)? else { return Ok(None) };
    let What::Key { execution: id, purged } = dedup.body.what else { return Ok(None) };
    if dedup.body.expires_at.is_some_and(|at| at <= tx.now()) {
        return Ok(None);
    }
    if dedup.body.fingerprint != fingerprint {
        return Err(Rejection::IdempotencyMismatch { existing: Some(id) }.into());
    }
    let public_state = match purged {
        Some(ended) => ended,
        None if id.partition() != key.partition() => {
            return Err(Rejection::Elsewhere { partition: id.partition() }.into());
        }
        None => tx.execution(id, PartMask::NONE)?.public_state(),
    };
    Ok(Some(Reply::Submitted(Submitted { id, public_state, duplicate: true, purged: purged.is_some() })))
}

/// What a child takes over: the trace it goes on with, and the flow it joins.
type Inherited = (Option<Text>, Option<Flow>);

/// Checks that the parent is held by the caller, and counts a child that joins no flow.
fn spawn(tx: &mut Tx<'_>, who: &Principal, cmd: &Submit, id: ExecutionId) -> Result<Inherited, Stop> {
    let Some((parent_id, fence)) = cmd.parent else { return Ok((None, None)) };
    let parent = visible(tx, who, parent_id, PartMask::NONE)?;
    fence::admit(tx, &parent, Some(fence), Verb::Spawn)?;
    if parent_id.partition() != id.partition() {
        return Err(Rejection::internal("EX-27 a child is placed in its parent's partition").into());
    }
    let trace = parent.spec.trace.clone();
    let flow = match parent.member() {
        Some(member) if !cmd.outside => Some(tx.flow_of(member.flow)?),
        _ => None,
    };
    if flow.is_none() {
        count_child(tx, cmd.parent)?;
    }
    Ok((trace, flow))
}

/// Counts a child of the parent.
pub(crate) fn count_child(tx: &mut Tx<'_>, parent: Within) -> Result<(), Stop> {
    let Some((parent, _)) = parent else { return Ok(()) };
    let mut parent = tx.execution(parent, PartMask::NONE)?;
    parent.hot.children = parent.hot.children.saturating_add(1);
    tx.put_execution(parent);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, Scopes};
    use crate::kit::World;
    use crate::kit::calls::{call, submit as blank};
    use crate::text::Capabilities;
    use bytes::Bytes;
    use std::collections::BTreeMap;

    fn try_submit(world: &mut World, change: impl FnOnce(&mut Submit)) -> Result<Reply, Rejection> {
        let mut cmd = blank();
        change(&mut cmd);
        cmd.id = Some(world.fresh_id());
        world.run(Command::Submit(Box::new(cmd)))
    }

    #[test]
    fn ex_6_input_with_every_byte_value_comes_back_bit_for_bit() {
        let every: Bytes = (0..=255u8).collect();
        for input in [None, Some(Bytes::new()), Some(every)] {
            let mut world = World::new();
            let id = world.submit(|cmd| cmd.input = input.clone());
            assert_eq!(world.execution(id).input(), input.as_ref());
            assert_eq!(world.claim(id).input, input, "absent and empty stay different");
        }
    }

    #[test]
    fn ex_30_the_largest_legal_submit_succeeds() {
        let mut world = World::new();
        let tokens: Vec<String> = (0..63).map(|at| format!("{at:0>63}")).collect();
        let tags: BTreeMap<Text, Text> =
            (0..TAGS_MAX).map(|at| (format!("{at:k>64}").into(), "v".repeat(TAG_VALUE_MAX).into())).collect();
        let id = world.submit(|cmd| {
            cmd.lane = "l".repeat(NAME_MAX).into();
            cmd.kind = "k".repeat(KIND_MAX).into();
            cmd.input = Some(vec![7; INPUT_MAX].into());
            cmd.content_type = Some("t".repeat(CONTENT_TYPE_MAX).into());
            cmd.priority = Some(PRIORITY_MAX);
            cmd.capabilities = Capabilities::new(&tokens).unwrap();
            cmd.concurrency_key = Some(vec![0; KEY_MAX].into());
            cmd.idempotency_key = Some(vec![255; KEY_MAX].into());
            cmd.trace = Some("t".repeat(TRACE_MAX).into());
            cmd.tags = tags.clone();
        });
        let execution = world.execution(id);
        assert_eq!(**execution.tags(), tags);
        assert_eq!(execution.input().map(Bytes::len), Some(INPUT_MAX));
    }

    #[test]
    fn ex_7_what_is_over_a_limit_is_refused_whole() {
        let mut world = World::new();
        let before = world.clone();
        type Change = fn(&mut Submit);
        let refused: [(&str, Change); 14] = [
            ("payload_too_large", |cmd| cmd.input = Some(vec![0; INPUT_MAX + 1].into())),
            ("invalid_argument", |cmd| cmd.content_type = Some("text/plain".into())),
            ("invalid_argument", |cmd| (cmd.input, cmd.content_type) = (Some("a".into()), Some("a\nb".into()))),
            ("invalid_argument", |cmd| (cmd.input, cmd.content_type) = (Some("a".into()), Some("".into()))),
            ("invalid_argument", |cmd| cmd.priority = Some(PRIORITY_MAX + 1)),
            ("invalid_argument", |cmd| cmd.lane = "".into()),
            ("invalid_argument", |cmd| cmd.kind = "a b".into()),
            ("invalid_argument", |cmd| cmd.idempotency_key = Some(Bytes::new())),
            ("payload_too_large", |cmd| cmd.concurrency_key = Some(vec![0; KEY_MAX + 1].into())),
            ("payload_too_large", |cmd| cmd.trace = Some("t".repeat(TRACE_MAX + 1).into())),
            ("invalid_argument", |cmd| drop(cmd.tags.insert("weft.x".into(), "1".into()))),
            ("invalid_argument", |cmd| cmd.policy.retry.max_retries = 1001),
            ("invalid_argument", |cmd| cmd.start = Some(When::InMs(HORIZON_MS + 1))),
            ("deadline_in_past", |cmd| cmd.deadline = Some(When::InMs(0))),
        ];
        for (code, change) in refused {
            assert_eq!(try_submit(&mut world, change).unwrap_err().code(), code);
        }
        assert_eq!(world.records, before.records);
    }

    #[test]
    fn ex_78_the_fingerprint_covers_what_was_given_but_not_the_trace() {
        let mut world = World::new();
        let id = world.submit(|cmd| cmd.idempotency_key = Some("k".into()));
        let repeat = try_submit(&mut world, |cmd| {
            cmd.idempotency_key = Some("k".into());
            cmd.trace = Some("another".into());
        });
        let duplicate = |reply: Reply| matches!(reply, Reply::Submitted(done) if done.id == id && done.duplicate);
        assert!(duplicate(repeat.unwrap()));
        let other = try_submit(&mut world, |cmd| {
            cmd.idempotency_key = Some("k".into());
            cmd.input = Some(Bytes::new());
        });
        assert_eq!(other, Err(Rejection::IdempotencyMismatch { existing: Some(id) }));
    }

    #[test]
    fn ops_22_a_key_whose_execution_is_in_another_partition_is_asked_for_there() {
        let mut world = World::new();
        let id = world.submit(|cmd| cmd.idempotency_key = Some("k".into()));
        let key = Key::Dedup(id.partition(), digest::idempotency("shop", None, b"k"));
        let Some(Record::Dedup(mut dedup)) = world.record(key) else { panic!("the key is bound") };
        assert_eq!(dedup.body.home, Some(digest::place("shop", b"k")), "it says how it was placed");
        let elsewhere = crate::id::PartitionId(9);
        dedup.body.what = What::Key { execution: ExecutionId::new(elsewhere, id.uuid()), purged: None };
        let parts = dedup.encode(PartMask::ALL).into_iter().filter_map(|(part, bytes)| Some((part, bytes?)));
        world.records.get_mut(&key).unwrap().parts = parts.collect();
        let repeat = try_submit(&mut world, |cmd| cmd.idempotency_key = Some("k".into()));
        assert_eq!(repeat, Err(Rejection::Elsewhere { partition: elsewhere }));
    }

    #[test]
    fn ex_77_the_scope_of_a_key_is_the_namespace() {
        let mut world = World::new();
        let first = world.submit(|cmd| cmd.idempotency_key = Some("k".into()));
        let id = world.fresh_id();
        let cmd = Submit { id: Some(id), idempotency_key: Some("k".into()), ..blank() };
        let mut call = call(Command::Submit(Box::new(cmd)));
        call.principal = Principal::new("other", "ann", Scopes::SUBMIT);
        let Ok(Reply::Submitted(submitted)) = world.call(&call) else { panic!("another namespace, another key") };
        assert!(!submitted.duplicate && submitted.id != first);
    }

    #[test]
    fn ex_10_a_child_needs_the_fence_of_its_parent() {
        let mut world = World::new();
        let parent = world.submit(|_| {});
        let fence = crate::kit::calls::fence(&world.claim(parent));
        let child = world.submit(|cmd| cmd.parent = Some((parent, fence)));
        assert_eq!(world.execution(parent).hot.children, 1);
        assert_eq!(world.execution(child).spec.parent, Some(parent));
        world.at(30_000);
        let late = try_submit(&mut world, |cmd| cmd.parent = Some((parent, fence)));
        assert_eq!(late.unwrap_err().code(), "lease_expired");
    }
}
