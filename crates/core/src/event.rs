//! Every fact that is told to the outside. The events of a commit are one feed entry, written with the state change.

use crate::codec::{self, DecodeError};
use crate::id::{ExecutionId, FlowId};
use crate::record::attempt::AttemptKind;
use crate::record::execution::{EndCause, Outcome, PublicState, Reason, Why};
use crate::record::flow::FlowOutcome;
use crate::schema::Timer;
use crate::text::Text;
use crate::time::Time;
use serde::{Deserialize, Serialize};

/// One fact: about an execution, a worker process, or the store itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub at: Time,
    pub execution: Option<ExecutionId>,
    /// The flow that it is about, or of which the execution is a member.
    pub flow: Option<FlowId>,
    pub namespace: Text,
    pub lane: Text,
    pub kind: Text,
    pub epoch: u64,
    pub by: Text,
    pub fact: Fact,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    Submitted {
        public_state: PublicState,
        priority: u32,
        start_at: Option<Time>,
        deadline_at: Option<Time>,
    },
    Claimed {
        worker: Text,
        instance: Text,
        attempt: u32,
        kind: AttemptKind,
        resumed: bool,
        expires_at: Time,
        waited_ms: u64,
    },
    Delayed {
        until: Time,
        why: Why,
    },
    WaitingChildren {
        waiting: u32,
        needed: u32,
    },
    RetryScheduled {
        category: Text,
        message: Text,
        retry_at: Time,
        retries_left: u32,
    },
    LeaseLost {
        worker: Text,
        cause: EndCause,
        reclaims: u32,
        not_before: Option<Time>,
    },
    Revoked {
        worker: Text,
        cause: EndCause,
        reason: Text,
    },
    Held {
        reason: Text,
    },
    Released {
        reason: Text,
    },
    HoldPlaced {
        hold: Text,
    },
    HoldLifted {
        hold: Text,
    },
    CancelRequested {
        reason: Text,
        kill_at: Option<Time>,
    },
    PriorityChanged {
        old: u32,
        new: u32,
        reason: Text,
    },
    Rescheduled {
        old: Time,
        new: Time,
        reason: Text,
    },
    TagsChanged {
        reason: Text,
    },
    Replayed {
        replays: u32,
        reason: Text,
    },
    Finished {
        outcome: Outcome,
        reason: Reason,
        attempt: Option<u32>,
        attempts: u32,
        category: Option<Text>,
        message: Option<Text>,
        result_bytes: Option<u32>,
        duration_ms: u64,
        from_state: PublicState,
    },
    /// Without a reason if its time was over.
    Purged {
        reason: Text,
    },
    ScannerParked {
        scanner: Text,
        timer: Timer,
        failures: u32,
        error: Text,
    },
    /// The store has lost the commits from `kept_seq` to `seen_seq`, which somebody saw.
    StoreDataLost {
        partition: u16,
        generation: u64,
        kept_seq: u64,
        seen_seq: u64,
        /// Those that the witness knows to have changed in the range.
        executions: Vec<ExecutionId>,
    },
    WorkerRegistered {
        worker: Text,
        instance: Text,
        session: u64,
        lanes: Vec<Text>,
    },
    WorkerDraining {
        worker: Text,
        instance: Text,
        reason: Text,
        deadline_at: Option<Time>,
    },
    WorkerDrained {
        worker: Text,
        instance: Text,
    },
    /// It was not seen for too long, or an operator gave it up for this reason.
    WorkerLost {
        worker: Text,
        instance: Text,
        reason: Option<Text>,
    },
    WorkerLeft {
        worker: Text,
        instance: Text,
    },
    FlowCreated {
        flow: FlowId,
        members: u32,
        edges: u64,
        revision: u64,
    },
    FlowChanged {
        flow: FlowId,
        members: u32,
        edges: u64,
        revision: u64,
    },
    FlowSealed {
        flow: FlowId,
        members: u32,
        edges: u64,
        revision: u64,
    },
    /// What formats before 3 do not tell is absent.
    FlowPurged {
        flow: FlowId,
        members: u32,
        edges: Option<u64>,
        revision: Option<u64>,
    },
    FlowCancelRequested {
        flow: FlowId,
        policy: Text,
        reason: Text,
        members: u32,
    },
    FlowEnding {
        flow: FlowId,
        outcome: FlowOutcome,
        cause: Text,
    },
    FlowFinished {
        flow: FlowId,
        outcome: FlowOutcome,
        /// By public state, in the order of `PublicState::ALL`.
        counts: [u32; 12],
        duration_ms: u64,
    },
    FlowReopened {
        flow: FlowId,
        member: ExecutionId,
    },
    FlowRepaired {
        flow: FlowId,
        fields: Vec<Text>,
        was: Vec<u64>,
        is: Vec<u64>,
    },
    /// A group of the execution that the event is about. What formats before 3 do not tell is absent.
    GroupSatisfied {
        flow: FlowId,
        group: Text,
        policy: Text,
        waived: bool,
        counts: Option<GroupCounts>,
    },
    GroupImpossible {
        flow: FlowId,
        group: Text,
        policy: Text,
        counts: Option<GroupCounts>,
    },
    /// A verifier found what no healthy engine leaves behind, and set it right.
    ScannerRepaired {
        scanner: Text,
        flow: FlowId,
        items: u32,
    },
}

