//! What callers hand in, as builders: `Submission::new("mail").lane("bulk").delay_ms(5_000)`.

use crate::partition::LaneKey;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_core::command::{self, CancelMode, ChildrenRule, DeadlineWish, Fence, RetryWish, When};
use weft_core::error::Rejection;
use weft_core::limits;
use weft_core::record::execution::Policy;
use weft_core::reply::Claimed;
use weft_core::text::{self, Capabilities, Text};
use weft_core::{ExecutionId, Time};

/// An execution to be. Everything but the kind has a default.
#[derive(Clone, Debug)]
pub struct Submission {
    pub kind: Text,
    pub lane: Text,
    pub input: Option<Bytes>,
    pub content_type: Option<Text>,
    pub priority: Option<u32>,
    pub capabilities: Vec<Text>,
    pub concurrency_key: Option<Bytes>,
    pub start: Option<When>,
    pub deadline: Option<When>,
    /// The engine's default policy if absent.
    pub policy: Option<Policy>,
    pub tags: BTreeMap<Text, Text>,
    pub idempotency_key: Option<Bytes>,
    pub request_id: Option<Bytes>,
    pub parent: Option<(ExecutionId, Fence)>,
    pub trace: Option<Text>,
}

impl Submission {
    pub fn new(kind: impl Into<Text>) -> Self {
        Self {
            kind: kind.into(),
            lane: "default".into(),
            input: None,
            content_type: None,
            priority: None,
            capabilities: Vec::new(),
            concurrency_key: None,
            start: None,
            deadline: None,
            policy: None,
            tags: BTreeMap::new(),
            idempotency_key: None,
            request_id: None,
            parent: None,
            trace: None,
        }
    }

    pub fn lane(mut self, lane: impl Into<Text>) -> Self {
        self.lane = lane.into();
        self
    }

    pub fn input(mut self, input: impl Into<Bytes>) -> Self {
        self.input = Some(input.into());
        self
    }

    pub fn content_type(mut self, content_type: impl Into<Text>) -> Self {
        self.content_type = Some(content_type.into());
        self
    }

