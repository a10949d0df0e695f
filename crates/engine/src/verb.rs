//! How each request becomes a command, and what of the reply its caller gets. The one place where the two meet.

use crate::client::{Completed, Released, Revoked, Urgency};
use crate::request::*;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use weft_core::command::{self, Command, Payload, Step};
use weft_core::record::execution::{AfterFailure, Outcome, PublicState};
use weft_core::reply::{Cancelled, Children, RecordedStep, Renewed, Reply};
use weft_core::text::Text;
use weft_core::{CommitId, Time};

/// What a call was answered, and whether the same call had been answered before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered<T> {
    pub value: T,
    /// The call was a repeat; nothing changed.
    pub repeated: bool,
}

impl<T> Answered<T> {
    pub fn into_value(self) -> T {
        self.value
    }
}

impl<T> Deref for Answered<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// What a request asks of the core.
pub(crate) struct Asked {
    pub command: Command,
    pub request_id: Option<Bytes>,
    pub expected_revision: Option<CommitId>,
}

/// A request of one verb.
pub(crate) trait Ask {
    type Answer;
    const URGENCY: Urgency;

    /// Payload that the commit will carry.
    fn bytes(&self) -> usize;

    /// `entropy` is for verbs that draw.
    fn asked(self, entropy: u64) -> Asked;

    /// The answer in the reply; the reply itself if it is one of another verb.
    fn answer(reply: Reply) -> Result<Self::Answer, Reply>;
}

/// Implements `Ask`: the payload, the command, the part of the reply that is the answer.
macro_rules! ask {
    (
        $name:ident, $urgency:ident -> $answer:ty,
        bytes($sized:ident) = $bytes:expr,
        command($item:ident, $entropy:ident) = $command:expr,
        $pattern:pat => $value:expr,
        revision = $revision:expr
    ) => {
        impl Ask for $name {
            type Answer = $answer;
            const URGENCY: Urgency = Urgency::$urgency;

            fn bytes(&self) -> usize {
                let $sized = self;
                $bytes
            }

            fn asked(self, $entropy: u64) -> Asked {
                let $item = self;
                let request_id = $item.request_id;
                let expected_revision = $revision;
                Asked { command: $command, request_id, expected_revision }
            }

            fn answer(reply: Reply) -> Result<$answer, Reply> {
                match reply {
                    $pattern => Ok($value),
                    other => Err(other),
                }
            }
        }
    };
}

fn size(payload: &Option<Bytes>) -> usize {
    payload.as_ref().map_or(0, Bytes::len)
}

fn size_of_steps(steps: &[Step]) -> usize {
    steps.iter().map(|step| step.bytes.len()).sum()
}

ask!(
    Renewal, Urgent -> Renewed,
    bytes(item) = Payload::len_of(&item.checkpoint) + size_of_steps(&item.steps),
    command(item, _entropy) = Command::Renew(command::Renew {
        id: item.id,
        fence: item.fence,
        lease_ms: item.lease_ms,
        percent: item.percent,
        message: item.message,
        checkpoint: item.checkpoint,
        steps: item.steps,
    }),
    Reply::Renewed(renewed) => renewed,
    revision = None
);

ask!(
    Recording, Urgent -> Vec<RecordedStep>,
    bytes(item) = size_of_steps(&item.steps),
    command(item, _entropy) =
        Command::RecordSteps(command::RecordSteps { id: item.id, fence: item.fence, steps: item.steps }),
    Reply::StepsRecorded(steps) => steps,
    revision = None
);

ask!(
    Completion, Urgent -> Completed,
    bytes(item) = size(&item.result) + size_of_steps(&item.steps),
    command(item, _entropy) = Command::Complete(command::Complete {
        id: item.id,
        fence: item.fence,
        result: item.result,
        content_type: item.content_type,
        steps: item.steps,
    }),
    Reply::Completed { outcome, attempt, cancel_was_requested, .. } => Completed { outcome, attempt, cancel_was_requested },
    revision = None
);

ask!(
    Failing, Urgent -> AfterFailure,
    bytes(item) = Payload::len_of(&item.detail) + size_of_steps(&item.steps),
    command(item, entropy) = Command::Fail(command::Fail {
        id: item.id,
        fence: item.fence,
        category: item.category,
        message: item.message,
        detail: item.detail,
        retry: item.retry,
        steps: item.steps,
        entropy,
    }),
    Reply::Failed { after, .. } => after,
    revision = None
);

ask!(
    Progressing, Urgent -> u64,
    bytes(item) = Payload::len_of(&item.checkpoint),
    command(item, _entropy) = Command::Progress(command::Progress {
        id: item.id,
        fence: item.fence,
        percent: item.percent,
        message: item.message,
        checkpoint: item.checkpoint,
        renew_ms: item.renew_ms,
    }),
    Reply::Progressed { expires_in_ms } => expires_in_ms,
    revision = None
);

ask!(
    Delaying, Urgent -> Time,
    bytes(item) = Payload::len_of(&item.checkpoint) + size_of_steps(&item.steps),
    command(item, _entropy) = Command::Delay(command::Delay {
        id: item.id,
        fence: item.fence,
        until: item.until,
        checkpoint: item.checkpoint,
        steps: item.steps,
    }),
    Reply::Delayed { until_at, .. } => until_at,
    revision = None
);

ask!(
    Waiting, Urgent -> Children,
    bytes(item) = Payload::len_of(&item.checkpoint),
    command(item, _entropy) = Command::WaitChildren(command::WaitChildren {
        id: item.id,
        fence: item.fence,
        children: item.children,
        rule: item.rule,
        timeout_ms: item.timeout_ms,
        checkpoint: item.checkpoint,
    }),
    Reply::Children(children) => children,
    revision = None
);