/// The edges of a group when it was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupCounts {
    /// How many had to be met.
    pub k: u32,
    pub n: u32,
    pub met: u32,
    pub unmet: u32,
    /// Upstreams that are cancelled because of it, unless somebody else needs them.
    pub cancels: u32,
}

impl Fact {
    /// The flow that a fact about a flow, or about a group of one, names itself.
    const fn flow(&self) -> Option<FlowId> {
        match self {
            Fact::FlowCreated { flow, .. }
            | Fact::FlowChanged { flow, .. }
            | Fact::FlowSealed { flow, .. }
            | Fact::FlowPurged { flow, .. }
            | Fact::FlowCancelRequested { flow, .. }
            | Fact::FlowEnding { flow, .. }
            | Fact::FlowFinished { flow, .. }
            | Fact::FlowReopened { flow, .. }
            | Fact::FlowRepaired { flow, .. }
            | Fact::GroupSatisfied { flow, .. }
            | Fact::GroupImpossible { flow, .. } => Some(*flow),
            _ => None,
        }
    }

    /// The stable name of the event type.
    pub const fn name(&self) -> &'static str {
        match self {
            Fact::Submitted { .. } => "execution.submitted",
            Fact::Claimed { .. } => "execution.claimed",
            Fact::Delayed { .. } => "execution.delayed",
            Fact::WaitingChildren { .. } => "execution.waiting_children",
            Fact::RetryScheduled { .. } => "execution.retry_scheduled",
            Fact::LeaseLost { .. } => "execution.lease_lost",
            Fact::Revoked { .. } => "execution.revoked",
            Fact::Held { .. } => "execution.held",
            Fact::Released { .. } => "execution.released",
            Fact::HoldPlaced { .. } => "execution.hold_placed",
            Fact::HoldLifted { .. } => "execution.hold_lifted",
            Fact::CancelRequested { .. } => "execution.cancel_requested",
            Fact::PriorityChanged { .. } => "execution.priority_changed",
            Fact::Rescheduled { .. } => "execution.rescheduled",
            Fact::TagsChanged { .. } => "execution.tags_changed",
            Fact::Replayed { .. } => "execution.replayed",
            Fact::Finished { .. } => "execution.finished",
            Fact::Purged { .. } => "execution.purged",
            Fact::ScannerParked { .. } => "scanner.parked",
            Fact::StoreDataLost { .. } => "store.data_lost",
            Fact::WorkerRegistered { .. } => "worker.registered",
            Fact::WorkerDraining { .. } => "worker.draining",
            Fact::WorkerDrained { .. } => "worker.drained",
            Fact::WorkerLost { .. } => "worker.lost",
            Fact::WorkerLeft { .. } => "worker.left",
            Fact::FlowCreated { .. } => "flow.created",
            Fact::FlowChanged { .. } => "flow.changed",
            Fact::FlowSealed { .. } => "flow.sealed",
            Fact::FlowPurged { .. } => "flow.purged",
            Fact::FlowCancelRequested { .. } => "flow.cancel_requested",
            Fact::FlowEnding { .. } => "flow.ending",
            Fact::FlowFinished { .. } => "flow.finished",
            Fact::FlowReopened { .. } => "flow.reopened",
            Fact::FlowRepaired { .. } => "flow.repaired",
            Fact::GroupSatisfied { .. } => "group.satisfied",
            Fact::GroupImpossible { .. } => "group.impossible",
            Fact::ScannerRepaired { .. } => "scanner.repaired",
        }
    }
}

/// The format in which entries are written. Since 2 events name their flow; since 3 purges and decided groups tell more.
const VERSION: u8 = 3;

/// The bytes of a feed entry.
pub fn encode(events: &[Event]) -> bytes::Bytes {
    if events.is_empty() { bytes::Bytes::new() } else { codec::encode_as(VERSION, &events) }
}

