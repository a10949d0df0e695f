//! What upstreams hand over: gathered at the first claim of an opening, and the same for every later one.

use super::damaged;
use crate::command::Payload;
use crate::error::Rejection;
use crate::execution::claim::result;
use crate::id::ExecutionId;
use crate::record::edge::{Edge, Resolution};
use crate::record::execution::Outcome;
use crate::record::{Execution, Key, Record};
use crate::reply::{Input, InputValue};
use crate::schema::{PartMask, execution as schema};
use crate::text::Text;
use crate::tx::{Stop, Tx};

/// Values that are asked for at a time before anything is known about their size, and at most.
const VALUES_FIRST: usize = 32;
const VALUES_AT_ONCE: usize = 512;

/// The inputs of a claim, and the names of edges that had not been resolved at the first one.
#[derive(Default)]
pub(crate) struct Inputs {
    pub given: Vec<Input>,
    pub missing: Vec<Text>,
}

/// All named edges whose upstream had ended by the first claim of this opening, in the order they were added.
pub(crate) fn gather(tx: &mut Tx<'_>, execution: &mut Execution) -> Result<Inputs, Stop> {
    let Some(member) = execution.member().filter(|member| member.has_inputs).cloned() else {
        return Ok(Inputs::default());
    };
    let edges = named_edges(tx, execution)?;
    let pinned = match member.pinned {
        Some(pinned) => pinned,
        None => {
            execution.member_mut().pinned = Some(member.resolutions);
            member.resolutions
        }
    };
    let mut inputs = Inputs::default();
    let mut room = Room { left: Some(tx.limits().inputs_inline_max), ..Room::default() };
    let mut missing = false;
    for edge in edges {
        let Some(name) = edge.body.input.clone() else { continue };
        let Some(resolution) = edge.body.resolved.filter(|resolution| resolution.order < pinned) else {
            inputs.missing.push(name);
            continue;
        };
        match input(tx, &edge, name, resolution, &mut room) {
            Ok(input) => inputs.given.push(input),
            Err(Stop::Miss) => missing = true,
            Err(stop) => return Err(stop),
        }
    }
    if missing { Err(Stop::Miss) } else { Ok(inputs) }
}

/// What is left of the room for values, and how many were asked for that are not in memory.
#[derive(Default)]
struct Room {
    /// `None` behind the first value that did not fit.
    left: Option<usize>,
    given: usize,
    bytes: usize,
    asked: usize,
}

impl Room {
    /// As many as fit, if they are like those before them. To ask for all would load what is then left to be read.
    fn may_ask(&self) -> bool {
        let (given, left) = (self.given.max(1), self.left.unwrap_or(0));
        let alike = left / (self.bytes / given).max(1);
        self.asked < if self.given == 0 { VALUES_FIRST } else { alike.clamp(VALUES_FIRST, VALUES_AT_ONCE) }
    }
}

/// The named edges that lead to a member, in the order they were added.
fn named_edges(tx: &mut Tx<'_>, execution: &Execution) -> Result<Vec<Edge>, Stop> {
    let with_inlets = tx.execution(execution.id, PartMask::of(schema::INLETS))?;
    let named = with_inlets.inlets().iter().filter(|inlet| inlet.input.is_some());
    let keys: Vec<Key> = named
        .map(|inlet| Key::Edge(ExecutionId::new(execution.id.partition(), inlet.upstream), inlet.number))
        .collect();
    if tx.prefetch_all(keys.iter().copied()) {
        return Err(Stop::Miss);
    }
    let mut edges = Vec::with_capacity(keys.len());
    for key in keys {
        match tx.get(key, PartMask::NONE)? {
            Some(Record::Edge(edge)) => edges.push(*edge),
            _ => return Err(Rejection::internal(format!("FL-22 {key:?} is where its downstream says")).into()),
        }
    }
    Ok(edges)
}

/// The result of the end that the edge was resolved with; the upstream may have been replayed since.
fn value(tx: &mut Tx<'_>, id: ExecutionId, end: Resolution) -> Result<Option<Payload>, Stop> {
    if end.attempt.is_some() {
        return result(tx, id, end.attempt);
    }
    let upstream = tx.find_execution(id, PartMask::of(schema::RESULT))?;
    Ok(upstream.and_then(|upstream| {
        let forced = upstream.forced_result_of(end.replays)?;
        Some(Payload { bytes: forced.bytes.clone()?, content_type: forced.content_type.clone() })
    }))
}

/// One input. What does not fit beside the others is left to be read, and so are all behind it: then there is no room, not
/// even for what takes none.
fn input(tx: &mut Tx<'_>, edge: &Edge, name: Text, end: Resolution, room: &mut Room) -> Result<Input, Stop> {
    let id = edge.upstream;
    let (upstream, there) = match tx.find_execution(id, PartMask::NONE) {
        Ok(Some(upstream)) => (upstream.member().map_or_else(|| "".into(), |member| member.key.clone()), true),
        Ok(None) => match damaged::stone(tx, id)? {
            Some(stone) => (stone.body.key, false),
            None => (Text::from(id.to_string()), false),
        },
        // One that was given up: its edge and its attempts can be read all the same.
        Err(Stop::Rejected(rejection)) => match damaged::stone(tx, id)? {
            Some(stone) => (stone.body.key, end.attempt.is_some() || end.outcome != Outcome::Success),
            None => return Err(rejection.into()),
        },
        Err(Stop::Miss) => return Err(Stop::Miss),
    };
    let mut input = Input { name, upstream, id, outcome: end.outcome, value: InputValue::None, failure: None };
    if !there {
        input.value = InputValue::Purged;
        return Ok(input);
    }
    if let Some(attempt) = end.attempt
        && let Some(attempt) = tx.find_attempt(id, attempt, PartMask::NONE)?
    {
        input.failure = attempt.failure.map(|failure| (failure.category, failure.message));
    }
    if end.outcome != Outcome::Success {
        return Ok(input);
    }
    let Some(left) = room.left else {
        input.value = InputValue::Handle { bytes: None };
        return Ok(input);
    };
    if !room.may_ask() {
        return Err(Stop::Miss);
    }
    let payload = value(tx, id, end).inspect_err(|stop| room.asked += usize::from(*stop == Stop::Miss))?;
    if let Some(payload) = payload {
        let bytes = payload.bytes.len();
        (room.given, room.bytes) = (room.given + 1, room.bytes + bytes);
        room.left = left.checked_sub(bytes);
        input.value = match room.left {
            Some(_) => InputValue::Inline(payload),
            None => InputValue::Handle { bytes: Some(bytes as u64) },
        };
    }
    Ok(input)
}