ask!(
    Cancellation, Urgent -> Cancelled,
    bytes(_item) = 0,
    command(item, _entropy) = Command::Cancel(command::Cancel {
        id: item.id,
        fence: item.fence,
        reason: item.reason,
        mode: item.mode,
        cascade: item.cascade,
    }),
    Reply::Cancelled(cancelled) => cancelled,
    revision = item.expected_revision
);

ask!(
    Rescheduling, Normal -> (Time, Time),
    bytes(_item) = 0,
    command(item, _entropy) =
        Command::Reschedule(command::Reschedule { id: item.id, start: item.start, reason: item.reason }),
    Reply::Rescheduled { old, new } => (old, new),
    revision = item.expected_revision
);

ask!(
    Prioritising, Normal -> u32,
    bytes(_item) = 0,
    command(item, _entropy) = Command::ChangePriority(command::ChangePriority {
        id: item.id,
        priority: item.priority,
        reason: item.reason,
    }),
    Reply::PriorityChanged { old, .. } => old,
    revision = item.expected_revision
);

ask!(
    Tagging, Normal -> Arc<BTreeMap<Text, Text>>,
    bytes(_item) = 0,
    command(item, _entropy) = Command::SetTags(command::SetTags {
        id: item.id,
        fence: item.fence,
        set: item.set,
        remove: item.remove,
        reason: item.reason,
    }),
    Reply::Tags(tags) => tags,
    revision = item.expected_revision
);

ask!(
    Revoking, Urgent -> Revoked,
    bytes(_item) = 0,
    command(item, _entropy) = Command::Revoke(command::Revoke {
        id: item.id,
        expected_epoch: item.expected_epoch,
        reason: item.reason,
        hold: item.hold,
    }),
    Reply::Revoked { epoch, already } => Revoked { epoch, already },
    revision = item.expected_revision
);

ask!(
    Holding, Urgent -> bool,
    bytes(_item) = 0,
    command(item, _entropy) =
        Command::Hold(command::Hold { id: item.id, reason: item.reason, revoke: item.revoke }),
    Reply::Held { changed } => changed,
    revision = item.expected_revision
);

ask!(
    Releasing, Urgent -> Released,
    bytes(_item) = 0,
    command(item, _entropy) = Command::Release(command::Release { id: item.id, reason: item.reason }),
    Reply::Released { changed, public_state } => Released { changed, public_state },
    revision = item.expected_revision
);

ask!(
    ForceCompleting, Urgent -> Outcome,
    bytes(item) = size(&item.result),
    command(item, _entropy) = Command::ForceComplete(command::ForceComplete {
        id: item.id,
        result: item.result,
        content_type: item.content_type,
        reason: item.reason,
    }),
    Reply::Forced { outcome } => outcome,
    revision = item.expected_revision
);

ask!(
    ForceFailing, Urgent -> Outcome,
    bytes(_item) = 0,
    command(item, _entropy) =
        Command::ForceFail(command::ForceFail { id: item.id, message: item.message, reason: item.reason }),
    Reply::Forced { outcome } => outcome,
    revision = item.expected_revision
);

ask!(
    Purging, Normal -> (),
    bytes(_item) = 0,
    command(item, _entropy) = Command::Purge(command::Purge { id: item.id, reason: item.reason }),
    Reply::Purged => (),
    revision = item.expected_revision
);

ask!(
    Replaying, Normal -> (PublicState, u32),
    bytes(_item) = 0,
    command(item, _entropy) = Command::Replay(command::Replay {
        id: item.id,
        reason: item.reason,
        deadline: item.deadline,
        delay_ms: item.delay_ms,
        priority: item.priority,
        steps: item.steps,
        downstream: item.downstream,
        ignore_dependencies: item.ignore_dependencies,
    }),
    Reply::Replayed { public_state, replays } => (public_state, replays),
    revision = item.expected_revision
);

/// One of the ways in which a worker is done with an execution.
#[derive(Clone, Debug)]
pub enum Settle {
    Complete(Completion),
    Fail(Failing),
    Delay(Delaying),
    WaitChildren(Waiting),
    Cancel(Cancellation),
}

/// What came of it, by the same names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    Completed(Completed),
    Failed(AfterFailure),
    Delayed(Time),
    Children(Children),
    Cancelled(Cancelled),
}

impl Ask for Settle {
    type Answer = Settled;
    const URGENCY: Urgency = Urgency::Urgent;

    fn bytes(&self) -> usize {
        match self {
            Settle::Complete(item) => item.bytes(),
            Settle::Fail(item) => item.bytes(),
            Settle::Delay(item) => item.bytes(),
            Settle::WaitChildren(item) => item.bytes(),
            Settle::Cancel(item) => item.bytes(),
        }
    }

    fn asked(self, entropy: u64) -> Asked {
        match self {
            Settle::Complete(item) => item.asked(entropy),
            Settle::Fail(item) => item.asked(entropy),
            Settle::Delay(item) => item.asked(entropy),
            Settle::WaitChildren(item) => item.asked(entropy),
            Settle::Cancel(item) => item.asked(entropy),
        }
    }

    fn answer(reply: Reply) -> Result<Settled, Reply> {
        Completion::answer(reply)
            .map(Settled::Completed)
            .or_else(|reply| Failing::answer(reply).map(Settled::Failed))
            .or_else(|reply| Delaying::answer(reply).map(Settled::Delayed))
            .or_else(|reply| Waiting::answer(reply).map(Settled::Children))
            .or_else(|reply| Cancellation::answer(reply).map(Settled::Cancelled))
    }
}
