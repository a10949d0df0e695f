//! Every success. A reply is sent only after the commit that makes it true, and can be kept for a repeat.

use crate::command::Payload;
use crate::id::{BulkId, ExecutionId, FlowId, LeaseId};
use crate::record::attempt::{AttemptKind, Failure};
use crate::record::execution::{AfterFailure, Checkpoint, Outcome, PublicState, Verdict};
use crate::record::flow::{FlowOutcome, Growth, PublicFlowState, Remaining};
use crate::record::register::Drain;
use crate::record::trouble::Failing;
use crate::record::{ApiKey, Step};
use crate::text::Text;
use crate::time::Time;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    Submitted(Submitted),
    Claimed(Box<Claimed>),
    Renewed(Renewed),
    Progressed {
        expires_in_ms: u64,
    },
    Completed {
        outcome: Outcome,
        attempt: u32,
        cancel_was_requested: bool,
        repeated: bool,
    },
    Failed {
        after: AfterFailure,
        repeated: bool,
    },
    Delayed {
        until_at: Time,
        repeated: bool,
    },
    Children(Children),
    Cancelled(Cancelled),
    Rescheduled {
        old: Time,
        new: Time,
    },
    PriorityChanged {
        old: u32,
        new: u32,
        changed: bool,
    },
    Tags(Arc<BTreeMap<Text, Text>>),
    Revoked {
        epoch: u64,
        already: bool,
    },
    Held {
        changed: bool,
    },
    Released {
        changed: bool,
        public_state: PublicState,
    },
    Forced {
        outcome: Outcome,
    },
    Purged,
    Replayed {
        public_state: PublicState,
        replays: u32,
    },
    Expired(Expired),
    /// Done, nothing to return: an entry removed, a dead letter discarded, a message between a bulk job and its shares.
    Noted,
    /// A failure was counted; the account of the timer after it.
    Failing(Box<Failing>),
    Retried(Retried),
    StepsRecorded(Vec<RecordedStep>),
    SubmittedAll(Vec<Submitted>),
    /// A worker process as it stands now.
    Worker(Box<crate::record::worker::Body>),
    BulkStarted(BulkId),
    /// A key as it is now.
    Key(Box<ApiKey>),
    /// A first key was to be made, and there are keys.
    KeysExist,
    KeyRevoked,
    /// What was answered before, as bytes.
    Answer(Option<Bytes>),
    /// The registry has the node, and whether it is wanted to stop.
    Node {
        drain: Option<Drain>,
    },
    /// The flow is there, whole.
    FlowSubmitted(Box<FlowSubmitted>),
    /// Pieces of the flow are there; it goes on with this one.
    FlowBuilding {
        flow: FlowId,
        next: u32,
    },
    FlowGrown(Box<FlowGrown>),
    FlowSealed {
        /// There was nothing to seal.
        already: bool,
        /// More members are being sealed.
        continued: bool,
    },
    FlowCancelled(FlowCancelled),
    FlowFinished {
        outcome: FlowOutcome,
        done: bool,
    },
    FlowChanged {
        tags: Arc<BTreeMap<Text, Text>>,
        growth: Growth,
    },
    FlowPurging,
    Verified(Verified),
    /// How a group that owes cancels was found.
    Reconciled {
        action: Reconciled,
        flow: Option<FlowId>,
    },
    /// Nothing is sealed yet: the members up to this one can be, and the look at the others goes on behind it.
    FlowChecked {
        after: ExecutionId,
    },
}

/// The result of retrying a parked item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Retried {
    /// Account and letter are gone; it is due now, with three fresh tries.
    Retried,
    /// Nothing has changed.
    StillDamaged { error: Text },
    /// There was no record to retry; the letter is gone.
    NothingLeft,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    pub id: ExecutionId,
    pub public_state: PublicState,
    /// The idempotency key was bound already; `id` is the execution it stands for.
    pub duplicate: bool,
    /// The bound execution has been purged.
    pub purged: bool,
}

/// Everything a worker needs to start. No second read is needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    pub id: ExecutionId,
    pub namespace: Text,
    pub lane: Text,
    pub kind: Text,
    pub priority: u32,
    pub tags: Arc<BTreeMap<Text, Text>>,
    pub trace: Option<Text>,
    pub input: Option<Bytes>,
    pub content_type: Option<Text>,
    pub lease: LeaseId,
    /// Generation of the partition when the lease was issued.
    pub generation: u64,
    pub epoch: u64,
    pub lease_ms: u64,
    pub expires_in_ms: u64,
    /// When this was true: what is left of the lease and of the attempt counts from here.
    pub at: Time,
    pub attempt: u32,
    pub attempt_kind: AttemptKind,
    pub resumed: bool,
    pub previous_failure: Option<Failure>,
    pub timeout_left_ms: Option<u64>,
    pub deadline_at: Option<Time>,
    pub retries_left: u32,
    pub checkpoint: Option<Checkpoint>,
    pub children: Option<ChildrenOutcome>,
    /// The recorded steps of this run in their order, as many as fit.
    pub steps: Vec<StepValue>,
    /// There are more, to be read when needed.
    pub steps_more: bool,
    /// The flow it is a member of, and its key there.
    pub flow: Option<(FlowId, Text)>,
    /// What its upstreams left, by the names of their edges.
    pub inputs: Vec<Input>,
    /// Names of edges whose upstreams had not ended at the first claim.
    pub inputs_missing: Vec<Text>,
}