/// The events of a feed entry. Entries outlive the version that wrote them: older formats are read too.
pub fn decode(bytes: &[u8]) -> Result<Vec<Event>, DecodeError> {
    match bytes.first() {
        None => Ok(Vec::new()),
        Some(&version @ (1 | 2)) => {
            before::events(version, &bytes[1..]).map_err(|error| DecodeError::new("feed", error.to_string()))
        }
        Some(_) => codec::decode_as(VERSION, "feed", bytes),
    }
}

/// Entries of formats 1 and 2.
mod before {
    use super::*;
    use postcard::{Error, take_from_bytes};

    /// The numbers of the facts that told less.
    const FLOW_PURGED: u32 = 28;
    const GROUP_SATISFIED: u32 = 34;
    const GROUP_IMPOSSIBLE: u32 = 35;

    pub(super) fn events(version: u8, bytes: &[u8]) -> Result<Vec<Event>, Error> {
        let (count, mut rest) = take_from_bytes::<u64>(bytes)?;
        let mut events = Vec::new();
        for _ in 0..count {
            let (event, behind) = event(version, rest)?;
            events.push(event);
            rest = behind;
        }
        if rest.is_empty() { Ok(events) } else { Err(Error::DeserializeBadEncoding) }
    }

    fn event(version: u8, bytes: &[u8]) -> Result<(Event, &[u8]), Error> {
        let ((at, execution), bytes) = take_from_bytes(bytes)?;
        let (flow, bytes) = if version == 1 { (None, bytes) } else { take_from_bytes(bytes)? };
        let ((namespace, lane, kind, epoch, by), bytes) = take_from_bytes(bytes)?;
        let (fact, bytes) = fact(bytes)?;
        let flow = if version == 1 { fact.flow() } else { flow };
        Ok((Event { at, execution, flow, namespace, lane, kind, epoch, by, fact }, bytes))
    }

    fn fact(bytes: &[u8]) -> Result<(Fact, &[u8]), Error> {
        let (number, inner) = take_from_bytes::<u32>(bytes)?;
        Ok(match number {
            FLOW_PURGED => {
                let ((flow, members), rest) = take_from_bytes(inner)?;
                (Fact::FlowPurged { flow, members, edges: None, revision: None }, rest)
            }
            GROUP_SATISFIED => {
                let ((flow, group, policy, waived), rest) = take_from_bytes(inner)?;
                (Fact::GroupSatisfied { flow, group, policy, waived, counts: None }, rest)
            }
            GROUP_IMPOSSIBLE => {
                let ((flow, group, policy), rest) = take_from_bytes(inner)?;
                (Fact::GroupImpossible { flow, group, policy, counts: None }, rest)
            }
            _ => take_from_bytes(bytes)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::PartitionId;
    use uuid::Uuid;

    /// An entry of format 2 with one fact, given by its number and fields.
    fn entry(number: u8, fields: &impl Serialize) -> Vec<u8> {
        let none: (Time, Option<ExecutionId>, Option<FlowId>) = (Time::from_ms(7), None, Some(flow()));
        let mut bytes = vec![2, 1];
        bytes.extend(postcard::to_allocvec(&(none, ("shop", "", "etl", 0_u64, "ann"))).unwrap());
        bytes.push(number);
        bytes.extend(postcard::to_allocvec(fields).unwrap());
        bytes
    }

    fn flow() -> FlowId {
        FlowId::new(PartitionId(3), Uuid::from_u128(5))
    }

    #[test]
    fn fd_4_facts_that_told_less_are_read_as_what_they_were() {
        let (group, policy): (Text, Text) = ("main".into(), "any_of".into());
        let facts = [
            (entry(28, &(flow(), 9_u32)), Fact::FlowPurged { flow: flow(), members: 9, edges: None, revision: None }),
            (
                entry(34, &(flow(), "main", "any_of", true)),
                Fact::GroupSatisfied {
                    flow: flow(),
                    group: group.clone(),
                    policy: policy.clone(),
                    waived: true,
                    counts: None,
                },
            ),
            (
                entry(35, &(flow(), "main", "any_of")),
                Fact::GroupImpossible { flow: flow(), group, policy, counts: None },
            ),
        ];
        for (bytes, fact) in facts {
            let events = decode(&bytes).unwrap();
            assert_eq!((events.len(), events[0].flow, &*events[0].by), (1, Some(flow()), "ann"));
            assert_eq!(events[0].fact, fact);
            assert_eq!(decode(&encode(&events)).as_ref(), Ok(&events));
            let damaged = [&bytes[..bytes.len() - 1], &[&bytes[..], &[0]].concat()].map(|bytes| decode(bytes).is_err());
            assert_eq!(damaged, [true, true]);
        }
    }
}