    /// 0 to 9000, larger first.
    pub fn priority(mut self, priority: u32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// A token that the worker must offer.
    pub fn needs(mut self, capability: impl Into<Text>) -> Self {
        self.capabilities.push(capability.into());
        self
    }

    pub fn concurrency_key(mut self, key: impl Into<Bytes>) -> Self {
        self.concurrency_key = Some(key.into());
        self
    }

    pub fn delay_ms(mut self, ms: u64) -> Self {
        self.start = Some(When::InMs(ms));
        self
    }

    pub fn start_at(mut self, at: Time) -> Self {
        self.start = Some(When::At(at));
        self
    }

    pub fn deadline_in_ms(mut self, ms: u64) -> Self {
        self.deadline = Some(When::InMs(ms));
        self
    }

    pub fn deadline_at(mut self, at: Time) -> Self {
        self.deadline = Some(When::At(at));
        self
    }

    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    pub fn tag(mut self, key: impl Into<Text>, value: impl Into<Text>) -> Self {
        self.tags.insert(key.into(), value.into());
        self
    }

    /// A second submission with this key never makes a second execution.
    pub fn idempotency_key(mut self, key: impl Into<Bytes>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// A repeat of this call gets the same answer.
    pub fn request_id(mut self, id: impl Into<Bytes>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    /// The running execution that spawns this one.
    pub fn child_of(mut self, parent: &Claimed) -> Self {
        self.parent = Some((parent.id, fence(parent)));
        self
    }

    pub fn trace(mut self, trace: impl Into<Text>) -> Self {
        self.trace = Some(trace.into());
        self
    }

    pub(crate) fn command(self, id: ExecutionId, default: &Policy) -> Result<command::Submit, Rejection> {
        Ok(command::Submit {
            id: Some(id),
            capabilities: Capabilities::new(&self.capabilities)?,
            lane: self.lane,
            kind: self.kind,
            input: self.input,
            content_type: self.content_type,
            priority: self.priority,
            concurrency_key: self.concurrency_key,
            start: self.start,
            deadline: self.deadline,
            policy: self.policy.unwrap_or_else(|| default.clone()),
            tags: self.tags,
            idempotency_key: self.idempotency_key,
            parent: self.parent,
            trace: self.trace,
        })
    }
}

/// The fence of a claimed execution.
pub fn fence(work: &Claimed) -> Fence {
    Fence { lease: work.lease, epoch: work.epoch }
}

/// A request for work. Waits for it if `wait_ms` is given; answers as soon as there is some.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The pool of workers, and this process of it.
    pub worker: Text,
    pub instance: Text,
    pub lanes: Vec<LaneWish>,
    pub lane_mode: LaneMode,
    /// `None`: any kind.
    pub kinds: Option<Vec<Text>>,
    pub capabilities: Vec<Text>,
    pub max: usize,
    pub wait_ms: u64,
    pub lease_ms: u64,
    pub max_bytes: usize,
    pub request_id: Option<Bytes>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneWish {
    pub lane: Text,
    pub weight: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneMode {
    /// Lanes share by weight.
    Weighted,
    /// A lane is looked at only when those before it have nothing.
    Strict,
}

impl Claim {
    pub fn new(worker: impl Into<Text>, instance: impl Into<Text>) -> Self {
        Self {
            worker: worker.into(),
            instance: instance.into(),
            lanes: Vec::new(),
            lane_mode: LaneMode::Weighted,
            kinds: None,
            capabilities: Vec::new(),
            max: 1,
            wait_ms: 0,
            lease_ms: limits::LEASE_MS_DEFAULT,
            max_bytes: limits::CLAIM_BYTES_DEFAULT,
            request_id: None,
        }
    }

    /// Adds a lane; without any the lane `default` is asked.
    pub fn lane(self, lane: impl Into<Text>) -> Self {
        self.weighted_lane(lane, 1)
    }

    pub fn weighted_lane(mut self, lane: impl Into<Text>, weight: u32) -> Self {
        self.lanes.push(LaneWish { lane: lane.into(), weight });
        self
    }

    pub fn strict(mut self) -> Self {
        self.lane_mode = LaneMode::Strict;
        self
    }

    pub fn kind(mut self, kind: impl Into<Text>) -> Self {
        self.kinds.get_or_insert_default().push(kind.into());
        self
    }

    pub fn offers(mut self, capability: impl Into<Text>) -> Self {
        self.capabilities.push(capability.into());
        self
    }

    pub fn max(mut self, max: usize) -> Self {
        self.max = max;
        self
    }

    pub fn wait_ms(mut self, ms: u64) -> Self {
        self.wait_ms = ms;
        self
    }

    pub fn lease_ms(mut self, ms: u64) -> Self {
        self.lease_ms = ms;
        self
    }

    pub fn request_id(mut self, id: impl Into<Bytes>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    pub(crate) fn check(&self) -> Result<(), Rejection> {
        text::check_token("worker", &self.worker, limits::WORKER_MAX)?;
        text::check_token("instance", &self.instance, limits::WORKER_MAX)?;
        text::check_range("max", self.max as u64, 1, limits::CLAIM_MAX as u64)?;
        text::check_range("wait_ms", self.wait_ms, 0, limits::CLAIM_WAIT_MAX_MS)?;
        text::check_range("lease_ms", self.lease_ms, limits::LEASE_MS_MIN, limits::LEASE_MS_MAX)?;
        if self.lanes.len() > limits::CLAIM_LANES_MAX {
            return Err(Rejection::invalid("lanes", "has more than 64 entries"));
        }
        for wish in &self.lanes {
            text::check_name("lanes", &wish.lane)?;
            text::check_range("weight", u64::from(wish.weight), 1, 1000)?;
        }
        if self.kinds.as_ref().is_some_and(|kinds| kinds.len() > limits::CLAIM_KINDS_MAX) {
            return Err(Rejection::invalid("kinds", "has more than 256 entries"));
        }
        for kind in self.kinds.iter().flatten() {
            text::check_token("kinds", kind, limits::KIND_MAX)?;
        }
        if let Some(id) = &self.request_id {
            text::check_key("request_id", id)?;
        }
        Ok(())
    }
}

/// What a claim got. Empty means that at one moment during the call nothing was claimable by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimReply {
    pub executions: Vec<Claimed>,
    /// Candidates were left because too many were refused; ask again.
    pub more: bool,
    /// The node is shutting down; claim elsewhere.
    pub draining: bool,
}

impl ClaimReply {
    /// Adds what another partition gave.
    pub(crate) fn absorb(&mut self, other: ClaimReply) {
        self.executions.extend(other.executions);
        self.more |= other.more;
        self.draining |= other.draining;
    }
}

macro_rules! fenced {
    ($(#[$doc:meta])* $name:ident { $($field:ident : $ty:ty = $default:expr),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            pub id: ExecutionId,
            pub fence: Option<Fence>,
            pub request_id: Option<Bytes>,
            $(pub $field: $ty,)*
        }

        impl $name {
            /// For work that was claimed.
            pub fn of(work: &Claimed) -> Self {
                Self::new(work.id, fence(work))
            }

            pub fn new(id: ExecutionId, fence: Fence) -> Self {
                Self { id, fence: Some(fence), request_id: None, $($field: $default,)* }
            }

            pub fn request_id(mut self, id: impl Into<Bytes>) -> Self {
                self.request_id = Some(id.into());
                self
            }
        }
    };
}

fenced!(
    /// Keeps a lease.
    Renewal { lease_ms: Option<u64> = None }
);

fenced!(
    /// The work is done.
    Completion { result: Option<Bytes> = None, content_type: Option<Text> = None }
);

impl Completion {
    pub fn result(mut self, result: impl Into<Bytes>) -> Self {
        self.result = Some(result.into());
        self
    }

    pub fn content_type(mut self, content_type: impl Into<Text>) -> Self {
        self.content_type = Some(content_type.into());
        self
    }
}

fenced!(
    /// The attempt failed; the policy decides about a retry unless the worker does.
    Failing {
        category: Text = "application".into(),
        message: Text = "".into(),
        detail: Option<Bytes> = None,
        retry: RetryWish = RetryWish::Policy,
    }
);

impl Failing {
    pub fn message(mut self, message: impl Into<Text>) -> Self {
        self.message = message.into();
        self
    }

    pub fn category(mut self, category: impl Into<Text>) -> Self {
        self.category = category.into();
        self
    }

    pub fn detail(mut self, detail: impl Into<Bytes>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub fn never(mut self) -> Self {
        self.retry = RetryWish::Never;
        self
    }

    pub fn after_ms(mut self, ms: u64) -> Self {
        self.retry = RetryWish::AfterMs(ms);
        self
    }
}

fenced!(
    /// Tells how far the work is, and saves a checkpoint. At least one field must be given.
    Progressing {
        percent: Option<u8> = None,
        message: Option<Text> = None,
        checkpoint: Option<Bytes> = None,
        renew_ms: Option<u64> = None,
    }
);

impl Progressing {
    pub fn percent(mut self, percent: u8) -> Self {
        self.percent = Some(percent);
        self
    }

    pub fn message(mut self, message: impl Into<Text>) -> Self {
        self.message = Some(message.into());
        self
    }

    pub fn checkpoint(mut self, checkpoint: impl Into<Bytes>) -> Self {
        self.checkpoint = Some(checkpoint.into());
        self
    }
}

fenced!(
    /// Hands the work back until a time; the same attempt goes on afterwards.
    Delaying { until: When = When::InMs(0), checkpoint: Option<Bytes> = None }
);

impl Delaying {
    pub fn by_ms(mut self, ms: u64) -> Self {
        self.until = When::InMs(ms);
        self
    }
}

fenced!(
    /// Hands the work back until children have ended.
    Waiting {
        children: Option<Vec<ExecutionId>> = None,
        rule: ChildrenRule = ChildrenRule::AllOf,
        timeout_ms: Option<u64> = None,
        checkpoint: Option<Bytes> = None,
    }
);

/// A cancel, by a client or operator, or by the holder with its fence.
#[derive(Clone, Debug)]
pub struct Cancellation {
    pub id: ExecutionId,
    pub fence: Option<Fence>,
    pub reason: Text,
    pub mode: CancelMode,
    pub cascade: bool,
    pub request_id: Option<Bytes>,
}

impl Cancellation {
    pub fn new(id: ExecutionId, reason: impl Into<Text>) -> Self {
        Self { id, fence: None, reason: reason.into(), mode: CancelMode::Immediate, cascade: true, request_id: None }
    }

    /// Asks the worker first and ends the execution after `grace_ms`.
    pub fn graceful(mut self, grace_ms: u64) -> Self {
        self.mode = CancelMode::Graceful { grace_ms };
        self
    }

    /// The holder cancels its own work.
    pub fn held(mut self, work: &Claimed) -> Self {
        self.fence = Some(fence(work));
        self
    }
}

/// Changes to tags, all or nothing.
#[derive(Clone, Debug)]
pub struct Tagging {
    pub id: ExecutionId,
    pub set: BTreeMap<Text, Text>,
    pub remove: Vec<Text>,
    pub request_id: Option<Bytes>,
}

/// Opens an ended execution again.
#[derive(Clone, Debug)]
pub struct Replaying {
    pub id: ExecutionId,
    pub reason: Text,
    pub deadline: DeadlineWish,
    pub delay_ms: Option<u64>,
    pub priority: Option<u32>,
    pub request_id: Option<Bytes>,
}

impl Replaying {
    pub fn new(id: ExecutionId, reason: impl Into<Text>) -> Self {
        Self {
            id,
            reason: reason.into(),
            deadline: DeadlineWish::Keep,
            delay_ms: None,
            priority: None,
            request_id: None,
        }
    }
}

/// A claim as the partitions see it: checked, canonical, shared.
#[derive(Debug)]
pub(crate) struct ClaimSpec {
    pub namespace: Text,
    pub worker: Text,
    pub instance: Text,
    pub lanes: Vec<LaneWish>,
    pub mode: LaneMode,
    pub kinds: Option<Arc<[Text]>>,
    pub capabilities: Capabilities,
    pub lease_ms: u64,
    pub max_bytes: usize,
    pub claim_ref: Option<[u8; 32]>,
    pub principal: command::Principal,
}

impl ClaimSpec {
    pub fn lane_key(&self, wish: &LaneWish) -> LaneKey {
        LaneKey { namespace: self.namespace.clone(), lane: wish.lane.clone() }
    }

    pub fn lane_keys(&self) -> impl Iterator<Item = LaneKey> {
        self.lanes.iter().map(|wish| self.lane_key(wish))
    }
}