/// A recorded step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepValue {
    /// Its place in the order of recording; it grows over the whole life of the execution.
    pub number: u32,
    pub name: Text,
    pub bytes: Bytes,
    pub content_type: Option<Text>,
    /// The attempt that recorded it.
    pub attempt: u32,
    pub at: Time,
}

impl StepValue {
    /// Of a step whose value is loaded.
    pub fn of(step: &Step) -> Self {
        Self {
            number: step.number,
            name: step.body.name.clone(),
            bytes: step.value().clone(),
            content_type: step.body.content_type.clone(),
            attempt: step.body.attempt,
            at: step.body.at,
        }
    }
}

/// What stands under the name of a step that was to be recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedStep {
    /// The name was taken: `step` is what was recorded first, and stays.
    pub existed: bool,
    pub step: StepValue,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildrenOutcome {
    pub verdict: Verdict,
    pub children: Vec<ChildOutcome>,
}

/// A child that has not ended, or was purged, has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildOutcome {
    pub id: ExecutionId,
    pub outcome: Option<Outcome>,
    pub result: Option<Payload>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewed {
    pub expires_in_ms: u64,
    pub timeout_left_ms: Option<u64>,
    pub cancel: Option<CancelNotice>,
    /// What became of the steps that came with the call, in their order.
    pub steps: Vec<RecordedStep>,
    /// The process that holds the lease and its session, 0 if it took it without one.
    pub holder: Option<(Text, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelNotice {
    pub reason: Text,
    pub kill_in_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Children {
    /// The rule was decided already: the lease stays and nothing changed.
    Decided { verdict: Verdict },
    /// The lease has ended; the claim that resumes will carry the outcomes.
    Waiting { waiting: u32, repeated: bool },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cancelled {
    /// It is Done.
    Done { already: bool },
    /// Its worker has been asked; it ends at `kill_at` at the latest.
    Requested { kill_at: Option<Time> },
}

/// What a timer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expired {
    Fired,
    /// The record no longer has that timer due: nothing changed, the entry is gone.
    Stale,
    /// Bounded work went on; there is more of it.
    More,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowSubmitted {
    pub id: FlowId,
    /// In the order given; empty for a duplicate, whose members can be listed.
    pub members: Vec<(Text, ExecutionId)>,
    pub revision: u64,
    pub state: PublicFlowState,
    pub duplicate: bool,
    pub purged: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowGrown {
    /// In the order given: key, id, and whether it was there before.
    pub members: Vec<(Text, ExecutionId, bool)>,
    /// Edges that were there before.
    pub edges_existed: u32,
    pub revision: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowCancelled {
    pub already: bool,
    pub state: PublicFlowState,
    pub outcome: FlowOutcome,
    pub remaining: Remaining,
    pub reason: Text,
    pub cancelled: u32,
    pub owed: u32,
    pub active: u32,
}

/// What became of a comparison of counters with a recount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verified {
    Equal,
    /// They differ for the first time; they are counted again.
    Doubtful,
    Repaired,
    /// It has changed since: no verdict.
    Moved,
    Stale,
}

/// What the reconciler did about a group that owes cancels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reconciled {
    LeftAlone,
    StaleRemoved,
    DrainCompleted,
}

impl Reconciled {
    pub const ALL: [Reconciled; 3] = [Reconciled::LeftAlone, Reconciled::StaleRemoved, Reconciled::DrainCompleted];

    pub const fn name(self) -> &'static str {
        match self {
            Reconciled::LeftAlone => "left_alone",
            Reconciled::StaleRemoved => "stale_removed",
            Reconciled::DrainCompleted => "drain_completed",
        }
    }
}

impl Claimed {
    /// How much of the ends of its upstreams comes with it.
    pub fn inline_bytes(&self) -> usize {
        let bytes = |input: &Input| match &input.value {
            InputValue::Inline(payload) => payload.bytes.len(),
            InputValue::None | InputValue::Handle { .. } | InputValue::Purged => 0,
        };
        self.inputs.iter().map(bytes).sum()
    }
}

/// The end of an upstream, under the name of its edge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    pub name: Text,
    pub upstream: Text,
    pub id: ExecutionId,
    pub outcome: Outcome,
    pub value: InputValue,
    /// Category and message, if it failed.
    pub failure: Option<(Text, Text)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputValue {
    /// It has no result.
    None,
    Inline(Payload),
    /// Too large to come with the claim: read it.
    Handle {
        bytes: Option<u64>,
    },
    /// Its record is gone.
    Purged,
}
